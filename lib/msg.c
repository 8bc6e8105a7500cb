/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Typed messages between hostd's roles on SOCK_SEQPACKET, checked against a table per peer. */
#include "lib/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum { MESSAGES_PER_TURN = 64 };

static const struct json_limits message_limits = { .bytes = MSG_MAX, .depth = 16, .values = 16384 };

struct queued {
	struct queued *next;
	int fds[IO_FDS_MAX];
	size_t n_fds;
	size_t len;
	uint8_t bytes[];
};

struct msg_peer {
	struct loop_fd *watch;
	struct msg_peer_config config;
	int fd;
	uint32_t state;
	struct queued *first, **last;
	size_t queued_bytes;
	unsigned int busy; /* handlers on the stack */
	bool closed, free_later, paused;
	uint8_t in[MSG_MAX];
};

static void queued_free(struct queued *q)
{
	for (size_t i = 0; i < q->n_fds; i++)
		close(q->fds[i]);
	free(q);
}

static void peer_shut(struct msg_peer *peer)
{
	if (peer->closed)
		return;
	peer->closed = true;
	loop_fd_del(peer->watch);
	close(peer->fd);
	while (peer->first) {
		struct queued *q = peer->first;

		peer->first = q->next;
		queued_free(q);
	}
	peer->last = &peer->first;
	peer->queued_bytes = 0;
}

static void peer_end(struct msg_peer *peer, const char *why)
{
	if (peer->closed)
		return;
	peer_shut(peer);
	peer->busy++;
	peer->config.on_close(peer->config.user, why);
	peer->busy--;
}

static void free_fds(struct msg *msg)
{
	for (size_t i = 0; i < msg->n_fds; i++)
		if (msg->fds[i] >= 0)
			close(msg->fds[i]);
}

static const struct msg_rule *rule_for(const struct msg_peer *peer, uint16_t type)
{
	const struct msg_rule *rule = peer->config.rules;

	while (rule->handler && rule->type != type)
		rule++;
	return rule->handler ? rule : NULL;
}

static int decode(struct msg_peer *peer, size_t n, struct msg *msg, struct err *err)
{
	struct rd r;
	uint16_t flags;
	uint32_t json_len, blob_len;
	const uint8_t *json;

	rd_init(&r, peer->in, n);
	if (rd_u16(&r, &msg->type) || rd_u16(&r, &flags) || rd_u32(&r, &json_len) ||
	    rd_u32(&r, &blob_len) || flags || rd_bytes(&r, &json, json_len) ||
	    rd_bytes(&r, &msg->blob, blob_len) || r.left)
		return err_set(err, "malformed message of %zu bytes", n);
	msg->blob_len = blob_len;
	msg->json = json_parse(json, json_len, &message_limits, err);
	if (!msg->json)
		return -1;
	return json_is_object(msg->json) ? 0 : err_set(err, "message without an object");
}

static int deliver(struct msg_peer *peer, struct msg *msg, struct err *err)
{
	const struct msg_rule *rule = rule_for(peer, msg->type);

	if (!rule)
		return err_set(err, "unknown message type %u", msg->type);
	if (!(rule->states & peer->state))
		return err_set(err, "message %s out of state %#x", rule->name, peer->state);
	if (msg->n_fds > rule->max_fds)
		return err_set(err, "message %s with %zu descriptors", rule->name, msg->n_fds);
	if (rule->handler(peer->config.user, msg, err))
		return err_prefix(err, "message %s", rule->name);
	return 0;
}

/* 1 = a message was handled, 0 = nothing to read, -1 = the peer has ended. */
static int receive_one(struct msg_peer *peer)
{
	struct msg msg = { .n_fds = IO_FDS_MAX };
	struct err err = { "" };
	ssize_t got = io_recv_fds(peer->fd, peer->in, sizeof(peer->in), msg.fds, &msg.n_fds);
	int rc;

	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (got <= 0) {
		peer_end(peer, got ? strerror(errno) : "closed");
		return -1;
	}
	rc = decode(peer, (size_t)got, &msg, &err);
	if (!rc)
		rc = deliver(peer, &msg, &err);
	free_fds(&msg);
	json_decref(msg.json);
	if (rc)
		peer_end(peer, err.text);
	return peer->closed ? -1 : 1;
}

static void update_watch(struct msg_peer *peer)
{
	loop_fd_mod(peer->watch, (peer->paused ? 0u : EPOLLIN) | (peer->first ? EPOLLOUT : 0u));
}

static void flush(struct msg_peer *peer)
{
	while (peer->first) {
		struct queued *q = peer->first;

		if (io_send_fds(peer->fd, q->bytes, q->len, q->fds, q->n_fds) < 0) {
			if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
				peer_end(peer, strerror(errno));
			return;
		}
		peer->first = q->next;
		if (!peer->first)
			peer->last = &peer->first;
		peer->queued_bytes -= q->len;
		queued_free(q);
	}
	update_watch(peer);
}

static void on_event(void *user, int fd, uint32_t events)
{
	struct msg_peer *peer = user;

	(void)fd;
	peer->busy++;
	if (events & EPOLLOUT)
		flush(peer);
	for (int i = 0; i < MESSAGES_PER_TURN && !peer->closed && !peer->paused; i++)
		if (receive_one(peer) <= 0)
			break;
	peer->busy--;
	if (peer->free_later && !peer->busy)
		free(peer);
}

struct msg_peer *msg_peer_new(struct loop *loop, int fd, const struct msg_peer_config *config,
			      struct err *err)
{
	struct msg_peer *peer = calloc(1, sizeof(*peer));

	if (!peer) {
		err_set(err, "out of memory");
		return NULL;
	}
	peer->config = *config;
	peer->fd = fd;
	peer->state = 1;
	peer->last = &peer->first;
	/* Room for the longest message; the kernel doubles it for its own book-keeping. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ MSG_MAX }, sizeof(int));
	if (io_set_nonblock(fd) || io_set_cloexec(fd)) {
		err_errno(err, "fcntl");
		free(peer);
		return NULL;
	}
	peer->watch = loop_fd_add(loop, fd, EPOLLIN, on_event, peer, err);
	if (!peer->watch) {
		free(peer);
		return NULL;
	}
	return peer;
}

void msg_peer_free(struct msg_peer *peer)
{
	if (!peer)
		return;
	peer_shut(peer);
	if (peer->busy)
		peer->free_later = true;
	else
		free(peer);
}

void msg_peer_set_state(struct msg_peer *peer, uint32_t state)
{
	peer->state = state;
}

void msg_peer_pause(struct msg_peer *peer, int paused)
{
	peer->paused = paused;
	if (!peer->closed)
		update_watch(peer);
}

size_t msg_peer_queued(const struct msg_peer *peer)
{
	return peer->queued_bytes;
}

static struct queued *encode(uint16_t type, const json_t *json, const void *blob, size_t blob_len)
{
	_cleanup_free_ char *text = json ? json_text(json) : strdup("{}");
	struct queued *q;
	struct buf b;
	size_t json_len, total;

	if (!text)
		return NULL;
	json_len = strlen(text);
	total = MSG_HEADER + json_len + blob_len;
	q = calloc(1, sizeof(*q) + total);
	if (!q)
		return NULL;
	buf_init(&b, MSG_HEADER);
	if (buf_put_u16(&b, type) || buf_put_u16(&b, 0) || buf_put_u32(&b, (uint32_t)json_len) ||
	    buf_put_u32(&b, (uint32_t)blob_len)) {
		buf_free(&b);
		free(q);
		return NULL;
	}
	memcpy(q->bytes, b.data, MSG_HEADER);
	buf_free(&b);
	memcpy(q->bytes + MSG_HEADER, text, json_len);
	if (blob_len)
		memcpy(q->bytes + MSG_HEADER + json_len, blob, blob_len);
	q->len = total;
	return q;
}

static int enqueue(struct msg_peer *peer, struct queued *q, const int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);

		if (copy < 0)
			return -1;
		q->fds[q->n_fds++] = copy;
	}
	*peer->last = q;
	peer->last = &q->next;
	peer->queued_bytes += q->len;
	update_watch(peer);
	return 0;
}

int msg_send(struct msg_peer *peer, uint16_t type, const json_t *json, const void *blob,
	     size_t blob_len, const int *fds, size_t n_fds, struct err *err)
{
	struct queued *q;

	if (peer->closed)
		return err_set(err, "the peer is gone");
	if (blob_len > MSG_MAX || n_fds > IO_FDS_MAX)
		return err_set(err, "message %u too long", type);
	q = encode(type, json, blob, blob_len);
	if (!q)
		return err_set(err, "out of memory");
	if (q->len > MSG_MAX) {
		free(q);
		return err_set(err, "message %u too long", type);
	}
	if (!peer->first && io_send_fds(peer->fd, q->bytes, q->len, fds, n_fds) >= 0) {
		free(q);
		return 0;
	}
	if (!peer->first && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
		free(q);
		return err_errno(err, "send");
	}
	if (peer->queued_bytes + q->len > MSG_QUEUE_MAX || enqueue(peer, q, fds, n_fds)) {
		queued_free(q);
		return err_set(err, "the peer does not read");
	}
	return 0;
}

int msg_send_new(struct msg_peer *peer, uint16_t type, json_t *json)
{
	int rc;

	if (!json)
		return -1;
	rc = msg_send(peer, type, json, NULL, 0, NULL, 0, NULL);
	json_decref(json);
	return rc;
}
