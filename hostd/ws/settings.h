/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A workspace's settings: one table of keys, with types, bounds and defaults. */
#ifndef HOLDFAST_WS_SETTINGS_H
#define HOLDFAST_WS_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/err.h"

enum setting_type { SETTING_TEXT, SETTING_CHOICE, SETTING_INT, SETTING_BOOL, SETTING_LIST, SETTING_MAP };

/* One key of workspace.json, which is also `--key` of `ws create` and `ws set` ('_' may be '-'). */
struct setting {
	const char *key;
	enum setting_type type;
	long min, max;	       /* INT: inclusive; LIST, MAP: max entries; TEXT: max bytes; max 0: no value yet */
	const char *choices;   /* CHOICE: "a|b|c" */
	const char *def;       /* as text; LIST and MAP start empty */
	const char *help;
	bool next_start;       /* a change takes effect at the next start */
};

/* The table; ends with a NULL key. */
extern const struct setting settings_table[];
const struct setting *settings_find(const char *key);

/* All keys with their defaults. The settings are one JSON object, the caller's. */
json_t *settings_default(void);

/*
 * Sets one key from text. A list takes "a,b" (replacing it); a map takes NAME=VALUE (adding), or
 * NAME= (removing). Errors name the key and what it takes.
 */
int settings_set(json_t *settings, const char *key, const char *text, struct err *err);

/* Checks a whole object: schema version, no unknown keys, every value in its bounds. */
int settings_check(const json_t *settings, struct err *err);

/* workspace.json in a workspace's folder. Missing keys get their defaults. NULL with err on failure. */
json_t *settings_load(int dirfd, struct err *err);
int settings_save(int dirfd, const json_t *settings, struct err *err);

/* Values of checked settings; the key must be of that type. */
const char *settings_text(const json_t *settings, const char *key);
long settings_int(const json_t *settings, const char *key);
bool settings_bool(const json_t *settings, const char *key);

#endif
