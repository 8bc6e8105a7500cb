/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ambiguity.c - two endpoints that can serve the same connection must agree on how to read it.
 *
 * What they allow may differ; how a connection is opened and parsed may not, since the order of rules
 * would decide it silently.  Endpoints with a plain host are compared with their namesakes only, so the
 * usual large policy costs little; the rest is bounded by a budget.
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

static void compare(struct pairs *w, const struct endpoint *a, const struct endpoint *b)
{
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
	if (a->line > b->line) { /* reported at the later one */
		const struct endpoint *t = a;

		a = b;
		b = t;
	}
	snprintf(path, sizeof(path), "network_policies.%s.endpoints[%zu]", b->rule->key, b->index);
	policy_diag_add(w->d, false, b->line, b->column, path, "the same values in both",
			"ambiguous: this endpoint and network_policies.%s.endpoints[%zu] (line %u) can serve "
			"the same connection and disagree: %s",
			a->rule->key, a->index, a->line, c.text);
	w->reported++;
}

static int by_host(const void *a, const void *b)
{
	const struct endpoint *x = *(const struct endpoint *const *)a, *y = *(const struct endpoint *const *)b;

	return strcasecmp(x->host.g.text, y->host.g.text);
}

void policy_check_ambiguity(const struct policy *p, struct policy_diags *d)
{
	struct pairs w = { .p = p, .d = d, .budget = BUDGET };
	const struct endpoint **plain, **wild;
	size_t n = 0, m = 0, total = 0;

	for (size_t r = 0; r < p->n_rules; r++)
		total += p->rules[r].n_endpoints;
	plain = policy_arena_array(p->arena, total, sizeof(*plain));
	wild = policy_arena_array(p->arena, total, sizeof(*wild));
	if (!plain || !wild)
		return;
	for (size_t r = 0; r < p->n_rules; r++)
		for (size_t i = 0; i < p->rules[r].n_endpoints; i++) {
			const struct endpoint *e = &p->rules[r].endpoints[i];

			if (e->host.wild || !*e->host.g.text)
				wild[m++] = e;
			else
				plain[n++] = e;
		}
	if (n)
		qsort(plain, n, sizeof(*plain), by_host);
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n && !by_host(&plain[i], &plain[k]); k++)
			if (w.budget > 0 && w.reported < POLICY_DIAGS_MAX)
				compare(&w, plain[i], plain[k]);
	for (size_t i = 0; i < m; i++) {
		for (size_t k = 0; k < n + m; k++) {
			const struct endpoint *b = k < n ? plain[k] : wild[k - n];

			if ((k >= n && k - n <= i) || w.budget <= 0 || w.reported >= POLICY_DIAGS_MAX)
				continue;
			w.budget -= (long)(strlen(wild[i]->host.g.text) + strlen(b->host.g.text));
			if (policy_hosts_overlap(wild[i]->host.g.text, b->host.g.text))
				compare(&w, wild[i], b);
		}
	}
	if (w.budget <= 0)
		policy_diag_add(d, false, 0, 0, "network_policies", "fewer endpoints that can overlap",
				"too many endpoints with overlapping hosts to check them against each other");
}
