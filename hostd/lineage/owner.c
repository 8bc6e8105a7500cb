/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which program an open flow was allowed for, as long as it is open. */
#include "hostd/lineage/owner.h"

#include <stdlib.h>

struct owner {
	uint64_t flow, noted; /* noted: 0 in a free slot */
	json_t *event;
};

struct owners {
	struct owner slots[OWNERS_MAX];
	uint64_t notes;
};

static struct owner *slot_of(const struct owners *owners, uint64_t flow)
{
	for (size_t i = 0; i < OWNERS_MAX; i++)
		if (owners->slots[i].noted && owners->slots[i].flow == flow)
			return (struct owner *)&owners->slots[i];
	return NULL;
}

/* A free slot has the smallest note of all. */
static struct owner *oldest(struct owners *owners)
{
	struct owner *found = &owners->slots[0];

	for (size_t i = 1; i < OWNERS_MAX && found->noted; i++)
		if (owners->slots[i].noted < found->noted)
			found = &owners->slots[i];
	return found;
}

struct owners *owners_new(void)
{
	return calloc(1, sizeof(struct owners));
}

void owners_free(struct owners *owners)
{
	if (owners)
		owners_clear(owners);
	free(owners);
}

void owners_note(struct owners *owners, uint64_t flow, const json_t *event)
{
	struct owner *slot = slot_of(owners, flow);

	if (!slot)
		slot = oldest(owners);
	json_incref((json_t *)event);
	json_decref(slot->event);
	*slot = (struct owner){ .flow = flow, .noted = ++owners->notes, .event = (json_t *)event };
}

const json_t *owners_find(const struct owners *owners, uint64_t flow)
{
	const struct owner *slot = slot_of(owners, flow);

	return slot ? slot->event : NULL;
}

json_t *owners_take(struct owners *owners, uint64_t flow)
{
	struct owner *slot = slot_of(owners, flow);
	json_t *event = slot ? slot->event : NULL;

	if (slot)
		*slot = (struct owner){ 0 };
	return event;
}

void owners_clear(struct owners *owners)
{
	for (size_t i = 0; i < OWNERS_MAX; i++) {
		json_decref(owners->slots[i].event);
		owners->slots[i] = (struct owner){ 0 };
	}
}
