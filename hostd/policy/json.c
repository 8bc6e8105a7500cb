/* SPDX-License-Identifier: GPL-2.0-or-later */
/* json.c - policies, decisions and diagnostics as JSON. */
#include "hostd/policy/json.h"

#include "hostd/policy/model.h"

json_t *policy_diags_json(const struct policy_diags *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->n; i++) {
		const struct policy_diag *g = &d->v[i];

		json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:s, s:s, s:s}", "severity",
						      g->warning ? "warning" : "error", "line", (int)g->line,
						      "column", (int)g->column, "path", g->path, "message",
						      g->text, "expected", g->expected));
	}
	return list;
}

static const char *layer_name(enum policy_layer l)
{
	static const char *const names[] = { "connection", "destination", "request" };

	return names[l];
}

json_t *policy_decision_json(const struct policy_decision *d)
{
	static const char *const verdicts[] = { "deny", "allow", "audit" };
	json_t *o = json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:i, s:i, s:b, s:b, s:s}", "verdict",
			      verdicts[d->verdict], "layer", layer_name(d->layer), "reason",
			      d->reason == POLICY_OK ? NULL : policy_reason_name(d->reason), "rule", d->rule,
			      "nearest_rule", d->nearest, "endpoint_line", (int)d->endpoint_line, "clause_line",
			      (int)d->clause_line, "exact_declared_host", d->exact_declared_host, "inspected",
			      d->inspect, "text", d->text);

	return o;
}

static json_t *list_of(const char *const *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(v[i]));
	return list;
}

static json_t *matcher_json(const struct matcher *m)
{
	json_t *list;

	if (!m->list && m->n == 1)
		return json_string(m->any[0].g.text);
	list = json_array();
	for (size_t i = 0; i < m->n; i++)
		json_array_append_new(list, json_string(m->any[i].g.text));
	return json_pack("{s:o}", "any", list);
}

static json_t *keyed_json(const struct keyed_matcher *m, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new(o, m[i].key, matcher_json(&m[i].m));
	return o;
}

static json_t *clause_json(const struct clause *c)
{
	json_t *o = json_object();

	if (c->has_method)
		json_object_set_new(o, "method", json_string(c->method));
	if (c->has_path)
		json_object_set_new(o, "path", json_string(c->path.g.text));
	if (c->has_command)
		json_object_set_new(o, "command", json_string(c->command));
	if (c->has_type)
		json_object_set_new(o, "operation_type", json_string(c->op_type));
	if (c->has_op_name)
		json_object_set_new(o, "operation_name", json_string(c->op_name_text));
	if (c->n_fields) {
		json_t *f = json_array();

		for (size_t i = 0; i < c->n_fields; i++)
			json_array_append_new(f, json_string(c->fields[i].g.text));
		json_object_set_new(o, "fields", f);
	}
	if (c->n_query)
		json_object_set_new(o, "query", keyed_json(c->query, c->n_query));
	if (c->n_params)
		json_object_set_new(o, "params", keyed_json(c->params, c->n_params));
	return o;
}

static void set_if(json_t *o, const char *key, const char *v)
{
	if (*v)
		json_object_set_new(o, key, json_string(v));
}

static json_t *registry_json(const struct endpoint *e)
{
	json_t *o = json_object();

	for (size_t i = 0; i < e->n_registry; i++) {
		const struct policy_gql_op *op = &e->registry[i].op;
		json_t *q = json_pack("{s:s}", "operation_type", op->type);

		if (op->name)
			json_object_set_new(q, "operation_name", json_string(op->name));
		if (op->n_fields)
			json_object_set_new(q, "fields", list_of(op->fields, op->n_fields));
		json_object_set_new(o, e->registry[i].key, q);
	}
	return o;
}

static json_t *endpoint_json(const struct endpoint *e)
{
	json_t *o = json_object(), *ports = json_array(), *list;
	bool l7 = e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP;

	set_if(o, "host", e->host.g.text);
	for (size_t i = 0; i < e->n_ports; i++)
		json_array_append_new(ports, json_integer(e->ports[i]));
	json_object_set_new(o, "ports", ports);
	set_if(o, "path", e->path);
	set_if(o, "protocol", e->protocol_text);
	if (l7)
		json_object_set_new(o, "enforcement", json_string(e->enforce ? "enforce" : "audit"));
	if (e->tls_skip)
		json_object_set_new(o, "tls", json_string("skip"));
	if (e->n_allowed_ips)
		json_object_set_new(o, "allowed_ips", list_of(e->allowed_ip_texts, e->n_allowed_ips));
	if (e->allow_encoded_slash)
		json_object_set_new(o, "allow_encoded_slash", json_true());
	set_if(o, "persisted_queries", e->persisted);
	if (e->n_registry)
		json_object_set_new(o, "graphql_persisted_queries", registry_json(e));
	if (e->protocol == POLICY_PROTO_GRAPHQL)
		json_object_set_new(o, "graphql_max_body_bytes", json_integer(e->graphql_limit));
	if (e->protocol == POLICY_PROTO_JSONRPC)
		json_object_set_new(o, "json_rpc", json_pack("{s:I}", "max_body_bytes", (json_int_t)e->jsonrpc_limit));
	if (e->protocol == POLICY_PROTO_MCP)
		json_object_set_new(o, "mcp",
				    json_pack("{s:I, s:b, s:b}", "max_body_bytes", (json_int_t)e->jsonrpc_limit,
					      "strict_tool_names", e->strict_tools, "allow_all_known_mcp_methods",
					      e->allow_all));
	if (e->n_allow) {
		list = json_array();
		for (size_t i = 0; i < e->n_allow; i++)
			json_array_append_new(list, json_pack("{s:o}", "allow", clause_json(&e->allow[i])));
		json_object_set_new(o, "rules", list);
	}
	if (e->n_deny) {
		list = json_array();
		for (size_t i = 0; i < e->n_deny; i++)
			json_array_append_new(list, clause_json(&e->deny[i]));
		json_object_set_new(o, "deny_rules", list);
	}
	return o;
}

json_t *policy_show_json(const struct policy *p)
{
	json_t *o = json_pack("{s:i}", "version", POLICY_VERSION), *rules = json_object(), *s;

	if (p->st.has_filesystem)
		json_object_set_new(o, "filesystem_policy",
				    json_pack("{s:b, s:o, s:o}", "include_workdir", p->st.include_workdir,
					      "read_only", list_of(p->st.read_only, p->st.n_read_only), "read_write",
					      list_of(p->st.read_write, p->st.n_read_write)));
	if (p->st.has_landlock)
		json_object_set_new(o, "landlock",
				    json_pack("{s:s}", "compatibility",
					      p->st.hard_requirement ? "hard_requirement" : "best_effort"));
	if (p->st.has_process) {
		s = json_object();
		if (p->st.run_as_user)
			json_object_set_new(s, "run_as_user", json_string(p->st.run_as_user));
		if (p->st.run_as_group)
			json_object_set_new(s, "run_as_group", json_string(p->st.run_as_group));
		json_object_set_new(o, "process", s);
	}
	for (size_t r = 0; r < p->n_rules; r++) {
		const struct rule *rule = &p->rules[r];
		json_t *endpoints = json_array(), *programs = json_array();

		for (size_t i = 0; i < rule->n_endpoints; i++)
			json_array_append_new(endpoints, endpoint_json(&rule->endpoints[i]));
		for (size_t i = 0; i < rule->n_programs; i++)
			json_array_append_new(programs, json_pack("{s:s}", "path", rule->programs[i].path.g.text));
		json_object_set_new(rules, rule->key,
				    json_pack("{s:s, s:o, s:o}", "name", rule->name, "endpoints", endpoints,
					      "binaries", programs));
	}
	json_object_set_new(o, "network_policies", rules);
	return o;
}
