/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API's methods (docs/protocol/api.md): one function each, listed in one table at the end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/exec.h>
#include <holdfast/role.h>

#include "hostd/api/api.h"
#include "hostd/daemon/alerts.h"
#include "hostd/daemon/evidence.h"
#include "hostd/daemon/policy_methods.h"
#include "hostd/daemon/workspace.h"
#include "hostd/store/query.h"
#include "hostd/ws/image.h"
#include "hostd/ws/settings.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/log.h"

/* The workspace that params name; answers the call itself when there is none. */
static struct workspace *named(struct hostd *hostd, struct api_call *call, const json_t *params)
{
	struct workspace *ws;
	const char *name;
	struct err err;
	int dir;

	if (json_get_str(params, "name", &name, &err)) {
		api_fail_err(call, &err);
		return NULL;
	}
	ws = workspace_find(hostd, name);
	if (ws)
		return ws;
	dir = ws_open(&hostd->paths, name, &err);
	/* It is on disk, but did not load: say why again. */
	if (dir >= 0) {
		close(dir);
		ws = workspace_add(hostd, name, &err);
	}
	if (!ws)
		api_fail_err(call, &err);
	return ws;
}

static const char *author(const json_t *params)
{
	const char *text = json_string_value(json_object_get(params, "author"));

	return text ? text : "the user";
}

/* A call that is answered when the role answers. */
static void answer_call(void *user, bool ok, const json_t *result, const char *why)
{
	struct api_call *call = user;

	if (ok)
		api_reply(call, json_deep_copy(result));
	else
		api_fail(call, "%s", why);
}

/*
 * The client may leave before the role answers; then the answer has no one to go to. A box is shared by
 * both sides and freed by the later one.
 */
struct box {
	struct api_call *call; /* NULL once the client is gone */
	struct workspace *ws;
	int fd; /* to hand over on success, or -1 */
};

static void box_cancelled(void *user)
{
	((struct box *)user)->call = NULL;
}

static void box_answered(void *user, bool ok, const json_t *result, const char *why)
{
	struct box *box = user;

	if (box->call && ok && box->fd >= 0)
		api_reply_fd(box->call, json_object(), box->fd);
	else if (box->call)
		answer_call(box->call, ok, result, why);
	if (box->fd >= 0)
		close(box->fd);
	free(box);
}

/* Asks the role on behalf of a call. fd goes to the role, keep to the client when it succeeded. */
static void relay(struct workspace *ws, struct api_call *call, uint16_t type, json_t *params, int fd, int keep)
{
	struct box *box = malloc(sizeof(*box));

	if (!box) {
		json_decref(params);
		if (keep >= 0)
			close(keep);
		api_fail(call, "out of memory");
		return;
	}
	*box = (struct box){ .call = call, .ws = ws, .fd = keep };
	api_call_on_cancel(call, box_cancelled, box);
	vmlink_request(ws, type, params, fd, box_answered, box);
}

/* ---- hostd ---- */

static void daemon_status(void *user, struct api_call *call, const json_t *params)
{
	struct hostd *hostd = user;
	struct store_stats stats;
	char why[256];

	(void)params;
	store_stats(hostd->store, &stats);
	api_reply(call, json_pack("{s:i,s:I,s:s,s:{s:i,s:s,s:I,s:I}}", "pid", (int)getpid(), "uptime_ms",
				  (json_int_t)(loop_now_ms() - hostd->started_ms), "data", hostd->paths.data,
				  "store", "health", (int)store_health(hostd->store, why, sizeof(why)), "why", why,
				  "rows", (json_int_t)stats.rows, "frames", (json_int_t)stats.frames));
}

static void stop_soon(void *user)
{
	loop_stop(((struct hostd *)user)->loop, 0);
}

/* VMs go on without hostd for a minute; to end them is a verb of its own. */
static void daemon_stop(void *user, struct api_call *call, const json_t *params)
{
	struct hostd *hostd = user;

	for (struct workspace *ws = hostd->workspaces; ws; ws = ws->next)
		if (ws->state != WS_OFF && !json_is_true(json_object_get(params, "force"))) {
			api_fail(call, "workspace %s runs: stop it first, or use --force (its VM is then paused "
				       "within a minute)", ws->name);
			return;
		}
	api_reply(call, NULL);
	loop_timer_add(hostd->loop, 100, 0, stop_soon, hostd);
}

/* ---- workspaces ---- */

static int apply_settings(json_t *settings, const json_t *changes, struct err *err)
{
	const char *key;
	json_t *value, *entry;
	size_t i;

	json_object_foreach((json_t *)changes, key, value) {
		if (json_is_string(value)) {
			if (settings_set(settings, key, json_string_value(value), err))
				return -1;
			continue;
		}
		json_array_foreach(value, i, entry)
			if (!json_is_string(entry) || settings_set(settings, key, json_string_value(entry), err))
				return -1;
	}
	return 0;
}

/* The shipped default, with the mirrors that the image's package managers are set to. */
static int default_policy(const struct hostd *hostd, const json_t *settings, char **text, struct err *err)
{
	struct policy_mirror mirrors[IMAGE_MIRRORS_MAX];
	struct image image;
	char path[PATHS_MAX + 16];
	struct buf template;
	const char *source;

	if (image_open(&image, &hostd->paths, settings_text(settings, "image"), settings_text(settings, "kernel"),
		       err))
		return err_prefix(err, "the default policy takes its mirrors from the image");
	for (size_t i = 0; i < image.n_mirrors; i++)
		mirrors[i] = (struct policy_mirror){ image.mirrors[i].kind, image.mirrors[i].host,
						     image.mirrors[i].port };
	snprintf(path, sizeof(path), "%s/default.yaml", hostd->paths.share);
	buf_init(&template, 1 << 20);
	*text = NULL;
	if (!io_read_file(path, &template, err) && (source = buf_cstr(&template)))
		*text = policy_template_fill(source, mirrors, image.n_mirrors, err);
	buf_free(&template);
	return *text ? 0 : -1;
}

/* NULL and no error: unfiltered. The text is the caller's. */
static int policy_text(const struct hostd *hostd, const json_t *params, const json_t *settings, char **text,
		       struct err *err)
{
	struct policy_diags diags = { 0 };
	struct policy *policy;
	const char *given;
	bool unfiltered;

	*text = NULL;
	if (json_opt_str(params, "policy", &given, NULL, err) ||
	    json_opt_bool(params, "unfiltered", &unfiltered, false, err))
		return -1;
	if (unfiltered)
		return given ? err_set(err, "a policy and \"unfiltered\" exclude each other") : 0;
	if (!given)
		return default_policy(hostd, settings, text, err);
	policy = policy_parse(given, strlen(given), POLICY_STRICT, &diags);
	if (!policy)
		err_set(err, "the policy is refused: line %u: %s: %s", diags.n ? diags.v[0].line : 0,
			diags.n ? diags.v[0].path : "", diags.n ? diags.v[0].text : "?");
	policy_diags_free(&diags);
	if (!policy)
		return -1;
	policy_put(policy);
	*text = strdup(given);
	return *text ? 0 : err_set(err, "out of memory");
}

/* What exceeds the boundary is not saved, by this path either; @text NULL: no policy at all. */
static int within_boundary(const struct hostd *hostd, const char *text, struct err *err)
{
	struct policy_reload_report report = { 0 };
	struct policy *boundary = NULL, *policy = NULL;
	struct policy_diags diags = { 0 };
	int rc = workspace_boundary(hostd, &boundary, err);

	if (!rc && boundary && !text) {
		rc = err_set(err, "a boundary is set, so the workspace needs a policy within it");
	} else if (!rc && boundary) {
		policy_reload(NULL, boundary, text, strlen(text), &policy, &diags, &report);
		if (report.outcome == POLICY_RELOAD_REFUSED)
			rc = err_set(err, "the policy is refused: %s", report.text);
	}
	policy_put(policy);
	policy_put(boundary);
	policy_diags_free(&diags);
	return rc;
}

static void ws_create_method(void *user, struct api_call *call, const json_t *params)
{
	struct hostd *hostd = user;
	_cleanup_json_ json_t *settings = settings_default();
	_cleanup_free_ char *policy = NULL;
	struct workspace *ws;
	const char *name;
	struct err err;

	if (json_get_str(params, "name", &name, &err) ||
	    apply_settings(settings, json_object_get(params, "settings"), &err) ||
	    policy_text(hostd, params, settings, &policy, &err) || within_boundary(hostd, policy, &err) ||
	    ws_create(&hostd->paths, name, settings, policy, policy ? strlen(policy) : 0, &err)) {
		api_fail_err(call, &err);
		return;
	}
	ws = workspace_add(hostd, name, &err);
	if (!ws) {
		api_fail_err(call, &err);
		return;
	}
	workspace_event(ws, EVENT_WS_CREATED, json_pack("{s:b}", "unfiltered", !policy));
	api_reply(call, workspace_json(ws));
}

static void ws_list(void *user, struct api_call *call, const json_t *params)
{
	struct hostd *hostd = user;
	json_t *list = json_array();

	(void)params;
	for (struct workspace *ws = hostd->workspaces; ws; ws = ws->next)
		json_array_append_new(list, workspace_json(ws));
	api_reply(call, json_pack("{s:o}", "workspaces", list));
}

static void ws_show(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);

	if (ws)
		api_reply(call, workspace_json(ws));
}

/* A row for each mute of @in that @from lacks: "SIGNAL:PROGRAM". */
static void note_mutes(struct workspace *ws, enum event_kind kind, const json_t *in, const json_t *from, const char *by)
{
	const json_t *mute, *other;
	size_t i, k;

	json_array_foreach(in, i, mute) {
		const char *text = json_string_value(mute), *colon = text ? strchr(text, ':') : NULL;
		bool found = false;

		json_array_foreach(from, k, other)
			found |= json_equal(mute, other);
		if (colon && !found)
			workspace_event(ws, kind, json_pack("{s:s%,s:s,s:s}", "signal", text, (size_t)(colon - text),
							    "program", colon + 1, "author", by));
	}
}

/* Which settings were given, with the values of those that are no list: an environment may hold secrets. */
static void note_settings(struct workspace *ws, const json_t *changes, const char *by)
{
	char text[512] = "";
	const char *key;
	json_t *value;
	size_t at = 0;

	json_object_foreach((json_t *)changes, key, value) {
		const struct setting *s = settings_find(key);
		bool plain = s->type != SETTING_LIST && s->type != SETTING_MAP && json_is_string(value);
		int n = snprintf(text + at, sizeof(text) - at, "%s%s%s%s", at ? ", " : "", s->key, plain ? " " : "",
				 plain ? json_string_value(value) : "");

		if (n < 0 || (size_t)n >= sizeof(text) - at) {
			text[at] = 0;
			break;
		}
		at += (size_t)n;
	}
	workspace_event(ws, EVENT_WS_SETTINGS, json_pack("{s:s,s:s*}", "author", by, "text", at ? text : NULL));
}

static void ws_set(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	_cleanup_json_ json_t *settings = ws ? json_deep_copy(ws->settings) : NULL;
	_cleanup_close_ int dir = -1;
	json_t *changes;
	bool next_start = false;
	const char *key;
	json_t *value;
	struct err err;

	if (!ws)
		return;
	if (json_get_object(params, "settings", &changes, &err) || apply_settings(settings, changes, &err) ||
	    workspace_judge_load(ws, settings, NULL, true, &err)) {
		api_fail_err(call, &err);
		return;
	}
	dir = ws_open(&ws->hostd->paths, ws->name, &err);
	if (dir < 0 || settings_save(dir, settings, &err)) {
		api_fail_err(call, &err);
		return;
	}
	note_mutes(ws, EVENT_MUTE_SET, json_object_get(settings, "mutes"), json_object_get(ws->settings, "mutes"),
		   author(params));
	note_mutes(ws, EVENT_MUTE_CLEARED, json_object_get(ws->settings, "mutes"), json_object_get(settings, "mutes"),
		   author(params));
	json_decref(ws->settings);
	ws->settings = json_incref(settings);
	json_object_foreach(changes, key, value)
		next_start |= settings_find(key)->next_start && ws->state != WS_OFF;
	note_settings(ws, changes, author(params));
	if (workspace_judge_load(ws, ws->settings, author(params), false, &err))
		log_warn("%s: %s", ws->name, err.text);
	store_full_apply(ws);
	value = workspace_json(ws);
	json_object_set_new(value, "next_start", json_boolean(next_start));
	api_reply(call, value);
}

static void ws_start(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	struct err err;

	if (!ws)
		return;
	if (ws->state == WS_RUNNING && ws->ready) {
		api_reply(call, workspace_json(ws));
		return;
	}
	if (ws->state != WS_STARTING && ws->state != WS_RUNNING && workspace_start(ws, &err)) {
		api_fail_err(call, &err);
		return;
	}
	workspace_wait(ws, call, true);
}

static void ws_stop(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	bool force = json_is_true(json_object_get(params, "force"));

	if (!ws)
		return;
	if (ws->state == WS_OFF) {
		api_reply(call, json_pack("{s:s}", "reason", ws->reason));
		return;
	}
	if (!ws->vm) {
		vmlink_over(ws, "stopped before the VM ran");
		api_reply(call, json_pack("{s:s}", "reason", ws->reason));
		return;
	}
	workspace_wait(ws, call, false);
	if (force || ws->state == WS_STARTING || ws->state == WS_PAUSED) {
		vmlink_request(ws, ROLE_VM_KILL, json_pack("{s:s}", "reason", "stopped by the user"), -1,
			       NULL, NULL);
		return;
	}
	ws->state = WS_STOPPING;
	vmlink_request(ws, ROLE_VM_POWEROFF, json_pack("{s:i}", "timeout_ms", ROLE_POWEROFF_MS), -1, NULL,
		       NULL);
}

static void ws_delete_method(void *user, struct api_call *call, const json_t *params)
{
	struct hostd *hostd = user;
	struct workspace *ws = named(hostd, call, params);
	struct err err;

	if (!ws)
		return;
	if (ws->state != WS_OFF) {
		api_fail(call, "workspace %s is %s: stop it first", ws->name, workspace_state_name(ws));
		return;
	}
	identify_forget(ws);
	quarantine_release(ws->quarantine, "delete", author(params));
	workspace_event(ws, EVENT_WS_DELETED, json_pack("{s:s}", "author", author(params)));
	if (ws_delete(&hostd->paths, ws->name, &err)) {
		api_fail_err(call, &err);
		return;
	}
	workspace_forget(ws);
	workspace_remove(ws);
	api_reply(call, NULL);
}

static void exec_open(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	struct err err;
	int pair[2];

	if (!ws)
		return;
	if (quarantine_may_run(ws->quarantine, &err)) {
		api_fail_err(call, &err);
		return;
	}
	if (ws->state != WS_RUNNING || !ws->vm) {
		api_fail(call, "workspace %s is %s%s", ws->name, workspace_state_name(ws),
			 ws->state == WS_OFF ? ": start it with `holdfast ws start`" : "");
		return;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		api_fail(call, "socketpair: %s", strerror(errno));
		return;
	}
	workspace_event(ws, EVENT_EXEC_HOST,
			json_pack("{s:s,s:s}", "user", author(params), "command",
				  json_string_value(json_object_get(params, "command")) ? : "?"));
	relay(ws, call, ROLE_VM_EXEC_OPEN, json_pack("{s:i}", "port", HF_EXEC_PORT), pair[1], pair[0]);
	close(pair[1]);
}

static void ws_quarantine(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	int64_t now = (int64_t)loop_now_ns();
	char reason[256];

	if (!ws)
		return;
	snprintf(reason, sizeof(reason), "asked for by %s", author(params));
	quarantine_trip(ws->quarantine, now, now, reason, true);
	api_reply(call, workspace_json(ws));
}

/* The network opens before the CPUs run: otherwise the guest sees refusals that no policy made. */
static void ws_release(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	struct err err;

	if (!ws)
		return;
	if (quarantine_state(ws->quarantine) == QUARANTINE_FREE) {
		api_fail(call, "workspace %s is not in quarantine", ws->name);
		return;
	}
	quarantine_release(ws->quarantine, "release", author(params));
	ingest_release(ws->ingest, (int64_t)loop_now_ms(), author(params), &err);
	if (ws->vm) {
		static const char *const parts[] = { "network", "vsock" };

		for (size_t i = 0; i < 2; i++)
			vmlink_request(ws, ROLE_VM_CUT, json_pack("{s:s,s:b}", "what", parts[i], "cut", 0), -1,
				       NULL, NULL);
		relay(ws, call, ROLE_VM_CONT, json_object(), -1, -1);
	} else {
		api_reply(call, workspace_json(ws));
	}
}

static void ws_reset(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	char path[sizeof(ws->dir) + 16];

	if (!ws)
		return;
	if (ws->state != WS_OFF) {
		api_fail(call, "workspace %s is %s: stop it first", ws->name, workspace_state_name(ws));
		return;
	}
	workspace_moves(ws);
	/* The next start clones the base again; a RAM snapshot never outlives its disk. */
	snprintf(path, sizeof(path), "%s/vm.state", ws->dir);
	if (unlink(path) && errno != ENOENT) {
		api_fail(call, "remove %s: %s", path, strerror(errno));
		return;
	}
	snprintf(path, sizeof(path), "%s/disk.qcow2", ws->dir);
	if (unlink(path) && errno != ENOENT) {
		api_fail(call, "remove %s: %s", path, strerror(errno));
		return;
	}
	identify_forget(ws); /* the programs are those of the base again */
	quarantine_release(ws->quarantine, "reset", author(params));
	judge_release(ingest_judge(ws->ingest), (int64_t)loop_now_ms()); /* stored with the row */
	workspace_event(ws, EVENT_WS_RESET, json_pack("{s:s}", "author", author(params)));
	api_reply(call, workspace_json(ws));
}

static void evidence_begin_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	struct err err;
	bool ram;

	if (!ws)
		return;
	if (json_opt_bool(params, "ram", &ram, false, &err))
		api_fail_err(call, &err);
	else
		evidence_begin(ws, call, ram);
}

static void evidence_done_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	const char *stand, *file, *sha256;
	struct err err;

	if (!ws)
		return;
	if (json_get_str(params, "stand", &stand, &err) || json_get_str(params, "file", &file, &err) ||
	    json_get_str(params, "sha256", &sha256, &err))
		api_fail_err(call, &err);
	else
		evidence_done(ws, call, stand, file, sha256, author(params));
}

/* ---- policy ---- */

static void policy_get_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = named(user, call, params);
	const char *text;
	size_t len;

	if (!ws)
		return;
	if (!ws->policy) {
		api_reply(call, json_pack("{s:n,s:b,s:s}", "policy", "unfiltered", !ws->policy_error[0], "error",
					  ws->policy_error));
		return;
	}
	text = policy_source(ws->policy, &len);
	api_reply(call, json_pack("{s:s%,s:b,s:s,s:s}", "policy", text, len, "unfiltered", 0, "error",
				  ws->policy_error, "digest", policy_digest(ws->policy)));
}

/* ---- timeline ---- */

/* What one answer may hold; who wants more asks on after its last id, or newest first before it. */
enum { TIMELINE_PAGE = 5000, TIMELINE_BYTES = API_FRAME_MAX / 2, TIMELINE_MS = 1000 };

struct collected {
	json_t *rows;
	size_t bytes;
	bool more;
};

static int collect(void *user, const struct store_row *row)
{
	struct collected *c = user;
	json_t *json = query_row_json(row);

	c->bytes += json_dumpb(json, NULL, 0, JSON_COMPACT) + 1;
	if (c->bytes <= TIMELINE_BYTES && json_array_size(c->rows) < TIMELINE_PAGE)
		return json_array_append_new(c->rows, json);
	json_decref(json);
	c->more = true;
	return 1;
}

static void timeline(void *user, struct api_call *call, const json_t *params)
{
	struct hostd *hostd = user;
	struct collected collected = { json_array(), 0, false };
	struct query_db *db = NULL;
	struct query query;
	struct err err;

	if (query_from_json(params, &query, &err) || store_sync(hostd->store, 2000, &err) ||
	    query_open(hostd->db_path, &db, &err)) {
		json_decref(collected.rows);
		api_fail_err(call, &err);
		return;
	}
	query_bound(db, TIMELINE_MS); /* all others wait meanwhile */
	if (query.limit > TIMELINE_PAGE) /* without one, collect() ends it: a limit takes the newest */
		query.limit = TIMELINE_PAGE;
	if (query_run(db, &query, collect, &collected, &err)) {
		json_decref(collected.rows);
		api_fail_err(call, &err);
	} else {
		api_reply(call, json_pack("{s:o,s:b}", "rows", collected.rows, "more", collected.more));
	}
	query_close(db);
}

static void timeline_follow(void *user, struct api_call *call, const json_t *params)
{
	follow_add(user, call, params);
}

static void alerts_test_method(void *user, struct api_call *call, const json_t *params)
{
	alerts_test(((struct hostd *)user)->alerts, call, author(params));
}

static const char *const no_params[] = { NULL };
static const char *const author_only[] = { "author", NULL };
static const char *const name_only[] = { "name", "author", NULL };
static const char *const create_params[] = { "name", "settings", "policy", "unfiltered", "author", NULL };
static const char *const set_params[] = { "name", "settings", "author", NULL };
static const char *const apply_params[] = { "name", "policy", "author", "dry_run", NULL };
static const char *const rollback_params[] = { "name", "version", "author", NULL };
static const char *const force_params[] = { "name", "force", "author", NULL };
static const char *const exec_params[] = { "name", "command", "author", NULL };
static const char *const evidence_begin_params[] = { "name", "ram", "author", NULL };
static const char *const evidence_done_params[] = { "name", "stand", "file", "sha256", "author", NULL };
static const char *const query_params[] = { "ws", "since_ns", "until_ns", "after_id", "before_id", "kinds", "engines",
					    "verdicts", "min_weight", "grep", "match", "all", "newest_first",
					    "limit", NULL };

const struct api_method daemon_methods[] = {
	{ "daemon.status", no_params, daemon_status },
	{ "daemon.stop", force_params, daemon_stop },
	{ "ws.create", create_params, ws_create_method },
	{ "ws.list", no_params, ws_list },
	{ "ws.show", name_only, ws_show },
	{ "ws.set", set_params, ws_set },
	{ "ws.start", name_only, ws_start },
	{ "ws.stop", force_params, ws_stop },
	{ "ws.delete", name_only, ws_delete_method },
	{ "ws.reset", name_only, ws_reset },
	{ "ws.quarantine", name_only, ws_quarantine },
	{ "ws.release", name_only, ws_release },
	{ "evidence.begin", evidence_begin_params, evidence_begin_method },
	{ "evidence.done", evidence_done_params, evidence_done_method },
	{ "exec.open", exec_params, exec_open },
	{ "policy.get", name_only, policy_get_method },
	{ "policy.apply", apply_params, policy_apply_method },
	{ "policy.history", name_only, policy_history_method },
	{ "policy.rollback", rollback_params, policy_rollback_method },
	{ "alerts.test", author_only, alerts_test_method },
	{ "timeline", query_params, timeline },
	{ "timeline.follow", query_params, timeline_follow },
	{ NULL, NULL, NULL },
};
