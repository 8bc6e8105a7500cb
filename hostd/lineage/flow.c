/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Joins what the switch decides on with what the Sentry saw: which process opened this flow. */
#include "hostd/lineage/flow.h"

#include <stdlib.h>
#include <string.h>

/*
 * Theory of operation. The Sentry's event leaves the guest before or after the packet it tells of, by a
 * few milliseconds. Events are kept in a ring of FLOW_JOIN_KEPT_MAX; the newest with the same protocol,
 * source port, destination and port wins, so a port that is used again within the time gets its new owner.
 * ICMP has no ports: both are 0. UDP of an unbound socket may have source port 0 in the event, which
 * then fits any source port.
 */
struct kept {
	struct flow_key key;
	uint64_t at_ms;
	json_t *event;
	bool claimed;
};

struct waiter {
	struct waiter *next;
	uint64_t id, deadline_ms;
	struct flow_key key;
	bool claim;
	flow_join_fn fn;
	void *user;
};

struct flow_join {
	struct kept ring[FLOW_JOIN_KEPT_MAX];
	size_t next_slot;
	struct waiter *waiters;
	size_t n_waiters;
	uint64_t last_id;
};

struct flow_join *flow_join_new(void)
{
	return calloc(1, sizeof(struct flow_join));
}

void flow_join_free(struct flow_join *join)
{
	if (!join)
		return;
	while (join->waiters) {
		struct waiter *w = join->waiters;

		join->waiters = w->next;
		w->fn(w->user, NULL);
		free(w);
	}
	for (size_t i = 0; i < FLOW_JOIN_KEPT_MAX; i++)
		json_decref(join->ring[i].event);
	free(join);
}

static int key_of_event(struct flow_key *key, const json_t *event)
{
	const char *proto = json_string_value(json_object_get(event, "proto"));
	const char *dst = json_string_value(json_object_get(event, "dst"));

	if (!proto || !dst || strlen(proto) >= sizeof(key->proto) || strlen(dst) >= sizeof(key->dst))
		return -1;
	strcpy(key->proto, proto);
	strcpy(key->dst, dst);
	key->sport = (uint16_t)json_integer_value(json_object_get(event, "sport"));
	key->dport = (uint16_t)json_integer_value(json_object_get(event, "dport"));
	return 0;
}

static bool fits(const struct flow_key *seen, const struct flow_key *asked)
{
	if (strcmp(seen->proto, asked->proto) || strcmp(seen->dst, asked->dst))
		return false;
	if (!strcmp(seen->proto, "icmp"))
		return true;
	return seen->dport == asked->dport && (seen->sport == asked->sport || !seen->sport);
}

void flow_join_event(struct flow_join *join, uint64_t now_ms, const json_t *event)
{
	struct waiter **at = &join->waiters;
	struct kept *slot = &join->ring[join->next_slot];
	struct flow_key key;

	if (key_of_event(&key, event))
		return;
	join->next_slot = (join->next_slot + 1) % FLOW_JOIN_KEPT_MAX;
	json_decref(slot->event);
	*slot = (struct kept){ .key = key, .at_ms = now_ms, .event = json_incref((json_t *)event) };
	while (*at) {
		struct waiter *w = *at;

		if (!fits(&key, &w->key) || (w->claim && slot->claimed)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		join->n_waiters--;
		slot->claimed |= w->claim;
		w->fn(w->user, slot->event);
		free(w);
		at = &join->waiters; /* fn may have changed the list */
	}
}

/* The newest that fits. A claim takes the older ones with it: they can belong to nobody after it. */
static const json_t *find(struct flow_join *join, uint64_t now_ms, const struct flow_key *key, bool claim)
{
	const json_t *found = NULL;

	for (size_t back = 1; back <= FLOW_JOIN_KEPT_MAX; back++) {
		struct kept *slot = &join->ring[(join->next_slot + FLOW_JOIN_KEPT_MAX - back) %
						      FLOW_JOIN_KEPT_MAX];

		if (!slot->event || slot->at_ms + FLOW_JOIN_MS < now_ms)
			break;
		if (!fits(&slot->key, key) || (claim && slot->claimed))
			continue;
		if (!found)
			found = slot->event;
		if (!claim)
			break;
		slot->claimed = true;
	}
	return found;
}

static uint64_t ask(struct flow_join *join, uint64_t now_ms, const struct flow_key *key,
		    uint64_t wait_ms, bool claim, flow_join_fn fn, void *user)
{
	const json_t *event = find(join, now_ms, key, claim);
	struct waiter *w = NULL;

	if (!event && wait_ms && join->n_waiters < FLOW_JOIN_WAITERS_MAX)
		w = calloc(1, sizeof(*w));
	if (!w) {
		fn(user, event);
		return 0;
	}
	*w = (struct waiter){ .next = join->waiters, .id = ++join->last_id, .deadline_ms = now_ms + wait_ms,
			      .key = *key, .claim = claim, .fn = fn, .user = user };
	join->waiters = w;
	join->n_waiters++;
	return w->id;
}

uint64_t flow_join_ask(struct flow_join *join, uint64_t now_ms, const struct flow_key *key,
		       uint64_t wait_ms, flow_join_fn fn, void *user)
{
	return ask(join, now_ms, key, wait_ms, false, fn, user);
}

uint64_t flow_join_claim(struct flow_join *join, uint64_t now_ms, const struct flow_key *key,
			 uint64_t wait_ms, flow_join_fn fn, void *user)
{
	return ask(join, now_ms, key, wait_ms, true, fn, user);
}

void flow_join_cancel(struct flow_join *join, uint64_t id)
{
	for (struct waiter **at = &join->waiters; *at; at = &(*at)->next) {
		struct waiter *w = *at;

		if (w->id != id)
			continue;
		*at = w->next;
		join->n_waiters--;
		free(w);
		return;
	}
}

void flow_join_tick(struct flow_join *join, uint64_t now_ms)
{
	struct waiter **at = &join->waiters;

	while (*at) {
		struct waiter *w = *at;

		if (w->deadline_ms > now_ms) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		join->n_waiters--;
		w->fn(w->user, NULL);
		free(w);
		at = &join->waiters;
	}
}

bool flow_join_waiting(const struct flow_join *join)
{
	return join->n_waiters > 0;
}
