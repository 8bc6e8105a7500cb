/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strict JSON (RFC 8259) over jansson: limits before parsing, typed getters that name the key. */
#ifndef HOLDFAST_LIB_JSON_H
#define HOLDFAST_LIB_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

static inline void cleanup_json(json_t **json)
{
	json_decref(*json);
}
#define _cleanup_json_ __attribute__((cleanup(cleanup_json)))

struct json_limits {
	size_t bytes;  /* longest text */
	size_t depth;  /* nesting of arrays and objects, 1 = flat */
	size_t values; /* commas and colons, a bound on the number of values */
};

/*
 * Parses one value that fills the text. Limits are checked on the raw bytes first, so nothing is
 * allocated for a text that breaks them; duplicate keys, NUL in strings and trailing bytes are
 * refused. The caller owns the result. Errors name line and column.
 */
json_t *json_parse(const void *text, size_t n, const struct json_limits *limits, struct err *err);

/* Getters return 0 when the key is there with this type; -1 with the key named otherwise. */
int json_get_str(const json_t *object, const char *key, const char **out, struct err *err);
int json_get_int(const json_t *object, const char *key, int64_t *out, struct err *err);
int json_get_bool(const json_t *object, const char *key, bool *out, struct err *err);
int json_get_object(const json_t *object, const char *key, json_t **out, struct err *err);
int json_get_array(const json_t *object, const char *key, json_t **out, struct err *err);
/* Optional ones: a missing key gives the default and 0; a wrong type is an error all the same. */
int json_opt_str(const json_t *object, const char *key, const char **out, const char *def, struct err *err);
int json_opt_int(const json_t *object, const char *key, int64_t *out, int64_t def, struct err *err);
int json_opt_bool(const json_t *object, const char *key, bool *out, bool def, struct err *err);

/* For reading what was checked before: the member's text, owned by the object, or "" when it is no text or not there. */
static inline const char *json_str(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* Every key of the object must be in this NULL-terminated list; an unknown one is named. */
int json_only_keys(const json_t *object, const char *const *keys, struct err *err);

/* Compact text with sorted keys; the caller frees it. NULL when out of memory. */
char *json_text(const json_t *json);

#endif
