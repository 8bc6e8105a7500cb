/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove_formula.c - what a policy makes of a connection and a request, as one formula over the variables. */
#include <string.h>
#include <strings.h>

#include "hostd/policy/prove_parts.h"

static bool is_l7(const struct endpoint *e)
{
	return e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP && !e->tls_skip;
}

static Z3_ast program_right(struct problem *w, const struct rule *r)
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < r->n_programs; i++)
		out = or_(w, out, prove_matches(w, &w->programs, w->programs.in,
						prove_program_pattern(w, &r->programs[i].path)));
	return out;
}

static Z3_ast path_is(struct problem *w, const struct path_glob *g)
{
	return g->all ? Z3_mk_true(w->z) : prove_matches(w, &w->paths, w->paths.in, prove_path_pattern(w, g));
}

void prove_prepare_side(struct problem *w, struct side *s)
{
	s->cand = policy_arena_array(w->pr->a, s->n + 1, sizeof(Z3_ast));
	s->selects = policy_arena_array(w->pr->a, s->n + 1, sizeof(Z3_ast));
	s->at_path = policy_arena_array(w->pr->a, s->n + 1, sizeof(Z3_ast));
	for (size_t i = 0; i < s->n && s->cand && s->selects && s->at_path; i++) {
		const struct endpoint *e = s->e[i];

		s->cand[i] = s->p->no_identity ? Z3_mk_true(w->z) : program_right(w, e->rule);
		s->selects[i] = e->selector.all ? s->cand[i] :
						  and_(w, s->cand[i],
						       prove_matches(w, &w->paths, w->paths.in,
							       prove_selector_pattern(w, &e->selector)));
		s->at_path[i] = *e->path ? and_(w, s->cand[i], path_is(w, &e->path_glob)) : s->cand[i];
	}
}

Z3_ast prove_connects(struct problem *w, const struct side *s)
{
	return prove_any_of(w, s->cand, s->n);
}

bool prove_control_plane(uint16_t port)
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

Z3_ast prove_reaches(struct problem *w, const struct side *s)
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
	if (prove_control_plane(w->port))
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
		if (policy_cell_matches(&s->cells, cell, (size_t)prove_value_pattern(w, s, &g[i])))
			return true;
	return false;
}

/* Allow: there, and all values match.  Deny: there, and one of them does. */
static Z3_ast query_is(struct problem *w, const struct clause *c, bool deny)
{
	Z3_ast out = Z3_mk_true(w->z);

	for (size_t i = 0; i < c->n_query; i++) {
		struct key_values *k = prove_key_of(w, &w->query, &w->n_query, c->query[i].key);
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
	return prove_matches(w, &w->rpc_methods, w->rpc_methods.in, pattern);
}

static Z3_ast rpc_is(struct problem *w, const struct endpoint *e, const struct clause *c)
{
	Z3_ast out;

	if (!c->has_method)
		return Z3_mk_false(w->z);
	if (e->protocol == POLICY_PROTO_JSONRPC)
		return !strcmp(c->method, "*") ? Z3_mk_true(w->z) : rpc_method_in(w, prove_rpc_method_pattern(w, e, c));
	out = rpc_method_in(w, prove_rpc_method_pattern(w, e, c));
	for (size_t i = 0; i < c->n_params; i++) {
		struct key_values *k = prove_key_of(w, &w->params, &w->n_params, c->params[i].key);
		const struct matcher *m = &c->params[i].m;
		Z3_ast hit = Z3_mk_false(w->z);

		for (size_t j = 0; j < k->values.cells.n; j++)
			if (cell_in(w, &k->values, j, m->any, m->n))
				hit = or_(w, hit, k->values.in[j]);
		out = and_(w, out, hit);
	}
	return out;
}

static Z3_ast op_is(struct problem *w, const struct clause *c, const struct slot *s, bool deny)
{
	Z3_ast out = Z3_mk_false(w->z), hit = out, miss = out;

	if (!c->has_type)
		return out;
	for (int t = 0; t < 3; t++)
		if (!strcmp(c->op_type, "*") || !strcasecmp(c->op_type, prove_op_types[t]))
			out = or_(w, out, s->type[t]);
	if (c->has_op_name)
		out = and_(w, out,
			   prove_matches(w, &w->op_names, s->name, prove_value_pattern(w, &w->op_names, &c->op_name)));
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
	Z3_ast out = Z3_mk_false(w->z), document = not_(w, prove_any_of(w, s->hash, w->n_hashes));

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
		open = e->narrowed ? not_(w, rpc_method_in(w, prove_add_pattern(w->pr, &w->rpc_methods, FLAVOUR_LITERAL,
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
		out = and_(w, out, not_(w, prove_matches(w, &w->paths, w->paths.in, w->encoded)));
	return out;
}

static bool better(const struct side *s, size_t a, size_t b)
{
	return s->e[a]->specificity > s->e[b]->specificity ||
	       (s->e[a]->specificity == s->e[b]->specificity && a > b);
}

Z3_ast prove_forwards(struct problem *w, const struct side *s)
{
	Z3_ast verdict[5], inspected = Z3_mk_false(w->z), out = inspected;

	for (int r = 0; r < 5; r++)
		verdict[r] = judged(w, s, (enum reading)r);
	for (size_t i = 0; i < s->n; i++) {
		Z3_ast prove_chosen;

		if (!is_l7(s->e[i]))
			continue;
		inspected = or_(w, inspected, s->cand[i]);
		prove_chosen = s->selects[i];
		for (size_t k = 0; k < s->n; k++)
			if (k != i && is_l7(s->e[k]) && better(s, k, i))
				prove_chosen = and_(w, prove_chosen, not_(w, s->selects[k]));
		out = or_(w, out, and_(w, prove_chosen, forwards_at(w, s->e[i], verdict)));
	}
	return or_(w, not_(w, inspected), out);
}
