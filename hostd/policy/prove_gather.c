/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove_gather.c - every pattern, key and address range that one problem is about, and a variable for each. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/prove_parts.h"

/* ---- patterns of the model's parts ---- */

int prove_program_pattern(struct problem *w, const struct program_glob *g)
{
	return prove_add_pattern(w->pr, &w->programs, g->wild ? FLAVOUR_GLOB : FLAVOUR_LITERAL, g->g.text,
			   g->wild ? &g->g.a : NULL, FEED_PLAIN, false);
}

int prove_path_pattern(struct problem *w, const struct path_glob *g)
{
	return prove_add_pattern(w->pr, &w->paths, g->g.a.state ? FLAVOUR_GLOB : FLAVOUR_LITERAL, g->g.text,
			   g->g.a.state ? &g->g.a : NULL, FEED_PLAIN, false);
}

int prove_selector_pattern(struct problem *w, const struct selector_glob *g)
{
	char *base;

	if (g->tree) {
		base = policy_arena_strndup(w->pr->a, g->g.text, g->tree_len);
		return base ? prove_add_pattern(w->pr, &w->paths, FLAVOUR_TREE, base, NULL, FEED_PLAIN, false) : -1;
	}
	if (g->g.bad || !g->g.a.state)
		return prove_add_pattern(w->pr, &w->paths, FLAVOUR_LITERAL, g->g.text, NULL, FEED_PLAIN, false);
	return prove_add_pattern(w->pr, &w->paths, FLAVOUR_PLAIN, g->g.text, &g->g.a, FEED_PLAIN, false);
}

int prove_value_pattern(struct problem *w, struct patterns *s, const struct value_glob *g)
{
	return prove_add_pattern(w->pr, s, g->g.a.state ? FLAVOUR_GLOB : FLAVOUR_LITERAL, g->g.text,
			   g->g.a.state ? &g->g.a : NULL, FEED_DOTS, false);
}

int prove_rpc_method_pattern(struct problem *w, const struct endpoint *e, const struct clause *c)
{
	if (e->protocol == POLICY_PROTO_MCP)
		return prove_value_pattern(w, &w->rpc_methods, &c->method_glob);
	return prove_add_pattern(w->pr, &w->rpc_methods, FLAVOUR_LITERAL, c->method, NULL, FEED_DOTS, false);
}

struct key_values *prove_key_of(struct problem *w, struct key_values **list, size_t *n, const char *key)
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
		if (prove_value_pattern(w, s, &m->any[i]) < 0)
			return -1;
	return 0;
}

static int gather_clause(struct problem *w, const struct endpoint *e, const struct clause *c)
{
	bool rpc = e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP;
	struct key_values *k;

	if (c->has_method && rpc) {
		if (prove_rpc_method_pattern(w, e, c) < 0)
			return -1;
	} else if (c->has_method) {
		add_string(w, &w->methods, &w->n_methods, c->method, true);
	}
	if (c->has_path && !c->path.all && prove_path_pattern(w, &c->path) < 0)
		return -1;
	for (size_t i = 0; i < c->n_query; i++) {
		k = prove_key_of(w, &w->query, &w->n_query, c->query[i].key);
		if (!k || gather_matcher(w, &k->values, &c->query[i].m) < 0)
			return -1;
	}
	for (size_t i = 0; rpc && i < c->n_params; i++) {
		k = prove_key_of(w, &w->params, &w->n_params, c->params[i].key);
		if (!k || gather_matcher(w, &k->values, &c->params[i].m) < 0)
			return -1;
	}
	if (c->has_op_name && prove_value_pattern(w, &w->op_names, &c->op_name) < 0)
		return -1;
	for (size_t i = 0; i < c->n_fields; i++)
		if (prove_value_pattern(w, &w->fields, &c->fields[i]) < 0)
			return -1;
	return 0;
}

int prove_gather(struct problem *w)
{
	static const char *const usual[] = { "GET", "HEAD", "POST", "PUT", "WEBSOCKET_TEXT", "PURGE" };
	size_t registries = 0;

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < w->side[s].n; i++) {
			const struct endpoint *e = w->side[s].e[i];

			for (size_t k = 0; k < e->rule->n_programs; k++)
				if (prove_program_pattern(w, &e->rule->programs[k].path) < 0)
					return -1;
			if (*e->path && !e->path_glob.all && prove_path_pattern(w, &e->path_glob) < 0)
				return -1;
			if (!e->selector.all && prove_selector_pattern(w, &e->selector) < 0)
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
	if (prove_add_pattern(w->pr, &w->rpc_methods, FLAVOUR_LITERAL, "tools/call", NULL, FEED_DOTS, false) < 0)
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
int prove_gather_addrs(struct problem *w)
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

/* ---- variables and their domains ---- */

int prove_make_variables(struct problem *w)
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
	w->encoded = prove_add_pattern(p, &w->paths, FLAVOUR_PLAIN, "*%2F*", kept, FEED_PLAIN, false);
	if (w->encoded < 0 || prove_compute(p, &w->programs, &domain_program, "program") < 0 ||
	    prove_compute(p, &w->paths, &domain_path, "path") < 0 ||
	    prove_compute(p, &w->rpc_methods, &domain_text, "JSON-RPC method") < 0 ||
	    prove_compute(p, &w->op_names, &domain_word, "operation name") < 0 ||
	    prove_compute(p, &w->fields, &domain_word, "field") < 0)
		return -1;
	for (size_t i = 0; i < w->n_query; i++)
		if (prove_compute(p, &w->query[i].values, &domain_value, "query value") < 0)
			return -1;
	for (size_t i = 0; i < w->n_params; i++)
		if (prove_compute(p, &w->params[i].values, strict_tools ? &domain_tool : &domain_value, "tool") < 0)
			return -1;

	w->programs.in = prove_variables(w, w->programs.cells.n);
	demand(w, prove_any_of(w, w->programs.in, w->programs.cells.n)); /* a chain: any number of them */
	w->paths.in = prove_variables(w, w->paths.cells.n);
	prove_exactly_one(w, w->paths.in, w->paths.cells.n);
	w->rpc_methods.in = prove_variables(w, w->rpc_methods.cells.n);
	prove_exactly_one(w, w->rpc_methods.in, w->rpc_methods.cells.n);
	w->method = prove_variables(w, w->n_methods);
	prove_exactly_one(w, w->method, w->n_methods);
	for (size_t i = 0; i < w->n_query; i++)
		w->query[i].values.in = prove_variables(w, w->query[i].values.cells.n);
	for (size_t i = 0; i < w->n_params; i++) {
		struct patterns *v = &w->params[i].values;
		Z3_ast *all = prove_variables(w, v->cells.n + 1); /* the last one: absent, or no string */

		v->in = all;
		w->params[i].absent = all[v->cells.n];
		prove_exactly_one(w, all, v->cells.n + 1);
	}
	for (size_t i = 0; i < w->n_slots; i++) {
		struct slot *s = &w->slot[i];
		Z3_ast *types = prove_variables(w, 3), *kinds;

		s->used = fresh(w);
		memcpy(s->type, types, sizeof(s->type));
		s->field = prove_variables(w, w->fields.cells.n);
		s->name = prove_variables(w, w->op_names.cells.n + 1); /* the last one: anonymous */
		s->hash = prove_variables(w, w->n_hashes);
		prove_exactly_one(w, s->type, 3);
		prove_exactly_one(w, s->name, w->op_names.cells.n + 1);
		demand(w, prove_any_of(w, s->field, w->fields.cells.n));
		kinds = policy_arena_array(p->a, w->n_hashes + 1, sizeof(*kinds));
		if (!kinds)
			return -1;
		memcpy(kinds, s->hash, w->n_hashes * sizeof(*kinds));
		kinds[w->n_hashes] = fresh(w); /* a document */
		prove_exactly_one(w, kinds, w->n_hashes + 1);
	}
	demand(w, w->slot[0].used);
	w->has_gql = fresh(w);
	w->has_rpc = fresh(w);
	w->is_response = fresh(w);
	w->addr = prove_variables(w, w->n_addrs);
	prove_exactly_one(w, w->addr, w->n_addrs);
	for (size_t i = 0; w->literal && i < w->n_addrs; i++)
		if (!addr_compare(&w->addrs[i], &w->literal_addr))
			demand(w, w->addr[i]);
	return policy_arena_failed(p->a) ? -1 : 0;
}
