/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cells.h - which combinations of patterns a single string can match.
 *
 * The product automaton of all patterns of one dimension (hosts, paths ...) is explored once; every
 * reachable combination of "matches, does not match" is a cell, with the shortest string that lies in it.
 * Reasoning about the cells is then reasoning about all strings.
 */
#ifndef HOLDFAST_POLICY_CELLS_H
#define HOLDFAST_POLICY_CELLS_H

#include "hostd/policy/automaton.h"

/* The strings that can occur at all, as a small deterministic automaton. */
struct domain {
	int (*step)(int state, uint8_t byte); /* -1 = no such string; starts at 0 */
	bool (*accepts)(int state);
	uint8_t (*kind)(uint8_t byte); /* bytes of one kind are treated alike by step */
};

extern const struct domain domain_host, domain_program, domain_path, domain_value, domain_text, domain_word,
	domain_tool;

struct cells {
	size_t patterns, n;
	uint64_t *match; /* n rows of (patterns + 63) / 64 words */
	const char **witness;
};

#define CELLS_STATES_MAX 60000

/* All patterns must be fed alike.  0; -1 out of memory; -2 more states than CELLS_STATES_MAX. */
int policy_cells(struct arena *a, const struct automaton *const *patterns, size_t n,
		 const struct domain *domain, struct cells *out);

static inline bool policy_cell_matches(const struct cells *c, size_t cell, size_t pattern)
{
	return c->match[cell * ((c->patterns + 63) / 64) + pattern / 64] >> (pattern % 64) & 1;
}

#endif
