/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Flows: one entry for each (protocol, guest port, destination, port), bounded. */
#ifndef HOLDFAST_NET_FLOW_H
#define HOLDFAST_NET_FLOW_H

#include "hostd/net/ctx.h"

enum flow_state {
	FLOW_FREE,
	FLOW_ASKING,	 /* first packet held, verdict open */
	FLOW_CONNECTING, /* allowed; the host side is not connected yet (TCP) */
	FLOW_HANDSHAKE,	 /* libslirp has the SYN; fd is ours until the guest's ACK (TCP) */
	FLOW_OPEN,
	FLOW_CLOSING,	 /* ended was told; libslirp still holds the socket (TCP) */
	FLOW_REFUSED,	 /* datagrams only: refused again without asking until the deadline */
};

/* Private part of a flow. The table owns it; pointers live until flow_free(). */
struct flow_entry {
	struct switch_ctx *c;
	struct flow pub;
	enum flow_state state;
	struct flow_entry *hash_next;
	struct flow_entry *free_next;
	uint64_t deadline_ms; /* 0: none */
	bool ended_told;
	bool rejudge; /* waits for a free question */
	uint8_t *held; /* first packet, headers and for datagrams the payload */
	size_t held_len;
	int fd;			/* host side while ours, else -1 */
	struct loop_fd *watch; /* of fd */
	/* TCP, see nat.c */
	uint16_t nat_port; /* 0: libslirp does not know it */
	int slirp_fd;	   /* the host's socket once it is libslirp's, else -1 */
	uint32_t isn_up;
	uint32_t ack_up;    /* what libslirp acknowledged */
	uint32_t next_down; /* what was sent to the guest, plus one */
	uint32_t fin_up_seq;
	bool seen_down; /* libslirp has answered the SYN */
	bool fin_up, fin_up_acked, fin_down, reset_up, reset_sent;
	/* marks for nat_settle() */
	bool broken, killed, over, reset_down, slirp_gone;
};

int flow_table_new(struct switch_ctx *c);
void flow_table_free(struct switch_ctx *c);

/* One TCP, UDP or echo-request frame that is for no service of ours. */
void flow_input(struct switch_ctx *c, const struct frame *f);
/* Question id timed out. */
void flow_ask_expired(struct switch_ctx *c, uint64_t id);
void flow_tick(struct switch_ctx *c, uint64_t now_ms);

/* The host side could not be reached: tell the guest in the way of err_no. */
void flow_unreachable(struct switch_ctx *c, struct flow_entry *e, int err_no);
/* The flow is over: counts, tells FLOW_ENDED once. The entry stays. */
void flow_ended(struct switch_ctx *c, struct flow_entry *e, const char *reason);
/* Gives the entry back; closes its fd. */
void flow_free(struct switch_ctx *c, struct flow_entry *e);
/* Closes an allowed flow both ways and tells FLOW_ENDED. */
void flow_close(struct switch_ctx *c, struct flow_entry *e, const char *reason);

/* The entry at this place of the table, NULL when free or out of range. */
struct flow_entry *flow_at(const struct switch_ctx *c, size_t i);

/* The held packet as a frame again. */
bool flow_held_frame(struct switch_ctx *c, const struct flow_entry *e, struct frame *f);

#endif
