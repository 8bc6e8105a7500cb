/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Device side of a split virtqueue in hostile memory: a pure library over a gpa_map. */
#ifndef HOLDFAST_HOSTD_VM_RING_H
#define HOLDFAST_HOSTD_VM_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hostd/vm/gpa.h"

enum {
	RING_SIZE_MAX = 1024,	  /* descriptors in a queue */
	RING_SEGS_MAX = 64,	  /* pieces of one chain, after splitting at region borders */
	RING_CHAIN_BYTES_MAX = 1 << 20,
};

struct ring_seg {
	uint8_t *p; /* guest memory: copy before looking */
	uint32_t len;
};

/* One request of the driver: `n_out` segments we may read, then `n_in` that we may write. */
struct ring_chain {
	uint16_t head;
	uint16_t n_out;
	uint16_t n_in;
	uint32_t out_bytes;
	uint32_t in_bytes;
	struct ring_seg seg[RING_SEGS_MAX];
};

struct ring {
	const struct gpa_map *map;
	uint16_t size;
	uint8_t *desc;
	uint8_t *avail;
	uint8_t *used;
	uint16_t avail_next;	  /* index of the next entry we take */
	uint16_t used_next;	  /* index of the next entry we give */
	uint16_t used_signalled;  /* used_next when the driver was last called */
	bool event_idx;
	bool signalled_valid;
	bool ready;
	const char *broken;	  /* what the driver did; NULL while it behaves */
};

/*
 * Sets up a ring at these QEMU addresses. Refused (-1) when the size is no power of two up to
 * RING_SIZE_MAX, an address is unaligned, or a table does not lie in one region.
 */
int ring_init(struct ring *r, const struct gpa_map *map, uint16_t size, uint64_t desc_uva,
	      uint64_t avail_uva, uint64_t used_uva, uint16_t base, bool event_idx,
	      struct err *err);

/* Forgets the addresses: nothing is read or written until the next ring_init. */
void ring_stop(struct ring *r);

/*
 * Takes the next chain: 1 and *c filled, 0 none there, -1 the driver broke the rules (r->broken
 * says how; the ring stays broken until ring_init). Each descriptor is read from memory once.
 */
int ring_pop(struct ring *r, struct ring_chain *c);

/* Gives a chain back with the count of bytes written into it. */
void ring_push(struct ring *r, uint16_t head, uint32_t written);

/* Asks to be kicked for further entries (or not). True if entries came meanwhile. */
bool ring_want_kick(struct ring *r, bool want);

/* True if the driver wants a call for what was pushed since the last time this was true. */
bool ring_needs_call(struct ring *r);

/* Copies out of (into) the readable (writable) segments from `off` on; bytes copied. */
size_t ring_copy_out(const struct ring_chain *c, size_t off, void *to, size_t n);
size_t ring_copy_in(const struct ring_chain *c, size_t off, const void *from, size_t n);

#endif
