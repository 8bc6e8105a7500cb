/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest's virtio driver in miniature: two queues in plain memory, for the vsock tests. */
#ifndef HOLDFAST_TESTS_GUEST_DRIVER_H
#define HOLDFAST_TESTS_GUEST_DRIVER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/vm/vsock.h"

enum {
	DRV_QUEUE = 128,
	DRV_RX_BYTES = 4096,
	DRV_TX_BYTES = 44 + 65536,
	DRV_MEM = 16 * 1024 * 1024,
	DRV_CID = 3,
	DRV_HDR = 44,
};
#define DRV_UVA 0x7f0000000000ull

struct drv_queue {
	uint64_t desc, avail, used;
	uint16_t avail_idx, used_idx;
};

struct drv {
	uint8_t *mem;
	struct gpa_map map;
	struct vsock *v;
	struct drv_queue q[VSOCK_QUEUES];
	int calls[VSOCK_QUEUES];
	const char *broken;
	uint32_t fwd_cnt, buf_alloc; /* put into every packet */
	uint16_t type;
};

struct drv_packet {
	uint32_t src_port, dst_port, len, flags, buf_alloc, fwd_cnt;
	uint16_t type, op;
	uint8_t data[DRV_RX_BYTES];
};

static inline void drv_w16(struct drv *d, uint64_t at, uint16_t v)
{
	memcpy(d->mem + at, &v, sizeof(v));
}

static inline void drv_w32(struct drv *d, uint64_t at, uint32_t v)
{
	memcpy(d->mem + at, &v, sizeof(v));
}

static inline uint16_t drv_r16(struct drv *d, uint64_t at)
{
	uint16_t v;

	memcpy(&v, d->mem + at, sizeof(v));
	return v;
}

static inline uint32_t drv_r32(struct drv *d, uint64_t at)
{
	uint32_t v;

	memcpy(&v, d->mem + at, sizeof(v));
	return v;
}

static inline void drv_desc(struct drv *d, struct drv_queue *q, uint16_t i, uint64_t addr, uint32_t len,
			    uint16_t flags, uint16_t next)
{
	uint64_t at = q->desc + (uint64_t)i * 16;

	memcpy(d->mem + at, &addr, sizeof(addr));
	drv_w32(d, at + 8, len);
	drv_w16(d, at + 12, flags);
	drv_w16(d, at + 14, next);
}

static inline void drv_offer(struct drv *d, struct drv_queue *q, uint16_t head)
{
	drv_w16(d, q->avail + 4 + (uint64_t)(q->avail_idx % DRV_QUEUE) * 2, head);
	drv_w16(d, q->avail + 2, ++q->avail_idx);
}

static inline void drv_on_call(void *u, enum vsock_queue q)
{
	((struct drv *)u)->calls[q]++;
}

static inline void drv_on_broken(void *u, const char *why)
{
	((struct drv *)u)->broken = why;
}

static inline uint64_t drv_rx_at(uint16_t i)
{
	return 0x100000 + (uint64_t)i * DRV_RX_BYTES;
}

static inline uint64_t drv_tx_at(uint16_t i)
{
	return 0x200000 + (uint64_t)i * 0x14000;
}

/* (Re)starts both queues from nothing, as a driver does that has just been loaded. */
static inline void drv_start(struct drv *d)
{
	for (int i = 0; i < VSOCK_QUEUES; i++) {
		struct drv_queue *q = &d->q[i];

		*q = (struct drv_queue){ .desc = 0x1000 + (uint64_t)i * 0x10000,
					 .avail = 0x4000 + (uint64_t)i * 0x10000,
					 .used = 0x8000 + (uint64_t)i * 0x10000 };
		memset(d->mem + q->desc, 0, 0x8000);
		if (ring_init(vsock_ring(d->v, (enum vsock_queue)i), &d->map, DRV_QUEUE, DRV_UVA + q->desc,
			      DRV_UVA + q->avail, DRV_UVA + q->used, 0, false, NULL))
			abort();
	}
}

static inline void drv_give_rx(struct drv *d, unsigned n)
{
	struct drv_queue *q = &d->q[VSOCK_RX];

	for (uint16_t i = 0; i < n; i++) {
		drv_desc(d, q, i, drv_rx_at(i), DRV_RX_BYTES, 2, 0);
		drv_offer(d, q, i);
	}
	vsock_kick(d->v, VSOCK_RX);
}

static inline struct drv *drv_new(unsigned rx_buffers)
{
	static const struct vsock_device_ops ops = { .call = drv_on_call, .broken = drv_on_broken };
	struct drv *d = calloc(1, sizeof(*d));
	struct gpa_region r = { .gpa = 0, .uva = DRV_UVA, .size = DRV_MEM };

	d->mem = calloc(1, DRV_MEM);
	r.host = d->mem;
	gpa_add(&d->map, &r, NULL);
	d->v = vsock_new(DRV_CID, &ops, d);
	d->buf_alloc = 65536;
	d->type = 1;
	drv_start(d);
	if (rx_buffers)
		drv_give_rx(d, rx_buffers);
	return d;
}

static inline void drv_free(struct drv *d)
{
	vsock_free(d->v);
	free(d->mem);
	free(d);
}

/* Queues a packet without telling the device. */
static inline void drv_queue_packet(struct drv *d, uint16_t op, uint32_t gport, uint32_t hport, uint32_t flags,
				    const void *p, uint32_t n)
{
	struct drv_queue *q = &d->q[VSOCK_TX];
	uint16_t i = q->avail_idx % (DRV_QUEUE / 2);
	uint64_t at = drv_tx_at(i);
	uint64_t src = DRV_CID, dst = VSOCK_CID_HOST;

	memcpy(d->mem + at, &src, 8);
	memcpy(d->mem + at + 8, &dst, 8);
	drv_w32(d, at + 16, gport);
	drv_w32(d, at + 20, hport);
	drv_w32(d, at + 24, n);
	drv_w16(d, at + 28, d->type);
	drv_w16(d, at + 30, op);
	drv_w32(d, at + 32, flags);
	drv_w32(d, at + 36, d->buf_alloc);
	drv_w32(d, at + 40, d->fwd_cnt);
	if (n)
		memcpy(d->mem + at + DRV_HDR, p, n);
	/* Header and payload apart, as Linux sends them. */
	drv_desc(d, q, (uint16_t)(2 * i), at, DRV_HDR, n ? 1 : 0, (uint16_t)(2 * i + 1));
	drv_desc(d, q, (uint16_t)(2 * i + 1), at + DRV_HDR, n, 0, 0);
	drv_offer(d, q, (uint16_t)(2 * i));
}

static inline void drv_kick_tx(struct drv *d)
{
	while (vsock_kick(d->v, VSOCK_TX))
		;
}

static inline void drv_send(struct drv *d, uint16_t op, uint32_t gport, uint32_t hport, uint32_t flags,
			    const void *p, uint32_t n)
{
	drv_queue_packet(d, op, gport, hport, flags, p, n);
	drv_kick_tx(d);
}

/* Takes the next packet for the guest and gives its buffer back (without a kick). False: none. */
static inline bool drv_recv(struct drv *d, struct drv_packet *k)
{
	struct drv_queue *q = &d->q[VSOCK_RX];
	uint64_t elem = q->used + 4 + (uint64_t)(q->used_idx % DRV_QUEUE) * 8;
	uint64_t at;

	if (drv_r16(d, q->used + 2) == q->used_idx)
		return false;
	at = drv_rx_at((uint16_t)drv_r32(d, elem));
	k->src_port = drv_r32(d, at + 16);
	k->dst_port = drv_r32(d, at + 20);
	k->len = drv_r32(d, at + 24);
	k->type = drv_r16(d, at + 28);
	k->op = drv_r16(d, at + 30);
	k->flags = drv_r32(d, at + 32);
	k->buf_alloc = drv_r32(d, at + 36);
	k->fwd_cnt = drv_r32(d, at + 40);
	if (k->len > DRV_RX_BYTES - DRV_HDR || drv_r32(d, elem + 4) != DRV_HDR + k->len)
		abort();
	memcpy(k->data, d->mem + at + DRV_HDR, k->len);
	q->used_idx++;
	drv_offer(d, q, (uint16_t)drv_r32(d, elem));
	return true;
}

#endif
