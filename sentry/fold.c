// SPDX-License-Identifier: GPL-2.0-or-later
/* The table behind folding; fold.h says what counts as the same fact. */
#include "fold.h"

static bool same_fact(const struct sentry_record *a, const struct sentry_record *b, bool with_text)
{
	if (a->kind != b->kind || a->op != b->op || a->subject.pid != b->subject.pid ||
	    a->subject.start_ns != b->subject.start_ns || memcmp(&a->detail, &b->detail, sizeof(a->detail)) != 0)
		return false;
	if (!with_text)
		return true;
	return a->text_used == b->text_used && memcmp(a->text_len, b->text_len, sizeof(a->text_len)) == 0 &&
	       memcmp(a->text, b->text, a->text_used) == 0;
}

struct sentry_fold_slot *sentry_fold_find(struct sentry_fold *fold, __u32 hash, const struct sentry_record *r,
					  bool with_text, __u64 now_ns, __u64 window_ns)
{
	struct sentry_fold_slot *set = fold->slot[hash % SENTRY_FOLD_SETS];
	unsigned int i;

	for (i = 0; i < SENTRY_FOLD_WAYS; i++)
		if (set[i].opened_ns && set[i].hash == hash && now_ns < set[i].opened_ns + window_ns &&
		    same_fact(sentry_fold_record(&set[i]), r, with_text))
			return &set[i];
	return NULL;
}

struct sentry_fold_slot *sentry_fold_victim(struct sentry_fold *fold, __u32 hash)
{
	struct sentry_fold_slot *set = fold->slot[hash % SENTRY_FOLD_SETS], *oldest = set;
	unsigned int i;

	for (i = 1; i < SENTRY_FOLD_WAYS; i++)
		if (set[i].opened_ns < oldest->opened_ns)
			oldest = &set[i];
	return oldest;
}

bool sentry_fold_open(struct sentry_fold_slot *slot, __u32 hash, const struct sentry_record *r, __u64 now_ns)
{
	if (r->text_used > SENTRY_FOLD_TEXT_BYTES)
		return false;
	memcpy(slot->bytes, r, sentry_record_size(r));
	slot->opened_ns = now_ns;
	slot->repeats = 0;
	slot->hash = hash;
	return true;
}
