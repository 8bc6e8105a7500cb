/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which program an open flow was allowed for, as long as it is open. */
#ifndef HOLDFAST_LINEAGE_OWNER_H
#define HOLDFAST_LINEAGE_OWNER_H

#include <jansson.h>
#include <stdint.h>

enum { OWNERS_MAX = 2048 }; /* as many flows as the switch keeps open */

struct owners;

/* NULL when there is no memory. */
struct owners *owners_new(void);
void owners_free(struct owners *owners);

/*
 * event is what the flow was judged by: the Sentry's net_flow frame or what stands for it; a reference of
 * it is kept. In a full table the flow noted longest ago is forgotten.
 */
void owners_note(struct owners *owners, uint64_t flow, const json_t *event);
/* The event, valid until the next call that changes the table; NULL for a flow that is not known. */
const json_t *owners_find(const struct owners *owners, uint64_t flow);
/* The same, and the flow is forgotten: the reference becomes the caller's. */
json_t *owners_take(struct owners *owners, uint64_t flow);
/* The run is over: the ids of its flows mean nothing any more. */
void owners_clear(struct owners *owners);

#endif
