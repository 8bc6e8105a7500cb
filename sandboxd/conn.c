// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Framed connections.
 *
 * Bytes come from the host or from a process of the workspace; both are bounded here: a header is checked
 * before its payload is waited for, data frames are small, and only a request may be large. Every freeing
 * inside a callback is delayed to the end of that callback.
 */
#include "sandboxd/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "lib/buf.h"
#include "lib/io.h"
#include "lib/json.h"

enum { READ_CHUNK = 64 * 1024, OUT_MAX = HF_EXEC_MESSAGE_MAX + 1024 * 1024 };

struct guest_conn {
	struct loop *loop;
	struct loop_fd *watch;
	const struct guest_conn_ops *ops;
	void *user;
	struct buf in, out;
	int fd;
	bool held, finishing, broken, in_callback, freed;
	bool high;	/* a producer was stopped */
};

static void destroy(struct guest_conn *c)
{
	loop_fd_del(c->watch);
	close(c->fd);
	buf_free(&c->in);
	buf_free(&c->out);
	free(c);
}

void guest_conn_free(struct guest_conn *c)
{
	if (!c)
		return;
	c->freed = true;
	if (!c->in_callback)
		destroy(c);
}

static void watch(struct guest_conn *c)
{
	uint32_t events = 0;

	if (!c->held && !c->finishing)
		events |= EPOLLIN;
	if (c->out.len)
		events |= EPOLLOUT;
	loop_fd_mod(c->watch, events);
}

/* Writes what goes without blocking. -1 when the peer is gone. */
static int flush(struct guest_conn *c)
{
	size_t done = 0;

	while (done < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + done, c->out.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -1;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	buf_drop(&c->out, done);
	return 0;
}

static bool is_inbound(uint8_t type)
{
	switch (type) {
	case HF_EXEC_REQUEST:
	case HF_EXEC_STDIN:
	case HF_EXEC_RESIZE:
	case HF_EXEC_SIGNAL:
	case HF_EXEC_EOF:
		return true;
	default:
		return false;
	}
}

static size_t type_max(uint8_t type)
{
	switch (type) {
	case HF_EXEC_REQUEST:
		return HF_EXEC_MESSAGE_MAX;
	case HF_EXEC_STDIN:
		return HF_EXEC_DATA_MAX;
	case HF_EXEC_RESIZE:
		return 4;
	case HF_EXEC_SIGNAL:
		return 1;
	default:
		return 0;
	}
}

/* Takes one frame off the input. 1 taken, 0 not there yet, -1 the protocol is broken. */
static int take_frame(struct guest_conn *c)
{
	const uint8_t *payload;
	uint32_t len;
	uint8_t type;
	struct rd r;

	rd_init(&r, c->in.data, c->in.len);
	if (rd_u8(&r, &type) < 0 || rd_u32(&r, &len) < 0)
		return 0;
	if (!is_inbound(type) || len > type_max(type)) {
		guest_conn_refuse(c, is_inbound(type) ? "a frame is too long" : "unknown frame type");
		return -1;
	}
	if (rd_bytes(&r, &payload, len) < 0)
		return 0;
	c->ops->frame(c->user, c, type, payload, len);
	buf_drop(&c->in, HF_EXEC_HEADER_BYTES + len);
	return 1;
}

static void take_frames(struct guest_conn *c)
{
	while (!c->freed && !c->finishing && !c->held && take_frame(c) > 0)
		continue;
}

/* -1 at the end of the stream. */
static int fill(struct guest_conn *c)
{
	uint8_t *room = buf_room(&c->in, READ_CHUNK);
	ssize_t n;

	if (!room)
		return -1;
	n = recv(c->fd, room, READ_CHUNK, MSG_DONTWAIT);
	if (n > 0)
		c->in.len += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		return -1;
	return 0;
}

static void on_event(void *user, int fd, uint32_t events)
{
	struct guest_conn *c = user;
	bool gone = false;

	(void)fd;
	c->in_callback = true;
	if (events & EPOLLOUT)
		gone = flush(c) < 0;
	if (!gone && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !c->held && !c->finishing) {
		gone = fill(c) < 0;
		take_frames(c);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		gone = true;
	}
	if (!c->freed && !gone && c->high && c->out.len < GUEST_CONN_LOW) {
		c->high = false;
		c->ops->drained(c->user, c);
	}
	if (!c->freed && (gone || c->broken || (c->finishing && !c->out.len))) {
		c->ops->closed(c->user, c);
		c->freed = true;
	}
	c->in_callback = false;
	if (c->freed)
		destroy(c);
	else
		watch(c);
}

struct guest_conn *guest_conn_new(struct loop *loop, int fd, const struct guest_conn_ops *ops, void *user)
{
	struct guest_conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->loop = loop;
	c->fd = fd;
	c->ops = ops;
	c->user = user;
	buf_init(&c->in, HF_EXEC_MESSAGE_MAX + HF_EXEC_HEADER_BYTES + READ_CHUNK);
	buf_init(&c->out, OUT_MAX);
	c->watch = loop_fd_add(loop, fd, EPOLLIN, on_event, c, NULL);
	if (c->watch)
		return c;
	close(fd);
	free(c);
	return NULL;
}

void guest_conn_finish(struct guest_conn *c)
{
	c->finishing = true;
	/* An event ends it even when nothing waits any more. */
	loop_fd_mod(c->watch, EPOLLOUT);
}

static void queued(struct guest_conn *c)
{
	if (flush(c) < 0)
		c->broken = true;
	if (c->out.len >= GUEST_CONN_HIGH)
		c->high = true;
	if (c->broken || c->finishing)
		loop_fd_mod(c->watch, EPOLLOUT);
	else if (!c->in_callback)
		watch(c);
}

void guest_conn_send(struct guest_conn *c, uint8_t type, const void *payload, size_t len)
{
	if (c->freed || buf_put_u8(&c->out, type) < 0 || buf_put_u32(&c->out, (uint32_t)len) < 0 ||
	    buf_put(&c->out, payload, len) < 0)
		c->broken = true;
	queued(c);
}

void guest_conn_send_raw(struct guest_conn *c, const void *bytes, size_t len)
{
	if (c->freed || buf_put(&c->out, bytes, len) < 0)
		c->broken = true;
	queued(c);
}

void guest_conn_reply(struct guest_conn *c, json_t *json)
{
	char *text = json ? json_text(json) : NULL;

	if (text)
		guest_conn_send(c, HF_EXEC_REPLY, text, strlen(text));
	else
		c->broken = true;
	free(text);
	json_decref(json);
}

void guest_conn_refuse(struct guest_conn *c, const char *text)
{
	guest_conn_send(c, HF_EXEC_ERROR, text, strlen(text));
	guest_conn_finish(c);
}

size_t guest_conn_waiting(const struct guest_conn *c)
{
	return c->out.len;
}

void guest_conn_hold(struct guest_conn *c, bool hold)
{
	bool was = c->held;

	c->held = hold;
	if (was && !hold && !c->in_callback && c->in.len) {
		/* Frames that came before the hold need no new bytes to be taken. */
		c->in_callback = true;
		take_frames(c);
		c->in_callback = false;
		if (c->freed) {
			destroy(c);
			return;
		}
	}
	if (!c->in_callback && !c->finishing)
		watch(c);
}

void guest_conn_user(struct guest_conn *c, const struct guest_conn_ops *ops, void *user)
{
	c->ops = ops;
	c->user = user;
}
