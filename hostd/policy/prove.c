/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prove.c - does a candidate allow anything that the organisation's boundary does not?
 *
 * Files and process are compared as sets (prove_static.c), the network by automata and Z3
 * (prove_network.c).  Whatever cannot be shown to be within is not within.
 */
#include <stdio.h>
#include <string.h>

#include "hostd/policy/json.h"
#include "hostd/policy/prove.h"

enum policy_containment policy_contains(const struct policy *boundary, const struct policy *candidate,
					struct policy_proof *out)
{
	memset(out, 0, sizeof(*out));
	out->dimension = "";
	if (policy_prove_static(boundary, candidate, out))
		return out->result;
	out->result = policy_prove_network(boundary, candidate, out);
	if (out->result == POLICY_WITHIN) {
		out->dimension = "";
		snprintf(out->text, sizeof(out->text), "within: the candidate allows nothing beyond the boundary");
	}
	return out->result;
}

void policy_proof_free(struct policy_proof *out)
{
	policy_arena_free(out->arena);
	out->arena = NULL;
	out->request = NULL;
}

static json_t *request_json(const struct policy_request *r)
{
	json_t *o = json_pack("{s:s, s:i, s:s}", "host", r->l4.host, "port", (int)r->l4.port, "program",
			      r->l4.program);
	json_t *ancestors = json_array(), *query = json_array(), *list;

	for (size_t i = 0; i < r->l4.n; i++)
		json_array_append_new(ancestors, json_string(r->l4.ancestors[i]));
	json_object_set_new(o, "ancestors", ancestors);
	json_object_set_new(o, "method", json_string(r->method));
	json_object_set_new(o, "path", json_string(r->path));
	for (size_t i = 0; i < r->n_query; i++)
		json_array_append_new(query, json_pack("[s, s]", r->query[i].key, r->query[i].value));
	json_object_set_new(o, "query", query);
	if (r->rpc && r->rpc->method) {
		list = json_object();
		for (size_t i = 0; i < r->rpc->n; i++)
			json_object_set_new(list, r->rpc->params[i].key, json_string(r->rpc->params[i].value));
		json_object_set_new(o, "jsonrpc",
				    json_pack("{s:s, s:o}", "method", r->rpc->method, "params", list));
	}
	if (r->gql) {
		list = json_array();
		for (size_t i = 0; i < r->gql->n; i++) {
			const struct policy_gql_op *op = &r->gql->ops[i];
			json_t *fields = json_array();

			for (size_t k = 0; k < op->n_fields; k++)
				json_array_append_new(fields, json_string(op->fields[k]));
			json_array_append_new(list, json_pack("{s:s, s:s?, s:o, s:s?}", "operation_type", op->type,
							      "operation_name", op->name, "fields", fields,
							      "persisted_query_hash", op->hash));
		}
		json_object_set_new(o, "graphql", list);
	}
	return o;
}

json_t *policy_proof_json(const struct policy_proof *p)
{
	static const char *const results[] = { "within", "exceeds", "unsupported" };
	json_t *o = json_pack("{s:s, s:s, s:s, s:i}", "result", results[p->result], "dimension",
			      p->dimension ? p->dimension : "", "text", p->text, "line", (int)p->line);

	if (*p->construct)
		json_object_set_new(o, "construct", json_string(p->construct));
	if (*p->file)
		json_object_set_new(o, "file", json_string(p->file));
	if (p->request)
		json_object_set_new(o, "counterexample", request_json(p->request));
	return o;
}
