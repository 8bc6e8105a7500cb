/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * quarantine.h - what happens on a trip, in what order, and until when.
 *
 * Pure: the effects are operations that hostd gives. The order is fixed: the switch port closes, proxy streams are
 * cut, vsock is closed except 5841, then the VM stops. A step that does not answer within its time does not hold up
 * the next one. Quarantine is a state of the workspace, not of the process: its JSON is stored, and a workspace that
 * is in it does not run before release, reset or delete.
 */
#ifndef HOSTD_SENTRY_QUARANTINE_H
#define HOSTD_SENTRY_QUARANTINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum quarantine_mode { QUARANTINE_OFF, QUARANTINE_ALERT, QUARANTINE_CUT };

enum quarantine_step {
	QUARANTINE_CLOSE_SWITCH,
	QUARANTINE_CUT_PROXY,
	QUARANTINE_CLOSE_VSOCK,
	QUARANTINE_STOP_VM,
	QUARANTINE_STEPS,
};

enum quarantine_state {
	QUARANTINE_FREE,    /* may run */
	QUARANTINE_CUTTING, /* steps are under way */
	QUARANTINE_HELD,    /* cut and stopped */
};

#define QUARANTINE_STEP_MS 2000 /* patience with one step */

struct quarantine;

struct quarantine_ops {
	/*
	 * Starts the effect of @step; must be idempotent (asked again after a restart). Answer by quarantine_done(),
	 * from within or later. Return -1: there is nothing to do it on (no VM, no proxy), which counts as done.
	 */
	int (*start)(void *u, enum quarantine_step step);
	/* The state changed: store @state, durably, before anything else is done with the workspace. */
	void (*save)(void *u, json_t *state);
	/* Cut and stopped. cut_ns: from the deciding event to the closed switch port. @failed: bit set of steps that did
	 * not confirm. The VM could not be stopped (bit 3): end it. */
	void (*held)(void *u, int64_t cut_ns, int64_t total_ns, unsigned failed);
};

struct quarantine *quarantine_new(enum quarantine_mode mode, const struct quarantine_ops *ops, void *u);
void quarantine_free(struct quarantine *q);
void quarantine_set_mode(struct quarantine *q, enum quarantine_mode mode);
/* After a restart: takes the stored state back; if it was cutting or held, every step is done again. */
int quarantine_restore(struct quarantine *q, int64_t now_ns, const json_t *state, struct err *e);

/* The judge tripped at @decided_ns, or an operator asked (@forced: also in mode off or alert). Held stays held. */
void quarantine_trip(struct quarantine *q, int64_t now_ns, int64_t decided_ns, const char *reason, bool forced);
void quarantine_done(struct quarantine *q, int64_t now_ns, enum quarantine_step step, bool ok);
void quarantine_tick(struct quarantine *q, int64_t now_ns);
/* release, reset and delete. */
void quarantine_release(struct quarantine *q, const char *verb, const char *author);

enum quarantine_state quarantine_state(const struct quarantine *q);
/* 0, or -1 with "workspace is in quarantine since …: holdfast release, reset or delete". Ask before every start. */
int quarantine_may_run(const struct quarantine *q, struct err *e);
const char *quarantine_step_name(enum quarantine_step step);
const char *quarantine_reason(const struct quarantine *q);

#endif
