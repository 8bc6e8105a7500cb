/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Joins what the switch decides on with what the Sentry saw: which process opened this flow. */
#ifndef HOLDFAST_LINEAGE_FLOW_H
#define HOLDFAST_LINEAGE_FLOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	FLOW_JOIN_KEPT_MAX = 2048, /* flows of the Sentry that wait for the switch */
	FLOW_JOIN_MS = 5000,	   /* a Sentry flow and the switch's belong together within this time */
	FLOW_JOIN_WAITERS_MAX = 1024,
};

struct flow_key {
	char proto[8];
	uint16_t sport, dport;
	char dst[48];
};

struct flow_join;

/* event is the Sentry's net_flow frame, or NULL when none came in time. Valid for the call. */
typedef void (*flow_join_fn)(void *user, const json_t *event);

struct flow_join *flow_join_new(void);
/* Waiters are called with NULL first. */
void flow_join_free(struct flow_join *join);

/* A net_flow event of the Sentry; answers those who wait for it. */
void flow_join_event(struct flow_join *join, uint64_t now_ms, const json_t *event);

/*
 * Calls fn at once when the flow is known, else when it comes or after wait_ms. With a full table of
 * waiters fn is called at once with NULL. Returns an id for flow_join_cancel, 0 when fn was called.
 */
uint64_t flow_join_ask(struct flow_join *join, uint64_t now_ms, const struct flow_key *key,
		       uint64_t wait_ms, flow_join_fn fn, void *user);
/*
 * The same for a new TCP flow: an event answers one claim and no more. Without that a program could take
 * over the port of an allowed one that has just closed, and be judged by the other's event while its own
 * is still on its way.
 */
uint64_t flow_join_claim(struct flow_join *join, uint64_t now_ms, const struct flow_key *key,
			 uint64_t wait_ms, flow_join_fn fn, void *user);
void flow_join_cancel(struct flow_join *join, uint64_t id);

/* Runs out the waiters; at least every 50 ms while there are any. */
void flow_join_tick(struct flow_join *join, uint64_t now_ms);
bool flow_join_waiting(const struct flow_join *join);

#endif
