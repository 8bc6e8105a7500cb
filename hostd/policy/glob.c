/* SPDX-License-Identifier: GPL-2.0-or-later */
/* glob.c - the pattern flavours of the format, each a type of its own. */
#include "hostd/policy/glob.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static int compile(struct arena *arena, const char *text, enum automaton_feed feed,
		   enum automaton_grammar grammar, bool lower, struct glob_base *g)
{
	g->text = text;
	g->bad = NULL;
	if (policy_automaton_compile(arena, text, feed, grammar, lower, &g->a, &g->bad) == 0)
		g->bad = NULL;
	return policy_arena_failed(arena) ? -1 : 0;
}

int policy_host_glob(struct arena *a, const char *text, struct host_glob *out)
{
	out->wild = strchr(text, '*') != NULL;
	if (out->wild)
		return compile(a, text, FEED_DOTS, GRAMMAR_COMPONENTS, true, &out->g);
	out->g = (struct glob_base){ .text = text };
	return 0;
}

int policy_program_glob(struct arena *a, const char *text, struct program_glob *out)
{
	out->wild = strchr(text, '*') != NULL;
	if (out->wild)
		return compile(a, text, FEED_PLAIN, GRAMMAR_COMPONENTS, false, &out->g);
	out->g = (struct glob_base){ .text = text };
	return 0;
}

int policy_path_glob(struct arena *a, const char *text, struct path_glob *out)
{
	out->all = !strcmp(text, "**");
	return compile(a, text, FEED_PLAIN, GRAMMAR_COMPONENTS, false, &out->g);
}

int policy_value_glob(struct arena *a, const char *text, struct value_glob *out)
{
	return compile(a, text, FEED_DOTS, GRAMMAR_COMPONENTS, false, &out->g);
}

int policy_selector_glob(struct arena *a, const char *text, struct selector_glob *out)
{
	size_t len = strlen(text);

	out->all = !*text || !strcmp(text, "**") || !strcmp(text, "/**");
	out->tree = !out->all && len >= 3 && !strcmp(text + len - 3, "/**");
	out->tree_len = out->tree ? len - 3 : 0;
	return compile(a, text, FEED_PLAIN, GRAMMAR_PLAIN, false, &out->g);
}

static int match(const struct glob_base *g, const char *s, size_t len)
{
	if (g->bad)
		return -1;
	return policy_automaton_match(&g->a, s, len);
}

int policy_host_matches(const struct host_glob *g, const char *host, size_t len)
{
	if (!g->wild)
		return strlen(g->g.text) == len && !strncasecmp(g->g.text, host, len);
	return match(&g->g, host, len);
}

int policy_program_matches(const struct program_glob *g, const char *path)
{
	if (!g->wild)
		return !strcmp(g->g.text, path);
	return match(&g->g, path, strlen(path));
}

int policy_path_matches(const struct path_glob *g, const char *path, size_t len)
{
	return g->all ? 1 : match(&g->g, path, len);
}

int policy_value_matches(const struct value_glob *g, const char *value)
{
	return match(&g->g, value, strlen(value));
}

int policy_selector_matches(const struct selector_glob *g, const char *path)
{
	if (g->all || !strcmp(g->g.text, path))
		return 1;
	if (g->tree)
		return !strncmp(g->g.text, path, g->tree_len) &&
		       (path[g->tree_len] == '/' || !path[g->tree_len]);
	return g->g.bad ? 0 : policy_automaton_match(&g->g.a, path, strlen(path));
}

/* ---- do two patterns share a subject? ---- */

/* Tokens of the ambiguity check's own reading: only stars are special in hosts. */
static bool hosts_overlap_at(const char *l, const char *r, unsigned char *seen, size_t width,
			     const char *l0, const char *r0)
{
	size_t at = (size_t)(l - l0) * width + (size_t)(r - r0);
	const char *lnext, *rnext;
	bool lstar, rstar, lcross, rcross, share;

	if (seen[at >> 3] >> (at & 7) & 1)
		return false;
	seen[at >> 3] |= (unsigned char)(1u << (at & 7));
	if (!*l && !*r)
		return true;
	lstar = *l == '*';
	rstar = *r == '*';
	for (lnext = l; lstar && *lnext == '*';)
		lnext++;
	for (rnext = r; rstar && *rnext == '*';)
		rnext++;
	lcross = lnext - l >= 2;
	rcross = rnext - r >= 2;
	if (lstar && hosts_overlap_at(lnext, r, seen, width, l0, r0))
		return true;
	if (rstar && hosts_overlap_at(l, rnext, seen, width, l0, r0))
		return true;
	if (!*l || !*r)
		return false;
	if (lstar && rstar)
		share = true;
	else if (lstar)
		share = lcross || *r != '.';
	else if (rstar)
		share = rcross || *l != '.';
	else
		share = tolower((unsigned char)*l) == tolower((unsigned char)*r);
	/* both stars staying put would be this same pair again */
	if (!share || (lstar && rstar))
		return false;
	return hosts_overlap_at(lstar ? l : l + 1, rstar ? r : r + 1, seen, width, l0, r0);
}

bool policy_hosts_overlap(const char *left, const char *right)
{
	/* a host name of the wire has at most 255 bytes; longer patterns overlap with everything */
	unsigned char seen[(257 * 257 + 7) / 8] = { 0 };
	size_t n = strlen(left), m = strlen(right);

	if (!n || !m || n > 256 || m > 256)
		return true;
	return hosts_overlap_at(left, right, seen, m + 1, left, right);
}

bool policy_selectors_overlap(const struct selector_glob *left, const struct selector_glob *right)
{
	const struct automaton *l = &left->g.a, *r = &right->g.a;
	struct pair {
		uint16_t l, r;
	} queue[4096];
	size_t head = 0, tail = 0;

	if (left->all || right->all || left->g.bad || right->g.bad || !l->state || !r->state)
		return true;
	queue[tail++] = (struct pair){ l->start, r->start };
	while (head < tail) {
		struct pair at = queue[head++], next[4];
		const struct automaton_state *ls = &l->state[at.l], *rs = &r->state[at.r];
		size_t n = 0;

		if (ls->kind == AUTOMATON_END && rs->kind == AUTOMATON_END)
			return true;
		if (ls->kind == AUTOMATON_FORK) {
			next[n++] = (struct pair){ ls->out, at.r };
			next[n++] = (struct pair){ ls->other, at.r };
		} else if (rs->kind == AUTOMATON_FORK) {
			next[n++] = (struct pair){ at.l, rs->out };
			next[n++] = (struct pair){ at.l, rs->other };
		} else {
			for (unsigned int c = 1; c < 256 && !n; c++)
				if (policy_automaton_reads(l, ls, (uint8_t)c) &&
				    policy_automaton_reads(r, rs, (uint8_t)c))
					next[n++] = (struct pair){ ls->out, rs->out };
		}
		for (size_t i = 0; i < n; i++) {
			size_t k;

			for (k = 0; k < tail; k++)
				if (queue[k].l == next[i].l && queue[k].r == next[i].r)
					break;
			if (k < tail)
				continue;
			if (tail == sizeof(queue) / sizeof(queue[0]))
				return true; /* too large to tell: they may overlap */
			queue[tail++] = next[i];
		}
	}
	return false;
}
