/* SPDX-License-Identifier: GPL-2.0-or-later */
/* host_selector.c - host patterns of middleware selectors: label by label, by characters, in any case. */
#include <string.h>
#include <strings.h>

#include "hostd/policy/glob.h"

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

static uint32_t lowered(uint32_t c)
{
	return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static uint32_t next_char(const char **p, const char *end)
{
	size_t len;
	uint32_t c = policy_utf8_char(*p, end, &len);

	*p += len;
	return lowered(c);
}

/* Is @c in the class between @q and @close? */
static bool in_class(const char *q, const char *close, uint32_t c)
{
	bool in = false;

	while (q < close) {
		uint32_t lo = next_char(&q, close), hi = lo;

		if (close - q >= 2 && *q == '-') {
			q++;
			hi = next_char(&q, close);
		}
		in |= c >= lo && c <= hi;
	}
	return in;
}

/* One element of a label's pattern: 0 = not valid, else its bytes; *star for `*`, *hit if it takes @c. */
static size_t element(const char *p, const char *end, uint32_t c, bool *star, bool *hit)
{
	const char *q = p + 1, *close, *first = p;
	bool negated = q < end && *q == '!';

	*star = *p == '*';
	*hit = *p == '?';
	if (*p != '[') {
		*hit |= next_char(&p, end) == c;
		return (size_t)(p - first);
	}
	if (negated)
		q++;
	close = q < end ? memchr(q + 1, ']', (size_t)(end - q - 1)) : NULL;
	if (!close)
		return 0;
	*hit = in_class(q, close, c) != negated;
	return (size_t)(close + 1 - p);
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
		const char *after = s;
		uint32_t c = s < send ? next_char(&after, send) : 0;
		size_t n = p < pend ? element(p, pend, c, &star, &hit) : 0;

		if (n && star) {
			back_p = ++p;
			back_s = s;
		} else if (n && hit && s < send) {
			p += n;
			s = after;
		} else if (back_p && back_s < send) {
			next_char(&back_s, send);
			p = back_p;
			s = back_s;
		} else {
			return false;
		}
	}
	return true;
}

/* As Unicode has it (White_Space). */
static bool is_white(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
	       c == 0x3000;
}

enum policy_selector_error policy_host_selector_check(const char *pattern)
{
	struct label labels[LABELS_MAX];
	size_t n;

	if (!*pattern)
		return HOST_SELECTOR_EMPTY;
	for (const char *p = pattern, *end = pattern + strlen(pattern); p < end;)
		if (is_white(next_char(&p, end)))
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
