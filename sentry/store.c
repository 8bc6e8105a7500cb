// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The store of unacknowledged frames.
 *
 * Positions are 64-bit and only grow; the place in the ring is the position modulo its size, so a frame may wrap.
 * An index of (end position) per seq finds where an acknowledged frame ends. Both have a bound: 256 KiB of bytes
 * and INDEX frames; at either bound nothing more is put until the host acknowledges.
 */
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "store.h"

#define INDEX 2048
#define FRAME_WORST (HF_SENTRY_LENGTH_BYTES + HF_SENTRY_FRAME_MAX)

static u8 *bytes;
static u64 *ends; /* of frame seq at seq % INDEX */
static u64 head, tail, cursor;
static u64 next_seq = 1, first_seq = 1;
static u64 whole_seq, whole_end; /* last frame of which all bytes went out, and where it ends */

static_assert((HF_SENTRY_STORE_BYTES & (HF_SENTRY_STORE_BYTES - 1)) == 0);
static_assert(HF_SENTRY_STORE_BEAT_BYTES > FRAME_WORST);

int sentry_store_init(void)
{
	bytes = vmalloc(HF_SENTRY_STORE_BYTES);
	ends = vmalloc(INDEX * sizeof(*ends));
	if (!bytes || !ends) {
		vfree(ends);
		vfree(bytes);
		return -ENOMEM;
	}
	return 0;
}

static bool fits(size_t len, bool heartbeat)
{
	size_t size = HF_SENTRY_STORE_BYTES - (heartbeat ? 0 : HF_SENTRY_STORE_BEAT_BYTES);

	/* The last places of the index are kept for heartbeats, too. */
	return head - tail + len <= size && next_seq - first_seq < (heartbeat ? INDEX : INDEX - 64);
}

bool sentry_store_has_room(bool heartbeat)
{
	return fits(FRAME_WORST, heartbeat);
}

static void append(const void *from, size_t len)
{
	size_t at = head % HF_SENTRY_STORE_BYTES, first = min_t(size_t, len, HF_SENTRY_STORE_BYTES - at);

	memcpy(bytes + at, from, first);
	memcpy(bytes, from + first, len - first);
	head += len;
}

bool sentry_store_put(const char *json, size_t len, bool heartbeat)
{
	u8 length[HF_SENTRY_LENGTH_BYTES];

	if (!fits(HF_SENTRY_LENGTH_BYTES + len, heartbeat))
		return false;
	put_unaligned_be32(len, length);
	append(length, sizeof(length));
	append(json, len);
	ends[next_seq++ % INDEX] = head;
	return true;
}

u64 sentry_store_next_seq(void)
{
	return next_seq;
}

u64 sentry_store_first_seq(void)
{
	return first_seq;
}

bool sentry_store_ack(u64 seq)
{
	if (seq >= next_seq)
		return false;
	/* A frame that is half sent must go out whole, also if the host had it from an earlier connection. */
	if (cursor != whole_end)
		seq = min(seq, whole_seq);
	if (seq < first_seq)
		return true;
	tail = ends[seq % INDEX];
	first_seq = seq + 1;
	if (cursor < tail) {
		cursor = whole_end = tail;
		whole_seq = seq;
	}
	return true;
}

void sentry_store_rewind(void)
{
	cursor = whole_end = tail;
	whole_seq = first_seq - 1;
}

size_t sentry_store_unsent(const void **at)
{
	size_t place = cursor % HF_SENTRY_STORE_BYTES;

	*at = bytes + place;
	return min_t(u64, head - cursor, HF_SENTRY_STORE_BYTES - place);
}

void sentry_store_sent(size_t len)
{
	cursor += len;
	while (whole_seq + 1 < next_seq && ends[(whole_seq + 1) % INDEX] <= cursor)
		whole_end = ends[++whole_seq % INDEX];
}
