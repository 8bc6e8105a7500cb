/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd's end of a VM's role: its messages, requests by id, the end of a run (docs/protocol/role.md). */
#include "hostd/daemon/workspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "hostd/ws/settings.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/log.h"

/* Bits of msg_rule.states: what this end has seen of the role. */
enum { LINK_STARTING = 1, LINK_UP = 2, LINK_ATTACHING = 4 };

static void set_state(struct workspace *ws, enum ws_state state, const char *reason)
{
	if (state != WS_OFF && state != WS_PAUSED)
		workspace_moves(ws);
	ws->state = state;
	snprintf(ws->reason, sizeof(ws->reason), "%s", reason);
	ingest_running(ws->ingest, (int64_t)loop_now_ms(), state == WS_RUNNING || state == WS_STOPPING);
}

/* ---- requests ---- */

static void fail_requests(struct workspace *ws, const char *why)
{
	while (ws->requests) {
		struct vm_request *r = ws->requests;

		ws->requests = r->next;
		if (r->fn)
			r->fn(r->user, false, NULL, why);
		free(r);
	}
}

void vmlink_request(struct workspace *ws, uint16_t type, json_t *params, int fd, vm_done_fn fn, void *user)
{
	struct vm_request *r = NULL;
	struct err err = { "the VM does not run" };
	size_t open = 0;
	int rc = -1;

	for (r = ws->requests; r; r = r->next)
		open++;
	r = open < WS_REQUESTS_MAX ? calloc(1, sizeof(*r)) : NULL;
	if (r && ws->vm) {
		*r = (struct vm_request){ .next = ws->requests, .id = ++ws->last_request, .fn = fn, .user = user };
		json_object_set_new(params, "id", json_integer(r->id));
		rc = msg_send(ws->vm, type, params, NULL, 0, &fd, fd >= 0 ? 1 : 0, &err);
	} else if (!r) {
		err_set(&err, "too many requests to the VM are open");
	}
	json_decref(params);
	if (!rc) {
		ws->requests = r;
		return;
	}
	free(r);
	if (fn)
		fn(user, false, NULL, err.text);
}

static int on_done(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	struct vm_request **at = &ws->requests, *r;
	const char *step, *cause;
	char why[400];
	int64_t id;
	bool ok;

	if (json_get_int(msg->json, "id", &id, err) || json_get_bool(msg->json, "ok", &ok, err))
		return -1;
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	r = *at;
	if (!r)
		return err_set(err, "an answer to no request (%lld)", (long long)id);
	*at = r->next;
	if (!ok && (json_opt_str(msg->json, "step", &step, "?", err) ||
		    json_opt_str(msg->json, "cause", &cause, "?", err)))
		step = cause = "?";
	if (!ok)
		snprintf(why, sizeof(why), "%s: %s", step, cause);
	if (r->fn)
		r->fn(r->user, ok, msg->json, ok ? NULL : why);
	free(r);
	return 0;
}

/* ---- the run ---- */

/* What a new hostd needs to take the VM over; gone when no VM runs. */
static void save_run(struct workspace *ws)
{
	json_t *run = ws->state == WS_OFF ? NULL :
		      json_pack("{s:s,s:i,s:b,s:b}", "boot_id", ws->boot_id, "epoch", (int)ws->epoch, "strict",
				ws->guest_strict, "required", ws->guest_required);
	char *text = run ? json_text(run) : NULL;
	struct err err;

	if (store_put_state(ws->hostd->store, ws->name, "run", text, &err) < 0)
		log_warn("%s: the state of the run was not stored: %s", ws->name, err.text);
	free(text);
	json_decref(run);
}

static void ready_too_late(void *user)
{
	struct workspace *ws = user;

	ws->ready_timer = NULL;
	workspace_tell_over(ws, "the guest runs, but took no session within its time (holdfast ws show NAME "
				"has its status, console.log its console)");
}

static int on_started(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;

	(void)err;
	json_decref(ws->running);
	ws->running = json_incref(msg->json);
	msg_peer_set_state(ws->vm, LINK_UP);
	ws->epoch++;
	process_table_clear(ws->processes);
	set_state(ws, WS_RUNNING, "started");
	ingest_boot(ws->ingest, ws->boot_id, ws->epoch, (int64_t)loop_now_ms());
	save_run(ws);
	workspace_event(ws, EVENT_WS_STARTED, json_pack("{s:s,s:O*}", "boot_id", ws->boot_id, "accel",
							json_object_get(msg->json, "accel")));
	workspace_progress(ws, "the guest boots");
	store_full_apply(ws); /* it may have failed since the start was allowed */
	ws->ready_timer = loop_timer_add(ws->hostd->loop, WS_READY_MS, 0, ready_too_late, ws);
	return 0;
}

static int on_start_failed(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	const char *step, *cause, *next;
	char why[sizeof(ws->reason)];

	if (json_get_str(msg->json, "step", &step, err) || json_get_str(msg->json, "cause", &cause, err) ||
	    json_get_str(msg->json, "next", &next, err))
		return -1;
	snprintf(why, sizeof(why), "%s: %s%s%s%s", step, cause, *next ? " (" : "", next, *next ? ")" : "");
	workspace_event(ws, EVENT_WS_START_FAILED, json_pack("{s:s,s:s}", "step", step, "cause", cause));
	snprintf(ws->off_reason, sizeof(ws->off_reason), "%s", why);
	return 0;
}

static int on_state(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	const char *state, *reason;

	if (json_get_str(msg->json, "state", &state, err) || json_opt_str(msg->json, "reason", &reason, "", err))
		return -1;
	if (!strcmp(state, "off")) {
		/* The role leaves once this is read; its lock on the workspace goes with it, so Off waits for that. */
		snprintf(ws->off_reason, sizeof(ws->off_reason), "%s", *reason ? reason : "off");
	} else if (!strcmp(state, "paused")) {
		set_state(ws, WS_PAUSED, reason);
		workspace_event(ws, EVENT_WS_PAUSED, json_pack("{s:s}", "reason", reason));
	} else if (!strcmp(state, "running")) {
		if (ws->state == WS_PAUSED)
			workspace_event(ws, EVENT_WS_RESUMED, json_pack("{s:s}", "reason", reason));
		if (ws->state != WS_STOPPING)
			set_state(ws, WS_RUNNING, reason);
	} else {
		return err_set(err, "unknown state \"%s\"", state);
	}
	store_full_apply(ws); /* its health may have changed while this was on its way */
	return 0;
}

void vmlink_over(struct workspace *ws, const char *reason)
{
	char why[sizeof(ws->reason)];
	bool ran = ws->running != NULL;

	snprintf(why, sizeof(why), "%s", reason);
	ws->off_reason[0] = 0;
	vmlink_close(ws);
	loop_timer_del(ws->ready_timer);
	ws->ready_timer = NULL;
	json_decref(ws->running);
	json_decref(ws->guest_status);
	ws->running = ws->guest_status = NULL;
	ws->ready = ws->sentry_live = false;
	supervisor_expected(ws, false);
	decide_reset(ws);
	fail_requests(ws, why);
	set_state(ws, WS_OFF, why);
	if (ran)
		workspace_event(ws, EVENT_WS_STOPPED, json_pack("{s:s}", "reason", why));
	save_run(ws);
	workspace_tell_over(ws, why);
}

/* ---- the Sentry ---- */

static int on_frame(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	json_t *event, *state;
	const char *kind;
	char *state_text;
	int64_t seq;
	int rc;

	if (json_get_str(msg->json, "kind", &kind, err) || json_get_int(msg->json, "seq", &seq, err) ||
	    json_get_object(msg->json, "event", &event, err) || json_get_object(msg->json, "state", &state, err))
		return -1;
	ws->sentry_live = true;
	process_table_event(ws->processes, kind, (uint64_t)seq, event);
	if (!strcmp(kind, "net_flow"))
		flow_join_event(ws->flows, loop_now_ms(), event);
	else
		identify_frame(ws, kind, event);
	if (!strcmp(kind, "hello"))
		workspace_progress(ws, "the Sentry reports");
	state_text = json_text(state);
	rc = ingest_frame(ws->ingest, (int64_t)loop_now_ms(), kind, (uint64_t)seq, event, msg->blob,
			  msg->blob_len, state_text, err);
	free(state_text);
	/* Not acknowledged, so the role sends it again; until then it holds what follows. */
	if (rc == STORE_BUSY)
		msg_peer_pause(ws->vm, 1);
	return rc == STORE_ERR ? -1 : 0;
}

void vmlink_acknowledge(struct workspace *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	if (ws->vm && epoch == ws->epoch && !strcmp(boot, ws->boot_id))
		msg_send_new(ws->vm, ROLE_VM_SENTRY_ACK, json_pack("{s:I}", "seq", (json_int_t)seq));
}

static int on_tamper(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	const char *reason, *text;

	if (json_get_str(msg->json, "reason", &reason, err) || json_opt_str(msg->json, "text", &text, "", err))
		return -1;
	if (ingest_tamper(ws->ingest, (int64_t)loop_now_ms(), reason, text, err) == STORE_ERR)
		return -1;
	return 0;
}

/* ---- the switch and the guest ---- */

static int on_flow_ask(void *user, struct msg *msg, struct err *err)
{
	return decide_flow(user, msg->json, err);
}

static int on_name_ask(void *user, struct msg *msg, struct err *err)
{
	return decide_name(user, msg->json, err);
}

static int on_dest_ask(void *user, struct msg *msg, struct err *err)
{
	return decide_dest(user, msg->json, err);
}

static int on_flow_event(void *user, struct msg *msg, struct err *err)
{
	return decide_flow_event(user, msg->json, err);
}

/* The guest's word, shown as such: only "ready" is acted on, and it opens nothing that was closed. */
static void take_status(struct workspace *ws, json_t *status)
{
	bool ready = json_is_true(json_object_get(status, "ready"));
	const char *step = json_string_value(json_object_get(json_object_get(status, "failed"), "step"));

	json_decref(ws->guest_status);
	ws->guest_status = json_incref(status);
	supervisor_heard(ws);
	if (ready && !ws->ready) {
		ws->ready = true;
		supervisor_expected(ws, true);
		loop_timer_del(ws->ready_timer);
		ws->ready_timer = NULL;
		workspace_event(ws, EVENT_GUEST_STATUS, json_pack("{s:s}", "text", "it takes sessions"));
		workspace_tell_ready(ws);
	} else if (step && !ws->ready) {
		char why[256];
		const char *error = json_string_value(json_object_get(json_object_get(status, "failed"), "error"));

		snprintf(why, sizeof(why), "the guest refuses work: %s: %s", step, error ? error : "?");
		workspace_event(ws, EVENT_GUEST_WARNING, json_pack("{s:s}", "text", why));
		workspace_tell_over(ws, why);
	}
}

static int on_guest_status(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	const char *type;
	json_t *said;

	if (json_get_object(msg->json, "msg", &said, err))
		return -1;
	/* A guest that sends nonsense is no fault of the role's. */
	if (json_get_str(said, "type", &type, NULL))
		return 0;
	if (!strcmp(type, "status"))
		take_status(ws, said);
	else if (!strcmp(type, "who"))
		decide_who(ws, said);
	return 0;
}

static int on_alarm(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	const char *kind, *text;

	if (json_get_str(msg->json, "kind", &kind, err) || json_opt_str(msg->json, "text", &text, "", err))
		return -1;
	workspace_event(ws, EVENT_VM_ALARM, json_pack("{s:s,s:s}", "kind", kind, "text", text));
	return 0;
}

static int on_attached(void *user, struct msg *msg, struct err *err)
{
	struct workspace *ws = user;
	const char *state, *reason;
	int64_t uptime;

	if (json_get_str(msg->json, "state", &state, err) || json_opt_str(msg->json, "reason", &reason, "", err) ||
	    json_get_int(msg->json, "uptime_ms", &uptime, err))
		return -1;
	json_decref(ws->running);
	ws->running = json_incref(msg->json);
	ws->start_ms = loop_now_ms() - (uint64_t)uptime;
	supervisor_expected(ws, uptime > WS_READY_MS); /* it may have been stopped while no hostd was there */
	msg_peer_set_state(ws->vm, LINK_UP);
	set_state(ws, !strcmp(state, "paused") ? WS_PAUSED : WS_RUNNING, reason);
	/* A VM that only waited for a hostd goes on; one in quarantine is cut and stopped again. */
	if (quarantine_state(ws->quarantine) != QUARANTINE_FREE)
		hold_again(ws);
	else if (ws->state == WS_PAUSED && !strcmp(reason, "no hostd"))
		vmlink_request(ws, ROLE_VM_CONT, json_object(), -1, NULL, NULL);
	store_full_apply(ws);
	msg_send_new(ws->vm, ROLE_VM_GUEST_SEND, json_pack("{s:{s:s}}", "msg", "type", "status"));
	return 0;
}

static const struct msg_rule rules[] = {
	{ ROLE_VM_STARTED, "STARTED", LINK_STARTING, 0, on_started },
	{ ROLE_VM_START_FAILED, "START_FAILED", LINK_STARTING, 0, on_start_failed },
	{ ROLE_VM_STATE, "STATE", LINK_STARTING | LINK_UP, 0, on_state },
	{ ROLE_VM_SENTRY_FRAME, "SENTRY_FRAME", LINK_STARTING | LINK_UP, 0, on_frame },
	{ ROLE_VM_TAMPER, "TAMPER", LINK_STARTING | LINK_UP, 0, on_tamper },
	{ ROLE_VM_FLOW_ASK, "FLOW_ASK", LINK_STARTING | LINK_UP, 0, on_flow_ask },
	{ ROLE_VM_NAME_ASK, "NAME_ASK", LINK_STARTING | LINK_UP, 0, on_name_ask },
	{ ROLE_VM_DEST_ASK, "DEST_ASK", LINK_STARTING | LINK_UP, 0, on_dest_ask },
	{ ROLE_VM_FLOW_EVENT, "FLOW_EVENT", LINK_STARTING | LINK_UP, 0, on_flow_event },
	{ ROLE_VM_GUEST_STATUS, "GUEST_STATUS", LINK_STARTING | LINK_UP, 0, on_guest_status },
	{ ROLE_VM_DONE, "DONE", LINK_STARTING | LINK_UP, 0, on_done },
	{ ROLE_VM_ATTACHED, "ATTACHED", LINK_ATTACHING, 0, on_attached },
	{ ROLE_VM_ALARM, "ALARM", LINK_STARTING | LINK_UP, 0, on_alarm },
	{ 0, NULL, 0, 0, NULL },
};

static void on_close(void *user, const char *why)
{
	struct workspace *ws = user;
	char reason[sizeof(ws->reason)];

	if (ws->off_reason[0]) {
		snprintf(reason, sizeof(reason), "%s", ws->off_reason);
	} else if (!strcmp(why, "closed")) {
		snprintf(reason, sizeof(reason), "monitor died");
	} else {
		/* A role that breaks the protocol is taken for broken into. */
		snprintf(reason, sizeof(reason), "monitor broke the protocol: %s", why);
		log_fault("%s: %s", ws->name, reason);
	}
	vmlink_over(ws, reason);
}

int vmlink_open(struct workspace *ws, int fd, struct err *err)
{
	struct msg_peer_config config = { .rules = rules, .on_close = on_close, .user = ws };

	ws->vm = msg_peer_new(ws->hostd->loop, fd, &config, err);
	if (!ws->vm)
		close(fd);
	else
		msg_peer_set_state(ws->vm, LINK_STARTING);
	return ws->vm ? 0 : -1;
}

void vmlink_close(struct workspace *ws)
{
	msg_peer_free(ws->vm);
	ws->vm = NULL;
}

/* The run that was stored: its boot id and epoch, and how its guest was started. */
static int stored_run(struct workspace *ws)
{
	static const struct json_limits limits = { .bytes = 4096, .depth = 2, .values = 16 };
	char *text = store_get_state(ws->hostd->store, ws->name, "run");
	json_t *run = text ? json_parse(text, strlen(text), &limits, NULL) : NULL;
	const char *boot_id;
	int64_t epoch;
	int rc = -1;

	free(text);
	if (run && !json_get_str(run, "boot_id", &boot_id, NULL) && !json_get_int(run, "epoch", &epoch, NULL) &&
	    !json_opt_bool(run, "strict", &ws->guest_strict, ws->guest_strict, NULL) &&
	    !json_opt_bool(run, "required", &ws->guest_required, ws->guest_required, NULL)) {
		snprintf(ws->boot_id, sizeof(ws->boot_id), "%s", boot_id);
		ws->epoch = (uint32_t)epoch;
		rc = 0;
	}
	json_decref(run);
	return rc;
}

int vmlink_reattach(struct workspace *ws)
{
	char path[sizeof(ws->run_dir) + 16];
	struct err err;
	json_t *attach;
	int fd;

	if (stored_run(ws))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", ws->run_dir, ROLE_SOCKET_NAME);
	fd = io_unix_connect(path, SOCK_SEQPACKET, &err);
	if (fd < 0 || vmlink_open(ws, fd, &err)) {
		ws->running = json_object();
		vmlink_over(ws, "monitor died while hostd was away");
		return 0;
	}
	ingest_boot(ws->ingest, ws->boot_id, ws->epoch, (int64_t)loop_now_ms());
	msg_peer_set_state(ws->vm, LINK_ATTACHING);
	attach = json_pack("{s:s,s:I}", "boot_id", ws->boot_id, "durable_seq",
			   (json_int_t)store_durable_seq(ws->hostd->store, ws->name, ws->boot_id,
							ws->epoch));
	set_state(ws, WS_STARTING, "taking the VM over");
	if (workspace_judge_load(ws, ws->settings, NULL, false, &err))
		log_warn("%s: %s", ws->name, err.text);
	msg_send_new(ws->vm, ROLE_VM_ATTACH, attach);
	return 1;
}
