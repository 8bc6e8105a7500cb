/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The gate between handlers and the thread: folding, rate limits, the ring, and the counts that make up the whole.
 *
 * For each kind, at any moment: offered = sent + folded + dropped + rate_limited + waiting in ring or table.
 * Everything here may be called from a probe handler: it takes one raw spin lock and neither sleeps nor allocates.
 */
#ifndef SENTRY_GATE_H
#define SENTRY_GATE_H

#include "record.h"

struct sentry_counts {
	u64 offered, sent, folded, dropped, rate_limited;
};

int sentry_gate_init(unsigned int dedup_ms, unsigned int flow_dedup_ms);

/* Offer one record (count 1). fold: repeats of the fact are counted in its slot. */
void sentry_gate_offer(struct sentry_record *record, bool fold);

/* Count a datagram of the current task if it repeats a flow in the table. False: build its record and offer that. */
bool sentry_gate_repeat_flow(const struct sentry_flow *flow);

/* Count an event of which no record could be made. */
void sentry_gate_drop(enum hf_sentry_kind kind);

/* Thread only: the next record, or false. The copy is counted as sent. */
bool sentry_gate_take(struct sentry_record *into);

/* Thread only: send what was folded in windows that have ended. */
void sentry_gate_expire(void);

void sentry_gate_counts(struct sentry_counts counts[HF_SENTRY_KIND_COUNT]);
bool sentry_gate_is_empty(void);

/* The thread says what to wake, and when it is about to sleep and whether a record in the ring is a reason to wake it. */
void sentry_gate_set_waiter(struct task_struct *thread);
void sentry_gate_prepare_sleep(bool wake_for_records);

#endif
