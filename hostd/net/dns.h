/* SPDX-License-Identifier: GPL-2.0-or-later */
/* DNS as the guest sees it: the parser of its queries, and the answers. */
#ifndef HOLDFAST_NET_DNS_H
#define HOLDFAST_NET_DNS_H

#include "hostd/net/ctx.h"

enum { DNS_A = 1, DNS_NULL = 10, DNS_TXT = 16, DNS_AAAA = 28, DNS_SVCB = 64, DNS_HTTPS = 65 };
enum { DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4,
       DNS_REFUSED = 5 };
enum { DNS_MESSAGE_MAX = 512 };

struct dns_query {
	uint16_t id;
	bool recursion_desired;
	uint16_t qtype;
	char name[SWITCH_NAME_MAX]; /* lower case, no final dot; "" is the root */
	uint8_t question[SWITCH_NAME_MAX + 2 + 4]; /* as asked: the answer repeats its case */
	size_t question_len;
};

/*
 * Reads one query (RFC 1035 4.1). 0: q is filled. -1: not a query that a stub resolver
 * sends (drop it). Else the response code that it earns; q is filled as far as the id
 * and, unless it is DNS_FORMERR, the question.
 */
int dns_query_parse(struct dns_query *q, const uint8_t *p, size_t n);
/* Writes an answer; returns its length, at most DNS_MESSAGE_MAX. */
size_t dns_answer_build(uint8_t out[DNS_MESSAGE_MAX], const struct dns_query *q, int rcode,
			const struct in_addr *addrs, size_t n, uint32_t ttl_s);
/* A name that may be asked upstream: labels of letters, digits, '-' and '_', and not a number
 * in disguise ("127.1", "0x7f.1"), which a resolver library may take for an address. */
bool dns_name_is_hostname(const char *name);

int dns_new(struct switch_ctx *c);
void dns_free(struct switch_ctx *c);
void dns_input(struct switch_ctx *c, const struct frame *f);
void dns_ask_expired(struct switch_ctx *c, enum ask_kind kind, uint64_t id);
void dns_tick(struct switch_ctx *c, uint64_t now_ms);

enum resolve_status { RESOLVE_OK, RESOLVE_NXDOMAIN, RESOLVE_NODATA, RESOLVE_FAILED };

/* resolve.c tells the result of resolver_start() here, also from inside it. */
void dns_resolved(struct switch_ctx *c, uint64_t id, enum resolve_status status,
		  const struct in_addr *addrs, size_t n, unsigned ttl_s);

/* resolve.c: c-ares on the loop. */
int resolver_new(struct switch_ctx *c, const struct switch_config *cfg, struct err *err);
void resolver_free(struct switch_ctx *c);
void resolver_start(struct switch_ctx *c, uint64_t id, const char *name);

#endif
