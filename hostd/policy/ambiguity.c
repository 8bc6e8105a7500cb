/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ambiguity.c - two endpoints that can serve the same connection must agree on how to read it.
 *
 * What they allow may differ; how a connection is opened and parsed may not, since the order of rules
 * would decide it silently.  Endpoints are sorted by the end of their hosts and compared only where that
 * fits, so the usual large policy costs little; the rest is bounded by a budget.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/model.h"

#define BUDGET 40000000

struct pairs {
	const struct policy *p;
	struct policy_diags *d;
	long budget;
	size_t reported;
};

struct conflict {
	char text[700];
	size_t n;
};

static void differ(struct conflict *c, const char *field, const char *a, const char *b)
{
	size_t at = strlen(c->text);

	if (!strcmp(a, b))
		return;
	snprintf(c->text + at, sizeof(c->text) - at, "%s%s: %s and %s", c->n++ ? "; " : "", field,
		 *a ? a : "(none)", *b ? b : "(none)");
}

static const char *yes(bool v)
{
	return v ? "true" : "false";
}

static size_t trimmed(const char *s, const char **from)
{
	size_t n;

	s += strspn(s, " \t");
	n = strlen(s);
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	*from = s;
	return n;
}

static bool has_ip(const struct endpoint *e, const char *text)
{
	const char *a, *b;
	size_t n = trimmed(text, &a);

	for (size_t i = 0; i < e->n_allowed_ips; i++)
		if (trimmed(e->allowed_ip_texts[i], &b) == n && !strncasecmp(a, b, n))
			return true;
	return false;
}

static bool same_ips(const struct endpoint *a, const struct endpoint *b)
{
	for (size_t i = 0; i < a->n_allowed_ips; i++)
		if (!has_ip(b, a->allowed_ip_texts[i]))
			return false;
	for (size_t i = 0; i < b->n_allowed_ips; i++)
		if (!has_ip(a, b->allowed_ip_texts[i]))
			return false;
	return true;
}

static bool contributes(const struct endpoint *e)
{
	return e->extended || *e->binding_provider;
}

static const char *read_as(const struct endpoint *e)
{
	return e->protocol == POLICY_PROTO_TCP ? "" : e->protocol_text;
}

static void compare_reading(const struct endpoint *a, const struct endpoint *b, struct conflict *c)
{
	char x[16], y[16];

	differ(c, "protocol", read_as(a), read_as(b));
	differ(c, "enforcement", a->enforce ? "enforce" : "audit", b->enforce ? "enforce" : "audit");
	differ(c, "allow_encoded_slash", yes(a->allow_encoded_slash), yes(b->allow_encoded_slash));
	differ(c, "websocket_credential_rewrite", yes(a->websocket_rewrite), yes(b->websocket_rewrite));
	differ(c, "request_body_credential_rewrite", yes(a->body_rewrite), yes(b->body_rewrite));
	differ(c, "credential_signing", a->signing, b->signing);
	differ(c, "signing_service", a->signing_service, b->signing_service);
	differ(c, "signing_region", a->signing_region, b->signing_region);
	differ(c, "credential_binding.provider", a->binding_provider, b->binding_provider);
	if (a->protocol != b->protocol)
		return;
	if (a->protocol == POLICY_PROTO_WEBSOCKET)
		differ(c, "GraphQL rules", yes(a->graphql_policy), yes(b->graphql_policy));
	if (a->protocol == POLICY_PROTO_GRAPHQL) {
		snprintf(x, sizeof(x), "%u", a->graphql_limit);
		snprintf(y, sizeof(y), "%u", b->graphql_limit);
		differ(c, "graphql_max_body_bytes", x, y);
	}
	if (a->protocol == POLICY_PROTO_JSONRPC || a->protocol == POLICY_PROTO_MCP) {
		snprintf(x, sizeof(x), "%u", a->jsonrpc_limit);
		snprintf(y, sizeof(y), "%u", b->jsonrpc_limit);
		differ(c, "max_body_bytes", x, y);
	}
	if (a->protocol == POLICY_PROTO_MCP)
		differ(c, "mcp.strict_tool_names", yes(a->strict_tools), yes(b->strict_tools));
}

static bool share_port(const struct endpoint *a, const struct endpoint *b)
{
	for (size_t i = 0; i < a->n_ports; i++)
		for (size_t k = 0; k < b->n_ports; k++)
			if (a->ports[i] == b->ports[k])
				return true;
	return false;
}

static bool comes_before(const struct endpoint *a, const struct endpoint *b)
{
	return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* Reported at the later one of both, whose values come first. */
static void compare(struct pairs *w, const struct endpoint *x, const struct endpoint *y)
{
	const struct endpoint *a = comes_before(x, y) ? y : x, *b = a == x ? y : x;
	struct conflict c = { .text = "" };
	char path[256];

	w->budget -= 1 + (long)(a->n_ports * b->n_ports) / 8;
	if (!share_port(a, b))
		return;
	differ(&c, "protocol tcp", yes(a->protocol == POLICY_PROTO_TCP), yes(b->protocol == POLICY_PROTO_TCP));
	differ(&c, "tls", a->tls_skip ? "skip" : "auto", b->tls_skip ? "skip" : "auto");
	if (!same_ips(a, b))
		differ(&c, "allowed_ips", a->n_allowed_ips ? "one list" : "",
		       b->n_allowed_ips ? "another" : "");
	differ(&c, "advisor_proposed", yes(a->advisor), yes(b->advisor));
	if (contributes(a) && contributes(b) && a->specificity == b->specificity) {
		w->budget -= 200;
		if (policy_selectors_overlap(&a->selector, &b->selector))
			compare_reading(a, b, &c);
	}
	if (!c.n)
		return;
	snprintf(path, sizeof(path), "network_policies.%s.endpoints[%zu]", a->rule->key, a->index);
	policy_diag_add(w->d, false, a->line, a->column, path, "the same values in both",
			"ambiguous: this endpoint and network_policies.%s.endpoints[%zu] (line %u) can serve "
			"the same connection and disagree: %s",
			b->rule->key, b->index, b->line, c.text);
	w->reported++;
}

/*
 * An endpoint by the end of its host: what follows the last special character, backwards and in lower case.  Two
 * hosts can only be the same if the one key begins with the other.
 */
struct ending {
	const struct endpoint *e;
	const char *key;
	size_t len;
	bool whole; /* the key is all of the host */
};

static int make_ending(struct arena *a, const struct endpoint *e, struct ending *out)
{
	const char *host = e->host.g.text;
	size_t n = strlen(host);
	char *key = policy_arena_alloc(a, n + 1);

	*out = (struct ending){ .e = e, .key = key };
	if (!key)
		return -1;
	for (; n && !strchr("*?[]{}\\,!", host[n - 1]); n--) {
		char c = host[n - 1];

		key[out->len++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
	}
	out->whole = !n && *host;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;
	int order = memcmp(x->key, y->key, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static bool is_plain(const struct endpoint *e)
{
	return !e->host.wild && *e->host.g.text;
}

static bool hosts_overlap(struct pairs *w, const struct endpoint *a, const struct endpoint *b)
{
	if (is_plain(a) && is_plain(b))
		return !strcasecmp(a->host.g.text, b->host.g.text);
	w->budget -= (long)(strlen(a->host.g.text) + strlen(b->host.g.text));
	return policy_hosts_overlap(a->host.g.text, b->host.g.text);
}

/* @v[i] with all that follow it and can have its host. */
static void compare_following(struct pairs *w, const struct ending *v, size_t n, size_t i)
{
	for (size_t k = i + 1; k < n && w->budget > 0 && w->reported < POLICY_DIAGS_MAX; k++) {
		if (v[k].len < v[i].len || memcmp(v[k].key, v[i].key, v[i].len) ||
		    (v[i].whole && v[k].len > v[i].len))
			return;
		w->budget--;
		if (hosts_overlap(w, v[i].e, v[k].e))
			compare(w, v[i].e, v[k].e);
	}
}

void policy_check_ambiguity(const struct policy *p, struct policy_diags *d)
{
	struct pairs w = { .p = p, .d = d, .budget = BUDGET };
	struct ending *v;
	size_t n = 0, total = 0;

	for (size_t r = 0; r < p->n_rules; r++)
		total += p->rules[r].n_endpoints;
	v = policy_arena_array(p->arena, total, sizeof(*v));
	for (size_t r = 0; v && r < p->n_rules; r++)
		for (size_t i = 0; i < p->rules[r].n_endpoints; i++)
			if (make_ending(p->arena, &p->rules[r].endpoints[i], &v[n++]) < 0)
				return;
	if (!v || !n)
		return;
	qsort(v, n, sizeof(*v), by_key);
	for (size_t i = 0; i < n; i++)
		compare_following(&w, v, n, i);
	if (w.budget <= 0)
		policy_diag_add(d, false, 0, 0, "network_policies", "fewer endpoints that can overlap",
				"too many endpoints with overlapping hosts to check them against each other");
}
