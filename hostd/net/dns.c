/* SPDX-License-Identifier: GPL-2.0-or-later */
/* DNS as the guest sees it: the parser of its queries, and the answers.
 *
 * Goal: a name leaves the machine only when policy allows it. So nothing of a query is ever
 * forwarded; for an allowed name we ask a question of our own (resolve.c), and the rest is
 * answered from here:
 *
 *   A, allowed            upstream's addresses that policy lets pass, pinned (name.c)
 *   A, refused            one synthetic address, TTL 1: the connection is then refused, and
 *                         its row carries the name
 *   AAAA, SVCB, HTTPS     NOERROR without records: NXDOMAIN would spoil the A answer
 *   everything else       REFUSED (TXT, NULL and friends carry data in both directions)
 *   no hostname           REFUSED, never asked
 *
 * A query goes ASKED_NAME -> RESOLVING -> ASKED_DEST -> answered. It is found again by its
 * number only, since an answer of policy or of c-ares may come after it was given up. A
 * hostile guest may send anything: what no stub resolver sends is dropped and counted, a
 * retransmit of an open query is ignored, and no more than QUERIES_MAX are open at once.
 */
#include "hostd/net/dns.h"

#include <stdlib.h>
#include <string.h>

#include "hostd/net/name.h"
#include "lib/buf.h"

enum { QUERIES_MAX = 128, SYNTHETIC_TTL_S = 1, HOST_TTL_S = 60 };

enum query_state { QUERY_FREE, QUERY_ASKED_NAME, QUERY_RESOLVING, QUERY_ASKED_DEST };

struct pending {
	enum query_state state;
	uint64_t id; /* of the question to policy, and for the resolver */
	uint64_t deadline_ms;
	uint16_t sport;
	struct dns_query q;
	struct in_addr addrs[SWITCH_DEST_MAX];
	size_t n;
	unsigned ttl_s;
};

struct dns {
	struct pending queries[QUERIES_MAX];
};

int dns_new(struct switch_ctx *c)
{
	c->dns = calloc(1, sizeof(*c->dns));
	return c->dns ? 0 : -1;
}

void dns_free(struct switch_ctx *c)
{
	free(c->dns);
}

/* ---- parser ---- */

/* RFC 1035 3.1. No compression pointers: a question has nothing to point at. */
static int parse_name(struct rd *r, char out[SWITCH_NAME_MAX], bool *odd)
{
	size_t len = 0;
	const uint8_t *label;
	uint8_t n;

	for (;;) {
		if (rd_u8(r, &n) || n > 63)
			return -1;
		if (n == 0)
			break;
		if (rd_bytes(r, &label, n) || len + n + 1 >= SWITCH_NAME_MAX)
			return -1;
		if (len)
			out[len++] = '.';
		for (size_t i = 0; i < n; i++) {
			uint8_t b = label[i];

			if (b >= 'A' && b <= 'Z')
				b = (uint8_t)(b - 'A' + 'a');
			if (!((b >= 'a' && b <= 'z') || (b >= '0' && b <= '9') || b == '-' ||
			      b == '_')) {
				*odd = true;
				b = '?';
			}
			out[len++] = (char)b;
		}
	}
	out[len] = '\0';
	return 0;
}

/* One EDNS OPT record (RFC 6891) may follow the question. */
static int parse_additional(struct rd *r, uint16_t n)
{
	uint8_t root;
	uint16_t type, class, len;
	uint32_t ttl;

	if (n == 0)
		return r->left ? -1 : 0;
	if (n != 1 || rd_u8(r, &root) || root || rd_u16(r, &type) || type != 41 ||
	    rd_u16(r, &class) || rd_u32(r, &ttl) || rd_u16(r, &len) || rd_skip(r, len) || r->left)
		return -1;
	return 0;
}

int dns_query_parse(struct dns_query *q, const uint8_t *p, size_t n)
{
	uint16_t flags, questions, answers, authorities, additional, class;
	bool odd = false;
	const uint8_t *question;
	struct rd r;

	memset(q, 0, sizeof(*q));
	rd_init(&r, p, n);
	if (rd_u16(&r, &q->id) || rd_u16(&r, &flags) || rd_u16(&r, &questions) ||
	    rd_u16(&r, &answers) || rd_u16(&r, &authorities) || rd_u16(&r, &additional))
		return -1;
	if (flags & 0x8000)
		return -1;
	q->recursion_desired = flags & 0x0100;
	if (questions != 1 || answers || authorities)
		return DNS_FORMERR;
	question = r.p;
	if (parse_name(&r, q->name, &odd) || rd_u16(&r, &q->qtype) || rd_u16(&r, &class))
		return DNS_FORMERR;
	q->question_len = (size_t)(r.p - question);
	if (q->question_len > sizeof(q->question)) {
		q->question_len = 0;
		return DNS_FORMERR;
	}
	memcpy(q->question, question, q->question_len);
	if (parse_additional(&r, additional)) {
		q->question_len = 0;
		return DNS_FORMERR;
	}
	if (flags & 0x7800)
		return DNS_NOTIMP;
	if (odd || class != 1)
		return DNS_REFUSED;
	return 0;
}

bool dns_name_is_hostname(const char *name)
{
	const char *last = strrchr(name, '.');
	size_t label = 0;

	for (const char *s = name; *s; s++) {
		if (*s == '.') {
			if (!label)
				return false;
			label = 0;
		} else if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '-' ||
			     *s == '_') ||
			   ++label > 63) {
			return false;
		}
	}
	/* inet_aton() takes what ends in a number, in any base, for an address. */
	last = last ? last + 1 : name;
	return label && !(last[0] >= '0' && last[0] <= '9');
}

size_t dns_answer_build(uint8_t out[DNS_MESSAGE_MAX], const struct dns_query *q, int rcode,
			const struct in_addr *addrs, size_t n, uint32_t ttl_s)
{
	/* Name as a pointer to the question at offset 12, type A, class IN. */
	static const uint8_t head[6] = { 0xc0, 12, 0, 1, 0, 1 };
	uint8_t *p = out + 12;

	if (n > SWITCH_DEST_MAX)
		n = SWITCH_DEST_MAX;
	memset(out, 0, 12);
	put_be16(out, q->id);
	put_be16(out + 2, (uint16_t)(0x8080 | (q->recursion_desired ? 0x0100 : 0) | rcode));
	put_be16(out + 4, q->question_len ? 1 : 0);
	put_be16(out + 6, (uint16_t)n);
	memcpy(p, q->question, q->question_len);
	p += q->question_len;
	for (size_t i = 0; i < n; i++) {
		memcpy(p, head, 6);
		put_be32(p + 6, ttl_s);
		put_be16(p + 10, 4);
		memcpy(p + 12, &addrs[i].s_addr, 4);
		p += 16;
	}
	return (size_t)(p - out);
}

_Static_assert(12 + sizeof(((struct dns_query *)0)->question) + 16 * SWITCH_DEST_MAX <=
		       DNS_MESSAGE_MAX,
	       "the longest answer must fit");

/* ---- answers ---- */

static void answer(struct switch_ctx *c, uint16_t sport, const struct dns_query *q, int rcode,
		   const struct in_addr *addrs, size_t n, uint32_t ttl_s)
{
	uint8_t out[DNS_MESSAGE_MAX];
	size_t len = dns_answer_build(out, q, rcode, addrs, n, ttl_s);

	if (rcode == DNS_REFUSED)
		c->stats.dns_refused++;
	switch_send_udp(c, c->rules.gateway, 53, c->rules.guest_ip, sport, out, len);
}

static void finish(struct switch_ctx *c, struct pending *p, int rcode, const struct in_addr *addrs,
		   size_t n, uint32_t ttl_s)
{
	answer(c, p->sport, &p->q, rcode, addrs, n, ttl_s);
	p->state = QUERY_FREE;
}

static void finish_synthetic(struct switch_ctx *c, struct pending *p)
{
	struct in_addr addr = name_synthetic(c, p->q.name);

	c->stats.dns_synthetic++;
	finish(c, p, DNS_NOERROR, &addr, 1, SYNTHETIC_TTL_S);
}

static struct pending *pending_by_id(struct switch_ctx *c, enum query_state state, uint64_t id)
{
	for (size_t i = 0; i < QUERIES_MAX; i++) {
		struct pending *p = &c->dns->queries[i];

		if (p->state == state && p->id == id)
			return p;
	}
	return NULL;
}

static bool is_retransmit(const struct switch_ctx *c, uint16_t sport, const struct dns_query *q)
{
	for (size_t i = 0; i < QUERIES_MAX; i++) {
		const struct pending *p = &c->dns->queries[i];

		if (p->state != QUERY_FREE && p->sport == sport && p->q.id == q->id &&
		    p->q.question_len == q->question_len &&
		    !memcmp(p->q.question, q->question, q->question_len))
			return true;
	}
	return false;
}

static void ask_name(struct switch_ctx *c, uint16_t sport, const struct dns_query *q)
{
	struct pending *p = NULL;

	if (is_retransmit(c, sport, q))
		return;
	for (size_t i = 0; i < QUERIES_MAX && !p; i++) {
		if (c->dns->queries[i].state == QUERY_FREE)
			p = &c->dns->queries[i];
	}
	if (!p || !ask_open(c, ASK_NAME, c->serial + 1)) {
		answer(c, sport, q, DNS_SERVFAIL, NULL, 0, 0);
		return;
	}
	*p = (struct pending){
		.state = QUERY_ASKED_NAME,
		.id = ++c->serial,
		.deadline_ms = loop_now_ms() + 2 * SWITCH_ASK_MS,
		.sport = sport,
		.q = *q,
	};
	c->ops.name_ask(c->u, p->id, q->name, q->qtype);
}

static int rcode_of_type(uint16_t qtype)
{
	switch (qtype) {
	case DNS_AAAA:
	case DNS_SVCB:
	case DNS_HTTPS:
		return DNS_NOERROR;
	default:
		return DNS_REFUSED;
	}
}

void dns_input(struct switch_ctx *c, const struct frame *f)
{
	const uint8_t *p = frame_at(f, f->payload, f->payload_len);
	struct dns_query q;
	int rcode;

	c->stats.dns_queries++;
	rcode = p ? dns_query_parse(&q, p, f->payload_len) : -1;
	if (rcode == -1 || rcode == DNS_FORMERR)
		switch_drop(c, DROP_DNS);
	if (rcode == -1)
		return;
	if (rcode == 0 && (c->cut || !dns_name_is_hostname(q.name)))
		rcode = DNS_REFUSED;
	if (rcode == 0 && q.qtype == DNS_A)
		ask_name(c, f->sport, &q);
	else
		answer(c, f->sport, &q, rcode ? rcode : rcode_of_type(q.qtype), NULL, 0, 0);
}

/* From here on the name may leave the machine. */
static void name_allowed(struct switch_ctx *c, struct pending *p)
{
	const struct name_pin *pin;
	unsigned ttl_s;

	if (!strcmp(p->q.name, SWITCH_HOST_NAME)) {
		name_pin(c, p->q.name, &c->rules.gateway, 1, HOST_TTL_S);
		finish(c, p, DNS_NOERROR, &c->rules.gateway, 1, HOST_TTL_S);
		return;
	}
	pin = name_pin_fresh(c, p->q.name, &ttl_s);
	if (pin) {
		c->stats.dns_pinned++;
		finish(c, p, DNS_NOERROR, pin->addrs, pin->n, ttl_s);
		return;
	}
	p->state = QUERY_RESOLVING;
	c->stats.dns_upstream++;
	resolver_start(c, p->id, p->q.name);
}

int switch_name_verdict(struct switch_ctx *c, uint64_t id, bool allowed, const char *reason)
{
	struct pending *p = pending_by_id(c, QUERY_ASKED_NAME, id);

	(void)reason; /* the caller's row has it; the guest learns it from the refused flow */
	if (!ask_close(c, ASK_NAME, id) || !p)
		return -1;
	if (c->cut)
		finish(c, p, DNS_REFUSED, NULL, 0, 0);
	else if (!allowed)
		finish_synthetic(c, p);
	else
		name_allowed(c, p);
	switch_settle(c);
	return 0;
}

static int rcode_of_status(enum resolve_status status)
{
	switch (status) {
	case RESOLVE_NXDOMAIN:
		return DNS_NXDOMAIN;
	case RESOLVE_OK:
	case RESOLVE_NODATA:
		return DNS_NOERROR;
	default:
		return DNS_SERVFAIL;
	}
}

void dns_resolved(struct switch_ctx *c, uint64_t id, enum resolve_status status,
		  const struct in_addr *addrs, size_t n, unsigned ttl_s)
{
	struct pending *p = pending_by_id(c, QUERY_RESOLVING, id);

	if (!p)
		return;
	if (c->cut) {
		finish(c, p, DNS_REFUSED, NULL, 0, 0);
	} else if (status != RESOLVE_OK) {
		finish(c, p, rcode_of_status(status), NULL, 0, 0);
	} else if (!ask_open(c, ASK_DEST, id)) {
		finish(c, p, DNS_SERVFAIL, NULL, 0, 0);
	} else {
		p->n = n > SWITCH_DEST_MAX ? SWITCH_DEST_MAX : n;
		memcpy(p->addrs, addrs, p->n * sizeof(*addrs));
		p->ttl_s = ttl_s;
		p->state = QUERY_ASKED_DEST;
		c->ops.dest_ask(c->u, id, p->q.name, p->addrs, p->n);
	}
	switch_settle(c);
}

/* Addresses that reach no other host, or that mean something else here: no rule can want them. */
static bool is_never_given(const struct switch_ctx *c, struct in_addr addr)
{
	uint32_t a = ntohl(addr.s_addr);

	return a >> 24 == 0 || a >> 24 == 127 || a >> 16 == 0xa9fe || a >> 28 >= 14 ||
	       name_is_synthetic(addr) ||
	       ((addr.s_addr ^ c->rules.gateway.s_addr) & c->netmask.s_addr) == 0;
}

static bool was_asked(const struct pending *p, struct in_addr addr)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->addrs[i].s_addr == addr.s_addr)
			return true;
	}
	return false;
}

int switch_dest_verdict(struct switch_ctx *c, uint64_t id, const struct in_addr *keep, size_t n,
			const char *reason)
{
	struct pending *p = pending_by_id(c, QUERY_ASKED_DEST, id);
	struct in_addr given[SWITCH_DEST_MAX];
	size_t given_n = 0;

	(void)reason;
	if (!ask_close(c, ASK_DEST, id) || !p)
		return -1;
	for (size_t i = 0; i < n && given_n < SWITCH_DEST_MAX; i++) {
		if (was_asked(p, keep[i]) && !is_never_given(c, keep[i]))
			given[given_n++] = keep[i];
	}
	if (c->cut) {
		finish(c, p, DNS_REFUSED, NULL, 0, 0);
	} else if (!given_n) {
		finish_synthetic(c, p);
	} else {
		name_pin(c, p->q.name, given, given_n, p->ttl_s);
		finish(c, p, DNS_NOERROR, given, given_n,
		       p->ttl_s < 1		 ? 1 :
		       p->ttl_s > NAME_TTL_MAX_S ? NAME_TTL_MAX_S :
						   p->ttl_s);
	}
	switch_settle(c);
	return 0;
}

void dns_ask_expired(struct switch_ctx *c, enum ask_kind kind, uint64_t id)
{
	struct pending *p =
		pending_by_id(c, kind == ASK_NAME ? QUERY_ASKED_NAME : QUERY_ASKED_DEST, id);

	if (p)
		finish_synthetic(c, p);
}

void dns_tick(struct switch_ctx *c, uint64_t now_ms)
{
	for (size_t i = 0; i < QUERIES_MAX; i++) {
		struct pending *p = &c->dns->queries[i];

		if (p->state == QUERY_RESOLVING && now_ms >= p->deadline_ms)
			finish(c, p, DNS_SERVFAIL, NULL, 0, 0);
	}
}
