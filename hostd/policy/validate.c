/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * validate.c - what is well-formed but must not be: unsafe values, rules that could never work, rules
 * that say something else than they seem to.
 *
 * The checks marked (strict) belong to the strict load path only; the rest hold in both.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/model.h"

#define FS_PATHS_MAX 256
#define FS_PATH_BYTES_MAX 4096
#define MIDDLEWARES_MAX 10
#define MIDDLEWARE_PATTERNS_MAX 32

struct check {
	const struct policy *p;
	struct policy_diags *d;
	bool strict;
};

static void emit(struct check *c, bool warning, const struct ynode *n, unsigned int line,
		 const char *path, const char *expected, const char *fmt, va_list ap)
{
	char text[768];

	vsnprintf(text, sizeof(text), fmt, ap);
	policy_diag_add(c->d, warning, n ? n->line : line, n ? n->column : 0, path, expected, "%s", text);
}

static const struct ynode *endpoint_node(const struct check *c, const struct endpoint *e)
{
	const struct ynode *n = policy_yaml_get(c->p->tree, "network_policies");

	n = policy_yaml_get(policy_yaml_get(n, e->rule->key), "endpoints");
	return n && n->kind == YNODE_LIST && e->index < n->n ? n->item[e->index] : NULL;
}

/* About one key of an endpoint; @key NULL: about the endpoint. */
static void about(struct check *c, bool warning, const struct endpoint *e, const char *key,
		  const char *expected, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void about(struct check *c, bool warning, const struct endpoint *e, const char *key,
		  const char *expected, const char *fmt, ...)
{
	const struct ynode *n = endpoint_node(c, e), *v = key ? policy_yaml_get(n, key) : NULL;
	char path[512];
	va_list ap;

	snprintf(path, sizeof(path), "network_policies.%s.endpoints[%zu]%s%s", e->rule->key, e->index,
		 key ? "." : "", key ? key : "");
	va_start(ap, fmt);
	emit(c, warning, v ? v : n, e->line, path, expected, fmt, ap);
	va_end(ap);
}

/* About one clause. */
static void about_clause(struct check *c, bool warning, const struct endpoint *e, bool deny, size_t i,
			 const char *key, const char *expected, const char *fmt, ...)
	__attribute__((format(printf, 8, 9)));
static void about_clause(struct check *c, bool warning, const struct endpoint *e, bool deny, size_t i,
			 const char *key, const char *expected, const char *fmt, ...)
{
	const struct ynode *n = policy_yaml_get(endpoint_node(c, e), deny ? "deny_rules" : "rules"), *v;
	char path[512];
	va_list ap;

	n = n && n->kind == YNODE_LIST && i < n->n ? n->item[i] : NULL;
	if (!deny && n)
		n = policy_yaml_get(n, "allow");
	v = key ? policy_yaml_get(n, key) : NULL;
	snprintf(path, sizeof(path), "network_policies.%s.endpoints[%zu].%s[%zu]%s%s%s", e->rule->key,
		 e->index, deny ? "deny_rules" : "rules", i, deny ? "" : ".allow", key ? "." : "",
		 key ? key : "");
	va_start(ap, fmt);
	emit(c, warning, v ? v : n, e->line, path, expected, fmt, ap);
	va_end(ap);
}

static void about_static(struct check *c, bool warning, const char *section, const char *key, size_t index,
			 const char *expected, const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));
static void about_static(struct check *c, bool warning, const char *section, const char *key, size_t index,
			 const char *expected, const char *fmt, ...)
{
	const struct ynode *n = policy_yaml_get(policy_yaml_get(c->p->tree, section), key);
	char path[256];
	va_list ap;

	if (n && n->kind == YNODE_LIST && index < n->n) {
		n = n->item[index];
		snprintf(path, sizeof(path), "%s.%s[%zu]", section, key, index);
	} else {
		snprintf(path, sizeof(path), "%s.%s", section, key);
	}
	va_start(ap, fmt);
	emit(c, warning, n, 0, path, expected, fmt, ap);
	va_end(ap);
}

/* ---- filesystem and process (strict) ---- */

static void check_identity(struct check *c, const char *key, const char *v)
{
	size_t digits;

	if (!v || !*v || !strcmp(v, "sandbox"))
		return;
	digits = strspn(v, "0123456789");
	if (!v[digits] && digits < 20) {
		unsigned long long id = strtoull(v, NULL, 10);

		if (id >= 1 && id <= 4294967294ull)
			return;
	}
	about_static(c, false, "process", key, 0, "sandbox, or a decimal number from 1 to 4294967294",
		     "\"%s\" is not allowed here", v);
}

static bool has_component(const char *path, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = path; (p = strstr(p, name)) != NULL; p += n)
		if ((p == path || p[-1] == '/') && (!p[n] || p[n] == '/'))
			return true;
	return false;
}

/* /proc/PID/root and its like lead to the whole file system. */
static bool leads_elsewhere(const char *path)
{
	const char *rest;

	while (path[0] == '/' && path[1] == '/')
		path++;
	if (strncmp(path, "/proc/", 6))
		return false;
	rest = strchr(path + 6, '/');
	return rest && (has_component(rest, "root") || has_component(rest, "cwd") || has_component(rest, "fd"));
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n && dir[n - 1] == '/')
		n--;
	return !strncmp(path, dir, n) && path[n] == '/' && path[n + 1];
}

static void check_paths(struct check *c, const char *key, const char *const *v, size_t n, bool write)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(v[i]) > FS_PATH_BYTES_MAX) {
			about_static(c, false, "filesystem_policy", key, i, "at most 4096 bytes",
				     "the path is too long");
			continue;
		}
		if (v[i][0] != '/')
			about_static(c, false, "filesystem_policy", key, i, "an absolute path",
				     "\"%s\" does not begin with /", v[i]);
		if (has_component(v[i], ".."))
			about_static(c, false, "filesystem_policy", key, i, "a path without ..",
				     "\"%s\" climbs with ..", v[i]);
		if (write && v[i][0] == '/' && !v[i][strspn(v[i], "/")])
			about_static(c, false, "filesystem_policy", key, i, "a narrower path",
				     "\"%s\" would make everything writable", v[i]);
		if (leads_elsewhere(v[i]))
			about_static(c, false, "filesystem_policy", key, i, "the path it stands for",
				     "\"%s\" leads through a process to the whole file system", v[i]);
	}
}

static void check_static(struct check *c)
{
	const struct policy_static *s = &c->p->st;
	bool null_device = false;

	if (c->strict) {
		check_identity(c, "run_as_user", s->run_as_user);
		check_identity(c, "run_as_group", s->run_as_group);
		if (s->n_read_only + s->n_read_write > FS_PATHS_MAX)
			about_static(c, false, "filesystem_policy", "read_only", SIZE_MAX, "at most 256 paths",
				     "read_only and read_write have %zu paths",
				     s->n_read_only + s->n_read_write);
		check_paths(c, "read_only", s->read_only, s->n_read_only, false);
		check_paths(c, "read_write", s->read_write, s->n_read_write, true);
	}
	for (size_t i = 0; i < s->n_read_only; i++)
		for (size_t k = 0; k < s->n_read_write; k++)
			if (is_below(s->read_only[i], s->read_write[k]))
				about_static(c, true, "filesystem_policy", "read_only", i, "",
					     "%s lies below the writable %s and stays writable: rights add up",
					     s->read_only[i], s->read_write[k]);
	for (size_t k = 0; k < s->n_read_write; k++)
		null_device |= !strcmp(s->read_write[k], "/dev/null") || !strcmp(s->read_write[k], "/dev") ||
			       !strcmp(s->read_write[k], "/dev/");
	if (s->has_filesystem && !null_device)
		about_static(c, true, "filesystem_policy", "read_write", SIZE_MAX, "/dev/null",
			     "/dev/null is not writable; it is added, since sessions cannot run without it");
}

/* ---- hosts, ports, addresses ---- */

static bool is_blank(const char *s)
{
	return !s[strspn(s, " \t")];
}

/* A DNS name, a star standing for any characters of a label. */
static bool good_dns_selector(const char *h)
{
	size_t label = 0, total = strlen(h);

	if (!total || total > 253)
		return false;
	for (const char *c = h; *c; c++) {
		bool alnum = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');

		if (*c == '.') {
			if (!label || c[-1] == '-' || !c[1])
				return false;
			label = 0;
			continue;
		}
		if (!alnum && *c != '*' && *c != '_' && (*c != '-' || !label))
			return false;
		if (++label > 63)
			return false;
	}
	return h[total - 1] != '-';
}

static size_t count_labels(const char *h)
{
	size_t n = 1;

	for (; *h; h++)
		n += *h == '.';
	return n;
}

static void check_wildcard(struct check *c, const struct endpoint *e)
{
	const char *h = e->host.g.text, *label = h;
	bool tld;

	if (!strchr(h, '*'))
		return;
	if (!strcmp(h, "*") || !strcmp(h, "**")) {
		if (c->strict)
			about(c, false, e, "host", "a domain, such as *.example.com", "\"%s\" is every host", h);
		return;
	}
	tld = count_labels(h) <= 2;
	/* any wildcard below a top-level domain, not only a leading one */
	if (tld && (c->strict || *e->protocol_text))
		about(c, false, e, "host", "at least three labels, such as *.example.com",
		      "\"%s\" covers a whole top-level domain", h);
	if (!c->strict)
		return;
	for (size_t i = 0;; i++) {
		const char *dot = strchrnul(label, '.');
		size_t n = (size_t)(dot - label);
		bool star = memchr(label, '*', n) != NULL, doubled = memmem(label, n, "**", 2) != NULL;

		if (i == 0 && doubled && n != 2)
			about(c, false, e, "host", "** as a whole label",
			      "the first label of \"%s\" mixes ** with text", h);
		if (i > 0 && (doubled || (star && n != 1)))
			about(c, false, e, "host", "* as a whole label, or none",
			      "a later label of \"%s\" mixes a wildcard with text or is **", h);
		if (!*dot)
			break;
		label = dot + 1;
	}
}

/* Is @h this name, or below it?  In any case, with or without a dot at its end. */
static bool is_name_below(const char *h, const char *name)
{
	size_t n = strlen(h), m = strlen(name);

	n -= n && h[n - 1] == '.';
	return n >= m && !strncasecmp(h + n - m, name, m) && (n == m || h[n - m - 1] == '.');
}

/* What the destination check refuses whatever a rule says is not written into one. */
static void check_reachable(struct check *c, const struct endpoint *e)
{
	const char *h = e->host.g.text;
	struct policy_addr addr;

	if (policy_host_is_literal(h, &addr) && policy_addr_blocked(&addr))
		about(c, false, e, "host", "an address that can be reached",
		      "\"%s\" is loopback, link-local or a metadata address: always blocked, so it would never work", h);
	else if (is_name_below(h, "localhost") || is_name_below(h, "metadata.google.internal"))
		about(c, true, e, "host", "",
		      "\"%s\" stands for loopback or a metadata address, which are always blocked", h);
}

static void check_host(struct check *c, const struct endpoint *e)
{
	const char *h = e->host.g.text;
	struct policy_addr addr;

	if (e->host.g.bad)
		about(c, false, e, "host", "a valid pattern", "\"%s\": %s", h, e->host.g.bad);
	if (c->strict && is_blank(h) && !e->n_allowed_ips)
		about(c, false, e, "host", "a host, or allowed_ips", "an endpoint without host");
	if (is_blank(h) && e->n_allowed_ips)
		about(c, true, e, "host", "",
		      "an endpoint without host lets every name be looked up; only its addresses are limited");
	if (c->strict && e->protocol == POLICY_PROTO_TCP) {
		if (is_blank(h))
			about(c, false, e, "host", "a DNS name", "protocol tcp needs a host");
		else if (policy_host_is_literal(h, &addr))
			about(c, false, e, "host", "a DNS name",
			      "protocol tcp works by name; \"%s\" is an address", h);
		else if (!good_dns_selector(h))
			about(c, false, e, "host", "a DNS name", "\"%s\" is not a DNS name", h);
	}
	check_wildcard(c, e);
	if (c->strict)
		check_reachable(c, e);
}

static void check_addresses(struct check *c, const struct endpoint *e)
{
	for (size_t i = 0; i < e->n_allowed_ips; i++) {
		const char *text = e->allowed_ip_texts[i];
		struct cidr r;

		if (policy_cidr_parse(text, &r) < 0) {
			about(c, false, e, "allowed_ips", "an address or a range such as 10.0.0.0/8",
			      "\"%s\" is neither", text);
			continue;
		}
		if (policy_cidr_touches_blocked(&r))
			about(c, false, e, "allowed_ips", "a range without loopback and link-local addresses",
			      "\"%s\" holds addresses that are always blocked, so it would never work", text);
		if (r.bits < 16)
			about(c, true, e, "allowed_ips", "", "\"%s\" is a very wide range", text);
		else if (policy_addr_internal(&r.addr))
			about(c, true, e, "allowed_ips", "", "\"%s\" reaches into a private network", text);
	}
}

/* ---- endpoints ---- */

static bool has_key(const struct check *c, const struct endpoint *e, const char *key)
{
	return policy_yaml_get(endpoint_node(c, e), key) != NULL;
}

static void check_tcp(struct check *c, const struct endpoint *e)
{
	static const char *const forbidden[] = {
		"enforcement", "path", "allow_encoded_slash", "websocket_credential_rewrite",
		"request_body_credential_rewrite", "persisted_queries", "graphql_persisted_queries",
		"graphql_max_body_bytes", "json_rpc", "mcp", "credential_signing", "signing_service",
		"signing_region", "credential_binding",
	};

	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
		if (has_key(c, e, forbidden[i]))
			about(c, false, e, forbidden[i], "no such key", "protocol tcp has no %s", forbidden[i]);
	if (*e->access || e->has_rules || e->has_deny_rules)
		about(c, false, e, *e->access ? "access" : e->has_rules ? "rules" : "deny_rules", "no such key",
		      "protocol tcp is not read, so it has no access, rules or deny_rules");
}

static void check_signing(struct check *c, const struct endpoint *e)
{
	if (!c->strict || !*e->signing)
		return;
	if (strcmp(e->signing, "sigv4") && strcmp(e->signing, "sigv4:body") &&
	    strcmp(e->signing, "sigv4:no_body"))
		about(c, false, e, "credential_signing", "sigv4, sigv4:body or sigv4:no_body",
		      "\"%s\" is unknown", e->signing);
	if (!*e->signing_service)
		about(c, false, e, "credential_signing", "signing_service as well",
		      "credential_signing without signing_service");
	if (e->body_rewrite)
		about(c, false, e, "credential_signing", "one of the two",
		      "credential_signing together with request_body_credential_rewrite");
}

static bool is_l7(const struct endpoint *e)
{
	return e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP;
}

static bool is_rpc(const struct endpoint *e)
{
	return e->protocol == POLICY_PROTO_JSONRPC || e->protocol == POLICY_PROTO_MCP;
}

static bool known_access(const struct endpoint *e)
{
	return !strcmp(e->access, "read-only") || !strcmp(e->access, "read-write") ||
	       !strcmp(e->access, "full");
}

/* Presence and absence of rules, presets and denials. */
static void check_rule_sets(struct check *c, const struct endpoint *e)
{
	bool effective = false;

	if (*e->access && e->has_rules)
		about(c, false, e, "access", "access or rules", "both access and rules");
	if (*e->access && is_rpc(e))
		about(c, false, e, "access", "rules", "protocol %s has no presets", e->protocol_text);
	if (*e->access && !known_access(e))
		about(c, true, e, "access", "read-only, read-write or full",
		      "\"%s\" is unknown and allows nothing", e->access);
	if (e->protocol == POLICY_PROTO_JSONRPC && !e->has_rules)
		about(c, false, e, "protocol", "rules", "protocol json-rpc without rules");
	if (e->protocol == POLICY_PROTO_MCP && !e->has_rules && !e->allow_all)
		about(c, false, e, "protocol", "rules, or mcp.allow_all_known_mcp_methods: true",
		      "protocol mcp without rules");
	if (is_l7(e) && !is_rpc(e) && !e->has_rules && !*e->access)
		about(c, false, e, "protocol", "rules or access", "protocol %s without rules and access",
		      e->protocol_text);
	if (e->has_rules && !e->given_allow)
		about(c, false, e, "rules", "at least one rule, or no such key", "rules is empty");
	if (e->has_deny_rules && !e->given_deny)
		about(c, false, e, "deny_rules", "at least one rule, or no such key", "deny_rules is empty");
	for (size_t i = 0; i < e->given_allow; i++)
		effective |= e->allow[i].any_effective;
	if (e->given_allow && !effective && !(e->protocol == POLICY_PROTO_MCP && e->allow_all))
		about(c, false, e, "rules", "method, path, command, operation_type or tool",
		      "no rule says what it allows");
	if (e->has_deny_rules && !is_l7(e))
		about(c, false, e, "deny_rules", "a protocol whose requests are read",
		      "deny_rules without such a protocol");
	else if (e->has_deny_rules && e->protocol != POLICY_PROTO_MCP && !e->has_rules && !*e->access)
		about(c, false, e, "deny_rules", "rules or access as well",
		      "deny_rules without anything that is allowed");
}

static bool is_one_of(const char *s, const char *const *list, bool any_case)
{
	for (; *list; list++)
		if (any_case ? !strcasecmp(s, *list) : !strcmp(s, *list))
			return true;
	return false;
}

static bool balanced(const char *s, char open, char close)
{
	int depth = 0;

	for (; *s; s++) {
		depth += *s == open;
		depth -= *s == close;
		if (depth < 0)
			return false;
	}
	return depth == 0;
}

static void check_operation_type(struct check *c, const struct endpoint *e, bool deny, size_t i,
				 const struct clause *k)
{
	static const char *const strict[] = { "query", "mutation", "subscription", NULL };
	static const char *const lenient[] = { "query", "mutation", "subscription", "*", NULL };

	if (!k->has_type) {
		if (e->protocol == POLICY_PROTO_GRAPHQL)
			about_clause(c, false, e, deny, i, NULL, "operation_type",
				     "a GraphQL rule without operation_type");
		return;
	}
	if (c->strict ? !is_one_of(k->op_type, strict, false) : !is_one_of(k->op_type, lenient, true))
		about_clause(c, false, e, deny, i, "operation_type", "query, mutation or subscription",
			     "\"%s\" is not one of them", k->op_type);
}

static void check_rest_clause(struct check *c, const struct endpoint *e, bool deny, size_t i,
			      const struct clause *k)
{
	static const char *const rest[] = { "GET",   "HEAD",	"POST", "PUT", "DELETE",
					    "PATCH", "OPTIONS", "*",	NULL };
	static const char *const websocket[] = { "GET", "WEBSOCKET_TEXT", "*", NULL };
	bool ws = e->protocol == POLICY_PROTO_WEBSOCKET;

	if (k->method_given && !is_one_of(k->method, ws ? websocket : rest, true) &&
	    (ws || e->protocol == POLICY_PROTO_REST))
		about_clause(c, true, e, deny, i, "method", "", "\"%s\" is not a method of %s", k->method,
			     e->protocol_text);
	if (k->has_path && (!balanced(k->path.g.text, '[', ']') || !balanced(k->path.g.text, '{', '}')))
		about_clause(c, true, e, deny, i, "path", "", "brackets in \"%s\" do not balance",
			     k->path.g.text);
	if (k->has_command && e->protocol == POLICY_PROTO_REST)
		about_clause(c, true, e, deny, i, "command", "", "command has no effect on protocol rest");
	if (k->has_method != k->has_path && (e->protocol == POLICY_PROTO_REST || ws) && !k->has_type)
		about_clause(c, true, e, deny, i, NULL, k->has_path ? "method" : "path: \"**\"",
			     "a rule without %s never matches", k->has_path ? "method" : "path");
	if (k->has_type && e->protocol != POLICY_PROTO_GRAPHQL && !ws)
		about_clause(c, true, e, deny, i, "operation_type", "",
			     "GraphQL fields have no effect on protocol %s", e->protocol_text);
	if (ws && (k->method_given || k->has_path || k->has_query) &&
	    (k->has_type || k->has_op_name || k->has_fields))
		about_clause(c, false, e, deny, i, NULL, "two rules",
			     "one rule mixes method, path or query with a GraphQL operation");
	if (ws && !deny && e->graphql_policy && k->method_given && !strcasecmp(k->method, "WEBSOCKET_TEXT"))
		about_clause(c, false, e, deny, i, "method", "GraphQL operations only",
			     "WEBSOCKET_TEXT beside GraphQL rules would let every operation through");
}

static bool matcher_is_wild(const struct matcher *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (strpbrk(m->any[i].g.text, "*?[]{}"))
			return true;
	return false;
}

static void check_rpc_clause(struct check *c, const struct endpoint *e, bool deny, size_t i,
			     const struct clause *k)
{
	bool mcp = e->protocol == POLICY_PROTO_MCP, wild = k->method_given && strpbrk(k->method, "*?[]{}");

	if (!k->method_given && !(mcp && e->allow_all))
		about_clause(c, false, e, deny, i, NULL, "method", "a rule without method");
	if (k->has_path || k->has_query)
		about_clause(c, false, e, deny, i, k->has_path ? "path" : "query", "no such key",
			     "a %s rule has no path or query", e->protocol_text);
	if (!mcp) {
		if (wild && strcmp(k->method, "*"))
			about_clause(c, false, e, deny, i, "method", "a whole method name, or *",
				     "patterns are not allowed in \"%s\"", k->method);
		if (k->has_tool)
			about_clause(c, false, e, deny, i, "tool", "protocol mcp",
				     "tool on protocol json-rpc");
		else if (k->n_params)
			about_clause(c, false, e, deny, i, "params", "protocol mcp",
				     "params on protocol json-rpc");
		return;
	}
	if (wild && strncmp(k->method, "tools/", 6))
		about_clause(c, false, e, deny, i, "method", "a whole method name, or tools/*",
			     "patterns are only allowed for tools, not in \"%s\"", k->method);
	if (k->has_name_param && k->method_given && strcmp(k->method, "tools/call"))
		about_clause(c, false, e, deny, i, "method", "tools/call",
			     "a tool is named, but the method is \"%s\"", k->method);
	for (size_t n = 0; n < k->n_params; n++) {
		if (strcmp(k->params[n].key, "name"))
			about_clause(c, false, e, deny, i, "params", "name only", "params.%s is not checked",
				     k->params[n].key);
		else if (matcher_is_wild(&k->params[n].m) && !e->strict_tools)
			about_clause(c, false, e, deny, i, k->has_tool ? "tool" : "params",
				     "strict_tool_names: true, or whole names",
				     "a tool pattern without strict tool names");
	}
}

/* A rule for tools/call as a whole beside rules for single tools would undo them. */
static void check_tool_mix(struct check *c, const struct endpoint *e)
{
	bool selected = false;

	for (size_t i = 0; i < e->given_allow; i++)
		selected |= e->allow[i].has_name_param;
	if (!selected)
		return;
	for (int deny = 0; deny < 2; deny++) {
		const struct clause *k = deny ? e->deny : e->allow;
		size_t n = deny ? e->given_deny : e->given_allow;

		for (size_t i = 0; i < n; i++)
			if (!k[i].has_name_param && k[i].has_method &&
			    policy_value_matches(&k[i].method_glob, "tools/call") == 1)
				about_clause(c, false, e, deny, i, k[i].method_given ? "method" : NULL,
					     "a tool",
					     "this %s every tool, but other rules allow single tools",
					     deny ? "denies" : "allows");
	}
}

static void check_clauses(struct check *c, const struct endpoint *e, bool deny)
{
	const struct clause *k = deny ? e->deny : e->allow;
	size_t n = deny ? e->given_deny : e->given_allow;

	for (size_t i = 0; i < n; i++) {
		if (e->protocol == POLICY_PROTO_GRAPHQL || k[i].has_type)
			check_operation_type(c, e, deny, i, &k[i]);
		if (is_rpc(e)) {
			check_rpc_clause(c, e, deny, i, &k[i]);
			continue;
		}
		check_rest_clause(c, e, deny, i, &k[i]);
		if (k[i].has_tool)
			about_clause(c, false, e, deny, i, "tool", "protocol mcp", "tool on protocol %s",
				     *e->protocol_text ? e->protocol_text : "(none)");
		else if (k[i].n_params)
			about_clause(c, false, e, deny, i, "params", "protocol mcp", "params on protocol %s",
				     *e->protocol_text ? e->protocol_text : "(none)");
	}
}

static void check_protocol(struct check *c, const struct endpoint *e)
{
	if (*e->protocol_text && e->protocol == POLICY_PROTO_NONE)
		about(c, false, e, "protocol", "tcp, rest, websocket, graphql, sql, json-rpc or mcp",
		      "\"%s\" is unknown", e->protocol_text);
	if (e->protocol == POLICY_PROTO_SQL && e->enforce)
		about(c, false, e, "enforcement", "audit", "protocol sql cannot be enforced");
	if (e->protocol == POLICY_PROTO_MCP && (is_blank(e->host.g.text) || !e->n_ports))
		about(c, false, e, "protocol", "host and port", "protocol mcp needs a host and a port");
	if (*e->path && *e->path != '/' && strcmp(e->path, "**"))
		about(c, false, e, "path", "a path that begins with /, or **", "\"%s\"", e->path);
	if (*e->persisted && strcmp(e->persisted, "deny") && strcmp(e->persisted, "allow_registered"))
		about(c, false, e, "persisted_queries", "deny or allow_registered", "\"%s\" is unknown",
		      e->persisted);
	if ((e->strict_tools_set || e->allow_all_set) && e->protocol != POLICY_PROTO_MCP &&
	    e->protocol != POLICY_PROTO_TCP)
		about(c, false, e, "mcp", "protocol: mcp",
		      "strict_tool_names and allow_all_known_mcp_methods are for protocol mcp");
	if (e->jsonrpc_limit_set && e->protocol != POLICY_PROTO_JSONRPC && e->protocol != POLICY_PROTO_TCP)
		about(c, true, e, "json_rpc", "", "json_rpc.max_body_bytes has no effect on this protocol");
	if (!strcasecmp(e->tls, "terminate") || !strcasecmp(e->tls, "passthrough"))
		about(c, true, e, "tls", "skip, or no such key", "\"%s\" is deprecated and means automatic",
		      e->tls);
	if (e->tls_skip && is_l7(e) && policy_endpoint_has_port(e, 443))
		about(c, true, e, "tls", "", "with tls: skip the requests on port 443 cannot be read");
	if (e->websocket_rewrite && e->protocol != POLICY_PROTO_WEBSOCKET && e->protocol != POLICY_PROTO_REST &&
	    e->protocol != POLICY_PROTO_TCP)
		about(c, true, e, "websocket_credential_rewrite", "", "it has no effect on this protocol");
	if (e->body_rewrite && e->protocol != POLICY_PROTO_REST && e->protocol != POLICY_PROTO_TCP)
		about(c, true, e, "request_body_credential_rewrite", "", "it has no effect on this protocol");
	if (is_l7(e) && !e->enforce)
		about(c, true, e, has_key(c, e, "enforcement") ? "enforcement" : NULL, "enforcement: enforce",
		      "this endpoint only audits: what its rules do not allow is forwarded and logged");
}

static void check_registry(struct check *c, const struct endpoint *e)
{
	static const char *const strict[] = { "query", "mutation", "subscription", NULL };
	static const char *const lenient[] = { "query", "mutation", "subscription", "*", NULL };

	for (size_t i = 0; i < e->n_registry; i++) {
		const char *t = e->registry[i].op.type;

		if (*t && (c->strict ? !is_one_of(t, strict, false) : !is_one_of(t, lenient, true)))
			about(c, false, e, "graphql_persisted_queries", "query, mutation or subscription",
			      "operation_type \"%s\" of %s is not one of them", t, e->registry[i].key);
	}
}

static void check_endpoint(struct check *c, const struct endpoint *e)
{
	check_host(c, e);
	if (c->strict && !e->n_ports && !has_key(c, e, "port") && !has_key(c, e, "ports"))
		about(c, false, e, "port", "a port from 1 to 65535",
		      "an endpoint without port");
	check_addresses(c, e);
	check_protocol(c, e);
	if (e->protocol == POLICY_PROTO_TCP)
		check_tcp(c, e);
	else
		check_rule_sets(c, e);
	check_signing(c, e);
	check_registry(c, e);
	check_clauses(c, e, false);
	check_clauses(c, e, true);
	if (e->protocol == POLICY_PROTO_MCP)
		check_tool_mix(c, e);
}

/* ---- middlewares ---- */

static void middleware_bad(struct check *c, const struct middleware *m, const char *key,
			   const char *expected, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "network_middlewares.%s%s%s", m->key, key ? "." : "", key ? key : "");
	policy_diag_add(c->d, false, m->line, m->column, path, expected, "%s", text);
}

static void check_selector(struct check *c, const struct middleware *m)
{
	for (size_t i = 0; i < m->n_include + m->n_exclude; i++) {
		const char *h = i < m->n_include ? m->include[i] : m->exclude[i - m->n_include];
		enum policy_selector_error e = policy_host_selector_check(h);

		if (e != HOST_SELECTOR_OK)
			middleware_bad(c, m, "endpoints", "host patterns by label",
				       policy_host_selector_error_name(e));
	}
}

static bool selects(const struct middleware *m, const char *host)
{
	bool in = false;

	if (policy_host_selector_check(host) != HOST_SELECTOR_OK)
		return false;
	for (size_t i = 0; i < m->n_include && !in; i++)
		in = policy_host_selector_check(m->include[i]) == HOST_SELECTOR_OK &&
		     policy_host_selectors_overlap(m->include[i], host);
	for (size_t i = 0; i < m->n_exclude && in && !strchr(host, '*'); i++)
		in = policy_host_selector_check(m->exclude[i]) != HOST_SELECTOR_OK ||
		     !policy_host_selector_matches(m->exclude[i], host);
	return in;
}

static void check_middlewares(struct check *c)
{
	const struct policy *p = c->p;

	if (p->n_middlewares > MIDDLEWARES_MAX)
		middleware_bad(c, &p->middlewares[MIDDLEWARES_MAX], NULL, "at most 10", "too many middlewares");
	for (size_t i = 0; i < p->n_middlewares; i++) {
		const struct middleware *m = &p->middlewares[i];
		bool closed = !*m->on_error || !strcmp(m->on_error, "fail_closed");

		if (!*m->middleware)
			middleware_bad(c, m, "middleware", "the middleware's name", "middleware is missing");
		if (!closed && strcmp(m->on_error, "fail_open"))
			middleware_bad(c, m, "on_error", "fail_closed or fail_open", "unknown on_error");
		if (!m->n_include)
			middleware_bad(c, m, "endpoints", "include: [host patterns]", "nothing is included");
		if (m->n_include > MIDDLEWARE_PATTERNS_MAX || m->n_exclude > MIDDLEWARE_PATTERNS_MAX)
			middleware_bad(c, m, "endpoints", "at most 32 patterns", "too many patterns");
		check_selector(c, m);
		for (size_t k = 0; k < i; k++)
			if (p->middlewares[k].order == m->order)
				middleware_bad(c, m, "order", "a number of its own",
					       "another middleware has the same order");
		for (size_t r = 0; closed && r < p->n_rules; r++)
			for (size_t k = 0; k < p->rules[r].n_endpoints; k++) {
				const struct endpoint *e = &p->rules[r].endpoints[k];

				if (e->tls_skip && selects(m, e->host.g.text))
					about(c, false, e, "tls", "no tls: skip here",
					      "middleware %s must see this host and fails closed", m->key);
			}
	}
}

void policy_validate(const struct policy *p, struct policy_diags *d)
{
	struct check c = { .p = p, .d = d, .strict = p->mode == POLICY_STRICT };

	check_static(&c);
	for (size_t r = 0; r < p->n_rules; r++)
		for (size_t i = 0; i < p->rules[r].n_endpoints; i++)
			check_endpoint(&c, &p->rules[r].endpoints[i]);
	check_middlewares(&c);
}
