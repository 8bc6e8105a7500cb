/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ICMP: echo in, errors and echo replies out. Nothing else is taken from the guest. */
#include <string.h>

#include "hostd/net/flow.h"

enum { ICMP_TYPE_ECHO_REPLY = 0, ICMP_TYPE_ECHO = 8 };

void icmp_input(struct switch_ctx *c, const struct frame *f)
{
	if (f->icmp_type != ICMP_TYPE_ECHO || f->icmp_code != 0) {
		switch_drop(c, DROP_ICMP);
		return;
	}
	if (f->dst.s_addr == c->rules.gateway.s_addr) {
		icmp_send_echo_reply(c, f->dst, f->sport, f->icmp_seq,
				     frame_at(f, f->payload, f->payload_len), f->payload_len);
		return;
	}
	flow_input(c, f);
}

/* RFC 792 quotes the IP header and 8 bytes, RFC 1812 as much as fits 576; 8 are enough to find the
 * socket. The source is the gateway. */
void icmp_send_error(struct switch_ctx *c, const struct frame *f, uint8_t type, uint8_t code)
{
	size_t quote_len = IP_LEN + 8;
	const uint8_t *quote;
	struct frame_out o;
	uint8_t *h;

	if (f->len - ETH_LEN < quote_len)
		quote_len = f->len - ETH_LEN;
	quote = frame_at(f, ETH_LEN, quote_len);
	if (!quote)
		return;
	switch_out_ip(c, &o, c->rules.gateway, IPPROTO_ICMP, ICMP_LEN + quote_len);
	h = frame_out_room(&o, ICMP_LEN + quote_len);
	h[0] = type;
	h[1] = code;
	memcpy(h + ICMP_LEN, quote, quote_len);
	put_be16(h + 2, frame_csum_end(frame_csum_add(0, h, ICMP_LEN + quote_len)));
	switch_send(c, o.b, o.len);
}

void icmp_send_echo_reply(struct switch_ctx *c, struct in_addr src, uint16_t ident, uint16_t seq,
			  const uint8_t *payload, size_t n)
{
	struct frame_out o;
	uint8_t *h;

	if (IP_LEN + ICMP_LEN + n > c->rules.mtu)
		return;
	switch_out_ip(c, &o, src, IPPROTO_ICMP, ICMP_LEN + n);
	h = frame_out_room(&o, ICMP_LEN + n);
	h[0] = ICMP_TYPE_ECHO_REPLY;
	put_be16(h + 4, ident);
	put_be16(h + 6, seq);
	if (n)
		memcpy(h + ICMP_LEN, payload, n);
	put_be16(h + 2, frame_csum_end(frame_csum_add(0, h, ICMP_LEN + n)));
	switch_send(c, o.b, o.len);
}
