/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The switch frame by frame: what is let in, what is answered, what is dropped and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/net/dns.h"
#include "hostd/net/flow.h"
#include "hostd/net/frame.h"
#include "hostd/net/name.h"
#include "hostd/net/switch.h"
#include "lib/loop.h"

static const uint8_t guest_mac[6] = { 2, 0, 0, 0, 0, 2 };
static const uint8_t gateway_mac[6] = { 0x02, 0x68, 0x66, 0x00, 0x00, 0x01 };

struct bench {
	struct loop *loop;
	struct switch_ctx *sw;
	int link; /* our end: what QEMU has */
	char dir[32];
	unsigned flow_asks, name_asks, denied, down;
	uint64_t last_id;
	struct flow last;
	bool answer; /* deny at once, else leave open */
};

static void on_flow(void *u, uint64_t id, const struct flow *f)
{
	struct bench *b = u;

	b->flow_asks++;
	b->last_id = id;
	b->last = *f;
	if (b->answer)
		switch_flow_verdict(b->sw, id, FLOW_DENY, "", "no rule");
}

static void on_name(void *u, uint64_t id, const char *name, uint16_t qtype)
{
	struct bench *b = u;

	(void)name;
	(void)qtype;
	b->name_asks++;
	b->last_id = id;
	if (b->answer)
		switch_name_verdict(b->sw, id, false, "");
}

static void on_dest(void *u, uint64_t id, const char *name, const struct in_addr *a, size_t n)
{
	(void)u;
	(void)id;
	(void)name;
	(void)a;
	(void)n;
	fail();
}

static void on_event(void *u, const struct flow *f, enum flow_what what)
{
	struct bench *b = u;

	b->denied += what == FLOW_DENIED;
	b->last = *f;
}

static void on_down(void *u, const char *why)
{
	(void)why;
	((struct bench *)u)->down++;
}

static const struct switch_ops ops = {
	.flow_ask = on_flow,
	.name_ask = on_name,
	.dest_ask = on_dest,
	.flow_event = on_event,
	.link_down = on_down,
};

static struct switch_config config(const char *dir)
{
	struct switch_config cfg = { .prefix_len = 24, .hostname = "work", .run_dir = dir };

	memcpy(cfg.guest_mac, guest_mac, 6);
	inet_pton(AF_INET, "192.168.64.2", &cfg.guest_ip);
	inet_pton(AF_INET, "192.168.64.1", &cfg.gateway);
	return cfg;
}

static int setup(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct switch_config cfg;
	struct err err = { "" };
	int sv[2];

	strcpy(b->dir, "/tmp/switch-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	cfg = config(b->dir);
	b->loop = loop_new(&err);
	b->sw = switch_new(b->loop, &cfg, &ops, b, &err);
	assert_string_equal(err.text, "");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(switch_attach(b->sw, sv[0], &err), 0);
	b->link = sv[1];
	b->answer = true;
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	switch_free(b->sw);
	loop_free(b->loop);
	close(b->link);
	assert_int_equal(rmdir(b->dir), 0); /* the socket is gone */
	free(b);
	return 0;
}

/* ---- making frames ---- */

struct made {
	struct frame_out o;
};

static struct in_addr ip(const char *text)
{
	struct in_addr a;

	assert_int_equal(inet_pton(AF_INET, text, &a), 1);
	return a;
}

static void eth(struct made *m, uint16_t type)
{
	frame_out_eth(&m->o, gateway_mac, guest_mac, type);
}

static void checksum(struct made *m, size_t at)
{
	uint8_t *h = m->o.b + ETH_LEN;
	struct in_addr src, dst;
	size_t n = m->o.len - ETH_LEN - IP_LEN;

	memcpy(&src, h + 12, 4);
	memcpy(&dst, h + 16, 4);
	put_be16(h + IP_LEN + at, 0);
	put_be16(h + IP_LEN + at,
		 frame_csum_end(frame_csum_add(frame_csum_pseudo(src, dst, h[9], n), h + IP_LEN, n)));
}

static void ip_checksum(struct made *m)
{
	uint8_t *h = m->o.b + ETH_LEN;

	put_be16(h + 10, 0);
	put_be16(h + 10, frame_csum_end(frame_csum_add(0, h, IP_LEN)));
}

static void udp(struct made *m, const char *src, uint16_t sport, const char *dst, uint16_t dport,
		const void *p, size_t n)
{
	uint8_t *h;

	eth(m, ETHERTYPE_IPV4);
	frame_out_ip(&m->o, ip(src), ip(dst), IPPROTO_UDP, UDP_LEN + n, 1, 0);
	h = frame_out_room(&m->o, UDP_LEN);
	put_be16(h, sport);
	put_be16(h + 2, dport);
	put_be16(h + 4, (uint16_t)(UDP_LEN + n));
	frame_out_bytes(&m->o, p, n);
	checksum(m, 6);
}

static void tcp(struct made *m, const char *dst, uint16_t sport, uint16_t dport, uint8_t flags)
{
	uint8_t *h;

	eth(m, ETHERTYPE_IPV4);
	frame_out_ip(&m->o, ip("192.168.64.2"), ip(dst), IPPROTO_TCP, TCP_LEN, 1, 0);
	h = frame_out_room(&m->o, TCP_LEN);
	put_be16(h, sport);
	put_be16(h + 2, dport);
	put_be32(h + 4, 1000);
	put_be32(h + 8, 5000);
	h[12] = 5 << 4;
	h[13] = flags;
	put_be16(h + 14, 65535);
	checksum(m, 16);
}

static void turn(struct bench *b)
{
	for (int i = 0; i < 3; i++)
		loop_turn(b->loop, 0, NULL);
}

static void send_raw(struct bench *b, const void *p, size_t n)
{
	uint8_t len[4];

	put_be32(len, (uint32_t)n);
	assert_int_equal(send(b->link, len, 4, 0), 4);
	assert_int_equal(send(b->link, p, n, 0), n);
	turn(b);
}

static void send_made(struct bench *b, const struct made *m)
{
	send_raw(b, m->o.b, m->o.len);
}

/* The next frame for the guest; 0 when there is none. */
static size_t receive(struct bench *b, uint8_t *p, size_t max)
{
	uint8_t len[4];
	size_t n;

	if (recv(b->link, len, 4, MSG_DONTWAIT) != 4)
		return 0;
	n = get_be32(len);
	assert_true(n <= max);
	assert_int_equal(recv(b->link, p, n, MSG_DONTWAIT), n);
	assert_memory_equal(p, guest_mac, 6);
	assert_memory_equal(p + 6, gateway_mac, 6);
	return n;
}

static uint64_t drops(struct bench *b, enum switch_drop why)
{
	struct switch_stats s;

	switch_stats_get(b->sw, &s);
	return s.drops[why];
}

/* This frame is refused at the door: counted as why, not asked, not answered. */
static void assert_dropped(struct bench *b, const struct made *m, enum switch_drop why)
{
	uint64_t before = drops(b, why);
	unsigned asks = b->flow_asks + b->name_asks;
	uint8_t p[2000];

	send_made(b, m);
	if (drops(b, why) != before + 1)
		fail_msg("not dropped as %s", switch_drop_name(why));
	assert_int_equal(b->flow_asks + b->name_asks, asks);
	assert_int_equal(receive(b, p, sizeof(p)), 0);
}

/* The baseline of the tests of drops: this SYN is asked about. */
static void good_syn(struct bench *b, struct made *m)
{
	unsigned asks = b->flow_asks;
	uint8_t p[2000];

	tcp(m, "192.0.2.10", 40000, 443, TCP_SYN);
	send_made(b, m);
	assert_int_equal(b->flow_asks, asks + 1);
	assert_true(receive(b, p, sizeof(p)) > 0);
}

/* ---- the door ---- */

static void test_source_mac(void **state)
{
	struct made m;

	good_syn(*state, &m);
	m.o.b[11] ^= 1;
	assert_dropped(*state, &m, DROP_SOURCE_MAC);
}

static void test_source_ip(void **state)
{
	struct made m;

	good_syn(*state, &m);
	m.o.b[ETH_LEN + 15] = 3; /* a neighbour's */
	ip_checksum(&m);
	checksum(&m, 16);
	assert_dropped(*state, &m, DROP_SOURCE_IP);
	memset(m.o.b + ETH_LEN + 12, 0, 4);
	ip_checksum(&m);
	checksum(&m, 16);
	assert_dropped(*state, &m, DROP_SOURCE_IP);
	/* 0.0.0.0 is for DHCP broadcasts alone, not a way round for port 67 elsewhere. */
	udp(&m, "0.0.0.0", 68, "192.0.2.10", 67, "x", 1);
	assert_dropped(*state, &m, DROP_SOURCE_IP);
}

static void test_destination_mac(void **state)
{
	struct made m;

	good_syn(*state, &m);
	m.o.b[0] = 2, m.o.b[5] = 9;
	assert_dropped(*state, &m, DROP_DEST_MAC);
	memset(m.o.b, 0xff, 6); /* TCP to everyone */
	assert_dropped(*state, &m, DROP_DEST_MAC);
	udp(&m, "192.168.64.2", 5353, "192.168.64.255", 5353, "x", 1);
	memset(m.o.b, 0xff, 6);
	assert_dropped(*state, &m, DROP_DEST_MAC);
}

static void test_vlan_and_types(void **state)
{
	static const struct { uint16_t type; enum switch_drop why; } at[] = {
		{ 0x8100, DROP_VLAN }, { 0x88a8, DROP_VLAN }, { 0x9100, DROP_VLAN },
		{ 0x86dd, DROP_IPV6 }, { 0x88cc, DROP_ETHERTYPE }, { 0x0026, DROP_ETHERTYPE },
	};
	struct made m;

	good_syn(*state, &m);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		put_be16(m.o.b + 12, at[i].type);
		assert_dropped(*state, &m, at[i].why);
	}
}

static void test_fragments(void **state)
{
	static const uint16_t fields[] = { 0x2000, 0x0001, 0x2001, 0x1fff };
	struct made m;

	good_syn(*state, &m);
	put_be16(m.o.b + ETH_LEN + 6, 0x4000); /* "don't fragment" is none */
	ip_checksum(&m);
	send_made(*state, &m);
	assert_int_equal(((struct bench *)*state)->flow_asks, 2);
	assert_true(receive(*state, m.o.b, sizeof(m.o.b)) > 0);
	for (size_t i = 0; i < 4; i++) {
		tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
		put_be16(m.o.b + ETH_LEN + 6, fields[i]);
		ip_checksum(&m);
		assert_dropped(*state, &m, DROP_FRAGMENT);
	}
}

static void test_ip_header(void **state)
{
	struct made m;

	good_syn(*state, &m);
	m.o.b[ETH_LEN + 11] ^= 1;
	assert_dropped(*state, &m, DROP_CHECKSUM);
	tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
	m.o.b[ETH_LEN] = 0x46; /* options: the ports would lie elsewhere */
	ip_checksum(&m);
	assert_dropped(*state, &m, DROP_IP_OPTIONS);
	m.o.b[ETH_LEN] = 0x44;
	assert_dropped(*state, &m, DROP_SHORT);
	m.o.b[ETH_LEN] = 0x65;
	assert_dropped(*state, &m, DROP_SHORT);
	tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
	put_be16(m.o.b + ETH_LEN + 2, 41); /* longer than the frame */
	ip_checksum(&m);
	assert_dropped(*state, &m, DROP_SHORT);
	put_be16(m.o.b + ETH_LEN + 2, 19);
	ip_checksum(&m);
	assert_dropped(*state, &m, DROP_SHORT);
	put_be16(m.o.b + ETH_LEN + 2, 39); /* cuts the TCP header */
	ip_checksum(&m);
	assert_dropped(*state, &m, DROP_SHORT);
}

static void test_truncated(void **state)
{
	struct made m;
	size_t full;

	good_syn(*state, &m);
	full = m.o.len;
	for (size_t n = 0; n < full; n++) {
		m.o.len = n;
		assert_dropped(*state, &m, DROP_SHORT);
	}
}

static void test_oversize(void **state)
{
	struct bench *b = *state;
	uint8_t big[70000] = { 0 };
	struct made m;

	good_syn(b, &m);
	memcpy(big, m.o.b, m.o.len);
	send_raw(b, big, ETH_LEN + SWITCH_MTU_DEFAULT); /* padding up to the MTU is fine */
	assert_int_equal(b->flow_asks, 2);
	assert_true(receive(b, m.o.b, sizeof(m.o.b)) > 0);
	send_raw(b, big, ETH_LEN + SWITCH_MTU_DEFAULT + 1);
	assert_int_equal(drops(b, DROP_OVERSIZE), 1);
	send_raw(b, big, 69000);
	assert_int_equal(drops(b, DROP_OVERSIZE), 2);
	good_syn(b, &m); /* the stream is still in step */
}

static void test_tcp_flags(void **state)
{
	static const uint8_t bad[] = { 0, TCP_SYN | TCP_FIN, TCP_SYN | TCP_RST, TCP_FIN, TCP_PSH,
				       TCP_FIN | TCP_RST, TCP_FIN | TCP_PSH | TCP_URG };
	struct made m;

	good_syn(*state, &m);
	for (size_t i = 0; i < sizeof(bad); i++) {
		tcp(&m, "192.0.2.10", 40000, 443, bad[i]);
		assert_dropped(*state, &m, DROP_TCP_FLAGS);
	}
	tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
	m.o.b[ETH_LEN + IP_LEN + 12] = 4 << 4;
	assert_dropped(*state, &m, DROP_SHORT);
	m.o.b[ETH_LEN + IP_LEN + 12] = 6 << 4;
	assert_dropped(*state, &m, DROP_SHORT);
}

static void test_udp_header(void **state)
{
	struct bench *b = *state;
	uint8_t p[2000];
	struct made m;

	udp(&m, "192.168.64.2", 1234, "192.0.2.10", 5000, "hello", 5);
	send_made(b, &m);
	assert_int_equal(b->flow_asks, 1);
	assert_true(receive(b, p, sizeof(p)) > 0);
	m.o.b[m.o.len - 1] ^= 1;
	assert_dropped(b, &m, DROP_CHECKSUM);
	udp(&m, "192.168.64.2", 1234, "192.0.2.10", 5000, "hello", 5);
	put_be16(m.o.b + ETH_LEN + IP_LEN + 4, 12);
	checksum(&m, 6);
	assert_dropped(b, &m, DROP_SHORT);
	put_be16(m.o.b + ETH_LEN + IP_LEN + 4, 14);
	assert_dropped(b, &m, DROP_SHORT);
}

/* Other protocols are answered, so that nobody waits, and never reach anything. */
static void test_other_protocols(void **state)
{
	static const uint8_t protos[] = { 47 /* GRE */, 132 /* SCTP */, 41 /* 6in4 */, 2, 50, 4, 0 };
	struct bench *b = *state;
	uint8_t p[2000];
	struct made m;

	good_syn(b, &m);
	for (size_t i = 0; i < sizeof(protos); i++) {
		tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
		m.o.b[ETH_LEN + 9] = protos[i];
		ip_checksum(&m);
		send_made(b, &m);
		assert_int_equal(drops(b, DROP_PROTOCOL), i + 1);
		assert_int_equal(receive(b, p, sizeof(p)), ETH_LEN + IP_LEN + ICMP_LEN + IP_LEN + 8);
		assert_int_equal(p[ETH_LEN + IP_LEN], 3);
		assert_int_equal(p[ETH_LEN + IP_LEN + 1], 13);
		assert_memory_equal(p + ETH_LEN + IP_LEN + ICMP_LEN, m.o.b + ETH_LEN, IP_LEN + 8);
	}
	assert_int_equal(b->flow_asks, 1);
}

static void test_icmp(void **state)
{
	static const uint8_t types[] = { 0, 3, 5 /* redirect */, 9, 10, 13, 17 };
	struct bench *b = *state;
	uint8_t p[2000], *h;
	struct made m;

	eth(&m, ETHERTYPE_IPV4);
	frame_out_ip(&m.o, ip("192.168.64.2"), ip("192.168.64.1"), IPPROTO_ICMP, ICMP_LEN + 4, 1, 0);
	h = frame_out_room(&m.o, ICMP_LEN + 4);
	h[0] = 8;
	put_be16(h + 4, 77);
	put_be16(h + 6, 3);
	memcpy(h + 8, "ping", 4);
	put_be16(h + 2, frame_csum_end(frame_csum_add(0, h, 12)));
	send_made(b, &m);
	assert_int_equal(receive(b, p, sizeof(p)), m.o.len);
	assert_int_equal(p[ETH_LEN + IP_LEN], 0);
	assert_memory_equal(p + ETH_LEN + IP_LEN + 4, h + 4, 8);
	h[2] ^= 1;
	assert_dropped(b, &m, DROP_CHECKSUM);
	for (size_t i = 0; i < sizeof(types); i++) {
		h[0] = types[i];
		put_be16(h + 2, 0);
		put_be16(h + 2, frame_csum_end(frame_csum_add(0, h, 12)));
		assert_dropped(b, &m, DROP_ICMP);
	}
}

/* ---- ARP ---- */

static void arp(struct made *m, uint16_t op, const uint8_t mac[6], const char *sender, const char *target)
{
	static const uint8_t head[6] = { 0, 1, 8, 0, 6, 4 };
	struct in_addr a = ip(sender), t = ip(target);
	uint8_t *h;

	eth(m, ETHERTYPE_ARP4);
	memset(m->o.b, 0xff, 6);
	h = frame_out_room(&m->o, ARP_LEN);
	memcpy(h, head, 6);
	put_be16(h + 6, op);
	memcpy(h + 8, mac, 6);
	memcpy(h + 14, &a, 4);
	memcpy(h + 24, &t, 4);
}

static void test_arp(void **state)
{
	static const uint8_t other[6] = { 2, 0, 0, 0, 0, 9 };
	struct bench *b = *state;
	struct in_addr gateway = ip("192.168.64.1");
	uint8_t p[100];
	struct made m;

	arp(&m, 1, guest_mac, "192.168.64.2", "192.168.64.1");
	send_made(b, &m);
	assert_int_equal(receive(b, p, sizeof(p)), ETH_LEN + ARP_LEN);
	assert_int_equal(get_be16(p + ETH_LEN + 6), 2);
	assert_memory_equal(p + ETH_LEN + 8, gateway_mac, 6);
	assert_memory_equal(p + ETH_LEN + 14, &gateway, 4);
	assert_memory_equal(p + ETH_LEN + 18, guest_mac, 6);
	arp(&m, 1, guest_mac, "0.0.0.0", "192.168.64.2"); /* probe of its own address */
	send_made(b, &m);
	arp(&m, 1, guest_mac, "192.168.64.2", "192.168.64.9"); /* no neighbours */
	send_made(b, &m);
	assert_int_equal(receive(b, p, sizeof(p)), 0);
	assert_int_equal(drops(b, DROP_ARP), 0);
	arp(&m, 1, other, "192.168.64.2", "192.168.64.1");
	assert_dropped(b, &m, DROP_ARP);
	arp(&m, 1, guest_mac, "192.168.64.1", "192.168.64.1"); /* "the gateway is me" */
	assert_dropped(b, &m, DROP_ARP);
	arp(&m, 2, guest_mac, "192.168.64.1", "192.168.64.2");
	assert_dropped(b, &m, DROP_ARP);
	arp(&m, 3, guest_mac, "192.168.64.2", "192.168.64.1");
	assert_dropped(b, &m, DROP_ARP);
	m.o.len = ETH_LEN + ARP_LEN - 1;
	assert_dropped(b, &m, DROP_SHORT);
}

/* ---- DHCP ---- */

static size_t dhcp_message(uint8_t *p, uint8_t type, const char *requested)
{
	size_t n = 240;

	memset(p, 0, 300);
	p[0] = 1;
	p[1] = 1;
	p[2] = 6;
	put_be32(p + 4, 0xdecafbad);
	memcpy(p + 28, guest_mac, 6);
	put_be32(p + 236, 0x63825363);
	p[n++] = 53;
	p[n++] = 1;
	p[n++] = type;
	if (requested) {
		struct in_addr a = ip(requested);

		p[n++] = 50;
		p[n++] = 4;
		memcpy(p + n, &a, 4);
		n += 4;
	}
	p[n++] = 255;
	return n;
}

static void dhcp(struct made *m, const uint8_t *p, size_t n)
{
	udp(m, "0.0.0.0", 68, "255.255.255.255", 67, p, n);
	memset(m->o.b, 0xff, 6);
}

static const uint8_t *dhcp_option(const uint8_t *p, size_t n, uint8_t code)
{
	for (size_t i = ETH_LEN + IP_LEN + UDP_LEN + 240; i + 1 < n && p[i] != 255; i += 2u + p[i + 1]) {
		if (p[i] == code)
			return p + i + 2;
	}
	return NULL;
}

static void test_dhcp_lease(void **state)
{
	struct in_addr guest = ip("192.168.64.2"), gateway = ip("192.168.64.1");
	struct bench *b = *state;
	uint8_t q[400], p[700];
	struct made m;
	size_t n;

	dhcp(&m, q, dhcp_message(q, 1, NULL));
	send_made(b, &m);
	n = receive(b, p, sizeof(p));
	assert_true(n >= ETH_LEN + IP_LEN + UDP_LEN + 300);
	assert_int_equal(*dhcp_option(p, n, 53), 2);
	assert_memory_equal(p + ETH_LEN + IP_LEN + UDP_LEN + 16, &guest, 4);
	assert_int_equal(get_be32(p + ETH_LEN + IP_LEN + UDP_LEN + 4), 0xdecafbad);
	assert_memory_equal(dhcp_option(p, n, 54), &gateway, 4);
	assert_memory_equal(dhcp_option(p, n, 3), &gateway, 4);
	assert_memory_equal(dhcp_option(p, n, 6), &gateway, 4);
	assert_int_equal(get_be32(dhcp_option(p, n, 1)), 0xffffff00);
	assert_int_equal(get_be32(dhcp_option(p, n, 51)), 86400);
	assert_int_equal(get_be16(dhcp_option(p, n, 26)), SWITCH_MTU_DEFAULT);
	assert_memory_equal(dhcp_option(p, n, 12), "work", 4);
	dhcp(&m, q, dhcp_message(q, 3, "192.168.64.2"));
	send_made(b, &m);
	n = receive(b, p, sizeof(p));
	assert_int_equal(*dhcp_option(p, n, 53), 5);
	dhcp(&m, q, dhcp_message(q, 3, "192.168.64.7")); /* wants another one */
	send_made(b, &m);
	n = receive(b, p, sizeof(p));
	assert_int_equal(*dhcp_option(p, n, 53), 6);
	assert_null(dhcp_option(p, n, 51));
	dhcp(&m, q, dhcp_message(q, 7, NULL)); /* release: nothing to say */
	send_made(b, &m);
	assert_int_equal(receive(b, p, sizeof(p)), 0);
	assert_int_equal(drops(b, DROP_DHCP), 0);
}

static void test_dhcp_refused(void **state)
{
	struct bench *b = *state;
	uint8_t q[400];
	struct made m;
	size_t n = dhcp_message(q, 1, NULL);

	/* A server in the guest: from port 67, or to port 68. */
	udp(&m, "192.168.64.2", 67, "192.168.64.9", 68, q, n);
	assert_dropped(b, &m, DROP_DHCP);
	udp(&m, "192.168.64.2", 1067, "192.0.2.10", 68, q, n);
	assert_dropped(b, &m, DROP_DHCP);
	udp(&m, "192.168.64.2", 69, "192.168.64.1", 67, q, n);
	assert_dropped(b, &m, DROP_DHCP);
	q[28] ^= 2; /* asks for another machine */
	dhcp(&m, q, n);
	assert_dropped(b, &m, DROP_DHCP);
	n = dhcp_message(q, 2, NULL); /* an offer */
	dhcp(&m, q, n);
	assert_dropped(b, &m, DROP_DHCP);
	n = dhcp_message(q, 1, NULL);
	q[0] = 2;
	dhcp(&m, q, n);
	assert_dropped(b, &m, DROP_DHCP);
	n = dhcp_message(q, 1, "192.168.64.2");
	for (size_t cut = 0; cut < n; cut++) {
		dhcp(&m, q, cut);
		assert_dropped(b, &m, DROP_DHCP);
	}
	q[244] = 200; /* an option longer than the message */
	dhcp(&m, q, n);
	assert_dropped(b, &m, DROP_DHCP);
}

/* ---- refusing ---- */

static void assert_reset(const uint8_t *p, size_t n, uint32_t ack)
{
	const uint8_t *h = p + ETH_LEN + IP_LEN;
	struct in_addr src, dst;

	assert_int_equal(n, ETH_LEN + IP_LEN + TCP_LEN);
	assert_int_equal(h[13], TCP_RST | TCP_ACK);
	assert_int_equal(get_be32(h + 8), ack);
	assert_int_equal(frame_csum_end(frame_csum_add(0, p + ETH_LEN, IP_LEN)), 0);
	memcpy(&src, p + ETH_LEN + 12, 4);
	memcpy(&dst, p + ETH_LEN + 16, 4);
	assert_int_equal(frame_csum_end(frame_csum_add(
				 frame_csum_pseudo(src, dst, IPPROTO_TCP, TCP_LEN), h, TCP_LEN)), 0);
}

static void test_refused_syn(void **state)
{
	struct bench *b = *state;
	uint8_t p[200];
	struct made m;
	size_t n;

	tcp(&m, "192.0.2.10", 40000, 22, TCP_SYN);
	send_made(b, &m);
	n = receive(b, p, sizeof(p));
	assert_reset(p, n, 1001);
	assert_int_equal(b->denied, 1);
	assert_int_equal(b->last.sport, 40000);
	assert_int_equal(b->last.dport, 22);
	assert_string_equal(b->last.reason, "no rule");
	/* Without a flow: reset with what it acknowledged, and nothing is asked. */
	tcp(&m, "192.0.2.10", 40000, 22, TCP_ACK);
	send_made(b, &m);
	n = receive(b, p, sizeof(p));
	assert_int_equal(n, ETH_LEN + IP_LEN + TCP_LEN);
	assert_int_equal(p[ETH_LEN + IP_LEN + 13], TCP_RST);
	assert_int_equal(get_be32(p + ETH_LEN + IP_LEN + 4), 5000);
	tcp(&m, "192.0.2.10", 40000, 22, TCP_RST); /* never a reset for a reset */
	send_made(b, &m);
	assert_int_equal(receive(b, p, sizeof(p)), 0);
	assert_int_equal(b->flow_asks, 1);
}

static void test_syn_is_held(void **state)
{
	struct bench *b = *state;
	struct switch_stats s;
	uint8_t p[200];
	struct made m;

	b->answer = false;
	tcp(&m, "192.0.2.10", 40000, 22, TCP_SYN);
	for (int i = 0; i < 5; i++)
		send_made(b, &m); /* retransmits */
	assert_int_equal(b->flow_asks, 1);
	assert_int_equal(receive(b, p, sizeof(p)), 0);
	switch_stats_get(b->sw, &s);
	assert_int_equal(s.asks_open, 1);
	assert_int_equal(switch_flow_verdict(b->sw, b->last_id, FLOW_DENY, "", "no"), 0);
	assert_reset(p, receive(b, p, sizeof(p)), 1001);
	assert_int_equal(switch_flow_verdict(b->sw, b->last_id, FLOW_ALLOW, "", ""), -1); /* late */
	switch_stats_get(b->sw, &s);
	assert_int_equal(s.asks_open, 0);
	/* The guest gives up: the question is closed, an answer is late. */
	send_made(b, &m);
	tcp(&m, "192.0.2.10", 40000, 22, TCP_RST);
	send_made(b, &m);
	assert_int_equal(switch_flow_verdict(b->sw, b->last_id, FLOW_ALLOW, "", ""), -1);
}

static void test_asks_are_bounded(void **state)
{
	struct bench *b = *state;
	struct switch_stats s;
	unsigned resets = 0;
	uint8_t p[200];
	struct made m;

	b->answer = false;
	for (unsigned i = 0; i < SWITCH_ASKS_MAX + 10; i++) {
		tcp(&m, "192.0.2.10", (uint16_t)(20000 + i), 22, TCP_SYN);
		send_made(b, &m);
		resets += receive(b, p, sizeof(p)) > 0;
	}
	assert_int_equal(b->flow_asks, SWITCH_ASKS_MAX);
	assert_int_equal(resets, 10);
	assert_string_equal(b->last.reason, "too many open questions");
	switch_stats_get(b->sw, &s);
	assert_int_equal(s.asks_full, 10);
	/* The guest can still be told no for one, and ask one more. */
	assert_int_equal(switch_flow_verdict(b->sw, b->last_id, FLOW_DENY, "", ""), 0);
	tcp(&m, "192.0.2.10", 30000, 22, TCP_SYN);
	send_made(b, &m);
	assert_int_equal(b->flow_asks, SWITCH_ASKS_MAX + 1);
}

/* Denials nobody was asked about are refused all, told at a limited rate. */
static void test_flood_is_not_told(void **state)
{
	struct bench *b = *state;
	struct switch_stats s;
	unsigned resets = 0;
	uint8_t p[200];
	struct made m;

	for (unsigned i = 0; i < 500; i++) {
		tcp(&m, "169.254.169.254", (uint16_t)(20000 + i), 80, TCP_SYN);
		send_made(b, &m);
		resets += receive(b, p, sizeof(p)) > 0;
	}
	assert_int_equal(resets, 500);
	assert_int_equal(b->flow_asks, 0);
	assert_in_range(b->denied, 50, 250);
	switch_stats_get(b->sw, &s);
	assert_int_equal(s.flows_denied, 500);
	assert_int_equal(s.denied_untold, 500 - b->denied);
}

static void test_cut_refuses_all(void **state)
{
	static const uint8_t query[] = "\0\1\1\0\0\1\0\0\0\0\0\0\3www\7example\0\0\1\0\1";
	struct bench *b = *state;
	uint8_t p[600];
	struct made m;

	switch_cut(b->sw, "quarantine");
	tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
	send_made(b, &m);
	assert_reset(p, receive(b, p, sizeof(p)), 1001);
	assert_string_equal(b->last.reason, "quarantine");
	udp(&m, "192.168.64.2", 1000, "192.168.64.1", 53, query, sizeof(query) - 1);
	send_made(b, &m);
	assert_true(receive(b, p, sizeof(p)) > 0);
	assert_int_equal(p[ETH_LEN + IP_LEN + UDP_LEN + 3] & 15, DNS_REFUSED);
	assert_int_equal(b->flow_asks + b->name_asks, 0);
	arp(&m, 1, guest_mac, "192.168.64.2", "192.168.64.1");
	send_made(b, &m);
	assert_true(receive(b, p, sizeof(p)) > 0);
	switch_uncut(b->sw);
	good_syn(b, &m);
}

/* ---- DNS on the wire ---- */

static void test_dns_wire(void **state)
{
	static const uint8_t query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\3WWW\7example\0\0\1\0\1";
	struct bench *b = *state;
	const uint8_t *r;
	uint8_t p[600];
	struct made m;

	udp(&m, "192.168.64.2", 1000, "192.168.64.1", 53, query, sizeof(query) - 1);
	send_made(b, &m);
	assert_true(receive(b, p, sizeof(p)) > 0);
	r = p + ETH_LEN + IP_LEN + UDP_LEN;
	assert_int_equal(get_be16(p + ETH_LEN + IP_LEN + 2), 1000);
	assert_int_equal(get_be16(r), 0x1234);
	assert_int_equal(get_be16(r + 2), 0x8180);
	assert_memory_equal(r + 12, query + 12, sizeof(query) - 13); /* the case as asked */
	assert_int_equal(get_be16(r + 6), 1);
	assert_int_equal(get_be32(r + sizeof(query) - 1 + 12) >> 17, 0xc6120000u >> 17);
	assert_int_equal(b->name_asks, 1);
	b->answer = false;
	for (int i = 0; i < 3; i++)
		send_made(b, &m); /* retransmits of an open query */
	assert_int_equal(b->name_asks, 2);
	assert_int_equal(switch_name_verdict(b->sw, b->last_id, true, ""), 0);
	turn(b); /* no name servers: SERVFAIL */
	assert_true(receive(b, p, sizeof(p)) > 0);
	assert_int_equal(r[3] & 15, DNS_SERVFAIL);
	assert_int_equal(switch_name_verdict(b->sw, b->last_id, true, ""), -1);
	udp(&m, "192.168.64.2", 1000, "192.168.64.1", 53, query, 11);
	assert_dropped(b, &m, DROP_DNS);
}

/* ---- the link ---- */

static void test_link_in_pieces(void **state)
{
	struct bench *b = *state;
	uint8_t stream[200];
	struct made m;

	tcp(&m, "192.0.2.10", 40000, 443, TCP_SYN);
	put_be32(stream, (uint32_t)m.o.len);
	memcpy(stream + 4, m.o.b, m.o.len);
	for (size_t i = 0; i < m.o.len + 4; i++) {
		assert_int_equal(b->flow_asks, 0);
		assert_int_equal(send(b->link, stream + i, 1, 0), 1);
		turn(b);
	}
	assert_int_equal(b->flow_asks, 1);
}

static void test_link_out_of_step(void **state)
{
	static const uint8_t wild[8] = { 0x7f, 0xff, 0xff, 0xff };
	struct bench *b = *state;
	uint8_t p[8];

	assert_int_equal(send(b->link, wild, 8, 0), 8);
	turn(b);
	assert_int_equal(b->down, 1);
	assert_int_equal(recv(b->link, p, 8, MSG_DONTWAIT), 0);
}

static void test_link_backlog(void **state)
{
	struct bench *b = *state;
	uint8_t payload[1200] = { 8 };
	struct made m;

	/* The guest pings the gateway and never reads. */
	eth(&m, ETHERTYPE_IPV4);
	frame_out_ip(&m.o, ip("192.168.64.2"), ip("192.168.64.1"), IPPROTO_ICMP, sizeof(payload), 1, 0);
	put_be16(payload + 2, frame_csum_end(frame_csum_add(0, payload, sizeof(payload))));
	frame_out_bytes(&m.o, payload, sizeof(payload));
	for (int i = 0; i < 3000; i++)
		send_made(b, &m);
	assert_true(drops(b, DROP_BACKLOG) > 0);
	assert_int_equal(b->down, 0);
}

static void test_config(void **state)
{
	struct bench *b = *state;
	struct switch_config cfg = config(b->dir);
	struct err err;

	cfg.mtu = 100;
	assert_null(switch_new(b->loop, &cfg, &ops, b, &err));
	cfg = config(b->dir);
	cfg.gateway = ip("10.0.0.1");
	assert_null(switch_new(b->loop, &cfg, &ops, b, &err));
	cfg = config(b->dir);
	cfg.guest_ip = ip("192.168.64.255");
	assert_null(switch_new(b->loop, &cfg, &ops, b, &err));
	cfg = config(b->dir);
	cfg.guest_mac[0] = 1;
	assert_null(switch_new(b->loop, &cfg, &ops, b, &err));
	cfg = config("/nonexistent/dir");
	assert_null(switch_new(b->loop, &cfg, &ops, b, &err));
	assert_non_null(strstr(err.text, "nonexistent"));
}

/* ---- names ---- */

static void test_names_are_bounded(void **state)
{
	struct bench *b = *state;
	struct in_addr a = ip("192.0.2.1"), first, again;
	struct flow f = { .dst = a };
	char name[64];

	name_pin(b->sw, "kept.example", &a, 1, 300);
	first = name_synthetic(b->sw, "refused-0.example");
	for (int i = 1; i <= NAME_SYNTHETIC_MAX * 2; i++) {
		snprintf(name, sizeof(name), "refused-%d.example", i);
		again = name_synthetic(b->sw, name);
		assert_true(name_is_synthetic(again));
		assert_int_not_equal(again.s_addr, first.s_addr);
	}
	name_of_flow(b->sw, &f);
	assert_string_equal(f.name, "kept.example"); /* refused names push out no pin */
	assert_int_equal(f.name_n, 1);
	f.dst = again;
	name_of_flow(b->sw, &f);
	assert_string_equal(f.name, name);
	f.dst = first; /* gave way */
	name_of_flow(b->sw, &f);
	assert_string_equal(f.name, "");
	assert_true(f.synthetic);
	f.dst = ip("192.0.2.99");
	name_of_flow(b->sw, &f);
	assert_string_equal(f.name, "");
	assert_false(f.synthetic);
}

static void test_shared_address(void **state)
{
	struct bench *b = *state;
	struct in_addr a[2] = { ip("192.0.2.1"), ip("192.0.2.2") };
	struct flow f = { .dst = a[1] };
	unsigned ttl;

	name_pin(b->sw, "one.example", a, 2, 300);
	usleep(2000);
	name_pin(b->sw, "two.example", &a[1], 1, 300);
	name_of_flow(b->sw, &f);
	assert_string_equal(f.name, "two.example");
	assert_int_equal(f.name_n, 2);
	usleep(2000);
	assert_non_null(name_pin_fresh(b->sw, "one.example", &ttl)); /* given out once more */
	name_of_flow(b->sw, &f);
	assert_string_equal(f.name, "one.example");
	switch_rejudge(b->sw);
	assert_null(name_pin_fresh(b->sw, "one.example", &ttl));
	name_of_flow(b->sw, &f);
	assert_int_equal(f.name_n, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_source_mac),	  T(test_source_ip),	     T(test_destination_mac),
		T(test_vlan_and_types),	  T(test_fragments),	     T(test_ip_header),
		T(test_truncated),	  T(test_oversize),	     T(test_tcp_flags),
		T(test_udp_header),	  T(test_other_protocols),   T(test_icmp),
		T(test_arp),		  T(test_dhcp_lease),	     T(test_dhcp_refused),
		T(test_refused_syn),	  T(test_syn_is_held),	     T(test_asks_are_bounded),
		T(test_flood_is_not_told), T(test_cut_refuses_all),  T(test_dns_wire),
		T(test_link_in_pieces),	  T(test_link_out_of_step),  T(test_link_backlog),
		T(test_config),		  T(test_names_are_bounded), T(test_shared_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
