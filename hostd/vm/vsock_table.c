/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_VSOCK, the table of streams, and how each ends. The theory is in vsock.c. */
#include "hostd/vm/vsock_stream.h"

#include <stdlib.h>

static size_t hash_of(uint32_t guest_port, uint32_t host_port)
{
	return (guest_port * 2654435761u ^ host_port * 2246822519u) >> 24;
}

struct vsock_stream *vs_stream_find(struct vsock *v, uint32_t guest_port, uint32_t host_port)
{
	struct vsock_stream *s;

	LIST_FOREACH(s, &v->hash[hash_of(guest_port, host_port)], hash)
		if (s->guest_port == guest_port && s->host_port == host_port)
			return s;
	return NULL;
}

struct vsock_stream *vs_stream_add(struct vsock *v, uint32_t guest_port, uint32_t host_port,
				   const struct vsock_ops *ops, void *u)
{
	struct vsock_stream *s;

	if (v->stats.streams == VSOCK_STREAMS_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->v = v;
	s->guest_port = guest_port;
	s->host_port = host_port;
	s->ops = ops;
	s->u = u;
	LIST_INSERT_HEAD(&v->hash[hash_of(guest_port, host_port)], s, hash);
	TAILQ_INSERT_TAIL(&v->all, s, all);
	v->stats.streams++;
	return s;
}

void vs_pend(struct vsock_stream *s, unsigned what)
{
	if (!s->pending)
		TAILQ_INSERT_TAIL(&s->v->pending, s, pend);
	s->pending |= what;
}

void vs_pend_clear(struct vsock_stream *s)
{
	if (s->pending)
		TAILQ_REMOVE(&s->v->pending, s, pend);
	s->pending = 0;
}

void vs_want_write(struct vsock_stream *s, bool want)
{
	if (want == s->want_write)
		return;
	s->want_write = want;
	if (want) {
		TAILQ_INSERT_TAIL(&s->v->writers, s, write);
		s->v->n_writers++;
	} else {
		TAILQ_REMOVE(&s->v->writers, s, write);
		s->v->n_writers--;
	}
}

void vs_kept_drop(struct vsock_stream *s)
{
	s->v->stats.queued_bytes -= s->kept_len;
	s->kept_len = s->kept_off = 0;
	/* on_data still has a pointer into it; it goes with the stream then */
	if (s->offering)
		return;
	free(s->kept);
	s->kept = NULL;
	s->kept_cap = 0;
}

/* Takes the stream out of every table; its memory goes when the outermost call leaves. */
void vs_stream_bury(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->state == DEAD)
		return;
	s->state = DEAD;
	s->ops = NULL;
	vs_pend_clear(s);
	vs_want_write(s, false);
	vs_kept_drop(s);
	if (!s->unlisted)
		LIST_REMOVE(s, hash);
	TAILQ_REMOVE(&v->all, s, all);
	TAILQ_INSERT_TAIL(&v->dead, s, all);
	v->stats.streams--;
}

/* Tells the user for the last time. */
void vs_stream_tell_end(struct vsock_stream *s, enum vsock_reason reason)
{
	const struct vsock_ops *ops = s->ops;

	s->ops = NULL;
	vs_want_write(s, false);
	if (ops)
		ops->on_close(s, s->u, reason);
}

/* Ends a stream of which the guest knows, or need not know, that it has ended. */
void vs_stream_end(struct vsock_stream *s, enum vsock_reason reason)
{
	if (s->state == DEAD)
		return;
	vs_stream_tell_end(s, reason);
	vs_stream_bury(s);
}

/* Ends a stream with a reset, which may have to wait for a buffer. */
void vs_stream_abort(struct vsock_stream *s, enum vsock_reason reason)
{
	if (s->state == DEAD)
		return;
	s->state = CLOSING;
	vs_stream_tell_end(s, reason);
	vs_kept_drop(s);
	vs_pend_clear(s);
	vs_pend(s, PEND_RST);
}
