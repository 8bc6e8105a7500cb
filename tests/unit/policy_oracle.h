/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_oracle.h - random pairs of small policies, and a brute-force answer to compare the prover with.
 *
 * The patterns come from small pools, and the domains that are enumerated hold every way in which the
 * pools can be told apart, so enumeration is an independent decision procedure: it never looks at a
 * pattern, it only asks the engine about every request of the domain.
 */
#ifndef HOLDFAST_TESTS_POLICY_ORACLE_H
#define HOLDFAST_TESTS_POLICY_ORACLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/prove.h"

#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t oracle_seed = 1;

static unsigned int roll(unsigned int n)
{
	oracle_seed ^= oracle_seed << 13;
	oracle_seed ^= oracle_seed >> 7;
	oracle_seed ^= oracle_seed << 17;
	return (unsigned int)(oracle_seed >> 11) % n;
}

/* ---- pools ---- */

static const char *const host_pool[] = { "a.x.t", "b.x.t", "*.x.t", "**.x.t", "a.*.t", "10.0.0.5" };
static const char *const host_domain[] = { "a.x.t", "b.x.t", "c.x.t", "a.b.x.t", "a.y.t", "x.t", "10.0.0.5", "z" };
static const int port_pool[] = { 80, 443, 6443 };
static const char *const program_pool[] = { "/u/a", "/u/b", "/u/*", "/u/**", "/**", "/o/**/x" };
static const char *const program_domain[] = { "/u/a", "/u/b", "/u/c", "/u/d/e", "/o/x", "/o/q/x", "/z" };
static const char *const method_pool[] = { "GET", "HEAD", "POST", "PUT", "*", "WEBSOCKET_TEXT" };
static const char *const method_domain[] = { "GET", "HEAD", "POST", "PUT", "WEBSOCKET_TEXT", "PURGE" };
static const char *const path_pool[] = { "/a", "/a/*", "/a/**", "**", "/**/x", "/v[12]/*", "/{a,b}/c", "/a*" };
static const char *const path_domain[] = { "/",	 "/a",	  "/a/",  "/a/c", "/a/c/d",   "/x",
					   "/a/x", "/v1/q", "/b/c", "/ab",	"/a/b%2Fc", "/v1/x" };
static const char *const ep_path_pool[] = { "", "/a/**", "/a", "/a/*" };
static const char *const value_pool[] = { "foo", "fo*", "*", "**", "a.b" };
static const char *const value_domain[] = { "foo", "fox", "zed", "a.b", "q.r" };
static const char *const rpc_pool[] = { "initialize", "tools/list", "tools/call", "tools/*" };
static const char *const rpc_domain[] = { "initialize", "tools/list", "tools/call", "x.y" };
static const char *const tool_pool[] = { "a", "b_*", "**" };
static const char *const tool_domain[] = { NULL, "a", "b_1", "c.d" };
static const char *const name_pool[] = { "Foo", "F*" };
static const char *const name_domain[] = { NULL, "Foo", "Fx" }; /* the last one only for single operations */
static const char *const field_pool[] = { "v", "c*" };
static const char *const addr_domain[] = { "1.1.1.1", "10.0.0.5", "10.9.0.1", "127.0.0.1", "fd00::1" };

/* ---- constructs, for coverage ---- */

#define CONSTRUCTS(X)                                                                                      \
	X(host_exact) X(host_star) X(host_doublestar) X(host_later_star) X(host_literal) X(hostless)       \
	X(two_ports) X(program_exact) X(program_star) X(program_tree) X(allowed_ips) X(control_port)       \
	X(l4_only) X(tcp) X(tls_skip) X(rest) X(rest_access) X(audit) X(path_exact) X(path_star)           \
	X(path_tree) X(path_class) X(path_braces) X(query_one) X(query_any) X(deny_request) X(deny_query)  \
	X(endpoint_path) X(encoded_slash) X(graphql) X(gql_type) X(gql_name) X(gql_fields) X(gql_deny)     \
	X(gql_registry) X(jsonrpc) X(jsonrpc_star) X(jsonrpc_deny) X(mcp) X(mcp_tool) X(mcp_tool_any)      \
	X(mcp_deny) X(mcp_allow_all) X(websocket) X(websocket_graphql) X(two_rules) X(files) X(process)

enum construct {
#define X(n) C_##n,
	CONSTRUCTS(X)
#undef X
		C_COUNT
};
static const char *const construct_names[] = {
#define X(n) #n,
	CONSTRUCTS(X)
#undef X
};

/* ---- specifications ---- */

enum family { F_L4, F_REST, F_GQL, F_RPC, F_WS, F_STATIC, F_COUNT };

struct gclause {
	int method, path, key, value, value2, type, name, field, rpc, tool, tool2;
};
struct gendpoint {
	int host, ports[2], n_ports, proto, path, enforce, access, ips, encoded, registry, all, skip;
	struct gclause allow[2], deny[2];
	int n_allow, n_deny;
};
struct grule {
	struct gendpoint e[2];
	int n, program[2], n_programs;
};
struct gpolicy {
	struct grule rule[2];
	int n, read[2], write[1], process, files, workdir;
};

static const char *const proto_names[] = { "", "tcp", "rest", "graphql", "json-rpc", "mcp", "websocket" };
enum { P_NONE, P_TCP, P_REST, P_GQL, P_RPC, P_MCP, P_WS };

static void gen_clause(struct gclause *c, enum family f, int proto)
{
	c->method = (int)roll(f == F_WS ? 6 : 5);
	if (f == F_WS && roll(2))
		c->method = roll(2) ? 0 : 5;
	c->path = (int)roll(ARRAY(path_pool));
	c->key = roll(3) ? -1 : (int)roll(2);
	c->value = (int)roll(ARRAY(value_pool));
	c->value2 = roll(2) ? -1 : (int)roll(ARRAY(value_pool));
	c->type = (int)roll(3);
	c->name = roll(3) ? -1 : (int)roll(2);
	c->field = roll(3) ? -1 : (int)roll(3);
	c->rpc = (int)roll(proto == P_RPC ? 4 : 4);
	c->tool = roll(2) ? -1 : (int)roll(3);
	c->tool2 = roll(3) ? -1 : (int)roll(3);
}

static void gen_endpoint(struct gendpoint *e, enum family f)
{
	static const int rest[] = { P_REST, P_REST, P_REST, P_NONE }, gql[] = { P_GQL, P_GQL, P_REST },
			 rpc[] = { P_RPC, P_MCP, P_MCP }, ws[] = { P_WS, P_WS, P_REST };

	memset(e, 0, sizeof(*e));
	e->host = f == F_L4 ? (int)roll(7) - (roll(6) ? 0 : 1) : roll(3) ? 0 : 2;
	if (e->host == 6)
		e->host = -1; /* hostless */
	e->n_ports = 1 + (f == F_L4 && !roll(3));
	e->ports[0] = f == F_L4 ? (int)roll(3) : 1;
	e->ports[1] = (int)roll(3);
	e->proto = f == F_L4   ? roll(3) ? P_NONE : P_TCP :
		   f == F_REST ? rest[roll(ARRAY(rest))] :
		   f == F_GQL  ? gql[roll(ARRAY(gql))] :
		   f == F_RPC  ? rpc[roll(ARRAY(rpc))] :
				 ws[roll(ARRAY(ws))];
	e->path = roll(3) || e->proto == P_NONE || e->proto == P_TCP ? 0 : (int)roll(ARRAY(ep_path_pool));
	e->enforce = roll(6) != 0;
	e->access = f == F_REST && !roll(4) ? 1 + (int)roll(3) : 0;
	e->ips = e->host < 0 ? 1 + (int)roll(2) : f == F_L4 && !roll(4) ? 1 + (int)roll(2) : 0;
	e->encoded = f == F_REST && !roll(4);
	e->registry = e->proto == P_GQL && !roll(3);
	e->all = e->proto == P_MCP && !roll(4);
	e->skip = f == F_L4 ? !roll(5) : !roll(30);
	e->n_allow = 1 + (int)roll(2);
	e->n_deny = !roll(3) ? 1 + (int)roll(2) : 0;
	for (int i = 0; i < 2; i++) {
		gen_clause(&e->allow[i], f, e->proto);
		gen_clause(&e->deny[i], f, e->proto);
	}
}

static void gen_rule(struct grule *r, enum family f)
{
	r->n = 1 + !roll(3);
	for (int i = 0; i < 2; i++) {
		gen_endpoint(&r->e[i], f);
		r->program[i] = (int)roll(f == F_L4 ? 6 : 3);
	}
	r->n_programs = 1 + !roll(3);
}

static void gen_policy(struct gpolicy *p, enum family f)
{
	memset(p, 0, sizeof(*p));
	p->n = f == F_STATIC ? 0 : 1 + !roll(2);
	for (int i = 0; i < 2; i++)
		gen_rule(&p->rule[i], f);
	p->files = f == F_STATIC ? roll(4) != 0 : 0;
	p->workdir = (int)roll(2);
	p->read[0] = (int)roll(4);
	p->read[1] = (int)roll(4);
	p->write[0] = (int)roll(4);
	p->process = f == F_STATIC ? (int)roll(3) : 0;
}

/* A small change: often narrower, sometimes wider. */
static void mutate(struct gpolicy *p, enum family f)
{
	struct grule *r = &p->rule[p->n ? roll((unsigned int)p->n) : 0];
	struct gendpoint *e = &r->e[roll((unsigned int)(r->n ? r->n : 1))];

	switch (roll(9)) {
	case 0:
		gen_clause(&e->allow[roll(2)], f, e->proto);
		break;
	case 1:
		if (e->n_allow > 1)
			e->n_allow--;
		break;
	case 2:
		if (e->n_deny < 2)
			e->n_deny++;
		break;
	case 3:
		gen_rule(r, f);
		break;
	case 4:
		r->program[0] = (int)roll(f == F_L4 ? 6 : 3);
		break;
	case 5:
		e->enforce = 1;
		break;
	case 6:
		e->host = 0;
		break;
	case 7:
		if (p->n > 1)
			p->n--;
		break;
	default:
		p->read[0] = (int)roll(4);
		p->write[0] = (int)roll(4);
		e->n_deny = 0;
	}
}

/* ---- text, with what it uses ---- */

struct text {
	char s[16384];
	size_t n;
	bool used[C_COUNT], uses_key[2];
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	t->n += (size_t)vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
	va_end(ap);
}

static void put_clause(struct text *t, const struct gendpoint *e, const struct gclause *c, bool deny, bool gql)
{
	put(t, deny ? "          - {" : "          - allow: {");
	if (gql) {
		static const char *const types[] = { "query", "mutation", "\"*\"" };

		put(t, "operation_type: %s", types[c->type]);
		t->used[C_gql_type] = true;
		if (c->name >= 0)
			put(t, ", operation_name: \"%s\"", name_pool[c->name]), t->used[C_gql_name] = true;
		if (c->field == 2)
			put(t, ", fields: [\"v\", \"c*\"]");
		else if (c->field >= 0)
			put(t, ", fields: [\"%s\"]", field_pool[c->field]);
		t->used[C_gql_fields] |= c->field >= 0;
		t->used[C_gql_deny] |= deny;
		put(t, "}%s\n", deny ? "" : "");
		return;
	}
	if (e->proto == P_RPC) {
		bool star = c->rpc == 3;

		put(t, "method: \"%s\"}\n", star ? "*" : rpc_pool[c->rpc]);
		t->used[C_jsonrpc_star] |= star;
		t->used[C_jsonrpc_deny] |= deny;
		return;
	}
	if (e->proto == P_MCP) {
		if (c->tool >= 0) {
			put(t, "method: tools/call, tool: ");
			if (c->tool2 >= 0)
				put(t, "{any: [\"%s\", \"%s\"]}", tool_pool[c->tool], tool_pool[c->tool2]);
			else
				put(t, "\"%s\"", tool_pool[c->tool]);
			t->used[C_mcp_tool] = true;
			t->used[C_mcp_tool_any] |= c->tool2 >= 0;
		} else {
			put(t, "method: \"%s\"", rpc_pool[c->rpc]);
		}
		t->used[C_mcp_deny] |= deny;
		put(t, "}\n");
		return;
	}
	put(t, "method: \"%s\", path: \"%s\"", method_pool[c->method], path_pool[c->path]);
	t->used[C_path_exact] |= c->path == 0;
	t->used[C_path_star] |= c->path == 1 || c->path == 7;
	t->used[C_path_tree] |= c->path == 2 || c->path == 4;
	t->used[C_path_class] |= c->path == 5;
	t->used[C_path_braces] |= c->path == 6;
	if (c->key >= 0) {
		put(t, ", query: {k%d: ", c->key);
		if (c->value2 >= 0)
			put(t, "{any: [\"%s\", \"%s\"]}}", value_pool[c->value], value_pool[c->value2]);
		else
			put(t, "\"%s\"}", value_pool[c->value]);
		t->used[C_query_one] |= c->value2 < 0;
		t->used[C_query_any] |= c->value2 >= 0;
		t->used[C_deny_query] |= deny;
		t->uses_key[c->key] = true;
	}
	t->used[C_deny_request] |= deny;
	put(t, "}\n");
}

static void put_endpoint(struct text *t, const struct gendpoint *e)
{
	static const char *const access[] = { "", "read-only", "read-write", "full" };
	static const char *const ips[] = { "", "10.0.0.0/16", "10.0.0.0/8" };
	bool l7 = e->proto >= P_REST;

	put(t, "      - ports: [%d", port_pool[e->ports[0]]);
	if (e->n_ports > 1)
		put(t, ", %d", port_pool[e->ports[1]]);
	put(t, "]\n");
	t->used[C_two_ports] |= e->n_ports > 1;
	t->used[C_control_port] |= e->ports[0] == 2 || (e->n_ports > 1 && e->ports[1] == 2);
	if (e->host >= 0)
		put(t, "        host: \"%s\"\n", host_pool[e->host]);
	t->used[e->host < 0 ? C_hostless :
		e->host < 2 ? C_host_exact :
		e->host == 2 ? C_host_star :
		e->host == 3 ? C_host_doublestar :
		e->host == 4 ? C_host_later_star :
			       C_host_literal] = true;
	if (e->ips)
		put(t, "        allowed_ips: [\"%s\"]\n", ips[e->ips]), t->used[C_allowed_ips] = true;
	if (e->skip && e->proto != P_TCP)
		put(t, "        tls: skip\n"), t->used[C_tls_skip] = true;
	if (e->proto)
		put(t, "        protocol: %s\n", proto_names[e->proto]);
	if (!l7) {
		t->used[e->proto == P_TCP ? C_tcp : C_l4_only] = true;
		return;
	}
	t->used[e->proto == P_REST ? C_rest :
		e->proto == P_GQL  ? C_graphql :
		e->proto == P_RPC  ? C_jsonrpc :
		e->proto == P_MCP  ? C_mcp :
				     C_websocket] = true;
	if (*ep_path_pool[e->path])
		put(t, "        path: \"%s\"\n", ep_path_pool[e->path]), t->used[C_endpoint_path] = true;
	if (e->enforce)
		put(t, "        enforcement: enforce\n");
	else
		t->used[C_audit] = true;
	if (e->encoded)
		put(t, "        allow_encoded_slash: true\n"), t->used[C_encoded_slash] = true;
	if (e->registry) {
		put(t, "        persisted_queries: allow_registered\n        graphql_persisted_queries:\n"
		       "          h1: {operation_type: query, fields: [v]}\n"
		       "          h2: {operation_type: mutation, operation_name: Foo, fields: [c]}\n");
		t->used[C_gql_registry] = true;
	}
	if (e->all)
		put(t, "        mcp: {allow_all_known_mcp_methods: true}\n"), t->used[C_mcp_allow_all] = true;
	if (e->access && e->proto == P_REST) {
		put(t, "        access: %s\n", access[e->access]);
		t->used[C_rest_access] = true;
	} else {
		put(t, "        rules:\n");
		for (int i = 0; i < e->n_allow; i++) {
			bool gql = e->proto == P_GQL || (e->proto == P_WS && e->allow[0].type == 0 && i == 1);

			t->used[C_websocket_graphql] |= gql && e->proto == P_WS;
			put_clause(t, e, &e->allow[i], false, gql);
		}
	}
	if (e->n_deny)
		put(t, "        deny_rules:\n");
	for (int i = 0; i < e->n_deny; i++)
		put_clause(t, e, &e->deny[i], true, e->proto == P_GQL);
}

static void put_policy(struct text *t, const struct gpolicy *p)
{
	static const char *const dirs[] = { "/d", "/d/e", "/f", "/usr" };

	memset(t, 0, sizeof(*t));
	put(t, "version: 1\n");
	if (p->files) {
		put(t, "filesystem_policy:\n  include_workdir: %s\n  read_only: [%s, %s]\n  read_write: [%s]\n",
		    p->workdir ? "true" : "false", dirs[p->read[0]], dirs[p->read[1]], dirs[p->write[0]]);
		t->used[C_files] = true;
	}
	if (p->process)
		put(t, "process: {run_as_user: \"%d\"}\n", p->process), t->used[C_process] = true;
	put(t, "network_policies:%s\n", p->n ? "" : " {}");
	t->used[C_two_rules] = p->n > 1;
	for (int i = 0; i < p->n; i++) {
		put(t, "  r%d:\n    endpoints:\n", i);
		for (int k = 0; k < p->rule[i].n; k++)
			put_endpoint(t, &p->rule[i].e[k]);
		put(t, "    binaries:\n");
		for (int k = 0; k < p->rule[i].n_programs; k++) {
			int g = p->rule[i].program[k];

			put(t, "      - path: \"%s\"\n", program_pool[g]);
			t->used[g < 2 ? C_program_exact : g == 2 ? C_program_star : C_program_tree] = true;
		}
	}
}

/* ---- enumeration ---- */

struct oracle {
	const struct policy *b, *c;
	struct policy_request r;
	struct wire w;
	struct policy_addr addr;
	enum family family;
	bool uses_key[2], b_connects;
	uint64_t asked, seen[256];
	size_t n_seen, addr_index, port_index;
};

/* Host, port, programs and address, without the request. */
static bool connects_to(const struct policy *p, const struct oracle *o)
{
	struct policy_decision d;

	policy_decide_l4(p, &o->r.l4, &d);
	if (d.verdict == POLICY_DENY)
		return false;
	policy_decide_dest(p, &o->r.l4, &o->addr, 1, NULL, &d);
	return d.verdict != POLICY_DENY;
}

/* The candidate connects, or we would not be here. */
static bool beyond(struct oracle *o)
{
	struct policy_decision d;

	o->asked++;
	return policy_forwards(o->c, &o->r, &o->w, &d) &&
	       !(o->b_connects && policy_forwards(o->b, &o->r, &o->w, &d));
}

static bool each_query(struct oracle *o)
{
	static const char *const keys[] = { "k0", "k1" };
	struct policy_query q[2];

	o->r.query = q;
	o->r.n_query = 0;
	if (beyond(o))
		return true;
	for (int key = 0; key < 2; key++)
		for (size_t i = 0; o->uses_key[key] && i < ARRAY(value_domain); i++) {
			q[0] = (struct policy_query){ keys[key], value_domain[i] };
			for (size_t k = i; k < ARRAY(value_domain); k++) {
				q[1] = (struct policy_query){ keys[key], value_domain[k] };
				o->r.n_query = k == i ? 1 : 2;
				if (beyond(o))
					return true;
			}
			for (size_t k = 0; !key && o->uses_key[1] && k < ARRAY(value_domain); k++) {
				q[1] = (struct policy_query){ keys[1], value_domain[k] };
				o->r.n_query = 2;
				if (beyond(o))
					return true;
			}
		}
	o->r.n_query = 0;
	return false;
}

static size_t gql_ops(struct policy_gql_op *ops)
{
	static const char *const sets[][2] = { { "v", NULL }, { "c", NULL }, { "z", NULL }, { "v", "c" } };
	static const char *const hashes[] = { "h1", "h2", "h9" };
	size_t n = 0;

	for (int t = 0; t < 3; t++)
		for (size_t m = 0; m < ARRAY(name_domain); m++)
			for (size_t s = 0; s < ARRAY(sets); s++)
				ops[n++] = (struct policy_gql_op){
					.type = t == 0 ? "query" : t == 1 ? "mutation" : "subscription",
					.name = name_domain[m],
					.fields = sets[s],
					.n_fields = sets[s][1] ? 2 : 1,
				};
	for (size_t h = 0; h < 3; h++)
		ops[n++] = (struct policy_gql_op){ .type = "", .persisted = true, .hash = hashes[h] };
	return n;
}

static bool each_gql(struct oracle *o)
{
	struct policy_gql_op ops[64], pair[2];
	size_t n = gql_ops(ops);
	struct policy_gql g = { .ops = ops, .n = 1 };

	o->w.gql = NULL;
	if (beyond(o))
		return true;
	o->w.gql = &g;
	for (size_t i = 0; i < n; i++) {
		g.ops = &ops[i];
		g.n = 1;
		if (beyond(o))
			return true;
	}
	/* batches of two, only where both members pass alone in the candidate */
	g.ops = pair;
	for (size_t i = 0; i < n; i++) {
		g.n = 1;
		struct policy_decision d;

		pair[0] = ops[i];
		if (!policy_forwards(o->c, &o->r, &o->w, &d))
			continue;
		for (size_t k = i + 1; k < n; k += 2) {
			pair[1] = ops[k];
			g.n = 2;
			if (beyond(o))
				return true;
		}
	}
	o->w.gql = NULL;
	return false;
}

static bool each_rpc(struct oracle *o)
{
	struct policy_param name = { "name", NULL };
	struct policy_rpc r = { .params = &name };

	o->w.rpc = NULL;
	if (beyond(o))
		return true;
	o->w.rpc = &r;
	r.has_response = true;
	if (beyond(o))
		return true;
	r.has_response = false;
	for (size_t i = 0; i < ARRAY(rpc_domain); i++)
		for (size_t k = 0; k < ARRAY(tool_domain); k++) {
			r.method = rpc_domain[i];
			name.value = tool_domain[k];
			r.n = name.value ? 1 : 0;
			if (beyond(o))
				return true;
		}
	o->w.rpc = NULL;
	return false;
}

static bool each_request(struct oracle *o)
{
	for (size_t m = 0; m < ARRAY(method_domain); m++)
		for (size_t i = 0; i < ARRAY(path_domain); i++) {
			o->r.method = method_domain[m];
			o->r.path = path_domain[i];
			o->w.encoded_slash = strstr(o->r.path, "%2F") != NULL;
			if (o->family == F_L4)
				return beyond(o); /* nothing reads requests there */
			if (m == 4 && o->family != F_WS) /* like any unknown method */
				continue;
			if (o->family == F_RPC ? each_rpc(o) : each_query(o))
				return true;
			if ((o->family == F_GQL && (m == 0 || m == 2)) || (o->family == F_WS && m == 4))
				if (each_gql(o))
					return true;
		}
	return false;
}

/*
 * Which endpoints of both policies take part is all that host, port and programs are about: one of each
 * kind is enumerated, the others could not differ.
 */
static bool seen_before(struct oracle *o)
{
	uint64_t key = (uint64_t)o->addr_index << 56 | (uint64_t)o->port_index << 48;

	for (int s = 0, bit = 0; s < 2; s++) {
		const struct policy *p = s ? o->c : o->b;

		for (size_t i = 0; i < p->n_endpoints; i++, bit++) {
			const struct endpoint *e = p->endpoints[i];
			bool host = *e->host.g.text ? policy_host_matches(&e->host, o->r.l4.host,
									   strlen(o->r.l4.host)) == 1 :
						      e->n_allowed_ips > 0;

			if (host && policy_endpoint_has_port(e, o->r.l4.port) &&
			    policy_program_allowed(p, e->rule, &o->r.l4, false) == 1)
				key |= 1ull << bit;
		}
	}
	if (o->r.l4.host[0] == '1') /* an address has rules of its own */
		key |= 1ull << 47;
	for (size_t i = 0; i < o->n_seen; i++)
		if (o->seen[i] == key)
			return true;
	if (o->n_seen < ARRAY(o->seen))
		o->seen[o->n_seen++] = key;
	return false;
}

static bool each_chain(struct oracle *o)
{
	static const char *ancestor[1];
	size_t n = o->family == F_L4 ? ARRAY(program_domain) : 3;

	o->r.l4.ancestors = ancestor;
	for (size_t i = 0; i < n; i++)
		for (size_t k = i; k < n; k++) { /* k == i: no ancestor */
			o->r.l4.program = program_domain[i];
			ancestor[0] = program_domain[k];
			o->r.l4.n = k > i;
			if (k > i && o->family != F_L4 && k == 2)
				continue; /* /u/c adds nothing to a chain with another of /u */
			if (!connects_to(o->c, o) || seen_before(o))
				continue;
			o->b_connects = connects_to(o->b, o);
			if (each_request(o))
				return true;
		}
	return false;
}

static bool oracle_files(const struct policy *b, const struct policy *c)
{
	static const char *const files[] = { "/d",	  "/d/q",     "/d/e", "/d/e/q",	  "/f",	      "/f/q", "/usr",
					     "/usr/lib/q", "/dev/null", "/tmp", "/root/q", "/root/.holdfast-anywhere" };

	for (size_t i = 0; i < ARRAY(files); i++)
		for (int write = 0; write < 2; write++)
			if (policy_file_allowed(c, files[i], write) && !policy_file_allowed(b, files[i], write))
				return true;
	if (b->st.has_filesystem && c->st.has_filesystem && c->st.include_workdir && !b->st.include_workdir)
		return true;
	return b->st.has_process &&
	       (!c->st.has_process || strcmp(b->st.run_as_user, c->st.run_as_user) != 0);
}

/* Is there anything in the domain that the candidate lets through and the boundary does not? */
static bool oracle_exceeds(const struct policy *b, const struct policy *c, enum family f, const bool keys[2],
			   uint64_t *asked)
{
	struct oracle o = { .b = b, .c = c, .family = f, .uses_key = { keys[0], keys[1] }, .r.l4.quiet = true };
	size_t hosts = f == F_L4 ? ARRAY(host_domain) : 2, ports = f == F_L4 ? 3 : 2;
	size_t addrs = f == F_L4 ? ARRAY(addr_domain) : 1;
	bool found = f == F_STATIC && oracle_files(b, c);

	for (size_t h = 0; h < hosts && !found && f != F_STATIC; h++)
		for (size_t p = f == F_L4 ? 0 : 1; p < ports && !found; p++)
			for (size_t a = 0; a < addrs && !found; a++) {
				o.r.l4.host = host_domain[h];
				o.r.l4.port = (uint16_t)port_pool[p];
				o.addr_index = a;
				o.port_index = p;
				/* an address in text has only itself */
				policy_addr_parse(h == 6 ? "10.0.0.5" : addr_domain[a], &o.addr);
				found = each_chain(&o);
			}
	*asked += o.asked;
	return found;
}

/* ---- pairs ---- */

struct tally {
	uint64_t pairs, within, exceeds, unsupported, disagreed, beyond_domain, asked, refused;
	uint64_t hit[C_COUNT][2];
};

static struct policy *oracle_parse(const struct text *t, bool complain)
{
	struct policy_diags d = { 0 };
	struct policy *p = policy_parse(t->s, t->n, POLICY_LENIENT, &d);

	if (!p && complain)
		for (size_t i = 0; i < d.n; i++)
			if (!d.v[i].warning)
				fprintf(stderr, "%u: %s: %s\n", d.v[i].line, d.v[i].path, d.v[i].text);
	policy_diags_free(&d);
	return p;
}

/* One pair; false if the two answers differ. */
static bool oracle_pair(struct tally *t)
{
	enum family f = (enum family)roll(F_COUNT);
	static struct text bt, ct;
	struct gpolicy b, c;
	struct policy *bp, *cp, *bound;
	struct policy_proof proof;
	bool found, good = true, keys[2];

	gen_policy(&b, f);
	if (roll(4)) {
		c = b;
		for (unsigned int i = roll(3); i > 0; i--)
			mutate(&c, f);
	} else {
		gen_policy(&c, f);
	}
	put_policy(&bt, &b);
	put_policy(&ct, &c);
	bp = oracle_parse(&bt, false);
	cp = bp ? oracle_parse(&ct, false) : NULL;
	if (!cp) {
		t->refused++;
		policy_put(bp);
		return true;
	}
	bound = policy_bind(cp, bp);
	policy_contains(bp, bound, &proof);
	keys[0] = bt.uses_key[0] || ct.uses_key[0];
	keys[1] = bt.uses_key[1] || ct.uses_key[1];
	found = oracle_exceeds(bp, bound, f, keys, &t->asked);
	t->pairs++;
	t->within += proof.result == POLICY_WITHIN;
	t->exceeds += proof.result == POLICY_EXCEEDS;
	t->unsupported += proof.result == POLICY_UNSUPPORTED;
	/* EXCEEDS was replayed by the prover itself; here its witness may lie outside of the domain */
	if (proof.result == POLICY_EXCEEDS && !found)
		t->beyond_domain++;
	if ((proof.result == POLICY_WITHIN && found) || proof.result == POLICY_UNSUPPORTED) {
		t->disagreed++;
		good = false;
		fprintf(stderr, "DISAGREE family %d: prover says %d (%s), oracle %s\n--- boundary\n%s--- candidate\n%s",
			(int)f, (int)proof.result, proof.text, found ? "exceeds" : "within", bt.s, ct.s);
	}
	for (int i = 0; i < C_COUNT; i++)
		if (bt.used[i] || ct.used[i])
			t->hit[i][proof.result == POLICY_WITHIN]++;
	policy_proof_free(&proof);
	policy_put(bound);
	policy_put(bp);
	policy_put(cp);
	return good;
}

static void tally_print(const struct tally *t, FILE *f)
{
	fprintf(f, "# %llu pairs: %llu within, %llu exceed, %llu unsupported, %llu disagreements; "
		   "%llu witnesses outside the enumerated domain; %llu requests enumerated; %llu pairs skipped\n",
		(unsigned long long)t->pairs, (unsigned long long)t->within, (unsigned long long)t->exceeds,
		(unsigned long long)t->unsupported, (unsigned long long)t->disagreed,
		(unsigned long long)t->beyond_domain, (unsigned long long)t->asked,
		(unsigned long long)t->refused);
	for (int i = 0; i < C_COUNT; i++)
		fprintf(f, "#   %-20s within %7llu  exceeds %7llu\n", construct_names[i],
			(unsigned long long)t->hit[i][1], (unsigned long long)t->hit[i][0]);
}

#endif
