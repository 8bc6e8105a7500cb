/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Carries bytes between a vsock stream and a host socket, with half closes both ways. */
#include "hostd/vm/bridge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/io.h"

struct bridge {
	LIST_ENTRY(bridge) list;
	struct bridge_set *set;
	struct vsock_stream *stream; /* NULL once it has ended */
	struct loop_fd *watch;
	int fd;
	bool want_out;		     /* the socket took less than the guest sent */
	bool host_eof, guest_eof;
	bool hung_up;		     /* the socket's peer is gone; what it left is still read */
	uint64_t id;
	bridge_opened opened;	     /* NULL once it was called */
	void *u;
	/* What was read from the socket and not taken by the stream yet. */
	uint8_t *chunk;
	size_t off, len;
};

struct port {
	LIST_ENTRY(port) list;
	struct bridge_set *set;
	uint32_t port;
	struct sockaddr_un to;
};

struct bridge_set {
	struct loop *loop;
	struct vsock *v;
	size_t n, max;
	LIST_HEAD(, bridge) bridges;
	LIST_HEAD(, port) ports;
};

static void bridge_free(struct bridge *b)
{
	LIST_REMOVE(b, list);
	b->set->n--;
	loop_fd_del(b->watch);
	close(b->fd);
	free(b->chunk);
	free(b);
}

/* Ends both sides; a stream that still lives is closed in order. */
static void bridge_end(struct bridge *b)
{
	if (b->stream)
		vsock_stream_close(b->stream);
	bridge_free(b);
}

static void watch_for(struct bridge *b)
{
	uint32_t events = 0;

	if (!b->watch)
		return;
	if (!b->host_eof && !b->len)
		events |= EPOLLIN;
	if (b->want_out)
		events |= EPOLLOUT;
	loop_fd_mod(b->watch, events);
}

static bool pull(struct bridge *b);

/* Stream takes what is in the chunk. False: the bridge has ended. */
static bool push(struct bridge *b)
{
	ssize_t n = 0;

	if (b->len)
		n = vsock_stream_write(b->stream, b->chunk + b->off, b->len);
	if (n < 0) {
		/* The guest reads no more: what the host still sends goes nowhere. */
		b->len = 0;
		b->host_eof = true;
		shutdown(b->fd, SHUT_RD);
		watch_for(b);
		return true;
	}
	b->off += (size_t)n;
	b->len -= (size_t)n;
	if (!b->len && b->host_eof) {
		if (b->guest_eof || b->hung_up) {
			bridge_end(b);
			return false;
		}
		vsock_stream_shutdown(b->stream);
	}
	if (!b->len && b->hung_up)
		return pull(b);
	watch_for(b);
	return true;
}

static bool pull(struct bridge *b)
{
	ssize_t n = recv(b->fd, b->chunk, BRIDGE_CHUNK, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n < 0) {
		bridge_end(b);
		return false;
	}
	b->off = 0;
	b->len = (size_t)n;
	b->host_eof = !n;
	return push(b);
}

static void fd_ready(void *u, int fd, uint32_t events)
{
	struct bridge *b = u;

	(void)fd;
	if ((events & EPOLLERR) || ((events & EPOLLHUP) && b->host_eof)) {
		bridge_end(b);
		return;
	}
	if ((events & EPOLLHUP) && b->len) {
		/* epoll would report it again and again; the chunk goes first. */
		loop_fd_del(b->watch);
		b->watch = NULL;
		b->hung_up = true;
		return;
	}
	if ((events & (EPOLLIN | EPOLLHUP)) && !b->host_eof && !b->len && !pull(b))
		return;
	if (events & EPOLLOUT) {
		b->want_out = false;
		watch_for(b);
		vsock_stream_resume(b->stream); /* b may be gone */
	}
}

static void stream_open(struct vsock_stream *s, void *u)
{
	struct bridge *b = u;
	bridge_opened opened = b->opened;

	(void)s;
	b->opened = NULL;
	watch_for(b);
	if (opened)
		opened(b->u, b->id, NULL);
}

static size_t stream_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	struct bridge *b = u;
	ssize_t done = send(b->fd, p, n, MSG_NOSIGNAL);

	(void)s;
	if (done < 0 && errno != EAGAIN && errno != EINTR) {
		bridge_end(b);
		return n;
	}
	if (done < 0)
		done = 0;
	if ((size_t)done < n) {
		b->want_out = true;
		watch_for(b);
	}
	return (size_t)done;
}

static void stream_writable(struct vsock_stream *s, void *u)
{
	(void)s;
	push(u);
}

static void stream_shutdown(struct vsock_stream *s, void *u)
{
	struct bridge *b = u;

	(void)s;
	b->guest_eof = true;
	shutdown(b->fd, SHUT_WR);
	if (b->host_eof && !b->len)
		bridge_end(b);
}

static void stream_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	struct bridge *b = u;

	(void)s;
	b->stream = NULL;
	if (b->opened)
		b->opened(b->u, b->id, vsock_reason_text(reason));
	bridge_free(b);
}

static const struct vsock_ops bridge_ops = {
	.on_open = stream_open,
	.on_data = stream_data,
	.on_writable = stream_writable,
	.on_shutdown = stream_shutdown,
	.on_close = stream_close,
};

/* Takes fd, also on failure. The socket is not read before the stream is open. */
static struct bridge *bridge_new(struct bridge_set *set, int fd)
{
	struct bridge *b = set->n < set->max ? calloc(1, sizeof(*b)) : NULL;

	if (b)
		b->chunk = malloc(BRIDGE_CHUNK);
	if (!b || !b->chunk || io_set_nonblock(fd) ||
	    !(b->watch = loop_fd_add(set->loop, fd, 0, fd_ready, b, NULL))) {
		if (b)
			free(b->chunk);
		free(b);
		close(fd);
		return NULL;
	}
	b->set = set;
	b->fd = fd;
	set->n++;
	LIST_INSERT_HEAD(&set->bridges, b, list);
	return b;
}

int bridge_connect(struct bridge_set *set, uint32_t port, int fd, uint64_t id, bridge_opened opened,
		   void *u)
{
	struct bridge *b = bridge_new(set, fd);

	if (!b)
		return -1;
	b->id = id;
	b->opened = opened;
	b->u = u;
	b->stream = vsock_connect(set->v, port, &bridge_ops, b);
	if (b->stream)
		return 0;
	bridge_free(b);
	return -1;
}

static int unix_connect(const struct sockaddr_un *to)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	/* A unix socket connects at once or not at all (its backlog is full). */
	if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		return fd;
	close(fd);
	return -1;
}

static void port_open(struct vsock_stream *s, void *u)
{
	struct port *p = u;
	int fd = unix_connect(&p->to);
	struct bridge *b = fd < 0 ? NULL : bridge_new(p->set, fd);

	if (!b) {
		vsock_stream_reset(s);
		return;
	}
	b->stream = s;
	vsock_stream_set_user(s, b);
	watch_for(b);
}

int bridge_listen(struct bridge_set *set, uint32_t port, const char *path)
{
	static const struct vsock_ops port_ops = {
		.on_open = port_open,
		.on_data = stream_data,
		.on_writable = stream_writable,
		.on_shutdown = stream_shutdown,
		.on_close = stream_close,
	};
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	p->set = set;
	p->port = port;
	p->to.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(p->to.sun_path) || vsock_listen(set->v, port, &port_ops, p)) {
		free(p);
		return -1;
	}
	memcpy(p->to.sun_path, path, strlen(path) + 1);
	LIST_INSERT_HEAD(&set->ports, p, list);
	return 0;
}

struct bridge_set *bridge_set_new(struct loop *loop, struct vsock *v, size_t max)
{
	struct bridge_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->loop = loop;
	set->v = v;
	set->max = max;
	return set;
}

void bridge_set_free(struct bridge_set *set)
{
	struct port *p;

	if (!set)
		return;
	while (!LIST_EMPTY(&set->bridges))
		bridge_end(LIST_FIRST(&set->bridges));
	while ((p = LIST_FIRST(&set->ports))) {
		LIST_REMOVE(p, list);
		vsock_unlisten(set->v, p->port);
		free(p);
	}
	free(set);
}

size_t bridge_set_count(const struct bridge_set *set)
{
	return set->n;
}
