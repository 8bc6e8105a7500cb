/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which name an address was given out for.
 *
 * Two tables of fixed size. A pin says which addresses an allowed name was answered with:
 * while it is fresh the answer is repeated, so a name server that changes its mind (DNS
 * rebinding) changes nothing for the guest; for as long as the pin lives, flows to the
 * address carry the name. A refused name gets one address of 198.18.0.0/15 (RFC 2544, never
 * routed), so that the guest's connection comes to the switch and is refused there, with
 * the name. Two names can share an address (CDNs): a flow then carries the name given out last and
 * their number. An address that was never given out has no name.
 */
#include "hostd/net/name.h"

#include <stdlib.h>
#include <string.h>

enum { SYNTHETIC_NET = 0xc6120000, SYNTHETIC_MASK = 0xfffe0000, SYNTHETIC_SIZE = 1 << 17 };

struct synthetic {
	char name[SWITCH_NAME_MAX];
	struct in_addr addr;
	uint64_t expires_ms;
};

struct name_table {
	struct name_pin pins[NAME_PINS_MAX];
	struct synthetic synthetic[NAME_SYNTHETIC_MAX];
	uint32_t next; /* offset in the pool of the next synthetic address */
};

int name_table_new(struct switch_ctx *c)
{
	c->names = calloc(1, sizeof(*c->names));
	return c->names ? 0 : -1;
}

void name_table_free(struct switch_ctx *c)
{
	free(c->names);
}

bool name_is_synthetic(struct in_addr addr)
{
	return (ntohl(addr.s_addr) & SYNTHETIC_MASK) == SYNTHETIC_NET;
}

/* The live pin of this name, or the place for it: a dead one, else the first to expire. */
static struct name_pin *pin_slot(struct name_table *t, const char *name, uint64_t now_ms)
{
	struct name_pin *best = &t->pins[0];

	for (size_t i = 0; i < NAME_PINS_MAX; i++) {
		struct name_pin *p = &t->pins[i];

		if (p->expires_ms > now_ms && !strcmp(p->name, name))
			return p;
		if (p->expires_ms < best->expires_ms)
			best = p;
	}
	return best;
}

void name_pin(struct switch_ctx *c, const char *name, const struct in_addr *addrs, size_t n,
	      unsigned ttl_s)
{
	uint64_t now_ms = loop_now_ms();
	struct name_pin *p = pin_slot(c->names, name, now_ms);
	unsigned keep_s;

	if (ttl_s < 1)
		ttl_s = 1;
	if (ttl_s > NAME_TTL_MAX_S)
		ttl_s = NAME_TTL_MAX_S;
	keep_s = ttl_s < NAME_PIN_MIN_S ? NAME_PIN_MIN_S : ttl_s;
	if (n > SWITCH_DEST_MAX)
		n = SWITCH_DEST_MAX;
	*p = (struct name_pin){
		.n = n,
		.fresh_until_ms = now_ms + ttl_s * 1000ull,
		.expires_ms = now_ms + keep_s * 1000ull,
		.given_ms = now_ms,
	};
	strncpy(p->name, name, sizeof(p->name) - 1);
	memcpy(p->addrs, addrs, n * sizeof(*addrs));
}

const struct name_pin *name_pin_fresh(struct switch_ctx *c, const char *name, unsigned *ttl_s)
{
	uint64_t now_ms = loop_now_ms();
	struct name_pin *p = pin_slot(c->names, name, now_ms);

	if (strcmp(p->name, name) || p->fresh_until_ms < now_ms + 1000)
		return NULL;
	*ttl_s = (unsigned)((p->fresh_until_ms - now_ms) / 1000);
	p->given_ms = now_ms;
	return p;
}

static const struct synthetic *synthetic_by_addr(const struct name_table *t, struct in_addr addr,
						 uint64_t now_ms)
{
	for (size_t i = 0; i < NAME_SYNTHETIC_MAX; i++) {
		const struct synthetic *s = &t->synthetic[i];

		if (s->addr.s_addr == addr.s_addr && s->expires_ms > now_ms)
			return s;
	}
	return NULL;
}

/* Skips .0.0 and the last address, and what is still in use after the pool has wrapped. */
static struct in_addr synthetic_alloc(struct name_table *t, uint64_t now_ms)
{
	struct in_addr addr;

	do {
		t->next = t->next % (SYNTHETIC_SIZE - 2) + 1;
		addr.s_addr = htonl(SYNTHETIC_NET + t->next);
	} while (synthetic_by_addr(t, addr, now_ms));
	return addr;
}

struct in_addr name_synthetic(struct switch_ctx *c, const char *name)
{
	struct name_table *t = c->names;
	struct synthetic *best = &t->synthetic[0];
	uint64_t now_ms = loop_now_ms();
	bool known = false;

	for (size_t i = 0; i < NAME_SYNTHETIC_MAX && !known; i++) {
		struct synthetic *s = &t->synthetic[i];

		known = s->expires_ms > now_ms && !strcmp(s->name, name);
		if (known || s->expires_ms < best->expires_ms)
			best = s;
	}
	if (!known) {
		memset(best, 0, sizeof(*best));
		strncpy(best->name, name, sizeof(best->name) - 1);
		best->addr = synthetic_alloc(t, now_ms);
	}
	best->expires_ms = now_ms + NAME_SYNTHETIC_S * 1000ull;
	return best->addr;
}

static bool pin_has(const struct name_pin *p, struct in_addr addr)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->addrs[i].s_addr == addr.s_addr)
			return true;
	}
	return false;
}

void name_of_flow(struct switch_ctx *c, struct flow *f)
{
	const struct name_table *t = c->names;
	uint64_t now_ms = loop_now_ms(), given_ms = 0;

	f->name[0] = '\0';
	f->name_n = 0;
	f->synthetic = name_is_synthetic(f->dst);
	if (f->synthetic) {
		const struct synthetic *s = synthetic_by_addr(t, f->dst, now_ms);

		if (s) {
			memcpy(f->name, s->name, sizeof(f->name));
			f->name_n = 1;
		}
		return;
	}
	for (size_t i = 0; i < NAME_PINS_MAX; i++) {
		const struct name_pin *p = &t->pins[i];

		if (p->expires_ms <= now_ms || !pin_has(p, f->dst))
			continue;
		f->name_n++;
		if (p->given_ms >= given_ms) {
			given_ms = p->given_ms;
			memcpy(f->name, p->name, sizeof(f->name));
		}
	}
}

void name_forget_answers(struct switch_ctx *c)
{
	for (size_t i = 0; i < NAME_PINS_MAX; i++)
		c->names->pins[i].fresh_until_ms = 0;
}
