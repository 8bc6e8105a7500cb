/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of workspaces, and what is the same for all of their states. */
#include "hostd/daemon/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/daemon/policy_methods.h"
#include "hostd/ws/settings.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/log.h"

static const char *const state_names[] = { "off", "starting", "running", "paused", "stopping" };

const char *workspace_state_name(const struct workspace *ws)
{
	if (ws->quarantine && quarantine_state(ws->quarantine) != QUARANTINE_FREE)
		return "quarantined";
	return state_names[ws->state];
}

struct workspace *workspace_find(struct hostd *hostd, const char *name)
{
	struct workspace *ws = hostd->workspaces;

	while (ws && strcmp(ws->name, name))
		ws = ws->next;
	return ws;
}

static int read_policy(const struct workspace *ws, struct buf *text, bool *present, struct err *err)
{
	char path[sizeof(ws->dir) + 16];

	snprintf(path, sizeof(path), "%s/policy.yaml", ws->dir);
	*present = !access(path, F_OK);
	return *present ? io_read_file(path, text, err) : 0;
}

/* The organisation's boundary, else the user's; *out stays NULL when there is none. */
int workspace_boundary(const struct hostd *hostd, struct policy **out, struct err *err)
{
	char user[PATHS_MAX + 24];
	const char *path = "/etc/holdfast/boundary.yaml";
	struct policy_diags diags = { 0 };
	struct buf text;

	*out = NULL;
	snprintf(user, sizeof(user), "%s/boundary.yaml", hostd->paths.config);
	if (access(path, F_OK))
		path = user;
	if (access(path, F_OK))
		return 0;
	buf_init(&text, POLICY_BYTES_MAX);
	if (!io_read_file(path, &text, err)) {
		*out = policy_parse(text.data, text.len, POLICY_STRICT, &diags);
		if (!*out)
			err_set(err, "%s: %s", path, diags.n ? diags.v[0].text : "not a policy");
	}
	policy_diags_free(&diags);
	buf_free(&text);
	return *out ? 0 : -1;
}

int workspace_policy_load(struct workspace *ws, struct err *err)
{
	struct policy *boundary = NULL, *next = NULL;
	struct policy_reload_report report = { 0 };
	struct policy_diags diags = { 0 };
	struct buf text;
	bool present = false;
	int rc = -1;

	buf_init(&text, POLICY_BYTES_MAX);
	if (read_policy(ws, &text, &present, err) || workspace_boundary(ws->hostd, &boundary, err))
		goto out;
	if (!present && boundary) {
		err_set(err, "a boundary is set, so the workspace needs a policy within it");
		goto out;
	}
	if (!present) {
		policy_put(ws->policy);
		ws->policy = NULL;
		rc = 0;
		goto out;
	}
	policy_reload(ws->policy, boundary, text.data, text.len, &next, &diags, &report);
	if (report.outcome == POLICY_RELOAD_REFUSED) {
		err_set(err, "policy.yaml: %s", report.text);
		goto out;
	}
	policy_put(ws->policy);
	ws->policy = next;
	rc = 0;
out:
	snprintf(ws->policy_error, sizeof(ws->policy_error), "%s", rc && err ? err->text : "");
	policy_diags_free(&diags);
	policy_put(boundary);
	buf_free(&text);
	return rc;
}

const char *workspace_level(const struct workspace *ws)
{
	const struct policy_static *parts = ws->policy ? policy_static_parts(ws->policy) : NULL;

	if (settings_bool(ws->settings, "strict") || (parts && parts->has_process))
		return "strict";
	return parts && parts->has_filesystem ? "files" : "observe";
}

/* Weights, window and threshold of this machine: config/judge.json, if there is one (docs/protocol/timeline.md). */
static int judge_file(const struct workspace *ws, struct judge_config *config, struct err *err)
{
	static const struct json_limits limits = { .bytes = 65536, .depth = 4, .values = 1024 };
	_cleanup_json_ json_t *obj = NULL;
	char path[PATHS_MAX + 16];
	struct buf text;
	int rc;

	snprintf(path, sizeof(path), "%s/judge.json", ws->hostd->paths.config);
	if (access(path, F_OK))
		return 0;
	buf_init(&text, limits.bytes);
	rc = io_read_file(path, &text, err);
	obj = rc ? NULL : json_parse(text.data, text.len, &limits, err);
	buf_free(&text);
	return obj && !judge_config_parse(obj, config, err) ? 0 : err_prefix(err, "%s", path);
}

static int judge_settings(const struct workspace *ws, const json_t *settings, struct judge_config *config, struct err *err)
{
	_cleanup_json_ json_t *mutes = json_array();
	_cleanup_json_ json_t *overlay = json_pack("{s:O}", "mutes", mutes);
	json_t *mute;
	size_t i;

	judge_config_default(config);
	if (judge_file(ws, config, err))
		return -1;
	json_array_foreach(json_object_get(settings, "mutes"), i, mute) {
		const char *text = json_string_value(mute), *colon = strchr(text, ':');

		if (!colon)
			return err_set(err, "mutes: \"%s\" is not KIND:PROGRAM", text);
		json_array_append_new(mutes, json_pack("{s:s%,s:s}", "signal", text, (size_t)(colon - text),
						       "program", colon + 1));
	}
	if (judge_config_parse(overlay, config, err))
		return -1;
	config->strict = ws->guest_strict;
	config->required = ws->guest_required;
	return 0;
}

int workspace_judge_load(struct workspace *ws, const json_t *settings, const char *author, bool check, struct err *err)
{
	struct judge_config config;

	if (ws->state == WS_OFF) {
		ws->guest_strict = !strcmp(workspace_level(ws), "strict");
		ws->guest_required = !strcmp(settings_text(ws->settings, "sentry"), "required");
	}
	if (judge_settings(ws, settings, &config, err))
		return -1;
	if (check)
		return 0;
	ingest_reconfigure(ws->ingest, (int64_t)loop_now_ms(), &config, author);
	hold_settings(ws);
	return 0;
}

/* The pins of programs, as they were kept. */
static struct identity *identity_load(const struct workspace *ws)
{
	_cleanup_free_ char *text = ws->hostd->store ? store_get_state(ws->hostd->store, ws->name, "identity") : NULL;
	_cleanup_json_ json_t *kept = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

	return identity_new(kept);
}

void workspace_moves(struct workspace *ws)
{
	uint8_t raw[(sizeof(ws->stand) - 1) / 2];

	randombytes_buf(raw, sizeof(raw));
	hex_encode(ws->stand, raw, sizeof(raw));
}

static int open_parts(struct workspace *ws, struct err *err)
{
	static const struct ingest_ops ops = { .trip = hold_trip };
	struct judge_config config;
	_cleanup_close_ int dir = ws_open(&ws->hostd->paths, ws->name, err);

	if (dir < 0)
		return -1;
	workspace_moves(ws);
	ws->settings = settings_load(dir, err);
	if (!ws->settings)
		return -1;
	/* A policy that does not load makes the workspace unstartable, not unlisted. */
	workspace_policy_load(ws, err);
	ws->guest_strict = !strcmp(workspace_level(ws), "strict");
	ws->guest_required = !strcmp(settings_text(ws->settings, "sentry"), "required");
	if (judge_settings(ws, ws->settings, &config, err))
		return -1;
	ws->ingest = ingest_new(ws->hostd->store, ws->name, &config, &ops, ws, (int64_t)loop_now_ms());
	ws->processes = process_table_new();
	ws->flows = flow_join_new();
	ws->owners = owners_new();
	ws->identity = identity_load(ws);
	if (!ws->ingest || !ws->processes || !ws->flows || !ws->owners || !ws->identity)
		return err_set(err, "out of memory");
	return hold_new(ws, err);
}

static void workspace_free(struct workspace *ws)
{
	vmlink_close(ws);
	workspace_tell_over(ws, "the workspace is gone");
	decide_reset(ws);
	flow_join_free(ws->flows);
	owners_free(ws->owners);
	identity_free(ws->identity);
	process_table_free(ws->processes);
	quarantine_free(ws->quarantine);
	ingest_free(ws->ingest);
	loop_timer_del(ws->ready_timer);
	policy_put(ws->policy);
	json_decref(ws->settings);
	json_decref(ws->running);
	json_decref(ws->guest_status);
	free(ws);
}

struct workspace *workspace_add(struct hostd *hostd, const char *name, struct err *err)
{
	struct workspace *ws = calloc(1, sizeof(*ws));
	struct workspace **at = &hostd->workspaces;

	if (!ws) {
		err_set(err, "out of memory");
		return NULL;
	}
	ws->hostd = hostd;
	snprintf(ws->name, sizeof(ws->name), "%s", name);
	snprintf(ws->dir, sizeof(ws->dir), "%s/%s", hostd->paths.workspaces, name);
	snprintf(ws->run_dir, sizeof(ws->run_dir), "%s/%s", hostd->paths.run, name);
	if (open_parts(ws, err)) {
		err_prefix(err, "workspace %s", name);
		workspace_free(ws);
		return NULL;
	}
	while (*at && strcmp((*at)->name, name) < 0)
		at = &(*at)->next;
	ws->next = *at;
	*at = ws;
	return ws;
}

void workspace_remove(struct workspace *ws)
{
	struct workspace **at = &ws->hostd->workspaces;

	while (*at != ws)
		at = &(*at)->next;
	*at = ws->next;
	workspace_free(ws);
}

void workspace_forget(struct workspace *ws)
{
	static const char *const keys[] = { "judge", "quarantine", "session", "run", "identity" };
	struct err err;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (store_put_state(ws->hostd->store, ws->name, keys[i], NULL, &err) < 0)
			log_warn("%s: its state was not removed: %s", ws->name, err.text);
}

int workspaces_load(struct hostd *hostd, struct err *err)
{
	_cleanup_json_ json_t *names = ws_names(&hostd->paths, err);
	json_t *name;
	size_t i;

	if (!names)
		return -1;
	json_array_foreach(names, i, name) {
		struct err why;

		if (!workspace_add(hostd, json_string_value(name), &why))
			log_warn("%s", why.text);
	}
	return 0;
}

void workspaces_free(struct hostd *hostd)
{
	while (hostd->workspaces)
		workspace_remove(hostd->workspaces);
}

void workspace_event(struct workspace *ws, enum event_kind kind, json_t *data)
{
	struct err err;
	int rc = ingest_event(ws->ingest, (int64_t)loop_now_ms(), kind, data, &err);

	if (rc != STORE_OK && rc != STORE_SEEN)
		log_warn("%s: a row of kind %s was not taken: %s", ws->name, event_defs[kind].name,
			 rc == STORE_BUSY ? "the queue is full" : err.text);
	json_decref(data);
}

static json_t *score_json(struct workspace *ws)
{
	struct judge *judge = ingest_judge(ws->ingest);
	struct judge_part parts[JUDGE_PARTS_MAX];
	int64_t now = (int64_t)loop_now_ms();
	unsigned n = judge_parts(judge, now, parts);
	char text[512];

	judge_parts_text(parts, n, text, sizeof(text));
	return json_pack("{s:i,s:s,s:i}", "score", (int)judge_score(judge, now), "parts", text, "hours6",
			 (int)judge_slow(judge, now, 6));
}

json_t *workspace_json(struct workspace *ws)
{
	json_t *json = json_pack("{s:s,s:s,s:s,s:s,s:O,s:b,s:b,s:s,s:o,s:O?,s:O?}", "name", ws->name, "state",
				 workspace_state_name(ws), "reason", ws->reason, "level", workspace_level(ws),
				 "settings", ws->settings, "unfiltered", !ws->policy && !ws->policy_error[0],
				 "ready", ws->ready, "policy_error", ws->policy_error, "judge", score_json(ws),
				 "running", ws->running, "guest", ws->guest_status);

	if (json && ws->policy)
		json_object_set_new(json, "policy_digest", json_string(policy_digest(ws->policy)));
	if (json && quarantine_state(ws->quarantine) != QUARANTINE_FREE)
		json_object_set_new(json, "quarantine", json_string(quarantine_reason(ws->quarantine)));
	if (json && ws->state != WS_OFF)
		json_object_set_new(json, "uptime_ms",
				    json_integer((json_int_t)(loop_now_ms() - ws->start_ms)));
	return json;
}

void workspace_tick(struct workspace *ws)
{
	ingest_tick(ws->ingest, (int64_t)loop_now_ms());
	quarantine_tick(ws->quarantine, (int64_t)loop_now_ns());
	decide_tick(ws);
	volume_tick(ws);
	supervisor_tick(ws, loop_now_ms());
	policy_file_look(ws, false);
}

/* ---- waiters ---- */

static void waiter_cancelled(void *user)
{
	struct ws_waiter *waiter = user;
	struct ws_waiter **at = &waiter->ws->waiters;

	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
	free(waiter);
}

void workspace_wait(struct workspace *ws, struct api_call *call, bool for_ready)
{
	struct ws_waiter *waiter = NULL;
	size_t n = 0;

	for (struct ws_waiter *w = ws->waiters; w; w = w->next)
		n++;
	if (n < WS_WAITERS_MAX)
		waiter = calloc(1, sizeof(*waiter));
	if (!waiter) {
		api_fail(call, "too many commands wait for workspace %s", ws->name);
		return;
	}
	*waiter = (struct ws_waiter){ .next = ws->waiters, .ws = ws, .call = call, .for_ready = for_ready };
	ws->waiters = waiter;
	api_call_on_cancel(call, waiter_cancelled, waiter);
}

void workspace_progress(struct workspace *ws, const char *step)
{
	for (struct ws_waiter *w = ws->waiters; w; w = w->next)
		api_push(w->call, json_pack("{s:s,s:I}", "step", step, "ms",
					    (json_int_t)(loop_now_ms() - ws->start_ms)));
}

void workspace_tell_ready(struct workspace *ws)
{
	struct ws_waiter **at = &ws->waiters;

	while (*at) {
		struct ws_waiter *w = *at;

		if (!w->for_ready) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		api_reply(w->call, workspace_json(ws));
		free(w);
		at = &ws->waiters; /* a client that was let go takes its other waiters along */
	}
}

void workspace_tell_over(struct workspace *ws, const char *why)
{
	while (ws->waiters) {
		struct ws_waiter *w = ws->waiters;

		ws->waiters = w->next;
		if (w->for_ready)
			api_fail(w->call, "%s", why);
		else
			api_reply(w->call, json_pack("{s:s}", "reason", why));
		free(w);
	}
}
