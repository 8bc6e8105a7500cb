/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove_terms.c - sets of patterns, and the variables and terms that stand for them. */
#include <string.h>

#include "hostd/policy/prove_parts.h"

/* The index of a pattern, which is added if it is new; -1 out of memory. */
int prove_add_pattern(struct prover *p, struct patterns *s, enum flavour f, const char *text,
		      const struct automaton *given, enum automaton_feed feed, bool lower)
{
	const struct automaton **v;
	struct automaton *own;
	const char **t;
	char *id = policy_arena_printf(p->a, "%c%s", f, text);
	size_t n = s->n;

	if (!id)
		return -1;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->text[i], id))
			return (int)i;
	v = policy_arena_push(p->a, &s->v, &n, sizeof(*v));
	n = s->n;
	t = policy_arena_push(p->a, &s->text, &n, sizeof(*t));
	if (!v || !t)
		return -1;
	if (!given || !given->state) {
		own = policy_arena_alloc(p->a, sizeof(*own));
		if (!own || policy_automaton_literal(p->a, text, feed, lower, f == FLAVOUR_TREE, own) < 0)
			return -1;
		given = own;
	}
	*v = given;
	*t = id;
	s->n = n;
	return (int)s->n - 1;
}

int prove_compute(struct prover *p, struct patterns *s, const struct domain *domain, const char *what)
{
	int rc = policy_cells(p->a, s->v, s->n, domain, &s->cells);

	if (rc == -2)
		p->unsupported = policy_arena_printf(p->a, "too many different %s patterns at once", what);
	return rc;
}

Z3_ast *prove_variables(struct problem *w, size_t n)
{
	Z3_ast *v = policy_arena_array(w->pr->a, n ? n : 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = fresh(w);
	return v;
}

Z3_ast prove_any_of(struct problem *w, const Z3_ast *v, size_t n)
{
	return n ? Z3_mk_or(w->z, (unsigned int)n, v) : Z3_mk_false(w->z);
}

void prove_exactly_one(struct problem *w, const Z3_ast *v, size_t n)
{
	int *k = policy_arena_array(w->pr->a, n ? n : 1, sizeof(*k));

	if (!k || !n) {
		demand(w, Z3_mk_false(w->z));
		return;
	}
	for (size_t i = 0; i < n; i++)
		k[i] = 1;
	demand(w, Z3_mk_pbeq(w->z, (unsigned int)n, v, k, 1));
}

/* The chosen cell matches this pattern. */
Z3_ast prove_matches(struct problem *w, const struct patterns *s, const Z3_ast *in, int pattern)
{
	Z3_ast out = Z3_mk_false(w->z);

	for (size_t i = 0; i < s->cells.n; i++)
		if (policy_cell_matches(&s->cells, i, (size_t)pattern))
			out = or_(w, out, in[i]);
	return out;
}
