/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a tripped score does to the VM: quarantine's effects, its durable state, its rows. */
#include "hostd/daemon/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/role.h>

#include "hostd/daemon/alerts.h"
#include "hostd/ws/settings.h"
#include "lib/json.h"
#include "lib/log.h"

struct step_done {
	struct workspace *ws;
	enum quarantine_step step;
};

static void step_answered(void *user, bool ok, const json_t *result, const char *why)
{
	struct step_done *done = user;

	(void)result;
	if (!ok)
		workspace_event(done->ws, EVENT_QUARANTINE_FAILED,
				json_pack("{s:s,s:s}", "step", quarantine_step_name(done->step), "text", why));
	quarantine_done(done->ws->quarantine, (int64_t)loop_now_ns(), done->step, ok);
	free(done);
}

static int start_step(void *user, enum quarantine_step step)
{
	struct workspace *ws = user;
	struct step_done *done;
	json_t *params;
	uint16_t type = ROLE_VM_CUT;

	/* No proxy runs yet, so there is no stream of its to cut. */
	if (!ws->vm || step == QUARANTINE_CUT_PROXY)
		return -1;
	switch (step) {
	case QUARANTINE_CLOSE_SWITCH:
		params = json_pack("{s:s,s:b}", "what", "network", "cut", 1);
		break;
	case QUARANTINE_CLOSE_VSOCK:
		params = json_pack("{s:s,s:b}", "what", "vsock", "cut", 1);
		break;
	default:
		type = ROLE_VM_PAUSE;
		params = json_pack("{s:s}", "reason", "quarantine");
		break;
	}
	done = malloc(sizeof(*done));
	if (!done) {
		json_decref(params);
		return -1;
	}
	*done = (struct step_done){ ws, step };
	vmlink_request(ws, type, params, -1, step_answered, done);
	return 0;
}

static void save_state(void *user, json_t *state)
{
	struct workspace *ws = user;
	char *text = json_text(state);
	struct err err;

	if (!text || store_put_state(ws->hostd->store, ws->name, "quarantine", text, &err) < 0)
		log_fault("%s: quarantine was not stored: %s", ws->name, text ? err.text : "out of memory");
	free(text);
}

static void held(void *user, int64_t cut_ns, int64_t total_ns, unsigned failed)
{
	struct workspace *ws = user;

	workspace_event(ws, EVENT_QUARANTINED,
			json_pack("{s:s,s:f,s:f}", "reason", quarantine_reason(ws->quarantine), "cut_ms",
				  (double)cut_ns / 1e6, "total_ms", (double)total_ns / 1e6));
	/* A VM that could not be stopped is ended: better no VM than one that runs on. */
	if (failed & 1u << QUARANTINE_STOP_VM)
		vmlink_request(ws, ROLE_VM_KILL, json_pack("{s:s}", "reason", "quarantine could not pause it"), -1,
			       NULL, NULL);
}

static enum quarantine_mode mode_of(const struct workspace *ws)
{
	const char *mode = settings_text(ws->settings, "mode");

	if (!strcmp(mode, "off"))
		return QUARANTINE_OFF;
	return strcmp(mode, "alert") ? QUARANTINE_CUT : QUARANTINE_ALERT;
}

int hold_new(struct workspace *ws, struct err *err)
{
	static const struct quarantine_ops ops = { .start = start_step, .save = save_state, .held = held };
	static const struct json_limits limits = { .bytes = 65536, .depth = 8, .values = 1024 };
	char *text = store_get_state(ws->hostd->store, ws->name, "quarantine");
	json_t *state = text ? json_parse(text, strlen(text), &limits, err) : NULL;
	int rc = text && !state ? -1 : 0;

	ws->quarantine = quarantine_new(mode_of(ws), &ops, ws);
	if (!ws->quarantine)
		rc = err_set(err, "out of memory");
	else if (state)
		rc = quarantine_restore(ws->quarantine, (int64_t)loop_now_ns(), state, err);
	if (!rc)
		hold_settings(ws);
	json_decref(state);
	free(text);
	return rc ? err_prefix(err, "the state of quarantine") : 0;
}

/* A trip that came before this mode, or that a hostd which died had no time to act on. */
void hold_settings(struct workspace *ws)
{
	int64_t now_ns = (int64_t)loop_now_ns();

	quarantine_set_mode(ws->quarantine, mode_of(ws));
	if (judge_tripped(ingest_judge(ws->ingest)))
		quarantine_trip(ws->quarantine, now_ns, now_ns, "its score tripped and was not released", false);
}

void hold_trip(void *user, const struct ingest_alert *alert)
{
	struct workspace *ws = user;
	char parts[512], reason[1024];
	int64_t now_ns = (int64_t)loop_now_ns();
	int64_t decided_ns = now_ns - ((int64_t)loop_now_ms() - alert->at_ms) * 1000000;

	judge_parts_text(alert->parts, alert->n_parts, parts, sizeof(parts));
	snprintf(reason, sizeof(reason), "score %u of %u: %s; last: %s", alert->score, alert->threshold, parts,
		 alert->sentence);
	log_warn("%s: %s", ws->name, reason);
	quarantine_set_mode(ws->quarantine, mode_of(ws));
	quarantine_trip(ws->quarantine, now_ns, decided_ns, reason, false);
	if (mode_of(ws) != QUARANTINE_OFF)
		alerts_send(ws->hostd->alerts, alert,
			    quarantine_state(ws->quarantine) == QUARANTINE_FREE ? "running" : "quarantined");
}

void hold_again(struct workspace *ws)
{
	for (int step = 0; step < QUARANTINE_STEPS; step++)
		start_step(ws, (enum quarantine_step)step);
}
