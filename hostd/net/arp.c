/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ARP: the gateway is the only neighbour that the guest has. */
#include <string.h>

#include "hostd/net/ctx.h"

enum { ARP_REQUEST = 1, ARP_REPLY = 2 };

/* RFC 826 for Ethernet and IPv4. Sender fields must be the guest's own: a sender address of
 * 0.0.0.0 is a probe (RFC 5227). */
void arp_input(struct switch_ctx *c, const struct frame *f)
{
	static const uint8_t ethernet_ipv4[6] = { 0, 1, 8, 0, 6, 4 };
	const uint8_t *a = frame_at(f, ETH_LEN, ARP_LEN);
	struct frame_out o;
	uint16_t op;
	uint8_t *r;

	if (!a) {
		switch_drop(c, DROP_SHORT);
		return;
	}
	op = get_be16(a + 6);
	if (memcmp(a, ethernet_ipv4, 6) || (op != ARP_REQUEST && op != ARP_REPLY) ||
	    memcmp(a + 8, c->rules.guest_mac, 6) ||
	    (get_be32(a + 14) && memcmp(a + 14, &c->rules.guest_ip, 4))) {
		switch_drop(c, DROP_ARP);
		return;
	}
	/* Probes for other addresses, the guest's announcements and its replies need no answer. */
	if (op != ARP_REQUEST || memcmp(a + 24, &c->rules.gateway, 4))
		return;
	frame_out_eth(&o, c->rules.guest_mac, c->rules.our_mac, ETHERTYPE_ARP4);
	r = frame_out_room(&o, ARP_LEN);
	memcpy(r, ethernet_ipv4, 6);
	put_be16(r + 6, ARP_REPLY);
	memcpy(r + 8, c->rules.our_mac, 6);
	memcpy(r + 14, &c->rules.gateway, 4);
	memcpy(r + 18, a + 8, 10);
	switch_send(c, o.b, o.len);
}
