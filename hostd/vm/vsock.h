/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_VSOCK streams with one guest: listeners, connects, credits, half close, reset. */
#ifndef HOLDFAST_HOSTD_VM_VSOCK_H
#define HOLDFAST_HOSTD_VM_VSOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hostd/vm/ring.h"
#include "lib/err.h"

enum {
	VSOCK_CID_HOST = 2,
	VSOCK_STREAMS_MAX = 512,	     /* of one guest; a further request is reset */
	VSOCK_LISTENERS_MAX = 32,
	VSOCK_BUF_ALLOC = 256 * 1024,	     /* bytes a guest may send ahead on one stream */
	VSOCK_QUEUED_MAX = 64 * 1024 * 1024, /* unread bytes of all streams; more resets the stream */
	VSOCK_PAYLOAD_MAX = 64 * 1024,	     /* bytes of one packet, either way */
	VSOCK_RESETS_MAX = 64,		     /* resets of unknown streams that wait for a buffer */
	VSOCK_TX_BUDGET = 128,		     /* guest packets per turn of the loop */
	VSOCK_CONNECT_MS = 5000,
	VSOCK_CLOSE_MS = 8000,		     /* until an unanswered close becomes a reset */
};

/* Why a stream ended. */
enum vsock_reason {
	VSOCK_CLOSED,	/* the guest closed it in order */
	VSOCK_RESET,	/* the guest reset it */
	VSOCK_REFUSED,	/* nobody listens in the guest, or on_open said no */
	VSOCK_TIMEOUT,	/* no answer to our request */
	VSOCK_PROTOCOL, /* the guest broke the protocol on this stream, which was reset */
	VSOCK_GONE,	/* guest reset, device unplugged, or broken ring */
};

struct vsock;
struct vsock_stream;

/*
 * What a stream tells its user; u is what vsock_connect, vsock_listen or vsock_stream_set_user gave.
 * Callbacks may call anything on the stream, also close it: nothing more is heard of it then.
 */
struct vsock_ops {
	/*
	 * The stream is open. On a listener u is the listener's; give the stream its own with
	 * vsock_stream_set_user, refuse with vsock_stream_reset, or let the guest wait for the answer
	 * with vsock_stream_defer.
	 */
	void (*on_open)(struct vsock_stream *s, void *u);
	/*
	 * Bytes from the guest (our copy of them). Returns how many were consumed, which gives the
	 * guest credit for more; the rest is kept and offered again by vsock_stream_resume.
	 */
	size_t (*on_data)(struct vsock_stream *s, void *u, const uint8_t *p, size_t n);
	/*
	 * After a short vsock_stream_write: try again. Also when the guest reads no more, which a
	 * write of 0 bytes tells (-1). May be NULL.
	 */
	void (*on_writable)(struct vsock_stream *s, void *u);
	/* The guest sends no more; all its bytes were consumed. May be NULL. */
	void (*on_shutdown)(struct vsock_stream *s, void *u);
	/* Last call. The stream is gone when it returns; not heard after the user's own close. */
	void (*on_close)(struct vsock_stream *s, void *u, enum vsock_reason reason);
};

const char *vsock_reason_text(enum vsock_reason reason);

/* Accepts streams that the guest opens to this host port. -1: taken or too many. */
int vsock_listen(struct vsock *v, uint32_t port, const struct vsock_ops *ops, void *u);
void vsock_unlisten(struct vsock *v, uint32_t port);

/*
 * Opens a stream to a guest port: on_open or on_close follows, never from inside this call.
 * NULL when there are VSOCK_STREAMS_MAX already or no driver runs in the guest.
 */
struct vsock_stream *vsock_connect(struct vsock *v, uint32_t port, const struct vsock_ops *ops,
				   void *u);

void vsock_stream_set_user(struct vsock_stream *s, void *u);
uint32_t vsock_stream_guest_port(const struct vsock_stream *s);
uint32_t vsock_stream_host_port(const struct vsock_stream *s);

/*
 * Sends at most n bytes now. Returns how many, 0 included: then on_writable follows when the guest
 * has room. -1 when the guest reads no more, or after our own shutdown.
 */
ssize_t vsock_stream_write(struct vsock_stream *s, const void *p, size_t n);

/* Offers kept bytes to on_data again. */
void vsock_stream_resume(struct vsock_stream *s);

/* We send no more; the guest reads end of file after what was written. */
void vsock_stream_shutdown(struct vsock_stream *s);
/* We read no more: the guest's sends fail from here. */
void vsock_stream_shutdown_read(struct vsock_stream *s);

/*
 * Inside on_open of a listener: the guest's connect goes on waiting until vsock_stream_accept (or
 * its end). Nothing can be written before.
 */
void vsock_stream_defer(struct vsock_stream *s);
void vsock_stream_accept(struct vsock_stream *s);

/* Closes in order: the guest still reads what was written. The stream is not ours from here. */
void vsock_stream_close(struct vsock_stream *s);

/* Ends it at once with a reset. */
void vsock_stream_reset(struct vsock_stream *s);

/* ---- For the device that carries the packets (vhost_user.c, the fuzzer) ---- */

enum vsock_queue { VSOCK_RX, VSOCK_TX, VSOCK_QUEUES }; /* rx: host to guest */

struct vsock_device_ops {
	/* The driver wants an interrupt for this queue. */
	void (*call)(void *u, enum vsock_queue q);
	/* The driver broke a ring; all streams are gone until vsock_reset. Once per break. */
	void (*broken)(void *u, const char *why);
};

/* guest_cid > 2. */
struct vsock *vsock_new(uint64_t guest_cid, const struct vsock_device_ops *ops, void *u);
void vsock_free(struct vsock *v);

/* The ring behind a queue, for ring_init and ring_stop. */
struct ring *vsock_ring(struct vsock *v, enum vsock_queue q);

/* A kick of the driver (or a ring that has just started). True: call again soon, there is more. */
bool vsock_kick(struct vsock *v, enum vsock_queue q);

/*
 * While cut, only streams to host port `keep` live: all others are reset (their users hear
 * VSOCK_GONE), requests are refused, vsock_connect gives NULL.
 */
void vsock_cut(struct vsock *v, bool cut, uint32_t keep);

/* The guest's driver starts anew or is gone: all streams end as VSOCK_GONE, nothing is sent. */
void vsock_reset(struct vsock *v);

/* Lets `ms` of the VM's running time pass for timeouts. */
void vsock_tick(struct vsock *v, uint64_t ms);

struct vsock_stats {
	uint64_t rx_packets, tx_packets; /* to and from the guest */
	uint64_t rx_bytes, tx_bytes;	 /* payload */
	uint64_t resets_sent, dropped;
	size_t streams, queued_bytes;
};
void vsock_stats(const struct vsock *v, struct vsock_stats *out);

#endif
