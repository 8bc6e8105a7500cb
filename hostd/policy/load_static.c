/* SPDX-License-Identifier: GPL-2.0-or-later */
/* load_static.c - the sections that the guest applies at its start, and the middlewares. */
#include <string.h>

#include "hostd/policy/load_parts.h"

void policy_load_static(struct loader *l, const struct ynode *root)
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
	if (n && !policy_load_is_null(n)) {
		p->fs_line = n->line;
		if (l->strict)
			p->st.include_workdir = false;
		p->st.has_filesystem = true;
		if (policy_load_is_map(l, &here, n, fs_keys, false)) {
			policy_load_get_bool(l, &here, n, "include_workdir", &p->st.include_workdir);
			p->st.read_only = policy_load_get_strings(l, &here, n, "read_only", &p->st.n_read_only);
			p->st.read_write = policy_load_get_strings(l, &here, n, "read_write", &p->st.n_read_write);
		}
	}
	here.key = "landlock";
	n = policy_yaml_get(root, "landlock");
	if (n && !policy_load_is_null(n)) {
		p->landlock_line = n->line;
		p->st.has_landlock = true;
		if (policy_load_is_map(l, &here, n, landlock_keys, false)) {
			policy_load_get_string(l, &here, n, "compatibility", &p->landlock_text);
			p->st.hard_requirement = !strcmp(p->landlock_text, "hard_requirement");
			if (*p->landlock_text && !p->st.hard_requirement &&
			    strcmp(p->landlock_text, "best_effort") && !l->evaluate)
				policy_load_note(l, true, &here, n, "best_effort or hard_requirement",
				     "\"%s\" behaves as best_effort", p->landlock_text);
		}
	}
	here.key = "process";
	n = policy_yaml_get(root, "process");
	if (n && !policy_load_is_null(n)) {
		p->process_line = n->line;
		p->st.has_process = true;
		if (policy_load_is_map(l, &here, n, process_keys, false)) {
			policy_load_get_string(l, &here, n, "run_as_user", &p->st.run_as_user);
			policy_load_get_string(l, &here, n, "run_as_group", &p->st.run_as_group);
		}
	}
}

void policy_load_middlewares(struct loader *l, const struct ynode *n)
{
	static const char *const keys[] = { "name", "middleware", "order", "config", "on_error",
					    "endpoints", NULL };
	static const char *const selector_keys[] = { "include", "exclude", NULL };
	struct at here = { NULL, "network_middlewares", 0 };
	struct policy *p = l->p;

	if (policy_load_is_null(n) || !policy_load_is_map(l, &here, n, NULL, false))
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
		if (!policy_load_is_map(l, &item, v, keys, true))
			continue;
		policy_load_get_string(l, &item, v, "name", &m->name);
		policy_load_get_string(l, &item, v, "middleware", &m->middleware);
		policy_load_get_string(l, &item, v, "on_error", &m->on_error);
		order = policy_yaml_get(v, "order");
		if (order)
			policy_load_as_int(l, &ord, order, INT32_MIN, INT32_MAX, &m->order);
		e = policy_yaml_get(v, "endpoints");
		if (e && policy_load_is_map(l, &sel, e, selector_keys, true)) {
			m->include = policy_load_get_strings(l, &sel, e, "include", &m->n_include);
			m->exclude = policy_load_get_strings(l, &sel, e, "exclude", &m->n_exclude);
		}
		if (!l->evaluate)
			policy_load_note(l, true, &item, k, "",
			     "network_middlewares are accepted but not enforced: no middleware runs");
	}
}
