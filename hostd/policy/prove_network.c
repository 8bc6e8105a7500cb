/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prove_network.c - is every connection and request that the candidate lets through also let through by
 * the boundary?
 *
 * Every condition of a policy is about one dimension at a time: the host, the port, the programs in a
 * chain of ancestors, the address, the method, the path, the values of one query key, and so on.  Per
 * dimension the product automaton of all its patterns (cells.c) gives the combinations of matches that a
 * single string can have, each with a string that has it.  What is left is propositional: which cells are
 * chosen, and what both policies make of them.  That formula goes to Z3; a model names one cell per
 * dimension, and its strings make a concrete request, which is then replayed through the engine.  Only a
 * replay that the candidate forwards and the boundary refuses is called a counterexample.
 *
 * Hosts and ports are taken first: each cell of hosts with each port of the candidate gives a small
 * problem of its own with only the endpoints that matter there.
 *
 * How a body is read depends on the endpoint that a path selects, so the same bytes may be GraphQL to one
 * policy and plain to the other.  A body therefore has two independent readings, as GraphQL and as
 * JSON-RPC, each of which may be absent.
 *
 * What is assumed: hosts are host names or addresses in text, paths are canonical, tool and method names
 * and query values are printable.  Where a construct is outside of the model the answer is "unsupported".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <z3.h>

#include "hostd/policy/cells.h"
#include "hostd/policy/prove.h"

#define SLOTS_MAX 4 /* operations of one GraphQL batch */
#define SIDE_ENDPOINTS_MAX 2000
/* Steps of the solver, not time: the answer must not depend on how busy the machine is. */
#define Z3_STEPS "100000000"

/* ---- sets of patterns ---- */

struct patterns {
	const struct automaton **v;
	const char **text; /* identity: flavour letter and pattern */
	size_t n;
	struct cells cells;
	Z3_ast *in; /* one variable per cell */
};

enum flavour { FLAVOUR_GLOB = 'g', FLAVOUR_LITERAL = 'l', FLAVOUR_TREE = 't', FLAVOUR_PLAIN = 'p' };

struct prover {
	struct arena *a;
	const struct policy *side[2]; /* 0 boundary, 1 candidate */
	struct policy_proof *out;
	const char *unsupported;
	unsigned int unsupported_line;
};

/* The index of a pattern, which is added if it is new; -1 out of memory. */
static int add_pattern(struct prover *p, struct patterns *s, enum flavour f, const char *text,
		       const struct automaton *given, enum automaton_feed feed, bool lower)
{
	const struct automaton **v;
	struct automaton *own;
	const char **t;
	char *id = policy_arena_printf(p->a, "%c%s", f, text);
	size_t n = s->n;

	if (!id)
		return -1;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->text[i], id))
			return (int)i;
	v = policy_arena_push(p->a, &s->v, &n, sizeof(*v));
	n = s->n;
	t = policy_arena_push(p->a, &s->text, &n, sizeof(*t));
	if (!v || !t)
		return -1;
	if (!given || !given->state) {
		own = policy_arena_alloc(p->a, sizeof(*own));
		if (!own || policy_automaton_literal(p->a, text, feed, lower, f == FLAVOUR_TREE, own) < 0)
			return -1;
		given = own;
	}
	*v = given;
	*t = id;
	s->n = n;
	return (int)s->n - 1;
}

static int compute(struct prover *p, struct patterns *s, const struct domain *domain, const char *what)
{
	int rc = policy_cells(p->a, s->v, s->n, domain, &s->cells);

	if (rc == -2)
		p->unsupported = policy_arena_printf(p->a, "too many different %s patterns at once", what);
	return rc;
}

/* ---- one problem: a host, a port, and the endpoints that matter there ---- */

struct side {
	const struct policy *p;
	const struct endpoint **e;
	size_t n;
	Z3_ast *cand;	 /* the program is right */
	Z3_ast *selects; /* and its path selects */
	Z3_ast *at_path; /* and its path matches as a glob */
};

struct key_values {
	const char *key;
	struct patterns values;
	Z3_ast absent; /* parameters only */
};

struct slot {
	Z3_ast used, type[3], *field, *name, *hash;
};

struct problem {
	struct prover *pr;
	Z3_context z;
	Z3_solver solver;
	const char *host;
	uint16_t port;
	bool literal;
	struct policy_addr literal_addr;
	struct side side[2];
	struct patterns programs, paths, rpc_methods, op_names, fields;
	struct key_values *query, *params;
	size_t n_query, n_params;
	const char **methods;
	size_t n_methods;
	Z3_ast *method;
	const char **hashes; /* keys of registries; the last one is in none */
	size_t n_hashes;
	struct slot slot[SLOTS_MAX];
	size_t n_slots;
	struct policy_addr *addrs; /* one per cell of the address space */
	size_t n_addrs;
	Z3_ast *addr;
	Z3_ast has_gql, has_rpc, is_response;
	int encoded; /* pattern of paths with an encoded slash */
	unsigned int serial;
};

static Z3_ast fresh(struct problem *w)
{
	Z3_sort b = Z3_mk_bool_sort(w->z);

	return Z3_mk_const(w->z, Z3_mk_int_symbol(w->z, (int)w->serial++), b);
}

static Z3_ast not_(struct problem *w, Z3_ast a)
{
	return Z3_mk_not(w->z, a);
}

static Z3_ast and_(struct problem *w, Z3_ast a, Z3_ast b)
{
	Z3_ast v[2] = { a, b };

	return Z3_mk_and(w->z, 2, v);
}

static Z3_ast or_(struct problem *w, Z3_ast a, Z3_ast b)
{
	Z3_ast v[2] = { a, b };

	return Z3_mk_or(w->z, 2, v);
}

static void demand(struct problem *w, Z3_ast a)
{
	Z3_solver_assert(w->z, w->solver, a);
}

static Z3_ast *variables(struct problem *w, size_t n)
{
	Z3_ast *v = policy_arena_array(w->pr->a, n ? n : 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = fresh(w);
	return v;
}

static Z3_ast any_of(struct problem *w, const Z3_ast *v, size_t n)
{
	return n ? Z3_mk_or(w->z, (unsigned int)n, v) : Z3_mk_false(w->z);
}

static void exactly_one(struct problem *w, const Z3_ast *v, size_t n)
{
	int *k = policy_arena_array(w->pr->a, n ? n : 1, sizeof(*k));

	if (!k || !n) {
		demand(w, Z3_mk_false(w->z));
		return;
	}
	for (size_t i = 0; i < n; i++)
		k[i] = 1;
	demand(w, Z3_mk_pbeq(w->z, (unsigned int)n, v, k, 1));
}

/* The chosen cell matches this pattern. */
static Z3_ast matches(struct problem *w, const struct patterns *s, const Z3_ast *in, int pattern)
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < s->cells.n; i++)
		if (policy_cell_matches(&s->cells, i, (size_t)pattern))
			out = or_(w, out, in[i]);
	return out;
}

/* ---- patterns of the model's parts ---- */

static int program_pattern(struct problem *w, const struct program_glob *g)
{
	return add_pattern(w->pr, &w->programs, g->wild ? FLAVOUR_GLOB : FLAVOUR_LITERAL, g->g.text,
			   g->wild ? &g->g.a : NULL, FEED_PLAIN, false);
}

static int path_pattern(struct problem *w, const struct path_glob *g)
{
	return add_pattern(w->pr, &w->paths, g->g.a.state ? FLAVOUR_GLOB : FLAVOUR_LITERAL, g->g.text,
			   g->g.a.state ? &g->g.a : NULL, FEED_PLAIN, false);
}

static int selector_pattern(struct problem *w, const struct selector_glob *g)
{
	char *base;

	if (g->tree) {
		base = policy_arena_strndup(w->pr->a, g->g.text, g->tree_len);
		return base ? add_pattern(w->pr, &w->paths, FLAVOUR_TREE, base, NULL, FEED_PLAIN, false) : -1;
	}
	if (g->g.bad || !g->g.a.state)
		return add_pattern(w->pr, &w->paths, FLAVOUR_LITERAL, g->g.text, NULL, FEED_PLAIN, false);
	return add_pattern(w->pr, &w->paths, FLAVOUR_PLAIN, g->g.text, &g->g.a, FEED_PLAIN, false);
}

static int value_pattern(struct problem *w, struct patterns *s, const struct value_glob *g)
{
	return add_pattern(w->pr, s, g->g.a.state ? FLAVOUR_GLOB : FLAVOUR_LITERAL, g->g.text,
			   g->g.a.state ? &g->g.a : NULL, FEED_DOTS, false);
}

static int rpc_method_pattern(struct problem *w, const struct endpoint *e, const struct clause *c)
{
	if (e->protocol == POLICY_PROTO_MCP)
		return value_pattern(w, &w->rpc_methods, &c->method_glob);
	return add_pattern(w->pr, &w->rpc_methods, FLAVOUR_LITERAL, c->method, NULL, FEED_DOTS, false);
}

static struct key_values *key_of(struct problem *w, struct key_values **list, size_t *n, const char *key)
{
	struct key_values *k;

	for (size_t i = 0; i < *n; i++)
		if (!strcmp((*list)[i].key, key))
			return &(*list)[i];
	k = policy_arena_push(w->pr->a, list, n, sizeof(*k));
	if (k) {
		memset(k, 0, sizeof(*k));
		k->key = key;
	}
	return k;
}

static void add_string(struct problem *w, const char ***list, size_t *n, const char *s, bool any_case)
{
	const char **slot;

	for (size_t i = 0; i < *n; i++)
		if (any_case ? !strcasecmp((*list)[i], s) : !strcmp((*list)[i], s))
			return;
	slot = policy_arena_push(w->pr->a, list, n, sizeof(*slot));
	if (slot)
		*slot = s;
}

static int gather_matcher(struct problem *w, struct patterns *s, const struct matcher *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (value_pattern(w, s, &m->any[i]) < 0)
			return -1;
	return 0;
}

static int gather_clause(struct problem *w, const struct endpoint *e, const struct clause *c)
{
	bool rpc = e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP;
	struct key_values *k;

	if (c->has_method && rpc) {
		if (rpc_method_pattern(w, e, c) < 0)
			return -1;
	} else if (c->has_method) {
		add_string(w, &w->methods, &w->n_methods, c->method, true);
	}
	if (c->has_path && !c->path.all && path_pattern(w, &c->path) < 0)
		return -1;
	for (size_t i = 0; i < c->n_query; i++) {
		k = key_of(w, &w->query, &w->n_query, c->query[i].key);
		if (!k || gather_matcher(w, &k->values, &c->query[i].m) < 0)
			return -1;
	}
	for (size_t i = 0; rpc && i < c->n_params; i++) {
		k = key_of(w, &w->params, &w->n_params, c->params[i].key);
		if (!k || gather_matcher(w, &k->values, &c->params[i].m) < 0)
			return -1;
	}
	if (c->has_op_name && value_pattern(w, &w->op_names, &c->op_name) < 0)
		return -1;
	for (size_t i = 0; i < c->n_fields; i++)
		if (value_pattern(w, &w->fields, &c->fields[i]) < 0)
			return -1;
	return 0;
}

static int gather(struct problem *w)
{
	static const char *const usual[] = { "GET", "HEAD", "POST", "PUT", "WEBSOCKET_TEXT", "PURGE" };
	size_t registries = 0;

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < w->side[s].n; i++) {
			const struct endpoint *e = w->side[s].e[i];

			for (size_t k = 0; k < e->rule->n_programs; k++)
				if (program_pattern(w, &e->rule->programs[k].path) < 0)
					return -1;
			if (*e->path && !e->path_glob.all && path_pattern(w, &e->path_glob) < 0)
				return -1;
			if (!e->selector.all && selector_pattern(w, &e->selector) < 0)
				return -1;
			for (size_t k = 0; k < e->n_allow; k++)
				if (gather_clause(w, e, &e->allow[k]) < 0)
					return -1;
			for (size_t k = 0; k < e->n_deny; k++)
				if (gather_clause(w, e, &e->deny[k]) < 0)
					return -1;
			for (size_t k = 0; k < e->n_registry; k++)
				add_string(w, &w->hashes, &w->n_hashes, e->registry[k].key, false);
			if (s == 0 && (e->graphql_policy || e->protocol == POLICY_PROTO_GRAPHQL))
				registries++;
		}
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		add_string(w, &w->methods, &w->n_methods, usual[i], true);
	add_string(w, &w->hashes, &w->n_hashes, "0000000000000000", false);
	if (add_pattern(w->pr, &w->rpc_methods, FLAVOUR_LITERAL, "tools/call", NULL, FEED_DOTS, false) < 0)
		return -1;
	/*
	 * A batch is refused if each endpoint of the boundary refuses one of its operations: as many
	 * operations as it has such endpoints are enough.
	 */
	w->n_slots = registries ? registries : 1;
	if (w->n_slots > SLOTS_MAX)
		w->pr->unsupported = "more than four GraphQL endpoints of the boundary on one host and port";
	return 0;
}

/* ---- the address space ---- */

static int addr_compare(const void *a, const void *b)
{
	const struct policy_addr *x = a, *y = b;

	return x->family != y->family ? x->family - y->family : memcmp(x->b, y->b, 16);
}

static int add_addr(struct problem *w, const struct policy_addr *a)
{
	struct policy_addr *slot = policy_arena_push(w->pr->a, &w->addrs, &w->n_addrs, sizeof(*slot));

	if (!slot)
		return -1;
	*slot = *a;
	return 0;
}

/* The address behind the last one of a range; false at the end of the space. */
static bool addr_after(const struct cidr *c, struct policy_addr *out)
{
	int n = c->addr.family == 4 ? 4 : 16;

	*out = c->addr;
	for (int i = 0; i < n; i++) {
		int first = i * 8;

		if (first >= c->bits)
			out->b[i] = 0xff;
		else if (first + 8 > c->bits)
			out->b[i] |= (uint8_t)(0xff >> (c->bits - first));
	}
	for (int i = n - 1; i >= 0; i--)
		if (++out->b[i])
			return true;
	return false;
}

/* The beginnings of all stretches on which no condition changes, one address each. */
static int gather_addrs(struct problem *w)
{
	static const char *const edges[] = {
		"0.0.0.0/32",	  "127.0.0.0/8",     "169.254.0.0/16", "10.0.0.0/8",	 "172.16.0.0/12",
		"192.168.0.0/16", "100.64.0.0/10",   "192.0.0.0/24",   "192.0.2.0/24",	 "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",	 "255.255.255.255/32",
		"0.0.0.0/8",	  "::/128",	     "::1/128",	       "fe80::/10",	 "fc00::/7",
		"64:ff9b::/96",	  "2002::/16",	     "fec0::/10",      "ff00::/8",	 "::/96",
		"::ffff:0:0/96",  "2000::/3",
	};
	struct policy_addr after;
	struct cidr c;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		if (policy_cidr_parse(edges[i], &c) == 0 &&
		    (add_addr(w, &c.addr) < 0 || (addr_after(&c, &after) && add_addr(w, &after) < 0)))
			return -1;
	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < w->side[s].n; i++)
			for (size_t k = 0; k < w->side[s].e[i]->n_cidrs; k++) {
				const struct cidr *r = &w->side[s].e[i]->cidrs[k];
				struct cidr masked = *r;

				for (int b = 0; b < 16; b++)
					masked.addr.b[b] &= b * 8 >= r->bits ? 0 :
							    b * 8 + 8 > r->bits ?
									     (uint8_t)(0xff << (b * 8 + 8 - r->bits)) :
									     0xff;
				if (add_addr(w, &masked.addr) < 0 ||
				    (addr_after(r, &after) && add_addr(w, &after) < 0))
					return -1;
			}
	if (w->literal && add_addr(w, &w->literal_addr) < 0)
		return -1;
	qsort(w->addrs, w->n_addrs, sizeof(*w->addrs), addr_compare);
	for (size_t i = 0; i < w->n_addrs; i++)
		if (!n || addr_compare(&w->addrs[n - 1], &w->addrs[i]))
			w->addrs[n++] = w->addrs[i];
	w->n_addrs = n;
	return 0;
}

/* ---- formulas ---- */

static bool is_l7(const struct endpoint *e)
{
	return e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP && !e->tls_skip;
}

static Z3_ast program_right(struct problem *w, const struct rule *r)
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < r->n_programs; i++)
		out = or_(w, out, matches(w, &w->programs, w->programs.in, program_pattern(w, &r->programs[i].path)));
	return out;
}

static Z3_ast path_is(struct problem *w, const struct path_glob *g)
{
	return g->all ? Z3_mk_true(w->z) : matches(w, &w->paths, w->paths.in, path_pattern(w, g));
}

static void prepare_side(struct problem *w, struct side *s)
{
	s->cand = policy_arena_array(w->pr->a, s->n + 1, sizeof(Z3_ast));
	s->selects = policy_arena_array(w->pr->a, s->n + 1, sizeof(Z3_ast));
	s->at_path = policy_arena_array(w->pr->a, s->n + 1, sizeof(Z3_ast));
	for (size_t i = 0; i < s->n && s->cand && s->selects && s->at_path; i++) {
		const struct endpoint *e = s->e[i];

		s->cand[i] = s->p->no_identity ? Z3_mk_true(w->z) : program_right(w, e->rule);
		s->selects[i] = e->selector.all ? s->cand[i] :
						  and_(w, s->cand[i],
						       matches(w, &w->paths, w->paths.in,
							       selector_pattern(w, &e->selector)));
		s->at_path[i] = *e->path ? and_(w, s->cand[i], path_is(w, &e->path_glob)) : s->cand[i];
	}
}

static Z3_ast connects(struct problem *w, const struct side *s)
{
	return any_of(w, s->cand, s->n);
}

static bool control_plane(uint16_t port)
{
	return port == 2379 || port == 2380 || port == 6443 || port == 10250 || port == 10255;
}

static Z3_ast addr_where(struct problem *w, bool (*test)(const struct policy_addr *a))
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < w->n_addrs; i++)
		if (test(&w->addrs[i]))
			out = or_(w, out, w->addr[i]);
	return out;
}

static Z3_ast addr_listed(struct problem *w, const struct endpoint *e)
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < w->n_addrs; i++)
		for (size_t k = 0; k < e->n_cidrs; k++)
			if (policy_cidr_contains(&e->cidrs[k], &w->addrs[i])) {
				out = or_(w, out, w->addr[i]);
				break;
			}
	return out;
}

/*
 * A host that is declared exactly may resolve to private addresses.  A candidate gets that only where the
 * boundary declares the host exactly too: policy_bind() takes it away everywhere else.
 */
static bool may_declare(const struct problem *w, const struct side *s)
{
	if (s == &w->side[0])
		return true;
	for (size_t i = 0; i < w->side[0].n; i++)
		if (!w->side[0].e[i]->host.wild && *w->side[0].e[i]->host.g.text)
			return true;
	return false;
}

static Z3_ast reaches(struct problem *w, const struct side *s)
{
	Z3_ast none_before = Z3_mk_true(w->z), listed = Z3_mk_false(w->z), in_list = listed, declared = listed;
	Z3_ast ok, rest;

	for (size_t i = 0; i < s->n; i++) {
		const struct endpoint *e = s->e[i];

		if (e->extended) { /* the endpoints come in the format's order: the first one counts */
			Z3_ast first = and_(w, none_before, s->cand[i]);

			if (e->n_allowed_ips) {
				listed = or_(w, listed, first);
				in_list = or_(w, in_list, and_(w, first, addr_listed(w, e)));
			}
			none_before = and_(w, none_before, not_(w, s->cand[i]));
		}
		if (!e->host.wild && *e->host.g.text && !e->advisor && may_declare(w, s))
			declared = or_(w, declared, s->cand[i]);
	}
	rest = w->literal ? Z3_mk_true(w->z) :
			    or_(w, declared, not_(w, addr_where(w, policy_addr_internal)));
	ok = or_(w, and_(w, listed, in_list), and_(w, not_(w, listed), rest));
	if (control_plane(w->port))
		ok = w->literal ? Z3_mk_false(w->z) : and_(w, ok, not_(w, or_(w, listed, declared)));
	return and_(w, ok, not_(w, addr_where(w, policy_addr_blocked)));
}

static Z3_ast method_is(struct problem *w, const char *expected)
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < w->n_methods; i++)
		if (!strcmp(expected, "*") || !strcasecmp(w->methods[i], expected) ||
		    (!strcasecmp(w->methods[i], "HEAD") && !strcasecmp(expected, "GET")))
			out = or_(w, out, w->method[i]);
	return out;
}

static Z3_ast method_exact(struct problem *w, const char *name)
{
	for (size_t i = 0; i < w->n_methods; i++)
		if (!strcmp(w->methods[i], name))
			return w->method[i];
	return Z3_mk_false(w->z);
}

static bool cell_in(struct problem *w, struct patterns *s, size_t cell, const struct value_glob *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (policy_cell_matches(&s->cells, cell, (size_t)value_pattern(w, s, &g[i])))
			return true;
	return false;
}

/* Allow: there, and all values match.  Deny: there, and one of them does. */
static Z3_ast query_is(struct problem *w, const struct clause *c, bool deny)
{
	Z3_ast out = Z3_mk_true(w->z);

	for (size_t i = 0; i < c->n_query; i++) {
		struct key_values *k = key_of(w, &w->query, &w->n_query, c->query[i].key);
		const struct matcher *m = &c->query[i].m;
		Z3_ast hit = Z3_mk_false(w->z), miss = hit;

		for (size_t j = 0; j < k->values.cells.n; j++) {
			if (cell_in(w, &k->values, j, m->any, m->n))
				hit = or_(w, hit, k->values.in[j]);
			else
				miss = or_(w, miss, k->values.in[j]);
		}
		out = and_(w, out, deny ? hit : and_(w, hit, not_(w, miss)));
	}
	return out;
}

static Z3_ast rest_is(struct problem *w, const struct clause *c, bool deny)
{
	if (!c->has_method || !c->has_path)
		return Z3_mk_false(w->z);
	return and_(w, and_(w, method_is(w, c->method), path_is(w, &c->path)), query_is(w, c, deny));
}

static Z3_ast rpc_method_in(struct problem *w, int pattern)
{
	return matches(w, &w->rpc_methods, w->rpc_methods.in, pattern);
}

static Z3_ast rpc_is(struct problem *w, const struct endpoint *e, const struct clause *c)
{
	Z3_ast out;

	if (!c->has_method)
		return Z3_mk_false(w->z);
	if (e->protocol == POLICY_PROTO_JSONRPC)
		return !strcmp(c->method, "*") ? Z3_mk_true(w->z) : rpc_method_in(w, rpc_method_pattern(w, e, c));
	out = rpc_method_in(w, rpc_method_pattern(w, e, c));
	for (size_t i = 0; i < c->n_params; i++) {
		struct key_values *k = key_of(w, &w->params, &w->n_params, c->params[i].key);
		const struct matcher *m = &c->params[i].m;
		Z3_ast hit = Z3_mk_false(w->z);

		for (size_t j = 0; j < k->values.cells.n; j++)
			if (cell_in(w, &k->values, j, m->any, m->n))
				hit = or_(w, hit, k->values.in[j]);
		out = and_(w, out, hit);
	}
	return out;
}

static const char *const op_types[3] = { "query", "mutation", "subscription" };

static Z3_ast op_is(struct problem *w, const struct clause *c, const struct slot *s, bool deny)
{
	Z3_ast out = Z3_mk_false(w->z), hit = out, miss = out;

	if (!c->has_type)
		return out;
	for (int t = 0; t < 3; t++)
		if (!strcmp(c->op_type, "*") || !strcasecmp(c->op_type, op_types[t]))
			out = or_(w, out, s->type[t]);
	if (c->has_op_name)
		out = and_(w, out,
			   matches(w, &w->op_names, s->name, value_pattern(w, &w->op_names, &c->op_name)));
	if (!c->n_fields)
		return out;
	for (size_t j = 0; j < w->fields.cells.n; j++) {
		if (cell_in(w, &w->fields, j, c->fields, c->n_fields))
			hit = or_(w, hit, s->field[j]);
		else
			miss = or_(w, miss, s->field[j]);
	}
	return and_(w, out, deny ? hit : and_(w, hit, not_(w, miss)));
}

/* A registered query is a constant: ask its clause directly. */
static bool registered_is(const struct registered *r, const struct clause *c, bool deny)
{
	const struct policy_gql_op *op = &r->op;
	size_t hits = 0;

	if (!c->has_type || (strcmp(c->op_type, "*") && strcasecmp(op->type, c->op_type)))
		return false;
	if (c->has_op_name && policy_value_matches(&c->op_name, op->name ? op->name : "") != 1)
		return false;
	if (!c->n_fields)
		return true;
	for (size_t i = 0; i < op->n_fields; i++) {
		bool hit = false;

		for (size_t k = 0; k < c->n_fields; k++)
			hit |= policy_value_matches(&c->fields[k], op->fields[i]) == 1;
		hits += hit;
	}
	return deny ? hits > 0 : op->n_fields && hits == op->n_fields;
}

static Z3_ast slot_is(struct problem *w, const struct endpoint *e, const struct slot *s, bool deny)
{
	const struct clause *c = deny ? e->deny : e->allow;
	size_t n = deny ? e->n_deny : e->n_allow;
	Z3_ast out = Z3_mk_false(w->z), document = not_(w, any_of(w, s->hash, w->n_hashes));

	for (size_t i = 0; i < n; i++)
		out = or_(w, out, and_(w, document, op_is(w, &c[i], s, deny)));
	for (size_t h = 0; h < w->n_hashes; h++)
		for (size_t r = 0; r < e->n_registry; r++) {
			bool hit = false;

			if (strcmp(e->registry[r].key, w->hashes[h]))
				continue;
			for (size_t i = 0; i < n; i++)
				hit |= registered_is(&e->registry[r], &c[i], deny);
			if (hit && (deny || !strcmp(e->persisted, "allow_registered")))
				out = or_(w, out, s->hash[h]);
			break;
		}
	return out;
}

static Z3_ast gql_allowed(struct problem *w, const struct endpoint *e)
{
	Z3_ast out = Z3_mk_true(w->z);

	for (size_t i = 0; i < w->n_slots; i++)
		out = and_(w, out, or_(w, not_(w, w->slot[i].used), slot_is(w, e, &w->slot[i], false)));
	return out;
}

/* How the request is read. */
enum reading { READ_PLAIN, READ_GQL, READ_CALL, READ_RESPONSE, READ_STREAM };

static Z3_ast clause_allows(struct problem *w, const struct endpoint *e, enum reading r)
{
	bool rpc = e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP;
	Z3_ast out = Z3_mk_false(w->z), post = method_exact(w, "POST"), get = method_exact(w, "GET"), open;

	for (size_t i = 0; i < e->n_allow; i++) {
		if (!rpc)
			out = or_(w, out, rest_is(w, &e->allow[i], false));
		else if (r == READ_CALL)
			out = or_(w, out, and_(w, post, rpc_is(w, e, &e->allow[i])));
		if (e->allow[i].has_command && !strcmp(e->allow[i].command, "*"))
			out = Z3_mk_true(w->z);
	}
	if (r == READ_GQL)
		out = or_(w, out, gql_allowed(w, e));
	if (e->protocol != POLICY_PROTO_MCP)
		return out;
	if (r == READ_STREAM)
		out = or_(w, out, get);
	if (r == READ_RESPONSE)
		out = or_(w, out, post);
	if (r == READ_CALL && e->allow_all) {
		open = e->narrowed ? not_(w, rpc_method_in(w, add_pattern(w->pr, &w->rpc_methods, FLAVOUR_LITERAL,
									    "tools/call", NULL, FEED_DOTS, false))) :
				     Z3_mk_true(w->z);
		out = or_(w, out, and_(w, post, open));
	}
	return out;
}

static Z3_ast clause_denies(struct problem *w, const struct endpoint *e, enum reading r)
{
	bool rpc = e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP;
	Z3_ast out = Z3_mk_false(w->z), post = method_exact(w, "POST");

	for (size_t i = 0; i < e->n_deny; i++) {
		if (!rpc)
			out = or_(w, out, rest_is(w, &e->deny[i], true));
		else if (r == READ_CALL)
			out = or_(w, out, and_(w, post, rpc_is(w, e, &e->deny[i])));
		if (e->deny[i].has_command && !strcmp(e->deny[i].command, "*"))
			out = Z3_mk_true(w->z);
	}
	if (r == READ_RESPONSE && e->protocol == POLICY_PROTO_JSONRPC)
		out = or_(w, out, post);
	if (r != READ_GQL)
		return out;
	for (size_t i = 0; i < w->n_slots; i++)
		out = or_(w, out, and_(w, w->slot[i].used, slot_is(w, e, &w->slot[i], true)));
	if (e->protocol == POLICY_PROTO_GRAPHQL || e->protocol == POLICY_PROTO_WEBSOCKET)
		out = or_(w, out, not_(w, gql_allowed(w, e)));
	return out;
}

static Z3_ast judged(struct problem *w, const struct side *s, enum reading r)
{
	Z3_ast allow = Z3_mk_false(w->z), deny = allow;

	for (size_t i = 0; i < s->n; i++) {
		allow = or_(w, allow, and_(w, s->at_path[i], clause_allows(w, s->e[i], r)));
		deny = or_(w, deny, and_(w, s->at_path[i], clause_denies(w, s->e[i], r)));
	}
	return and_(w, allow, not_(w, deny));
}

/* Forwarded, given that endpoint @e was selected. */
static Z3_ast forwards_at(struct problem *w, const struct endpoint *e, const Z3_ast verdict[])
{
	Z3_ast get = method_exact(w, "GET"), post = method_exact(w, "POST"), text, out;
	Z3_ast v[5];

	for (int i = 0; i < 5; i++)
		v[i] = e->enforce ? verdict[i] : Z3_mk_true(w->z);
	switch (e->protocol) {
	case POLICY_PROTO_GRAPHQL:
		out = and_(w, and_(w, or_(w, get, post), w->has_gql), v[READ_GQL]);
		break;
	case POLICY_PROTO_WEBSOCKET:
		text = method_exact(w, "WEBSOCKET_TEXT");
		out = v[READ_PLAIN];
		if (e->graphql_policy)
			out = or_(w, and_(w, not_(w, text), v[READ_PLAIN]),
				  and_(w, and_(w, text, w->has_gql), v[READ_GQL]));
		break;
	case POLICY_PROTO_JSONRPC:
	case POLICY_PROTO_MCP:
		out = and_(w, and_(w, post, w->has_rpc),
			   or_(w, and_(w, not_(w, w->is_response), v[READ_CALL]),
			       and_(w, w->is_response,
				    e->protocol == POLICY_PROTO_MCP ? v[READ_RESPONSE] : Z3_mk_false(w->z))));
		out = or_(w, out, and_(w, get, v[READ_STREAM]));
		out = or_(w, out, and_(w, and_(w, not_(w, get), not_(w, post)), v[READ_PLAIN]));
		break;
	default:
		out = v[READ_PLAIN];
	}
	if (!e->allow_encoded_slash)
		out = and_(w, out, not_(w, matches(w, &w->paths, w->paths.in, w->encoded)));
	return out;
}

static bool better(const struct side *s, size_t a, size_t b)
{
	return s->e[a]->specificity > s->e[b]->specificity ||
	       (s->e[a]->specificity == s->e[b]->specificity && a > b);
}

static Z3_ast forwards(struct problem *w, const struct side *s)
{
	Z3_ast verdict[5], inspected = Z3_mk_false(w->z), out = inspected;

	for (int r = 0; r < 5; r++)
		verdict[r] = judged(w, s, (enum reading)r);
	for (size_t i = 0; i < s->n; i++) {
		Z3_ast chosen;

		if (!is_l7(s->e[i]))
			continue;
		inspected = or_(w, inspected, s->cand[i]);
		chosen = s->selects[i];
		for (size_t k = 0; k < s->n; k++)
			if (k != i && is_l7(s->e[k]) && better(s, k, i))
				chosen = and_(w, chosen, not_(w, s->selects[k]));
		out = or_(w, out, and_(w, chosen, forwards_at(w, s->e[i], verdict)));
	}
	return or_(w, not_(w, inspected), out);
}

/* ---- variables and their domains ---- */

static int make_variables(struct problem *w)
{
	struct prover *p = w->pr;
	bool strict_tools = true;
	struct automaton slash;
	const char *why;

	for (size_t i = 0; i < w->side[1].n; i++)
		strict_tools &= w->side[1].e[i]->protocol != POLICY_PROTO_MCP || w->side[1].e[i]->strict_tools;
	if (policy_automaton_compile(p->a, "*%2F*", FEED_PLAIN, GRAMMAR_PLAIN, false, &slash, &why) < 0)
		return -1;
	struct automaton *kept = policy_arena_alloc(p->a, sizeof(*kept));

	if (!kept)
		return -1;
	*kept = slash;
	w->encoded = add_pattern(p, &w->paths, FLAVOUR_PLAIN, "*%2F*", kept, FEED_PLAIN, false);
	if (w->encoded < 0 || compute(p, &w->programs, &domain_program, "program") < 0 ||
	    compute(p, &w->paths, &domain_path, "path") < 0 ||
	    compute(p, &w->rpc_methods, &domain_text, "JSON-RPC method") < 0 ||
	    compute(p, &w->op_names, &domain_word, "operation name") < 0 ||
	    compute(p, &w->fields, &domain_word, "field") < 0)
		return -1;
	for (size_t i = 0; i < w->n_query; i++)
		if (compute(p, &w->query[i].values, &domain_value, "query value") < 0)
			return -1;
	for (size_t i = 0; i < w->n_params; i++)
		if (compute(p, &w->params[i].values, strict_tools ? &domain_tool : &domain_value, "tool") < 0)
			return -1;

	w->programs.in = variables(w, w->programs.cells.n);
	demand(w, any_of(w, w->programs.in, w->programs.cells.n)); /* a chain: any number of them */
	w->paths.in = variables(w, w->paths.cells.n);
	exactly_one(w, w->paths.in, w->paths.cells.n);
	w->rpc_methods.in = variables(w, w->rpc_methods.cells.n);
	exactly_one(w, w->rpc_methods.in, w->rpc_methods.cells.n);
	w->method = variables(w, w->n_methods);
	exactly_one(w, w->method, w->n_methods);
	for (size_t i = 0; i < w->n_query; i++)
		w->query[i].values.in = variables(w, w->query[i].values.cells.n);
	for (size_t i = 0; i < w->n_params; i++) {
		struct patterns *v = &w->params[i].values;
		Z3_ast *all = variables(w, v->cells.n + 1); /* the last one: absent, or no string */

		v->in = all;
		w->params[i].absent = all[v->cells.n];
		exactly_one(w, all, v->cells.n + 1);
	}
	for (size_t i = 0; i < w->n_slots; i++) {
		struct slot *s = &w->slot[i];
		Z3_ast *types = variables(w, 3), *kinds;

		s->used = fresh(w);
		memcpy(s->type, types, sizeof(s->type));
		s->field = variables(w, w->fields.cells.n);
		s->name = variables(w, w->op_names.cells.n + 1); /* the last one: anonymous */
		s->hash = variables(w, w->n_hashes);
		exactly_one(w, s->type, 3);
		exactly_one(w, s->name, w->op_names.cells.n + 1);
		demand(w, any_of(w, s->field, w->fields.cells.n));
		kinds = policy_arena_array(p->a, w->n_hashes + 1, sizeof(*kinds));
		if (!kinds)
			return -1;
		memcpy(kinds, s->hash, w->n_hashes * sizeof(*kinds));
		kinds[w->n_hashes] = fresh(w); /* a document */
		exactly_one(w, kinds, w->n_hashes + 1);
	}
	demand(w, w->slot[0].used);
	w->has_gql = fresh(w);
	w->has_rpc = fresh(w);
	w->is_response = fresh(w);
	w->addr = variables(w, w->n_addrs);
	exactly_one(w, w->addr, w->n_addrs);
	for (size_t i = 0; w->literal && i < w->n_addrs; i++)
		if (!addr_compare(&w->addrs[i], &w->literal_addr))
			demand(w, w->addr[i]);
	return policy_arena_failed(p->a) ? -1 : 0;
}

/* ---- from a model to a request ---- */

static bool is_true(struct problem *w, Z3_model m, Z3_ast a)
{
	Z3_ast v = NULL;

	return Z3_model_eval(w->z, m, a, true, &v) && Z3_get_bool_value(w->z, v) == Z3_L_TRUE;
}

static const char *chosen(struct problem *w, Z3_model m, const struct patterns *s, const Z3_ast *in)
{
	for (size_t i = 0; i < s->cells.n; i++)
		if (is_true(w, m, in[i]))
			return s->cells.witness[i];
	return NULL;
}

struct request_parts {
	struct policy_request r;
	struct wire wire;
	struct policy_addr addr;
	struct policy_gql gql;
	struct policy_rpc rpc;
};

static int read_ops(struct problem *w, Z3_model m, struct policy_gql *g)
{
	struct arena *a = w->pr->a;
	struct policy_gql_op *ops = policy_arena_array(a, w->n_slots, sizeof(*ops));

	if (!ops)
		return -1;
	g->ops = ops;
	for (size_t i = 0; i < w->n_slots; i++) {
		const struct slot *s = &w->slot[i];
		struct policy_gql_op *op = &ops[g->n];
		const char **fields = NULL;

		if (!is_true(w, m, s->used))
			continue;
		g->n++;
		op->type = "";
		for (size_t h = 0; h < w->n_hashes; h++)
			if (is_true(w, m, s->hash[h])) {
				op->persisted = true;
				op->hash = w->hashes[h];
			}
		if (op->persisted)
			continue;
		for (int t = 0; t < 3; t++)
			if (is_true(w, m, s->type[t]))
				op->type = op_types[t];
		op->name = chosen(w, m, &w->op_names, s->name);
		for (size_t j = 0; j < w->fields.cells.n; j++)
			if (is_true(w, m, s->field[j])) {
				const char **slot =
					policy_arena_push(a, &fields, &op->n_fields, sizeof(*slot));

				if (!slot)
					return -1;
				*slot = w->fields.cells.witness[j];
			}
		op->fields = fields;
	}
	return 0;
}

static int read_model(struct problem *w, Z3_model m, struct request_parts *x)
{
	struct arena *a = w->pr->a;
	const char **chain = policy_arena_array(a, w->programs.cells.n, sizeof(*chain));
	struct policy_query *q = NULL;
	struct policy_param *params = policy_arena_array(a, w->n_params, sizeof(*params));
	size_t n = 0;

	if (!chain || !params)
		return -1;
	for (size_t i = 0; i < w->programs.cells.n; i++)
		if (is_true(w, m, w->programs.in[i]))
			chain[n++] = w->programs.cells.witness[i];
	x->r.l4 = (struct policy_l4_input){ .host = w->host, .port = w->port, .program = chain[0],
					    .ancestors = chain + 1, .n = n ? n - 1 : 0 };
	for (size_t i = 0; i < w->n_methods; i++)
		if (is_true(w, m, w->method[i]))
			x->r.method = w->methods[i];
	x->r.path = chosen(w, m, &w->paths, w->paths.in);
	for (size_t i = 0; i < w->n_query; i++)
		for (size_t j = 0; j < w->query[i].values.cells.n; j++) {
			struct policy_query *slot;

			if (!is_true(w, m, w->query[i].values.in[j]))
				continue;
			slot = policy_arena_push(a, &q, &x->r.n_query, sizeof(*slot));
			if (!slot)
				return -1;
			slot->key = w->query[i].key;
			slot->value = w->query[i].values.cells.witness[j];
		}
	x->r.query = q;
	for (size_t i = 0; i < w->n_params; i++) {
		const char *v = chosen(w, m, &w->params[i].values, w->params[i].values.in);

		if (v)
			params[x->rpc.n++] = (struct policy_param){ w->params[i].key, v };
	}
	x->rpc.params = params;
	x->rpc.has_response = is_true(w, m, w->is_response);
	if (!x->rpc.has_response) {
		x->rpc.method = chosen(w, m, &w->rpc_methods, w->rpc_methods.in);
		x->rpc.has_method = true;
	}
	for (size_t i = 0; i < w->n_addrs; i++)
		if (is_true(w, m, w->addr[i]))
			x->addr = w->addrs[i];
	if (read_ops(w, m, &x->gql) < 0)
		return -1;
	x->wire.gql = is_true(w, m, w->has_gql) ? &x->gql : NULL;
	x->wire.rpc = is_true(w, m, w->has_rpc) ? &x->rpc : NULL;
	x->wire.encoded_slash = x->r.path && strstr(x->r.path, "%2F");
	return x->r.path && x->r.method ? 0 : -1;
}

bool policy_forwards(const struct policy *p, const struct policy_request *in, const struct wire *w,
		     struct policy_decision *d)
{
	static const struct policy_rpc stream = { .receive_stream = true };
	struct policy_endpoint_view v;
	struct policy_request r = *in;
	bool get = !strcmp(in->method, "GET"), post = !strcmp(in->method, "POST"), read = true;

	if (policy_select_endpoint(p, &in->l4, in->path, &v)) {
		if (v.protocol == POLICY_PROTO_GRAPHQL)
			read = (get || post) && (r.gql = w->gql);
		else if (v.protocol == POLICY_PROTO_WEBSOCKET && v.websocket_graphql &&
			 !strcmp(in->method, "WEBSOCKET_TEXT"))
			read = (r.gql = w->gql) != NULL;
		else if ((v.protocol == POLICY_PROTO_JSONRPC || v.protocol == POLICY_PROTO_MCP) && get)
			r.rpc = &stream;
		else if ((v.protocol == POLICY_PROTO_JSONRPC || v.protocol == POLICY_PROTO_MCP) && post)
			read = (r.rpc = w->rpc) != NULL;
		if (w->encoded_slash && !v.allow_encoded_slash)
			read = false;
	}
	policy_decide_request(p, &r, d);
	if (!read && d->verdict != POLICY_DENY) {
		d->verdict = POLICY_DENY;
		d->reason = POLICY_UNPARSEABLE;
		snprintf(d->text, sizeof(d->text), "the body cannot be read as the endpoint at line %u demands",
			 v.line);
	}
	return d->verdict != POLICY_DENY;
}

/* Let through as a whole; @d is the decision that refuses, or the last one. */
static bool lets_through(const struct policy *p, const struct request_parts *x, struct policy_decision *d)
{
	policy_decide_l4(p, &x->r.l4, d);
	if (d->verdict == POLICY_DENY)
		return false;
	policy_decide_dest(p, &x->r.l4, &x->addr, 1, NULL, d);
	if (d->verdict == POLICY_DENY)
		return false;
	return policy_forwards(p, &x->r, &x->wire, d);
}

/* ---- the answer ---- */

static void copy_text(char *out, size_t size, const char *s)
{
	snprintf(out, size, "%s", s ? s : "");
}

static void describe(struct problem *w, const struct request_parts *x, const struct policy_decision *allow,
		     const struct policy_decision *deny)
{
	struct policy_proof *o = w->pr->out;
	const char *what = "connection";
	char how[700] = "";
	size_t n;

	o->result = POLICY_EXCEEDS;
	o->line = allow->clause_line ? allow->clause_line : allow->endpoint_line;
	copy_text(o->host, sizeof(o->host), w->host);
	o->port = w->port;
	copy_text(o->program, sizeof(o->program), x->r.l4.program);
	o->dimension = deny->layer == POLICY_LAYER_L7	       ? "request" :
		       deny->layer == POLICY_LAYER_DESTINATION ? "destination" :
								 "network";
	if (deny->layer == POLICY_LAYER_L7) {
		what = "request";
		copy_text(o->method, sizeof(o->method), x->r.method);
		copy_text(o->path, sizeof(o->path), x->r.path);
		for (size_t i = 0; i < x->r.n_query; i++) {
			n = strlen(o->path);
			snprintf(o->path + n, sizeof(o->path) - n, "%c%s=%s", i ? '&' : '?', x->r.query[i].key,
				 x->r.query[i].value);
		}
		snprintf(how, sizeof(how), " to send %.40s %.300s", o->method, o->path);
		if (x->wire.rpc && x->rpc.method) {
			n = strlen(how);
			snprintf(how + n, sizeof(how) - n, " (call %.80s%s%.80s)", x->rpc.method,
				 x->rpc.n ? ", name " : "", x->rpc.n ? x->rpc.params[0].value : "");
			if (x->rpc.n)
				copy_text(o->tool, sizeof(o->tool), x->rpc.params[0].value);
		}
		for (size_t i = 0; x->wire.gql && i < x->gql.n; i++) {
			const struct policy_gql_op *op = &x->gql.ops[i];

			n = strlen(how);
			snprintf(how + n, sizeof(how) - n, " (GraphQL %s %.60s%s%.60s)",
				 op->persisted ? "persisted query" : op->type, op->name ? op->name : "",
				 op->n_fields ? " field " : "", op->n_fields ? op->fields[0] : "");
		}
	} else {
		snprintf(how, sizeof(how), " to connect");
	}
	n = (size_t)snprintf(o->text, sizeof(o->text), "exceeds (%s): line %u of the candidate lets %.200s", what,
			     o->line, o->program);
	if (x->r.l4.n)
		n += (size_t)snprintf(o->text + n, sizeof(o->text) - n, " (started by %.100s)",
				      x->r.l4.ancestors[0]);
	if (n < sizeof(o->text))
		snprintf(o->text + n, sizeof(o->text) - n, "%.420s on %.100s:%u; the boundary: %.200s", how, w->host,
			 w->port, deny->text);
}

static int keep_request(struct problem *w, const struct request_parts *x)
{
	struct policy_proof *o = w->pr->out;
	struct request_parts *kept = policy_arena_alloc(w->pr->a, sizeof(*kept));

	if (!kept)
		return -1;
	*kept = *x;
	kept->r.gql = x->wire.gql ? &kept->gql : NULL;
	kept->r.rpc = x->wire.rpc ? &kept->rpc : NULL;
	o->request = &kept->r;
	return 0;
}

static enum policy_containment unsupported(struct prover *p, unsigned int line, const char *what)
{
	p->out->result = POLICY_UNSUPPORTED;
	p->out->dimension = "network";
	p->out->line = line;
	snprintf(p->out->construct, sizeof(p->out->construct), "%s", what);
	snprintf(p->out->text, sizeof(p->out->text), "unsupported (counts as not within): %s, near line %u", what,
		 line);
	return POLICY_UNSUPPORTED;
}

static enum policy_containment conclude(struct problem *w, Z3_lbool answer)
{
	struct policy_decision allow, deny;
	struct request_parts x = { 0 };
	unsigned int line = w->side[1].n ? w->side[1].e[0]->line : 0;
	Z3_model m;
	int rc;

	if (answer == Z3_L_FALSE)
		return POLICY_WITHIN;
	if (answer == Z3_L_UNDEF)
		return unsupported(w->pr, line, "the solver gave up on these rules");
	m = Z3_solver_get_model(w->z, w->solver);
	Z3_model_inc_ref(w->z, m);
	rc = read_model(w, m, &x);
	Z3_model_dec_ref(w->z, m);
	if (rc < 0)
		return unsupported(w->pr, line, "out of memory");
	if (!lets_through(w->pr->side[1], &x, &allow) || lets_through(w->pr->side[0], &x, &deny))
		return unsupported(w->pr, line, "the model and the engine disagree about these rules");
	if (keep_request(w, &x) < 0)
		return unsupported(w->pr, line, "out of memory");
	describe(w, &x, &allow, &deny);
	return POLICY_EXCEEDS;
}

static enum policy_containment solve(struct problem *w, Z3_context z)
{
	enum policy_containment rc;
	Z3_ast goal;

	w->z = z;
	w->solver = Z3_mk_simple_solver(z);
	Z3_solver_inc_ref(z, w->solver);
	w->literal = policy_host_is_literal(w->host, &w->literal_addr);
	if (gather(w) < 0 || gather_addrs(w) < 0 || w->pr->unsupported || make_variables(w) < 0) {
		rc = unsupported(w->pr, w->side[1].e[0]->line,
				 w->pr->unsupported ? w->pr->unsupported : "out of memory");
		Z3_solver_dec_ref(z, w->solver);
		return rc;
	}
	for (int s = 0; s < 2; s++)
		prepare_side(w, &w->side[s]);
	goal = and_(w, and_(w, connects(w, &w->side[1]), reaches(w, &w->side[1])), forwards(w, &w->side[1]));
	goal = and_(w, goal,
		    not_(w, and_(w, and_(w, connects(w, &w->side[0]), reaches(w, &w->side[0])),
				 forwards(w, &w->side[0]))));
	demand(w, goal);
	rc = conclude(w, Z3_solver_check(z, w->solver));
	Z3_solver_dec_ref(z, w->solver);
	return rc;
}

/* ---- hosts and ports ---- */

static int by_order(const void *a, const void *b)
{
	const struct endpoint *x = *(const struct endpoint *const *)a, *y = *(const struct endpoint *const *)b;

	if (x->rule->rank != y->rule->rank)
		return x->rule->rank < y->rule->rank ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

struct gather_side {
	struct arena *a;
	struct side *s;
};

static int side_found(void *u, const struct endpoint *e)
{
	struct gather_side *g = u;
	const struct endpoint **slot = policy_arena_push(g->a, &g->s->e, &g->s->n, sizeof(*slot));

	if (!slot)
		return -1;
	*slot = e;
	return 0;
}

static int endpoints_at(struct prover *p, struct side *s, const struct policy *policy, const char *host,
			uint16_t port)
{
	struct gather_side g = { p->a, s };

	s->p = policy;
	s->e = NULL;
	s->n = 0;
	if (policy_each_endpoint(policy, host, port, NULL, side_found, &g) < 0)
		return -1;
	if (s->n > 1)
		qsort(s->e, s->n, sizeof(*s->e), by_order);
	return 0;
}

static int gather_hosts(struct prover *p, struct patterns *hosts, bool *hostless)
{
	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < p->side[s]->n_endpoints; i++) {
			const struct endpoint *e = p->side[s]->endpoints[i];
			const char *text = e->host.g.text;
			char *lower;

			if (!*text) {
				*hostless |= s == 1;
				continue;
			}
			lower = policy_arena_strdup(p->a, text);
			for (char *c = lower; c && *c; c++)
				if (*c >= 'A' && *c <= 'Z')
					*c = (char)(*c + 32);
			if (!lower || add_pattern(p, hosts, e->host.wild ? FLAVOUR_GLOB : FLAVOUR_LITERAL, lower,
						  e->host.wild ? &e->host.g.a : NULL, FEED_DOTS, true) < 0)
				return -1;
		}
	return 0;
}

/* The ports of the candidate here that differ from one another, and what was there before. */
static bool same_endpoints(const struct side *a, const struct side *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->e, b->e, a->n * sizeof(*a->e)));
}

static enum policy_containment prove_host(struct prover *p, Z3_context z, const char *host)
{
	enum policy_containment rc = POLICY_WITHIN;
	struct side all, seen[64][2];
	size_t n_seen = 0;

	if (endpoints_at(p, &all, p->side[1], host, 0) < 0)
		return unsupported(p, 0, "out of memory");
	for (size_t i = 0; i < all.n && rc == POLICY_WITHIN; i++)
		for (size_t k = 0; k < all.e[i]->n_ports && rc == POLICY_WITHIN; k++) {
			struct problem w = { .pr = p, .host = host, .port = all.e[i]->ports[k] };
			bool done = false;

			for (int s = 0; s < 2; s++)
				if (endpoints_at(p, &w.side[s], p->side[s], host, w.port) < 0)
					return unsupported(p, 0, "out of memory");
			if (w.side[1].n > SIDE_ENDPOINTS_MAX || w.side[0].n > SIDE_ENDPOINTS_MAX)
				return unsupported(p, all.e[i]->line, "too many endpoints for one host and port");
			for (size_t q = 0; q < n_seen && !control_plane(w.port); q++)
				done |= same_endpoints(&seen[q][0], &w.side[0]) &&
					same_endpoints(&seen[q][1], &w.side[1]);
			if (done)
				continue;
			if (n_seen < 64 && !control_plane(w.port)) { /* those are stricter: no model for others */
				seen[n_seen][0] = w.side[0];
				seen[n_seen++][1] = w.side[1];
			}
			rc = solve(&w, z);
		}
	return rc;
}

enum policy_containment policy_prove_network(const struct policy *boundary, const struct policy *candidate,
					     struct policy_proof *out)
{
	struct prover p = { .side = { boundary, candidate }, .out = out };
	enum policy_containment rc = POLICY_WITHIN;
	struct patterns hosts = { 0 };
	bool hostless = false;
	Z3_config config;
	Z3_context z;
	int cells;

	p.a = policy_arena_new((size_t)1 << 30);
	if (!p.a)
		return unsupported(&p, 0, "out of memory");
	out->arena = p.a;
	if (gather_hosts(&p, &hosts, &hostless) < 0)
		return unsupported(&p, 0, "out of memory");
	cells = policy_cells(p.a, hosts.v, hosts.n, &domain_host, &hosts.cells);
	if (cells < 0)
		return unsupported(&p, 0, cells == -2 ? "too many different host patterns" : "out of memory");
	config = Z3_mk_config();
	Z3_set_param_value(config, "rlimit", Z3_STEPS);
	z = Z3_mk_context(config);
	Z3_del_config(config);
	for (size_t i = 0; i < hosts.cells.n && rc == POLICY_WITHIN; i++)
		rc = prove_host(&p, z, hosts.cells.witness[i]);
	/* hosts are cells by the patterns; without any a candidate's hostless endpoints still need one */
	if (rc == POLICY_WITHIN && hostless && !hosts.cells.n)
		rc = prove_host(&p, z, "a");
	Z3_del_context(z);
	return rc;
}
