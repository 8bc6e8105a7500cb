/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_methods.c - changing a workspace's policy: apply, history, rollback.
 *
 * Every version that was accepted stays in the workspace's folder `policies/` as NNNNNN.yaml with a note
 * NNNNNN.json (author, time, digest), so that one can say what was in force when, and go back.  The file
 * policy.yaml is what is in force; it is replaced only by a document that the engine accepted within the
 * boundary, and the version is written before it.
 */
#include "hostd/daemon/policy_methods.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "hostd/policy/json.h"
#include "hostd/policy/text.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/log.h"

#define VERSIONS_DIR "policies"
#define VERSIONS_MAX 100000

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The folder of versions, made if it is not there; -1. */
static int versions_dir(const struct workspace *ws, struct err *err)
{
	char path[sizeof(ws->dir) + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/" VERSIONS_DIR, ws->dir);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open %s", path) : fd;
}

static int last_version(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), last = 0, v;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	char end;

	if (!d && copy >= 0)
		close(copy);
	while (d && (e = readdir(d)) != NULL)
		if (sscanf(e->d_name, "%6d.yam%c", &v, &end) == 2 && end == 'l' && v > last)
			last = v;
	if (d)
		closedir(d);
	return last;
}

static int write_version(int dir, int version, const char *text, size_t len, const char *digest,
			 const char *author, const char *note, struct err *err)
{
	_cleanup_json_ json_t *about = json_pack("{s:i,s:I,s:s,s:s,s:s}", "version", version, "time_ns",
						 (json_int_t)now_ns(), "author", author, "digest", digest, "note",
						 note);
	_cleanup_free_ char *json = json_text(about);
	char name[32];

	if (!json)
		return err_set(err, "out of memory");
	if (version > VERSIONS_MAX)
		return err_set(err, "the workspace has too many policy versions");
	snprintf(name, sizeof(name), "%06d.json", version);
	if (io_write_file_atomic(dir, name, json, strlen(json), 0600, err))
		return -1;
	snprintf(name, sizeof(name), "%06d.yaml", version);
	return io_write_file_atomic(dir, name, text, len, 0600, err);
}

static struct policy *read_version(int dir, int version, struct buf *text, struct err *err)
{
	struct policy_diags d = { 0 };
	struct policy *p = NULL;
	char name[32];

	snprintf(name, sizeof(name), "%06d.yaml", version);
	if (!io_read_file_at(dir, name, text, err)) {
		p = policy_parse(text->data, text->len, POLICY_STRICT, &d);
		if (!p)
			err_set(err, "version %d: %s", version, d.n ? d.v[0].text : "cannot be read");
	}
	policy_diags_free(&d);
	return p;
}

/* What was in force before the first change becomes version 1. */
static int keep_first(const struct workspace *ws, int dir, struct err *err)
{
	const char *text;
	size_t len;

	if (!ws->policy || last_version(dir))
		return 0;
	text = policy_source(ws->policy, &len);
	return write_version(dir, 1, text, len, policy_digest(ws->policy), "", "as the workspace was made", err);
}

static json_t *lines_json(const struct policy *from, const struct policy *to)
{
	json_t *added = json_array(), *removed = json_array();
	struct policy_lines l;

	if (policy_diff(from, to, &l) >= 0) {
		for (size_t i = 0; i < l.n; i++)
			json_array_append_new(l.v[i][0] == '+' ? added : removed, json_string(l.v[i] + 2));
		policy_lines_free(&l);
	}
	return json_pack("{s:o,s:o}", "added", added, "removed", removed);
}

static void rejudged(void *user, bool ok, const json_t *result, const char *why)
{
	(void)user;
	(void)ok;
	(void)result;
	(void)why;
}

static const char *outcome_name(enum policy_reload o)
{
	static const char *const names[] = { "now", "next_start", "same", "refused" };

	return names[o];
}

static void note_policy(struct workspace *ws, enum event_kind kind, const char *author, int version, const char *text)
{
	char what[640];

	if (version)
		snprintf(what, sizeof(what), "version %d, %s", version, text);
	workspace_event(ws, kind, json_pack("{s:s,s:s}", "author", author, "text", version ? what : text));
}

int policy_apply_text(struct workspace *ws, const char *text, size_t len, const char *author, const char *note,
		      enum policy_apply how, json_t **reply, struct err *err)
{
	bool dry_run = how == POLICY_APPLY_DRY;

	struct policy *boundary = NULL, *next = NULL;
	struct policy_reload_report report;
	struct policy_diags diags = { 0 };
	_cleanup_close_ int dir = -1;
	_cleanup_close_ int home = -1;
	int version = 0, rc = -1;

	if (workspace_boundary(ws->hostd, &boundary, err))
		return -1;
	policy_reload(ws->policy, boundary, text, len, &next, &diags, &report);
	policy_put(boundary);
	if (report.outcome == POLICY_RELOAD_REFUSED) {
		*reply = json_pack("{s:s,s:s,s:o}", "outcome", "refused", "text", report.text, "diagnostics",
				   policy_diags_json(&diags));
		if (!dry_run)
			note_policy(ws, EVENT_POLICY_REFUSED, author, 0, report.text);
		rc = 0;
		goto out;
	}
	if (!dry_run && report.outcome != POLICY_RELOAD_SAME) {
		home = open(ws->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dir = versions_dir(ws, err);
		if (home < 0 || dir < 0 || keep_first(ws, dir, err))
			goto out;
		version = last_version(dir) + 1;
		if (write_version(dir, version, text, len, policy_digest(next), author, note, err) ||
		    (how == POLICY_APPLY && io_write_file_atomic(home, "policy.yaml", text, len, 0600, err)))
			goto out;
	}
	*reply = json_pack("{s:s,s:s,s:i,s:o,s:o,s:s}", "outcome", outcome_name(report.outcome), "text", report.text,
			   "version", version, "diff", lines_json(ws->policy, next), "diagnostics",
			   policy_diags_json(&diags), "digest", policy_digest(next));
	rc = 0;
	if (dry_run)
		goto out;
	policy_put(ws->policy);
	ws->policy = next;
	next = NULL;
	ws->policy_error[0] = '\0';
	if (report.outcome != POLICY_RELOAD_SAME)
		note_policy(ws, EVENT_POLICY_APPLIED, author, version, report.text);
	if (workspace_judge_load(ws, ws->settings, author, false, err))
		log_warn("%s: %s", ws->name, err->text);
	if (ws->vm && report.outcome != POLICY_RELOAD_SAME && !strcmp(workspace_level(ws), "strict"))
		msg_send_new(ws->vm, ROLE_VM_GUEST_SEND, json_pack("{s:{s:s,s:o}}", "msg", "type", "hash_programs",
								   "programs", guest_hash_programs(ws)));
	if (ws->vm && report.outcome != POLICY_RELOAD_SAME)
		vmlink_request(ws, ROLE_VM_REJUDGE, json_object(), -1, rejudged, NULL);
out:
	if (rc && !*err->text)
		err_errno(err, "cannot open %s", ws->dir);
	policy_diags_free(&diags);
	policy_put(next);
	return rc;
}

static struct workspace *find(struct hostd *hostd, struct api_call *call, const json_t *params)
{
	const char *name;
	struct workspace *ws;
	struct err err;

	if (json_get_str(params, "name", &name, &err)) {
		api_fail_err(call, &err);
		return NULL;
	}
	ws = workspace_find(hostd, name);
	if (!ws)
		api_fail(call, "no workspace is named %s", name);
	return ws;
}

static const char *author_of(const json_t *params)
{
	const char *text = json_string_value(json_object_get(params, "author"));

	return text ? text : "the user";
}

void policy_apply_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = find(user, call, params);
	json_t *reply = NULL;
	struct err err = { "" };
	const char *text;
	bool dry_run;

	if (!ws)
		return;
	if (json_get_str(params, "policy", &text, &err) ||
	    json_opt_bool(params, "dry_run", &dry_run, false, &err) ||
	    policy_apply_text(ws, text, strlen(text), author_of(params), "applied",
			      dry_run ? POLICY_APPLY_DRY : POLICY_APPLY, &reply, &err))
		api_fail_err(call, &err);
	else
		api_reply(call, reply);
}

void policy_rollback_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = find(user, call, params);
	_cleanup_close_ int dir = -1;
	struct err err = { "" };
	struct policy *p = NULL;
	json_t *reply = NULL;
	struct buf text;
	char note[64];
	int64_t version;

	if (!ws)
		return;
	buf_init(&text, POLICY_BYTES_MAX);
	if (!json_get_int(params, "version", &version, &err) && (dir = versions_dir(ws, &err)) >= 0) {
		if (version < 1 || version > VERSIONS_MAX)
			err_set(&err, "there is no version %lld", (long long)version);
		else
			p = read_version(dir, (int)version, &text, &err);
	}
	snprintf(note, sizeof(note), "rolled back to version %lld", p ? (long long)version : 0);
	if (!p || policy_apply_text(ws, (const char *)text.data, text.len, author_of(params), note, POLICY_APPLY,
				    &reply, &err))
		api_fail_err(call, &err);
	else
		api_reply(call, reply);
	policy_put(p);
	buf_free(&text);
}

static json_t *about_version(int dir, int version)
{
	struct buf b;
	struct err err;
	char name[32];
	json_t *j = NULL;

	buf_init(&b, 65536);
	snprintf(name, sizeof(name), "%06d.json", version);
	if (!io_read_file_at(dir, name, &b, &err))
		j = json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	buf_free(&b);
	return j;
}

void policy_history_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = find(user, call, params);
	json_t *list = json_array();
	struct policy *before = NULL;
	_cleanup_close_ int dir = -1;
	struct err err = { "" };
	int last;

	if (!ws) {
		json_decref(list);
		return;
	}
	dir = versions_dir(ws, &err);
	if (dir < 0) {
		json_decref(list);
		api_fail_err(call, &err);
		return;
	}
	last = last_version(dir);
	for (int v = 1; v <= last; v++) {
		json_t *about = about_version(dir, v);
		struct policy *p;
		struct buf text;

		if (!about)
			continue;
		buf_init(&text, POLICY_BYTES_MAX);
		p = read_version(dir, v, &text, &err);
		json_object_set_new(about, "diff", lines_json(before, p));
		json_object_set_new(about, "in_force",
				    json_boolean(p && ws->policy &&
						 !strcmp(policy_digest(p), policy_digest(ws->policy)) && v == last));
		json_array_append_new(list, about);
		policy_put(before);
		before = p;
		buf_free(&text);
	}
	policy_put(before);
	api_reply(call, json_pack("{s:o}", "versions", list));
}
