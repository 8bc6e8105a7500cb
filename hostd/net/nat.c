/* SPDX-License-Identifier: GPL-2.0-or-later */
/* TCP of allowed flows: the guest's segments to a host socket, through libslirp.
 *
 * libslirp is used for one thing, ending the guest's TCP. It opens no connection: it
 * runs restricted, knows nothing of DNS, DHCP, ICMP or UDP, and accepts nothing but ports of
 * one address, the portal, of which each flow has one to itself. So what the host connects to is
 * decided in nat_tcp_connect() and nowhere else, and neither 127.0.0.1 nor any other address
 * can be reached through libslirp.
 *
 *   guest:sport -> dst:dport   becomes   guest:sport -> PORTAL:nat_port   for libslirp
 *
 * nat_port is this flow's alone, which makes the flow's identity exact in both directions.
 * libslirp cannot be given a socket; it can be told to connect to a unix socket when the
 * guest completes the handshake. It does so inside slirp_input() of the guest's ACK and
 * tells the descriptor at once (register_poll_fd), so we know whose it is, and put the
 * flow's connected host socket in its place with dup3(). The unix socket behind it is
 * accepted and closed; it lies in a private directory and carries nothing.
 *
 * Order of a connection: allowed -> connect() on the host -> SYN to libslirp -> guest's ACK
 * -> libslirp has the socket. So a destination that refuses is refused to the guest as well.
 *
 * Nothing of libslirp is entered while it runs: what its callbacks find out (a flow is over,
 * is gone, must die) is marked and done in nat_settle().
 */
#include "hostd/net/nat.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/net/slirp_poll.h"
#include "lib/io.h"

enum { CONNECT_MS = 30000, HANDSHAKE_MS = 30000 };

/* Addresses that exist between this file and libslirp only. */
enum { INSIDE_NET = 0x0a000200, INSIDE_MASK = 0xffffff00, INSIDE_HOST = 0x0a000202,
       INSIDE_DNS = 0x0a000203, INSIDE_PORTAL = 0x0a000204, INSIDE_GUEST = 0x0a00020f };

static const uint8_t inside_mac[6] = { 0x52, 0x55, 0x0a, 0, 2, 2 };

struct nat {
	struct switch_ctx *c;
	Slirp *slirp;
	struct slirp_poll *poll;
	int portal;    /* listening unix socket */
	int dead;      /* a socket whose peer is closed */
	char path[104];
	struct flow_entry *by_port[SWITCH_FLOWS_MAX + 1];
	bool registered[SWITCH_FLOWS_MAX + 1];
	uint16_t last_port;
	size_t flows; /* that libslirp knows */
	size_t marked; /* flows that nat_settle() has work with, at least */
	struct flow_entry *current; /* whose segment libslirp is handling */
	struct frame_out up, down; /* scratch: 9 KiB are too much to clear for each segment */
	bool in_slirp;
	bool settling;
	bool closing;
};

/* ---- segments ---- */

static bool seq_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static void mark(struct nat *n, bool *flag)
{
	if (!*flag)
		n->marked++;
	*flag = true;
}

static void fix_address(uint8_t *ip, uint8_t *tcp, size_t off, struct in_addr to)
{
	uint8_t new[4];

	memcpy(new, &to.s_addr, 4);
	for (size_t i = 0; i < 4; i += 2) {
		uint16_t old = get_be16(ip + off + i), word = get_be16(new + i);

		frame_csum_fix(ip + 10, old, word);
		frame_csum_fix(tcp + 16, old, word);
	}
	memcpy(ip + off, new, 4);
}

static void fix_port(uint8_t *tcp, size_t off, uint16_t to)
{
	frame_csum_fix(tcp + 16, get_be16(tcp + off), to);
	put_be16(tcp + off, to);
}

/* What libslirp says about the flow: how much it took, how much it sent. These numbers are
 * the byte counters, since the guest cannot lie in them. */
static void track_down(struct nat *n, struct flow_entry *e, uint32_t seq, uint32_t ack,
		       uint8_t flags, size_t payload_len)
{
	uint32_t end = seq + (uint32_t)payload_len;

	if (flags & TCP_RST) {
		mark(n, &e->reset_down);
		return;
	}
	if (flags & TCP_SYN) {
		e->seen_down = true;
		e->next_down = seq + 1;
		e->ack_up = ack;
		return;
	}
	if (seq_after(end, e->next_down)) {
		e->pub.bytes_down += end - e->next_down;
		e->next_down = end;
	}
	if (flags & TCP_FIN && !e->fin_down && end == e->next_down) {
		e->fin_down = true;
		e->next_down++;
	}
	if (flags & TCP_ACK && seq_after(ack, e->ack_up)) {
		bool with_fin = e->fin_up && ack == e->fin_up_seq + 1;

		e->pub.bytes_up += ack - e->ack_up - with_fin;
		e->ack_up = ack;
		e->fin_up_acked |= with_fin;
	}
	if (e->fin_down && e->fin_up_acked)
		mark(n, &e->over);
}

/* A frame of libslirp for the guest. Returns what slirp wants: the length, always. */
static ssize_t on_packet(const void *buf, size_t len, void *u)
{
	struct nat *n = u;
	struct frame f = { .data = buf, .len = len };
	const uint8_t *ip = frame_at(&f, ETH_LEN, IP_LEN);
	const uint8_t *tcp = frame_at(&f, ETH_LEN + IP_LEN, TCP_LEN);
	size_t total, header_len;
	struct frame_out *o = &n->down;
	struct flow_entry *e;
	uint8_t *out;

	if (!ip || !tcp || get_be16(f.data + 12) != ETHERTYPE_IPV4 || ip[0] != 0x45 ||
	    ip[9] != IPPROTO_TCP)
		return (ssize_t)len;
	total = get_be16(ip + 2);
	header_len = (size_t)(tcp[12] >> 4) * 4;
	if (total > len - ETH_LEN || total < IP_LEN + header_len || header_len < TCP_LEN ||
	    total > n->c->rules.mtu)
		return (ssize_t)len;
	e = get_be16(tcp) <= SWITCH_FLOWS_MAX ? n->by_port[get_be16(tcp)] : NULL;
	if (!e || e->killed)
		return (ssize_t)len;
	/* Before the host's socket is in place nothing but the handshake may come from there:
	 * libslirp would be making something up (its own error text). */
	if (e->state == FLOW_HANDSHAKE && e->slirp_fd < 0 &&
	    (total > IP_LEN + header_len || tcp[13] & TCP_FIN)) {
		mark(n, &e->broken);
		return (ssize_t)len;
	}
	track_down(n, e, get_be32(tcp + 4), get_be32(tcp + 8), tcp[13] & 0x3f,
		   total - IP_LEN - header_len);
	frame_out_eth(o, n->c->rules.guest_mac, n->c->rules.our_mac, ETHERTYPE_IPV4);
	frame_out_bytes(o, ip, total);
	out = o->b + ETH_LEN;
	fix_address(out, out + IP_LEN, 12, e->pub.dst);
	fix_address(out, out + IP_LEN, 16, n->c->rules.guest_ip);
	fix_port(out + IP_LEN, 0, e->pub.dport);
	switch_send(n->c, o->b, o->len);
	return (ssize_t)len;
}

static void slirp_frame(struct nat *n, struct flow_entry *e, const uint8_t *frame, size_t len)
{
	n->current = e;
	n->in_slirp = true;
	slirp_input(n->slirp, frame, (int)len);
	n->in_slirp = false;
	n->current = NULL;
}

static void input(struct nat *n, struct flow_entry *e, const struct frame *f)
{
	const uint8_t *bytes = frame_at(f, 0, f->len);
	struct in_addr portal = { htonl(INSIDE_PORTAL) }, guest = { htonl(INSIDE_GUEST) };
	uint8_t *ip = n->up.b + ETH_LEN, *tcp = ip + IP_LEN;

	n->up.len = 0;
	frame_out_bytes(&n->up, bytes, f->len);
	if (n->up.len < ETH_LEN + IP_LEN + TCP_LEN)
		return;
	fix_address(ip, tcp, 12, guest);
	fix_address(ip, tcp, 16, portal);
	fix_port(tcp, 2, e->nat_port);
	slirp_frame(n, e, n->up.b, n->up.len);
}

void nat_tcp_input(struct switch_ctx *c, struct flow_entry *e, const struct frame *f)
{
	if (e->killed) {
		refuse_tcp_reset(c, f);
		return;
	}
	if (f->flags & TCP_FIN) {
		e->fin_up = true;
		e->fin_up_seq = f->seq + (uint32_t)f->payload_len;
	}
	e->reset_up |= !!(f->flags & TCP_RST);
	input(c->nat, e, f);
	/* An embryonic socket of libslirp goes without a word. */
	if (e->reset_up && e->state == FLOW_HANDSHAKE)
		nat_tcp_kill(c, e, false);
}

/* ---- descriptors ---- */

/* libslirp has just connected this descriptor to the portal, for the flow whose segment it
 * is handling. */
static void on_register(int fd, void *u)
{
	struct nat *n = u;
	struct flow_entry *e = n->current;
	int other = accept4(n->portal, NULL, NULL, SOCK_CLOEXEC);

	if (other >= 0)
		close(other);
	if (!e || e->state != FLOW_HANDSHAKE || e->fd < 0 || dup3(e->fd, fd, O_CLOEXEC) < 0) {
		if (e)
			mark(n, &e->broken);
		return;
	}
	close(e->fd);
	e->fd = -1;
	e->slirp_fd = fd;
	e->state = FLOW_OPEN;
	e->deadline_ms = 0;
	free(e->held);
	e->held = NULL;
}

/* libslirp is about to close the descriptor: the last that is heard of a socket. */
static void on_unregister(int fd, void *u)
{
	struct nat *n = u;

	if (fd < 0 || n->closing)
		return;
	slirp_poll_forget(n->poll, fd);
	for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
		struct flow_entry *e = flow_at(n->c, i);

		if (e && e->pub.proto == IPPROTO_TCP && e->slirp_fd == fd) {
			e->slirp_fd = -1;
			mark(n, &e->slirp_gone);
			return;
		}
	}
}

/* ---- flows ---- */

static void release(struct nat *n, struct flow_entry *e)
{
	n->by_port[e->nat_port] = NULL;
	n->flows--;
	flow_free(n->c, e);
}

/* Lets libslirp drop its socket by a reset that the guest might have sent. */
static void reset_inside(struct nat *n, struct flow_entry *e)
{
	struct in_addr guest = { htonl(INSIDE_GUEST) }, portal = { htonl(INSIDE_PORTAL) };
	bool had_socket = e->slirp_fd >= 0;
	struct frame_out o;
	uint8_t *h;

	frame_out_eth(&o, inside_mac, n->c->rules.guest_mac, ETHERTYPE_IPV4);
	frame_out_ip(&o, guest, portal, IPPROTO_TCP, TCP_LEN, 0, 0);
	h = frame_out_room(&o, TCP_LEN);
	put_be16(h, e->pub.sport);
	put_be16(h + 2, e->nat_port);
	put_be32(h + 4, e->seen_down ? e->ack_up : e->isn_up + 1);
	put_be32(h + 8, e->next_down);
	h[12] = TCP_LEN / 4 << 4;
	h[13] = TCP_RST | TCP_ACK;
	put_be16(h + 16, frame_csum_end(frame_csum_add(
				 frame_csum_pseudo(guest, portal, IPPROTO_TCP, TCP_LEN), h,
				 TCP_LEN)));
	slirp_frame(n, e, o.b, o.len);
	/* An embryonic socket has no descriptor and tells nothing when it goes. */
	if (!had_socket)
		e->slirp_gone = true;
}

static void reset_guest(struct switch_ctx *c, const struct flow_entry *e)
{
	struct frame as_if = {
		.src = c->rules.guest_ip,
		.dst = e->pub.dst,
		.proto = IPPROTO_TCP,
		.sport = e->pub.sport,
		.dport = e->pub.dport,
		.flags = TCP_ACK,
		.ack = e->next_down,
	};
	struct frame held;

	if (e->seen_down)
		refuse_tcp_reset(c, &as_if);
	else if (flow_held_frame(c, e, &held))
		refuse_tcp_reset(c, &held);
}

/* The host's connection is reset here and now, whatever libslirp does next: its descriptor
 * becomes a socket whose peer is gone. */
void nat_tcp_kill(struct switch_ctx *c, struct flow_entry *e, bool tell_guest)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int fd = e->slirp_fd >= 0 ? e->slirp_fd : e->fd;
	struct nat *n = c->nat;

	if (e->killed)
		return;
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (e->slirp_fd >= 0) {
		slirp_poll_forget(n->poll, e->slirp_fd);
		dup3(n->dead, e->slirp_fd, O_CLOEXEC);
	} else if (e->fd >= 0) {
		close(e->fd);
		e->fd = -1;
	}
	if (tell_guest)
		reset_guest(c, e);
	mark(n, &e->killed);
}

/* A port of the portal that no flow has. Each is registered once and stays: libslirp 4.7 forgets to
 * free the path when one is removed, which a guest could do without end. */
static bool alloc_port(struct nat *n, struct flow_entry *e)
{
	struct in_addr portal = { htonl(INSIDE_PORTAL) };
	uint16_t port = n->last_port;

	do {
		port = port == SWITCH_FLOWS_MAX ? 1 : (uint16_t)(port + 1);
		if (port == n->last_port)
			return false;
	} while (n->by_port[port]);
	if (!n->registered[port] && slirp_add_unix(n->slirp, n->path, &portal, port))
		return false;
	n->registered[port] = true;
	n->last_port = port;
	n->by_port[port] = e;
	n->flows++;
	e->nat_port = port;
	return true;
}

/* The host's side stands: now the guest's SYN may be answered. */
void nat_tcp_adopt(struct switch_ctx *c, struct flow_entry *e, int fd)
{
	struct nat *n = c->nat;
	struct frame f;

	e->fd = fd;
	e->state = FLOW_HANDSHAKE;
	e->deadline_ms = loop_now_ms() + HANDSHAKE_MS;
	if (!flow_held_frame(c, e, &f) || !alloc_port(n, e)) {
		e->state = FLOW_CONNECTING;
		flow_unreachable(c, e, ENOBUFS);
		return;
	}
	input(n, e, &f);
	nat_settle(c);
}

static void on_connected(void *u, int fd, uint32_t events)
{
	struct flow_entry *e = u;
	struct switch_ctx *c = e->c;
	int err_no = 0;
	socklen_t len = sizeof(err_no);

	(void)events;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err_no, &len))
		err_no = errno;
	loop_fd_del(e->watch);
	e->watch = NULL;
	if (err_no)
		flow_unreachable(c, e, err_no);
	else
		nat_tcp_adopt(c, e, fd);
	switch_settle(c);
}

void nat_tcp_connect(struct switch_ctx *c, struct flow_entry *e, struct sockaddr_in dst)
{
	const int on = 1;

	e->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (e->fd < 0) {
		flow_unreachable(c, e, errno);
		return;
	}
	/* The guest's own TCP has decided when to send; libslirp expects urgent data in line. */
	setsockopt(e->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(e->fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
	if (connect(e->fd, (const struct sockaddr *)&dst, sizeof(dst)) && errno != EINPROGRESS) {
		flow_unreachable(c, e, errno);
		return;
	}
	e->deadline_ms = loop_now_ms() + CONNECT_MS;
	e->watch = loop_fd_add(c->loop, e->fd, EPOLLOUT, on_connected, e, NULL);
	if (!e->watch)
		flow_unreachable(c, e, ENOMEM);
}

/* Does what was marked while libslirp was running. */
static void settle_flow(struct nat *n, struct flow_entry *e)
{
	struct switch_ctx *c = n->c;

	if (e->broken && !e->killed)
		flow_close(c, e, "internal error: no socket from the NAT");
	if (e->killed && !e->slirp_gone && !e->reset_sent) {
		e->reset_sent = true;
		reset_inside(n, e);
	}
	if (!e->slirp_gone && !e->over && !e->reset_down)
		return;
	e->state = FLOW_CLOSING;
	flow_ended(c, e, e->over	? "closed" :
			 e->reset_up	? "reset by the guest" :
			 e->reset_down	? "reset by the destination" :
					  "closed");
	e->over = e->reset_down = false;
	if (e->slirp_gone)
		release(n, e);
}

void nat_settle(struct switch_ctx *c)
{
	struct nat *n = c->nat;

	if (n->settling || n->in_slirp)
		return;
	n->settling = true;
	while (n->marked) {
		n->marked = 0;
		for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
			struct flow_entry *e = flow_at(c, i);

			if (e && e->nat_port)
				settle_flow(n, e);
		}
	}
	slirp_poll_arm(n->poll, n->slirp, n->flows > 0);
	n->settling = false;
}

static void on_ready(void *u)
{
	struct nat *n = u;

	n->in_slirp = true;
	slirp_poll_dispatch(n->poll, n->slirp);
	n->in_slirp = false;
	switch_settle(n->c);
}

/* ---- life ---- */

static int64_t on_clock(void *u)
{
	(void)u;
	return (int64_t)loop_now_ns();
}

static void on_guest_error(const char *msg, void *u)
{
	(void)msg;
	(void)u;
}

/* Timers are for router advertisements, which are off. */
static void *on_timer_new(SlirpTimerCb cb, void *cb_u, void *u)
{
	(void)cb;
	(void)cb_u;
	return u;
}

static void on_timer_free(void *timer, void *u)
{
	(void)timer;
	(void)u;
}

static void on_timer_mod(void *timer, int64_t expire_ms, void *u)
{
	(void)timer;
	(void)expire_ms;
	(void)u;
}

static void on_notify(void *u)
{
	(void)u; /* every entry ends in nat_settle() */
}

static const SlirpCb callbacks = {
	.send_packet = on_packet,
	.guest_error = on_guest_error,
	.clock_get_ns = on_clock,
	.timer_new = on_timer_new,
	.timer_free = on_timer_free,
	.timer_mod = on_timer_mod,
	.register_poll_fd = on_register,
	.unregister_poll_fd = on_unregister,
	.notify = on_notify,
};

static int open_sockets(struct nat *n, struct err *err)
{
	int sv[2];

	if (snprintf(n->path, sizeof(n->path), "%s/nat.sock", n->c->run_dir) >=
	    (int)sizeof(n->path))
		return err_set(err, "%s: too long for a socket", n->c->run_dir);
	n->portal = io_unix_listen(n->path, SOCK_STREAM, err);
	if (n->portal < 0)
		return -1;
	io_set_nonblock(n->portal);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv))
		return err_errno(err, "socketpair");
	n->dead = sv[0];
	close(sv[1]);
	n->poll = slirp_poll_new(n->c, on_ready, n, err);
	return n->poll ? 0 : -1;
}

/* libslirp sends to the guest's MAC only after it has heard of it: a gratuitous ARP. */
static void introduce_guest(struct nat *n)
{
	static const uint8_t head[8] = { 0, 1, 8, 0, 6, 4, 0, 1 };
	struct in_addr guest = { htonl(INSIDE_GUEST) };
	struct frame_out o;
	uint8_t *a;

	frame_out_eth(&o, inside_mac, n->c->rules.guest_mac, ETHERTYPE_ARP4);
	a = frame_out_room(&o, ARP_LEN);
	memcpy(a, head, 8);
	memcpy(a + 8, n->c->rules.guest_mac, 6);
	memcpy(a + 14, &guest, 4);
	memcpy(a + 24, &guest, 4);
	slirp_frame(n, NULL, o.b, o.len);
}

int nat_new(struct switch_ctx *c, struct err *err)
{
	SlirpConfig cfg = {
		.version = 4,
		.restricted = 1,
		.in_enabled = true,
		.vnetwork.s_addr = htonl(INSIDE_NET),
		.vnetmask.s_addr = htonl(INSIDE_MASK),
		.vhost.s_addr = htonl(INSIDE_HOST),
		.vnameserver.s_addr = htonl(INSIDE_DNS),
		.vdhcp_start.s_addr = htonl(INSIDE_GUEST),
		.if_mtu = c->rules.mtu,
		.if_mru = c->rules.mtu,
		.disable_host_loopback = true,
		.disable_dns = true,
		.disable_dhcp = true,
	};
	struct nat *n = calloc(1, sizeof(*n));

	if (!n)
		return err_set(err, "no memory for the NAT");
	n->c = c;
	n->portal = n->dead = -1;
	c->nat = n;
	if (open_sockets(n, err))
		return -1;
	n->slirp = slirp_new(&cfg, &callbacks, n);
	if (!n->slirp)
		return err_set(err, "libslirp refuses its configuration");
	introduce_guest(n);
	return 0;
}

/* Before the flow table goes: it closes the sockets of the flows. Nothing is told. */
void nat_free(struct switch_ctx *c)
{
	struct nat *n = c->nat;

	if (!n)
		return;
	n->closing = true;
	if (n->slirp)
		slirp_cleanup(n->slirp);
	slirp_poll_free(n->poll);
	if (n->dead >= 0)
		close(n->dead);
	if (n->portal >= 0) {
		close(n->portal);
		unlink(n->path);
	}
	free(n);
	c->nat = NULL;
}
