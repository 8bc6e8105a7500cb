/* SPDX-License-Identifier: GPL-2.0-or-later */
/* parse.c - a document's way into a policy, and the policy's life. */
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/json.h"
#include "hostd/policy/model.h"
#include "lib/hash.h"
#include "lib/hex.h"

#define ARENA_MAX ((size_t)1 << 30)

static struct policy *policy_new(enum policy_mode mode)
{
	struct arena *a = policy_arena_new(ARENA_MAX);
	struct policy *p = a ? policy_arena_alloc(a, sizeof(*p)) : NULL;

	if (!p) {
		policy_arena_free(a);
		return NULL;
	}
	p->arena = a;
	p->mode = mode;
	atomic_init(&p->refs, 1);
	return p;
}

struct policy *policy_get(struct policy *p)
{
	if (p)
		atomic_fetch_add(&p->refs, 1);
	return p;
}

void policy_put(struct policy *p)
{
	if (p && atomic_fetch_sub(&p->refs, 1) == 1)
		policy_arena_free(p->arena);
}

/* Errors in the order of the document, warnings among them. */
static int by_position(const void *a, const void *b)
{
	const struct policy_diag *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return 0;
}

static struct policy *finish(struct policy *p, struct policy_diags *d, size_t errors)
{
	bool loaded = policy_load(p, d) == 0;

	if (loaded && p->mode != POLICY_EVALUATE) { /* whatever was wrong already: all errors in one run */
		policy_validate(p, d);
		if (p->mode == POLICY_STRICT)
			policy_check_ambiguity(p, d);
	}
	if (loaded && d->errors == errors && policy_index(p) < 0)
		loaded = false;
	if (policy_arena_failed(p->arena))
		policy_diag_add(d, false, 0, 0, "", "", "the document needs too much memory");
	/* Where what cannot be used is left out, a document that is none of it still ends with an error. */
	if (!loaded && d->errors == errors)
		policy_diag_add(d, false, 0, 0, "", "a policy", "this is no policy");
	if (d->n)
		qsort(d->v, d->n, sizeof(*d->v), by_position);
	if (!loaded || d->errors != errors) {
		policy_put(p);
		return NULL;
	}
	return p;
}

struct policy *policy_parse(const void *bytes, size_t len, enum policy_mode mode,
			    struct policy_diags *diags)
{
	struct policy *p = policy_new(mode);
	size_t errors = diags->errors;
	uint8_t digest[32];

	if (!p) {
		policy_diag_add(diags, false, 0, 0, "", "", "out of memory");
		return NULL;
	}
	p->tree = policy_yaml_parse(p->arena, bytes, len, mode == POLICY_EVALUATE, diags);
	if (!p->tree) {
		policy_put(p);
		return NULL;
	}
	p->source = policy_arena_strndup(p->arena, bytes, len);
	p->source_len = len;
	hash_sha256(digest, bytes, len);
	hex_encode(p->digest, digest, sizeof(digest));
	p->digest[64] = '\0';
	return finish(p, diags, errors);
}

struct policy *policy_parse_json(const json_t *json, enum policy_mode mode, struct policy_diags *diags)
{
	struct policy *p = policy_new(mode);
	size_t errors = diags->errors;

	if (!p)
		return NULL;
	p->normalised = true;
	p->tree = policy_yaml_from_json(p->arena, json);
	if (!p->tree) {
		policy_diag_add(diags, false, 0, 0, "", "", "the document is nested too deeply or too large");
		policy_put(p);
		return NULL;
	}
	p->source = "";
	return finish(p, diags, errors);
}

static int declared_found(void *u, const struct endpoint *e)
{
	(void)u;
	return !e->host.wild && *e->host.g.text;
}

static void bind_endpoint(struct arena *a, struct endpoint *e, const struct policy *boundary)
{
	e->public_only = policy_arena_array(a, e->n_ports, sizeof(*e->public_only));
	for (size_t k = 0; e->public_only && k < e->n_ports; k++)
		e->public_only[k] = policy_each_endpoint(boundary, e->host.g.text, e->ports[k], NULL, declared_found,
							 NULL) != 1;
}

struct policy *policy_bind(const struct policy *p, const struct policy *boundary)
{
	struct policy_diags d = { 0 };
	struct policy *q = policy_parse(p->source, p->source_len, p->mode, &d);

	policy_diags_free(&d);
	for (size_t i = 0; q && i < q->n_endpoints; i++)
		bind_endpoint(q->arena, q->endpoints[i], boundary);
	if (q && policy_arena_failed(q->arena)) {
		policy_put(q);
		return NULL;
	}
	return q;
}

const char *policy_program_pattern(const struct policy *p, size_t i)
{
	for (size_t r = 0; r < p->n_rules; r++) {
		if (i < p->rules[r].n_programs)
			return p->rules[r].programs[i].path.g.text;
		i -= p->rules[r].n_programs;
	}
	return NULL;
}

const char *policy_digest(const struct policy *p)
{
	return p->digest;
}

const char *policy_source(const struct policy *p, size_t *len)
{
	if (len)
		*len = p->source_len;
	return p->source;
}

const struct policy_static *policy_static_parts(const struct policy *p)
{
	return &p->st;
}
