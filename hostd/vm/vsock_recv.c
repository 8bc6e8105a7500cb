/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_VSOCK, from the guest: packets, credit, bytes kept for their user. The theory is in vsock.c. */
#include "hostd/vm/vsock_stream.h"

#include <stdlib.h>
#include <string.h>

static bool kept_append(struct vsock_stream *s, const uint8_t *p, size_t n)
{
	if (s->v->stats.queued_bytes + n > VSOCK_QUEUED_MAX)
		return false;
	if (s->kept_off && s->kept_off + s->kept_len + n > s->kept_cap) {
		memmove(s->kept, s->kept + s->kept_off, s->kept_len);
		s->kept_off = 0;
	}
	if (s->kept_off + s->kept_len + n > s->kept_cap) {
		size_t cap = s->kept_cap ? s->kept_cap : 4096;
		uint8_t *grown;

		while (cap < s->kept_len + n)
			cap *= 2;
		grown = realloc(s->kept, cap);
		if (!grown)
			return false;
		s->kept = grown;
		s->kept_cap = cap;
	}
	memcpy(s->kept + s->kept_off + s->kept_len, p, n);
	s->kept_len += n;
	s->v->stats.queued_bytes += n;
	return true;
}

void vs_consumed(struct vsock_stream *s, size_t n)
{
	s->fwd_cnt += (uint32_t)n;
	/* Announce in steps, and always before the guest could run dry. */
	if (!s->guest_sends_no_more && s->fwd_cnt - s->fwd_cnt_told >= CREDIT_STEP)
		vs_pend(s, PEND_CREDIT_UPDATE);
}

size_t vs_offer(struct vsock_stream *s, const uint8_t *p, size_t n)
{
	size_t took;

	if (!s->ops)
		return n;
	s->offering = true;
	took = s->ops->on_data(s, s->u, p, n);
	s->offering = false;
	if (took > n)
		took = n;
	return s->ops ? took : n;
}

/* Says what follows the last byte, once it was consumed. */
void vs_after_data(struct vsock_stream *s)
{
	if (s->state == DEAD || s->kept_len || !s->guest_sends_no_more)
		return;
	if (!s->shutdown_told) {
		s->shutdown_told = true;
		if (s->ops && s->ops->on_shutdown)
			s->ops->on_shutdown(s, s->u);
	}
	if (s->guest_closed && s->state == OPEN) {
		vs_stream_tell_end(s, VSOCK_CLOSED);
		if (s->pending & PEND_RST)
			s->state = CLOSING;
		else
			vs_stream_bury(s);
	}
}

static void receive_data(struct vsock_stream *s, size_t n)
{
	struct vsock *v = s->v;
	size_t took = 0;

	if (s->guest_sends_no_more || n > VSOCK_BUF_ALLOC - (s->rx_cnt - s->fwd_cnt)) {
		vs_stream_abort(s, VSOCK_PROTOCOL);
		return;
	}
	s->rx_cnt += (uint32_t)n;
	if (!n)
		return;
	if (s->state == CLOSING) {
		vs_consumed(s, n);
		return;
	}
	if (!s->kept_len && !s->offering)
		took = vs_offer(s, v->payload, n);
	if (s->state == DEAD)
		return;
	vs_consumed(s, took);
	if (took < n && !kept_append(s, v->payload + took, n - took))
		vs_stream_abort(s, VSOCK_PROTOCOL);
}

static void receive_shutdown(struct vsock_stream *s, uint32_t flags)
{
	if (flags & SHUT_F_SEND)
		s->guest_sends_no_more = true;
	if (flags & SHUT_F_RECEIVE)
		s->guest_reads_no_more = true;
	if (s->guest_sends_no_more && s->guest_reads_no_more && !s->guest_closed) {
		s->guest_closed = true;
		vs_pend_clear(s);
		vs_pend(s, PEND_RST);
	}
	if (s->state == CLOSING)
		return;
	if (s->guest_reads_no_more && !s->guest_closed) {
		vs_want_write(s, false);
		if (s->ops && s->ops->on_writable)
			s->ops->on_writable(s, s->u);
	}
	vs_after_data(s);
}

/* False: the guest claims to have consumed what we never sent. */
static bool receive_credit(struct vsock_stream *s, const struct vsock_packet *k)
{
	uint32_t flight = s->tx_cnt - s->guest_fwd_cnt;
	uint32_t now = s->tx_cnt - k->fwd_cnt;

	s->guest_buf_alloc = k->buf_alloc;
	if (now <= flight)
		s->guest_fwd_cnt = k->fwd_cnt;
	else if (now > INT32_MAX)
		return false;
	/* else: packets of two CPUs overtook one another, the newer count stands */
	s->credit_asked = false;
	return true;
}

uint32_t vs_guest_room(const struct vsock_stream *s)
{
	uint32_t flight = s->tx_cnt - s->guest_fwd_cnt;

	return flight < s->guest_buf_alloc ? s->guest_buf_alloc - flight : 0;
}

static void receive_request(struct vsock *v, const struct vsock_packet *k);

static void receive_op(struct vsock_stream *s, const struct vsock_packet *k)
{
	switch (k->op) {
	case OP_RW:
		receive_data(s, k->len);
		break;
	case OP_SHUTDOWN:
		receive_shutdown(s, k->flags);
		break;
	case OP_CREDIT_UPDATE:
		break;
	case OP_CREDIT_REQUEST:
		vs_pend(s, PEND_CREDIT_UPDATE);
		break;
	default:
		vs_stream_abort(s, VSOCK_PROTOCOL);
	}
}

static void receive_on_stream(struct vsock_stream *s, const struct vsock_packet *k)
{
	if (k->op == OP_RST) {
		/* Kept bytes were received before the reset: they are still the user's. */
		if (s->guest_closed && s->kept_len)
			return;
		vs_stream_end(s, s->state == CONNECTING ? VSOCK_REFUSED :
			      s->guest_closed	     ? VSOCK_CLOSED :
						       VSOCK_RESET);
		return;
	}
	if (k->op == OP_REQUEST) {
		/* The guest has forgotten the stream: a new one under the same ports begins. */
		if (s->guest_closed && s->kept_len) {
			LIST_REMOVE(s, hash);
			s->unlisted = true;
			vs_pend_clear(s);
		} else {
			vs_stream_end(s, VSOCK_RESET);
		}
		receive_request(s->v, k);
		return;
	}
	if (s->guest_closed)
		return;
	if (!receive_credit(s, k)) {
		vs_stream_abort(s, VSOCK_PROTOCOL);
		return;
	}
	if (s->state == CONNECTING) {
		if (k->op != OP_RESPONSE || (s->pending & PEND_REQUEST)) {
			vs_stream_abort(s, VSOCK_PROTOCOL);
			return;
		}
		s->state = OPEN;
		if (s->shutdown_sent)
			vs_pend(s, PEND_SHUTDOWN);
		s->ops->on_open(s, s->u);
	} else {
		receive_op(s, k);
	}
	if (s->state == OPEN && s->want_write && vs_guest_room(s)) {
		vs_want_write(s, false);
		if (s->ops && s->ops->on_writable)
			s->ops->on_writable(s, s->u);
	}
}
static void reset_unknown(struct vsock *v, const struct vsock_packet *k)
{
	/* vsock_kick takes no packet while this is full. */
	if (v->n_resets < VSOCK_RESETS_MAX)
		v->reset[v->n_resets++] = (struct orphan_reset){
			.guest_port = k->src_port,
			.host_port = k->dst_port,
			.type = k->type,
		};
}

const struct listener *vs_listener_find(const struct vsock *v, uint32_t port)
{
	for (size_t i = 0; i < v->n_listeners; i++)
		if (v->listener[i].port == port)
			return &v->listener[i];
	return NULL;
}

static void receive_request(struct vsock *v, const struct vsock_packet *k)
{
	const struct listener *l = vs_listener_find(v, k->dst_port);
	struct vsock_stream *s = NULL;

	if (l && (!v->cut || k->dst_port == v->cut_keep))
		s = vs_stream_add(v, k->src_port, k->dst_port, l->ops, l->u);
	if (!s) {
		reset_unknown(v, k);
		return;
	}
	s->state = OPEN;
	s->guest_buf_alloc = k->buf_alloc;
	vs_pend(s, PEND_RESPONSE);
	s->ops->on_open(s, s->u);
}

static void receive(struct vsock *v, const struct ring_chain *c)
{
	uint8_t hdr[VSOCK_HEADER_BYTES];
	struct vsock_stream *s;
	struct vsock_packet k;

	if (ring_copy_out(c, 0, hdr, VSOCK_HEADER_BYTES) != VSOCK_HEADER_BYTES) {
		v->stats.dropped++;
		return;
	}
	vsock_packet_decode(&k, hdr);
	if (k.src_cid != v->guest_cid || k.dst_cid != VSOCK_CID_HOST) {
		v->stats.dropped++;
		return;
	}
	v->stats.tx_packets++;
	s = k.type == TYPE_STREAM ? vs_stream_find(v, k.src_port, k.dst_port) : NULL;
	if (k.len > VSOCK_PAYLOAD_MAX || k.len > c->out_bytes - VSOCK_HEADER_BYTES) {
		if (s)
			vs_stream_abort(s, VSOCK_PROTOCOL);
		v->stats.dropped++;
		return;
	}
	if (k.op == OP_RW) {
		ring_copy_out(c, VSOCK_HEADER_BYTES, v->payload, k.len);
		v->stats.tx_bytes += k.len;
	}
	if (s)
		receive_on_stream(s, &k);
	else if (k.op == OP_REQUEST && k.type == TYPE_STREAM)
		receive_request(v, &k);
	else if (k.op != OP_RST)
		reset_unknown(v, &k);
}

bool vsock_kick(struct vsock *v, enum vsock_queue q)
{
	struct ring *tx = &v->ring[VSOCK_TX];
	struct ring_chain c;
	bool more = false;

	if (!vs_device_runs(v))
		return false;
	vs_enter(v);
	if (q == VSOCK_RX) {
		vs_flush(v);
		vs_writers_wake(v);
	}
	for (int n = 0; v->n_resets < VSOCK_RESETS_MAX && vs_device_runs(v); n++) {
		int rc;

		if (n == VSOCK_TX_BUDGET) {
			more = true;
			break;
		}
		rc = ring_pop(tx, &c);
		if (!rc && ring_want_kick(tx, true))
			rc = ring_pop(tx, &c);
		if (rc != 1)
			break;
		receive(v, &c);
		ring_push(tx, c.head, 0);
		v->pushed[VSOCK_TX] = true;
		if (v->n_resets == VSOCK_RESETS_MAX)
			vs_flush(v);
	}
	vs_leave(v);
	return more && vs_device_runs(v);
}
