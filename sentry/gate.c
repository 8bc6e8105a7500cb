// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One lock, three stages: fold, limit, ring.
 *
 * The first record of a fact goes on at once; repeats within its window only raise a number in the fold table,
 * and one record with that number follows when the window ends (or when the slot is needed for another fact).
 * Then the token bucket of the kind, one for sandboxed tasks and one for all others, so that a flood outside
 * cannot hide an event inside. Then the ring of 256; the thread is the only reader.
 */
#include <linux/hash.h>
#include <linux/in.h>
#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "fold.h"
#include "gate.h"
#include "limit.h"

#define EXPIRE_MS 50

static DEFINE_RAW_SPINLOCK(gate_lock);

static struct sentry_record *ring;	/* HF_SENTRY_RING_SLOTS */
static unsigned int ring_head, ring_tail; /* free running; head is where the next record goes */

static struct sentry_fold *denials, *flows;
static u64 denial_window_ns, flow_window_ns;
static u32 hash_seed;
static u64 flow_seed;

static struct sentry_limit limits[HF_SENTRY_KIND_COUNT][2]; /* [1]: sandboxed tasks */
static struct sentry_limit tcp_limits[2];
static struct sentry_counts counters[HF_SENTRY_KIND_COUNT];

static struct task_struct *waiter;
static bool waiter_sleeps;

static_assert(HF_SENTRY_RING_SLOTS == 256);
static_assert(sizeof(struct sentry_record) <= 2560);

int sentry_gate_init(unsigned int dedup_ms, unsigned int flow_dedup_ms)
{
	ring = vzalloc(HF_SENTRY_RING_SLOTS * sizeof(*ring));
	denials = vzalloc(sizeof(*denials));
	flows = vzalloc(sizeof(*flows));
	if (!ring || !denials || !flows) {
		vfree(flows);
		vfree(denials);
		vfree(ring);
		return -ENOMEM;
	}
	denial_window_ns = (u64)dedup_ms * NSEC_PER_MSEC;
	flow_window_ns = (u64)flow_dedup_ms * NSEC_PER_MSEC;
	get_random_bytes(&hash_seed, sizeof(hash_seed));
	get_random_bytes(&flow_seed, sizeof(flow_seed));
	return 0;
}

static bool is_tcp_flow(const struct sentry_record *r)
{
	return r->kind == HF_SENTRY_KIND_NET_FLOW && r->detail.flow.protocol == IPPROTO_TCP;
}

/* Into the ring, unless it is full or the rate is exceeded; then it is counted, and false. */
static bool push(const struct sentry_record *r, u64 now)
{
	struct sentry_counts *c = &counters[r->kind];
	unsigned int class = !!(r->flags & SENTRY_SANDBOXED);
	bool fits;

	lockdep_assert_held(&gate_lock);
	if (is_tcp_flow(r))
		fits = sentry_limit_take(&tcp_limits[class], now, HF_SENTRY_TCP_RATE, HF_SENTRY_TCP_BURST);
	else
		fits = sentry_limit_take(&limits[r->kind][class], now, HF_SENTRY_RATE, HF_SENTRY_BURST);
	if (!fits) {
		c->rate_limited += r->count;
		return false;
	}
	if (ring_head - ring_tail >= HF_SENTRY_RING_SLOTS) {
		c->dropped += r->count;
		return false;
	}
	memcpy(&ring[ring_head % HF_SENTRY_RING_SLOTS], r, sentry_record_size(r));
	ring_head++;
	return true;
}

/* The clock of the flows' table: as fine as a tick, and a single load, since each datagram asks for it. */
static u64 flow_clock(void)
{
	return get_jiffies_64() * TICK_NSEC;
}

/* Send what a slot has counted and free it. */
static void slot_close(struct sentry_fold_slot *slot, u64 now)
{
	struct sentry_record *r = sentry_fold_record(slot);

	if (slot->opened_ns && slot->repeats) {
		r->count = slot->repeats;
		push(r, now);
	}
	slot->opened_ns = 0;
}

static u32 fact_hash(const struct sentry_record *r)
{
	u32 hash = jhash(&r->detail, sizeof(r->detail), hash_seed);

	hash = jhash_3words(r->kind << 8 | r->op, r->subject.pid, (u32)r->subject.start_ns, hash);
	return jhash(r->text, r->text_used, hash);
}

/* One multiplication, since each datagram pays for it; who looks for collisions only gets more records. */
static u32 flow_hash(const struct sentry_flow *flow, u32 pid)
{
	u64 word[3];

	static_assert(sizeof(word) + sizeof(flow->ifindex) == sizeof(*flow));
	memcpy(word, flow, sizeof(word));
	return hash_64(flow_seed ^ word[0] ^ rol64(word[1], 32) ^ rol64(word[2], 16) ^ flow->ifindex ^ (u64)pid << 32, 32);
}

static void wake(void)
{
	smp_mb(); /* with sentry_gate_prepare_sleep() */
	if (READ_ONCE(waiter_sleeps)) {
		WRITE_ONCE(waiter_sleeps, false);
		wake_up_process(waiter);
	}
}

bool sentry_gate_repeat_flow(const struct sentry_flow *flow)
{
	u32 hash = flow_hash(flow, current->tgid);
	u64 start_ns = current->group_leader->start_boottime;
	struct sentry_fold_slot *slot;
	unsigned long irq;

	raw_spin_lock_irqsave(&gate_lock, irq);
	slot = sentry_fold_find_flow(flows, hash, flow, current->tgid, start_ns, flow_clock(), flow_window_ns);
	if (slot) {
		slot->repeats++;
		counters[HF_SENTRY_KIND_NET_FLOW].offered++;
	}
	raw_spin_unlock_irqrestore(&gate_lock, irq);
	return slot;
}

void sentry_gate_offer(struct sentry_record *r, bool fold)
{
	bool is_flow = r->kind == HF_SENTRY_KIND_NET_FLOW;
	struct sentry_fold *table = is_flow ? flows : denials;
	u64 now = is_flow ? flow_clock() : r->t, window_ns = is_flow ? flow_window_ns : denial_window_ns;
	struct sentry_fold_slot *slot = NULL;
	u32 hash = !fold ? 0 : is_flow ? flow_hash(&r->detail.flow, r->subject.pid) : fact_hash(r);
	bool queued = false;
	unsigned long irq;

	raw_spin_lock_irqsave(&gate_lock, irq);
	counters[r->kind].offered++;
	if (fold) {
		slot = sentry_fold_find(table, hash, r, !is_flow, now, window_ns);
		if (slot) {
			slot->repeats++;
			goto out;
		}
		slot = sentry_fold_victim(table, hash);
		slot_close(slot, r->t);
		sentry_fold_open(slot, hash, r, now);
	}
	queued = push(r, r->t);
out:
	raw_spin_unlock_irqrestore(&gate_lock, irq);
	if (queued)
		wake();
}

void sentry_gate_drop(enum hf_sentry_kind kind)
{
	unsigned long irq;

	raw_spin_lock_irqsave(&gate_lock, irq);
	counters[kind].offered++;
	counters[kind].dropped++;
	raw_spin_unlock_irqrestore(&gate_lock, irq);
}

bool sentry_gate_take(struct sentry_record *into)
{
	const struct sentry_record *r;
	unsigned long irq;
	bool found;

	raw_spin_lock_irqsave(&gate_lock, irq);
	found = ring_head != ring_tail;
	if (found) {
		r = &ring[ring_tail % HF_SENTRY_RING_SLOTS];
		memcpy(into, r, sentry_record_size(r));
		ring_tail++;
		counters[into->kind].sent++;
		counters[into->kind].folded += into->count - 1;
	}
	raw_spin_unlock_irqrestore(&gate_lock, irq);
	return found;
}

static bool is_over(const struct sentry_fold_slot *slot, u64 clock, u64 window_ns)
{
	u64 opened_ns = READ_ONCE(slot->opened_ns);

	return opened_ns && opened_ns + window_ns <= clock;
}

static void table_expire(struct sentry_fold *table, u64 clock, u64 window_ns)
{
	struct sentry_fold_slot *slot = &table->slot[0][0];
	unsigned long irq;
	unsigned int i;

	for (i = 0; i < HF_SENTRY_FOLD_SLOTS; i++, slot++) {
		if (!is_over(slot, clock, window_ns))
			continue;
		raw_spin_lock_irqsave(&gate_lock, irq);
		if (is_over(slot, clock, window_ns))
			slot_close(slot, ktime_get_boot_fast_ns());
		raw_spin_unlock_irqrestore(&gate_lock, irq);
	}
}

/* The thread comes here after each event, but looks at the tables at most once in EXPIRE_MS. */
void sentry_gate_expire(void)
{
	static unsigned long next;

	if (next && time_before(jiffies, next))
		return;
	next = jiffies + msecs_to_jiffies(EXPIRE_MS);
	table_expire(denials, ktime_get_boot_fast_ns(), denial_window_ns);
	table_expire(flows, flow_clock(), flow_window_ns);
}

void sentry_gate_counts(struct sentry_counts counts[HF_SENTRY_KIND_COUNT])
{
	unsigned long irq;

	raw_spin_lock_irqsave(&gate_lock, irq);
	memcpy(counts, counters, sizeof(counters));
	raw_spin_unlock_irqrestore(&gate_lock, irq);
}

bool sentry_gate_is_empty(void)
{
	return READ_ONCE(ring_head) == READ_ONCE(ring_tail);
}

void sentry_gate_set_waiter(struct task_struct *thread)
{
	waiter = thread;
}

void sentry_gate_prepare_sleep(bool wake_for_records)
{
	WRITE_ONCE(waiter_sleeps, wake_for_records);
	smp_mb(); /* with wake(): either it sees the flag or the caller's second look sees the record */
}
