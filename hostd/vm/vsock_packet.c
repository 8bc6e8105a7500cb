/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The header of a virtio-vsock packet: little-endian bytes to fields and back. */
#include "hostd/vm/vsock_packet.h"

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_le64(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}

static void put_le32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

void vsock_packet_decode(struct vsock_packet *k, const uint8_t b[VSOCK_HEADER_BYTES])
{
	k->src_cid = get_le64(b);
	k->dst_cid = get_le64(b + 8);
	k->src_port = get_le32(b + 16);
	k->dst_port = get_le32(b + 20);
	k->len = get_le32(b + 24);
	k->type = (uint16_t)get_le32(b + 28);
	k->op = (uint16_t)(get_le32(b + 28) >> 16);
	k->flags = get_le32(b + 32);
	k->buf_alloc = get_le32(b + 36);
	k->fwd_cnt = get_le32(b + 40);
}

void vsock_packet_encode(const struct vsock_packet *k, uint8_t b[VSOCK_HEADER_BYTES])
{
	put_le32(b, (uint32_t)k->src_cid);
	put_le32(b + 4, (uint32_t)(k->src_cid >> 32));
	put_le32(b + 8, (uint32_t)k->dst_cid);
	put_le32(b + 12, (uint32_t)(k->dst_cid >> 32));
	put_le32(b + 16, k->src_port);
	put_le32(b + 20, k->dst_port);
	put_le32(b + 24, k->len);
	put_le32(b + 28, k->type | (uint32_t)k->op << 16);
	put_le32(b + 32, k->flags);
	put_le32(b + 36, k->buf_alloc);
	put_le32(b + 40, k->fwd_cnt);
}
