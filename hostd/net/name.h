/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which name an address was given out for. */
#ifndef HOLDFAST_NET_NAME_H
#define HOLDFAST_NET_NAME_H

#include "hostd/net/ctx.h"

enum {
	NAME_PINS_MAX = 1024,	   /* the one that expires first gives way */
	NAME_SYNTHETIC_MAX = 1024, /* the same, among themselves: a flood of refused names moves no pin */
	NAME_TTL_MAX_S = 300,
	NAME_PIN_MIN_S = 30,
	NAME_SYNTHETIC_S = 60,
};

struct name_pin {
	char name[SWITCH_NAME_MAX];
	struct in_addr addrs[SWITCH_DEST_MAX];
	size_t n;
	uint64_t fresh_until_ms;  /* answers may repeat it */
	uint64_t expires_ms;	  /* flows to it still carry the name */
	uint64_t given_ms;
};

int name_table_new(struct switch_ctx *c);
void name_table_free(struct switch_ctx *c);

/* Remembers the answer for ttl_s (1 to NAME_TTL_MAX_S) and, as a name of flows, for at
 * least NAME_PIN_MIN_S. */
void name_pin(struct switch_ctx *c, const char *name, const struct in_addr *addrs, size_t n,
	      unsigned ttl_s);
/* The pin if an answer may repeat it, with the seconds left. Marks it as given out now. */
const struct name_pin *name_pin_fresh(struct switch_ctx *c, const char *name, unsigned *ttl_s);
/* An address of 198.18.0.0/15 for a refused name, the same one as long as it is kept. */
struct in_addr name_synthetic(struct switch_ctx *c, const char *name);
bool name_is_synthetic(struct in_addr addr);
/* Fills name, name_n and synthetic of f from its dst. */
void name_of_flow(struct switch_ctx *c, struct flow *f);
/* Answers are not repeated any more (policy changed); flows still get their names. */
void name_forget_answers(struct switch_ctx *c);

#endif
