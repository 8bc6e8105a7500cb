/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide.c - may this program connect there, and may it send this request?
 *
 * A connection is allowed if some rule names both its host and port and its program; there is no order
 * and no deny at this level.  A request is allowed if some endpoint of such a rule has an allow clause
 * for it and no endpoint of any such rule has a deny clause for it.  An invalid pattern that is reached
 * fails the decision.  Nothing here allocates.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/explain.h"
#include "hostd/policy/model.h"

const char *policy_reason_name(enum policy_reason r)
{
	static const char *const names[] = {
		[POLICY_OK] = "",
		[POLICY_EMPTY] = "empty_policy",
		[POLICY_ENDPOINT_UNKNOWN] = "endpoint_unknown",
		[POLICY_BINARY_NOT_ALLOWED] = "binary_not_allowed",
		[POLICY_DEST_BLOCKED] = "destination_blocked",
		[POLICY_DEST_INTERNAL] = "destination_internal",
		[POLICY_DEST_NOT_LISTED] = "destination_not_listed",
		[POLICY_DEST_PINNED] = "destination_not_pinned",
		[POLICY_DEST_PORT] = "destination_port",
		[POLICY_DEST_NONE] = "destination_none",
		[POLICY_NOT_ALLOWED] = "not_allowed",
		[POLICY_DENY_RULE] = "deny_rule",
		[POLICY_GQL_DENIED] = "gql_denied",
		[POLICY_GQL_NOT_ALLOWED] = "gql_not_allowed",
		[POLICY_GQL_UNREGISTERED] = "gql_unregistered",
		[POLICY_RPC_RESPONSE_FRAME] = "rpc_response_frame",
		[POLICY_NO_ENDPOINT] = "no_endpoint",
		[POLICY_UNPARSEABLE] = "unparseable",
		[POLICY_ERROR] = "ERROR",
	};

	return names[r];
}

/* ---- connections ---- */

int policy_program_allowed(const struct policy *p, const struct rule *r,
			   const struct policy_l4_input *in, bool declared_only)
{
	int bad = 0;

	if (p->no_identity || in->no_identity)
		return 1;
	for (size_t i = 0; i < r->n_programs; i++) {
		const struct program *b = &r->programs[i];
		int m;

		if (declared_only && b->advisor)
			continue;
		m = policy_program_matches(&b->path, in->program ? in->program : "");
		for (size_t k = 0; m == 0 && k < in->n; k++)
			m = policy_program_matches(&b->path, in->ancestors[k]);
		if (m > 0)
			return 1;
		bad |= m < 0;
	}
	return bad ? -1 : 0;
}

struct l4_walk {
	const struct policy *p;
	const struct policy_l4_input *in;
	const struct endpoint *by;   /* of the smallest rule key that matches */
	const struct endpoint *near; /* right host and port, wrong program */
	bool declared, bad;
	bool inspected; /* an endpoint that reads requests */
};

static bool before(const struct endpoint *a, const struct endpoint *b)
{
	return !b || a->rule->rank < b->rule->rank || (a->rule == b->rule && a->index < b->index);
}

static bool reads_requests(const struct endpoint *e)
{
	return e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP && !e->tls_skip;
}

/* Takes one endpoint with the right host and port into account; 1 if its rule names the program. */
static int l4_consider(struct l4_walk *w, const struct endpoint *e)
{
	int m = policy_program_allowed(w->p, e->rule, w->in, false);

	if (m < 0) {
		w->bad = true;
	} else if (m == 0) {
		if (before(e, w->near))
			w->near = e;
	} else {
		if (before(e, w->by))
			w->by = e;
		w->inspected |= reads_requests(e);
		if (!w->declared && !e->advisor && !e->host.wild && e->has_host &&
		    (*e->host.g.text || !w->in->host || !*w->in->host))
			w->declared = policy_program_allowed(w->p, e->rule, w->in, true) == 1;
	}
	return m > 0;
}

static int l4_found(void *u, const struct endpoint *e)
{
	l4_consider(u, e);
	return 0;
}

static void conclude_l4(const struct l4_walk *w, struct policy_decision *d)
{
	d->layer = POLICY_LAYER_L4;
	if (w->bad) {
		d->reason = POLICY_ERROR;
	} else if (w->by) {
		d->allow_network = true;
		d->verdict = POLICY_ALLOW;
		d->rule = w->by->rule->key;
		d->rule_name = w->by->rule->name;
		d->endpoint_line = w->by->line;
		d->inspect = w->inspected;
	} else {
		d->reason = w->near	     ? POLICY_BINARY_NOT_ALLOWED :
			    w->p->n_rules ? POLICY_ENDPOINT_UNKNOWN :
					    POLICY_EMPTY;
		if (w->near) {
			d->nearest = w->near->rule->key;
			d->endpoint_line = w->near->line;
		}
	}
	d->exact_declared_host = w->declared && !w->bad;
}

void policy_decide_l4(const struct policy *p, const struct policy_l4_input *in,
		      struct policy_decision *d)
{
	struct l4_walk w = { .p = p, .in = in };

	memset(d, 0, offsetof(struct policy_decision, text) + 1);
	if (in->port) /* no endpoint has port 0, and a lookup takes it as any */
		policy_each_endpoint(p, in->host, in->port, &w.bad, l4_found, &w);
	conclude_l4(&w, d);
	policy_explain_l4(p, in, w.near, d);
}

static int any_found(void *u, const struct endpoint *e)
{
	(void)u;
	(void)e;
	return 1;
}

bool policy_name_allowed(const struct policy *p, const char *host)
{
	return policy_each_endpoint(p, host, 0, NULL, any_found, NULL) == 1;
}

bool policy_has_network(const struct policy *p)
{
	return p->n_endpoints > 0;
}

/* ---- requests ---- */

struct l7_walk {
	const struct policy *p;
	const struct policy_request *in;
	struct l4_walk l4;
	const struct endpoint *first;	 /* first extended one: the reference's "matched config" */
	const struct endpoint *selected; /* by path: decides enforcement */
	bool has_l7;			 /* some endpoint reads requests at all */
	bool allow, deny, bad;
	const struct endpoint *allow_by, *deny_by;
	const struct clause *allow_clause, *deny_clause;
};

static bool method_matches(const char *actual, const char *expected)
{
	if (!strcmp(expected, "*"))
		return true;
	return !strcasecmp(actual, expected) ||
	       (!strcasecmp(actual, "HEAD") && !strcasecmp(expected, "GET"));
}

/* 1, 0 or -1 */
static int matcher_matches(const struct matcher *m, const char *value)
{
	int bad = 0;

	for (size_t i = 0; i < m->n; i++) {
		int r = policy_value_matches(&m->any[i], value);

		if (r > 0)
			return 1;
		bad |= r < 0;
	}
	return bad ? -1 : 0;
}

/* Every configured key is there and all of its values match. */
static int query_allows(const struct policy_request *in, const struct clause *c)
{
	for (size_t i = 0; i < c->n_query; i++) {
		bool seen = false;

		for (size_t k = 0; k < in->n_query; k++) {
			int m;

			if (strcmp(in->query[k].key, c->query[i].key) || !in->query[k].value)
				continue;
			seen = true;
			m = matcher_matches(&c->query[i].m, in->query[k].value);
			if (m <= 0)
				return m;
		}
		if (!seen)
			return 0;
	}
	return 1;
}

/* Every configured key is there and one of its values matches. */
static int query_denies(const struct policy_request *in, const struct clause *c)
{
	for (size_t i = 0; i < c->n_query; i++) {
		bool seen = false, hit = false;

		for (size_t k = 0; k < in->n_query && !hit; k++) {
			int m;

			if (strcmp(in->query[k].key, c->query[i].key))
				continue;
			seen = true;
			m = in->query[k].value ? matcher_matches(&c->query[i].m, in->query[k].value) : 1;
			if (m < 0)
				return -1;
			hit = m > 0;
		}
		if (!seen || !hit)
			return 0;
	}
	return 1;
}

static int rest_matches(const struct policy_request *in, const struct clause *c, bool deny)
{
	int m;

	if (!c->has_method || !c->has_path || !method_matches(in->method ? in->method : "", c->method))
		return 0;
	m = policy_path_matches(&c->path, in->path ? in->path : "", strlen(in->path ? in->path : ""));
	if (m <= 0)
		return m;
	return deny ? query_denies(in, c) : query_allows(in, c);
}

struct rest_walk {
	const struct policy_request *in;
	const struct clause *c, *hit;
	bool deny, bad;
};

static int rest_found(void *u, uint32_t value)
{
	struct rest_walk *w = u;
	int m = rest_matches(w->in, &w->c[value], w->deny);

	w->bad |= m < 0;
	if (m > 0)
		w->hit = &w->c[value];
	return m > 0;
}

static const struct clause *rest_clause(const struct policy_request *in, const struct clause *c, size_t n,
					const struct trie *t, bool deny, bool *bad)
{
	struct rest_walk w = { .in = in, .c = c, .deny = deny };

	if (t)
		policy_trie_each(t, TRIE_PATH, in->path ? in->path : "", rest_found, &w);
	else
		for (size_t i = 0; i < n && !w.hit; i++)
			rest_found(&w, (uint32_t)i);
	*bad |= w.bad && !w.hit;
	return w.hit;
}

static const struct clause *sql_clause(const struct policy_request *in, const struct clause *c, size_t n)
{
	for (size_t i = 0; in->command && i < n; i++)
		if (c[i].has_command &&
		    (!strcmp(c[i].command, "*") || !strcasecmp(in->command, c[i].command)))
			return &c[i];
	return NULL;
}

/* ---- GraphQL ---- */

static bool needs_registry(const struct policy_gql_op *op)
{
	return op->persisted && (!op->type || !*op->type);
}

static const struct registered *find_registered(const struct endpoint *e, const struct policy_gql_op *op)
{
	const char *key = op->hash && *op->hash ? op->hash : op->id && *op->id ? op->id : NULL;

	for (size_t i = 0; key && i < e->n_registry; i++)
		if (!strcmp(e->registry[i].key, key))
			return &e->registry[i];
	return NULL;
}

/* Some operation is only a hash that this endpoint does not know. */
static bool unregistered(const struct policy_gql *g, const struct endpoint *e)
{
	for (size_t i = 0; i < g->n; i++)
		if (needs_registry(&g->ops[i]) &&
		    (strcmp(e->persisted, "allow_registered") || !find_registered(e, &g->ops[i])))
			return true;
	return false;
}

static int field_matches(const struct clause *c, const char *field)
{
	int bad = 0;

	for (size_t i = 0; i < c->n_fields; i++) {
		int m = policy_value_matches(&c->fields[i], field);

		if (m > 0)
			return 1;
		bad |= m < 0;
	}
	return bad ? -1 : 0;
}

/* Type and name; fields differ between allow and deny. */
static int operation_matches(const struct policy_gql_op *op, const struct clause *c, bool deny)
{
	int m;

	if (!c->has_type ||
	    (strcmp(c->op_type, "*") && strcasecmp(op->type ? op->type : "", c->op_type)))
		return 0;
	if (c->has_op_name) {
		m = policy_value_matches(&c->op_name, op->name ? op->name : "");
		if (m <= 0)
			return m;
	}
	if (!c->n_fields)
		return 1;
	for (size_t i = 0; i < op->n_fields; i++) {
		m = field_matches(c, op->fields[i]);
		if (m < 0 || (deny ? m > 0 : m == 0))
			return m;
	}
	return !deny && op->n_fields > 0;
}

static const struct clause *gql_clause(const struct policy_gql_op *op, const struct endpoint *e, bool deny,
				       bool *bad)
{
	const struct clause *c = deny ? e->deny : e->allow;
	size_t n = deny ? e->n_deny : e->n_allow;

	if (needs_registry(op)) {
		const struct registered *r = find_registered(e, op);

		if (!r)
			return NULL;
		op = &r->op;
	}
	for (size_t i = 0; i < n; i++) {
		int m = operation_matches(op, &c[i], deny);

		*bad |= m < 0;
		if (m > 0)
			return &c[i];
	}
	return NULL;
}

/* Every operation is allowed, each by one clause. */
static const struct clause *gql_allowed(const struct policy_gql *g, const struct endpoint *e, bool *bad)
{
	const struct clause *c = NULL;

	if (!g || !g->n || (g->error && *g->error) || unregistered(g, e))
		return NULL;
	for (size_t i = 0; i < g->n; i++) {
		c = gql_clause(&g->ops[i], e, false, bad);
		if (!c)
			return NULL;
	}
	return c;
}

/* ---- JSON-RPC and MCP ---- */

static bool is_rpc(const struct endpoint *e)
{
	return e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP;
}

static bool rpc_parsed(const struct policy_rpc *r)
{
	return !r->error || !*r->error;
}

static int params_match(const struct policy_rpc *r, const struct clause *c)
{
	for (size_t i = 0; i < c->n_params; i++) {
		const char *value = NULL;
		int m;

		for (size_t k = 0; k < r->n && !value; k++)
			if (!strcmp(r->params[k].key, c->params[i].key))
				value = r->params[k].value;
		if (!value)
			return 0;
		m = matcher_matches(&c->params[i].m, value);
		if (m <= 0)
			return m;
	}
	return 1;
}

static int rpc_matches(const struct endpoint *e, const struct policy_rpc *r, const struct clause *c)
{
	int m;

	if (!r || !r->method || !*r->method || !c->has_method)
		return 0;
	if (e->protocol == POLICY_PROTO_JSONRPC)
		return !strcmp(c->method, "*") || !strcmp(c->method, r->method);
	if (c->method_glob.g.bad)
		return -1;
	m = policy_value_matches(&c->method_glob, r->method);
	return m <= 0 ? m : params_match(r, c);
}

static const struct clause *rpc_clause(const struct endpoint *e, const struct policy_rpc *r,
				       const struct clause *c, size_t n, bool *bad)
{
	for (size_t i = 0; i < n; i++) {
		int m = rpc_matches(e, r, &c[i]);

		*bad |= m < 0;
		if (m > 0)
			return &c[i];
	}
	return NULL;
}

static bool is_method(const struct policy_request *in, const char *method)
{
	return in->method && !strcmp(in->method, method);
}

static bool mcp_open(const struct endpoint *e, const struct policy_request *in)
{
	const struct policy_rpc *r = in->rpc;

	if (e->protocol != POLICY_PROTO_MCP || !r || !rpc_parsed(r))
		return false;
	if (is_method(in, "GET"))
		return r->receive_stream && !r->method && !r->has_response;
	if (!is_method(in, "POST"))
		return false;
	if (r->has_response)
		return true;
	return e->allow_all && r->method && *r->method &&
	       (strcmp(r->method, "tools/call") || !e->narrowed);
}

/* ---- one endpoint ---- */

static bool endpoint_allows(const struct endpoint *e, const struct policy_request *in,
			    const struct clause **by, bool *bad)
{
	const struct policy_rpc *r = in->rpc;
	const struct clause *c = NULL;

	if (!is_rpc(e))
		c = rest_clause(in, e->allow, e->n_allow, e->allow_paths, false, bad);
	else if (is_method(in, "POST") && !(r && r->has_response))
		c = rpc_clause(e, r, e->allow, e->n_allow, bad);
	if (!c)
		c = sql_clause(in, e->allow, e->n_allow);
	if (!c)
		c = gql_allowed(in->gql, e, bad);
	*by = c;
	return c || mcp_open(e, in);
}

static bool endpoint_denies(const struct endpoint *e, const struct policy_request *in,
			    const struct clause **by, bool *bad)
{
	const struct policy_rpc *r = in->rpc;
	const struct clause *c = NULL;

	if (!is_rpc(e))
		c = rest_clause(in, e->deny, e->n_deny, e->deny_paths, true, bad);
	else if (is_method(in, "POST"))
		c = rpc_clause(e, r, e->deny, e->n_deny, bad);
	if (!c)
		c = sql_clause(in, e->deny, e->n_deny);
	for (size_t i = 0; !c && in->gql && i < in->gql->n; i++)
		c = gql_clause(&in->gql->ops[i], e, true, bad);
	*by = c;
	if (c)
		return true;
	if (e->protocol == POLICY_PROTO_JSONRPC && is_method(in, "POST") && r && r->has_response)
		return true;
	/* The path of a GraphQL endpoint is its own: what it does not allow, no other endpoint can. */
	return (e->protocol == POLICY_PROTO_GRAPHQL || e->protocol == POLICY_PROTO_WEBSOCKET) && in->gql &&
	       !gql_allowed(in->gql, e, bad);
}

static int l7_found(void *u, const struct endpoint *e)
{
	struct l7_walk *w = u;
	const struct clause *c;
	const char *path = w->in->path ? w->in->path : "";
	int m;

	if (!l4_consider(&w->l4, e))
		return 0;
	if (e->extended && before(e, w->first))
		w->first = e;
	if (reads_requests(e)) {
		w->has_l7 = true;
		if (policy_selector_matches(&e->selector, path) &&
		    (!w->selected || e->specificity > w->selected->specificity ||
		     (e->specificity == w->selected->specificity && !before(e, w->selected))))
			w->selected = e;
	}
	m = *e->path ? policy_path_matches(&e->path_glob, path, strlen(path)) : 1;
	w->bad |= m < 0;
	if (m <= 0)
		return 0;
	if (endpoint_allows(e, w->in, &c, &w->bad)) {
		w->allow = true;
		if (before(e, w->allow_by)) {
			w->allow_by = e;
			w->allow_clause = c;
		}
	}
	if (endpoint_denies(e, w->in, &c, &w->bad)) {
		w->deny = true;
		if (before(e, w->deny_by)) {
			w->deny_by = e;
			w->deny_clause = c;
		}
	}
	return 0;
}

/*
 * The reference's name for the reason.  It is defined by independent rules; where two of them hold with
 * different texts its evaluation fails, and that is a denial.
 */
static enum policy_reason request_reason(const struct l7_walk *w, bool allow, bool deny)
{
	const struct policy_gql *g = w->in->gql;
	const struct policy_rpc *r = w->in->rpc;
	bool error = g && g->error && *g->error, ops = g && g->n, frame = r && r->has_response;
	bool unknown = ops && w->first && unregistered(g, w->first);
	enum policy_reason reason = POLICY_OK;
	int n = 0;

#define REASON(condition, name)                                                                            \
	do {                                                                                               \
		if (condition) {                                                                           \
			reason = name;                                                                     \
			n++;                                                                               \
		}                                                                                          \
	} while (0)
	REASON(error, POLICY_UNPARSEABLE);
	REASON(!error && unknown, POLICY_GQL_UNREGISTERED);
	REASON(deny && ops && !unknown, POLICY_GQL_DENIED);
	REASON(!deny && !allow && ops && !unknown, POLICY_GQL_NOT_ALLOWED);
	REASON(frame && w->first && w->first->protocol == POLICY_PROTO_JSONRPC, POLICY_RPC_RESPONSE_FRAME);
	REASON(deny && !ops && !frame, POLICY_DENY_RULE);
	REASON(!deny && !allow && !ops && !frame, POLICY_NOT_ALLOWED);
#undef REASON
	return n > 1 ? POLICY_ERROR : reason;
}

/* What is denied whatever the endpoint's enforcement says. */
static enum policy_reason hard_reason(const struct l7_walk *w)
{
	const struct policy_request *in = w->in;
	const struct endpoint *e = w->selected;

	if (in->gql && in->gql->error && *in->gql->error)
		return POLICY_UNPARSEABLE;
	if (in->rpc && !rpc_parsed(in->rpc) && e && is_rpc(e))
		return POLICY_UNPARSEABLE;
	if (!e)
		return POLICY_NO_ENDPOINT;
	if (e->protocol == POLICY_PROTO_JSONRPC && in->rpc && in->rpc->has_response)
		return POLICY_RPC_RESPONSE_FRAME;
	if (e->protocol == POLICY_PROTO_WEBSOCKET && in->upgrade == POLICY_UPGRADE_NO)
		return POLICY_NOT_ALLOWED;
	return POLICY_OK;
}

void policy_decide_request(const struct policy *p, const struct policy_request *in,
			   struct policy_decision *d)
{
	struct l7_walk w = { .p = p, .in = in, .l4 = { .p = p, .in = &in->l4 } };
	const struct endpoint *by;
	const struct clause *clause;
	enum policy_reason hard;
	bool bad = false;

	memset(d, 0, offsetof(struct policy_decision, text) + 1);
	if (in->l4.port)
		policy_each_endpoint(p, in->l4.host, in->l4.port, &w.l4.bad, l7_found, &w);
	bad = w.bad || w.l4.bad;
	conclude_l4(&w.l4, d);
	d->deny_request = w.deny && !bad;
	d->allow_request = w.allow && !w.deny && !bad;
	d->request_reason = bad ? POLICY_ERROR : request_reason(&w, d->allow_request, d->deny_request);
	if (!d->allow_network) {
		d->verdict = POLICY_DENY;
		policy_explain_l4(p, &in->l4, w.l4.near, d);
		return;
	}
	if (!w.has_l7 && !bad) { /* nothing reads this connection: the connection's verdict is all */
		policy_explain_l4(p, &in->l4, w.l4.near, d);
		return;
	}
	d->layer = POLICY_LAYER_L7;
	d->audited = w.selected && !w.selected->enforce;
	by = w.deny ? w.deny_by : w.allow ? w.allow_by : w.selected;
	clause = w.deny ? w.deny_clause : w.allow ? w.allow_clause : NULL;
	if (by) {
		d->rule = by->rule->key;
		d->rule_name = by->rule->name;
		d->endpoint_line = by->line;
	}
	d->clause_line = clause ? clause->line : 0;
	hard = bad ? POLICY_ERROR : hard_reason(&w);
	if (hard != POLICY_OK) {
		d->verdict = POLICY_DENY;
		d->reason = hard;
	} else if (d->allow_request) {
		d->verdict = POLICY_ALLOW;
	} else {
		d->verdict = d->audited ? POLICY_AUDIT : POLICY_DENY;
		d->reason = d->request_reason != POLICY_OK ? d->request_reason :
			    w.deny			   ? POLICY_DENY_RULE :
							     POLICY_NOT_ALLOWED;
	}
	policy_explain_request(p, in, w.selected, d);
}

/* ---- how to read a connection ---- */

struct select_walk {
	const struct policy *p;
	const struct policy_l4_input *in;
	const char *path;
	const struct endpoint *found;
};

static int select_found(void *u, const struct endpoint *e)
{
	struct select_walk *w = u;

	if (policy_program_allowed(w->p, e->rule, w->in, false) <= 0)
		return 0;
	if (!w->path) {
		if (e->extended && before(e, w->found))
			w->found = e;
		return 0;
	}
	if (!reads_requests(e) || !policy_selector_matches(&e->selector, w->path))
		return 0;
	if (!w->found || e->specificity > w->found->specificity ||
	    (e->specificity == w->found->specificity && !before(e, w->found)))
		w->found = e;
	return 0;
}

int policy_select_endpoint(const struct policy *p, const struct policy_l4_input *in, const char *path,
			   struct policy_endpoint_view *v)
{
	struct select_walk w = { .p = p, .in = in, .path = path };
	const struct endpoint *e;

	memset(v, 0, sizeof(*v));
	policy_each_endpoint(p, in->host, in->port, NULL, select_found, &w);
	e = w.found;
	if (!e)
		return 0;
	*v = (struct policy_endpoint_view){
		.rule = e->rule->key,
		.line = e->line,
		.protocol = e->protocol,
		.enforce = e->enforce,
		.tls_skip = e->tls_skip,
		.allow_encoded_slash = e->allow_encoded_slash,
		.strict_tool_names = e->strict_tools,
		.websocket_graphql = e->protocol == POLICY_PROTO_WEBSOCKET && e->graphql_policy,
		.body_max = e->protocol == POLICY_PROTO_GRAPHQL ? e->graphql_limit : e->jsonrpc_limit,
		.path = e->path,
	};
	return 1;
}
