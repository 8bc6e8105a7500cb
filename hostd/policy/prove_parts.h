/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove_parts.h - what the files of the network's prover share. Nobody else includes it. */
#ifndef HOLDFAST_POLICY_PROVE_PARTS_H
#define HOLDFAST_POLICY_PROVE_PARTS_H

#include <z3.h>

#include "hostd/policy/cells.h"
#include "hostd/policy/prove.h"

#define SLOTS_MAX 4 /* operations of one GraphQL batch */

/* ---- sets of patterns ---- */

struct patterns {
	const struct automaton **v;
	const char **text; /* identity: flavour letter and pattern */
	size_t n;
	struct cells cells;
	Z3_ast *in; /* one variable per cell */
};

enum flavour { FLAVOUR_GLOB = 'g', FLAVOUR_LITERAL = 'l', FLAVOUR_TREE = 't', FLAVOUR_PLAIN = 'p' };

struct prover {
	struct arena *a;
	const struct policy *side[2]; /* 0 boundary, 1 candidate */
	struct policy_proof *out;
	const char *unsupported;
	unsigned int unsupported_line;
};

/* ---- one problem: a host, a port, and the endpoints that matter there ---- */

struct side {
	const struct policy *p;
	const struct endpoint **e;
	size_t n;
	Z3_ast *cand;	 /* the program is right */
	Z3_ast *selects; /* and its path selects */
	Z3_ast *at_path; /* and its path matches as a glob */
};

struct key_values {
	const char *key;
	struct patterns values;
	Z3_ast absent; /* parameters only */
};

struct slot {
	Z3_ast used, type[3], *field, *name, *hash;
};

struct problem {
	struct prover *pr;
	Z3_context z;
	Z3_solver solver;
	const char *host;
	uint16_t port;
	bool literal;
	struct policy_addr literal_addr;
	struct side side[2];
	struct patterns programs, paths, rpc_methods, op_names, fields;
	struct key_values *query, *params;
	size_t n_query, n_params;
	const char **methods;
	size_t n_methods;
	Z3_ast *method;
	const char **hashes; /* keys of registries; the last one is in none */
	size_t n_hashes;
	struct slot slot[SLOTS_MAX];
	size_t n_slots;
	struct policy_addr *addrs; /* one per cell of the address space */
	size_t n_addrs;
	Z3_ast *addr;
	Z3_ast has_gql, has_rpc, is_response;
	int encoded; /* pattern of paths with an encoded slash */
	unsigned int serial;
};

/* What a model of the solver says, as a request. */
struct request_parts {
	struct policy_request r;
	struct wire wire;
	struct policy_addr addr;
	struct policy_gql gql;
	struct policy_rpc rpc;
};

static const char *const prove_op_types[3] = { "query", "mutation", "subscription" };

/* ---- Z3 in fewer words ---- */

static inline Z3_ast fresh(struct problem *w)
{
	Z3_sort b = Z3_mk_bool_sort(w->z);

	return Z3_mk_const(w->z, Z3_mk_int_symbol(w->z, (int)w->serial++), b);
}

static inline Z3_ast not_(struct problem *w, Z3_ast a)
{
	return Z3_mk_not(w->z, a);
}

static inline Z3_ast and_(struct problem *w, Z3_ast a, Z3_ast b)
{
	Z3_ast v[2] = { a, b };

	return Z3_mk_and(w->z, 2, v);
}

static inline Z3_ast or_(struct problem *w, Z3_ast a, Z3_ast b)
{
	Z3_ast v[2] = { a, b };

	return Z3_mk_or(w->z, 2, v);
}

static inline void demand(struct problem *w, Z3_ast a)
{
	Z3_solver_assert(w->z, w->solver, a);
}

/* ---- prove_terms.c ---- */

/* The index of a pattern, which is added if it is new; -1 out of memory. */
int prove_add_pattern(struct prover *p, struct patterns *s, enum flavour f, const char *text,
		      const struct automaton *given, enum automaton_feed feed, bool lower);
int prove_compute(struct prover *p, struct patterns *s, const struct domain *domain, const char *what);
Z3_ast *prove_variables(struct problem *w, size_t n);
Z3_ast prove_any_of(struct problem *w, const Z3_ast *v, size_t n);
void prove_exactly_one(struct problem *w, const Z3_ast *v, size_t n);
/* The chosen cell matches this pattern. */
Z3_ast prove_matches(struct problem *w, const struct patterns *s, const Z3_ast *in, int pattern);

/* ---- prove_gather.c ---- */

int prove_program_pattern(struct problem *w, const struct program_glob *g);
int prove_path_pattern(struct problem *w, const struct path_glob *g);
int prove_selector_pattern(struct problem *w, const struct selector_glob *g);
int prove_value_pattern(struct problem *w, struct patterns *s, const struct value_glob *g);
int prove_rpc_method_pattern(struct problem *w, const struct endpoint *e, const struct clause *c);
struct key_values *prove_key_of(struct problem *w, struct key_values **list, size_t *n, const char *key);
int prove_gather(struct problem *w);
/* The beginnings of all stretches on which no condition changes, one address each. */
int prove_gather_addrs(struct problem *w);
int prove_make_variables(struct problem *w);

/* ---- prove_formula.c ---- */

void prove_prepare_side(struct problem *w, struct side *s);
Z3_ast prove_connects(struct problem *w, const struct side *s);
bool prove_control_plane(uint16_t port);
Z3_ast prove_reaches(struct problem *w, const struct side *s);
Z3_ast prove_forwards(struct problem *w, const struct side *s);

/* ---- prove_model.c ---- */

int prove_read_model(struct problem *w, Z3_model m, struct request_parts *x);
/* Let through as a whole; @d is the decision that refuses, or the last one. */
bool prove_lets_through(const struct policy *p, const struct request_parts *x, struct policy_decision *d);

#endif
