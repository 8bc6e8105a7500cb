/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the vsock device share: streams, their table, and the way packets go. Nobody else includes it. */
#ifndef HOLDFAST_VM_VSOCK_STREAM_H
#define HOLDFAST_VM_VSOCK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "hostd/vm/vsock.h"
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

/* ---- hostd/vm/vsock_table.c ---- */

struct vsock_stream *vs_stream_find(struct vsock *v, uint32_t guest_port, uint32_t host_port);
struct vsock_stream *vs_stream_add(struct vsock *v, uint32_t guest_port, uint32_t host_port,
				   const struct vsock_ops *ops, void *u);
void vs_pend(struct vsock_stream *s, unsigned what);
void vs_pend_clear(struct vsock_stream *s);
void vs_want_write(struct vsock_stream *s, bool want);
void vs_kept_drop(struct vsock_stream *s);
/* Takes the stream out of every table; its memory goes when the outermost call leaves. */
void vs_stream_bury(struct vsock_stream *s);
/* Tells the user for the last time. */
void vs_stream_tell_end(struct vsock_stream *s, enum vsock_reason reason);
/* Ends a stream of which the guest knows, or need not know, that it has ended. */
void vs_stream_end(struct vsock_stream *s, enum vsock_reason reason);
/* Ends a stream with a reset, which may have to wait for a buffer. */
void vs_stream_abort(struct vsock_stream *s, enum vsock_reason reason);

/* ---- hostd/vm/vsock_send.c ---- */

bool vs_device_runs(const struct vsock *v);
ssize_t vs_stream_send(struct vsock_stream *s, uint16_t op, uint32_t flags,
		       const uint8_t *payload, size_t n);
/* Sends the stream's control packets in order; false when buffers ran out before the last. */
bool vs_stream_flush(struct vsock_stream *s);
void vs_flush(struct vsock *v);
/* Lets waiting users write, each once, in the order in which they began to wait. */
void vs_writers_wake(struct vsock *v);
void vs_enter(struct vsock *v);
void vs_leave(struct vsock *v);

/* ---- hostd/vm/vsock_recv.c ---- */

void vs_consumed(struct vsock_stream *s, size_t n);
size_t vs_offer(struct vsock_stream *s, const uint8_t *p, size_t n);
/* Says what follows the last byte, once it was consumed. */
void vs_after_data(struct vsock_stream *s);
uint32_t vs_guest_room(const struct vsock_stream *s);
const struct listener *vs_listener_find(const struct vsock *v, uint32_t port);

#endif
