/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The header of a virtio-vsock packet (VIRTIO 1.2, 5.10.6): its fields, bytes and numbers. */
#ifndef HOLDFAST_HOSTD_VM_VSOCK_PACKET_H
#define HOLDFAST_HOSTD_VM_VSOCK_PACKET_H

#include <stdint.h>

enum {
	VSOCK_HEADER_BYTES = 44,
	TYPE_STREAM = 1,
	OP_REQUEST = 1,
	OP_RESPONSE = 2,
	OP_RST = 3,
	OP_SHUTDOWN = 4,
	OP_RW = 5,
	OP_CREDIT_UPDATE = 6,
	OP_CREDIT_REQUEST = 7,
	SHUT_F_RECEIVE = 1, /* the sender of this flag receives no more */
	SHUT_F_SEND = 2,
	SHUT_F_BOTH = 3,
};

struct vsock_packet {
	uint64_t src_cid, dst_cid;
	uint32_t src_port, dst_port, len;
	uint16_t type, op;
	uint32_t flags, buf_alloc, fwd_cnt;
};

void vsock_packet_decode(struct vsock_packet *k, const uint8_t b[VSOCK_HEADER_BYTES]);
void vsock_packet_encode(const struct vsock_packet *k, uint8_t b[VSOCK_HEADER_BYTES]);

#endif
