/* SPDX-License-Identifier: GPL-2.0-or-later */
/* load_parts.h - what the files that read a policy's tree share. Nobody else includes it. */
#ifndef HOLDFAST_POLICY_LOAD_PARTS_H
#define HOLDFAST_POLICY_LOAD_PARTS_H

#include "hostd/policy/model.h"

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

/* ---- load_get.c ---- */

void policy_load_note(struct loader *l, bool warning, const struct at *at, const struct ynode *n,
		      const char *expected, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* A key without a value, as in "rules:" at a line's end. */
bool policy_load_is_null(const struct ynode *n);
bool policy_load_is_map(struct loader *l, const struct at *at, const struct ynode *n,
			const char *const *known, bool always);
bool policy_load_is_list(struct loader *l, const struct at *at, const struct ynode *n);
const char *policy_load_as_string(struct loader *l, const struct at *at, const struct ynode *n);
const struct ynode *policy_load_get_string(struct loader *l, const struct at *at, const struct ynode *map,
					   const char *key, const char **out);
const struct ynode *policy_load_get_bool(struct loader *l, const struct at *at, const struct ynode *map,
					 const char *key, bool *out);
bool policy_load_as_int(struct loader *l, const struct at *at, const struct ynode *n, int64_t min,
			int64_t max, int64_t *out);
/* A body limit: 0 means the default where it is not explicitly forbidden. */
bool policy_load_get_limit(struct loader *l, const struct at *at, const struct ynode *map, const char *key,
			   uint32_t *out);
const char **policy_load_get_strings(struct loader *l, const struct at *at, const struct ynode *map,
				     const char *key, size_t *count);
const char *policy_load_lowered(struct arena *a, const char *s);

/* ---- load_clause.c ---- */

void policy_load_glob_bad(struct loader *l, const struct at *at, const struct ynode *n,
			  const struct glob_base *g);
void policy_load_set_path(struct loader *l, struct clause *c, const char *path);
void policy_load_set_method(struct loader *l, struct clause *c, const char *method);
void policy_load_allow(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e);
void policy_load_deny(struct loader *l, const struct at *at, const struct ynode *n, struct endpoint *e);

/* ---- load_endpoint.c ---- */

void policy_load_endpoint(struct loader *l, const struct at *at, const struct ynode *n,
			       struct endpoint *e);

/* ---- load_static.c ---- */

void policy_load_static(struct loader *l, const struct ynode *root);
void policy_load_middlewares(struct loader *l, const struct ynode *n);

#endif
