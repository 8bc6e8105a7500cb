/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain.c - the one line that says why, and what came nearest.
 *
 * Runs on refusals in the path of a connection, so it allocates nothing and looks at no more than a
 * bounded number of rules for something close.
 */
#include "hostd/policy/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NEAR_RULES_MAX 2000

/* Appends; what comes from a guest is shown without control characters. */
static void say(struct policy_decision *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct policy_decision *d, const char *fmt, ...)
{
	size_t n = strlen(d->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->text + n, sizeof(d->text) - n, fmt, ap);
	va_end(ap);
	for (char *c = d->text + n; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
}

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void say_programs(struct policy_decision *d, const struct rule *r)
{
	size_t n = r->n_programs;

	if (!n) {
		say(d, "names no program");
		return;
	}
	say(d, "only for ");
	for (size_t i = 0; i < n && i < 3; i++)
		say(d, "%s%s", i ? i + 1 == n ? " and " : ", " : "", r->programs[i].path.g.text);
	if (n > 3)
		say(d, " and %zu more", n - 3);
}

/* The advice that fits: an ancestor that should be named, or a symbolic link's target. */
static void say_advice(struct policy_decision *d, const struct policy_l4_input *in, const struct rule *r)
{
	const char *program = in->program ? in->program : "";

	for (size_t i = 0; i < r->n_programs; i++) {
		const char *want = r->programs[i].path.g.text, *name = base(want);

		if (r->programs[i].path.wild || !*name)
			continue;
		for (size_t k = 0; k < in->n; k++)
			if (!strcmp(base(in->ancestors[k]), name)) {
				say(d, ": name the ancestor %s?", in->ancestors[k]);
				return;
			}
		if (!strncmp(base(program), name, strlen(name))) {
			say(d, ": if %s is a symbolic link, name its target?", want);
			return;
		}
	}
	say(d, ": add it, or an ancestor?");
}

static const struct endpoint *near_endpoint(const struct policy *p, const char *host, uint16_t port,
					    bool *other_port)
{
	size_t len = strlen(host), looked = 0;
	const struct endpoint *apex = NULL;

	*other_port = false;
	for (size_t i = 0; i < p->n_endpoints && looked < NEAR_RULES_MAX; i++, looked++) {
		const struct endpoint *e = p->endpoints[i];
		const char *text = e->host.g.text;

		if (*text && policy_host_matches(&e->host, host, len) == 1) {
			*other_port = true;
			return e;
		}
		if (!policy_endpoint_has_port(e, port))
			continue;
		if (!apex && e->host.wild) { /* *.example.com does not cover example.com, nor a.b.example.com */
			const char *rest = strchr(text, '.');

			if (rest && !strchr(rest, '*') &&
			    (!strcasecmp(rest + 1, host) ||
			     (len > strlen(rest) && !strcasecmp(rest, host + len - strlen(rest)))))
				apex = e;
		}
	}
	return apex;
}

void policy_explain_l4(const struct policy *p, const struct policy_l4_input *in,
		       const struct endpoint *near, struct policy_decision *d)
{
	const char *host = in->host ? in->host : "", *program = in->program ? in->program : "";
	const struct endpoint *e;
	bool other_port;

	d->text[0] = '\0';
	if (in->quiet)
		return;
	switch (d->reason) {
	case POLICY_OK:
		say(d, "rule `%s` (line %u) allows %s to connect to %s:%u", d->rule, d->endpoint_line, program,
		    host, in->port);
		if (d->inspect)
			say(d, "; its requests are judged one by one");
		return;
	case POLICY_EMPTY:
		say(d, "the policy allows no connection at all");
		return;
	case POLICY_BINARY_NOT_ALLOWED:
		say(d, "rule `%s` (line %u) allows %s:%u, but ", near->rule->key, near->line, host, in->port);
		say_programs(d, near->rule);
		say(d, "; the program was %s", program);
		if (in->n)
			say(d, ", started by %s", in->ancestors[0]);
		say_advice(d, in, near->rule);
		return;
	case POLICY_ENDPOINT_UNKNOWN:
		e = near_endpoint(p, host, in->port, &other_port);
		say(d, "no rule names %s:%u", host, in->port);
		if (e) {
			d->nearest = e->rule->key;
			d->endpoint_line = e->line;
			if (other_port)
				say(d, "; rule `%s` (line %u) allows this host, but on port %u",
				    e->rule->key, e->line, e->n_ports ? e->ports[0] : 0);
			else
				say(d, "; rule `%s` (line %u) allows %s, which does not cover it",
				    e->rule->key, e->line, e->host.g.text);
		}
		return;
	default:
		say(d, "a pattern in the policy is invalid, so nothing is allowed here");
	}
}

struct near_clause {
	const struct policy_request *in;
	const struct policy *p;
	const struct endpoint *path_e, *method_e;
	const struct clause *path_c, *method_c;
};

static int near_found(void *u, const struct endpoint *e)
{
	struct near_clause *w = u;
	const char *path = w->in->path ? w->in->path : "";

	if (policy_program_allowed(w->p, e->rule, &w->in->l4, false) <= 0)
		return 0;
	for (size_t i = 0; i < e->n_allow && i < NEAR_RULES_MAX; i++) {
		const struct clause *c = &e->allow[i];

		if (!c->has_method || !c->has_path)
			continue;
		if (!w->path_c && policy_path_matches(&c->path, path, strlen(path)) == 1) {
			w->path_c = c;
			w->path_e = e;
		}
		if (!w->method_c && w->in->method && !strcasecmp(c->method, w->in->method)) {
			w->method_c = c;
			w->method_e = e;
		}
	}
	return 0;
}

static void say_operation(struct policy_decision *d, const struct policy_request *in)
{
	if (in->gql && in->gql->n)
		say(d, "GraphQL %s %s", in->gql->ops[0].type && *in->gql->ops[0].type ? in->gql->ops[0].type :
											 "persisted query",
		    in->gql->ops[0].name ? in->gql->ops[0].name : "");
	else if (in->rpc && in->rpc->method)
		say(d, "call of %s", in->rpc->method);
	else
		say(d, "%s %s", in->method ? in->method : "", in->path ? in->path : "");
}

void policy_explain_request(const struct policy *p, const struct policy_request *in,
			    const struct endpoint *selected, struct policy_decision *d)
{
	struct near_clause near = { .in = in, .p = p };
	const char *host = in->l4.host ? in->l4.host : "";

	d->text[0] = '\0';
	if (in->l4.quiet)
		return;
	if (d->verdict == POLICY_ALLOW) {
		say(d, "rule `%s` (line %u) allows ", d->rule ? d->rule : "",
		    d->clause_line ? d->clause_line : d->endpoint_line);
		say_operation(d, in);
		say(d, " on %s:%u", host, in->l4.port);
		return;
	}
	switch (d->reason) {
	case POLICY_NO_ENDPOINT:
		say(d, "no endpoint for %s:%u selects the path %s", host, in->l4.port,
		    in->path ? in->path : "");
		return;
	case POLICY_UNPARSEABLE:
		say(d, "the request cannot be read (%s), so it is refused",
		    in->gql && in->gql->error && *in->gql->error ? in->gql->error :
		    in->rpc && in->rpc->error			 ? in->rpc->error :
								   "malformed");
		return;
	case POLICY_ERROR:
		say(d, "the policy cannot be evaluated for this request, so it is refused");
		return;
	case POLICY_RPC_RESPONSE_FRAME:
		say(d, "a JSON-RPC client may not send response frames to %s", host);
		return;
	case POLICY_DENY_RULE:
	case POLICY_GQL_DENIED:
		say(d, "rule `%s` (line %u) denies ", d->rule ? d->rule : "",
		    d->clause_line ? d->clause_line : d->endpoint_line);
		break;
	case POLICY_GQL_UNREGISTERED:
		say(d, "this persisted query is not registered: ");
		break;
	default:
		say(d, "no rule allows ");
	}
	say_operation(d, in);
	say(d, " on %s:%u", host, in->l4.port);
	if (d->reason == POLICY_NOT_ALLOWED && !in->gql && !in->rpc) {
		policy_each_endpoint(p, in->l4.host, in->l4.port, NULL, near_found, &near);
		if (near.path_c && strcmp(near.path_c->method, "*")) {
			d->nearest = near.path_e->rule->key;
			d->clause_line = near.path_c->line;
			say(d, "; rule `%s` (line %u) allows this path, but only %s", near.path_e->rule->key,
			    near.path_c->line, near.path_c->method);
		} else if (near.method_c) {
			d->nearest = near.method_e->rule->key;
			d->clause_line = near.method_c->line;
			say(d, "; rule `%s` (line %u) allows %s of %s", near.method_e->rule->key,
			    near.method_c->line, near.method_c->method, near.method_c->path.g.text);
		}
	}
	if (d->verdict == POLICY_AUDIT)
		say(d, " (forwarded all the same: endpoint at line %u only audits)",
		    selected ? selected->line : 0);
}
