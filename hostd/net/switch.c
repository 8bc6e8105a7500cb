/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The switch: frames from and to QEMU, and who gets which frame.
 *
 * Limits: one guest port. A frame is at most the MTU and 14 bytes; QEMU's length field may say
 * up to LINK_FRAME_MAX (its own bound), anything above means that the stream is out of step, and
 * the link is dropped. Towards the guest OUT_MAX bytes are queued; from OUT_HIGH on nothing more
 * is read from the outside (switch_congested), and what does not fit is lost as on any wire.
 *
 * Every frame passes frame_check() before anything here looks at it. Order for what is left: ARP;
 * DHCP and DNS of the gateway; ICMP; and the rest are flows.
 */
#include "hostd/net/switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/net/dns.h"
#include "hostd/net/flow.h"
#include "hostd/net/name.h"
#include "hostd/net/nat.h"
#include "lib/io.h"

enum {
	LINK_FRAME_MAX = 4096 + 65536, /* QEMU's NET_BUFSIZE */
	IN_MAX = 4 + LINK_FRAME_MAX + 65536,
	OUT_MAX = 1 << 20,
	OUT_HIGH = OUT_MAX / 4,
	READS_PER_TURN = 4,
	TICK_MS = 250,
	IP_MORE_FRAGMENTS = 0x2000,
};

static const uint8_t gateway_mac[6] = { 0x02, 0x68, 0x66, 0x00, 0x00, 0x01 };

struct link {
	int fd; /* -1: no guest */
	struct loop_fd *watch;
	uint8_t in[IN_MAX];
	size_t in_len;
	uint8_t out[OUT_MAX];
	size_t out_head;
	size_t out_tail;
};

void switch_drop(struct switch_ctx *c, enum switch_drop why)
{
	c->stats.drops[why]++;
}

const char *switch_drop_name(enum switch_drop why)
{
	static const char *const names[DROP_MAX] = {
		[DROP_SHORT] = "short",
		[DROP_OVERSIZE] = "oversize",
		[DROP_SOURCE_MAC] = "source_mac",
		[DROP_SOURCE_IP] = "source_ip",
		[DROP_DEST_MAC] = "dest_mac",
		[DROP_ETHERTYPE] = "ethertype",
		[DROP_VLAN] = "vlan",
		[DROP_IPV6] = "ipv6",
		[DROP_IP_OPTIONS] = "ip_options",
		[DROP_FRAGMENT] = "fragment",
		[DROP_CHECKSUM] = "checksum",
		[DROP_PROTOCOL] = "protocol",
		[DROP_ARP] = "arp",
		[DROP_DHCP] = "dhcp",
		[DROP_ICMP] = "icmp",
		[DROP_TCP_FLAGS] = "tcp_flags",
		[DROP_DNS] = "dns",
		[DROP_BACKLOG] = "backlog",
	};

	return (unsigned)why < DROP_MAX ? names[why] : "unknown";
}

/* ---- to the guest ---- */

bool switch_congested(const struct switch_ctx *c)
{
	return c->link->out_tail - c->link->out_head > OUT_HIGH;
}

void switch_send(struct switch_ctx *c, const uint8_t *frame, size_t len)
{
	struct link *l = c->link;

	if (l->fd < 0)
		return;
	if (OUT_MAX - l->out_tail < len + 4 && l->out_head) {
		memmove(l->out, l->out + l->out_head, l->out_tail - l->out_head);
		l->out_tail -= l->out_head;
		l->out_head = 0;
	}
	if (OUT_MAX - l->out_tail < len + 4) {
		switch_drop(c, DROP_BACKLOG);
		return;
	}
	put_be32(l->out + l->out_tail, (uint32_t)len);
	memcpy(l->out + l->out_tail + 4, frame, len);
	l->out_tail += len + 4;
	c->stats.frames_out++;
	c->stats.frame_bytes_out += len;
}

static void link_lost(struct switch_ctx *c, const char *why)
{
	switch_detach(c);
	if (c->ops.link_down)
		c->ops.link_down(c->u, why);
}

static void flush(struct switch_ctx *c)
{
	struct link *l = c->link;

	while (l->fd >= 0 && l->out_head < l->out_tail) {
		ssize_t n = send(l->fd, l->out + l->out_head, l->out_tail - l->out_head,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			link_lost(c, strerror(errno));
			return;
		}
		if (n < 0)
			break;
		l->out_head += (size_t)n;
	}
	if (l->out_head == l->out_tail)
		l->out_head = l->out_tail = 0;
	if (l->watch)
		loop_fd_mod(l->watch, l->out_tail ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void switch_settle(struct switch_ctx *c)
{
	nat_settle(c);
	flush(c);
}

static void out_ip(struct switch_ctx *c, struct frame_out *o, struct in_addr src,
		   struct in_addr dst, uint8_t proto, size_t l4_len, uint16_t id, uint16_t frag)
{
	frame_out_eth(o, c->rules.guest_mac, c->rules.our_mac, ETHERTYPE_IPV4);
	frame_out_ip(o, src, dst, proto, l4_len, id, frag);
}

void switch_out_ip(struct switch_ctx *c, struct frame_out *o, struct in_addr src, uint8_t proto,
		   size_t l4_len)
{
	out_ip(c, o, src, c->rules.guest_ip, proto, l4_len, 0, 0);
}

void switch_send_udp(struct switch_ctx *c, struct in_addr src, uint16_t sport, struct in_addr dst,
		     uint16_t dport, const uint8_t *payload, size_t n)
{
	size_t piece_max = (c->rules.mtu - IP_LEN) & ~(size_t)7, l4_len = UDP_LEN + n;
	uint8_t h[UDP_LEN] = { 0 };
	struct frame_out o;
	uint16_t id = 0;
	uint64_t sum;

	if (l4_len > 65535 - IP_LEN)
		return;
	put_be16(h, sport);
	put_be16(h + 2, dport);
	put_be16(h + 4, (uint16_t)l4_len);
	sum = frame_csum_add(frame_csum_pseudo(src, dst, IPPROTO_UDP, l4_len), h, UDP_LEN);
	put_be16(h + 6, frame_csum_end(frame_csum_add(sum, payload, n)));
	if (get_be16(h + 6) == 0)
		put_be16(h + 6, 0xffff);
	if (IP_LEN + l4_len > c->rules.mtu)
		id = ++c->ip_id;
	for (size_t off = 0; off < l4_len;) {
		size_t head = off ? 0 : UDP_LEN, piece = l4_len - off;
		uint16_t frag = (uint16_t)(off / 8);

		if (id && piece > piece_max) {
			piece = piece_max;
			frag |= IP_MORE_FRAGMENTS;
		}
		out_ip(c, &o, src, dst, IPPROTO_UDP, piece, id, frag);
		frame_out_bytes(&o, h, head);
		frame_out_bytes(&o, payload + (off ? off - UDP_LEN : 0), piece - head);
		switch_send(c, o.b, o.len);
		off += piece;
	}
}

/* ---- from the guest ---- */

static void udp_input(struct switch_ctx *c, const struct frame *f)
{
	bool to_us = f->broadcast || f->dst.s_addr == c->rules.gateway.s_addr;

	if (to_us && f->dport == 67) {
		if (f->sport == 68)
			dhcp_input(c, f);
		else
			switch_drop(c, DROP_DHCP);
	} else if (f->sport == 67 || f->dport == 68) {
		switch_drop(c, DROP_DHCP); /* only a server sends these */
	} else if (to_us && f->dport == 53) {
		dns_input(c, f);
	} else {
		flow_input(c, f);
	}
}

static void frame_input(struct switch_ctx *c, const uint8_t *data, size_t len)
{
	enum switch_drop why;
	struct frame f;

	c->stats.frames_in++;
	c->stats.frame_bytes_in += len;
	if (!frame_check(&f, &c->rules, data, len, &why)) {
		switch_drop(c, why);
		if (why == DROP_PROTOCOL)
			refuse_frame(c, &f);
		return;
	}
	if (f.ethertype == ETHERTYPE_ARP4)
		arp_input(c, &f);
	else if (f.proto == IPPROTO_UDP)
		udp_input(c, &f);
	else if (f.proto == IPPROTO_ICMP)
		icmp_input(c, &f);
	else
		flow_input(c, &f);
}

/* Handles the whole frames of the buffer. False: the stream is out of step. */
static bool take_frames(struct switch_ctx *c)
{
	struct link *l = c->link;
	size_t off = 0;

	while (l->in_len - off >= 4) {
		size_t len = get_be32(l->in + off);

		if (len > LINK_FRAME_MAX)
			return false;
		if (l->in_len - off - 4 < len)
			break;
		frame_input(c, l->in + off + 4, len);
		if (l->fd < 0)
			return true; /* a callback detached us */
		off += 4 + len;
	}
	memmove(l->in, l->in + off, l->in_len - off);
	l->in_len -= off;
	return true;
}

static void read_link(struct switch_ctx *c)
{
	struct link *l = c->link;

	for (int i = 0; i < READS_PER_TURN && l->fd >= 0; i++) {
		size_t room = sizeof(l->in) - l->in_len;
		ssize_t n = recv(l->fd, l->in + l->in_len, room, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			link_lost(c, n ? strerror(errno) : "QEMU closed the link");
			return;
		}
		l->in_len += (size_t)n;
		if (!take_frames(c)) {
			link_lost(c, "broken frame length from QEMU");
			return;
		}
		if ((size_t)n < room)
			return;
	}
}

static void on_link(void *u, int fd, uint32_t events)
{
	struct switch_ctx *c = u;

	(void)fd;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		read_link(c);
	switch_settle(c);
	if (events & EPOLLOUT)
		switch_settle(c); /* the backlog is smaller: sockets may be read again */
}

int switch_attach(struct switch_ctx *c, int fd, struct err *err)
{
	struct link *l = c->link;
	struct loop_fd *watch;

	if (io_set_nonblock(fd))
		return err_errno(err, "make the link non-blocking");
	watch = loop_fd_add(c->loop, fd, EPOLLIN, on_link, c, err);
	if (!watch)
		return -1;
	switch_detach(c);
	l->fd = fd;
	l->watch = watch;
	return 0;
}

void switch_detach(struct switch_ctx *c)
{
	struct link *l = c->link;

	if (l->fd < 0)
		return;
	loop_fd_del(l->watch);
	close(l->fd);
	l->fd = -1;
	l->watch = NULL;
	l->in_len = l->out_head = l->out_tail = 0;
}

/* ---- life ---- */

static void on_tick(void *u)
{
	struct switch_ctx *c = u;
	uint64_t now_ms = loop_now_ms();

	ask_tick(c, now_ms);
	flow_tick(c, now_ms);
	dns_tick(c, now_ms);
	switch_settle(c);
}

static int check_config(const struct switch_config *cfg, struct err *err)
{
	uint32_t guest = ntohl(cfg->guest_ip.s_addr), gateway = ntohl(cfg->gateway.s_addr);
	unsigned mtu = cfg->mtu ? cfg->mtu : SWITCH_MTU_DEFAULT;
	uint32_t mask;

	if (cfg->prefix_len < 8 || cfg->prefix_len > 30)
		return err_set(err, "prefix length %u: must be 8 to 30", cfg->prefix_len);
	mask = ~(uint32_t)0 << (32 - cfg->prefix_len);
	if ((guest ^ gateway) & mask || guest == gateway || !(guest & ~mask) ||
	    !(~guest & ~mask) || !(gateway & ~mask) || !(~gateway & ~mask))
		return err_set(err, "guest and gateway must be two hosts of one network");
	if (mtu < SWITCH_MTU_MIN || mtu > SWITCH_MTU_MAX)
		return err_set(err, "MTU %u: must be %d to %d", mtu, SWITCH_MTU_MIN,
			       SWITCH_MTU_MAX);
	if (cfg->guest_mac[0] & 1 || !memcmp(cfg->guest_mac, gateway_mac, 6))
		return err_set(err, "the guest's MAC is a group address or the gateway's");
	if (cfg->nameserver_n > SWITCH_NAMESERVERS_MAX)
		return err_set(err, "%zu name servers: at most %d", cfg->nameserver_n,
			       SWITCH_NAMESERVERS_MAX);
	if (!cfg->run_dir || strlen(cfg->run_dir) > SWITCH_RUN_DIR_MAX)
		return err_set(err, "run_dir is missing or longer than %d bytes",
			       SWITCH_RUN_DIR_MAX);
	if (cfg->hostname && strlen(cfg->hostname) > 63)
		return err_set(err, "host name %s: longer than 63 bytes", cfg->hostname);
	return 0;
}

static int start_parts(struct switch_ctx *c, const struct switch_config *cfg, struct err *err)
{
	c->link = calloc(1, sizeof(*c->link));
	if (!c->link)
		return err_set(err, "no memory for the switch");
	c->link->fd = -1;
	if (flow_table_new(c) || name_table_new(c) || dns_new(c))
		return err_set(err, "no memory for the switch");
	if (resolver_new(c, cfg, err) || nat_new(c, err))
		return -1;
	c->tick = loop_timer_add(c->loop, TICK_MS, TICK_MS, on_tick, c);
	return c->tick ? 0 : err_set(err, "no memory for the switch");
}

struct switch_ctx *switch_new(struct loop *loop, const struct switch_config *cfg,
			      const struct switch_ops *ops, void *u, struct err *err)
{
	struct switch_ctx *c;

	if (check_config(cfg, err))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		err_set(err, "no memory for the switch");
		return NULL;
	}
	c->loop = loop;
	c->ops = *ops;
	c->u = u;
	memcpy(c->rules.guest_mac, cfg->guest_mac, 6);
	memcpy(c->rules.our_mac, gateway_mac, 6);
	c->rules.guest_ip = cfg->guest_ip;
	c->rules.gateway = cfg->gateway;
	c->rules.mtu = cfg->mtu ? cfg->mtu : SWITCH_MTU_DEFAULT;
	c->netmask.s_addr = htonl(~(uint32_t)0 << (32 - cfg->prefix_len));
	strncpy(c->run_dir, cfg->run_dir, sizeof(c->run_dir) - 1);
	if (cfg->hostname)
		strncpy(c->hostname, cfg->hostname, sizeof(c->hostname) - 1);
	if (start_parts(c, cfg, err)) {
		switch_free(c);
		return NULL;
	}
	return c;
}

void switch_free(struct switch_ctx *c)
{
	if (!c)
		return;
	loop_timer_del(c->tick);
	if (c->link)
		switch_detach(c);
	nat_free(c);
	flow_table_free(c);
	resolver_free(c);
	dns_free(c);
	name_table_free(c);
	free(c->link);
	free(c);
}

static void add_open(void *u, const struct flow *f)
{
	struct switch_stats *s = u;

	s->flows_open++;
	s->bytes_up += f->bytes_up;
	s->bytes_down += f->bytes_down;
}

void switch_stats_get(const struct switch_ctx *c, struct switch_stats *out)
{
	*out = c->stats;
	out->cut = c->cut;
	out->asks_open = c->asks_open;
	switch_flows_each(c, add_open, out);
}
