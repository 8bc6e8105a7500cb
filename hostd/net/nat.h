/* SPDX-License-Identifier: GPL-2.0-or-later */
/* TCP of allowed flows: the guest's segments to a host socket, through libslirp. */
#ifndef HOLDFAST_NET_NAT_H
#define HOLDFAST_NET_NAT_H

#include "hostd/net/flow.h"

int nat_new(struct switch_ctx *c, struct err *err);
void nat_free(struct switch_ctx *c);

/* Connects the host side of an allowed TCP flow; the SYN goes on when it stands. */
void nat_tcp_connect(struct switch_ctx *c, struct flow_entry *e, struct sockaddr_in dst);
/* Takes fd (owned from here) as the host side; it is connected already. */
void nat_tcp_adopt(struct switch_ctx *c, struct flow_entry *e, int fd);
/* A segment of a flow that libslirp knows. */
void nat_tcp_input(struct switch_ctx *c, struct flow_entry *e, const struct frame *f);
/* Resets the flow towards the host at once, and towards the guest unless it knows. */
void nat_tcp_kill(struct switch_ctx *c, struct flow_entry *e, bool tell_guest);
/* After a batch of frames: let libslirp's timers, sockets and polling catch up. */
void nat_settle(struct switch_ctx *c);

/* datagram.c: UDP and ICMP echo, one connected socket for each flow. */
void datagram_open(struct switch_ctx *c, struct flow_entry *e, struct sockaddr_in dst);
void datagram_input(struct switch_ctx *c, struct flow_entry *e, const struct frame *f);

#endif
