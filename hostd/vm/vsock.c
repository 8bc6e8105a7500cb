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
#include <sys/queue.h>

#include "hostd/vm/vsock_packet.h"

enum {
	HASH_SIZE = 256,
	HOST_PORT_FIRST = 0x40000000, /* source ports of our own connects */
	CREDIT_STEP = VSOCK_BUF_ALLOC / 4,
};

/* Control packets that wait for a buffer, in the order in which they are sent. */
enum {
	PEND_REQUEST = 1 << 0,
	PEND_RESPONSE = 1 << 1,
	PEND_CREDIT_UPDATE = 1 << 2,
	PEND_CREDIT_REQUEST = 1 << 3,
	PEND_SHUTDOWN = 1 << 4,
	PEND_RST = 1 << 5,
};

enum state { CONNECTING, OPEN, CLOSING, DEAD };

struct vsock_stream {
	struct vsock *v;
	LIST_ENTRY(vsock_stream) hash;
	TAILQ_ENTRY(vsock_stream) all;
	TAILQ_ENTRY(vsock_stream) pend;
	TAILQ_ENTRY(vsock_stream) write;
	const struct vsock_ops *ops; /* NULL: the user has closed it or was told of its end */
	void *u;
	uint32_t guest_port, host_port;
	enum state state;
	unsigned pending;
	bool want_write;
	bool guest_sends_no_more, guest_reads_no_more;
	bool guest_closed;	/* both of them, and answered */
	bool shutdown_told;
	bool shutdown_sent;	/* our SEND flag */
	bool read_shut;		/* our RECEIVE flag */
	bool deferred;		/* the guest's request has no answer yet */
	bool credit_asked;
	bool offering;		/* inside on_data */
	bool unlisted;		/* its ports have a new stream; only kept bytes are left */
	/* Credit: all counters wrap at 2^32, as on the wire. */
	uint32_t tx_cnt, guest_fwd_cnt, guest_buf_alloc;
	uint32_t rx_cnt, fwd_cnt, fwd_cnt_told;
	uint64_t deadline_ms;
	/* Bytes the user has not consumed yet. */
	uint8_t *kept;
	size_t kept_off, kept_len, kept_cap;
};

struct listener {
	uint32_t port;
	const struct vsock_ops *ops;
	void *u;
};

struct orphan_reset {
	uint32_t guest_port, host_port;
	uint16_t type;
};

TAILQ_HEAD(stream_list, vsock_stream);

struct vsock {
	uint64_t guest_cid;
	const struct vsock_device_ops *ops;
	void *u;
	struct ring ring[VSOCK_QUEUES];
	bool pushed[VSOCK_QUEUES];
	bool broken_told;
	unsigned depth;
	uint64_t now_ms;
	uint32_t next_host_port;
	LIST_HEAD(, vsock_stream) hash[HASH_SIZE];
	struct stream_list all, pending, writers, dead;
	size_t n_writers;
	struct listener listener[VSOCK_LISTENERS_MAX];
	size_t n_listeners;
	struct orphan_reset reset[VSOCK_RESETS_MAX];
	size_t n_resets;
	bool cut;
	uint32_t cut_keep; /* the one host port that is not */
	struct vsock_stats stats;
	uint8_t payload[VSOCK_PAYLOAD_MAX];
};

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

/* ---- The stream table ---- */

static size_t hash_of(uint32_t guest_port, uint32_t host_port)
{
	return (guest_port * 2654435761u ^ host_port * 2246822519u) >> 24;
}

static struct vsock_stream *stream_find(struct vsock *v, uint32_t guest_port, uint32_t host_port)
{
	struct vsock_stream *s;

	LIST_FOREACH(s, &v->hash[hash_of(guest_port, host_port)], hash)
		if (s->guest_port == guest_port && s->host_port == host_port)
			return s;
	return NULL;
}

static struct vsock_stream *stream_add(struct vsock *v, uint32_t guest_port, uint32_t host_port,
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

static void pend(struct vsock_stream *s, unsigned what)
{
	if (!s->pending)
		TAILQ_INSERT_TAIL(&s->v->pending, s, pend);
	s->pending |= what;
}

static void pend_clear(struct vsock_stream *s)
{
	if (s->pending)
		TAILQ_REMOVE(&s->v->pending, s, pend);
	s->pending = 0;
}

static void want_write(struct vsock_stream *s, bool want)
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

static void kept_drop(struct vsock_stream *s)
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
static void stream_bury(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->state == DEAD)
		return;
	s->state = DEAD;
	s->ops = NULL;
	pend_clear(s);
	want_write(s, false);
	kept_drop(s);
	if (!s->unlisted)
		LIST_REMOVE(s, hash);
	TAILQ_REMOVE(&v->all, s, all);
	TAILQ_INSERT_TAIL(&v->dead, s, all);
	v->stats.streams--;
}

/* Tells the user for the last time. */
static void stream_tell_end(struct vsock_stream *s, enum vsock_reason reason)
{
	const struct vsock_ops *ops = s->ops;

	s->ops = NULL;
	want_write(s, false);
	if (ops)
		ops->on_close(s, s->u, reason);
}

/* Ends a stream of which the guest knows, or need not know, that it has ended. */
static void stream_end(struct vsock_stream *s, enum vsock_reason reason)
{
	if (s->state == DEAD)
		return;
	stream_tell_end(s, reason);
	stream_bury(s);
}

/* Ends a stream with a reset, which may have to wait for a buffer. */
static void stream_abort(struct vsock_stream *s, enum vsock_reason reason)
{
	if (s->state == DEAD)
		return;
	s->state = CLOSING;
	stream_tell_end(s, reason);
	kept_drop(s);
	pend_clear(s);
	pend(s, PEND_RST);
}

/* ---- Sending ---- */

static bool device_runs(const struct vsock *v)
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

static ssize_t stream_send(struct vsock_stream *s, uint16_t op, uint32_t flags,
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
static bool stream_flush(struct vsock_stream *s)
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
		if (stream_send(s, order[i].op, flags, NULL, 0) < 0)
			return false;
		s->pending &= ~order[i].bit;
		if (!s->pending)
			TAILQ_REMOVE(&s->v->pending, s, pend);
		if (order[i].bit != PEND_RST)
			continue;
		s->v->stats.resets_sent++;
		/* A guest that closed is answered; what the user has not read yet stays. */
		if (s->state == CLOSING)
			stream_bury(s);
	}
	return true;
}

static void flush(struct vsock *v)
{
	struct vsock_stream *s;

	if (!device_runs(v))
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
		if (!stream_flush(s))
			return;
}

/* Lets waiting users write, each once, in the order in which they began to wait. */
static void writers_wake(struct vsock *v)
{
	struct vsock_stream *s;

	for (size_t n = v->n_writers; n && (s = TAILQ_FIRST(&v->writers)); n--) {
		want_write(s, false);
		if (s->ops && s->ops->on_writable)
			s->ops->on_writable(s, s->u);
	}
}

static void enter(struct vsock *v)
{
	v->depth++;
}

static void leave(struct vsock *v)
{
	const char *why = NULL;
	struct vsock_stream *s;

	if (v->depth > 1) {
		v->depth--;
		return;
	}
	flush(v);
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

/* ---- Receiving ---- */

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

static void consumed(struct vsock_stream *s, size_t n)
{
	s->fwd_cnt += (uint32_t)n;
	/* Announce in steps, and always before the guest could run dry. */
	if (!s->guest_sends_no_more && s->fwd_cnt - s->fwd_cnt_told >= CREDIT_STEP)
		pend(s, PEND_CREDIT_UPDATE);
}

static size_t offer(struct vsock_stream *s, const uint8_t *p, size_t n)
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
static void after_data(struct vsock_stream *s)
{
	if (s->state == DEAD || s->kept_len || !s->guest_sends_no_more)
		return;
	if (!s->shutdown_told) {
		s->shutdown_told = true;
		if (s->ops && s->ops->on_shutdown)
			s->ops->on_shutdown(s, s->u);
	}
	if (s->guest_closed && s->state == OPEN) {
		stream_tell_end(s, VSOCK_CLOSED);
		if (s->pending & PEND_RST)
			s->state = CLOSING;
		else
			stream_bury(s);
	}
}

static void receive_data(struct vsock_stream *s, size_t n)
{
	struct vsock *v = s->v;
	size_t took = 0;

	if (s->guest_sends_no_more || n > VSOCK_BUF_ALLOC - (s->rx_cnt - s->fwd_cnt)) {
		stream_abort(s, VSOCK_PROTOCOL);
		return;
	}
	s->rx_cnt += (uint32_t)n;
	if (!n)
		return;
	if (s->state == CLOSING) {
		consumed(s, n);
		return;
	}
	if (!s->kept_len && !s->offering)
		took = offer(s, v->payload, n);
	if (s->state == DEAD)
		return;
	consumed(s, took);
	if (took < n && !kept_append(s, v->payload + took, n - took))
		stream_abort(s, VSOCK_PROTOCOL);
}

static void receive_shutdown(struct vsock_stream *s, uint32_t flags)
{
	if (flags & SHUT_F_SEND)
		s->guest_sends_no_more = true;
	if (flags & SHUT_F_RECEIVE)
		s->guest_reads_no_more = true;
	if (s->guest_sends_no_more && s->guest_reads_no_more && !s->guest_closed) {
		s->guest_closed = true;
		pend_clear(s);
		pend(s, PEND_RST);
	}
	if (s->state == CLOSING)
		return;
	if (s->guest_reads_no_more && !s->guest_closed) {
		want_write(s, false);
		if (s->ops && s->ops->on_writable)
			s->ops->on_writable(s, s->u);
	}
	after_data(s);
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

static uint32_t guest_room(const struct vsock_stream *s)
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
		pend(s, PEND_CREDIT_UPDATE);
		break;
	default:
		stream_abort(s, VSOCK_PROTOCOL);
	}
}

static void receive_on_stream(struct vsock_stream *s, const struct vsock_packet *k)
{
	if (k->op == OP_RST) {
		/* Kept bytes were received before the reset: they are still the user's. */
		if (s->guest_closed && s->kept_len)
			return;
		stream_end(s, s->state == CONNECTING ? VSOCK_REFUSED :
			      s->guest_closed	     ? VSOCK_CLOSED :
						       VSOCK_RESET);
		return;
	}
	if (k->op == OP_REQUEST) {
		/* The guest has forgotten the stream: a new one under the same ports begins. */
		if (s->guest_closed && s->kept_len) {
			LIST_REMOVE(s, hash);
			s->unlisted = true;
			pend_clear(s);
		} else {
			stream_end(s, VSOCK_RESET);
		}
		receive_request(s->v, k);
		return;
	}
	if (s->guest_closed)
		return;
	if (!receive_credit(s, k)) {
		stream_abort(s, VSOCK_PROTOCOL);
		return;
	}
	if (s->state == CONNECTING) {
		if (k->op != OP_RESPONSE || (s->pending & PEND_REQUEST)) {
			stream_abort(s, VSOCK_PROTOCOL);
			return;
		}
		s->state = OPEN;
		if (s->shutdown_sent)
			pend(s, PEND_SHUTDOWN);
		s->ops->on_open(s, s->u);
	} else {
		receive_op(s, k);
	}
	if (s->state == OPEN && s->want_write && guest_room(s)) {
		want_write(s, false);
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

static const struct listener *listener_find(const struct vsock *v, uint32_t port)
{
	for (size_t i = 0; i < v->n_listeners; i++)
		if (v->listener[i].port == port)
			return &v->listener[i];
	return NULL;
}

static void receive_request(struct vsock *v, const struct vsock_packet *k)
{
	const struct listener *l = listener_find(v, k->dst_port);
	struct vsock_stream *s = NULL;

	if (l && (!v->cut || k->dst_port == v->cut_keep))
		s = stream_add(v, k->src_port, k->dst_port, l->ops, l->u);
	if (!s) {
		reset_unknown(v, k);
		return;
	}
	s->state = OPEN;
	s->guest_buf_alloc = k->buf_alloc;
	pend(s, PEND_RESPONSE);
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
	s = k.type == TYPE_STREAM ? stream_find(v, k.src_port, k.dst_port) : NULL;
	if (k.len > VSOCK_PAYLOAD_MAX || k.len > c->out_bytes - VSOCK_HEADER_BYTES) {
		if (s)
			stream_abort(s, VSOCK_PROTOCOL);
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

	if (!device_runs(v))
		return false;
	enter(v);
	if (q == VSOCK_RX) {
		flush(v);
		writers_wake(v);
	}
	for (int n = 0; v->n_resets < VSOCK_RESETS_MAX && device_runs(v); n++) {
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
			flush(v);
	}
	leave(v);
	return more && device_runs(v);
}

/* ---- For users ---- */

int vsock_listen(struct vsock *v, uint32_t port, const struct vsock_ops *ops, void *u)
{
	if (v->n_listeners == VSOCK_LISTENERS_MAX || listener_find(v, port))
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
	} while (stream_find(v, guest_port, v->next_host_port));
	return v->next_host_port;
}

struct vsock_stream *vsock_connect(struct vsock *v, uint32_t port, const struct vsock_ops *ops,
				   void *u)
{
	struct vsock_stream *s = NULL;

	enter(v);
	if (device_runs(v) && !v->cut)
		s = stream_add(v, port, host_port_pick(v, port), ops, u);
	if (s) {
		s->state = CONNECTING;
		s->deadline_ms = v->now_ms + VSOCK_CONNECT_MS;
		pend(s, PEND_REQUEST);
	}
	leave(v);
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
		size_t part = guest_room(s);
		ssize_t sent;

		if (!part && !s->credit_asked) {
			s->credit_asked = true;
			pend(s, PEND_CREDIT_REQUEST);
		}
		if (!part || !device_runs(s->v))
			break;
		if (part > n - done)
			part = n - done;
		sent = stream_send(s, OP_RW, 0, p + done, part);
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
	enter(s->v);
	if (s->state == OPEN && !s->deferred && (!s->pending || stream_flush(s)))
		done = write_some(s, p, n);
	if ((size_t)done < n && s->state != DEAD)
		want_write(s, true);
	leave(s->v);
	return done;
}

void vsock_stream_resume(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->offering || s->state == DEAD)
		return;
	enter(v);
	while (s->kept_len) {
		size_t took = offer(s, s->kept + s->kept_off, s->kept_len);

		if (s->state == DEAD || !s->kept_len)
			break;
		s->kept_off += took;
		s->kept_len -= took;
		v->stats.queued_bytes -= took;
		consumed(s, took);
		if (!took)
			break;
	}
	if (s->state != DEAD && !s->kept_len) {
		kept_drop(s);
		after_data(s);
	}
	leave(v);
}

void vsock_stream_shutdown(struct vsock_stream *s)
{
	if ((s->state != OPEN && s->state != CONNECTING) || s->shutdown_sent || s->guest_closed)
		return;
	enter(s->v);
	s->shutdown_sent = true;
	want_write(s, false);
	if (s->state == OPEN && !s->deferred)
		pend(s, PEND_SHUTDOWN);
	leave(s->v);
}

void vsock_stream_shutdown_read(struct vsock_stream *s)
{
	if (s->state != OPEN || s->read_shut || s->guest_closed)
		return;
	enter(s->v);
	s->read_shut = true;
	pend(s, PEND_SHUTDOWN);
	leave(s->v);
}

void vsock_stream_defer(struct vsock_stream *s)
{
	if (s->pending & PEND_RESPONSE) {
		pend_clear(s);
		s->deferred = true;
	}
}

void vsock_stream_accept(struct vsock_stream *s)
{
	if (!s->deferred || s->state != OPEN)
		return;
	enter(s->v);
	s->deferred = false;
	pend(s, PEND_RESPONSE | (s->shutdown_sent || s->read_shut ? PEND_SHUTDOWN : 0));
	leave(s->v);
}

void vsock_stream_close(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->state == DEAD)
		return;
	enter(v);
	s->ops = NULL;
	want_write(s, false);
	kept_drop(s);
	if (s->state == CONNECTING && (s->pending & PEND_REQUEST)) {
		stream_bury(s);
	} else if (s->state == CONNECTING || s->deferred) {
		s->state = CLOSING;
		pend(s, PEND_RST);
	} else if (s->guest_closed) {
		if (s->pending & PEND_RST)
			s->state = CLOSING;
		else
			stream_bury(s);
	} else if (s->state == OPEN) {
		s->state = CLOSING;
		s->deadline_ms = v->now_ms + VSOCK_CLOSE_MS;
		/* What the user left unread counts as read, or the guest could not go on. */
		s->fwd_cnt = s->rx_cnt;
		pend(s, PEND_SHUTDOWN);
	}
	leave(v);
}

void vsock_stream_reset(struct vsock_stream *s)
{
	struct vsock *v = s->v;

	if (s->state == DEAD)
		return;
	enter(v);
	s->ops = NULL;
	want_write(s, false);
	stream_abort(s, VSOCK_CLOSED);
	leave(v);
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

	enter(v);
	v->n_resets = 0;
	while ((s = TAILQ_FIRST(&v->all)))
		stream_end(s, VSOCK_GONE);
	v->pushed[VSOCK_RX] = v->pushed[VSOCK_TX] = false;
	leave(v);
}

void vsock_cut(struct vsock *v, bool cut, uint32_t keep)
{
	struct vsock_stream *s;

	enter(v);
	v->cut = cut;
	v->cut_keep = keep;
again:
	/* A callback may end any stream, so begin anew after each one that was told. */
	if (cut)
		TAILQ_FOREACH(s, &v->all, all) {
			bool told = s->ops != NULL;

			if (s->host_port == keep || s->pending & PEND_RST)
				continue;
			stream_abort(s, VSOCK_GONE);
			if (told)
				goto again;
		}
	leave(v);
}

void vsock_tick(struct vsock *v, uint64_t ms)
{
	struct vsock_stream *s, *next;
	bool again;

	enter(v);
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
			stream_abort(s, VSOCK_TIMEOUT);
			if (again)
				break;
		}
	} while (again);
	leave(v);
}

void vsock_stats(const struct vsock *v, struct vsock_stats *out)
{
	*out = v->stats;
}
