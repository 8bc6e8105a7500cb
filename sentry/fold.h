/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folding: repeats of one fact within a window are counted and sent once. Pure: the caller brings clock, hash and lock.
 *
 * 16 sets of 4 slots. The hash only chooses the set; two records fold only if every member that makes up the
 * fact is equal (kind, op, subject, detail and text), so that two different facts never become one.
 */
#ifndef SENTRY_FOLD_H
#define SENTRY_FOLD_H

#include "record.h"
#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <stdbool.h>
#include <string.h>
#endif

#define SENTRY_FOLD_WAYS 4
#define SENTRY_FOLD_SETS (HF_SENTRY_FOLD_SLOTS / SENTRY_FOLD_WAYS)

/* A folded record keeps two texts and no arguments. */
#define SENTRY_FOLD_TEXT_BYTES (2 * HF_SENTRY_PATH_MAX)
#define SENTRY_FOLD_RECORD_BYTES (SENTRY_RECORD_HEAD + SENTRY_FOLD_TEXT_BYTES)

struct sentry_fold_slot {
	__u64 opened_ns; /* 0: free */
	__u32 repeats;	 /* seen since the first one went out */
	__u32 hash;
	union {
		__u8 bytes[SENTRY_FOLD_RECORD_BYTES];
		__u64 align;
	};
};

struct sentry_fold {
	struct sentry_fold_slot slot[SENTRY_FOLD_SETS][SENTRY_FOLD_WAYS];
};

/* The record of a used slot. */
static inline struct sentry_record *sentry_fold_record(struct sentry_fold_slot *slot)
{
	return (struct sentry_record *)slot->bytes;
}

/* The slot that holds the fact of r within window_ns of its first record, or NULL. with_text: compare texts too. */
struct sentry_fold_slot *sentry_fold_find(struct sentry_fold *fold, __u32 hash, const struct sentry_record *r,
					  bool with_text, __u64 now_ns, __u64 window_ns);

static inline bool sentry_fold_same_flow(const struct sentry_flow *a, const struct sentry_flow *b)
{
	__u64 x[3], y[3];

	static_assert(sizeof(x) + sizeof(a->ifindex) == sizeof(*a), "words and ifindex are the whole flow");
	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (a->ifindex ^ b->ifindex));
}

/* The same for a flow of which there is no record yet, in a table of nothing but flows. Inline: each datagram asks. */
static inline struct sentry_fold_slot *sentry_fold_find_flow(struct sentry_fold *fold, __u32 hash,
							     const struct sentry_flow *flow, __u32 pid, __u64 start_ns,
							     __u64 now_ns, __u64 window_ns)
{
	struct sentry_fold_slot *slot = fold->slot[hash % SENTRY_FOLD_SETS], *end = slot + SENTRY_FOLD_WAYS;

	for (; slot < end; slot++) {
		const struct sentry_record *r = sentry_fold_record(slot);

		if (slot->hash == hash && slot->opened_ns && now_ns < slot->opened_ns + window_ns &&
		    r->subject.pid == pid && r->subject.start_ns == start_ns && sentry_fold_same_flow(&r->detail.flow, flow))
			return slot;
	}
	return NULL;
}

/* The slot to use for a new fact: a free one, else the oldest of its set, whose repeats the caller must send first. */
struct sentry_fold_slot *sentry_fold_victim(struct sentry_fold *fold, __u32 hash);

/* Put the fact of r into a slot. Returns false if it holds more text than a slot can keep: then it is not folded. */
bool sentry_fold_open(struct sentry_fold_slot *slot, __u32 hash, const struct sentry_record *r, __u64 now_ns);

#endif
