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

/* ---- middleware host patterns ---- */

#define LABELS_MAX 128

struct label {
	const char *p;
	size_t len;
};

static size_t split(const char *s, struct label *labels)
{
	size_t n = 0;

	for (;;) {
		const char *dot = strchrnul(s, '.');

		if (n == LABELS_MAX)
			return 0;
		labels[n++] = (struct label){ s, (size_t)(dot - s) };
		if (!*dot)
			return n;
		s = dot + 1;
	}
}

static bool is_recursive(const struct label *l)
{
	return l->len == 2 && !memcmp(l->p, "**", 2);
}

/* One element of a label's pattern: 0 no match, else its length; *star for `*`. */
static size_t element(const char *p, const char *end, char c, bool *star, bool *hit)
{
	*star = *p == '*';
	*hit = *p == '?' || tolower((unsigned char)*p) == tolower((unsigned char)c);
	if (*p == '[') {
		const char *q = p + 1;
		bool negated = q < end && *q == '!', in = false;
		const char *close;

		if (negated)
			q++;
		close = q < end ? memchr(q + 1, ']', (size_t)(end - q - 1)) : NULL;
		if (!close)
			return 0;
		c = (char)tolower((unsigned char)c);
		while (q < close) {
			int lo = tolower((unsigned char)q[0]), hi = lo;

			if (close - q >= 3 && q[1] == '-') {
				hi = tolower((unsigned char)q[2]);
				q += 3;
			} else {
				q++;
			}
			in |= (unsigned char)c >= lo && (unsigned char)c <= hi;
		}
		*hit = in != negated;
		return (size_t)(close + 1 - p);
	}
	return 1;
}

static bool label_valid(const struct label *l)
{
	const char *p = l->p, *end = l->p + l->len;
	bool star, hit;

	if (is_recursive(l))
		return true;
	while (p < end) {
		size_t n = element(p, end, 'a', &star, &hit);

		if (!n || (star && p + 1 < end && p[1] == '*'))
			return false;
		p += n;
	}
	return true;
}

/* `*` crosses everything within a label: remember the last one and try again from there. */
static bool label_matches(const struct label *l, const struct label *host)
{
	const char *p = l->p, *pend = l->p + l->len, *s = host->p, *send = host->p + host->len;
	const char *back_p = NULL, *back_s = NULL;
	bool star = false, hit = false;

	while (s < send || p < pend) {
		size_t n = p < pend ? element(p, pend, s < send ? *s : '\0', &star, &hit) : 0;

		if (n && star) {
			back_p = p + 1;
			back_s = s;
			p++;
		} else if (n && hit && s < send) {
			p += n;
			s++;
		} else if (back_p && back_s < send) {
			p = back_p;
			s = ++back_s;
		} else {
			return false;
		}
	}
	return true;
}

enum policy_selector_error policy_host_selector_check(const char *pattern)
{
	struct label labels[LABELS_MAX];
	size_t n;

	if (!*pattern)
		return HOST_SELECTOR_EMPTY;
	for (const char *p = pattern; *p; p++)
		if (isspace((unsigned char)*p))
			return HOST_SELECTOR_WHITESPACE;
	if (strpbrk(pattern, "{}"))
		return HOST_SELECTOR_BRACES;
	n = split(pattern, labels);
	if (!n)
		return HOST_SELECTOR_INVALID;
	for (size_t i = 0; i < n; i++)
		if (!labels[i].len)
			return HOST_SELECTOR_EMPTY_LABEL;
	for (size_t i = 0; i < n; i++)
		if (!label_valid(&labels[i]))
			return HOST_SELECTOR_INVALID;
	return HOST_SELECTOR_OK;
}

bool policy_host_selector_matches(const char *pattern, const char *host)
{
	struct label p[LABELS_MAX], h[LABELS_MAX];
	bool at[2][LABELS_MAX + 1] = { { false } }; /* [row of pattern][labels of host taken] */
	size_t n = split(pattern, p), m = split(host, h);

	for (size_t j = 0; j < m; j++)
		if (!h[j].len)
			return false;
	at[0][0] = true;
	for (size_t i = 0; i < n; i++) {
		bool *now = at[i & 1], *next = at[!(i & 1)];

		next[0] = false;
		for (size_t j = 0; j < m; j++)
			next[j + 1] = is_recursive(&p[i]) ? now[j] || next[j] :
							    now[j] && label_matches(&p[i], &h[j]);
	}
	return n && m && at[n & 1][m];
}

static bool label_is_literal(const struct label *l)
{
	for (size_t i = 0; i < l->len; i++)
		if (strchr("*?[", l->p[i]))
			return false;
	return true;
}

static bool labels_overlap(const struct label *l, const struct label *r)
{
	bool ll = label_is_literal(l), rl = label_is_literal(r);

	if (ll && rl)
		return l->len == r->len && !strncasecmp(l->p, r->p, l->len);
	if (ll)
		return label_matches(r, l);
	if (rl)
		return label_matches(l, r);
	return true; /* two wild labels: they may */
}

bool policy_host_selectors_overlap(const char *left, const char *right)
{
	struct label l[LABELS_MAX], r[LABELS_MAX];
	bool at[LABELS_MAX + 1][LABELS_MAX + 1] = { { false } };
	size_t n = split(left, l), m = split(right, r);

	at[0][0] = true;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < m; j++) {
			bool lrec = is_recursive(&l[i]), rrec = is_recursive(&r[j]);

			if (!at[i][j] || (!lrec && !rrec && !labels_overlap(&l[i], &r[j])))
				continue;
			at[i + 1][j + 1] = true;
			if (lrec)
				at[i][j + 1] = true;
			if (rrec)
				at[i + 1][j] = true;
		}
	return n && m && at[n][m];
}

const char *policy_host_selector_error_name(enum policy_selector_error e)
{
	static const char *const names[] = {
		[HOST_SELECTOR_OK] = "",
		[HOST_SELECTOR_EMPTY] = "empty",
		[HOST_SELECTOR_BRACES] = "braces",
		[HOST_SELECTOR_EMPTY_LABEL] = "empty_label",
		[HOST_SELECTOR_WHITESPACE] = "whitespace",
		[HOST_SELECTOR_INVALID] = "invalid",
	};

	return names[e];
}
