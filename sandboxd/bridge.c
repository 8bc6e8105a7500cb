// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bridges: listeners inside the guest, each accepted stream carried to a vsock port of the host.
 *
 * Bytes are moved as they come, 64 KiB at a time in each direction, with no buffer beyond that: a side that
 * does not read stops the other. A half that ends is shut down on the other side, so that a request whose
 * end is an end of file works. Only the proxy's streams begin with a preamble, which is ours.
 */
#include "sandboxd/bridge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include <holdfast/guest.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "sandboxd/supervisor.h"

#define CONTAINERS "docker0"

enum { CHUNK = 64 * 1024, STREAMS_MAX = 2048, BACKLOG = 512, LINE_MAX_BYTES = 64, PORT_MIN = 1024 };

struct end {
	struct stream *stream;
	struct end *other;
	struct loop_fd *watch;
	int fd;
	struct buf in;		/* read here, not yet written to the other end */
	bool connecting, eof, shut;
	bool gone;		/* hung up both ways: what it sent is still delivered, nothing reaches it */
};

struct stream {
	struct guest_bridge *bridge;
	struct end a, b;	/* the guest's side, the host's side */
	bool relay;		/* OAuth: the first line of b says where a connects */
	bool dying;
};

struct listener {
	struct guest_bridge *bridge;
	unsigned port;		/* vsock port of the host */
	struct loop_fd *watch;
	int fd;
};

struct guest_bridge {
	struct guest_supervisor *v;
	struct listener listeners[8];
	size_t count;
	unsigned streams, total, refused;
	bool proxy_listening;
	bool containers;	/* the container bridge has been there */
};

static void stream_free(struct stream *s)
{
	struct end *ends[] = { &s->a, &s->b };

	for (size_t i = 0; i < 2; i++) {
		loop_fd_del(ends[i]->watch);
		if (ends[i]->fd >= 0)
			close(ends[i]->fd);
		buf_free(&ends[i]->in);
	}
	s->bridge->streams--;
	free(s);
}

/* Each end reads while its buffer has room and writes while the other's holds something. */
static void rewatch(struct end *e)
{
	uint32_t events = 0;

	if (!e->watch)
		return;
	if (e->connecting)
		events = EPOLLOUT;
	else if (!e->eof && e->in.len < CHUNK)
		events |= EPOLLIN;
	if (!e->connecting && e->other->in.len)
		events |= EPOLLOUT;
	loop_fd_mod(e->watch, events);
}

static int fill(struct end *e)
{
	uint8_t *room = buf_room(&e->in, CHUNK);
	ssize_t n = room ? recv(e->fd, room, CHUNK, MSG_DONTWAIT) : -1;

	if (n > 0)
		e->in.len += (size_t)n;
	else if (n == 0)
		e->eof = true;
	else if (errno != EAGAIN && errno != EINTR)
		return -1;
	return 0;
}

/* Writes what the other end has read, and passes its end of file on. */
static int drain(struct end *e)
{
	struct buf *from = &e->other->in;

	if (e->gone)
		buf_clear(from);
	if (e->fd < 0 || e->connecting || e->gone)
		return 0;
	while (from->len) {
		ssize_t n = send(e->fd, from->data, from->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		buf_drop(from, (size_t)n);
	}
	if (e->other->eof && !e->shut) {
		shutdown(e->fd, SHUT_WR);
		e->shut = true;
	}
	return 0;
}

/* Level-triggered, a hang-up would be reported until the other side has taken everything. */
static void hang_up(struct end *e)
{
	loop_fd_del(e->watch);
	e->watch = NULL;
	e->gone = true;
}

static int take_relay_line(struct stream *s);

static int finish_connect(struct end *e)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
		return -1;
	e->connecting = false;
	return 0;
}

static void on_end(void *user, int fd, uint32_t events)
{
	struct end *e = user;
	struct stream *s = e->stream;
	int r = 0;

	(void)fd;
	if (e->connecting)
		r = events & (EPOLLERR | EPOLLHUP) ? -1 : events & EPOLLOUT ? finish_connect(e) : 0;
	else if (events & EPOLLERR)
		r = -1;
	else if (events & (EPOLLIN | EPOLLHUP) && !e->eof && e->in.len < CHUNK)
		r = fill(e);
	if (r == 0 && s->relay && s->a.fd < 0)
		r = take_relay_line(s);
	if (r == 0)
		r = drain(&s->a) < 0 || drain(&s->b) < 0 ? -1 : 0;
	if (r == 0 && s->a.eof && s->b.eof && s->a.shut && s->b.shut)
		r = -1;
	if (r == 0 && (events & EPOLLHUP) && e->eof)
		hang_up(e);
	if (r == 0 && ((s->a.gone && !s->a.in.len) || (s->b.gone && !s->b.in.len)))
		r = -1;
	if (r < 0) {
		stream_free(s);
		return;
	}
	rewatch(&s->a);
	rewatch(&s->b);
}

static int attach(struct end *e, int fd, bool connecting)
{
	e->fd = fd;
	e->connecting = connecting;
	e->watch = loop_fd_add(e->stream->bridge->v->loop, fd, connecting ? EPOLLOUT : EPOLLIN, on_end, e, NULL);
	return e->watch ? 0 : -1;
}

static struct stream *stream_new(struct guest_bridge *b)
{
	struct stream *s = b->streams < STREAMS_MAX ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		b->refused++;
		return NULL;
	}
	s->bridge = b;
	s->a = (struct end){ .stream = s, .other = &s->b, .fd = -1 };
	s->b = (struct end){ .stream = s, .other = &s->a, .fd = -1 };
	buf_init(&s->a.in, 2 * CHUNK + HF_BRIDGE_PREAMBLE_MAX);
	buf_init(&s->b.in, 2 * CHUNK);
	b->streams++;
	b->total++;
	return s;
}

static int connect_host(unsigned port)
{
	struct sockaddr_vm host = { .svm_family = AF_VSOCK, .svm_cid = HF_HOST_CID, .svm_port = port };
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || (connect(fd, (struct sockaddr *)&host, sizeof(host)) < 0 && errno != EINPROGRESS))
		return -1;
	return steal_fd(&fd);
}

static int put_preamble(struct stream *s, const struct sockaddr_in *peer)
{
	char ip[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &peer->sin_addr, ip, sizeof(ip));
	return buf_putf(&s->a.in, HF_BRIDGE_PREAMBLE, ntohs(peer->sin_port), ip);
}

static void on_accept(void *user, int fd, uint32_t events)
{
	struct listener *l = user;
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);
	int client = accept4(fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct stream *s;
	int host;

	(void)events;
	if (client < 0)
		return;
	s = stream_new(l->bridge);
	if (!s) {
		close(client);
		return;
	}
	if (l->port == HF_PORT_PROXY && put_preamble(s, (struct sockaddr_in *)&peer) < 0) {
		close(client);
		stream_free(s);
		return;
	}
	host = l->bridge->v->connect_host ? l->bridge->v->connect_host(l->port) : connect_host(l->port);
	if (attach(&s->a, client, false) < 0 || host < 0 || attach(&s->b, host, true) < 0) {
		l->bridge->refused++;
		stream_free(s);
	}
}

/* --- OAuth callbacks: the host connects and names a port on the guest's loopback --- */

static int connect_loopback(unsigned port)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || (connect(fd, (struct sockaddr *)&local, sizeof(local)) < 0 && errno != EINPROGRESS))
		return -1;
	return steal_fd(&fd);
}

static int take_relay_line(struct stream *s)
{
	const uint8_t *end = s->b.in.len ? memchr(s->b.in.data, '\n', s->b.in.len) : NULL;
	char line[LINE_MAX_BYTES];
	unsigned port;
	char rest;
	int fd;

	if (!end)
		return s->b.in.len >= sizeof(line) || s->b.eof ? -1 : 0;
	if ((size_t)(end - s->b.in.data) >= sizeof(line))
		return -1;
	snprintf(line, sizeof(line), "%.*s", (int)(end - s->b.in.data), (const char *)s->b.in.data);
	if (sscanf(line, "HOLDFAST-RELAY 1 port=%5u%c", &port, &rest) != 1 || port < PORT_MIN || port > 65535)
		return -1;
	buf_drop(&s->b.in, (size_t)(end - s->b.in.data) + 1);
	fd = connect_loopback(port);
	return fd < 0 ? -1 : attach(&s->a, fd, true);
}

static void on_relay(void *user, int fd, uint32_t events)
{
	struct listener *l = user;
	struct sockaddr_vm peer;
	socklen_t size = sizeof(peer);
	int client = accept4(fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct stream *s;

	(void)events;
	if (client < 0)
		return;
	s = peer.svm_cid == HF_HOST_CID ? stream_new(l->bridge) : NULL;
	if (!s) {
		close(client);
		return;
	}
	s->relay = true;
	if (attach(&s->b, client, false) < 0)
		stream_free(s);
}

/* --- listeners --- */

static int add_listener(struct guest_bridge *b, int fd, unsigned port, loop_fd_fn fn)
{
	struct listener *l = &b->listeners[b->count];

	if (fd < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	*l = (struct listener){ .bridge = b, .port = port, .fd = fd };
	l->watch = loop_fd_add(b->v->loop, fd, EPOLLIN, fn, l, NULL);
	if (!l->watch)
		return -1;
	b->count++;
	return 0;
}

/* With a device only what arrives there is taken: a neighbour on another interface could send to the same
 * address (Linux answers for all its addresses everywhere). */
static int listen_tcp(struct guest_bridge *b, struct in_addr address, const char *device)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons(HF_BRIDGE_PORT), .sin_addr = address };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (device && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device)) < 0) ||
	    bind(fd, (struct sockaddr *)&local, sizeof(local)) < 0 ||
	    add_listener(b, fd, HF_PORT_PROXY, on_accept) < 0)
		return -1;
	steal_fd(&fd);
	return 0;
}

/* The address of an interface that is up. */
static int interface_address(const char *name, struct in_addr *out)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_flags = 0 };
	struct sockaddr_in address;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0 || !(request.ifr_flags & IFF_UP) ||
	    ioctl(fd, SIOCGIFADDR, &request) < 0)
		return -1;
	memcpy(&address, &request.ifr_addr, sizeof(address));
	*out = address.sin_addr;
	return 0;
}

void guest_bridge_containers(struct guest_bridge *b)
{
	struct in_addr address;

	if (!b || !b->proxy_listening || b->containers || interface_address(CONTAINERS, &address) < 0)
		return;
	/* Once: an address in use is not tried again and again. */
	b->containers = true;
	if (listen_tcp(b, address, CONTAINERS) < 0)
		guest_step_degraded(&b->v->guest->steps, "bridge", CONTAINERS ":8080", errno, NULL);
}

static int listen_relay(struct guest_bridge *b)
{
	struct sockaddr_vm any = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = HF_PORT_OAUTH_RELAY };
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0 ||
	    add_listener(b, fd, HF_PORT_OAUTH_RELAY, on_relay) < 0)
		return -1;
	steal_fd(&fd);
	return 0;
}

/* Owned by the session's user, in a directory of root's. */
static int listen_unix(struct guest_bridge *b, const char *name, unsigned port)
{
	const struct guest_supervisor *v = b->v;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = -1;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
	if (fd >= 0 && fchdir(v->guest->run_fd) == 0) {
		unlink(name);
		r = bind(fd, (struct sockaddr *)&address, sizeof(address));
		if (r == 0)
			r = chown(name, v->confine.session.uid, v->confine.session.gid) < 0 || chmod(name, 0600) < 0 ? -1 : 0;
	}
	if (chdir("/") < 0 || r < 0 || add_listener(b, fd, port, on_accept) < 0)
		return -1;
	steal_fd(&fd);
	return 0;
}

static void note(struct guest_bridge *b, const char *path, int result)
{
	if (result < 0)
		guest_step_degraded(&b->v->guest->steps, "bridge", path, errno, NULL);
}

struct guest_bridge *guest_bridge_new(struct guest_supervisor *v)
{
	struct guest_bridge *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->v = v;
	if (v->guest->spec->proxy) {
		b->proxy_listening = listen_tcp(b, (struct in_addr){ htonl(INADDR_LOOPBACK) }, NULL) == 0;
		note(b, "127.0.0.1:8080", b->proxy_listening ? 0 : -1);
	}
	note(b, "ssh-agent.sock", listen_unix(b, "ssh-agent.sock", HF_PORT_SSH_AGENT));
	note(b, "aws.sock", listen_unix(b, "aws.sock", HF_PORT_AWS));
	note(b, "token.sock", listen_unix(b, "token.sock", HF_PORT_MODEL_TOKEN));
	note(b, "token2.sock", listen_unix(b, "token2.sock", HF_PORT_SECOND_TOKEN));
	note(b, "vsock 5010", listen_relay(b));
	return b;
}

void guest_bridge_free(struct guest_bridge *b)
{
	for (size_t i = 0; b && i < b->count; i++) {
		loop_fd_del(b->listeners[i].watch);
		close(b->listeners[i].fd);
	}
	free(b);
}

json_t *guest_bridge_json(const struct guest_bridge *b)
{
	return json_pack("{s:s, s:b, s:i, s:i, s:i}", "proxy", b && b->v->guest->spec->proxy ? "on" : "off", "listening",
			 b && b->proxy_listening, "streams", b ? (int)b->streams : 0, "total", b ? (int)b->total : 0,
			 "refused", b ? (int)b->refused : 0);
}
