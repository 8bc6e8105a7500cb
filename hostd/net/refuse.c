/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Refusals: a reset or "administratively prohibited", at once, so that no client waits. */
#include <string.h>

#include "hostd/net/ctx.h"

enum { ICMP_UNREACHABLE = 3, ICMP_ADMIN_PROHIBITED = 13 };

/* RFC 9293 3.5.2: the reset that a closed port gives. */
void refuse_tcp_reset(struct switch_ctx *c, const struct frame *f)
{
	struct frame_out o;
	uint8_t *h;

	if (f->flags & TCP_RST)
		return;
	switch_out_ip(c, &o, f->dst, IPPROTO_TCP, TCP_LEN);
	h = frame_out_room(&o, TCP_LEN);
	put_be16(h, f->dport);
	put_be16(h + 2, f->sport);
	if (f->flags & TCP_ACK) {
		put_be32(h + 4, f->ack);
		h[13] = TCP_RST;
	} else {
		uint32_t len = (uint32_t)f->payload_len + !!(f->flags & TCP_SYN) +
			       !!(f->flags & TCP_FIN);

		put_be32(h + 8, f->seq + len);
		h[13] = TCP_RST | TCP_ACK;
	}
	h[12] = TCP_LEN / 4 << 4;
	put_be16(h + 16, frame_csum_end(frame_csum_add(
				 frame_csum_pseudo(f->dst, f->src, IPPROTO_TCP, TCP_LEN), h,
				 TCP_LEN)));
	switch_send(c, o.b, o.len);
}

static bool is_multicast(struct in_addr addr)
{
	return ntohl(addr.s_addr) >> 28 >= 14;
}

void refuse_frame(struct switch_ctx *c, const struct frame *f)
{
	if (f->proto == IPPROTO_TCP)
		refuse_tcp_reset(c, f);
	else if (!is_multicast(f->dst)) /* RFC 1122 3.2.2: never about a multicast */
		icmp_send_error(c, f, ICMP_UNREACHABLE, ICMP_ADMIN_PROHIBITED);
}
