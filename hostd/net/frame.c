/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ethernet frames of the guest: bounds-checked access, the checks at the door, building.
 *
 * Every byte of the guest reaches the rest of hostd/net through frame_check(), so what
 * comes later may rely on: one Ethernet header, the guest's own addresses, an IPv4 header of
 * 20 bytes whose total length fits, no fragment (a later fragment has no ports, and a first
 * one can be overlaid), a whole transport header. What the frame carries behind the IP
 * length is padding and is cut off.
 */
#include "hostd/net/frame.h"

#include <string.h>

uint16_t get_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void put_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

void put_be32(uint8_t *p, uint32_t v)
{
	put_be16(p, (uint16_t)(v >> 16));
	put_be16(p + 2, (uint16_t)v);
}

uint64_t frame_csum_add(uint64_t sum, const uint8_t *p, size_t n)
{
	for (; n >= 4; p += 4, n -= 4)
		sum += get_be32(p);
	if (n >= 2) {
		sum += get_be16(p);
		p += 2;
		n -= 2;
	}
	if (n)
		sum += (uint64_t)p[0] << 8;
	return sum;
}

uint16_t frame_csum_end(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

uint64_t frame_csum_pseudo(struct in_addr src, struct in_addr dst, uint8_t proto, size_t l4_len)
{
	return (uint64_t)ntohl(src.s_addr) + ntohl(dst.s_addr) + proto + l4_len;
}

void frame_csum_fix(uint8_t *csum, uint16_t old, uint16_t new)
{
	uint64_t sum = (uint16_t)~get_be16(csum);

	sum += (uint16_t)~old;
	sum += new;
	put_be16(csum, frame_csum_end(sum));
}

const uint8_t *frame_at(const struct frame *f, size_t off, size_t n)
{
	if (off > f->len || n > f->len - off)
		return NULL;
	return f->data + off;
}

static bool drop(enum switch_drop *why, enum switch_drop reason)
{
	*why = reason;
	return false;
}

/* 0 when the transport checksum holds. */
static uint16_t l4_csum(const struct frame *f)
{
	size_t n = f->len - f->l4;

	return frame_csum_end(frame_csum_add(frame_csum_pseudo(f->src, f->dst, f->proto, n),
					     f->data + f->l4, n));
}

static bool check_tcp(struct frame *f, enum switch_drop *why)
{
	const uint8_t *h = frame_at(f, f->l4, TCP_LEN);
	size_t header_len;

	if (!h)
		return drop(why, DROP_SHORT);
	f->sport = get_be16(h);
	f->dport = get_be16(h + 2);
	f->seq = get_be32(h + 4);
	f->ack = get_be32(h + 8);
	header_len = (size_t)(h[12] >> 4) * 4;
	f->flags = h[13] & 0x3f;
	if (header_len < TCP_LEN || !frame_at(f, f->l4, header_len))
		return drop(why, DROP_SHORT);
	f->payload = f->l4 + header_len;
	f->payload_len = f->len - f->payload;
	if ((f->flags & TCP_SYN && f->flags & (TCP_FIN | TCP_RST)) ||
	    (f->flags & TCP_FIN && f->flags & TCP_RST) ||
	    !(f->flags & (TCP_SYN | TCP_RST | TCP_ACK)))
		return drop(why, DROP_TCP_FLAGS);
	if (!f->sport || !f->dport)
		return drop(why, DROP_SHORT);
	return true;
}

static bool check_udp(struct frame *f, enum switch_drop *why)
{
	const uint8_t *h = frame_at(f, f->l4, UDP_LEN);

	if (!h)
		return drop(why, DROP_SHORT);
	f->sport = get_be16(h);
	f->dport = get_be16(h + 2);
	if (get_be16(h + 4) != f->len - f->l4 || !f->dport)
		return drop(why, DROP_SHORT);
	if (get_be16(h + 6) && l4_csum(f))
		return drop(why, DROP_CHECKSUM);
	f->payload = f->l4 + UDP_LEN;
	f->payload_len = f->len - f->payload;
	return true;
}

static bool check_icmp(struct frame *f, enum switch_drop *why)
{
	const uint8_t *h = frame_at(f, f->l4, ICMP_LEN);

	if (!h)
		return drop(why, DROP_SHORT);
	if (frame_csum_end(frame_csum_add(0, h, f->len - f->l4)))
		return drop(why, DROP_CHECKSUM);
	f->icmp_type = h[0];
	f->icmp_code = h[1];
	f->sport = get_be16(h + 4);
	f->icmp_seq = get_be16(h + 6);
	f->payload = f->l4 + ICMP_LEN;
	f->payload_len = f->len - f->payload;
	return true;
}

static bool is_dhcp_client(const struct frame *f)
{
	const uint8_t *ports = frame_at(f, f->l4, 4);

	return f->proto == IPPROTO_UDP && ports && get_be16(ports) == 68 &&
	       get_be16(ports + 2) == 67;
}

static bool check_ip(struct frame *f, const struct frame_rules *r, enum switch_drop *why)
{
	const uint8_t *h = frame_at(f, ETH_LEN, IP_LEN);
	size_t total;

	if (!h)
		return drop(why, DROP_SHORT);
	if (h[0] >> 4 != 4 || (h[0] & 15) < 5)
		return drop(why, DROP_SHORT);
	if ((h[0] & 15) != 5)
		return drop(why, DROP_IP_OPTIONS);
	total = get_be16(h + 2);
	if (total < IP_LEN || total > f->len - ETH_LEN)
		return drop(why, DROP_SHORT);
	f->len = ETH_LEN + total;
	if (frame_csum_end(frame_csum_add(0, h, IP_LEN)))
		return drop(why, DROP_CHECKSUM);
	if (get_be16(h + 6) & 0x3fff)
		return drop(why, DROP_FRAGMENT);
	memcpy(&f->src.s_addr, h + 12, 4);
	memcpy(&f->dst.s_addr, h + 16, 4);
	f->proto = h[9];
	f->l4 = ETH_LEN + IP_LEN;
	if (f->src.s_addr != r->guest_ip.s_addr &&
	    !(f->src.s_addr == 0 && f->dst.s_addr == INADDR_BROADCAST && is_dhcp_client(f)))
		return drop(why, DROP_SOURCE_IP);
	switch (f->proto) {
	case IPPROTO_TCP:
		if (f->broadcast)
			return drop(why, DROP_DEST_MAC);
		return check_tcp(f, why);
	case IPPROTO_UDP:
		if (f->broadcast && !is_dhcp_client(f))
			return drop(why, DROP_DEST_MAC);
		return check_udp(f, why);
	case IPPROTO_ICMP:
		if (f->broadcast)
			return drop(why, DROP_DEST_MAC);
		return check_icmp(f, why);
	default:
		return drop(why, f->broadcast ? DROP_DEST_MAC : DROP_PROTOCOL);
	}
}

bool frame_check(struct frame *f, const struct frame_rules *r, const uint8_t *data, size_t len,
		 enum switch_drop *why)
{
	static const uint8_t everyone[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const uint8_t *h;

	*f = (struct frame){ .data = data, .len = len };
	h = frame_at(f, 0, ETH_LEN);
	if (!h)
		return drop(why, DROP_SHORT);
	if (memcmp(h + 6, r->guest_mac, 6))
		return drop(why, DROP_SOURCE_MAC);
	f->ethertype = get_be16(h + 12);
	/* 802.1Q, 802.1ad and the old stacking types: a tag would hide the real type. */
	if (f->ethertype == 0x8100 || f->ethertype == 0x88a8 || f->ethertype == 0x9100)
		return drop(why, DROP_VLAN);
	if (f->ethertype == ETHERTYPE_V6)
		return drop(why, DROP_IPV6);
	if (f->ethertype != ETHERTYPE_IPV4 && f->ethertype != ETHERTYPE_ARP4)
		return drop(why, DROP_ETHERTYPE);
	if (len > ETH_LEN + r->mtu && len > 60) /* 60: padding to the Ethernet minimum */
		return drop(why, DROP_OVERSIZE);
	f->broadcast = !memcmp(h, everyone, 6);
	if (!f->broadcast && memcmp(h, r->our_mac, 6))
		return drop(why, DROP_DEST_MAC);
	if (f->ethertype == ETHERTYPE_ARP4)
		return true;
	return check_ip(f, r, why);
}

uint8_t *frame_out_room(struct frame_out *o, size_t n)
{
	uint8_t *p = o->b + o->len;

	if (n > sizeof(o->b) - o->len)
		return NULL;
	memset(p, 0, n);
	o->len += n;
	return p;
}

void frame_out_bytes(struct frame_out *o, const void *p, size_t n)
{
	if (!n || n > sizeof(o->b) - o->len)
		return;
	memcpy(o->b + o->len, p, n);
	o->len += n;
}

void frame_out_eth(struct frame_out *o, const uint8_t dst[6], const uint8_t src[6],
		   uint16_t ethertype)
{
	o->len = 0;
	frame_out_bytes(o, dst, 6);
	frame_out_bytes(o, src, 6);
	put_be16(frame_out_room(o, 2), ethertype);
}

void frame_out_ip(struct frame_out *o, struct in_addr src, struct in_addr dst, uint8_t proto,
		  size_t l4_len, uint16_t id, uint16_t frag)
{
	uint8_t *h = frame_out_room(o, IP_LEN);

	h[0] = 0x45;
	put_be16(h + 2, (uint16_t)(IP_LEN + l4_len));
	put_be16(h + 4, id);
	put_be16(h + 6, frag);
	h[8] = 64;
	h[9] = proto;
	memcpy(h + 12, &src.s_addr, 4);
	memcpy(h + 16, &dst.s_addr, 4);
	put_be16(h + 10, frame_csum_end(frame_csum_add(0, h, IP_LEN)));
}
