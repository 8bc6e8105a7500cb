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
 * prove_gather.c collects the patterns, prove_formula.c says what the policies make of them, prove_model.c turns
 * the answer into a request; here are the hosts and ports, and what is concluded.
 *
 * What is assumed: hosts are host names or addresses in text, paths are canonical, tool and method names
 * and query values are printable.  Where a construct is outside of the model the answer is "unsupported".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/prove_parts.h"

#define SIDE_ENDPOINTS_MAX 2000
/* Steps of the solver, not time: the answer must not depend on how busy the machine is. */
#define Z3_STEPS "100000000"

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
	rc = prove_read_model(w, m, &x);
	Z3_model_dec_ref(w->z, m);
	if (rc < 0)
		return unsupported(w->pr, line, "out of memory");
	if (!prove_lets_through(w->pr->side[1], &x, &allow) || prove_lets_through(w->pr->side[0], &x, &deny))
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
	if (prove_gather(w) < 0 || prove_gather_addrs(w) < 0 || w->pr->unsupported || prove_make_variables(w) < 0) {
		rc = unsupported(w->pr, w->side[1].e[0]->line,
				 w->pr->unsupported ? w->pr->unsupported : "out of memory");
		Z3_solver_dec_ref(z, w->solver);
		return rc;
	}
	for (int s = 0; s < 2; s++)
		prove_prepare_side(w, &w->side[s]);
	goal = and_(w, and_(w, prove_connects(w, &w->side[1]), prove_reaches(w, &w->side[1])),
		    prove_forwards(w, &w->side[1]));
	goal = and_(w, goal,
		    not_(w, and_(w, and_(w, prove_connects(w, &w->side[0]), prove_reaches(w, &w->side[0])),
				 prove_forwards(w, &w->side[0]))));
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
			if (!lower || prove_add_pattern(p, hosts, e->host.wild ? FLAVOUR_GLOB : FLAVOUR_LITERAL, lower,
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
			for (size_t q = 0; q < n_seen && !prove_control_plane(w.port); q++)
				done |= same_endpoints(&seen[q][0], &w.side[0]) &&
					same_endpoints(&seen[q][1], &w.side[1]);
			if (done)
				continue;
			if (n_seen < 64 && !prove_control_plane(w.port)) { /* those are stricter: no model for others */
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
