/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove_model.c - a model of the solver as a concrete request, and its replay through the engine. */
#include <stdio.h>
#include <string.h>

#include "hostd/policy/prove_parts.h"

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
				op->type = prove_op_types[t];
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

int prove_read_model(struct problem *w, Z3_model m, struct request_parts *x)
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
bool prove_lets_through(const struct policy *p, const struct request_parts *x, struct policy_decision *d)
{
	policy_decide_l4(p, &x->r.l4, d);
	if (d->verdict == POLICY_DENY)
		return false;
	policy_decide_dest(p, &x->r.l4, &x->addr, 1, NULL, d);
	if (d->verdict == POLICY_DENY)
		return false;
	return policy_forwards(p, &x->r, &x->wire, d);
}
