/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * load.c - from the document's tree to the policy: keys, types, defaults, and the format's own
 * rewritings (presets, tools, nested parameters).
 *
 * Every function goes on after an error, so that one run reports all of them; the values it then leaves
 * are harmless, and the policy is thrown away in the end.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/model.h"

#define PORTS_MAX 65535
#define DEFAULT_BODY_LIMIT 65536

/* Where in the document we are, for messages only. */
struct at {
	const struct at *up;
	const char *key; /* NULL: index */
	size_t index;
};

struct loader {
	struct policy *p;
	struct arena *a;
	struct policy_diags *d;
	bool strict;	/* POLICY_STRICT */
	bool evaluate;	/* POLICY_EVALUATE */
};

static void render(const struct at *at, char *out, size_t size)
{
	size_t n;

	if (!at) {
		*out = '\0';
		return;
	}
	render(at->up, out, size);
	n = strlen(out);
	if (at->key)
		snprintf(out + n, size - n, "%s%s", n ? "." : "", at->key);
	else
		snprintf(out + n, size - n, "[%zu]", at->index);
}

static void note(struct loader *l, bool warning, const struct at *at, const struct ynode *n,
		 const char *expected, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void note(struct loader *l, bool warning, const struct at *at, const struct ynode *n,
		 const char *expected, const char *fmt, ...)
{
	char path[512], text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	render(at, path, sizeof(path));
	/* What is only evaluated was never checked by anyone: what cannot be used is left out. */
	policy_diag_add(l->d, warning || l->evaluate, n ? n->line : 0, n ? n->column : 0, path, expected, "%s", text);
}

static const char *kind_name(const struct ynode *n)
{
	static const char *const names[] = { "a string", "null", "a boolean", "an integer", "a number" };

	if (n->kind == YNODE_MAP)
		return "a map";
	return n->kind == YNODE_LIST ? "a list" : names[policy_yaml_type(n)];
}

/* A key without a value, as in "rules:" at a line's end. */
static bool is_null(const struct ynode *n)
{
	return n->kind == YNODE_SCALAR && policy_yaml_type(n) == YSCALAR_NULL;
}

/* ---- typed getters; a missing key leaves *out alone ---- */

/* Reports keys that are there twice, merge keys, and, where they matter, unknown ones. */
static void check_keys(struct loader *l, const struct at *at, const struct ynode *map,
		       const char *const *known, bool always)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct ynode *k = map->key[i];
		struct at here = { at, k->kind == YNODE_SCALAR ? k->text : "?", 0 };
		const char *const *name = known;

		if (k->kind != YNODE_SCALAR) {
			note(l, false, at, k, "a string", "a key is %s", kind_name(k));
			continue;
		}
		if (k->plain && !strcmp(k->text, "<<")) {
			note(l, false, &here, k, "the keys written out", "merge keys are not allowed");
			continue;
		}
		while (name && *name && strcmp(*name, k->text))
			name++;
		if (known && !*name && (l->strict || always)) {
			char list[512] = "one of ";

			for (name = known; *name; name++)
				snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
					 name == known ? "" : ", ", *name);
			note(l, false, &here, k, list, "unknown key");
		}
	}
}

/* Two keys of the same name: sorted copies would do, but maps are small; big ones are hashed. */
static void check_duplicates(struct loader *l, const struct at *at, const struct ynode *map)
{
	size_t size = 16, *table;

	while (size < map->n * 2)
		size *= 2;
	table = calloc(size, sizeof(*table));
	if (!table) {
		note(l, false, at, map, "", "out of memory");
		return;
	}
	for (size_t i = 0; i < map->n; i++) {
		const struct ynode *k = map->key[i];
		size_t h = 5381;

		if (k->kind != YNODE_SCALAR)
			continue;
		for (const char *c = k->text; *c; c++)
			h = h * 33 ^ (unsigned char)*c;
		h = (h ^ h >> 17) * 0x9e3779b97f4a7c15ull >> 20;
		for (;; h++) {
			size_t slot = table[h & (size - 1)];

			if (!slot) {
				table[h & (size - 1)] = i + 1;
				break;
			}
			if (!strcmp(map->key[slot - 1]->text, k->text)) {
				struct at here = { at, k->text, 0 };

				note(l, false, &here, k, "each key once",
				     "this key was already given at line %u", map->key[slot - 1]->line);
				break;
			}
		}
	}
	free(table);
}

static bool is_map(struct loader *l, const struct at *at, const struct ynode *n,
		   const char *const *known, bool always)
{
	if (n->kind != YNODE_MAP) {
		note(l, false, at, n, "a map", "this is %s", kind_name(n));
		return false;
	}
	check_duplicates(l, at, n);
	check_keys(l, at, n, known, always);
	return true;
}

static bool is_list(struct loader *l, const struct at *at, const struct ynode *n)
{
	if (n->kind == YNODE_LIST)
		return true;
	if (!is_null(n))
		note(l, false, at, n, "a list", "this is %s", kind_name(n));
	return false;
}

static const char *as_string(struct loader *l, const struct at *at, const struct ynode *n)
{
	if (n->kind != YNODE_SCALAR || (policy_yaml_type(n) != YSCALAR_STRING &&
					(l->strict || policy_yaml_type(n) == YSCALAR_NULL))) {
		note(l, false, at, n, n->kind == YNODE_SCALAR ? "a string (quote it)" : "a string",
		     "this is %s", kind_name(n));
		return "";
	}
	return n->text;
}

static const struct ynode *get_string(struct loader *l, const struct at *at, const struct ynode *map,
				      const char *key, const char **out)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };

	if (!n || (!l->strict && is_null(n)))
		return NULL;
	*out = as_string(l, &here, n);
	return n;
}

static const struct ynode *get_bool(struct loader *l, const struct at *at, const struct ynode *map,
				    const char *key, bool *out)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };

	if (!n || (!l->strict && is_null(n)))
		return NULL;
	if (n->kind != YNODE_SCALAR || policy_yaml_type(n) != YSCALAR_BOOL)
		note(l, false, &here, n, "true or false", "this is %s", kind_name(n));
	else
		*out = n->text[0] == 't' || n->text[0] == 'T';
	return n;
}

static bool as_int(struct loader *l, const struct at *at, const struct ynode *n, int64_t min,
		   int64_t max, int64_t *out)
{
	char range[64];
	int64_t v;

	snprintf(range, sizeof(range), "an integer from %lld to %lld", (long long)min, (long long)max);
	if (n->kind != YNODE_SCALAR || policy_yaml_type(n) != YSCALAR_INT) {
		note(l, false, at, n, range, "this is %s", kind_name(n));
		return false;
	}
	if (policy_yaml_int(n, &v) < 0 || v < min || v > max) {
		note(l, false, at, n, range, "%s is out of range", n->text);
		return false;
	}
	*out = v;
	return true;
}

/* A body limit: 0 means the default where it is not explicitly forbidden. */
static bool get_limit(struct loader *l, const struct at *at, const struct ynode *map, const char *key,
		      uint32_t *out)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };
	int64_t v;

	if (!n || (!l->strict && is_null(n)))
		return false;
	if (as_int(l, &here, n, l->evaluate ? 0 : 1, UINT32_MAX, &v))
		*out = v ? (uint32_t)v : DEFAULT_BODY_LIMIT;
	return true;
}

static const char **get_strings(struct loader *l, const struct at *at, const struct ynode *map,
				const char *key, size_t *count)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };
	const char **v;

	*count = 0;
	if (!n || !is_list(l, &here, n))
		return NULL;
	v = policy_arena_array(l->a, n->n, sizeof(*v));
	for (size_t i = 0; v && i < n->n; i++) {
		struct at item = { &here, NULL, i };

		v[i] = as_string(l, &item, n->item[i]);
	}
	*count = v ? n->n : 0;
	return v;
}

static const char *lowered(struct arena *a, const char *s)
{
	char *p = policy_arena_strdup(a, s);

	for (char *c = p; c && *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + 32);
	return p ? p : "";
}

/* ---- matchers and clauses ---- */

static void glob_bad(struct loader *l, const struct at *at, const struct ynode *n,
		     const struct glob_base *g)
{
	if (g->bad && !l->evaluate)
		note(l, false, at, n, "a valid pattern", "\"%s\": %s", g->text, g->bad);
}

/* Both forms at once, which only the evaluation knows: either may match. */
static void load_either(struct loader *l, const struct at *at, const struct ynode *glob,
			const struct ynode *any, struct matcher *m)
{
	size_t n = any->kind == YNODE_LIST ? any->n : 0;
	const char *text = as_string(l, at, glob);

	m->any = policy_arena_array(l->a, n + 1, sizeof(*m->any));
	for (size_t i = 0; m->any && i < n; i++)
		policy_value_glob(l->a, as_string(l, at, any->item[i]), &m->any[m->n++]);
	if (m->any && *text)
		policy_value_glob(l->a, text, &m->any[m->n++]);
}

static void load_matcher(struct loader *l, const struct at *at, const struct ynode *n,
			 struct matcher *m)
{
	static const char *const strict_keys[] = { "any", NULL };
	static const char *const lenient_keys[] = { "any", "glob", NULL };
	const struct ynode *any, *glob;

	if (n->kind == YNODE_SCALAR) {
		m->any = policy_arena_alloc(l->a, sizeof(*m->any));
		if (!m->any)
			return;
		m->n = 1;
		policy_value_glob(l->a, as_string(l, at, n), m->any);
		glob_bad(l, at, n, &m->any->g);
		return;
	}
	if (!is_map(l, at, n, l->strict ? strict_keys : lenient_keys, true))
		return;
	any = policy_yaml_get(n, "any");
	glob = l->strict ? NULL : policy_yaml_get(n, "glob");
	if (any && glob && l->evaluate) {
		load_either(l, at, glob, any, m);
		return;
	}
	if (!any == !glob) {
		note(l, false, at, n, "a pattern, or {any: [patterns]}",
		     any ? "both glob and any" : "neither a pattern nor any");
		return;
	}
	if (glob) {
		struct at here = { at, "glob", 0 };

		if (glob->kind == YNODE_SCALAR && !*glob->text)
			return; /* an empty glob of this form never matches */
		load_matcher(l, &here, glob, m);
		return;
	}
	struct at here = { at, "any", 0 };

	m->list = true;
	if (!is_list(l, &here, any) || any->n == 0) {
		if (!l->evaluate)
			note(l, false, &here, any, "a list of at least one pattern", "nothing in it");
		return;
	}
	m->any = policy_arena_array(l->a, any->n, sizeof(*m->any));
	for (size_t i = 0; m->any && i < any->n; i++) {
		struct at item = { &here, NULL, i };

		policy_value_glob(l->a, as_string(l, &item, any->item[i]), &m->any[i]);
		glob_bad(l, &item, any->item[i], &m->any[i].g);
	}
	m->n = m->any ? any->n : 0;
}

static bool is_matcher_map(const struct ynode *n)
{
	return n->kind == YNODE_MAP && n->n == 1 && n->key[0]->kind == YNODE_SCALAR &&
	       ((!strcmp(n->key[0]->text, "any") && n->item[0]->kind == YNODE_LIST) ||
		(!strcmp(n->key[0]->text, "glob") && n->item[0]->kind == YNODE_SCALAR));
}

/* Nested maps become dotted keys. */
static void load_params(struct loader *l, const struct at *at, const struct ynode *map,
			const char *prefix, struct clause *c)
{
	if (!is_map(l, at, map, NULL, false))
		return;
	for (size_t i = 0; i < map->n; i++) {
		const struct ynode *k = map->key[i], *v = map->item[i];
		struct at here = { at, k->kind == YNODE_SCALAR ? k->text : "?", 0 };
		const char *key;
		struct keyed_matcher *m;

		if (k->kind != YNODE_SCALAR)
			continue;
		key = *prefix ? policy_arena_printf(l->a, "%s.%s", prefix, k->text) : k->text;
		if (!key)
			return;
		if (v->kind == YNODE_MAP && !is_matcher_map(v)) {
			load_params(l, &here, v, key, c);
			continue;
		}
		m = policy_arena_push(l->a, &c->params, &c->n_params, sizeof(*m));
		if (!m)
			return;
		m->key = key;
		if (!strcmp(key, "name"))
			c->has_name_param = true;
		load_matcher(l, &here, v, &m->m);
	}
}

static void load_query(struct loader *l, const struct at *at, const struct ynode *n, struct clause *c)
{
	c->has_query = true;
	if (!is_map(l, at, n, NULL, false))
		return;
	c->query = policy_arena_array(l->a, n->n, sizeof(*c->query));
	for (size_t i = 0; c->query && i < n->n; i++) {
		struct at here = { at, n->key[i]->kind == YNODE_SCALAR ? n->key[i]->text : "?", 0 };

		c->query[i].key = n->key[i]->kind == YNODE_SCALAR ? n->key[i]->text : "";
		load_matcher(l, &here, n->item[i], &c->query[i].m);
	}
	c->n_query = c->query ? n->n : 0;
}

static void set_path(struct loader *l, struct clause *c, const char *path)
{
	c->has_path = true;
	policy_path_glob(l->a, path, &c->path);
}

static void set_method(struct loader *l, struct clause *c, const char *method)
{
	c->has_method = true;
	c->method = method;
	policy_value_glob(l->a, method, &c->method_glob);
}

static void load_clause(struct loader *l, const struct at *at, const struct ynode *n, struct clause *c)
{
	static const char *const keys[] = { "method",	     "path",	       "command",
					    "query",	     "operation_type", "operation_name",
					    "fields",	     "tool",	       "params",
					    NULL };
	const struct ynode *q, *tool, *params, *at_path;
	const char *s = NULL;

	c->line = n->line;
	c->column = n->column;
	c->method = c->command = c->op_type = c->op_name_text = "";
	if (!is_map(l, at, n, keys, false))
		return;
	if (get_string(l, at, n, "method", &s) && *s) {
		set_method(l, c, s);
		c->method_given = true;
	}
	s = NULL;
	at_path = get_string(l, at, n, "path", &s);
	if (at_path && *s) {
		struct at here = { at, "path", 0 };

		set_path(l, c, s);
		glob_bad(l, &here, at_path, &c->path.g);
	}
	if (get_string(l, at, n, "command", &c->command))
		c->has_command = *c->command != '\0';
	if (get_string(l, at, n, "operation_type", &c->op_type))
		c->has_type = *c->op_type != '\0';
	if (get_string(l, at, n, "operation_name", &c->op_name_text) && *c->op_name_text) {
		c->has_op_name = true;
		policy_value_glob(l->a, c->op_name_text, &c->op_name);
	}
	q = policy_yaml_get(n, "fields");
	if (q) {
		struct at here = { at, "fields", 0 };
		size_t count;
		const char **f = get_strings(l, at, n, "fields", &count);

		c->has_fields = true;
		c->fields = policy_arena_array(l->a, count, sizeof(*c->fields));
		for (size_t i = 0; c->fields && i < count; i++) {
			struct at item = { &here, NULL, i };

			policy_value_glob(l->a, f[i], &c->fields[i]);
			if (!*f[i] && !l->evaluate)
				note(l, false, &item, q, "a field name or pattern", "an empty string");
			glob_bad(l, &item, q, &c->fields[i].g);
		}
		c->n_fields = c->fields ? count : 0;
		if (!count && !l->evaluate)
			note(l, false, &here, q, "a list of at least one name", "nothing in it");
	}
	q = policy_yaml_get(n, "query");
	if (q && (l->strict || !is_null(q))) {
		struct at here = { at, "query", 0 };

		load_query(l, &here, q, c);
	}
	params = policy_yaml_get(n, "params");
	if (params && (l->strict || !is_null(params))) {
		struct at here = { at, "params", 0 };

		load_params(l, &here, params, "", c);
	}
	tool = policy_yaml_get(n, "tool");
	if (tool && (l->strict || !is_null(tool))) {
		struct at here = { at, "tool", 0 };

		c->has_tool = true;
		if (c->has_name_param) {
			if (!l->evaluate)
				note(l, false, &here, tool, "one of the two",
				     "tool and params.name say the same thing");
		} else {
			struct keyed_matcher *m =
				policy_arena_push(l->a, &c->params, &c->n_params, sizeof(*m));

			if (m) {
				m->key = "name";
				load_matcher(l, &here, tool, &m->m);
			}
			c->has_name_param = true;
		}
	}
	c->any_effective = c->has_method || c->has_path || c->has_command || c->has_type ||
			   c->has_op_name || c->has_fields || c->has_tool || c->has_name_param;
}

static void load_allow(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e)
{
	static const char *const keys[] = { "allow", NULL };

	e->allow = policy_arena_array(l->a, n->n, sizeof(*e->allow));
	e->n_allow = e->allow ? n->n : 0;
	for (size_t i = 0; i < e->n_allow; i++) {
		struct at item = { at, NULL, i }, here = { &item, "allow", 0 };
		const struct ynode *allow;
		struct clause *c = &e->allow[i];

		c->method = c->command = c->op_type = c->op_name_text = "";
		c->line = n->item[i]->line;
		c->column = n->item[i]->column;
		if (!is_map(l, &item, n->item[i], keys, false))
			continue;
		allow = policy_yaml_get(n->item[i], "allow");
		if (!allow)
			note(l, false, &item, n->item[i], "allow: {method: ..., path: ...}",
			     "a rule without allow");
		else
			load_clause(l, &here, allow, c);
	}
}

static void load_deny(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e)
{
	e->deny = policy_arena_array(l->a, n->n, sizeof(*e->deny));
	e->n_deny = e->deny ? n->n : 0;
	for (size_t i = 0; i < e->n_deny; i++) {
		struct at item = { at, NULL, i };

		load_clause(l, &item, n->item[i], &e->deny[i]);
	}
}

/* ---- endpoints ---- */

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

	if (ports && !l->strict && is_null(ports))
		ports = NULL;
	if (port && (l->strict || !is_null(port)) && !as_int(l, &here_port, port, 1, PORTS_MAX, &v))
		port = NULL;
	if (ports && is_list(l, &here_ports, ports) && ports->n) {
		if (port && !l->strict && !l->evaluate)
			note(l, false, &here_ports, ports, "port or ports", "both port and ports");
		e->ports = policy_arena_array(l->a, ports->n, sizeof(*e->ports));
		for (size_t i = 0; e->ports && i < ports->n; i++) {
			struct at item = { &here_ports, NULL, i };

			if (as_int(l, &item, ports->item[i], 1, PORTS_MAX, &v))
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

	if (!is_map(l, &here, n, NULL, false))
		return;
	e->registry = policy_arena_array(l->a, n->n, sizeof(*e->registry));
	for (size_t i = 0; e->registry && i < n->n; i++) {
		struct registered *r = &e->registry[e->n_registry++];
		const struct ynode *k = n->key[i], *v = n->item[i];
		struct at item = { &here, k->kind == YNODE_SCALAR ? k->text : "?", 0 };
		const char *type = "", *name = NULL;

		r->key = k->kind == YNODE_SCALAR ? k->text : "";
		r->op.type = "";
		if (!is_map(l, &item, v, keys, false))
			continue;
		get_string(l, &item, v, "operation_type", &type);
		get_string(l, &item, v, "operation_name", &name);
		r->op.type = type;
		r->op.name = name;
		r->op.fields = get_strings(l, &item, v, "fields", &r->op.n_fields);
		if (!l->evaluate && !*type)
			note(l, false, &item, v, "operation_type: query, mutation or subscription",
			     "a registered query without operation_type");
		if (!l->evaluate && policy_yaml_get(v, "fields") && !r->op.n_fields)
			note(l, false, &item, v, "a list of at least one name", "fields is empty");
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
	if (s && (l->strict || !is_null(s))) {
		struct at here = { at, "json_rpc", 0 };

		e->has_jsonrpc = true;
		if (is_map(l, &here, s, rpc_keys, true))
			e->jsonrpc_limit_set = get_limit(l, &here, s, "max_body_bytes", &e->jsonrpc_limit);
	}
	s = policy_yaml_get(n, "mcp");
	if (s && (l->strict || !is_null(s))) {
		struct at here = { at, "mcp", 0 };

		e->has_mcp = true;
		e->jsonrpc_limit = DEFAULT_BODY_LIMIT; /* it beats json_rpc even without a limit */
		if (is_map(l, &here, s, mcp_keys, true)) {
			e->mcp_limit_set = get_limit(l, &here, s, "max_body_bytes", &e->jsonrpc_limit);
			e->strict_tools_set = get_bool(l, &here, s, "strict_tool_names", &e->strict_tools);
			e->allow_all_set =
				get_bool(l, &here, s, "allow_all_known_mcp_methods", &e->allow_all);
		}
	}
	e->graphql_limit_set = get_limit(l, at, n, "graphql_max_body_bytes", &e->graphql_limit);
	if (l->strict)
		return;
	/* the normalised spelling of the same things */
	if (policy_yaml_get(n, "mcp_allow_all_known_mcp_methods"))
		get_bool(l, at, n, "mcp_allow_all_known_mcp_methods", &e->allow_all);
	if (policy_yaml_get(n, "mcp_strict_tool_names"))
		get_bool(l, at, n, "mcp_strict_tool_names", &e->strict_tools);
	if (policy_yaml_get(n, "json_rpc_max_body_bytes"))
		get_limit(l, at, n, "json_rpc_max_body_bytes", &e->jsonrpc_limit);
	get_bool(l, at, n, "advisor_proposed", &e->advisor);
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
			set_method(l, c, *v);
			set_path(l, c, "**");
		}
	}
}

/* Under allow_all a clause without a method is about tools, or about everything. */
static void default_methods(struct loader *l, struct clause *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!c[i].has_method)
			set_method(l, &c[i], c[i].has_name_param ? "tools/call" : "*");
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
		set_method(l, c, "*");
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
			note(l, true, &here, v, "",
			     "accepted but not enforced: the workspace only ever holds placeholders, "
			     "real credentials are put in on the host");
	}
}

static void load_endpoint(struct loader *l, const struct at *at, const struct ynode *n,
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
	if (!is_map(l, at, n, keys, false))
		return;
	e->has_host = get_string(l, at, n, "host", &host) != NULL;
	policy_host_glob(l->a, host, &e->host);
	v = get_string(l, at, n, "path", &e->path);
	policy_path_glob(l->a, e->path, &e->path_glob);
	if (v) {
		struct at here = { at, "path", 0 };

		glob_bad(l, &here, v, &e->path_glob.g);
	}
	policy_selector_glob(l->a, e->path, &e->selector);
	load_ports(l, at, n, e);
	get_string(l, at, n, "protocol", &e->protocol_text);
	e->protocol_text = lowered(l->a, e->protocol_text);
	e->protocol = classify(e->protocol_text);
	v = get_string(l, at, n, "tls", &e->tls);
	e->tls_set = *e->tls || (v && l->evaluate);
	e->tls_skip = !strcasecmp(e->tls, "skip");
	get_string(l, at, n, "enforcement", &e->enforcement);
	e->enforce = !strcasecmp(e->enforcement, "enforce");
	get_string(l, at, n, "access", &e->access);
	e->allowed_ip_texts = get_strings(l, at, n, "allowed_ips", &e->n_allowed_ips);
	e->cidrs = policy_arena_array(l->a, e->n_allowed_ips, sizeof(*e->cidrs));
	for (size_t i = 0; e->cidrs && i < e->n_allowed_ips; i++)
		if (policy_cidr_parse(e->allowed_ip_texts[i], &e->cidrs[e->n_cidrs]) == 0)
			e->n_cidrs++;
	get_bool(l, at, n, "allow_encoded_slash", &e->allow_encoded_slash);
	get_bool(l, at, n, "websocket_credential_rewrite", &e->websocket_rewrite);
	get_bool(l, at, n, "request_body_credential_rewrite", &e->body_rewrite);
	get_bool(l, at, n, "allow_uninspected_credentials", &e->allow_uninspected);
	get_string(l, at, n, "persisted_queries", &e->persisted);
	v = policy_yaml_get(n, "graphql_persisted_queries");
	if (v && (l->strict || !is_null(v)))
		load_registry(l, at, v, e);
	get_string(l, at, n, "credential_signing", &e->signing);
	get_string(l, at, n, "signing_service", &e->signing_service);
	get_string(l, at, n, "signing_region", &e->signing_region);
	v = policy_yaml_get(n, "credential_binding");
	if (v && (l->strict || !is_null(v))) {
		struct at here = { at, "credential_binding", 0 };

		if (is_map(l, &here, v, binding_keys, false))
			get_string(l, &here, v, "provider", &e->binding_provider);
	}
	load_stanzas(l, at, n, e);
	v = policy_yaml_get(n, "rules");
	if (v) {
		struct at here = { at, "rules", 0 };

		e->has_rules = l->strict || !is_null(v);
		if (is_list(l, &here, v))
			load_allow(l, &here, v, e);
	}
	v = policy_yaml_get(n, "deny_rules");
	if (v) {
		struct at here = { at, "deny_rules", 0 };

		e->has_deny_rules = l->strict || !is_null(v);
		if (is_list(l, &here, v))
			load_deny(l, &here, v, e);
	}
	if (!l->evaluate)
		unenforced(l, at, n);
	finish_endpoint(l, e);
}

/* ---- rules ---- */

static void load_programs(struct loader *l, const struct at *at, const struct ynode *n, struct rule *r)
{
	static const char *const keys[] = { "path", "harness", NULL };

	r->programs = policy_arena_array(l->a, n->n, sizeof(*r->programs));
	for (size_t i = 0; r->programs && i < n->n; i++) {
		struct program *b = &r->programs[r->n_programs++];
		struct at item = { at, NULL, i };
		const struct ynode *path;
		const char *text = "";
		bool harness = false;

		b->line = n->item[i]->line;
		policy_program_glob(l->a, "", &b->path);
		if (!is_map(l, &item, n->item[i], keys, false))
			continue;
		path = get_string(l, &item, n->item[i], "path", &text);
		if (!path && !l->evaluate)
			note(l, false, &item, n->item[i], "path: /absolute/program",
			     "a program without path");
		policy_program_glob(l->a, text, &b->path);
		if (path) {
			struct at here = { &item, "path", 0 };

			glob_bad(l, &here, path, &b->path.g);
		}
		if (get_bool(l, &item, n->item[i], "harness", &harness))
			note(l, true, &item, n->item[i], "", "harness is deprecated and has no effect");
		if (!l->strict)
			get_bool(l, &item, n->item[i], "advisor_proposed", &b->advisor);
	}
}

static void load_rule(struct loader *l, const struct at *at, const struct ynode *key,
		      const struct ynode *n, struct rule *r)
{
	static const char *const keys[] = { "name", "endpoints", "binaries", NULL };
	const struct ynode *v;

	r->key = key->kind == YNODE_SCALAR ? key->text : "";
	r->name = r->key;
	r->line = key->line;
	r->column = key->column;
	if (!is_map(l, at, n, keys, false))
		return;
	get_string(l, at, n, "name", &r->name);
	if (!*r->name)
		r->name = r->key;
	v = policy_yaml_get(n, "endpoints");
	if (v) {
		struct at here = { at, "endpoints", 0 };

		if (is_list(l, &here, v)) {
			r->endpoints = policy_arena_array(l->a, v->n, sizeof(*r->endpoints));
			r->n_endpoints = r->endpoints ? v->n : 0;
		}
		for (size_t i = 0; i < r->n_endpoints; i++) {
			struct at item = { &here, NULL, i };

			r->endpoints[i].rule = r;
			r->endpoints[i].index = i;
			load_endpoint(l, &item, v->item[i], &r->endpoints[i]);
		}
	}
	v = policy_yaml_get(n, "binaries");
	if (v) {
		struct at here = { at, "binaries", 0 };

		if (is_list(l, &here, v))
			load_programs(l, &here, v, r);
	}
	if (!r->n_programs && r->n_endpoints && !l->evaluate)
		note(l, true, at, key, "binaries: [{path: /usr/bin/program}]",
		     "a rule without binaries never allows anything");
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct rule *)a)->key, ((const struct rule *)b)->key);
}

static void load_network(struct loader *l, const struct at *at, const struct ynode *n)
{
	struct policy *p = l->p;

	if (is_null(n))
		return;
	if (!is_map(l, at, n, NULL, false))
		return;
	p->has_network = true;
	p->rules = policy_arena_array(l->a, n->n, sizeof(*p->rules));
	p->n_rules = p->rules ? n->n : 0;
	for (size_t i = 0; i < p->n_rules; i++) {
		struct at here = { at, n->key[i]->kind == YNODE_SCALAR ? n->key[i]->text : "?", 0 };

		load_rule(l, &here, n->key[i], n->item[i], &p->rules[i]);
	}
	if (p->n_rules)
		qsort(p->rules, p->n_rules, sizeof(*p->rules), by_key);
	for (size_t i = 0; i < p->n_rules; i++) { /* they moved */
		p->rules[i].rank = i;
		for (size_t k = 0; k < p->rules[i].n_endpoints; k++)
			p->rules[i].endpoints[k].rule = &p->rules[i];
	}
}

/* ---- the static sections ---- */

static void load_static(struct loader *l, const struct ynode *root)
{
	static const char *const fs_keys[] = { "include_workdir", "read_only", "read_write", NULL };
	static const char *const landlock_keys[] = { "compatibility", NULL };
	static const char *const process_keys[] = { "run_as_user", "run_as_group", NULL };
	struct policy *p = l->p;
	const struct ynode *n;
	struct at here = { NULL, "filesystem_policy", 0 };

	p->st.include_workdir = true;
	p->landlock_text = "";
	n = policy_yaml_get(root, "filesystem_policy");
	if (n && !is_null(n)) {
		p->fs_line = n->line;
		if (l->strict)
			p->st.include_workdir = false;
		p->st.has_filesystem = true;
		if (is_map(l, &here, n, fs_keys, false)) {
			get_bool(l, &here, n, "include_workdir", &p->st.include_workdir);
			p->st.read_only = get_strings(l, &here, n, "read_only", &p->st.n_read_only);
			p->st.read_write = get_strings(l, &here, n, "read_write", &p->st.n_read_write);
		}
	}
	here.key = "landlock";
	n = policy_yaml_get(root, "landlock");
	if (n && !is_null(n)) {
		p->landlock_line = n->line;
		p->st.has_landlock = true;
		if (is_map(l, &here, n, landlock_keys, false)) {
			get_string(l, &here, n, "compatibility", &p->landlock_text);
			p->st.hard_requirement = !strcmp(p->landlock_text, "hard_requirement");
			if (*p->landlock_text && !p->st.hard_requirement &&
			    strcmp(p->landlock_text, "best_effort") && !l->evaluate)
				note(l, true, &here, n, "best_effort or hard_requirement",
				     "\"%s\" behaves as best_effort", p->landlock_text);
		}
	}
	here.key = "process";
	n = policy_yaml_get(root, "process");
	if (n && !is_null(n)) {
		p->process_line = n->line;
		p->st.has_process = true;
		if (is_map(l, &here, n, process_keys, false)) {
			get_string(l, &here, n, "run_as_user", &p->st.run_as_user);
			get_string(l, &here, n, "run_as_group", &p->st.run_as_group);
		}
	}
}

static void load_middlewares(struct loader *l, const struct ynode *n)
{
	static const char *const keys[] = { "name", "middleware", "order", "config", "on_error",
					    "endpoints", NULL };
	static const char *const selector_keys[] = { "include", "exclude", NULL };
	struct at here = { NULL, "network_middlewares", 0 };
	struct policy *p = l->p;

	if (is_null(n) || !is_map(l, &here, n, NULL, false))
		return;
	p->middlewares = policy_arena_array(l->a, n->n, sizeof(*p->middlewares));
	p->n_middlewares = p->middlewares ? n->n : 0;
	for (size_t i = 0; i < p->n_middlewares; i++) {
		struct middleware *m = &p->middlewares[i];
		const struct ynode *k = n->key[i], *v = n->item[i], *e, *order;
		struct at item = { &here, k->kind == YNODE_SCALAR ? k->text : "?", 0 };
		struct at sel = { &item, "endpoints", 0 }, ord = { &item, "order", 0 };

		m->key = k->kind == YNODE_SCALAR ? k->text : "";
		m->line = k->line;
		m->column = k->column;
		m->name = m->middleware = m->on_error = "";
		if (!is_map(l, &item, v, keys, true))
			continue;
		get_string(l, &item, v, "name", &m->name);
		get_string(l, &item, v, "middleware", &m->middleware);
		get_string(l, &item, v, "on_error", &m->on_error);
		order = policy_yaml_get(v, "order");
		if (order)
			as_int(l, &ord, order, INT32_MIN, INT32_MAX, &m->order);
		e = policy_yaml_get(v, "endpoints");
		if (e && is_map(l, &sel, e, selector_keys, true)) {
			m->include = get_strings(l, &sel, e, "include", &m->n_include);
			m->exclude = get_strings(l, &sel, e, "exclude", &m->n_exclude);
		}
		if (!l->evaluate)
			note(l, true, &item, k, "",
			     "network_middlewares are accepted but not enforced: no middleware runs");
	}
}

int policy_load(struct policy *p, struct policy_diags *d)
{
	static const char *const keys[] = { "version",	       "filesystem_policy",   "landlock", "process",
					    "network_policies", "network_middlewares", NULL };
	struct loader l = { .p = p,
			    .a = p->arena,
			    .d = d,
			    .strict = p->mode == POLICY_STRICT,
			    .evaluate = p->mode == POLICY_EVALUATE };
	struct ynode *root = p->tree;
	struct at version = { NULL, "version", 0 }, network = { NULL, "network_policies", 0 };
	const struct ynode *n;

	if (!is_map(&l, NULL, root, keys, false))
		return -1;
	p->version = POLICY_VERSION;
	n = policy_yaml_get(root, "version");
	if (!n) {
		if (l.strict)
			note(&l, false, &version, root, "version: 1", "version is missing");
	} else if (as_int(&l, &version, n, 0, UINT32_MAX, &p->version) && l.strict &&
		   p->version != POLICY_VERSION) {
		note(&l, false, &version, n, "1",
		     p->version > POLICY_VERSION ?
			     "version %lld is newer than this engine understands" :
			     "version %lld does not exist",
		     (long long)p->version);
	}
	load_static(&l, root);
	n = policy_yaml_get(root, "network_policies");
	if (n)
		load_network(&l, &network, n);
	n = policy_yaml_get(root, "network_middlewares");
	if (n)
		load_middlewares(&l, n);
	if (l.evaluate) {
		const struct ynode *runtime = policy_yaml_get(root, "runtime");
		const struct ynode *v = policy_yaml_get(runtime, "require_binary_identity");

		p->no_identity = v && v->kind == YNODE_SCALAR && !strcmp(v->text, "false");
	}
	return policy_arena_failed(p->arena) ? -1 : 0;
}
