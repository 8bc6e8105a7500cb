/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ethernet frames of the guest: bounds-checked access, the checks at the door, building. */
#ifndef HOLDFAST_NET_FRAME_H
#define HOLDFAST_NET_FRAME_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hostd/net/switch.h"

enum {
	ETH_LEN = 14,
	IP_LEN = 20, /* options are refused, so always 20 */
	TCP_LEN = 20,
	UDP_LEN = 8,
	ICMP_LEN = 8,
	ARP_LEN = 28,
	FRAME_MAX = ETH_LEN + SWITCH_MTU_MAX,
};

enum { ETHERTYPE_IPV4 = 0x0800, ETHERTYPE_ARP4 = 0x0806, ETHERTYPE_V6 = 0x86dd };
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_PSH = 8, TCP_ACK = 16, TCP_URG = 32 };

/* What may come in. */
struct frame_rules {
	uint8_t guest_mac[6];
	uint8_t our_mac[6];
	struct in_addr guest_ip;
	struct in_addr gateway;
	unsigned mtu;
};

/* A frame that passed frame_check(). Offsets are into data; header fields in host order. */
struct frame {
	const uint8_t *data;
	size_t len; /* without Ethernet padding */
	bool broadcast;
	uint16_t ethertype; /* ETHERTYPE_ARP4 or ETHERTYPE_IPV4; the rest is for IPv4 only */
	struct in_addr src;
	struct in_addr dst;
	uint8_t proto;
	size_t l4;
	uint16_t sport;
	uint16_t dport;
	size_t payload;
	size_t payload_len;
	uint32_t seq; /* TCP */
	uint32_t ack;
	uint8_t flags;
	uint8_t icmp_type; /* ICMP; sport holds the identifier */
	uint8_t icmp_code;
	uint16_t icmp_seq;
};

/*
 * The only way to bytes of a frame: NULL when [off, off + n) is not wholly inside, so that
 * a forgotten check is a crash on page zero and never a read of what lies behind.
 */
const uint8_t *frame_at(const struct frame *f, size_t off, size_t n);

/*
 * Checks one frame and fills f. True: Ethernet, IP and transport headers are whole and
 * consistent, source addresses are the guest's own (0.0.0.0 for DHCP alone), nothing is
 * fragmented, and IP, UDP and ICMP checksums hold (TCP's is left to the TCP that
 * gets the segment; here it decides nothing that its sender could not say with a good one).
 * False: *why says which check failed; for DROP_PROTOCOL f is filled up to proto.
 */
bool frame_check(struct frame *f, const struct frame_rules *r, const uint8_t *data, size_t len,
		 enum switch_drop *why);

uint16_t get_be16(const uint8_t *p);
uint32_t get_be32(const uint8_t *p);
void put_be16(uint8_t *p, uint16_t v);
void put_be32(uint8_t *p, uint32_t v);

/* Internet checksum (RFC 1071) over n bytes, sum carried in; frame_csum_end() folds it. */
uint64_t frame_csum_add(uint64_t sum, const uint8_t *p, size_t n);
uint16_t frame_csum_end(uint64_t sum);
/* Sum of the pseudo header of TCP and UDP. */
uint64_t frame_csum_pseudo(struct in_addr src, struct in_addr dst, uint8_t proto, size_t l4_len);
/* RFC 1624: updates the checksum at csum for a 16-bit word that changes from old to new. */
void frame_csum_fix(uint8_t *csum, uint16_t old, uint16_t new);

/* Frames that we build go into one of these; functions append and never overflow: FRAME_MAX
 * is their bound, which callers check against the MTU first. */
struct frame_out {
	uint8_t b[FRAME_MAX];
	size_t len;
};

void frame_out_eth(struct frame_out *o, const uint8_t dst[6], const uint8_t src[6],
		   uint16_t ethertype);
/* Appends an IPv4 header for l4_len bytes to come; frag is the field of flags and offset. */
void frame_out_ip(struct frame_out *o, struct in_addr src, struct in_addr dst, uint8_t proto,
		  size_t l4_len, uint16_t id, uint16_t frag);
void frame_out_bytes(struct frame_out *o, const void *p, size_t n);
/* Room for n bytes, zeroed, or NULL when the frame would grow past its bound. */
uint8_t *frame_out_room(struct frame_out *o, size_t n);

#endif
