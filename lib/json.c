/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strict JSON (RFC 8259) over jansson: limits before parsing, typed getters that name the key. */
#include "lib/json.h"

#include <string.h>

static int check_limits(const char *text, size_t n, const struct json_limits *limits, struct err *err)
{
	size_t depth = 0, values = 1;
	bool in_string = false;

	if (n > limits->bytes)
		return err_set(err, "JSON text of %zu bytes, at most %zu allowed", n, limits->bytes);
	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
			continue;
		}
		if (c == '"')
			in_string = true;
		else if ((c == '{' || c == '[') && ++depth > limits->depth)
			return err_set(err, "JSON nested deeper than %zu", limits->depth);
		else if ((c == '}' || c == ']') && depth)
			depth--;
		else if ((c == ',' || c == ':') && ++values > limits->values)
			return err_set(err, "JSON with more than %zu values", limits->values);
	}
	return 0;
}

json_t *json_parse(const void *text, size_t n, const struct json_limits *limits, struct err *err)
{
	json_error_t where;
	json_t *json;

	if (check_limits(text, n, limits, err))
		return NULL;
	json = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
	if (!json)
		err_set(err, "JSON line %d column %d: %s", where.line, where.column, where.text);
	return json;
}

static int wrong(const char *key, const char *want, const json_t *have, struct err *err)
{
	if (!have)
		return err_set(err, "\"%s\" is missing (expected %s)", key, want);
	return err_set(err, "\"%s\" must be %s", key, want);
}

int json_get_str(const json_t *object, const char *key, const char **out, struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_string(value))
		return wrong(key, "a string", value, err);
	*out = json_string_value(value);
	return 0;
}

int json_get_int(const json_t *object, const char *key, int64_t *out, struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		return wrong(key, "an integer", value, err);
	*out = json_integer_value(value);
	return 0;
}

int json_get_bool(const json_t *object, const char *key, bool *out, struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_boolean(value))
		return wrong(key, "true or false", value, err);
	*out = json_is_true(value);
	return 0;
}

int json_get_object(const json_t *object, const char *key, json_t **out, struct err *err)
{
	json_t *value = json_object_get(object, key);

	if (!json_is_object(value))
		return wrong(key, "an object", value, err);
	*out = value;
	return 0;
}

int json_get_array(const json_t *object, const char *key, json_t **out, struct err *err)
{
	json_t *value = json_object_get(object, key);

	if (!json_is_array(value))
		return wrong(key, "a list", value, err);
	*out = value;
	return 0;
}

int json_opt_str(const json_t *object, const char *key, const char **out, const char *def, struct err *err)
{
	*out = def;
	return json_object_get(object, key) ? json_get_str(object, key, out, err) : 0;
}

int json_opt_int(const json_t *object, const char *key, int64_t *out, int64_t def, struct err *err)
{
	*out = def;
	return json_object_get(object, key) ? json_get_int(object, key, out, err) : 0;
}

int json_opt_bool(const json_t *object, const char *key, bool *out, bool def, struct err *err)
{
	*out = def;
	return json_object_get(object, key) ? json_get_bool(object, key, out, err) : 0;
}

int json_only_keys(const json_t *object, const char *const *keys, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		const char *const *known = keys;

		while (*known && strcmp(*known, key))
			known++;
		if (!*known)
			return err_set(err, "unknown key \"%s\"", key);
	}
	return 0;
}

char *json_text(const json_t *json)
{
	return json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
}
