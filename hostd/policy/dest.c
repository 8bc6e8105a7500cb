/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dest.c - which addresses a connection may go to, once its name is resolved.
 *
 * A name is only as good as the answer it gets: every address is checked, whatever the rule said about
 * the name, and the caller connects to exactly the addresses that passed.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/model.h"

struct range {
	uint8_t family, bits;
	uint8_t b[16];
};

static const struct range blocked[] = {
	{ 4, 8, { 127 } },
	{ 4, 16, { 169, 254 } },
	{ 4, 32, { 0, 0, 0, 0 } },
	{ 6, 128, { 0 } },
	{ 6, 128, { [15] = 1 } },
	{ 6, 10, { 0xfe, 0x80 } },
};

static const struct range internal[] = {
	{ 4, 8, { 10 } },
	{ 4, 12, { 172, 16 } },
	{ 4, 16, { 192, 168 } },
	{ 4, 10, { 100, 64 } },
	{ 4, 24, { 192, 0, 0 } },
	{ 4, 24, { 192, 0, 2 } },
	{ 4, 15, { 198, 18 } },
	{ 4, 24, { 198, 51, 100 } },
	{ 4, 24, { 203, 0, 113 } },
	{ 4, 32, { 255, 255, 255, 255 } },
	{ 6, 7, { 0xfc } },
	/*
	 * Not in the reference, where they count as public; each of them reaches an IPv4 address or no
	 * single host: multicast, reserved, "this network", NAT64, 6to4, site-local, IPv6 multicast.
	 */
	{ 4, 4, { 224 } },
	{ 4, 4, { 240 } },
	{ 4, 8, { 0 } },
	{ 6, 96, { 0, 0x64, 0xff, 0x9b } },
	{ 6, 16, { 0x20, 0x02 } },
	{ 6, 10, { 0xfe, 0xc0 } },
	{ 6, 8, { 0xff } },
	{ 6, 96, { 0 } }, /* IPv4-compatible */
};

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole))
		return false;
	return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}

/* v4-mapped addresses are the IPv4 address they hold. */
static struct policy_addr unmapped(const struct policy_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct policy_addr v4 = { .family = 4 };

	if (a->family != 6 || memcmp(a->b, mapped, sizeof(mapped)))
		return *a;
	memcpy(v4.b, a->b + 12, 4);
	return v4;
}

static bool in_any(const struct range *r, size_t n, const struct policy_addr *addr)
{
	struct policy_addr a = unmapped(addr);

	for (size_t i = 0; i < n; i++)
		if (r[i].family == a.family && prefix_equal(r[i].b, a.b, r[i].bits))
			return true;
	return false;
}

bool policy_addr_blocked(const struct policy_addr *a)
{
	return in_any(blocked, sizeof(blocked) / sizeof(blocked[0]), a);
}

bool policy_addr_internal(const struct policy_addr *a)
{
	return policy_addr_blocked(a) || in_any(internal, sizeof(internal) / sizeof(internal[0]), a);
}

/* ---- text ---- */

static int parse_v4(const char *s, uint8_t out[4], const char **end)
{
	for (int i = 0; i < 4; i++) {
		unsigned int v = 0, n = 0;

		if (i && *s++ != '.')
			return -1;
		if (s[0] == '0' && s[1] >= '0' && s[1] <= '9')
			return -1; /* octal to some readers */
		while (*s >= '0' && *s <= '9' && n < 3) {
			v = v * 10 + (unsigned int)(*s++ - '0');
			n++;
		}
		if (!n || v > 255)
			return -1;
		out[i] = (uint8_t)v;
	}
	*end = s;
	return 0;
}

static int hex_group(const char **s, unsigned int *v)
{
	int n = 0;

	*v = 0;
	for (; n < 4; n++, (*s)++) {
		unsigned char c = (unsigned char)**s;
		unsigned int d;

		if (c >= '0' && c <= '9')
			d = c - '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			d = (c | 0x20u) - 'a' + 10;
		else
			break;
		*v = *v << 4 | d;
	}
	return n ? 0 : -1;
}

static int parse_v6(const char *s, uint8_t out[16], const char **end)
{
	uint8_t head[16], tail[16];
	size_t n = 0, m = 0, *len = &n;
	uint8_t *into = head;
	bool gap = false;
	unsigned int v;

	if (s[0] == ':' && s[1] != ':')
		return -1;
	for (;;) {
		const char *group = s, *after;

		if (s[0] == ':' && s[1] == ':') {
			if (gap)
				return -1;
			gap = true;
			into = tail;
			len = &m;
			s += 2;
			group = s;
		} else if (n + m > 0) {
			if (*s != ':')
				break;
			group = ++s;
		}
		if (n + m <= 12 && parse_v4(group, into + *len, &after) == 0 && *after != ':') {
			*len += 4;
			s = after;
			break;
		}
		if (hex_group(&s, &v) < 0) {
			if (gap && group == s && (n + m == 0 || s[-1] == ':') && s[-1] == ':' && s[-2] == ':')
				break;
			return -1;
		}
		if (n + m > 14)
			return -1;
		into[(*len)++] = (uint8_t)(v >> 8);
		into[(*len)++] = (uint8_t)v;
	}
	if (gap ? n + m > 14 : n + m != 16)
		return -1;
	memset(out, 0, 16);
	memcpy(out, head, n);
	memcpy(out + 16 - m, tail, m);
	*end = s;
	return 0;
}

static int parse_addr(const char *s, struct policy_addr *out, const char **end)
{
	memset(out, 0, sizeof(*out));
	out->family = strchr(s, ':') ? 6 : 4;
	return out->family == 4 ? parse_v4(s, out->b, end) : parse_v6(s, out->b, end);
}

int policy_addr_parse(const char *text, struct policy_addr *out)
{
	const char *end;

	return strlen(text) < 64 && parse_addr(text, out, &end) == 0 && !*end ? 0 : -1;
}

int policy_cidr_parse(const char *text, struct cidr *out)
{
	char trimmed[64];
	const char *end;
	unsigned long bits;
	size_t n;
	char *stop;

	text += strspn(text, " \t");
	n = strlen(text);
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	if (n >= sizeof(trimmed))
		return -1;
	memcpy(trimmed, text, n);
	trimmed[n] = '\0';
	if (parse_addr(trimmed, &out->addr, &end) < 0)
		return -1;
	out->bits = out->addr.family == 4 ? 32 : 128;
	if (!*end)
		return 0;
	if (*end != '/' || end[1] < '0' || end[1] > '9')
		return -1;
	bits = strtoul(end + 1, &stop, 10);
	if (*stop || bits > out->bits)
		return -1;
	out->bits = (uint8_t)bits;
	return 0;
}

bool policy_cidr_contains(const struct cidr *c, const struct policy_addr *addr)
{
	struct policy_addr a = *addr, m = unmapped(addr);

	if (c->addr.family == a.family && prefix_equal(c->addr.b, a.b, c->bits))
		return true;
	return c->addr.family == m.family && prefix_equal(c->addr.b, m.b, c->bits);
}

bool policy_cidr_touches_blocked(const struct cidr *c)
{
	struct cidr v4 = *c;

	/* a range of v4-mapped addresses is a range of IPv4 */
	if (c->addr.family == 6 && c->bits >= 96) {
		v4.addr = unmapped(&c->addr);
		if (v4.addr.family == 4)
			v4.bits = (uint8_t)(c->bits - 96);
	}
	for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
		const struct range *r = &blocked[i];

		if (r->family == v4.addr.family &&
		    prefix_equal(r->b, v4.addr.b, r->bits < v4.bits ? r->bits : v4.bits))
			return true;
	}
	return false;
}

bool policy_host_is_literal(const char *host, struct policy_addr *out)
{
	char inner[64];
	size_t n = strlen(host);

	if (n >= 2 && host[0] == '[' && host[n - 1] == ']' && n - 2 < sizeof(inner)) {
		memcpy(inner, host + 1, n - 2);
		inner[n - 2] = '\0';
		return policy_addr_parse(inner, out) == 0;
	}
	return policy_addr_parse(host, out) == 0;
}

/* ---- the plan ---- */

struct plan {
	const struct policy *p;
	const struct policy_l4_input *in;
	const struct endpoint *first; /* first extended one of the rules that match the program */
	const struct endpoint *declared;
	bool any_program; /* the program is not known yet */
	const struct policy_addr *wanted;
	bool listed; /* some allowed_ips holds it */
	bool bad;
};

static int plan_found(void *u, const struct endpoint *e)
{
	struct plan *w = u;
	int program = w->any_program ? 1 : policy_program_allowed(w->p, e->rule, w->in, false);

	if (program < 0)
		w->bad = true;
	if (program <= 0)
		return 0;
	for (size_t i = 0; w->wanted && i < e->n_cidrs; i++)
		w->listed |= policy_cidr_contains(&e->cidrs[i], w->wanted);
	if (e->extended && (!w->first || e->rule->rank < w->first->rule->rank ||
			    (e->rule == w->first->rule && e->index < w->first->index)))
		w->first = e;
	if (!e->advisor && !policy_endpoint_public_only(e, w->in->port) && !e->host.wild && *e->host.g.text && !w->declared &&
	    (w->any_program || policy_program_allowed(w->p, e->rule, w->in, true) == 1))
		w->declared = e;
	return 0;
}

static bool control_plane(uint16_t port)
{
	return port == 2379 || port == 2380 || port == 6443 || port == 10250 || port == 10255;
}

static bool same_addr(const struct policy_addr *a, const struct policy_addr *b)
{
	struct policy_addr x = unmapped(a), y = unmapped(b);

	return x.family == y.family && !memcmp(x.b, y.b, x.family == 4 ? 4 : 16);
}

static bool is_alias(const char *host)
{
	return !strcasecmp(host, "host.openshell.internal") || !strcasecmp(host, "host.containers.internal") ||
	       !strcasecmp(host, "host.docker.internal");
}

/* A gateway that an alias may stand for: link-local, but not the metadata service. */
static bool good_gateway(const struct policy_addr *g)
{
	static const uint8_t metadata[4] = { 169, 254, 169, 254 };
	struct policy_addr a = unmapped(g);

	if (a.family == 4)
		return a.b[0] == 169 && a.b[1] == 254 && memcmp(a.b, metadata, 4);
	return a.b[0] == 0xfe && (a.b[1] & 0xc0) == 0x80;
}

static enum policy_reason check_one(const struct plan *w, const struct policy_addr *a,
				    const struct policy_addr *gateway, const struct policy_addr *literal)
{
	const char *host = w->in->host ? w->in->host : "";

	if (is_alias(host) && gateway && good_gateway(gateway))
		return same_addr(a, gateway) ? POLICY_OK : POLICY_DEST_PINNED;
	if (policy_addr_blocked(a))
		return POLICY_DEST_BLOCKED;
	if (w->first && w->first->n_allowed_ips) {
		for (size_t i = 0; i < w->first->n_cidrs; i++)
			if (policy_cidr_contains(&w->first->cidrs[i], a))
				return POLICY_OK;
		return POLICY_DEST_NOT_LISTED;
	}
	if (literal)
		return same_addr(a, literal) ? POLICY_OK : POLICY_DEST_PINNED;
	if (w->declared)
		return POLICY_OK;
	return policy_addr_internal(a) ? POLICY_DEST_INTERNAL : POLICY_OK;
}

static bool checks_port(const struct plan *w, const struct policy_addr *gateway, bool literal)
{
	const char *host = w->in->host ? w->in->host : "";

	return (is_alias(host) && gateway && good_gateway(gateway)) ||
	       (w->first && w->first->n_allowed_ips) || literal || w->declared;
}

static void addr_text(const struct policy_addr *a, char *out, size_t size)
{
	size_t n = 0;

	if (a->family == 4) {
		snprintf(out, size, "%u.%u.%u.%u", a->b[0], a->b[1], a->b[2], a->b[3]);
		return;
	}
	for (int i = 0; i < 16; i += 2)
		n += (size_t)snprintf(out + n, size - n, "%s%x", i ? ":" : "", a->b[i] << 8 | a->b[i + 1]);
}

void policy_decide_dest(const struct policy *p, const struct policy_l4_input *in,
			const struct policy_addr *addrs, size_t n, const struct policy_addr *gateway,
			struct policy_decision *d)
{
	struct plan w = { .p = p, .in = in };
	const char *host = in->host ? in->host : "";
	struct policy_addr literal;
	bool is_literal = policy_host_is_literal(host, &literal);
	const struct endpoint *by;
	char text[64] = "";

	memset(d, 0, offsetof(struct policy_decision, text) + 1);
	d->layer = POLICY_LAYER_DESTINATION;
	policy_each_endpoint(p, host, in->port, &w.bad, plan_found, &w);
	by = w.first && w.first->n_allowed_ips ? w.first : w.declared;
	if (by) {
		d->rule = by->rule->key;
		d->rule_name = by->rule->name;
		d->endpoint_line = by->line;
	}
	d->exact_declared_host = w.declared != NULL;
	if (w.bad)
		d->reason = POLICY_ERROR;
	else if (!n)
		d->reason = POLICY_DEST_NONE;
	else if (control_plane(in->port) && checks_port(&w, gateway, is_literal))
		d->reason = POLICY_DEST_PORT;
	for (size_t i = 0; i < n && d->reason == POLICY_OK; i++) {
		d->reason = check_one(&w, &addrs[i], gateway, is_literal ? &literal : NULL);
		if (d->reason != POLICY_OK && !in->quiet)
			addr_text(&addrs[i], text, sizeof(text));
	}
	d->verdict = d->reason == POLICY_OK ? POLICY_ALLOW : POLICY_DENY;
	if (in->quiet)
		return;
	switch (d->reason) {
	case POLICY_OK:
		snprintf(d->text, sizeof(d->text), "every address of %s is allowed", host);
		break;
	case POLICY_DEST_NONE:
		snprintf(d->text, sizeof(d->text), "%s has no address", host);
		break;
	case POLICY_DEST_PORT:
		snprintf(d->text, sizeof(d->text), "port %u is a control-plane port", in->port);
		break;
	case POLICY_DEST_BLOCKED:
		snprintf(d->text, sizeof(d->text),
			 "%s is loopback, link-local or a metadata address: no rule can allow it", text);
		break;
	case POLICY_DEST_INTERNAL:
		snprintf(d->text, sizeof(d->text),
			 "%s is %s, a private address: declare the host exactly, or list the range in "
			 "allowed_ips",
			 host, text);
		break;
	case POLICY_DEST_NOT_LISTED:
		snprintf(d->text, sizeof(d->text), "%s is %s, which is not in allowed_ips of rule %s (line %u)",
			 host, text, d->rule, d->endpoint_line);
		break;
	case POLICY_DEST_PINNED:
		snprintf(d->text, sizeof(d->text), "%s does not stand for %s", host, text);
		break;
	default:
		snprintf(d->text, sizeof(d->text), "the policy has an invalid pattern here");
	}
}

bool policy_dest_check(const struct policy *p, const char *host, uint16_t port,
		       const struct policy_addr *addr)
{
	struct policy_l4_input in = { .host = host, .port = port };
	struct plan w = { .p = p, .in = &in, .any_program = true, .wanted = addr };
	struct policy_addr literal;
	bool is_literal = policy_host_is_literal(host ? host : "", &literal);

	policy_each_endpoint(p, host, port, &w.bad, plan_found, &w);
	/*
	 * The program is not known: an address passes if some program might be allowed to use it.  The
	 * connection itself is judged again by policy_decide_dest().
	 */
	if (policy_addr_blocked(addr))
		return false;
	if (is_literal)
		return same_addr(addr, &literal);
	return w.declared || w.listed || !policy_addr_internal(addr);
}
