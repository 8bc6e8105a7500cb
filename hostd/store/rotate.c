/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Setting a timeline aside and beginning a new one: what it says of workspaces that live on goes along. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/store.h"
#include "lib/cleanup.h"
#include "lib/json.h"

#define SYNC_MS 10000

enum { PART_MAX = 4096 };

/* Every state as [ws, key, text]; NULL: they cannot be read. */
static json_t *read_states(const char *path)
{
	json_t *list = json_array();
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL); /* the log is recovered */

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(db, "SELECT ws, key, json FROM states", -1, &st, NULL);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW && json_array_append_new(list, json_pack("[s,s,s]", sqlite3_column_text(st, 0),
									      sqlite3_column_text(st, 1),
									      sqlite3_column_text(st, 2))))
			rc = SQLITE_CORRUPT; /* no text */
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	if (rc != SQLITE_DONE) {
		json_decref(list);
		return NULL;
	}
	return list;
}

/* A file of the timeline: where it is, and the end of its name beside the database that was set aside. */
struct part {
	const char *base, *end, *end_aside;
};

/* The database is the last of them: whatever fails before, it is still where it was. */
static size_t parts_of(const struct store_config *cfg, bool new_key, struct part parts[6])
{
	const char *anchor = cfg->anchor_path, *key = cfg->key_path;
	size_t n = 0;

	if (new_key) {
		parts[n++] = (struct part){ key ? key : cfg->path, key ? "" : ".key", ".key" };
		parts[n++] = (struct part){ key ? key : cfg->path, key ? ".pub" : ".key.pub", ".key.pub" };
	}
	parts[n++] = (struct part){ anchor ? anchor : cfg->path, anchor ? "" : ".anchor", ".anchor" };
	parts[n++] = (struct part){ cfg->path, "-wal", "-wal" };
	parts[n++] = (struct part){ cfg->path, "-shm", "-shm" };
	parts[n++] = (struct part){ cfg->path, "", "" };
	return n;
}

static int part_paths(const struct part *part, const char *aside, char a[PART_MAX], char b[PART_MAX], struct err *e)
{
	if (snprintf(a, PART_MAX, "%s%s", part->base, part->end) >= PART_MAX ||
	    snprintf(b, PART_MAX, "%s%s", aside, part->end_aside) >= PART_MAX)
		return err_set(e, "%s: the path is too long", part->base);
	return 0;
}

static int move_all(const struct store_config *cfg, const char *aside, bool new_key, struct err *e)
{
	struct part parts[6];
	size_t n = parts_of(cfg, new_key, parts);
	char a[PART_MAX], b[PART_MAX];

	for (size_t i = 0; i < n; i++) {
		if (part_paths(&parts[i], aside, a, b, e))
			return -1;
		if (rename(a, b) < 0 && (errno != ENOENT || i == n - 1))
			return err_errno(e, "rename %s", a);
	}
	return 0;
}

/* What was set aside is the timeline again: one that was not begun must not stand for it, without what is held. */
static void put_back(const struct store_config *cfg, const char *aside, bool new_key, bool begun)
{
	struct part parts[6];
	size_t n = parts_of(cfg, new_key, parts);
	char a[PART_MAX], b[PART_MAX];

	for (size_t i = 0; i < n; i++) {
		if (part_paths(&parts[i], aside, a, b, NULL))
			continue;
		if (rename(b, a) < 0 && errno == ENOENT && begun)
			unlink(a);
	}
}

/* The new timeline: the row that names the old one, and what is known of workspaces. */
static int begin_anew(const struct store_config *cfg, const char *moved, const char *why, const json_t *states,
		      struct err *e)
{
	const char *name = strrchr(moved, '/');
	_cleanup_json_ json_t *data = json_pack("{s:s,s:s*}", "file", name ? name + 1 : moved, "text", why);
	_cleanup_free_ char *text = data ? json_text(data) : NULL;
	struct store_row row = { .kind = EVENT_STORE_ROTATED, .verdict = event_defs[EVENT_STORE_ROTATED].verdict,
				 .data = text };
	const json_t *state;
	struct store *s;
	size_t i;
	int rc;

	if (store_open(cfg, NULL, NULL, &s, e))
		return -1;
	rc = store_append_row(s, &row, e);
	json_array_foreach (states, i, state)
		if (rc >= 0)
			rc = store_put_state(s, json_string_value(json_array_get(state, 0)),
					     json_string_value(json_array_get(state, 1)),
					     json_string_value(json_array_get(state, 2)), e);
	if (rc >= 0)
		rc = store_sync(s, SYNC_MS, e);
	store_close(s);
	return rc < 0 ? -1 : 0;
}

int store_rotate(const struct store_config *cfg, const char *why, bool new_key, const json_t *if_lost, char *moved,
		 size_t size, bool *lost, struct err *e)
{
	_cleanup_json_ json_t *states = NULL;
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;

	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	if ((size_t)snprintf(moved, size, "%s.%s", cfg->path, stamp) >= size)
		return err_set(e, "timeline: the path is too long");
	if (access(moved, F_OK) == 0)
		return err_set(e, "%s is there already", moved);
	if (access(cfg->path, F_OK) < 0)
		return err_errno(e, "%s", cfg->path);
	states = read_states(cfg->path);
	*lost = !states;
	if (move_all(cfg, moved, new_key, e)) {
		put_back(cfg, moved, new_key, false);
		return -1;
	}
	if (begin_anew(cfg, moved, why, states ? states : if_lost, e)) {
		put_back(cfg, moved, new_key, true);
		return -1;
	}
	return 0;
}
