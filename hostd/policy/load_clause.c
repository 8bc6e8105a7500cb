/* SPDX-License-Identifier: GPL-2.0-or-later */
/* load_clause.c - allow and deny clauses: matchers, parameters, methods, paths, GraphQL. */
#include <string.h>

#include "hostd/policy/load_parts.h"

void policy_load_glob_bad(struct loader *l, const struct at *at, const struct ynode *n,
			  const struct glob_base *g)
{
	if (g->bad && !l->evaluate)
		policy_load_note(l, false, at, n, "a valid pattern", "\"%s\": %s", g->text, g->bad);
}

/* Both forms at once, which only the evaluation knows: either may match. */
static void load_either(struct loader *l, const struct at *at, const struct ynode *glob,
			const struct ynode *any, struct matcher *m)
{
	size_t n = any->kind == YNODE_LIST ? any->n : 0;
	const char *text = policy_load_as_string(l, at, glob);

	m->any = policy_arena_array(l->a, n + 1, sizeof(*m->any));
	for (size_t i = 0; m->any && i < n; i++)
		policy_value_glob(l->a, policy_load_as_string(l, at, any->item[i]), &m->any[m->n++]);
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
		policy_value_glob(l->a, policy_load_as_string(l, at, n), m->any);
		policy_load_glob_bad(l, at, n, &m->any->g);
		return;
	}
	if (!policy_load_is_map(l, at, n, l->strict ? strict_keys : lenient_keys, true))
		return;
	any = policy_yaml_get(n, "any");
	glob = l->strict ? NULL : policy_yaml_get(n, "glob");
	if (any && glob && l->evaluate) {
		load_either(l, at, glob, any, m);
		return;
	}
	if (!any == !glob) {
		policy_load_note(l, false, at, n, "a pattern, or {any: [patterns]}",
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
	if (!policy_load_is_list(l, &here, any) || any->n == 0) {
		if (!l->evaluate)
			policy_load_note(l, false, &here, any, "a list of at least one pattern", "nothing in it");
		return;
	}
	m->any = policy_arena_array(l->a, any->n, sizeof(*m->any));
	for (size_t i = 0; m->any && i < any->n; i++) {
		struct at item = { &here, NULL, i };

		policy_value_glob(l->a, policy_load_as_string(l, &item, any->item[i]), &m->any[i]);
		policy_load_glob_bad(l, &item, any->item[i], &m->any[i].g);
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
	if (!policy_load_is_map(l, at, map, NULL, false))
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
	if (!policy_load_is_map(l, at, n, NULL, false))
		return;
	c->query = policy_arena_array(l->a, n->n, sizeof(*c->query));
	for (size_t i = 0; c->query && i < n->n; i++) {
		struct at here = { at, n->key[i]->kind == YNODE_SCALAR ? n->key[i]->text : "?", 0 };

		c->query[i].key = n->key[i]->kind == YNODE_SCALAR ? n->key[i]->text : "";
		load_matcher(l, &here, n->item[i], &c->query[i].m);
	}
	c->n_query = c->query ? n->n : 0;
}

void policy_load_set_path(struct loader *l, struct clause *c, const char *path)
{
	c->has_path = true;
	policy_path_glob(l->a, path, &c->path);
}

void policy_load_set_method(struct loader *l, struct clause *c, const char *method)
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
	if (!policy_load_is_map(l, at, n, keys, false))
		return;
	if (policy_load_get_string(l, at, n, "method", &s) && *s) {
		policy_load_set_method(l, c, s);
		c->method_given = true;
	}
	s = NULL;
	at_path = policy_load_get_string(l, at, n, "path", &s);
	if (at_path && *s) {
		struct at here = { at, "path", 0 };

		policy_load_set_path(l, c, s);
		policy_load_glob_bad(l, &here, at_path, &c->path.g);
	}
	if (policy_load_get_string(l, at, n, "command", &c->command))
		c->has_command = *c->command != '\0';
	if (policy_load_get_string(l, at, n, "operation_type", &c->op_type))
		c->has_type = *c->op_type != '\0';
	if (policy_load_get_string(l, at, n, "operation_name", &c->op_name_text) && *c->op_name_text) {
		c->has_op_name = true;
		policy_value_glob(l->a, c->op_name_text, &c->op_name);
	}
	q = policy_yaml_get(n, "fields");
	if (q) {
		struct at here = { at, "fields", 0 };
		size_t count;
		const char **f = policy_load_get_strings(l, at, n, "fields", &count);

		c->has_fields = true;
		c->fields = policy_arena_array(l->a, count, sizeof(*c->fields));
		for (size_t i = 0; c->fields && i < count; i++) {
			struct at item = { &here, NULL, i };

			policy_value_glob(l->a, f[i], &c->fields[i]);
			if (!*f[i] && !l->evaluate)
				policy_load_note(l, false, &item, q, "a field name or pattern", "an empty string");
			policy_load_glob_bad(l, &item, q, &c->fields[i].g);
		}
		c->n_fields = c->fields ? count : 0;
		if (!count && !l->evaluate)
			policy_load_note(l, false, &here, q, "a list of at least one name", "nothing in it");
	}
	q = policy_yaml_get(n, "query");
	if (q && (l->strict || !policy_load_is_null(q))) {
		struct at here = { at, "query", 0 };

		load_query(l, &here, q, c);
	}
	params = policy_yaml_get(n, "params");
	if (params && (l->strict || !policy_load_is_null(params))) {
		struct at here = { at, "params", 0 };

		load_params(l, &here, params, "", c);
	}
	tool = policy_yaml_get(n, "tool");
	if (tool && (l->strict || !policy_load_is_null(tool))) {
		struct at here = { at, "tool", 0 };

		c->has_tool = true;
		if (c->has_name_param) {
			if (!l->evaluate)
				policy_load_note(l, false, &here, tool, "one of the two",
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

void policy_load_allow(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e)
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
		if (!policy_load_is_map(l, &item, n->item[i], keys, false))
			continue;
		allow = policy_yaml_get(n->item[i], "allow");
		if (!allow)
			policy_load_note(l, false, &item, n->item[i], "allow: {method: ..., path: ...}",
			     "a rule without allow");
		else
			load_clause(l, &here, allow, c);
	}
}

void policy_load_deny(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e)
{
	e->deny = policy_arena_array(l->a, n->n, sizeof(*e->deny));
	e->n_deny = e->deny ? n->n : 0;
	for (size_t i = 0; i < e->n_deny; i++) {
		struct at item = { at, NULL, i };

		load_clause(l, &item, n->item[i], &e->deny[i]);
	}
}
