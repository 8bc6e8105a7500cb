/* SPDX-License-Identifier: GPL-2.0-or-later */
/* load_get.c - typed values out of a document's tree; what is not one is an error with its place. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/load_parts.h"

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

void policy_load_note(struct loader *l, bool warning, const struct at *at, const struct ynode *n,
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
bool policy_load_is_null(const struct ynode *n)
{
	return n->kind == YNODE_SCALAR && policy_yaml_type(n) == YSCALAR_NULL;
}

/* Reports keys that are there twice, merge keys, and, where they matter, unknown ones. */
static void check_keys(struct loader *l, const struct at *at, const struct ynode *map,
		       const char *const *known, bool always)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct ynode *k = map->key[i];
		struct at here = { at, k->kind == YNODE_SCALAR ? k->text : "?", 0 };
		const char *const *name = known;

		if (k->kind != YNODE_SCALAR) {
			policy_load_note(l, false, at, k, "a string", "a key is %s", kind_name(k));
			continue;
		}
		if (k->plain && !strcmp(k->text, "<<")) {
			policy_load_note(l, false, &here, k, "the keys written out", "merge keys are not allowed");
			continue;
		}
		while (name && *name && strcmp(*name, k->text))
			name++;
		if (known && !*name && (l->strict || always)) {
			char list[512] = "one of ";

			for (name = known; *name; name++)
				snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
					 name == known ? "" : ", ", *name);
			policy_load_note(l, false, &here, k, list, "unknown key");
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
		policy_load_note(l, false, at, map, "", "out of memory");
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

				policy_load_note(l, false, &here, k, "each key once",
				     "this key was already given at line %u", map->key[slot - 1]->line);
				break;
			}
		}
	}
	free(table);
}

bool policy_load_is_map(struct loader *l, const struct at *at, const struct ynode *n,
			const char *const *known, bool always)
{
	if (n->kind != YNODE_MAP) {
		policy_load_note(l, false, at, n, "a map", "this is %s", kind_name(n));
		return false;
	}
	check_duplicates(l, at, n);
	check_keys(l, at, n, known, always);
	return true;
}

bool policy_load_is_list(struct loader *l, const struct at *at, const struct ynode *n)
{
	if (n->kind == YNODE_LIST)
		return true;
	if (!policy_load_is_null(n))
		policy_load_note(l, false, at, n, "a list", "this is %s", kind_name(n));
	return false;
}

const char *policy_load_as_string(struct loader *l, const struct at *at, const struct ynode *n)
{
	if (n->kind != YNODE_SCALAR || (policy_yaml_type(n) != YSCALAR_STRING &&
					(l->strict || policy_yaml_type(n) == YSCALAR_NULL))) {
		policy_load_note(l, false, at, n, n->kind == YNODE_SCALAR ? "a string (quote it)" : "a string",
		     "this is %s", kind_name(n));
		return "";
	}
	return n->text;
}

const struct ynode *policy_load_get_string(struct loader *l, const struct at *at, const struct ynode *map,
					   const char *key, const char **out)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };

	if (!n || (!l->strict && policy_load_is_null(n)))
		return NULL;
	*out = policy_load_as_string(l, &here, n);
	return n;
}

const struct ynode *policy_load_get_bool(struct loader *l, const struct at *at, const struct ynode *map,
					 const char *key, bool *out)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };

	if (!n || (!l->strict && policy_load_is_null(n)))
		return NULL;
	if (n->kind != YNODE_SCALAR || policy_yaml_type(n) != YSCALAR_BOOL)
		policy_load_note(l, false, &here, n, "true or false", "this is %s", kind_name(n));
	else
		*out = n->text[0] == 't' || n->text[0] == 'T';
	return n;
}

bool policy_load_as_int(struct loader *l, const struct at *at, const struct ynode *n, int64_t min,
			int64_t max, int64_t *out)
{
	char range[64];
	int64_t v;

	snprintf(range, sizeof(range), "an integer from %lld to %lld", (long long)min, (long long)max);
	if (n->kind != YNODE_SCALAR || policy_yaml_type(n) != YSCALAR_INT) {
		policy_load_note(l, false, at, n, range, "this is %s", kind_name(n));
		return false;
	}
	if (policy_yaml_int(n, &v) < 0 || v < min || v > max) {
		policy_load_note(l, false, at, n, range, "%s is out of range", n->text);
		return false;
	}
	*out = v;
	return true;
}

/* A body limit: 0 means the default where it is not explicitly forbidden. */
bool policy_load_get_limit(struct loader *l, const struct at *at, const struct ynode *map, const char *key,
			   uint32_t *out)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };
	int64_t v;

	if (!n || (!l->strict && policy_load_is_null(n)))
		return false;
	if (policy_load_as_int(l, &here, n, l->evaluate ? 0 : 1, UINT32_MAX, &v))
		*out = v ? (uint32_t)v : DEFAULT_BODY_LIMIT;
	return true;
}

const char **policy_load_get_strings(struct loader *l, const struct at *at, const struct ynode *map,
				     const char *key, size_t *count)
{
	const struct ynode *n = policy_yaml_get(map, key);
	struct at here = { at, key, 0 };
	const char **v;

	*count = 0;
	if (!n || !policy_load_is_list(l, &here, n))
		return NULL;
	v = policy_arena_array(l->a, n->n, sizeof(*v));
	for (size_t i = 0; v && i < n->n; i++) {
		struct at item = { &here, NULL, i };

		v[i] = policy_load_as_string(l, &item, n->item[i]);
	}
	*count = v ? n->n : 0;
	return v;
}

const char *policy_load_lowered(struct arena *a, const char *s)
{
	char *p = policy_arena_strdup(a, s);

	for (char *c = p; c && *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + 32);
	return p ? p : "";
}
