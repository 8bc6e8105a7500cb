/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The supervisor: listens on vsock 5800 and a local socket, keeps the control stream, opens the gate. */
#ifndef SANDBOXD_SUPERVISOR_H
#define SANDBOXD_SUPERVISOR_H

#include <jansson.h>

#include "sandboxd/confine.h"
#include "sandboxd/guest.h"
#include "sandboxd/session.h"

struct guest_control;
struct guest_bridge;

struct guest_supervisor {
	struct loop *loop;
	struct guest *guest;
	struct guest_confine confine;
	struct guest_sessions *sessions;	/* NULL until the gate is open */
	struct guest_control *control;
	struct guest_bridge *bridge;
	bool init_running;	/* PID 1 became the disk's init */
	bool ready;
	enum { GUEST_PHASE_BOOT, GUEST_PHASE_SESSION, GUEST_PHASE_SHUTDOWN } phase;
	int (*connect_host)(unsigned port);	/* of the bridges, non-blocking; NULL: by vsock */
	unsigned clock_steps;
	int64_t clock_last_ms;
};

/* Runs for the rest of the boot. Returns an exit code only when its loop cannot run. */
int guest_supervisor_run(struct guest *g);

/* The status object of docs/protocol/control.md. */
json_t *guest_status_json(const struct guest_supervisor *v);

/* Hands the Sentry the programs to hash, one a line; a failure is a degraded step. 0 also where there is no Sentry. */
int guest_supervisor_hash_programs(struct guest *g, const char *list);

/* Applies the host's time. Returns the step in ms, -1 with errno. */
int64_t guest_supervisor_time(struct guest_supervisor *v, int64_t unix_ns);

/* Tells the Sentry: one way, 0 boot, 1 session, 2 shutdown. */
void guest_supervisor_phase(struct guest_supervisor *v, int phase);

#endif
