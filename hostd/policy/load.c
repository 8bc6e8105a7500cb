/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * load.c - from the document's tree to the policy: keys, types, defaults, and the format's own
 * rewritings (presets, tools, nested parameters).
 *
 * Every function goes on after an error, so that one run reports all of them; the values it then leaves
 * are harmless, and the policy is thrown away in the end.
 *
 * load_get.c has the typed getters, load_clause.c and load_endpoint.c what a rule is made of, load_static.c
 * the other sections; here are rules and the document.
 */
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/load_parts.h"

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
		if (!policy_load_is_map(l, &item, n->item[i], keys, false))
			continue;
		path = policy_load_get_string(l, &item, n->item[i], "path", &text);
		if (!path && !l->evaluate)
			policy_load_note(l, false, &item, n->item[i], "path: /absolute/program",
			     "a program without path");
		policy_program_glob(l->a, text, &b->path);
		if (path) {
			struct at here = { &item, "path", 0 };

			policy_load_glob_bad(l, &here, path, &b->path.g);
		}
		if (policy_load_get_bool(l, &item, n->item[i], "harness", &harness))
			policy_load_note(l, true, &item, n->item[i], "", "harness is deprecated and has no effect");
		if (!l->strict)
			policy_load_get_bool(l, &item, n->item[i], "advisor_proposed", &b->advisor);
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
	if (!policy_load_is_map(l, at, n, keys, false))
		return;
	policy_load_get_string(l, at, n, "name", &r->name);
	if (!*r->name)
		r->name = r->key;
	v = policy_yaml_get(n, "endpoints");
	if (v) {
		struct at here = { at, "endpoints", 0 };

		if (policy_load_is_list(l, &here, v)) {
			r->endpoints = policy_arena_array(l->a, v->n, sizeof(*r->endpoints));
			r->n_endpoints = r->endpoints ? v->n : 0;
		}
		for (size_t i = 0; i < r->n_endpoints; i++) {
			struct at item = { &here, NULL, i };

			r->endpoints[i].rule = r;
			r->endpoints[i].index = i;
			policy_load_endpoint(l, &item, v->item[i], &r->endpoints[i]);
		}
	}
	v = policy_yaml_get(n, "binaries");
	if (v) {
		struct at here = { at, "binaries", 0 };

		if (policy_load_is_list(l, &here, v))
			load_programs(l, &here, v, r);
	}
	if (!r->n_programs && r->n_endpoints && !l->evaluate)
		policy_load_note(l, true, at, key, "binaries: [{path: /usr/bin/program}]",
		     "a rule without binaries never allows anything");
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct rule *)a)->key, ((const struct rule *)b)->key);
}

static void load_network(struct loader *l, const struct at *at, const struct ynode *n)
{
	struct policy *p = l->p;

	if (policy_load_is_null(n))
		return;
	if (!policy_load_is_map(l, at, n, NULL, false))
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

	if (!policy_load_is_map(&l, NULL, root, keys, false))
		return -1;
	p->version = POLICY_VERSION;
	n = policy_yaml_get(root, "version");
	if (!n) {
		if (l.strict)
			policy_load_note(&l, false, &version, root, "version: 1", "version is missing");
	} else if (policy_load_as_int(&l, &version, n, 0, UINT32_MAX, &p->version) && l.strict &&
		   p->version != POLICY_VERSION) {
		policy_load_note(&l, false, &version, n, "1",
		     p->version > POLICY_VERSION ?
			     "version %lld is newer than this engine understands" :
			     "version %lld does not exist",
		     (long long)p->version);
	}
	policy_load_static(&l, root);
	n = policy_yaml_get(root, "network_policies");
	if (n)
		load_network(&l, &network, n);
	n = policy_yaml_get(root, "network_middlewares");
	if (n)
		policy_load_middlewares(&l, n);
	if (l.evaluate) {
		const struct ynode *runtime = policy_yaml_get(root, "runtime");
		const struct ynode *v = policy_yaml_get(runtime, "require_binary_identity");

		p->no_identity = v && v->kind == YNODE_SCALAR && !strcmp(v->text, "false");
	}
	return policy_arena_failed(p->arena) ? -1 : 0;
}
