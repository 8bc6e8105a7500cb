/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Questions that the switch has asked and not heard the answer of: bounded in number and time. */
#include "hostd/net/dns.h"
#include "hostd/net/flow.h"

bool ask_open(struct switch_ctx *c, enum ask_kind kind, uint64_t id)
{
	for (size_t i = 0; i < SWITCH_ASKS_MAX; i++) {
		struct ask *a = &c->asks[i];

		if (a->kind != ASK_NONE)
			continue;
		*a = (struct ask){ kind, id, loop_now_ms() + SWITCH_ASK_MS };
		c->asks_open++;
		c->stats.asks++;
		return true;
	}
	c->stats.asks_full++;
	return false;
}

bool ask_close(struct switch_ctx *c, enum ask_kind kind, uint64_t id)
{
	for (size_t i = 0; i < SWITCH_ASKS_MAX; i++) {
		if (c->asks[i].kind == kind && c->asks[i].id == id) {
			c->asks[i].kind = ASK_NONE;
			c->asks_open--;
			return true;
		}
	}
	return false;
}

void ask_tick(struct switch_ctx *c, uint64_t now_ms)
{
	for (size_t i = 0; i < SWITCH_ASKS_MAX && c->asks_open; i++) {
		struct ask a = c->asks[i];

		if (a.kind == ASK_NONE || now_ms < a.deadline_ms)
			continue;
		ask_close(c, a.kind, a.id);
		c->stats.asks_timed_out++;
		if (a.kind == ASK_FLOW)
			flow_ask_expired(c, a.id);
		else
			dns_ask_expired(c, a.kind, a.id);
	}
}
