/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Device side of a split virtqueue in hostile memory: a pure library over a gpa_map. */

/*
 * Theory of operation
 *
 * Goal: hand out chains of checked host pointers, whatever the driver wrote (VIRTIO 1.2, 2.7).
 * The driver's CPUs write the same memory while we read it, so every field is loaded exactly once
 * into a local, and only the local is checked and used.
 *
 * Limits: chain length <= queue size (so loops end), pieces <= RING_SEGS_MAX, bytes of a chain
 * <= RING_CHAIN_BYTES_MAX, one level of indirection, tables in one memory region.
 *
 * A hostile driver may: move the avail index anywhere (more than `size` ahead is refused), name a
 * head or next out of range, loop, put writable descriptors before readable ones, point outside of
 * memory or at the ring itself. The last is harmless: segments are bytes to us, and our own state
 * (avail_next, used_next) is never read back from the ring.
 */
#include "hostd/vm/ring.h"

#include <string.h>

enum {
	DESC_BYTES = 16,
	DESC_F_NEXT = 1,
	DESC_F_WRITE = 2,
	DESC_F_INDIRECT = 4,
	AVAIL_F_NO_INTERRUPT = 1,
	USED_F_NO_NOTIFY = 1,
};

struct desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};

/* Guest memory is little-endian, and so are the hosts we run on. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ring access is not byte-swapped");
_Static_assert(sizeof(struct desc) == DESC_BYTES, "descriptor layout");

static uint16_t load16(const uint8_t *p)
{
	return __atomic_load_n((const uint16_t *)(const void *)p, __ATOMIC_ACQUIRE);
}

static void store16(uint8_t *p, uint16_t v)
{
	__atomic_store_n((uint16_t *)(void *)p, v, __ATOMIC_RELEASE);
}

static struct desc load_desc(const uint8_t *table, uint32_t i)
{
	struct desc d;

	/* The asm keeps the compiler from reading guest memory a second time for a later use. */
	memcpy(&d, table + (size_t)i * DESC_BYTES, sizeof(d));
	__asm__ volatile("" ::: "memory");
	return d;
}

static int broken(struct ring *r, const char *why)
{
	r->broken = why;
	return -1;
}

int ring_init(struct ring *r, const struct gpa_map *map, uint16_t size, uint64_t desc_uva,
	      uint64_t avail_uva, uint64_t used_uva, uint16_t base, bool event_idx,
	      struct err *err)
{
	*r = (struct ring){ .map = map, .size = size, .event_idx = event_idx };
	if (!size || size > RING_SIZE_MAX || (size & (size - 1)))
		return err_set(err, "queue size %u", size);
	if ((desc_uva & 15) || (avail_uva & 1) || (used_uva & 3))
		return err_set(err, "queue table is not aligned");
	r->desc = gpa_uva_ptr(map, desc_uva, (uint64_t)size * DESC_BYTES);
	r->avail = gpa_uva_ptr(map, avail_uva, 6 + (uint64_t)size * 2);
	r->used = gpa_uva_ptr(map, used_uva, 6 + (uint64_t)size * 8);
	if (!r->desc || !r->avail || !r->used)
		return err_set(err, "queue table lies outside of guest memory");
	/* A region may start anywhere in our own address space; atomics need the alignment there. */
	if (((uintptr_t)r->desc & 15) || ((uintptr_t)r->avail & 1) || ((uintptr_t)r->used & 3))
		return err_set(err, "queue table is not aligned in its region");
	r->avail_next = base;
	r->used_next = load16(r->used + 2);
	r->ready = true;
	return 0;
}

void ring_stop(struct ring *r)
{
	r->ready = false;
	r->desc = r->avail = r->used = NULL;
}

static int add_seg(struct ring *r, struct ring_chain *c, const struct desc *d)
{
	bool in = d->flags & DESC_F_WRITE;
	uint64_t addr = d->addr;
	uint64_t left = d->len;
	uint32_t *bytes = in ? &c->in_bytes : &c->out_bytes;

	if (!in && c->n_in)
		return broken(r, "readable descriptor after a writable one");
	if (d->len > RING_CHAIN_BYTES_MAX - *bytes)
		return broken(r, "chain is too long in bytes");
	*bytes += d->len;
	while (left) {
		uint64_t run = left;
		uint8_t *p = gpa_run(r->map, addr, &run);
		size_t at = (size_t)c->n_out + c->n_in;

		if (!p)
			return broken(r, "descriptor points outside of guest memory");
		if (at == RING_SEGS_MAX)
			return broken(r, "chain has too many pieces");
		c->seg[at] = (struct ring_seg){ .p = p, .len = (uint32_t)run };
		if (in)
			c->n_in++;
		else
			c->n_out++;
		addr += run;
		left -= run;
	}
	return 0;
}

/* Follows `next` from entry `i` of a table of `n`; stops early at an indirect descriptor. */
static int walk(struct ring *r, struct ring_chain *c, const uint8_t *table, uint32_t n, uint32_t i,
		bool indirect_allowed, struct desc *indirect)
{
	for (uint32_t steps = 0; steps < n; steps++) {
		struct desc d;

		if (i >= n)
			return broken(r, "descriptor index out of range");
		d = load_desc(table, i);
		if (d.flags & DESC_F_INDIRECT) {
			if (!indirect_allowed || (d.flags & DESC_F_NEXT))
				return broken(r, "indirect descriptor where none may be");
			*indirect = d;
			return 1;
		}
		if (add_seg(r, c, &d))
			return -1;
		if (!(d.flags & DESC_F_NEXT))
			return 0;
		i = d.next;
	}
	return broken(r, "descriptor chain loops");
}

static int walk_indirect(struct ring *r, struct ring_chain *c, const struct desc *d)
{
	const uint8_t *table;
	struct desc none;

	if (!d->len || d->len % DESC_BYTES || d->len / DESC_BYTES > RING_SIZE_MAX)
		return broken(r, "indirect table has a bad length");
	table = gpa_ptr(r->map, d->addr, d->len);
	if (!table)
		return broken(r, "indirect table lies outside of guest memory");
	return walk(r, c, table, d->len / DESC_BYTES, 0, false, &none);
}

int ring_pop(struct ring *r, struct ring_chain *c)
{
	struct desc indirect;
	uint16_t avail;
	uint16_t head;
	int rc;

	if (r->broken)
		return -1;
	if (!r->ready)
		return 0;
	avail = load16(r->avail + 2);
	if (avail == r->avail_next)
		return 0;
	if ((uint16_t)(avail - r->avail_next) > r->size)
		return broken(r, "available index ran ahead of the queue");
	head = load16(r->avail + 4 + (size_t)(r->avail_next & (r->size - 1)) * 2);
	if (head >= r->size)
		return broken(r, "head index out of range");
	c->head = head;
	c->n_out = c->n_in = 0;
	c->out_bytes = c->in_bytes = 0;
	rc = walk(r, c, r->desc, r->size, head, true, &indirect);
	if (rc == 1)
		rc = walk_indirect(r, c, &indirect);
	if (rc)
		return -1;
	r->avail_next++;
	return 1;
}

void ring_push(struct ring *r, uint16_t head, uint32_t written)
{
	uint8_t *slot;
	uint32_t elem[2] = { head, written };

	if (!r->ready)
		return;
	slot = r->used + 4 + (size_t)(r->used_next & (r->size - 1)) * 8;
	memcpy(slot, elem, sizeof(elem));
	store16(r->used + 2, ++r->used_next);
}

bool ring_want_kick(struct ring *r, bool want)
{
	if (!r->ready)
		return false;
	if (r->event_idx) {
		if (want)
			store16(r->used + 4 + (size_t)r->size * 8, r->avail_next);
	} else {
		store16(r->used, want ? 0 : USED_F_NO_NOTIFY);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return want && load16(r->avail + 2) != r->avail_next;
}

bool ring_needs_call(struct ring *r)
{
	uint16_t was = r->used_signalled;
	bool valid = r->signalled_valid;
	uint16_t event;

	if (!r->ready)
		return false;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!r->event_idx)
		return !(load16(r->avail) & AVAIL_F_NO_INTERRUPT);
	r->used_signalled = r->used_next;
	r->signalled_valid = true;
	if (!valid)
		return true;
	event = load16(r->avail + 4 + (size_t)r->size * 2);
	return (uint16_t)(r->used_next - event - 1) < (uint16_t)(r->used_next - was);
}

static size_t copy(const struct ring_seg *seg, size_t n_seg, size_t off, void *to,
		   const void *from, size_t n)
{
	size_t done = 0;

	for (size_t i = 0; i < n_seg && done < n; i++) {
		size_t part;

		if (off >= seg[i].len) {
			off -= seg[i].len;
			continue;
		}
		part = seg[i].len - off;
		if (part > n - done)
			part = n - done;
		if (to)
			memcpy((uint8_t *)to + done, seg[i].p + off, part);
		else
			memcpy(seg[i].p + off, (const uint8_t *)from + done, part);
		done += part;
		off = 0;
	}
	return done;
}

size_t ring_copy_out(const struct ring_chain *c, size_t off, void *to, size_t n)
{
	return copy(c->seg, c->n_out, off, to, NULL, n);
}

size_t ring_copy_in(const struct ring_chain *c, size_t off, const void *from, size_t n)
{
	return copy(c->seg + c->n_out, c->n_in, off, NULL, from, n);
}
