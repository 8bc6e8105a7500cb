/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * automaton.h - glob patterns as finite automata.
 *
 * The grammar is that of globset 0.4 with literal separators, which the reference evaluator uses:
 * `?` one byte, `*` any bytes of a component, `**` as a whole component any components, `[a-z]` `[!a]`
 * classes, `{a,b}` one level of alternatives, `\` takes the next character literally.  Bytes, not
 * characters.  Matching simulates all states at once: time is at most states x subject, whatever the
 * pattern.
 */
#ifndef HOLDFAST_POLICY_AUTOMATON_H
#define HOLDFAST_POLICY_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hostd/policy/arena.h"

#define AUTOMATON_STATES_MAX 2048

enum automaton_kind {
	AUTOMATON_BYTE, /* reads `byte` */
	AUTOMATON_SET,	/* reads a byte of sets[set] */
	AUTOMATON_ANY,	/* reads any byte */
	AUTOMATON_PART, /* reads any byte but '/' */
	AUTOMATON_FORK, /* reads nothing, goes to both */
	AUTOMATON_END,
};

struct automaton_state {
	uint8_t kind;
	uint8_t byte;
	uint16_t set;
	uint16_t out, other;
};

/* How the subject is fed; the pattern was rewritten in the same way before it was parsed. */
enum automaton_feed {
	FEED_PLAIN,
	FEED_DOTS, /* '.' as "/./" and '/' as NUL: components are separated by dots */
};

struct automaton {
	struct automaton_state *state;
	uint64_t (*sets)[4];
	uint16_t n, n_sets, start;
	enum automaton_feed feed;
	bool lower;	   /* the subject is matched in lower case */
	bool literal;	   /* no special character: plain comparison with prefix */
	const char *prefix; /* every match begins with this */
	uint16_t prefix_len;
};

enum automaton_grammar {
	GRAMMAR_COMPONENTS, /* as above: `*` stays within a component */
	GRAMMAR_PLAIN,	    /* no alternatives, no escapes; `*` and `?` cross slashes */
};

/*
 * Compiles @pattern (UTF-8) into @out, memory from @arena.  0, or -1 for an invalid pattern or one with
 * more than AUTOMATON_STATES_MAX states; *@why says what, as a static string.
 */
int policy_automaton_compile(struct arena *arena, const char *pattern, enum automaton_feed feed,
			     enum automaton_grammar grammar, bool lower, struct automaton *out,
			     const char **why);

bool policy_automaton_match(const struct automaton *a, const char *subject, size_t len);

/*
 * Exactly @text; with @tree also @text followed by a slash and anything.  @out gets states even where
 * policy_automaton_compile() leaves a long plain text without.  0 or -1.
 */
int policy_automaton_literal(struct arena *arena, const char *text, enum automaton_feed feed, bool lower,
			     bool tree, struct automaton *out);

/* Does this state read @byte? */
bool policy_automaton_reads(const struct automaton *a, const struct automaton_state *s, uint8_t byte);

#define POLICY_NO_CHAR 0x110000u /* beyond Unicode, with the byte */

/* One character of UTF-8 at @p < @end and its bytes; a byte that begins none is POLICY_NO_CHAR with that byte. */
uint32_t policy_utf8_char(const char *p, const char *end, size_t *len);

#endif
