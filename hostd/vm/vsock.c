/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_VSOCK streams with one guest: listeners, connects, credits, half close, reset. */

/*
 * Theory of operation
 *
 * Packets (VIRTIO 1.2, 5.10: a 44-byte header and payload) come in by the tx queue and go out by
 * buffers of the rx queue.  Nothing is queued for sending: a user's bytes go straight into the
 * driver's buffers, as far as buffers and the guest's credit allow, and control packets are bits
 * in the stream (`pending`) that are turned into packets when a buffer is there.  So memory for
 * sending is bounded by the count of streams.  Only resets of streams we don't know need a queue;
 * when it is full we stop taking guest packets until the guest gives buffers.
 *
 * Bytes from the guest are copied out of its memory before anyone looks, offered to the user, and
 * what the user leaves is kept per stream (at most VSOCK_BUF_ALLOC, which is the credit we give).
 *
 * A stream: CONNECTING -> OPEN -> CLOSING (our close was sent, the guest's reset is awaited) -> gone.
 * A guest that closes is answered with a reset at once (Linux waits for it up to 8 s), while the
 * user may still be reading what was kept: such a stream is OPEN with `guest_closed`.
 *
 * Every entry point runs between enter() and leave(). leave() of the outermost one sends pending
 * control packets, frees dead streams and interrupts the driver once for all that was given back.
 *
 * A hostile guest may send anything in any order. What is wrong on one stream resets that stream;
 * packets for nobody are answered with a reset or dropped; a broken ring ends the device until the
 * next reset. Work per turn is bounded by VSOCK_TX_BUDGET.
 */
#include "hostd/vm/vsock.h"

#include <stdlib.h>
#include <string.h>

#include "hostd/vm/vsock_stream.h"

const char *vsock_reason_text(enum vsock_reason reason)
{
	static const char *const text[] = {
		[VSOCK_CLOSED] = "closed by the guest",
		[VSOCK_RESET] = "reset by the guest",
		[VSOCK_REFUSED] = "nobody listens in the guest",
		[VSOCK_TIMEOUT] = "the guest did not answer",
		[VSOCK_PROTOCOL] = "the guest broke the protocol",
		[VSOCK_GONE] = "the device was reset",
	};

	return text[reason];
}

/* ---- For users ---- */

int vsock_listen(struct vsock *v, uint32_t port, const struct vsock_ops *ops, void *u)
{
	if (v->n_listeners == VSOCK_LISTENERS_MAX || vs_listener_find(v, port))
		return -1;
	v->listener[v->n_listeners++] = (struct listener){ .port = port, .ops = ops, .u = u };
	return 0;
}

void vsock_unlisten(struct vsock *v, uint32_t port)
{
	for (size_t i = 0; i < v->n_listeners; i++)
		if (v->listener[i].port == port)
			v->listener[i--] = v->listener[--v->n_listeners];
}

static uint32_t host_port_pick(struct vsock *v, uint32_t guest_port)
{
	do {
		if (++v->next_host_port < HOST_PORT_FIRST || v->next_host_port == UINT32_MAX)
			v->next_host_port = HOST_PORT_FIRST;
	} while (vs_stream_find(v, guest_port, v->next_host_port));
	return v->next_host_port;
}

struct vsock_stream *vsock_connect(struct vsock *v, uint32_t port, const struct vsock_ops *ops,
				   void *u)
{
	struct vsock_stream *s = NULL;

	vs_enter(v);
	if (vs_device_runs(v) && !v->cut)
		s = vs_stream_add(v, port, host_port_pick(v, port), ops, u);
	if (s) {
		s->state = CONNECTING;
		s->deadline_ms = v->now_ms + VSOCK_CONNECT_MS;
		vs_pend(s, PEND_REQUEST);
	}
	vs_leave(v);
	return s;
}

void vsock_stream_set_user(struct vsock_stream *s, void *u)
{
	s->u = u;
}

uint32_t vsock_stream_guest_port(const struct vsock_stream *s)
{
	return s->guest_port;
}

uint32_t vsock_stream_host_port(const struct vsock_stream *s)
{
	return s->host_port;
}

static ssize_t write_some(struct vsock_stream *s, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		size_t part = vs_guest_room(s);
		ssize_t sent;

		if (!part && !s->credit_asked) {
			s->credit_asked = true;
			vs_pend(s, PEND_CREDIT_REQUEST);
		}
		if (!part || !vs_device_runs(s->v))
			break;
		if (part > n - done)
			part = n - done;
		sent = vs_stream_send(s, OP_RW, 0, p + done, part);
		if (sent <= 0)
			break;
		s->tx_cnt += (uint32_t)sent;
		done += (size_t)sent;
	}
	return (ssize_t)done;
}

ssize_t vsock_stream_write(struct vsock_stream *s, const void *p, size_t n)
{
	ssize_t done = 0;

	if ((s->state != OPEN && s->state != CONNECTING) || s->guest_reads_no_more ||
	    s->shutdown_sent)
		return -1;
	vs_enter(s->v);
	if (s->state == OPEN && !s->deferred && (!s->pending || vs_stream_flush(s)))
		done = write_some(s, p, n);
	if ((size_t)done < n && s->state != DEAD)
		vs_want_write(s, true);
	vs_leave(s->v);
	return done;
}

void vsock_stream_resume(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->offering || s->state == DEAD)
		return;
	vs_enter(v);
	while (s->kept_len) {
		size_t took = vs_offer(s, s->kept + s->kept_off, s->kept_len);

		if (s->state == DEAD || !s->kept_len)
			break;
		s->kept_off += took;
		s->kept_len -= took;
		v->stats.queued_bytes -= took;
		vs_consumed(s, took);
		if (!took)
			break;
	}
	if (s->state != DEAD && !s->kept_len) {
		vs_kept_drop(s);
		vs_after_data(s);
	}
	vs_leave(v);
}

void vsock_stream_shutdown(struct vsock_stream *s)
{
	if ((s->state != OPEN && s->state != CONNECTING) || s->shutdown_sent || s->guest_closed)
		return;
	vs_enter(s->v);
	s->shutdown_sent = true;
	vs_want_write(s, false);
	if (s->state == OPEN && !s->deferred)
		vs_pend(s, PEND_SHUTDOWN);
	vs_leave(s->v);
}

void vsock_stream_shutdown_read(struct vsock_stream *s)
{
	if (s->state != OPEN || s->read_shut || s->guest_closed)
		return;
	vs_enter(s->v);
	s->read_shut = true;
	vs_pend(s, PEND_SHUTDOWN);
	vs_leave(s->v);
}

void vsock_stream_defer(struct vsock_stream *s)
{
	if (s->pending & PEND_RESPONSE) {
		vs_pend_clear(s);
		s->deferred = true;
	}
}

void vsock_stream_accept(struct vsock_stream *s)
{
	if (!s->deferred || s->state != OPEN)
		return;
	vs_enter(s->v);
	s->deferred = false;
	vs_pend(s, PEND_RESPONSE | (s->shutdown_sent || s->read_shut ? PEND_SHUTDOWN : 0));
	vs_leave(s->v);
}

void vsock_stream_close(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->state == DEAD)
		return;
	vs_enter(v);
	s->ops = NULL;
	vs_want_write(s, false);
	vs_kept_drop(s);
	if (s->state == CONNECTING && (s->pending & PEND_REQUEST)) {
		vs_stream_bury(s);
	} else if (s->state == CONNECTING || s->deferred) {
		s->state = CLOSING;
		vs_pend(s, PEND_RST);
	} else if (s->guest_closed) {
		if (s->pending & PEND_RST)
			s->state = CLOSING;
		else
			vs_stream_bury(s);
	} else if (s->state == OPEN) {
		s->state = CLOSING;
		s->deadline_ms = v->now_ms + VSOCK_CLOSE_MS;
		/* What the user left unread counts as read, or the guest could not go on. */
		s->fwd_cnt = s->rx_cnt;
		vs_pend(s, PEND_SHUTDOWN);
	}
	vs_leave(v);
}

void vsock_stream_reset(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->state == DEAD)
		return;
	vs_enter(v);
	s->ops = NULL;
	vs_want_write(s, false);
	vs_stream_abort(s, VSOCK_CLOSED);
	vs_leave(v);
}

/* ---- For the device ---- */

struct vsock *vsock_new(uint64_t guest_cid, const struct vsock_device_ops *ops, void *u)
{
	struct vsock *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->guest_cid = guest_cid;
	v->ops = ops;
	v->u = u;
	v->next_host_port = HOST_PORT_FIRST;
	TAILQ_INIT(&v->all);
	TAILQ_INIT(&v->pending);
	TAILQ_INIT(&v->writers);
	TAILQ_INIT(&v->dead);
	return v;
}

void vsock_free(struct vsock *v)
{
	if (!v)
		return;
	vsock_reset(v);
	free(v);
}

struct ring *vsock_ring(struct vsock *v, enum vsock_queue q)
{
	return &v->ring[q];
}

void vsock_reset(struct vsock *v)
{
	struct vsock_stream *s;

	vs_enter(v);
	v->n_resets = 0;
	while ((s = TAILQ_FIRST(&v->all)))
		vs_stream_end(s, VSOCK_GONE);
	v->pushed[VSOCK_RX] = v->pushed[VSOCK_TX] = false;
	vs_leave(v);
}

void vsock_cut(struct vsock *v, bool cut, uint32_t keep)
{
	struct vsock_stream *s;

	vs_enter(v);
	v->cut = cut;
	v->cut_keep = keep;
again:
	/* A callback may end any stream, so begin anew after each one that was told. */
	if (cut)
		TAILQ_FOREACH(s, &v->all, all) {
			bool told = s->ops != NULL;

			if (s->host_port == keep || s->pending & PEND_RST)
				continue;
			vs_stream_abort(s, VSOCK_GONE);
			if (told)
				goto again;
		}
	vs_leave(v);
}

void vsock_tick(struct vsock *v, uint64_t ms)
{
	struct vsock_stream *s, *next;
	bool again;

	vs_enter(v);
	v->now_ms += ms;
	/* A callback may end any stream, so begin anew after each one that was told. */
	do {
		again = false;
		for (s = TAILQ_FIRST(&v->all); s; s = next) {
			next = TAILQ_NEXT(s, all);
			if (!s->deadline_ms || s->deadline_ms > v->now_ms ||
			    (s->state != CONNECTING && s->state != CLOSING))
				continue;
			s->deadline_ms = 0;
			again = s->ops != NULL;
			vs_stream_abort(s, VSOCK_TIMEOUT);
			if (again)
				break;
		}
	} while (again);
	vs_leave(v);
}

void vsock_stats(const struct vsock *v, struct vsock_stats *out)
{
	*out = v->stats;
}
