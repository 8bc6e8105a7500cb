/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * automaton.c - glob patterns as finite automata.
 *
 * A pattern is read into tokens (the grammar's quirks live in the reader alone), then turned from its
 * end to its beginning into states, each of which already knows what follows it.  Nothing here recurses
 * on the pattern's length.
 */
#include "hostd/policy/automaton.h"

#include <string.h>

#define TOKENS_MAX 4096
#define PATTERN_MAX 12400

enum token_kind {
	TOKEN_BYTE,
	TOKEN_ANY,
	TOKEN_STAR,
	TOKEN_PREFIX,	/* a leading double star */
	TOKEN_SUFFIX,	/* slash, double star at the end */
	TOKEN_BETWEEN,	/* slash, double star, slash */
	TOKEN_CLASS,
	TOKEN_OPEN,	/* of alternatives */
	TOKEN_COMMA,
	TOKEN_CLOSE,
	TOKEN_NOTHING, /* a closing brace that closes nothing */
};

struct token {
	uint8_t kind;
	uint8_t byte;
	uint16_t set;
};

struct reader {
	const char *p, *end;
	uint32_t prev, cur; /* the last two characters read; 0 = none */
	struct token *tokens;
	size_t n;
	size_t group; /* index behind the last OPEN or COMMA: where the current alternative began */
	bool in_group;
	uint64_t (*sets)[4];
	size_t n_sets;
	struct arena *arena;
	const char *why;
};

uint32_t policy_utf8_char(const char *p, const char *end, size_t *len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *u = (const unsigned char *)p;
	size_t need = *u < 0x80 ? 1 : *u >= 0xf0 ? 4 : *u >= 0xe0 ? 3 : *u >= 0xc0 ? 2 : 1, i = 1;
	uint32_t c = need > 1 ? *u & 0xffu >> (need + 1) : *u;

	for (; i < need && i < (size_t)(end - p) && (u[i] & 0xc0) == 0x80; i++)
		c = c << 6 | (u[i] & 0x3f);
	*len = need;
	if (*u < 0x80 || (need > 1 && i == need && c >= least[need]))
		return c;
	*len = 1;
	return POLICY_NO_CHAR | *u; /* or an overlong form would be a special character */
}

static int peek(const struct reader *r, uint32_t *c)
{
	size_t len;

	if (r->p == r->end)
		return -1;
	*c = policy_utf8_char(r->p, r->end, &len);
	return 0;
}

static int bump(struct reader *r, const char **bytes, size_t *len)
{
	r->prev = r->cur;
	if (r->p == r->end) {
		r->cur = 0;
		return -1;
	}
	*bytes = r->p;
	r->cur = policy_utf8_char(r->p, r->end, len);
	r->p += *len;
	return 0;
}

static int push(struct reader *r, enum token_kind kind, uint8_t byte, uint16_t set)
{
	if (r->n == TOKENS_MAX) {
		r->why = "the pattern is too long";
		return -1;
	}
	r->tokens[r->n++] = (struct token){ .kind = (uint8_t)kind, .byte = byte, .set = set };
	return 0;
}

static int push_bytes(struct reader *r, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (push(r, TOKEN_BYTE, (uint8_t)bytes[i], 0) < 0)
			return -1;
	return 0;
}

static void set_add(uint64_t set[4], unsigned int from, unsigned int to)
{
	for (unsigned int c = from; c <= to && c < 256; c++)
		set[c >> 6] |= 1ull << (c & 63);
}

/*
 * A class ranges over bytes: a character of several bytes stands for each of them, and a range runs from
 * the last byte of its first character to the first byte of its last.
 */
static int class_range(struct reader *r, uint64_t set[4], const char *from, size_t from_len,
		       const char *to, size_t to_len)
{
	for (size_t i = 0; i + 1 < from_len; i++)
		set_add(set, (uint8_t)from[i], (uint8_t)from[i]);
	if ((uint8_t)to[0] < (uint8_t)from[from_len - 1]) {
		r->why = "a range in brackets runs backwards";
		return -1;
	}
	set_add(set, (uint8_t)from[from_len - 1], (uint8_t)to[0]);
	for (size_t i = 1; i < to_len; i++)
		set_add(set, (uint8_t)to[i], (uint8_t)to[i]);
	return 0;
}

static int push_set(struct reader *r, const uint64_t set[4])
{
	uint64_t(*slot)[4];

	if (r->n_sets >= 1024) {
		r->why = "the pattern has too many bracket classes";
		return -1;
	}
	slot = policy_arena_push(r->arena, &r->sets, &r->n_sets, sizeof(*slot));
	if (!slot) {
		r->why = "out of memory";
		return -1;
	}
	memcpy(*slot, set, sizeof(*slot));
	return push(r, TOKEN_CLASS, 0, (uint16_t)(r->n_sets - 1));
}

static int read_class(struct reader *r)
{
	uint64_t set[4] = { 0 };
	const char *c = NULL, *last = NULL, *open = NULL; /* last: a character that may begin a range */
	size_t len = 0, last_len = 0, open_len = 0;
	bool negated = false, first = true, in_range = false;
	uint32_t ch, last_ch = 0;

	if (peek(r, &ch) == 0 && (ch == '!' || ch == '^')) {
		bump(r, &c, &len);
		negated = true;
	}
	for (;; first = false) {
		if (bump(r, &c, &len) < 0) {
			r->why = "an opening [ is not closed";
			return -1;
		}
		if (r->cur == ']' && !first)
			break;
		if (r->cur == '-' && !first && !in_range) {
			in_range = true;
			open = last;
			open_len = last_len;
			continue;
		}
		if (in_range) {
			if (r->cur < last_ch) {
				r->why = "a range in brackets runs backwards";
				return -1;
			}
			if (class_range(r, set, open, open_len, c, len) < 0)
				return -1;
			in_range = false;
		} else {
			for (size_t i = 0; i < len; i++)
				set_add(set, (uint8_t)c[i], (uint8_t)c[i]);
			last_ch = r->cur;
			last = c;
			last_len = len;
		}
	}
	if (in_range)
		set_add(set, '-', '-');
	if (negated)
		for (int i = 0; i < 4; i++)
			set[i] = ~set[i];
	return push_set(r, set);
}

static int push_stars(struct reader *r)
{
	if (push(r, TOKEN_STAR, 0, 0) < 0)
		return -1;
	return push(r, TOKEN_STAR, 0, 0);
}

static int read_star(struct reader *r)
{
	uint32_t before = r->prev, next;
	const char *c;
	size_t len;
	bool at_end, suffix, can_start;

	if (peek(r, &next) < 0 || next != '*')
		return push(r, TOKEN_STAR, 0, 0);
	bump(r, &c, &len);
	at_end = peek(r, &next) < 0;
	if (r->n == r->group) { /* the pattern or the alternative begins with it */
		if (!at_end && next != '/')
			return push_stars(r);
		bump(r, &c, &len);
		return push(r, TOKEN_PREFIX, 0, 0);
	}
	can_start = before == '/' || (r->in_group && (before == ',' || before == '{'));
	if (!can_start)
		return push_stars(r);
	if (at_end) {
		bump(r, &c, &len);
		suffix = true;
	} else if ((next == ',' || next == '}') && r->in_group) {
		suffix = true;
	} else if (next == '/') {
		bump(r, &c, &len);
		suffix = false;
	} else {
		return push_stars(r);
	}
	/* It takes the slash before it along; after another double star there is none to take. */
	if (r->tokens[r->n - 1].kind == TOKEN_PREFIX || r->tokens[r->n - 1].kind == TOKEN_SUFFIX)
		return 0;
	r->tokens[r->n - 1] = (struct token){ .kind = suffix ? TOKEN_SUFFIX : TOKEN_BETWEEN };
	return 0;
}

static int read_tokens(struct reader *r)
{
	const char *c;
	size_t len;
	int rc = 0;

	while (rc == 0 && bump(r, &c, &len) == 0) {
		switch (r->cur) {
		case '?':
			rc = push(r, TOKEN_ANY, 0, 0);
			break;
		case '*':
			rc = read_star(r);
			break;
		case '[':
			rc = read_class(r);
			break;
		case '{':
			if (r->in_group) {
				r->why = "alternatives within alternatives";
				return -1;
			}
			rc = push(r, TOKEN_OPEN, 0, 0);
			r->in_group = true;
			r->group = r->n;
			break;
		case '}':
			rc = push(r, r->in_group ? TOKEN_CLOSE : TOKEN_NOTHING, 0, 0);
			r->group = 0;
			r->in_group = false;
			break;
		case ',':
			if (!r->in_group) {
				rc = push_bytes(r, c, len);
			} else {
				rc = push(r, TOKEN_COMMA, 0, 0);
				r->group = r->n;
			}
			break;
		case '\\':
			if (bump(r, &c, &len) < 0) {
				r->why = "a \\ at the end";
				return -1;
			}
			rc = push_bytes(r, c, len);
			break;
		default:
			rc = push_bytes(r, c, len);
		}
	}
	if (rc == 0 && r->in_group) {
		r->why = "an opening { is not closed";
		return -1;
	}
	return rc;
}

/*
 * The other grammar, of endpoint selectors: no alternatives and no escapes, `*` and `?` cross slashes, and
 * `**` must be a whole component.
 */
static int read_plain_class(struct reader *r)
{
	const char *p = r->p, *close; /* behind the [ */
	bool negated = p < r->end && *p == '!';
	uint64_t set[4] = { 0 };

	if (negated)
		p++;
	/* a ] in the first place is a member */
	close = p < r->end ? memchr(p + 1, ']', (size_t)(r->end - p - 1)) : NULL;
	if (!close) {
		r->why = "an opening [ is not closed";
		return -1;
	}
	while (p < close) {
		if (close - p >= 3 && p[1] == '-') {
			set_add(set, (uint8_t)p[0], (uint8_t)p[2]);
			p += 3;
		} else {
			set_add(set, (uint8_t)*p, (uint8_t)*p);
			p++;
		}
	}
	if (negated)
		for (int i = 0; i < 4; i++)
			set[i] = ~set[i];
	r->p = close + 1;
	return push_set(r, set);
}

static int read_plain_tokens(struct reader *r)
{
	const char *begin = r->p;
	int rc = 0;

	while (rc == 0 && r->p < r->end) {
		char c = *r->p++;

		if (c == '?') {
			rc = push(r, TOKEN_ANY, 0, 0);
		} else if (c == '[') {
			rc = read_plain_class(r);
		} else if (c == '*') {
			const char *first = r->p - 1;

			while (r->p < r->end && *r->p == '*')
				r->p++;
			if (r->p - first == 1) {
				rc = push(r, TOKEN_STAR, 0, 0);
			} else if (r->p - first > 2 || (first > begin && first[-1] != '/') ||
				   (r->p < r->end && *r->p != '/')) {
				r->why = "** must be a whole component";
				return -1;
			} else if (r->p < r->end) {
				r->p++; /* with nothing behind the slash it is anything at all */
				rc = push(r, r->p < r->end ? TOKEN_PREFIX : TOKEN_STAR, 0, 0);
			} else {
				rc = push(r, TOKEN_STAR, 0, 0);
			}
		} else {
			rc = push(r, TOKEN_BYTE, (uint8_t)c, 0);
		}
	}
	return rc;
}

/* ---- tokens to states ---- */

struct builder {
	struct automaton_state *state;
	size_t n;
	const char *why;
};

static int add(struct builder *b, enum automaton_kind kind, uint8_t byte, uint16_t set, uint16_t out,
	       uint16_t other)
{
	if (b->n == AUTOMATON_STATES_MAX) {
		b->why = "the pattern is too long";
		return -1;
	}
	b->state[b->n] = (struct automaton_state){ (uint8_t)kind, byte, set, out, other };
	return (int)b->n++;
}

/* Any number of bytes of @kind, then @next. */
static int add_loop(struct builder *b, enum automaton_kind kind, int next)
{
	int fork = add(b, AUTOMATON_FORK, 0, 0, 0, (uint16_t)next);
	int read = add(b, kind, 0, 0, (uint16_t)fork, 0);

	if (fork < 0 || read < 0)
		return -1;
	b->state[fork].out = (uint16_t)read;
	return fork;
}

static int add_token(struct builder *b, const struct token *t, bool part, int next)
{
	int slash, loop;

	switch (t->kind) {
	case TOKEN_NOTHING:
		return next;
	case TOKEN_BYTE:
		return add(b, AUTOMATON_BYTE, t->byte, 0, (uint16_t)next, 0);
	case TOKEN_ANY:
		return add(b, part ? AUTOMATON_PART : AUTOMATON_ANY, 0, 0, (uint16_t)next, 0);
	case TOKEN_CLASS:
		return add(b, AUTOMATON_SET, 0, t->set, (uint16_t)next, 0);
	case TOKEN_STAR:
		return add_loop(b, part ? AUTOMATON_PART : AUTOMATON_ANY, next);
	case TOKEN_SUFFIX:
		loop = add_loop(b, AUTOMATON_ANY, next);
		return loop < 0 ? -1 : add(b, AUTOMATON_BYTE, '/', 0, (uint16_t)loop, 0);
	case TOKEN_PREFIX: /* nothing, or anything that ends in a slash */
	case TOKEN_BETWEEN:
		slash = add(b, AUTOMATON_BYTE, '/', 0, (uint16_t)next, 0);
		loop = slash < 0 ? -1 : add_loop(b, AUTOMATON_ANY, slash);
		loop = loop < 0 ? -1 : add(b, AUTOMATON_FORK, 0, 0, (uint16_t)loop, (uint16_t)next);
		if (loop < 0 || t->kind == TOKEN_PREFIX)
			return loop;
		return add(b, AUTOMATON_BYTE, '/', 0, (uint16_t)loop, 0);
	default:
		return -1;
	}
}

static int add_tokens(struct builder *b, const struct token *t, size_t n, bool part, int next)
{
	while (n > 0 && next >= 0) {
		size_t close, end, i;
		int either = -1, branch;

		if (t[n - 1].kind != TOKEN_CLOSE) {
			next = add_token(b, &t[--n], part, next);
			continue;
		}
		close = --n;
		while (t[n - 1].kind != TOKEN_OPEN)
			n--;
		/* alternatives, last one first; an empty one does not count */
		for (end = close, i = close; i-- >= n;) {
			if (i >= n && t[i].kind != TOKEN_COMMA)
				continue;
			if (end > i + 1) {
				int tail = next;

				for (size_t k = end; k > i + 1 && tail >= 0; k--)
					tail = add_token(b, &t[k - 1], part, tail);
				branch = tail;
				if (branch < 0)
					return -1;
				either = either < 0 ? branch :
						      add(b, AUTOMATON_FORK, 0, 0, (uint16_t)branch,
							  (uint16_t)either);
				if (either < 0)
					return -1;
			}
			end = i;
			if (i < n)
				break;
		}
		n--; /* the OPEN */
		if (either >= 0)
			next = either;
	}
	return next;
}

/* '.' becomes "/./" and '/' becomes NUL; a NUL cannot occur. */
static char *rewrite_dots(struct arena *arena, const char *s, size_t *len)
{
	size_t n = 0, i, at = 0;
	char *out;

	for (i = 0; i < *len; i++)
		n += s[i] == '.' ? 3 : 1;
	out = policy_arena_alloc(arena, n + 1);
	if (!out)
		return NULL;
	for (i = 0; i < *len; i++) {
		if (s[i] == '.') {
			out[at++] = '/';
			out[at++] = '.';
			out[at++] = '/';
		} else {
			out[at++] = s[i] == '/' ? '\0' : s[i];
		}
	}
	*len = n;
	return out;
}

static bool is_special(char c, enum automaton_grammar grammar)
{
	if (c == '*' || c == '?' || c == '[')
		return true;
	return grammar == GRAMMAR_COMPONENTS && (c == '{' || c == '}' || c == '\\');
}

int policy_automaton_compile(struct arena *arena, const char *pattern, enum automaton_feed feed,
			     enum automaton_grammar grammar, bool lower, struct automaton *out,
			     const char **why)
{
	struct automaton_state state[AUTOMATON_STATES_MAX];
	struct token tokens[TOKENS_MAX];
	struct builder b = { .state = state };
	struct reader r = { .arena = arena, .tokens = tokens };
	size_t len = strlen(pattern), literal;
	char *text;
	int start;

	memset(out, 0, sizeof(*out));
	*why = "out of memory";
	if (len > PATTERN_MAX) {
		*why = "the pattern is too long";
		return -1;
	}
	text = policy_arena_strndup(arena, pattern, len);
	if (!text)
		return -1;
	if (lower)
		for (size_t i = 0; i < len; i++)
			if (text[i] >= 'A' && text[i] <= 'Z')
				text[i] = (char)(text[i] + 32);
	for (literal = 0; literal < len && !is_special(text[literal], grammar);)
		literal++;
	out->prefix = text;
	out->prefix_len = (uint16_t)literal;
	out->feed = feed;
	out->lower = lower;
	if (literal == len) {
		out->literal = true;
		/* It gets its automaton all the same while it is short: the prover wants one. */
		if (len > AUTOMATON_STATES_MAX / 3 - 1)
			return 0;
	}
	if (feed == FEED_DOTS) {
		text = rewrite_dots(arena, text, &len);
		if (!text)
			return -1;
	}
	r.p = text;
	r.end = text + len;
	if ((grammar == GRAMMAR_PLAIN ? read_plain_tokens(&r) : read_tokens(&r)) < 0) {
		*why = r.why;
		return -1;
	}
	b.why = "the pattern is too long";
	if (add(&b, AUTOMATON_END, 0, 0, 0, 0) < 0)
		return -1;
	if (grammar == GRAMMAR_COMPONENTS && r.n == 1 && tokens[0].kind == TOKEN_PREFIX)
		start = add_loop(&b, AUTOMATON_ANY, 0);
	else
		start = add_tokens(&b, tokens, r.n, grammar == GRAMMAR_COMPONENTS, 0);
	if (start < 0) {
		*why = b.why;
		return -1;
	}
	out->state = policy_arena_array(arena, b.n, sizeof(*state));
	if (!out->state)
		return -1;
	memcpy(out->state, state, b.n * sizeof(*state));
	out->n = (uint16_t)b.n;
	out->start = (uint16_t)start;
	out->sets = r.sets;
	out->n_sets = (uint16_t)r.n_sets;
	return 0;
}

int policy_automaton_literal(struct arena *arena, const char *text, enum automaton_feed feed, bool lower,
			     bool tree, struct automaton *out)
{
	size_t len = strlen(text), n = 0;
	struct automaton_state *s;
	const char *fed = text;

	memset(out, 0, sizeof(*out));
	if (len > 20000 || (feed == FEED_DOTS && !(fed = rewrite_dots(arena, text, &len))))
		return -1;
	s = policy_arena_array(arena, len + 5, sizeof(*s));
	if (!s)
		return -1;
	for (; n < len; n++) {
		char c = fed[n];

		if (lower && c >= 'A' && c <= 'Z')
			c = (char)(c + 32);
		s[n] = (struct automaton_state){ AUTOMATON_BYTE, (uint8_t)c, 0, (uint16_t)(n + 1), 0 };
	}
	if (tree) { /* end here, or a slash and any bytes */
		s[n] = (struct automaton_state){ AUTOMATON_FORK, 0, 0, (uint16_t)(n + 1), (uint16_t)(n + 4) };
		s[n + 1] = (struct automaton_state){ AUTOMATON_BYTE, '/', 0, (uint16_t)(n + 2), 0 };
		s[n + 2] = (struct automaton_state){ AUTOMATON_FORK, 0, 0, (uint16_t)(n + 3),
						     (uint16_t)(n + 4) };
		s[n + 3] = (struct automaton_state){ AUTOMATON_ANY, 0, 0, (uint16_t)(n + 2), 0 };
		n += 4;
	}
	s[n] = (struct automaton_state){ .kind = AUTOMATON_END };
	out->state = s;
	out->n = (uint16_t)(n + 1);
	out->feed = feed;
	out->lower = lower;
	return 0;
}

/* ---- matching ---- */

struct run {
	const struct automaton *a;
	uint16_t n[2];
	uint16_t list[2][AUTOMATON_STATES_MAX];
	uint16_t stack[AUTOMATON_STATES_MAX];
	uint64_t seen[AUTOMATON_STATES_MAX / 64];
	int now;
	bool end; /* the END state is among the current ones */
};

bool policy_automaton_reads(const struct automaton *a, const struct automaton_state *s, uint8_t byte)
{
	switch (s->kind) {
	case AUTOMATON_BYTE:
		return s->byte == byte;
	case AUTOMATON_SET:
		return a->sets[s->set][byte >> 6] >> (byte & 63) & 1;
	case AUTOMATON_ANY:
		return true;
	case AUTOMATON_PART:
		return byte != '/';
	default:
		return false;
	}
}

/* Adds a state and all that it reaches without reading; each state is added once a step. */
static void enter(struct run *r, int list, uint16_t s)
{
	const struct automaton_state *state = r->a->state;
	size_t depth = 0;

	for (;;) {
		if (!(r->seen[s >> 6] >> (s & 63) & 1)) {
			r->seen[s >> 6] |= 1ull << (s & 63);
			if (state[s].kind == AUTOMATON_FORK) {
				/* each state is pushed at most once a step, so the stack cannot overflow */
				r->stack[depth++] = state[s].other;
				s = state[s].out;
				continue;
			}
			if (state[s].kind == AUTOMATON_END)
				r->end = true;
			else
				r->list[list][r->n[list]++] = s;
		}
		if (depth == 0)
			return;
		s = r->stack[--depth];
	}
}

static void step(struct run *r, uint8_t byte)
{
	int now = r->now, next = !now;

	r->n[next] = 0;
	r->end = false;
	memset(r->seen, 0, ((size_t)r->a->n + 63) / 64 * sizeof(r->seen[0]));
	for (uint16_t i = 0; i < r->n[now]; i++) {
		const struct automaton_state *s = &r->a->state[r->list[now][i]];

		if (policy_automaton_reads(r->a, s, byte))
			enter(r, next, s->out);
	}
	r->now = next;
}

static uint8_t lowered(const struct automaton *a, char c)
{
	return (uint8_t)(a->lower && c >= 'A' && c <= 'Z' ? c + 32 : c);
}

bool policy_automaton_match(const struct automaton *a, const char *subject, size_t len)
{
	struct run r;
	size_t i;

	if (len < a->prefix_len || (a->literal && len != a->prefix_len))
		return false;
	for (i = 0; i < a->prefix_len; i++)
		if (lowered(a, subject[i]) != (uint8_t)a->prefix[i])
			return false;
	if (a->literal)
		return true;
	r.a = a;
	r.now = 0;
	r.n[0] = 0;
	r.end = false;
	memset(r.seen, 0, ((size_t)a->n + 63) / 64 * sizeof(r.seen[0]));
	enter(&r, 0, a->start);
	for (i = 0; i < len; i++) {
		uint8_t c = lowered(a, subject[i]);

		if (a->feed == FEED_DOTS && c == '.') {
			step(&r, '/');
			step(&r, '.');
			step(&r, '/');
		} else {
			step(&r, a->feed == FEED_DOTS && c == '/' ? 0 : c);
		}
		if (r.n[r.now] == 0 && !r.end)
			return false;
	}
	return r.end;
}
