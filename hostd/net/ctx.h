/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of one switch, shared by the files of this folder and by nobody else. */
#ifndef HOLDFAST_NET_CTX_H
#define HOLDFAST_NET_CTX_H

#include "hostd/net/frame.h"
#include "hostd/net/switch.h"
#include "lib/loop.h"

struct nat;
struct resolver;
struct flow_table;
struct name_table;
struct dns;
struct link;

enum ask_kind { ASK_NONE, ASK_FLOW, ASK_NAME, ASK_DEST };

/* One open question; for ASK_FLOW the id is the flow's. */
struct ask {
	enum ask_kind kind;
	uint64_t id;
	uint64_t deadline_ms;
};

struct switch_ctx {
	struct loop *loop;
	struct switch_ops ops;
	void *u;
	struct frame_rules rules;
	struct in_addr netmask;
	char hostname[64];
	char run_dir[96];
	uint16_t ip_id; /* of fragmented datagrams */
	uint64_t serial; /* last id given to a flow or question */
	struct ask asks[SWITCH_ASKS_MAX];
	size_t asks_open;
	struct switch_stats stats;
	bool cut;
	char cut_reason[SWITCH_TEXT_MAX];
	unsigned event_tokens; /* limits the telling of denials that no one was asked about */
	uint64_t event_tokens_ms;
	struct loop_timer *tick;
	struct link *link;
	struct flow_table *flows;
	struct name_table *names;
	struct dns *dns;
	struct resolver *resolver;
	struct nat *nat;
};

/* switch.c: queue a frame for the guest; counted as DROP_BACKLOG when it takes none. */
void switch_send(struct switch_ctx *c, const uint8_t *frame, size_t len);
/* True while the guest is slow: read nothing more for it from the outside. */
bool switch_congested(const struct switch_ctx *c);
/* Starts a frame from the gateway to the guest. */
void switch_out_ip(struct switch_ctx *c, struct frame_out *o, struct in_addr src, uint8_t proto,
		   size_t l4_len);
/* Sends payload as UDP from src:sport to the guest, in fragments where the MTU wants it. */
void switch_send_udp(struct switch_ctx *c, struct in_addr src, uint16_t sport, struct in_addr dst,
		     uint16_t dport, const uint8_t *payload, size_t n);
/* Ends every entry from outside: lets the NAT catch up and writes what is queued. */
void switch_settle(struct switch_ctx *c);
void switch_drop(struct switch_ctx *c, enum switch_drop why);

/* ask.c: false when SWITCH_ASKS_MAX are open. */
bool ask_open(struct switch_ctx *c, enum ask_kind kind, uint64_t id);
/* False when no such question is open: its answer is then late. */
bool ask_close(struct switch_ctx *c, enum ask_kind kind, uint64_t id);
/* Closes what is past its deadline and tells the owner. */
void ask_tick(struct switch_ctx *c, uint64_t now_ms);

/* arp.c, dhcp.c, icmp.c: one frame that passed frame_check(). */
void arp_input(struct switch_ctx *c, const struct frame *f);
void dhcp_input(struct switch_ctx *c, const struct frame *f);
void icmp_input(struct switch_ctx *c, const struct frame *f);

/* icmp.c: an ICMP message to the guest that quotes f. */
void icmp_send_error(struct switch_ctx *c, const struct frame *f, uint8_t type, uint8_t code);
void icmp_send_echo_reply(struct switch_ctx *c, struct in_addr src, uint16_t ident, uint16_t seq,
			  const uint8_t *payload, size_t n);

/* refuse.c: the answer that ends a connection attempt at once. */
void refuse_frame(struct switch_ctx *c, const struct frame *f);
void refuse_tcp_reset(struct switch_ctx *c, const struct frame *f);

#endif
