/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Feeds whole rings to the vsock device: guest memory and what the driver and the users do with it. */

/*
 * Input: a script of steps. Each byte picks a step, the bytes after it are its arguments:
 *   poke     write bytes anywhere into guest memory
 *   packet   write a well-formed packet with the given fields into the next tx chain and offer it
 *   buffers  offer rx buffers
 *   kick, tick, reset, restart, connect, write, resume, shutdown, close, cut
 * So the fuzzer reaches the stream code by "packet" and the ring code by "poke". Memory is exactly as
 * large as its region, so that AddressSanitizer sees the first byte beyond it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/vm/vsock.h"

enum { MEM = 128 * 1024, QUEUE = 16, CID = 3, USERS = 32, STEPS_MAX = 512 };
#define UVA 0x10000000ull

struct world {
	uint8_t *mem;
	struct gpa_map map;
	struct vsock *v;
	uint16_t tx_idx, rx_idx;
	struct vsock_stream *user[USERS];
	unsigned greed; /* how much users consume */
};

struct in {
	const uint8_t *p;
	size_t n;
};

static uint8_t u8(struct in *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static uint16_t u16(struct in *in)
{
	uint16_t hi = u8(in);

	return (uint16_t)(hi << 8 | u8(in));
}

static uint32_t u32(struct in *in)
{
	uint32_t hi = u16(in);

	return hi << 16 | u16(in);
}

static struct world *w; /* users find their slot by it */

static void slot_set(struct vsock_stream *s)
{
	for (int i = 0; i < USERS; i++)
		if (!w->user[i]) {
			w->user[i] = s;
			return;
		}
	vsock_stream_reset(s);
}

static void slot_clear(struct vsock_stream *s)
{
	for (int i = 0; i < USERS; i++)
		if (w->user[i] == s)
			w->user[i] = NULL;
}

static void on_open(struct vsock_stream *s, void *u)
{
	if (!u) /* of a listener: not in a slot yet */
		slot_set(s);
}

static size_t on_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	volatile uint8_t sum = 0;

	(void)u;
	for (size_t i = 0; i < n; i++)
		sum ^= p[i];
	(void)sum;
	if (w->greed == 255) {
		slot_clear(s);
		vsock_stream_close(s);
	}
	return n * w->greed / 254;
}

static void on_writable(struct vsock_stream *s, void *u)
{
	static const uint8_t data[1000];

	(void)u;
	if (w->greed & 1)
		vsock_stream_write(s, data, sizeof(data));
}

static void on_shutdown(struct vsock_stream *s, void *u)
{
	(void)u;
	if (w->greed & 2) {
		slot_clear(s);
		vsock_stream_close(s);
	}
}

static void on_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	(void)u;
	(void)reason;
	slot_clear(s);
}

static const struct vsock_ops ops = { on_open, on_data, on_writable, on_shutdown, on_close };

static void on_call(void *u, enum vsock_queue q)
{
	(void)u;
	(void)q;
}

static void on_broken(void *u, const char *why)
{
	(void)u;
	(void)why;
}

static uint64_t desc_at(int q)
{
	return q ? 0x2000 : 0x1000;
}

static void put16(uint64_t at, uint16_t v)
{
	memcpy(w->mem + at, &v, 2);
}

static void desc(int q, uint16_t i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
	uint64_t at = desc_at(q) + (uint64_t)i * 16;

	memcpy(w->mem + at, &addr, 8);
	memcpy(w->mem + at + 8, &len, 4);
	put16(at + 12, flags);
	put16(at + 14, next);
}

static void offer(int q, uint16_t head, uint16_t *idx)
{
	uint64_t avail = desc_at(q) + 0x400;

	put16(avail + 4 + (uint64_t)(*idx % QUEUE) * 2, head);
	put16(avail + 2, ++*idx);
}

static void restart(bool event_idx)
{
	for (int q = 0; q < VSOCK_QUEUES; q++)
		ring_init(vsock_ring(w->v, (enum vsock_queue)q), &w->map, QUEUE, UVA + desc_at(q),
			  UVA + desc_at(q) + 0x400, UVA + desc_at(q) + 0x800, 0, event_idx, NULL);
	memset(w->mem + 0x1000, 0, 0x2000);
	w->tx_idx = w->rx_idx = 0;
}

static void packet(struct in *in)
{
	static const uint32_t ports[] = { 1, 2, 5800, 5841, 8443, 0x40000000, 0x40000001 };
	uint64_t at = 0x8000 + (uint64_t)(w->tx_idx % QUEUE) * 0x1000;
	uint16_t i = w->tx_idx % (QUEUE / 2);
	uint64_t src = CID, dst = VSOCK_CID_HOST;
	uint32_t field[7];
	uint16_t op = u8(in) % 9;
	uint32_t n = u16(in) % 0xf00;

	field[0] = ports[u8(in) % 7];
	field[1] = ports[u8(in) % 7];
	field[2] = u8(in) & 0x80 ? u32(in) : n;
	field[3] = (uint32_t)op << 16 | (u8(in) == 255 ? 2 : 1);
	field[4] = u8(in);
	field[5] = u32(in);
	field[6] = u32(in);
	memcpy(w->mem + at, &src, 8);
	memcpy(w->mem + at + 8, &dst, 8);
	memcpy(w->mem + at + 16, field, sizeof(field));
	desc(1, (uint16_t)(2 * i), at, 44, 1, (uint16_t)(2 * i + 1));
	desc(1, (uint16_t)(2 * i + 1), at + 44, n, 0, 0);
	offer(1, (uint16_t)(2 * i), &w->tx_idx);
}

static void buffers(struct in *in)
{
	unsigned n = u8(in) % (QUEUE + 1);

	for (unsigned k = 0; k < n; k++) {
		uint16_t i = w->rx_idx % QUEUE;

		desc(0, i, 0x18000 + (uint64_t)i * 0x400, 0x400, 2, 0);
		offer(0, i, &w->rx_idx);
	}
}

static void poke(struct in *in)
{
	uint32_t at = u32(in) % MEM;
	uint32_t n = u8(in);

	for (; n && at < MEM; n--)
		w->mem[at++] = u8(in);
}

static void step(struct in *in)
{
	static const uint8_t data[5000];
	uint8_t what = u8(in);
	struct vsock_stream *s = w->user[what / 16 % USERS];

	switch (what % 16) {
	case 0:
		poke(in);
		break;
	case 1:
	case 2:
	case 3:
		packet(in);
		break;
	case 4:
		buffers(in);
		break;
	case 5:
		vsock_kick(w->v, VSOCK_TX);
		break;
	case 6:
		vsock_kick(w->v, VSOCK_RX);
		break;
	case 7:
		vsock_tick(w->v, u16(in));
		break;
	case 8:
		vsock_reset(w->v);
		break;
	case 9:
		restart(u8(in) & 1);
		break;
	case 10:
		s = vsock_connect(w->v, u8(in) & 1 ? 5800 : 1, &ops, w);
		if (s)
			slot_set(s);
		break;
	case 11:
		if (s)
			vsock_stream_write(s, data, u16(in) % sizeof(data));
		break;
	case 12:
		w->greed = u8(in);
		if (s)
			vsock_stream_resume(s);
		break;
	case 13:
		if (s)
			vsock_stream_shutdown(s);
		break;
	case 14:
		if (s) {
			slot_clear(s);
			vsock_stream_close(s);
		}
		break;
	default:
		vsock_cut(w->v, u8(in) & 1, 5841);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct vsock_device_ops device = { .call = on_call, .broken = on_broken };
	struct gpa_region region = { .gpa = 0, .uva = UVA, .size = MEM };
	struct world world = { .greed = 254 };
	struct in in = { bytes, n };
	struct vsock_stats st;

	w = &world;
	w->mem = aligned_alloc(4096, MEM);
	memset(w->mem, 0, MEM);
	region.host = w->mem;
	gpa_add(&w->map, &region, NULL);
	w->v = vsock_new(CID, &device, w);
	vsock_listen(w->v, 5841, &ops, NULL);
	vsock_listen(w->v, 8443, &ops, NULL);
	restart(false);
	for (int i = 0; in.n && i < STEPS_MAX; i++)
		step(&in);
	vsock_reset(w->v);
	vsock_stats(w->v, &st);
	if (st.streams || st.queued_bytes)
		abort(); /* a stream was lost sight of */
	vsock_free(w->v);
	free(w->mem);
	return 0;
}
