/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allowed UDP and ICMP echo flows: one connected socket of the host for each.
 *
 * A connected socket takes datagrams from its peer alone, so what comes back belongs to the
 * flow. Echo uses the kernel's ping sockets, which need no privilege where ping_group_range has
 * us; elsewhere the flow ends with the kernel's error. The kernel puts an identifier of its own
 * in place of the guest's and only lets replies through that match.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "hostd/net/nat.h"

enum { UDP_IDLE_MS = 60000, ECHO_IDLE_MS = 10000, BATCH = 32 };
enum { ICMP_ECHO_REPLY_ = 0, ICMP_ECHO_ = 8, ICMP_UNREACHABLE = 3, ICMP_PORT_UNREACHABLE = 3 };

static void keep_alive(struct flow_entry *e)
{
	e->deadline_ms = loop_now_ms() +
			 (e->pub.proto == IPPROTO_UDP ? UDP_IDLE_MS : ECHO_IDLE_MS);
}

/* One datagram of the host side. Nothing of it is trusted to fit. */
static void deliver(struct switch_ctx *c, struct flow_entry *e, const uint8_t *p, size_t n)
{
	if (e->pub.proto == IPPROTO_UDP) {
		e->pub.bytes_down += n;
		switch_send_udp(c, e->pub.dst, e->pub.dport, c->rules.guest_ip, e->pub.sport, p,
				n);
	} else if (n >= ICMP_LEN && p[0] == ICMP_ECHO_REPLY_) {
		e->pub.bytes_down += n - ICMP_LEN;
		icmp_send_echo_reply(c, e->pub.dst, e->pub.sport, get_be16(p + 6), p + ICMP_LEN,
				     n - ICMP_LEN);
	}
}

/* The kernel tells by an error that the last datagram met a closed port. */
static void port_unreachable(struct switch_ctx *c, struct flow_entry *e)
{
	struct frame f;

	if (e->pub.proto == IPPROTO_UDP && flow_held_frame(c, e, &f))
		icmp_send_error(c, &f, ICMP_UNREACHABLE, ICMP_PORT_UNREACHABLE);
}

static void on_readable(void *u, int fd, uint32_t events)
{
	static uint8_t bytes[65536];
	struct flow_entry *e = u;
	struct switch_ctx *c = e->c;

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n >= 0)
			deliver(c, e, bytes, (size_t)n);
		else if (errno == ECONNREFUSED)
			port_unreachable(c, e);
		else
			break;
		keep_alive(e);
	}
	switch_settle(c);
}

void datagram_open(struct switch_ctx *c, struct flow_entry *e, struct sockaddr_in dst)
{
	bool udp = e->pub.proto == IPPROTO_UDP;
	struct frame f;

	e->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		       udp ? IPPROTO_UDP : IPPROTO_ICMP);
	if (e->fd < 0 || connect(e->fd, (const struct sockaddr *)&dst, sizeof(dst))) {
		flow_unreachable(c, e, errno);
		return;
	}
	e->watch = loop_fd_add(c->loop, e->fd, EPOLLIN, on_readable, e, NULL);
	if (!e->watch) {
		flow_unreachable(c, e, ENOMEM);
		return;
	}
	e->state = FLOW_OPEN;
	if (flow_held_frame(c, e, &f))
		datagram_input(c, e, &f);
}

/* The first datagram stays held: an error about a later one quotes it, and the guest's kernel
 * looks at the addresses and ports only. */
void datagram_input(struct switch_ctx *c, struct flow_entry *e, const struct frame *f)
{
	bool udp = e->pub.proto == IPPROTO_UDP;
	size_t off = udp ? f->payload : f->l4;
	const uint8_t *p = frame_at(f, off, f->len - off);
	uint8_t echo[FRAME_MAX];
	ssize_t sent;

	if (!p)
		return;
	if (!udp) {
		memcpy(echo, p, f->len - off);
		echo[2] = echo[3] = 0;
		p = echo;
	}
	keep_alive(e);
	sent = send(e->fd, p, f->len - off, MSG_NOSIGNAL);
	if (sent < 0 && errno == ECONNREFUSED) /* told about an earlier one; this one was not sent */
		sent = send(e->fd, p, f->len - off, MSG_NOSIGNAL), port_unreachable(c, e);
	if (sent >= 0)
		e->pub.bytes_up += f->payload_len;
	else if (errno == EHOSTUNREACH || errno == ENETUNREACH)
		icmp_send_error(c, f, ICMP_UNREACHABLE, 1);
}
