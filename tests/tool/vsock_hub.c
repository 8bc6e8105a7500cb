// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * For tests: one guest's vsock as unix sockets. `vsock_hub DEVICE HOST DIR`
 *
 * Serves QEMU's vhost-user-vsock device on the socket DEVICE. A client of the socket HOST writes
 * "CONNECT port\n" and is then connected to that port of the guest. A stream that the guest opens to host
 * port N is connected to the unix socket DIR/N, or refused when nobody listens there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/vm/vhost_user.h"
#include "lib/io.h"

enum { GUEST_CID = 3, CHUNK = 64 * 1024, PORTS = 24, TICK_MS = 100 };

struct pipe_end {
	struct vsock_stream *stream;
	struct loop_fd *watch;
	struct buf to_guest;
	int fd;
	bool fd_eof, said_eof, gone;
	bool full;	/* the client has not taken all that came from the guest */
};

static struct loop *loop;
static struct vhost_user *device;
static const char *port_dir;
static const struct vsock_ops ops;

static void pipe_free(struct pipe_end *p, bool close_stream)
{
	if (close_stream && p->stream)
		vsock_stream_close(p->stream);
	loop_fd_del(p->watch);
	close(p->fd);
	buf_free(&p->to_guest);
	free(p);
}

static void watch(struct pipe_end *p)
{
	loop_fd_mod(p->watch, (!p->fd_eof && p->to_guest.len < CHUNK ? EPOLLIN : 0) | (p->full ? EPOLLOUT : 0));
}

static void push(struct pipe_end *p)
{
	ssize_t n = p->to_guest.len ? vsock_stream_write(p->stream, p->to_guest.data, p->to_guest.len) : 0;

	if (n > 0)
		buf_drop(&p->to_guest, (size_t)n);
	if (n >= 0 && p->fd_eof && !p->to_guest.len && !p->said_eof) {
		p->said_eof = true;
		vsock_stream_shutdown(p->stream);
	}
	if (p->gone && (n < 0 || !p->to_guest.len))
		pipe_free(p, true);
	else if (!p->gone)
		watch(p);
}

static void on_fd(void *user, int fd, uint32_t events)
{
	struct pipe_end *p = user;
	uint8_t *room = buf_room(&p->to_guest, CHUNK);
	ssize_t n = room && !p->fd_eof ? recv(fd, room, CHUNK, MSG_DONTWAIT) : -1;

	if (n > 0)
		p->to_guest.len += (size_t)n;
	else if (n == 0)
		p->fd_eof = true;
	if (events & EPOLLERR) {
		pipe_free(p, true);
		return;
	}
	/* Hung up: what it sent goes on to the guest first. */
	if (events & EPOLLHUP && p->fd_eof && !p->gone) {
		p->gone = true;
		loop_fd_del(p->watch);
		p->watch = NULL;
	}
	if (events & EPOLLOUT) {
		p->full = false;
		vsock_stream_resume(p->stream);
	}
	push(p);
}

static void on_open(struct vsock_stream *s, void *u);

static size_t on_data(struct vsock_stream *s, void *u, const uint8_t *bytes, size_t n)
{
	struct pipe_end *p = u;
	ssize_t w = send(p->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)s;
	if (p->gone || (w < 0 && errno != EAGAIN))
		return n;
	if (w < (ssize_t)n) {
		p->full = true;
		watch(p);
	}
	return w < 0 ? 0 : (size_t)w;
}

static void on_writable(struct vsock_stream *s, void *u)
{
	(void)s;
	push(u);
}

static void on_shutdown(struct vsock_stream *s, void *u)
{
	struct pipe_end *p = u;

	(void)s;
	shutdown(p->fd, SHUT_WR);
}

static void on_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	struct pipe_end *p = u;

	(void)s;
	(void)reason;
	p->stream = NULL;
	pipe_free(p, false);
}

static struct pipe_end *pipe_new(int fd)
{
	struct pipe_end *p = calloc(1, sizeof(*p));

	p->fd = fd;
	buf_init(&p->to_guest, 4 * CHUNK);
	io_set_nonblock(fd);
	p->watch = loop_fd_add(loop, fd, 0, on_fd, p, NULL);
	return p;
}

static void on_open(struct vsock_stream *s, void *u)
{
	struct pipe_end *p = u;
	char path[256];
	int fd;

	if (p) {
		push(p);
		return;
	}
	snprintf(path, sizeof(path), "%s/%u", port_dir, vsock_stream_host_port(s));
	fd = io_unix_connect(path, SOCK_STREAM, NULL);
	if (fd < 0) {
		vsock_stream_reset(s);
		return;
	}
	p = pipe_new(fd);
	p->stream = s;
	vsock_stream_set_user(s, p);
	push(p);
}

static const struct vsock_ops ops = { on_open, on_data, on_writable, on_shutdown, on_close };

/* The line is short and sent at once by our own tests. */
static void on_host(void *user, int fd, uint32_t events)
{
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	char line[32] = "";
	size_t n = 0;
	unsigned port;
	struct pipe_end *p;

	(void)user;
	(void)events;
	while (client >= 0 && n + 1 < sizeof(line) && read(client, line + n, 1) == 1 && line[n] != '\n')
		n++;
	if (client < 0 || sscanf(line, "CONNECT %u", &port) != 1) {
		close(client);
		return;
	}
	p = pipe_new(client);
	p->stream = vsock_connect(vhost_user_vsock(device), port, &ops, p);
	if (!p->stream)
		pipe_free(p, false);
}

static void on_device(void *user, int fd, uint32_t events)
{
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	struct err e;

	(void)user;
	(void)events;
	if (client >= 0 && vhost_user_attach(device, client, &e) < 0)
		fprintf(stderr, "vsock_hub: %s\n", e.text);
}

static void on_broken(void *u, const char *why)
{
	(void)u;
	fprintf(stderr, "vsock_hub: broken: %s\n", why);
}

static void on_detached(void *u, const char *why)
{
	(void)u;
	fprintf(stderr, "vsock_hub: detached: %s\n", why);
	loop_stop(loop, 0);
}

static void on_tick(void *u)
{
	(void)u;
	vsock_tick(vhost_user_vsock(device), TICK_MS);
}

int main(int argc, char **argv)
{
	static const struct vhost_user_ops device_ops = { on_broken, on_detached };
	static const uint32_t ports[PORTS] = { 8443, 8444, 8445, 8446, 8447, 5840, 5841, 5830, 5831 };
	struct err e;
	int fd;

	if (argc != 4)
		die("usage: vsock_hub DEVICE HOST DIR");
	port_dir = argv[3];
	loop = loop_new(&e);
	device = loop ? vhost_user_new(loop, GUEST_CID, &device_ops, NULL) : NULL;
	if (!device)
		die("no device");
	for (size_t i = 0; i < PORTS && ports[i]; i++)
		vsock_listen(vhost_user_vsock(device), ports[i], &ops, NULL);
	fd = io_unix_listen(argv[1], SOCK_STREAM, &e);
	if (fd < 0 || !loop_fd_add(loop, fd, EPOLLIN, on_device, NULL, &e))
		die("%s", e.text);
	fd = io_unix_listen(argv[2], SOCK_STREAM, &e);
	if (fd < 0 || !loop_fd_add(loop, fd, EPOLLIN, on_host, NULL, &e))
		die("%s", e.text);
	loop_timer_add(loop, TICK_MS, TICK_MS, on_tick, NULL);
	return loop_run(loop, &e) < 0;
}
