/* SPDX-License-Identifier: GPL-2.0-or-later */
/* DHCP (RFC 2131): one client, one lease, always the same address. */
#include <string.h>

#include "hostd/net/ctx.h"
#include "lib/buf.h"

enum { BOOTP_LEN = 236, BOOTP_MIN = 300, LEASE_S = 24 * 3600 };
enum { DHCP_DISCOVER = 1, DHCP_OFFER = 2, DHCP_REQUEST = 3, DHCP_DECLINE = 4, DHCP_ACK = 5,
       DHCP_NAK = 6, DHCP_RELEASE = 7, DHCP_INFORM = 8 };
enum { OPT_PAD = 0, OPT_MASK = 1, OPT_ROUTER = 3, OPT_DNS = 6, OPT_HOSTNAME = 12, OPT_MTU = 26,
       OPT_REQUESTED = 50, OPT_LEASE = 51, OPT_TYPE = 53, OPT_SERVER = 54, OPT_RENEW = 58,
       OPT_REBIND = 59, OPT_END = 255 };

struct dhcp_request {
	uint32_t xid;
	uint16_t flags;
	struct in_addr ciaddr;
	struct in_addr requested; /* 0: not given */
	struct in_addr server;	  /* 0: not given */
	uint8_t type;
};

static int parse_options(struct dhcp_request *q, struct rd *r)
{
	for (;;) {
		const uint8_t *value;
		uint8_t code, len;

		if (rd_u8(r, &code))
			return -1; /* RFC 2131 4.1: the end option is not optional */
		if (code == OPT_PAD)
			continue;
		if (code == OPT_END)
			return q->type ? 0 : -1;
		if (rd_u8(r, &len) || rd_bytes(r, &value, len))
			return -1;
		if (code == OPT_TYPE && len == 1)
			q->type = value[0];
		else if (code == OPT_REQUESTED && len == 4)
			memcpy(&q->requested, value, 4);
		else if (code == OPT_SERVER && len == 4)
			memcpy(&q->server, value, 4);
		else if (code == OPT_TYPE || code == OPT_REQUESTED || code == OPT_SERVER)
			return -1;
	}
}

static int parse_request(struct dhcp_request *q, const struct switch_ctx *c, const uint8_t *p,
			 size_t n)
{
	static const uint8_t ethernet[3] = { 1 /* request */, 1, 6 };
	uint8_t head[3], hops, chaddr[16];
	uint16_t secs;
	uint32_t cookie;
	struct rd r;

	rd_init(&r, p, n);
	*q = (struct dhcp_request){ 0 };
	if (rd_copy(&r, head, 3) || memcmp(head, ethernet, 3) || rd_u8(&r, &hops) ||
	    rd_u32(&r, &q->xid) || rd_u16(&r, &secs) || rd_u16(&r, &q->flags) ||
	    rd_copy(&r, &q->ciaddr, 4) || rd_skip(&r, 12) || rd_copy(&r, chaddr, 16) ||
	    rd_skip(&r, 64 + 128) || rd_u32(&r, &cookie))
		return -1;
	if (cookie != 0x63825363 || memcmp(chaddr, c->rules.guest_mac, 6))
		return -1;
	return parse_options(q, &r);
}

static void put_option(struct frame_out *o, uint8_t code, const void *value, uint8_t len)
{
	frame_out_bytes(o, &code, 1);
	frame_out_bytes(o, &len, 1);
	frame_out_bytes(o, value, len);
}

static void put_option_u32(struct frame_out *o, uint8_t code, uint32_t v)
{
	uint8_t b[4];

	put_be32(b, v);
	put_option(o, code, b, 4);
}

static void put_lease(const struct switch_ctx *c, struct frame_out *o, bool with_time)
{
	uint8_t mtu[2];

	put_option(o, OPT_MASK, &c->netmask, 4);
	put_option(o, OPT_ROUTER, &c->rules.gateway, 4);
	put_option(o, OPT_DNS, &c->rules.gateway, 4);
	put_be16(mtu, (uint16_t)c->rules.mtu);
	put_option(o, OPT_MTU, mtu, 2);
	if (c->hostname[0])
		put_option(o, OPT_HOSTNAME, c->hostname, (uint8_t)strlen(c->hostname));
	if (with_time) {
		put_option_u32(o, OPT_LEASE, LEASE_S);
		put_option_u32(o, OPT_RENEW, LEASE_S / 2);
		put_option_u32(o, OPT_REBIND, LEASE_S / 8 * 7);
	}
}

/* Replies go to the guest's MAC; the IP destination is the limited broadcast when the client
 * cannot take unicast yet (or is told that its address is wrong). */
static void reply(struct switch_ctx *c, const struct dhcp_request *q, uint8_t type)
{
	static const uint8_t cookie[4] = { 0x63, 0x82, 0x53, 0x63 };
	bool lease = type == DHCP_OFFER || (type == DHCP_ACK && q->type == DHCP_REQUEST);
	const uint8_t end = OPT_END;
	struct in_addr dst = c->rules.guest_ip;
	struct frame_out o = { .len = 0 };
	uint8_t *h;

	if (type == DHCP_NAK || (q->flags & 0x8000))
		dst.s_addr = INADDR_BROADCAST;
	h = frame_out_room(&o, BOOTP_LEN);
	h[0] = 2;
	h[1] = 1;
	h[2] = 6;
	put_be32(h + 4, q->xid);
	put_be16(h + 10, q->flags);
	if (type == DHCP_ACK)
		memcpy(h + 12, &q->ciaddr, 4);
	if (lease)
		memcpy(h + 16, &c->rules.guest_ip, 4);
	memcpy(h + 28, c->rules.guest_mac, 6);
	frame_out_bytes(&o, cookie, 4);
	put_option(&o, OPT_TYPE, &type, 1);
	put_option(&o, OPT_SERVER, &c->rules.gateway, 4);
	if (type != DHCP_NAK)
		put_lease(c, &o, lease);
	frame_out_bytes(&o, &end, 1);
	if (o.len < BOOTP_MIN) /* RFC 951's minimum, which some clients insist on */
		frame_out_room(&o, BOOTP_MIN - o.len);
	switch_send_udp(c, c->rules.gateway, 67, dst, 68, o.b, o.len);
}

/* A REQUEST is for the offer (server named), for a remembered address, or a renewal. */
static void on_request(struct switch_ctx *c, const struct dhcp_request *q)
{
	struct in_addr wanted = q->requested.s_addr ? q->requested : q->ciaddr;

	if (q->server.s_addr && q->server.s_addr != c->rules.gateway.s_addr)
		return;
	reply(c, q, wanted.s_addr == c->rules.guest_ip.s_addr ? DHCP_ACK : DHCP_NAK);
}

void dhcp_input(struct switch_ctx *c, const struct frame *f)
{
	const uint8_t *p = frame_at(f, f->payload, f->payload_len);
	struct dhcp_request q;

	if (!p || parse_request(&q, c, p, f->payload_len)) {
		switch_drop(c, DROP_DHCP);
		return;
	}
	switch (q.type) {
	case DHCP_DISCOVER:
		reply(c, &q, DHCP_OFFER);
		break;
	case DHCP_REQUEST:
		on_request(c, &q);
		break;
	case DHCP_INFORM:
		reply(c, &q, DHCP_ACK);
		break;
	case DHCP_DECLINE:
	case DHCP_RELEASE:
		break; /* the lease is the guest's whatever it says */
	default:
		switch_drop(c, DROP_DHCP);
	}
}
