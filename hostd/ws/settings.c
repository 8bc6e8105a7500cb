/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A workspace's settings: one table of keys, with types, bounds and defaults. */
#include "hostd/ws/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

enum { SETTINGS_SCHEMA = 1, SETTINGS_BYTES_MAX = 256 * 1024, ENTRY_BYTES_MAX = 4096 };

static const struct json_limits limits = { .bytes = SETTINGS_BYTES_MAX, .depth = 4, .values = 4096 };

const struct setting settings_table[] = {
	{ "image", SETTING_TEXT, 0, 255, NULL, "current", "guest image: a digest, or current", true },
	{ "kernel", SETTING_TEXT, 0, 95, NULL, "default", "kernel release of the image, or default", true },
	{ "cpus", SETTING_INT, 1, 64, NULL, "1", "virtual CPUs", true },
	{ "memory_mib", SETTING_INT, 256, 1048576, NULL, "1024", "memory in MiB", true },
	{ "home_gib", SETTING_INT, 1, 4096, NULL, "64", "apparent size of /home in GiB", true },
	{ "accel", SETTING_CHOICE, 0, 0, "auto|kvm|tcg", "auto", "auto is KVM if it really runs a guest", true },
	{ "strict", SETTING_BOOL, 0, 0, NULL, "false", "Landlock, seccomp and privilege drop", true },
	{ "sentry", SETTING_CHOICE, 0, 0, "off|best_effort|required", "best_effort", "the kernel monitor", true },
	{ "mode", SETTING_CHOICE, 0, 0, "off|alert|quarantine", "quarantine", "what a tripped score does", false },
	{ "on_store_full", SETTING_CHOICE, 0, 0, "pause|run", "pause", "when the timeline can't be written", false },
	{ "segment", SETTING_TEXT, 0, 0, NULL, "", "a segment that workspaces share: not available yet", true },
	{ "nameservers", SETTING_LIST, 0, 3, NULL, NULL, "resolvers of allowed names; empty: the host's", true },
	{ "mutes", SETTING_LIST, 0, 64, NULL, NULL, "signals not scored, as KIND:PROGRAM", false },
	{ "env", SETTING_MAP, 0, 128, NULL, NULL, "environment of every command", false },
	{ "ports", SETTING_LIST, 0, 0, NULL, NULL, "guest ports reachable from this host: not available yet", true },
	{ NULL, 0, 0, 0, NULL, NULL, NULL, false },
};

const struct setting *settings_find(const char *key)
{
	for (const struct setting *s = settings_table; s->key; s++) {
		const char *a = s->key, *b = key;

		while (*a && (*a == *b || (*a == '_' && *b == '-')))
			a++, b++;
		if (!*a && !*b)
			return s;
	}
	return NULL;
}

static bool is_choice(const char *choices, const char *text)
{
	size_t n = strlen(text);

	while (n && *choices) {
		size_t len = strcspn(choices, "|");

		if (len == n && !strncmp(choices, text, n))
			return true;
		choices += len + (choices[len] == '|');
	}
	return false;
}

static int check_entries(const struct setting *s, const json_t *value, struct err *err)
{
	const char *key;
	json_t *entry;
	size_t i;

	if ((long)(json_is_array(value) ? json_array_size(value) : json_object_size(value)) > s->max)
		return err_set(err, "%s: at most %ld entries", s->key, s->max);
	json_array_foreach((json_t *)value, i, entry)
		if (!json_is_string(entry) || json_string_length(entry) > ENTRY_BYTES_MAX)
			return err_set(err, "%s[%zu]: must be text of at most %d bytes", s->key, i,
				       ENTRY_BYTES_MAX);
	json_object_foreach((json_t *)value, key, entry)
		if (!json_is_string(entry) || json_string_length(entry) > ENTRY_BYTES_MAX ||
		    !*key || strchr(key, '='))
			return err_set(err, "%s.%s: must be a name with text of at most %d bytes", s->key,
				       key, ENTRY_BYTES_MAX);
	return 0;
}

/* A key of the schema that nothing acts on yet takes no value, so that nobody relies on it. */
static bool reserved(const struct setting *s)
{
	return s->type != SETTING_CHOICE && s->type != SETTING_BOOL && !s->max;
}

static int check_value(const struct setting *s, const json_t *value, struct err *err)
{
	json_int_t number = json_integer_value(value);

	if (reserved(s) && (json_string_length(value) || json_array_size(value)))
		return err_set(err, "%s: not available yet; leave it empty", s->key);

	switch (s->type) {
	case SETTING_TEXT:
		if (!json_is_string(value) || (long)json_string_length(value) > s->max)
			return err_set(err, "%s: must be text of at most %ld bytes", s->key, s->max);
		return 0;
	case SETTING_CHOICE:
		if (!json_is_string(value) || !is_choice(s->choices, json_string_value(value)))
			return err_set(err, "%s: must be one of %s", s->key, s->choices);
		return 0;
	case SETTING_INT:
		if (!json_is_integer(value) || number < s->min || number > s->max)
			return err_set(err, "%s: must be a number from %ld to %ld", s->key, s->min, s->max);
		return 0;
	case SETTING_BOOL:
		return json_is_boolean(value) ? 0 : err_set(err, "%s: must be true or false", s->key);
	case SETTING_LIST:
		if (!json_is_array(value))
			return err_set(err, "%s: must be a list", s->key);
		return check_entries(s, value, err);
	case SETTING_MAP:
		if (!json_is_object(value))
			return err_set(err, "%s: must be names with values", s->key);
		return check_entries(s, value, err);
	}
	return err_set(err, "%s: unknown type", s->key);
}

static json_t *list_from(const char *text)
{
	json_t *list = json_array();

	while (*text) {
		size_t len = strcspn(text, ",");

		if (len)
			json_array_append_new(list, json_stringn(text, len));
		text += len + (text[len] == ',');
	}
	return list;
}

/* NULL when the text is none of this type. */
static json_t *scalar_from(const struct setting *s, const char *text)
{
	char *end;
	long number;

	switch (s->type) {
	case SETTING_INT:
		errno = 0;
		number = strtol(text, &end, 10);
		return *text && !*end && !errno ? json_integer(number) : NULL;
	case SETTING_BOOL:
		if (!strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on"))
			return json_true();
		if (!strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off"))
			return json_false();
		return NULL;
	case SETTING_LIST:
		return list_from(text);
	default:
		return json_string(text);
	}
}

static int set_map_entry(json_t *map, const struct setting *s, const char *text, struct err *err)
{
	const char *equals = strchr(text, '=');
	_cleanup_free_ char *name = NULL;

	if (!equals || equals == text)
		return err_set(err, "%s: takes NAME=VALUE, or NAME= to remove it", s->key);
	name = strndup(text, (size_t)(equals - text));
	if (!name)
		return err_set(err, "out of memory");
	if (!equals[1]) {
		json_object_del(map, name);
		return 0;
	}
	if (json_object_set_new(map, name, json_string(equals + 1)))
		return err_set(err, "%s.%s: not valid UTF-8", s->key, name);
	return check_value(s, map, err);
}

json_t *settings_default(void)
{
	json_t *settings = json_pack("{s:i}", "schema", SETTINGS_SCHEMA);

	for (const struct setting *s = settings_table; settings && s->key; s++)
		json_object_set_new(settings, s->key,
				    s->type == SETTING_MAP ? json_object() :
				    s->type == SETTING_LIST ? json_array() : scalar_from(s, s->def));
	return settings;
}

int settings_set(json_t *settings, const char *key, const char *text, struct err *err)
{
	const struct setting *s = settings_find(key);
	json_t *value;

	if (!s)
		return err_set(err, "no setting is named \"%s\"", key);
	if (s->type == SETTING_MAP)
		return set_map_entry(json_object_get(settings, s->key), s, text, err);
	value = scalar_from(s, text);
	if (!value || check_value(s, value, err)) {
		if (!value && s->type == SETTING_INT)
			err_set(err, "%s: must be a number from %ld to %ld, not \"%s\"", s->key, s->min,
				s->max, text);
		else if (!value)
			err_set(err, "%s: must be true or false, not \"%s\"", s->key, text);
		json_decref(value);
		return -1;
	}
	return json_object_set_new(settings, s->key, value) ? err_set(err, "out of memory") : 0;
}

int settings_check(const json_t *settings, struct err *err)
{
	const char *key;
	json_t *value;
	int64_t schema;

	if (!json_is_object(settings))
		return err_set(err, "must be an object");
	if (json_get_int(settings, "schema", &schema, err))
		return -1;
	if (schema != SETTINGS_SCHEMA)
		return err_set(err, "schema %lld is not known here (this is schema %d)", (long long)schema,
			       SETTINGS_SCHEMA);
	json_object_foreach((json_t *)settings, key, value) {
		const struct setting *s = settings_find(key);

		if (!strcmp(key, "schema"))
			continue;
		if (!s || strcmp(s->key, key))
			return err_set(err, "unknown key \"%s\"", key);
		if (check_value(s, value, err))
			return -1;
	}
	return 0;
}

json_t *settings_load(int dirfd, struct err *err)
{
	json_t *settings = NULL, *all = NULL;
	struct buf text;

	buf_init(&text, SETTINGS_BYTES_MAX);
	if (!io_read_file_at(dirfd, "workspace.json", &text, err))
		settings = json_parse(text.data, text.len, &limits, err);
	buf_free(&text);
	if (!settings || settings_check(settings, err)) {
		err_prefix(err, "workspace.json");
		json_decref(settings);
		return NULL;
	}
	all = settings_default();
	json_object_update(all, settings);
	json_decref(settings);
	return all;
}

int settings_save(int dirfd, const json_t *settings, struct err *err)
{
	_cleanup_free_ char *text = NULL;

	if (settings_check(settings, err))
		return -1;
	text = json_dumps(settings, JSON_INDENT(2) | JSON_SORT_KEYS);
	if (!text)
		return err_set(err, "out of memory");
	return io_write_file_atomic(dirfd, "workspace.json", text, strlen(text), 0600, err);
}

const char *settings_text(const json_t *settings, const char *key)
{
	return json_string_value(json_object_get(settings, key));
}

long settings_int(const json_t *settings, const char *key)
{
	return (long)json_integer_value(json_object_get(settings, key));
}

bool settings_bool(const json_t *settings, const char *key)
{
	return json_is_true(json_object_get(settings, key));
}
