/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_VSOCK, towards the guest: packets, control bits, and what ends an entry point. The theory is in vsock.c. */
#include "hostd/vm/vsock_stream.h"

#include <stdlib.h>

bool vs_device_runs(const struct vsock *v)
{
	return v->ring[VSOCK_RX].ready && v->ring[VSOCK_TX].ready && !v->ring[VSOCK_RX].broken &&
	       !v->ring[VSOCK_TX].broken;
}

/* One buffer of the driver: true, or false when there is none (a kick will come) or it is broken. */
static bool rx_buffer(struct vsock *v, struct ring_chain *c)
{
	struct ring *r = &v->ring[VSOCK_RX];
	int rc = ring_pop(r, c);

	if (!rc && ring_want_kick(r, true))
		rc = ring_pop(r, c);
	if (rc != 1)
		return false;
	if (c->in_bytes < VSOCK_HEADER_BYTES) {
		r->broken = "receive buffer is smaller than a header";
		return false;
	}
	return true;
}

/* Sends one packet with as much of the payload as one buffer takes; bytes, or -1 without a buffer. */
static ssize_t packet_send(struct vsock *v, struct vsock_packet *k, const uint8_t *payload, size_t n)
{
	uint8_t hdr[VSOCK_HEADER_BYTES];
	struct ring_chain c;

	if (!rx_buffer(v, &c))
		return -1;
	if (n > c.in_bytes - VSOCK_HEADER_BYTES)
		n = c.in_bytes - VSOCK_HEADER_BYTES;
	if (n > VSOCK_PAYLOAD_MAX)
		n = VSOCK_PAYLOAD_MAX;
	k->src_cid = VSOCK_CID_HOST;
	k->dst_cid = v->guest_cid;
	k->len = (uint32_t)n;
	vsock_packet_encode(k, hdr);
	ring_copy_in(&c, 0, hdr, VSOCK_HEADER_BYTES);
	ring_copy_in(&c, VSOCK_HEADER_BYTES, payload, n);
	ring_push(&v->ring[VSOCK_RX], c.head, (uint32_t)(VSOCK_HEADER_BYTES + n));
	v->pushed[VSOCK_RX] = true;
	v->stats.rx_packets++;
	v->stats.rx_bytes += n;
	return (ssize_t)n;
}

ssize_t vs_stream_send(struct vsock_stream *s, uint16_t op, uint32_t flags,
		       const uint8_t *payload, size_t n)
{
	struct vsock_packet k = {
		.src_port = s->host_port,
		.dst_port = s->guest_port,
		.type = TYPE_STREAM,
		.op = op,
		.flags = flags,
		.buf_alloc = VSOCK_BUF_ALLOC,
		.fwd_cnt = s->fwd_cnt,
	};
	ssize_t sent = packet_send(s->v, &k, payload, n);

	if (sent >= 0)
		s->fwd_cnt_told = s->fwd_cnt;
	return sent;
}

static uint32_t shutdown_flags(const struct vsock_stream *s)
{
	if (s->state == CLOSING)
		return SHUT_F_BOTH;
	return (s->shutdown_sent ? SHUT_F_SEND : 0) | (s->read_shut ? SHUT_F_RECEIVE : 0);
}

/* Sends the stream's control packets in order; false when buffers ran out before the last. */
bool vs_stream_flush(struct vsock_stream *s)
{
	static const struct {
		unsigned bit;
		uint16_t op;
	} order[] = {
		{ PEND_REQUEST, OP_REQUEST },
		{ PEND_RESPONSE, OP_RESPONSE },
		{ PEND_CREDIT_UPDATE, OP_CREDIT_UPDATE },
		{ PEND_CREDIT_REQUEST, OP_CREDIT_REQUEST },
		{ PEND_SHUTDOWN, OP_SHUTDOWN },
		{ PEND_RST, OP_RST },
	};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		uint32_t flags = 0;

		if (!(s->pending & order[i].bit))
			continue;
		if (order[i].bit == PEND_SHUTDOWN)
			flags = shutdown_flags(s);
		if (vs_stream_send(s, order[i].op, flags, NULL, 0) < 0)
			return false;
		s->pending &= ~order[i].bit;
		if (!s->pending)
			TAILQ_REMOVE(&s->v->pending, s, pend);
		if (order[i].bit != PEND_RST)
			continue;
		s->v->stats.resets_sent++;
		/* A guest that closed is answered; what the user has not read yet stays. */
		if (s->state == CLOSING)
			vs_stream_bury(s);
	}
	return true;
}

void vs_flush(struct vsock *v)
{
	struct vsock_stream *s;

	if (!vs_device_runs(v))
		return;
	while (v->n_resets) {
		struct orphan_reset *o = &v->reset[v->n_resets - 1];
		struct vsock_packet k = {
			.src_port = o->host_port,
			.dst_port = o->guest_port,
			.type = o->type,
			.op = OP_RST,
		};

		if (packet_send(v, &k, NULL, 0) < 0)
			return;
		v->stats.resets_sent++;
		v->n_resets--;
	}
	while ((s = TAILQ_FIRST(&v->pending)))
		if (!vs_stream_flush(s))
			return;
}

/* Lets waiting users write, each once, in the order in which they began to wait. */
void vs_writers_wake(struct vsock *v)
{
	struct vsock_stream *s;

	for (size_t n = v->n_writers; n && (s = TAILQ_FIRST(&v->writers)); n--) {
		vs_want_write(s, false);
		if (s->ops && s->ops->on_writable)
			s->ops->on_writable(s, s->u);
	}
}

void vs_enter(struct vsock *v)
{
	v->depth++;
}

void vs_leave(struct vsock *v)
{
	const char *why = NULL;
	struct vsock_stream *s;

	if (v->depth > 1) {
		v->depth--;
		return;
	}
	vs_flush(v);
	while ((s = TAILQ_FIRST(&v->dead))) {
		TAILQ_REMOVE(&v->dead, s, all);
		free(s->kept);
		free(s);
	}
	for (int q = 0; q < VSOCK_QUEUES; q++) {
		struct ring *r = &v->ring[q];

		if (v->pushed[q] && ring_needs_call(r))
			v->ops->call(v->u, (enum vsock_queue)q);
		v->pushed[q] = false;
		if (r->broken)
			why = r->broken;
	}
	if (why && !v->broken_told)
		v->ops->broken(v->u, why);
	v->broken_told = why;
	v->depth--;
}
