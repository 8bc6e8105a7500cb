/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The network of one VM: a switch with one guest port, its DHCP, DNS and NAT.
 *
 * The switch knows no QEMU, no policy and no roles. It asks through struct switch_ops and is
 * answered later (or from inside the callback) by the switch_*_verdict() calls. Everything runs
 * on one loop and never blocks. The process ignores SIGPIPE (libslirp writes with send()) and
 * may hold one descriptor for each flow.
 * docs/protocol/network.md says what the guest sees.
 */
#ifndef HOLDFAST_NET_SWITCH_H
#define HOLDFAST_NET_SWITCH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

struct loop;
struct switch_ctx;

#define SWITCH_MTU_DEFAULT 1280
#define SWITCH_MTU_MIN 576
#define SWITCH_MTU_MAX 9000
#define SWITCH_NAMESERVERS_MAX 3
#define SWITCH_ASKS_MAX 256	  /* open questions of all three kinds */
#define SWITCH_ASK_MS 10000	  /* an unanswered question is a no */
#define SWITCH_FLOWS_MAX 2048	  /* a new flow beyond that is refused */
#define SWITCH_DEST_MAX 8	  /* addresses of one answer */
#define SWITCH_NAME_MAX 254	  /* bytes with the final NUL */
#define SWITCH_RUN_DIR_MAX 92	  /* a unix socket's path is short */
#define SWITCH_TEXT_MAX 192	  /* rule and reason, bytes with the final NUL */

/* This name is the host itself. When policy allows it, it is answered with the
 * gateway address; a flow to the gateway reaches the host's 127.0.0.1 only with
 * the verdict FLOW_ALLOW_HOST. */
#define SWITCH_HOST_NAME "host.holdfast.internal"

enum flow_verdict {
	FLOW_DENY = 0,
	FLOW_ALLOW,	 /* connect from the host to dst:dport */
	FLOW_ALLOW_HOST, /* a rule names the host: 127.0.0.1:dport; only for dst = gateway */
	FLOW_INSPECT,	 /* hand the flow over as a fd: ops->flow_handover */
};

enum flow_what {
	FLOW_ALLOWED, /* verdict given, connecting */
	FLOW_DENIED,  /* refused: RST or ICMP 3/13 is on its way; reason says why */
	FLOW_ENDED,   /* was allowed and is over; bytes are final, reason says how */
};

/* What the caller sees of a flow; valid during the callback only. */
struct flow {
	uint64_t id;	      /* unique in the life of the switch, never 0 */
	uint8_t proto;	      /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP (echo) */
	uint16_t sport;	      /* guest port (ICMP: identifier), host byte order */
	uint16_t dport;	      /* host byte order (ICMP: 0) */
	struct in_addr dst;   /* original destination */
	bool synthetic;	      /* dst was given out for a refused name: any verdict is a no */
	bool rejudged;	      /* asked again by switch_rejudge() while open */
	char name[SWITCH_NAME_MAX]; /* last name that dst was given out for, "" if none */
	size_t name_n;	      /* live names of dst; > 1 when hosts share the address */
	enum flow_verdict verdict;
	char rule[SWITCH_TEXT_MAX];
	char reason[SWITCH_TEXT_MAX];
	uint64_t bytes_up;    /* payload from the guest, accepted by the host side */
	uint64_t bytes_down;  /* payload sent to the guest */
	uint64_t start_ms;    /* CLOCK_MONOTONIC */
	uint64_t end_ms;      /* 0 while open */
};

struct switch_ops {
	/* May this flow be? Answer with switch_flow_verdict(). The first packet is
	 * held, retransmits do not ask again. */
	void (*flow_ask)(void *u, uint64_t id, const struct flow *f);
	/* May this name (lower case, no final dot) be resolved? qtype is 1 (A).
	 * Answer with switch_name_verdict(). */
	void (*name_ask)(void *u, uint64_t id, const char *name, uint16_t qtype);
	/* The name has these addresses: which may be given out?
	 * Answer with switch_dest_verdict(). */
	void (*dest_ask)(void *u, uint64_t id, const char *name, const struct in_addr *addrs,
			 size_t n);
	/* NULL allowed. */
	void (*flow_event)(void *u, const struct flow *f, enum flow_what what);
	/* FLOW_INSPECT: fd is the guest's byte stream, owned by the callee, who also
	 * opens the other leg. NULL: FLOW_INSPECT is refused ("no proxy"). */
	void (*flow_handover)(void *u, const struct flow *f, int fd);
	/* The guest's end of the link is gone (EOF, error or a broken length); the
	 * switch has dropped the fd. NULL allowed. */
	void (*link_down)(void *u, const char *why);
};

struct switch_config {
	uint8_t guest_mac[6];
	struct in_addr guest_ip; /* the one lease */
	struct in_addr gateway;	 /* also DHCP and DNS server */
	unsigned prefix_len;	 /* 8..30; guest_ip and gateway lie in it */
	unsigned mtu;		 /* 0 = SWITCH_MTU_DEFAULT */
	const char *hostname;	 /* offered by DHCP; NULL = none */
	struct sockaddr_in nameservers[SWITCH_NAMESERVERS_MAX]; /* upstream; port 0 = 53 */
	size_t nameserver_n;	 /* 0: allowed names get SERVFAIL */
	const char *run_dir;	 /* private (0700) directory for one socket; it must
				  * stay writable and connectable once the role is confined */
};

/* Why a frame was dropped; every one is counted. */
enum switch_drop {
	DROP_SHORT,	  /* truncated header of any layer, or lengths that disagree */
	DROP_OVERSIZE,	  /* longer than MTU + 14 */
	DROP_SOURCE_MAC,
	DROP_SOURCE_IP,
	DROP_DEST_MAC,	  /* neither ours nor broadcast */
	DROP_ETHERTYPE,
	DROP_VLAN,
	DROP_IPV6,
	DROP_IP_OPTIONS,
	DROP_FRAGMENT,
	DROP_CHECKSUM,
	DROP_PROTOCOL,	  /* not TCP, UDP or ICMP */
	DROP_ARP,	  /* spoofed or malformed ARP */
	DROP_DHCP,	  /* DHCP that no client sends, or malformed */
	DROP_ICMP,	  /* other than echo request */
	DROP_TCP_FLAGS,	  /* impossible flag combinations */
	DROP_DNS,	  /* malformed query */
	DROP_BACKLOG,	  /* the guest does not take frames */
	DROP_MAX,
};

struct switch_stats {
	uint64_t frames_in, frames_out, frame_bytes_in, frame_bytes_out;
	uint64_t drops[DROP_MAX];
	uint64_t flows_allowed, flows_denied, flows_ended;
	uint64_t denied_untold; /* refused without asking, beyond the rate that is told */
	uint64_t asks, asks_timed_out, asks_full; /* full: refused without asking */
	uint64_t dns_queries, dns_refused, dns_synthetic, dns_pinned, dns_upstream;
	uint64_t bytes_up, bytes_down;		  /* payload of all flows, ended and open */
	size_t flows_open, asks_open;
	bool cut;
};

/* run_dir, hostname are copied; ops and cfg need not outlive the call, u must.
 * NULL with err on a bad config or without resources. */
struct switch_ctx *switch_new(struct loop *loop, const struct switch_config *cfg,
			      const struct switch_ops *ops, void *u, struct err *err);
/* Cuts every flow without events and frees all. NULL allowed. Not from inside a callback. */
void switch_free(struct switch_ctx *sw);

/* Take a connected stream socket whose other end is QEMU's
 * `-netdev stream` (u32 big-endian length, Ethernet frame). Owned by the switch
 * when 0 is returned. A second call replaces the first link (QEMU restarted). */
int switch_attach(struct switch_ctx *sw, int fd, struct err *err);
void switch_detach(struct switch_ctx *sw);

/* Answers. -1: no such question is open (late, or the flow is gone). rule and reason may
 * be NULL and are copied, cut at SWITCH_TEXT_MAX. */
int switch_flow_verdict(struct switch_ctx *sw, uint64_t id, enum flow_verdict verdict,
			const char *rule, const char *reason);
int switch_name_verdict(struct switch_ctx *sw, uint64_t id, bool allowed, const char *reason);
/* keep: the subset of the asked addresses that may be given out, n = 0 for none. */
int switch_dest_verdict(struct switch_ctx *sw, uint64_t id, const struct in_addr *keep,
			size_t n, const char *reason);

/* Quarantine: close every open flow both ways and refuse all that comes, names
 * included, until switch_uncut(). DHCP and ARP go on. */
void switch_cut(struct switch_ctx *sw, const char *reason);
void switch_uncut(struct switch_ctx *sw);

/* Policy changed: every open flow is asked again and closed both ways where the
 * answer is no (or does not come); answers kept for names are forgotten. */
void switch_rejudge(struct switch_ctx *sw);

/* Close one flow both ways. -1: no such flow. */
int switch_flow_close(struct switch_ctx *sw, uint64_t id, const char *reason);

void switch_stats_get(const struct switch_ctx *sw, struct switch_stats *out);
const char *switch_drop_name(enum switch_drop why);
/* Calls fn for every open flow, with byte counts of now. */
void switch_flows_each(const struct switch_ctx *sw, void (*fn)(void *u, const struct flow *f),
		       void *u);

#endif
