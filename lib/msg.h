/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Typed messages between hostd's roles on SOCK_SEQPACKET, checked against a table per peer. */
#ifndef HOLDFAST_LIB_MSG_H
#define HOLDFAST_LIB_MSG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/io.h"
#include "lib/loop.h"

/*
 * Theory of operation. A message is one datagram: u16 type, u16 flags (0), u32 json_bytes,
 * u32 blob_bytes, then a JSON object, then raw bytes, with up to IO_FDS_MAX descriptors. The
 * receiver has a table that says which types it takes in which states (a bit mask), and how many
 * descriptors each may carry. An unknown type, a message out of state, a bad length or bad JSON
 * ends the peer: on_close runs with the reason and nothing more is read. Sending never blocks:
 * what the socket does not take is queued up to MSG_QUEUE_MAX bytes; beyond that the peer is
 * ended too, since a peer that does not read is as good as dead.
 */
enum {
	MSG_HEADER = 12,
	MSG_MAX = 192 * 1024,
	MSG_QUEUE_MAX = 16 * 1024 * 1024,
};

struct msg {
	uint16_t type;
	json_t *json;        /* an object; the receiver's until the handler returns */
	const uint8_t *blob; /* valid until the handler returns */
	size_t blob_len;
	int fds[IO_FDS_MAX]; /* closed after the handler unless set to -1 */
	size_t n_fds;
};

struct msg_peer;

/* Returns -1 with err to end the peer. */
typedef int (*msg_handler)(void *user, struct msg *msg, struct err *err);

struct msg_rule {
	uint16_t type;
	const char *name;
	uint32_t states; /* bit mask of the states in which it is taken */
	uint8_t max_fds;
	msg_handler handler;
};

struct msg_peer_config {
	const struct msg_rule *rules; /* ends with a NULL handler */
	void (*on_close)(void *user, const char *why);
	void *user;
};

/* Takes ownership of fd. The state starts as 1. */
struct msg_peer *msg_peer_new(struct loop *loop, int fd, const struct msg_peer_config *config,
			      struct err *err);
/* Closes without calling on_close. Safe inside handlers. NULL is fine. */
void msg_peer_free(struct msg_peer *peer);
void msg_peer_set_state(struct msg_peer *peer, uint32_t state);
/* Stops or goes on with reading; what waits stays in the socket, so the other side is held up. */
void msg_peer_pause(struct msg_peer *peer, int paused);
/* Bytes queued and not yet taken by the socket. */
size_t msg_peer_queued(const struct msg_peer *peer);

/*
 * Sends; json is borrowed (NULL = {}), fds are duplicated if they have to wait. 0, or -1 with err
 * when the message is too long or the peer is gone.
 */
int msg_send(struct msg_peer *peer, uint16_t type, const json_t *json, const void *blob,
	     size_t blob_len, const int *fds, size_t n_fds, struct err *err);
/* msg_send of an object that is consumed, without blob and descriptors. */
int msg_send_new(struct msg_peer *peer, uint16_t type, json_t *json);

#endif
