/* SPDX-License-Identifier: GPL-2.0-or-later */
/* load_endpoint.c - endpoints: ports, registries, stanzas, presets, defaults. */
#include <string.h>
#include <strings.h>

#include "hostd/policy/load_parts.h"

#define PORTS_MAX 65535

static enum policy_protocol classify(const char *s)
{
	for (int p = POLICY_PROTO_TCP; p <= POLICY_PROTO_MCP; p++)
		if (!strcasecmp(s, policy_protocol_name((enum policy_protocol)p)))
			return (enum policy_protocol)p;
	return POLICY_PROTO_NONE;
}

const char *policy_protocol_name(enum policy_protocol p)
{
	static const char *const names[] = {
		[POLICY_PROTO_NONE] = "",	    [POLICY_PROTO_TCP] = "tcp",
		[POLICY_PROTO_REST] = "rest",	    [POLICY_PROTO_WEBSOCKET] = "websocket",
		[POLICY_PROTO_GRAPHQL] = "graphql", [POLICY_PROTO_SQL] = "sql",
		[POLICY_PROTO_JSONRPC] = "json-rpc", [POLICY_PROTO_MCP] = "mcp",
	};

	return names[p];
}

static void load_ports(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e)
{
	const struct ynode *port = policy_yaml_get(n, "port"), *ports = policy_yaml_get(n, "ports");
	struct at here_port = { at, "port", 0 }, here_ports = { at, "ports", 0 };
	int64_t v = 0;

	if (ports && !l->strict && policy_load_is_null(ports))
		ports = NULL;
	if (port && (l->strict || !policy_load_is_null(port)) &&
	    !policy_load_as_int(l, &here_port, port, 1, PORTS_MAX, &v))
		port = NULL;
	if (ports && policy_load_is_list(l, &here_ports, ports) && ports->n) {
		if (port && !l->strict && !l->evaluate)
			policy_load_note(l, false, &here_ports, ports, "port or ports", "both port and ports");
		e->ports = policy_arena_array(l->a, ports->n, sizeof(*e->ports));
		for (size_t i = 0; e->ports && i < ports->n; i++) {
			struct at item = { &here_ports, NULL, i };

			if (policy_load_as_int(l, &item, ports->item[i], 1, PORTS_MAX, &v))
				e->ports[e->n_ports++] = (uint16_t)v;
		}
		return;
	}
	if (port && v) {
		e->ports = policy_arena_array(l->a, 1, sizeof(*e->ports));
		if (e->ports)
			e->ports[e->n_ports++] = (uint16_t)v;
	}
}

static void load_registry(struct loader *l, const struct at *at, const struct ynode *n,
			  struct endpoint *e)
{
	static const char *const keys[] = { "operation_type", "operation_name", "fields", NULL };
	struct at here = { at, "graphql_persisted_queries", 0 };

	if (!policy_load_is_map(l, &here, n, NULL, false))
		return;
	e->registry = policy_arena_array(l->a, n->n, sizeof(*e->registry));
	for (size_t i = 0; e->registry && i < n->n; i++) {
		struct registered *r = &e->registry[e->n_registry++];
		const struct ynode *k = n->key[i], *v = n->item[i];
		struct at item = { &here, k->kind == YNODE_SCALAR ? k->text : "?", 0 };
		const char *type = "", *name = NULL;

		r->key = k->kind == YNODE_SCALAR ? k->text : "";
		r->op.type = "";
		if (!policy_load_is_map(l, &item, v, keys, false))
			continue;
		policy_load_get_string(l, &item, v, "operation_type", &type);
		policy_load_get_string(l, &item, v, "operation_name", &name);
		r->op.type = type;
		r->op.name = name;
		r->op.fields = policy_load_get_strings(l, &item, v, "fields", &r->op.n_fields);
		if (!l->evaluate && !*type)
			policy_load_note(l, false, &item, v, "operation_type: query, mutation or subscription",
			     "a registered query without operation_type");
		if (!l->evaluate && policy_yaml_get(v, "fields") && !r->op.n_fields)
			policy_load_note(l, false, &item, v, "a list of at least one name", "fields is empty");
	}
}

static void load_stanzas(struct loader *l, const struct at *at, const struct ynode *n,
			 struct endpoint *e)
{
	static const char *const rpc_keys[] = { "max_body_bytes", NULL };
	static const char *const mcp_keys[] = { "max_body_bytes", "strict_tool_names",
						"allow_all_known_mcp_methods", NULL };
	const struct ynode *s = policy_yaml_get(n, "json_rpc");

	e->jsonrpc_limit = e->graphql_limit = DEFAULT_BODY_LIMIT;
	e->strict_tools = true;
	if (s && (l->strict || !policy_load_is_null(s))) {
		struct at here = { at, "json_rpc", 0 };

		e->has_jsonrpc = true;
		if (policy_load_is_map(l, &here, s, rpc_keys, true))
			e->jsonrpc_limit_set = policy_load_get_limit(l, &here, s, "max_body_bytes", &e->jsonrpc_limit);
	}
	s = policy_yaml_get(n, "mcp");
	if (s && (l->strict || !policy_load_is_null(s))) {
		struct at here = { at, "mcp", 0 };

		e->has_mcp = true;
		e->jsonrpc_limit = DEFAULT_BODY_LIMIT; /* it beats json_rpc even without a limit */
		if (policy_load_is_map(l, &here, s, mcp_keys, true)) {
			e->mcp_limit_set = policy_load_get_limit(l, &here, s, "max_body_bytes", &e->jsonrpc_limit);
			e->strict_tools_set = policy_load_get_bool(l, &here, s, "strict_tool_names", &e->strict_tools);
			e->allow_all_set =
				policy_load_get_bool(l, &here, s, "allow_all_known_mcp_methods", &e->allow_all);
		}
	}
	e->graphql_limit_set = policy_load_get_limit(l, at, n, "graphql_max_body_bytes", &e->graphql_limit);
	if (l->strict)
		return;
	/* the normalised spelling of the same things */
	if (policy_yaml_get(n, "mcp_allow_all_known_mcp_methods"))
		policy_load_get_bool(l, at, n, "mcp_allow_all_known_mcp_methods", &e->allow_all);
	if (policy_yaml_get(n, "mcp_strict_tool_names"))
		policy_load_get_bool(l, at, n, "mcp_strict_tool_names", &e->strict_tools);
	if (policy_yaml_get(n, "json_rpc_max_body_bytes"))
		policy_load_get_limit(l, at, n, "json_rpc_max_body_bytes", &e->jsonrpc_limit);
	policy_load_get_bool(l, at, n, "advisor_proposed", &e->advisor);
}

static struct clause *preset_clause(struct loader *l, struct endpoint *e)
{
	struct clause *c = policy_arena_push(l->a, &e->allow, &e->n_allow, sizeof(*c));

	if (c) {
		c->method = c->command = c->op_type = c->op_name_text = "";
		c->line = e->line;
		c->column = e->column;
		c->any_effective = true;
	}
	return c;
}

static void expand_access(struct loader *l, struct endpoint *e)
{
	static const char *const rest_ro[] = { "GET", "HEAD", "OPTIONS", NULL };
	static const char *const rest_rw[] = { "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", NULL };
	static const char *const ws_ro[] = { "GET", NULL };
	static const char *const ws_rw[] = { "GET", "WEBSOCKET_TEXT", NULL };
	static const char *const gql_ro[] = { "query", NULL };
	static const char *const gql_rw[] = { "query", "mutation", NULL };
	static const char *const all[] = { "*", NULL };
	const char *const *v = all;
	bool ro = !strcmp(e->access, "read-only"), rw = !strcmp(e->access, "read-write");
	struct clause *c;

	if (e->n_allow || (!ro && !rw && strcmp(e->access, "full")))
		return;
	if (e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP)
		return;
	e->allow = NULL;
	if (e->protocol == POLICY_PROTO_GRAPHQL) {
		v = ro ? gql_ro : rw ? gql_rw : all;
		for (; *v; v++) {
			c = preset_clause(l, e);
			if (c) {
				c->op_type = *v;
				c->has_type = true;
			}
		}
		return;
	}
	if (e->protocol == POLICY_PROTO_WEBSOCKET)
		v = ro ? ws_ro : rw ? ws_rw : all;
	else
		v = ro ? rest_ro : rw ? rest_rw : all;
	for (; *v; v++) {
		c = preset_clause(l, e);
		if (c) {
			policy_load_set_method(l, c, *v);
			policy_load_set_path(l, c, "**");
		}
	}
}

/* Under allow_all a clause without a method is about tools, or about everything. */
static void default_methods(struct loader *l, struct clause *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!c[i].has_method)
			policy_load_set_method(l, &c[i], c[i].has_name_param ? "tools/call" : "*");
}

static void normalise_endpoint(struct loader *l, struct endpoint *e)
{
	struct clause *c;

	expand_access(l, e);
	if (e->protocol != POLICY_PROTO_MCP || !e->allow_all)
		return;
	default_methods(l, e->allow, e->n_allow);
	default_methods(l, e->deny, e->n_deny);
	if (e->n_allow)
		return;
	e->allow = NULL;
	c = preset_clause(l, e);
	if (c)
		policy_load_set_method(l, c, "*");
}

static void finish_endpoint(struct loader *l, struct endpoint *e)
{
	e->given_allow = e->n_allow;
	e->given_deny = e->n_deny;
	if (!l->p->normalised)
		normalise_endpoint(l, e);
	for (size_t i = 0; i < e->n_allow; i++) {
		const struct clause *c = &e->allow[i];

		e->narrowed |= c->has_name_param;
		e->graphql_policy |= c->has_type || c->has_op_name || c->has_fields;
	}
	for (size_t i = 0; i < e->n_deny; i++)
		e->graphql_policy |= e->deny[i].has_type || e->deny[i].has_op_name || e->deny[i].has_fields;
	e->graphql_policy |= e->n_registry || (*e->persisted && strcmp(e->persisted, "deny"));
	e->extended = (e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP) ||
		      e->n_allowed_ips || e->tls_set;
	for (const char *c = e->path; *c; c++)
		e->specificity += *c != '*';
}

static void unenforced(struct loader *l, const struct at *at, const struct ynode *n)
{
	static const char *const keys[] = { "websocket_credential_rewrite", "request_body_credential_rewrite",
					    "credential_signing",	    "signing_service",
					    "signing_region",		    "credential_binding",
					    "allow_uninspected_credentials" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct ynode *v = policy_yaml_get(n, keys[i]);
		struct at here = { at, keys[i], 0 };

		if (v && !(v->kind == YNODE_SCALAR && (!*v->text || !strcmp(v->text, "false"))))
			policy_load_note(l, true, &here, v, "",
			     "accepted but not enforced: the workspace only ever holds placeholders, "
			     "real credentials are put in on the host");
	}
}

void policy_load_endpoint(struct loader *l, const struct at *at, const struct ynode *n,
			       struct endpoint *e)
{
	static const char *const keys[] = { "host", "path", "port", "ports", "protocol", "tls",
					    "enforcement", "access", "rules", "allowed_ips", "deny_rules",
					    "allow_encoded_slash", "websocket_credential_rewrite",
					    "request_body_credential_rewrite",
					    "allow_uninspected_credentials", "persisted_queries",
					    "graphql_persisted_queries", "graphql_max_body_bytes",
					    "credential_signing", "signing_service", "signing_region",
					    "credential_binding", "json_rpc", "mcp", NULL };
	static const char *const binding_keys[] = { "provider", NULL };
	const struct ynode *v;
	const char *host = "";

	e->line = n->line;
	e->column = n->column;
	e->path = e->protocol_text = e->tls = e->enforcement = e->access = e->persisted = "";
	e->signing = e->signing_service = e->signing_region = e->binding_provider = "";
	policy_host_glob(l->a, "", &e->host);
	policy_selector_glob(l->a, "", &e->selector);
	if (!policy_load_is_map(l, at, n, keys, false))
		return;
	e->has_host = policy_load_get_string(l, at, n, "host", &host) != NULL;
	policy_host_glob(l->a, host, &e->host);
	v = policy_load_get_string(l, at, n, "path", &e->path);
	policy_path_glob(l->a, e->path, &e->path_glob);
	if (v) {
		struct at here = { at, "path", 0 };

		policy_load_glob_bad(l, &here, v, &e->path_glob.g);
	}
	policy_selector_glob(l->a, e->path, &e->selector);
	load_ports(l, at, n, e);
	policy_load_get_string(l, at, n, "protocol", &e->protocol_text);
	e->protocol_text = policy_load_lowered(l->a, e->protocol_text);
	e->protocol = classify(e->protocol_text);
	v = policy_load_get_string(l, at, n, "tls", &e->tls);
	e->tls_set = *e->tls || (v && l->evaluate);
	e->tls_skip = !strcasecmp(e->tls, "skip");
	policy_load_get_string(l, at, n, "enforcement", &e->enforcement);
	e->enforce = !strcasecmp(e->enforcement, "enforce");
	policy_load_get_string(l, at, n, "access", &e->access);
	e->allowed_ip_texts = policy_load_get_strings(l, at, n, "allowed_ips", &e->n_allowed_ips);
	e->cidrs = policy_arena_array(l->a, e->n_allowed_ips, sizeof(*e->cidrs));
	for (size_t i = 0; e->cidrs && i < e->n_allowed_ips; i++)
		if (policy_cidr_parse(e->allowed_ip_texts[i], &e->cidrs[e->n_cidrs]) == 0)
			e->n_cidrs++;
	policy_load_get_bool(l, at, n, "allow_encoded_slash", &e->allow_encoded_slash);
	policy_load_get_bool(l, at, n, "websocket_credential_rewrite", &e->websocket_rewrite);
	policy_load_get_bool(l, at, n, "request_body_credential_rewrite", &e->body_rewrite);
	policy_load_get_bool(l, at, n, "allow_uninspected_credentials", &e->allow_uninspected);
	policy_load_get_string(l, at, n, "persisted_queries", &e->persisted);
	v = policy_yaml_get(n, "graphql_persisted_queries");
	if (v && (l->strict || !policy_load_is_null(v)))
		load_registry(l, at, v, e);
	policy_load_get_string(l, at, n, "credential_signing", &e->signing);
	policy_load_get_string(l, at, n, "signing_service", &e->signing_service);
	policy_load_get_string(l, at, n, "signing_region", &e->signing_region);
	v = policy_yaml_get(n, "credential_binding");
	if (v && (l->strict || !policy_load_is_null(v))) {
		struct at here = { at, "credential_binding", 0 };

		if (policy_load_is_map(l, &here, v, binding_keys, false))
			policy_load_get_string(l, &here, v, "provider", &e->binding_provider);
	}
	load_stanzas(l, at, n, e);
	v = policy_yaml_get(n, "rules");
	if (v) {
		struct at here = { at, "rules", 0 };

		e->has_rules = l->strict || !policy_load_is_null(v);
		if (policy_load_is_list(l, &here, v))
			policy_load_allow(l, &here, v, e);
	}
	v = policy_yaml_get(n, "deny_rules");
	if (v) {
		struct at here = { at, "deny_rules", 0 };

		e->has_deny_rules = l->strict || !policy_load_is_null(v);
		if (policy_load_is_list(l, &here, v))
			policy_load_deny(l, &here, v, e);
	}
	if (!l->evaluate)
		unenforced(l, at, n);
	finish_endpoint(l, e);
}
