/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Flows: one entry for each (protocol, guest port, destination, port), bounded.
 *
 * Goal: no byte leaves for a destination before policy has said so for exactly this flow, and
 * a flow that policy takes back ends at once. The identity of a flow is what the guest's packet
 * says: its source MAC and address were checked at the door, so the tuple is this VM's.
 *
 *   first packet -> ASKING --allow-> CONNECTING -> HANDSHAKE -> OPEN -> CLOSING -> free  (TCP)
 *                          --allow-> OPEN --idle-> free                           (UDP, echo)
 *                          --deny--> RST, free (TCP); ICMP 3/13, REFUSED (UDP, echo)
 *
 * The first packet is held while policy decides, and again while the host connects, so that the
 * guest's connect() fails as the real one did. Retransmits are ignored. A datagram flow that was
 * refused stays for REFUSED_MS as REFUSED, so that a client that tries again is refused without
 * another question.
 *
 * What a hostile guest may try: more flows or questions than there is room for (refused at
 * once, told at a limited rate, counted); a new SYN on a tuple that is open (a new flow with a new
 * question: another program may have got the port); segments without a flow (a reset that says
 * nothing); addresses that no rule can mean (refused without asking).
 */
#include "hostd/net/flow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/net/name.h"
#include "hostd/net/nat.h"

enum { BUCKETS = 1024, REFUSED_MS = 2000, EVENTS_BURST = 100, EVENTS_PER_S = 20 };
enum { ICMP_UNREACHABLE = 3, ICMP_HOST_UNREACHABLE = 1 };

struct flow_table {
	struct flow_entry entries[SWITCH_FLOWS_MAX];
	struct flow_entry *buckets[BUCKETS];
	struct flow_entry *free;
	size_t used;
};

int flow_table_new(struct switch_ctx *c)
{
	struct flow_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -1;
	for (size_t i = SWITCH_FLOWS_MAX; i--;) {
		t->entries[i].free_next = t->free;
		t->free = &t->entries[i];
	}
	c->flows = t;
	return 0;
}

void flow_table_free(struct switch_ctx *c)
{
	if (!c->flows)
		return;
	for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
		if (c->flows->entries[i].state != FLOW_FREE)
			flow_free(c, &c->flows->entries[i]);
	}
	free(c->flows);
	c->flows = NULL;
}

struct flow_entry *flow_at(const struct switch_ctx *c, size_t i)
{
	if (i >= SWITCH_FLOWS_MAX || c->flows->entries[i].state == FLOW_FREE)
		return NULL;
	return &c->flows->entries[i];
}

/* The guest can make its flows collide: a chain is at most SWITCH_FLOWS_MAX long. */
static struct flow_entry **bucket(const struct switch_ctx *c, uint8_t proto, uint16_t sport,
				  struct in_addr dst, uint16_t dport)
{
	uint32_t h = dst.s_addr ^ (uint32_t)sport << 16 ^ dport ^ proto;

	return &c->flows->buckets[(h * 2654435761u) >> 22];
}

static struct flow_entry *find(const struct switch_ctx *c, const struct frame *f)
{
	struct flow_entry *e = *bucket(c, f->proto, f->sport, f->dst, f->dport);

	while (e && !(e->pub.proto == f->proto && e->pub.sport == f->sport &&
		      e->pub.dst.s_addr == f->dst.s_addr && e->pub.dport == f->dport))
		e = e->hash_next;
	return e;
}

static struct flow_entry *find_id(const struct switch_ctx *c, uint64_t id)
{
	for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
		struct flow_entry *e = &c->flows->entries[i];

		if (e->state != FLOW_FREE && e->pub.id == id)
			return e;
	}
	return NULL;
}

static struct flow_entry *flow_new(struct switch_ctx *c, const struct flow *pub,
				   enum flow_state state)
{
	struct flow_entry *e = c->flows->free, **b;

	if (!e)
		return NULL;
	c->flows->free = e->free_next;
	memset(e, 0, sizeof(*e));
	e->c = c;
	e->pub = *pub;
	e->state = state;
	e->fd = e->slirp_fd = -1;
	b = bucket(c, pub->proto, pub->sport, pub->dst, pub->dport);
	e->hash_next = *b;
	*b = e;
	c->flows->used++;
	return e;
}

void flow_free(struct switch_ctx *c, struct flow_entry *e)
{
	struct flow_entry **p = bucket(c, e->pub.proto, e->pub.sport, e->pub.dst, e->pub.dport);

	while (*p != e)
		p = &(*p)->hash_next;
	*p = e->hash_next;
	loop_fd_del(e->watch);
	if (e->fd >= 0)
		close(e->fd);
	free(e->held);
	memset(e, 0, sizeof(*e));
	e->free_next = c->flows->free;
	c->flows->free = e;
	c->flows->used--;
}

static void set_text(char out[SWITCH_TEXT_MAX], const char *text)
{
	if (!text)
		text = "";
	if (text == out)
		return;
	strncpy(out, text, SWITCH_TEXT_MAX - 1);
	out[SWITCH_TEXT_MAX - 1] = '\0';
}

static void tell(struct switch_ctx *c, const struct flow *f, enum flow_what what)
{
	if (what == FLOW_ALLOWED)
		c->stats.flows_allowed++;
	else if (what == FLOW_DENIED)
		c->stats.flows_denied++;
	if (c->ops.flow_event)
		c->ops.flow_event(c->u, f, what);
}

static void tell_denied(struct switch_ctx *c, struct flow *f, const char *reason)
{
	f->verdict = FLOW_DENY;
	set_text(f->reason, reason);
	f->end_ms = loop_now_ms();
	tell(c, f, FLOW_DENIED);
}

void flow_ended(struct switch_ctx *c, struct flow_entry *e, const char *reason)
{
	if (e->ended_told)
		return;
	e->ended_told = true;
	if (ask_close(c, ASK_FLOW, e->pub.id))
		e->pub.rejudged = false;
	set_text(e->pub.reason, reason);
	e->pub.end_ms = loop_now_ms();
	c->stats.flows_ended++;
	c->stats.bytes_up += e->pub.bytes_up;
	c->stats.bytes_down += e->pub.bytes_down;
	tell(c, &e->pub, FLOW_ENDED);
}

/* ---- held packet ---- */

/* Keeps the packet. Of a SYN only the headers: data in it (TCP Fast Open) is not
 * acknowledged and comes again, and lengths and checksums are made to fit. */
static bool hold(struct flow_entry *e, const struct frame *f)
{
	size_t len = f->proto == IPPROTO_TCP ? f->payload : f->len;
	const uint8_t *p = frame_at(f, 0, len);
	size_t l4_len = len - f->l4;
	uint8_t *h;

	e->held = p ? malloc(len) : NULL;
	if (!e->held)
		return false;
	memcpy(e->held, p, len);
	e->held_len = len;
	if (len == f->len)
		return true;
	h = e->held + ETH_LEN;
	frame_csum_fix(h + 10, get_be16(h + 2), (uint16_t)(IP_LEN + l4_len));
	put_be16(h + 2, (uint16_t)(IP_LEN + l4_len));
	h = e->held + f->l4;
	put_be16(h + 16, 0);
	put_be16(h + 16, frame_csum_end(frame_csum_add(
				 frame_csum_pseudo(f->src, f->dst, f->proto, l4_len), h, l4_len)));
	return true;
}

bool flow_held_frame(struct switch_ctx *c, const struct flow_entry *e, struct frame *f)
{
	enum switch_drop why;

	return e->held && frame_check(f, &c->rules, e->held, e->held_len, &why);
}

static void refuse_held(struct switch_ctx *c, struct flow_entry *e)
{
	struct frame f;

	if (flow_held_frame(c, e, &f))
		refuse_frame(c, &f);
}

/* ---- refusing ---- */

/* Datagram flows stay refused for a while; a TCP entry goes. */
static void settle_refused(struct switch_ctx *c, struct flow_entry *e)
{
	if (e->pub.proto == IPPROTO_TCP) {
		flow_free(c, e);
		return;
	}
	e->state = FLOW_REFUSED;
	e->deadline_ms = loop_now_ms() + REFUSED_MS;
	free(e->held);
	e->held = NULL;
}

static bool take_event_token(struct switch_ctx *c)
{
	uint64_t now_ms = loop_now_ms();
	uint64_t fresh = (now_ms - c->event_tokens_ms) * EVENTS_PER_S / 1000;

	if (fresh) {
		c->event_tokens_ms = now_ms;
		fresh += c->event_tokens;
		c->event_tokens = fresh > EVENTS_BURST ? EVENTS_BURST : (unsigned)fresh;
	}
	if (!c->event_tokens) {
		c->stats.denied_untold++;
		return false;
	}
	c->event_tokens--;
	return true;
}

/* Refuses without asking. The event is told at a limited rate, the refusal is not limited. */
static void refuse_unasked(struct switch_ctx *c, const struct frame *f, struct flow *pub,
			   const char *reason)
{
	struct flow_entry *e;

	refuse_frame(c, f);
	if (f->proto != IPPROTO_TCP) {
		e = flow_new(c, pub, FLOW_REFUSED);
		if (e)
			e->deadline_ms = loop_now_ms() + REFUSED_MS;
	}
	if (take_event_token(c))
		tell_denied(c, pub, reason);
	else
		c->stats.flows_denied++;
}

/* Why no rule can mean this destination, NULL when one can. */
static const char *never_allowed(const struct switch_ctx *c, const struct frame *f)
{
	uint32_t a = ntohl(f->dst.s_addr);

	if (a >> 24 == 0 || a >> 24 == 127)
		return "the address means the guest itself";
	if (a >> 28 >= 14)
		return "multicast, broadcast and reserved addresses are never reached";
	if (a >> 16 == 0xa9fe)
		return "link-local addresses (cloud metadata among them) are never reached";
	if (((f->dst.s_addr ^ c->rules.gateway.s_addr) & c->netmask.s_addr) == 0 &&
	    f->dst.s_addr != c->rules.gateway.s_addr)
		return "there is no neighbour on this network";
	if (f->proto == IPPROTO_UDP && f->dport == 443)
		return "QUIC is refused so that clients use TCP";
	return NULL;
}

/* ---- a new flow ---- */

static void start(struct switch_ctx *c, const struct frame *f)
{
	struct flow pub = {
		.proto = f->proto,
		.sport = f->sport,
		.dport = f->dport,
		.dst = f->dst,
		.start_ms = loop_now_ms(),
	};
	const char *never = never_allowed(c, f);
	struct flow_entry *e;

	pub.id = ++c->serial;
	name_of_flow(c, &pub);
	if (c->cut)
		never = c->cut_reason;
	else if (!never && pub.synthetic && !pub.name[0])
		never = "the address was given out for a refused name and is no longer kept";
	if (never) {
		refuse_unasked(c, f, &pub, never);
		return;
	}
	if (!c->flows->free) {
		refuse_unasked(c, f, &pub, "too many open flows");
		return;
	}
	if (!ask_open(c, ASK_FLOW, pub.id)) {
		refuse_unasked(c, f, &pub, "too many open questions");
		return;
	}
	e = flow_new(c, &pub, FLOW_ASKING);
	if (!hold(e, f)) {
		ask_close(c, ASK_FLOW, pub.id);
		flow_free(c, e);
		return; /* out of memory: the guest tries again */
	}
	if (f->proto == IPPROTO_TCP)
		e->isn_up = f->seq;
	c->ops.flow_ask(c->u, pub.id, &pub);
}

static bool is_syn(const struct frame *f)
{
	return (f->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

/* A new SYN on a tuple that we know: the guest has forgotten the old connection. */
static void start_over(struct switch_ctx *c, struct flow_entry *e)
{
	if (e->state == FLOW_CLOSING)
		nat_tcp_kill(c, e, false); /* libslirp sits out TIME_WAIT, the guest does not */
	else
		flow_close(c, e, "the guest started another connection on this port");
	nat_settle(c);
}

static void tcp_input(struct switch_ctx *c, struct flow_entry *e, const struct frame *f)
{
	if (e && is_syn(f) && f->seq != e->isn_up) {
		start_over(c, e);
		e = find(c, f);
		if (e)
			return; /* libslirp keeps it a little longer; the SYN comes again */
	}
	if (!e && is_syn(f)) {
		start(c, f);
	} else if (!e) {
		refuse_tcp_reset(c, f);
	} else if (e->state == FLOW_ASKING || e->state == FLOW_CONNECTING) {
		if (f->flags & TCP_RST)
			flow_close(c, e, "given up by the guest");
	} else {
		nat_tcp_input(c, e, f);
	}
}

void flow_input(struct switch_ctx *c, const struct frame *f)
{
	struct flow_entry *e = find(c, f);

	if (f->proto == IPPROTO_TCP)
		tcp_input(c, e, f);
	else if (!e)
		start(c, f);
	else if (e->state == FLOW_REFUSED)
		refuse_frame(c, f);
	else if (e->state == FLOW_OPEN)
		datagram_input(c, e, f);
	/* else ASKING: the first datagram is held, the others are lost as on any network */
}

/* ---- verdicts ---- */

static void deny(struct switch_ctx *c, struct flow_entry *e, const char *reason)
{
	uint64_t id = e->pub.id;

	refuse_held(c, e);
	tell_denied(c, &e->pub, reason);
	if (e->pub.id == id && e->state == FLOW_ASKING)
		settle_refused(c, e);
}

/* What makes an allowing verdict a no for this flow, NULL when it stands. */
static const char *unfit(const struct switch_ctx *c, const struct flow *f, enum flow_verdict v)
{
	bool to_gateway = f->dst.s_addr == c->rules.gateway.s_addr;

	if (f->synthetic)
		return "the name was refused when it was resolved";
	if (v == FLOW_ALLOW && to_gateway)
		return "no rule names the host itself";
	if (v == FLOW_ALLOW_HOST && !to_gateway)
		return "the verdict is for the host, the destination is not";
	if (v == FLOW_INSPECT && (f->proto != IPPROTO_TCP || !c->ops.flow_handover))
		return "no proxy to inspect it";
	return NULL;
}

/* The guest's byte stream goes to whoever inspects it: one end of a socketpair takes the
 * place of the host's connection. */
static void hand_over(struct switch_ctx *c, struct flow_entry *e)
{
	struct flow f = e->pub;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv)) {
		flow_unreachable(c, e, errno);
		return;
	}
	nat_tcp_adopt(c, e, sv[0]);
	c->ops.flow_handover(c->u, &f, sv[1]);
}

static void allow(struct switch_ctx *c, struct flow_entry *e, enum flow_verdict verdict)
{
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = htons(e->pub.dport),
		.sin_addr = e->pub.dst,
	};
	uint64_t id = e->pub.id;

	if (verdict == FLOW_ALLOW_HOST)
		dst.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	e->state = FLOW_CONNECTING;
	tell(c, &e->pub, FLOW_ALLOWED);
	if (e->pub.id != id || e->state != FLOW_CONNECTING)
		return; /* closed by what the event told */
	if (verdict == FLOW_INSPECT)
		hand_over(c, e);
	else if (e->pub.proto == IPPROTO_TCP)
		nat_tcp_connect(c, e, dst);
	else
		datagram_open(c, e, dst);
}

/* An open flow was asked again: it stays only as what it is. */
static void rejudge_done(struct switch_ctx *c, struct flow_entry *e, enum flow_verdict verdict,
			 const char *rule, const char *reason)
{
	e->pub.rejudged = false;
	if (verdict != e->pub.verdict) {
		flow_close(c, e, reason && reason[0] ? reason : "policy changed");
		return;
	}
	set_text(e->pub.rule, rule);
	set_text(e->pub.reason, reason);
}

int switch_flow_verdict(struct switch_ctx *c, uint64_t id, enum flow_verdict verdict,
			const char *rule, const char *reason)
{
	struct flow_entry *e = find_id(c, id);
	const char *no;

	if (!ask_close(c, ASK_FLOW, id) || !e)
		return -1;
	no = verdict == FLOW_DENY ? NULL : unfit(c, &e->pub, verdict);
	if (no) {
		verdict = FLOW_DENY;
		reason = no;
	}
	if (e->state != FLOW_ASKING) {
		rejudge_done(c, e, verdict, rule, reason);
	} else {
		set_text(e->pub.rule, rule);
		set_text(e->pub.reason, reason);
		e->pub.verdict = verdict;
		if (verdict == FLOW_DENY)
			deny(c, e, e->pub.reason);
		else
			allow(c, e, verdict);
	}
	switch_settle(c);
	return 0;
}

void flow_ask_expired(struct switch_ctx *c, uint64_t id)
{
	struct flow_entry *e = find_id(c, id);

	if (!e)
		return;
	if (e->state == FLOW_ASKING)
		deny(c, e, "no answer from policy in time");
	else
		flow_close(c, e, "no answer from policy in time");
}

/* ---- ends ---- */

void flow_close(struct switch_ctx *c, struct flow_entry *e, const char *reason)
{
	uint64_t id = e->pub.id;

	switch (e->state) {
	case FLOW_FREE:
	case FLOW_CLOSING:
		return;
	case FLOW_REFUSED:
		flow_free(c, e);
		return;
	case FLOW_ASKING:
		ask_close(c, ASK_FLOW, id);
		deny(c, e, reason);
		return;
	case FLOW_CONNECTING:
		refuse_held(c, e);
		flow_ended(c, e, reason);
		if (e->pub.id == id)
			flow_free(c, e);
		return;
	case FLOW_HANDSHAKE:
	case FLOW_OPEN:
		break;
	}
	if (e->pub.proto != IPPROTO_TCP) {
		flow_ended(c, e, reason);
		if (e->pub.id == id)
			flow_free(c, e);
		return;
	}
	nat_tcp_kill(c, e, true);
	e->state = FLOW_CLOSING;
	flow_ended(c, e, reason);
}

void flow_unreachable(struct switch_ctx *c, struct flow_entry *e, int err_no)
{
	uint64_t id = e->pub.id;
	char reason[SWITCH_TEXT_MAX];
	struct frame f;

	if (flow_held_frame(c, e, &f)) {
		if (err_no == EHOSTUNREACH || err_no == ENETUNREACH || f.proto != IPPROTO_TCP)
			icmp_send_error(c, &f, ICMP_UNREACHABLE, ICMP_HOST_UNREACHABLE);
		else
			refuse_tcp_reset(c, &f);
	}
	snprintf(reason, sizeof(reason), "connect: %s", strerror(err_no));
	flow_ended(c, e, reason);
	if (e->pub.id == id)
		flow_free(c, e);
}

/* Asks again for open flows that wait for it; half of the questions are left to new flows. */
static void rejudge_some(struct switch_ctx *c)
{
	for (size_t i = 0; i < SWITCH_FLOWS_MAX && c->asks_open < SWITCH_ASKS_MAX / 2; i++) {
		struct flow_entry *e = flow_at(c, i);
		struct flow f;

		if (!e || !e->rejudge || e->state == FLOW_ASKING || e->pub.rejudged)
			continue; /* what is open is an answer of the policy before */
		e->rejudge = false;
		if (e->state == FLOW_CLOSING || !ask_open(c, ASK_FLOW, e->pub.id))
			continue;
		e->pub.rejudged = true;
		f = e->pub;
		c->ops.flow_ask(c->u, f.id, &f);
	}
}

void flow_tick(struct switch_ctx *c, uint64_t now_ms)
{
	for (size_t i = 0; i < SWITCH_FLOWS_MAX && c->flows->used; i++) {
		struct flow_entry *e = flow_at(c, i);

		if (!e || !e->deadline_ms || now_ms < e->deadline_ms)
			continue;
		e->deadline_ms = 0;
		if (e->state == FLOW_CONNECTING)
			flow_unreachable(c, e, ETIMEDOUT);
		else
			flow_close(c, e, e->state == FLOW_HANDSHAKE ? "the guest did not connect" :
								      "idle");
	}
	rejudge_some(c);
}

void switch_rejudge(struct switch_ctx *c)
{
	name_forget_answers(c);
	for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
		struct flow_entry *e = flow_at(c, i);

		if (e && e->state == FLOW_REFUSED)
			flow_free(c, e);
		else if (e)
			e->rejudge = true;
	}
	rejudge_some(c);
	switch_settle(c);
}

void switch_cut(struct switch_ctx *c, const char *reason)
{
	c->cut = true;
	set_text(c->cut_reason, reason && reason[0] ? reason : "the network is cut");
	for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
		struct flow_entry *e = flow_at(c, i);

		if (e)
			flow_close(c, e, c->cut_reason);
	}
	switch_settle(c);
}

void switch_uncut(struct switch_ctx *c)
{
	c->cut = false;
}

int switch_flow_close(struct switch_ctx *c, uint64_t id, const char *reason)
{
	struct flow_entry *e = find_id(c, id);

	if (!e || e->state == FLOW_CLOSING || e->state == FLOW_REFUSED)
		return -1;
	flow_close(c, e, reason);
	switch_settle(c);
	return 0;
}

void switch_flows_each(const struct switch_ctx *c, void (*fn)(void *u, const struct flow *f),
		       void *u)
{
	for (size_t i = 0; i < SWITCH_FLOWS_MAX; i++) {
		const struct flow_entry *e = flow_at(c, i);

		if (e && (e->state == FLOW_CONNECTING || e->state == FLOW_HANDSHAKE ||
			  e->state == FLOW_OPEN))
			fn(u, &e->pub);
	}
}
