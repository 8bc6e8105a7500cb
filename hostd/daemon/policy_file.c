/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_file.c - policy.yaml edited by hand: what an editor left there is applied as `policy apply` would.
 *
 * A file is read when it stayed as it is from one look to the next, so that most saves are seen whole; one
 * that is read half-written is refused like any bad document and read again when the rest of it is there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "hostd/daemon/policy_methods.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/loop.h"

enum { LOOK_MS = 500 };

#define AUTHOR "an edit of policy.yaml"

static struct policy_stamp stamp_of(const char *path)
{
	struct policy_stamp s = { 0 };
	struct stat st;

	if (stat(path, &st) < 0) {
		s.missing = errno == ENOENT;
	} else {
		s.regular = S_ISREG(st.st_mode);
		s.ino = (uint64_t)st.st_ino;
		s.size = (int64_t)st.st_size;
		s.changed_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
	}
	return s;
}

static bool same_stamp(const struct policy_stamp *a, const struct policy_stamp *b)
{
	return a->missing == b->missing && a->regular == b->regular && a->ino == b->ino && a->size == b->size &&
	       a->changed_ns == b->changed_ns;
}

static bool is_in_force(const struct workspace *ws, const struct buf *text)
{
	size_t len = 0;
	const char *source = ws->policy ? policy_source(ws->policy, &len) : NULL;

	return source && len == text->len && !memcmp(source, text->data, len);
}

static void say_error(struct workspace *ws, const char *why)
{
	snprintf(ws->policy_error, sizeof(ws->policy_error), "policy.yaml: %s", why);
}

static void take(struct workspace *ws, const char *path, const struct policy_stamp *stamp)
{
	_cleanup_json_ json_t *reply = NULL;
	struct err err = { "" };
	struct buf text;

	if (!stamp->regular) {
		if (ws->policy)
			say_error(ws, stamp->missing ? "the file is gone" : "not a file that can be read");
		return;
	}
	buf_init(&text, POLICY_BYTES_MAX);
	if (io_read_file(path, &text, &err)) {
		say_error(ws, err.text);
	} else if (is_in_force(ws, &text)) {
		ws->policy_error[0] = '\0';
	} else if (policy_apply_text(ws, (const char *)text.data, text.len, AUTHOR, "edited by hand",
				     POLICY_APPLY_FILE, &reply, &err)) {
		say_error(ws, err.text);
	} else if (!strcmp(json_string_value(json_object_get(reply, "outcome")), "refused")) {
		say_error(ws, json_string_value(json_object_get(reply, "text")));
	}
	buf_free(&text);
}

void policy_file_look(struct workspace *ws, bool now)
{
	char path[sizeof(ws->dir) + 16];
	struct policy_stamp stamp;
	bool settled;

	if (!now && loop_now_ms() - ws->policy_file.looked_ms < LOOK_MS)
		return;
	ws->policy_file.looked_ms = loop_now_ms();
	snprintf(path, sizeof(path), "%s/policy.yaml", ws->dir);
	stamp = stamp_of(path);
	settled = same_stamp(&stamp, &ws->policy_file.seen);
	ws->policy_file.seen = stamp;
	if (same_stamp(&stamp, &ws->policy_file.taken) || (!settled && !now))
		return;
	ws->policy_file.taken = stamp;
	take(ws, path, &stamp);
}
