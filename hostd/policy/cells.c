/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cells.c - which combinations of patterns a single string can match. */
#include "hostd/policy/cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- domains ---- */

/* Labels of letters, digits, - and _ (and : for addresses), none empty. */
static uint8_t host_kind(uint8_t c)
{
	if (c == '.')
		return 1;
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == ':' ? 2 : 0;
}

static int host_step(int state, uint8_t c)
{
	uint8_t kind = host_kind(c);

	return kind == 2 ? 1 : kind == 1 && state == 1 ? 2 : -1;
}

static bool is_one(int state)
{
	return state == 1;
}

const struct domain domain_host = { host_step, is_one, host_kind };

/* An absolute path without empty, . and .. components, as the kernel names a program. */
static uint8_t program_kind(uint8_t c)
{
	return c == '/' ? 1 : c == '.' ? 2 : c > 0x20 && c < 0x7f ? 3 : 0;
}

/* 1 = behind a slash, 2 = ".", 3 = "..", 4 = within a component */
static int program_step(int state, uint8_t c)
{
	switch (program_kind(c)) {
	case 1:
		return state == 0 || state == 4 ? 1 : -1;
	case 2:
		return state == 0 ? -1 : state == 1 ? 2 : state == 2 ? 3 : 4;
	case 3:
		return state == 0 ? -1 : 4;
	default:
		return -1;
	}
}

static bool is_four(int state)
{
	return state == 4;
}

const struct domain domain_program = { program_step, is_four, program_kind };

/*
 * Canonical request paths: what policy_canon() can produce.  Kinds: hex digits matter after %.
 * States: as above (1..4), and 16 + high nibble after "%X", 5 after "%".
 */
static uint8_t path_kind(uint8_t c)
{
	if (c == '/')
		return 1;
	if (c == '.')
		return 2;
	if (c == '%')
		return 3;
	if (c >= '0' && c <= '9')
		return (uint8_t)(10 + c - '0');
	if (c >= 'A' && c <= 'F')
		return (uint8_t)(20 + c - 'A');
	return (c >= 'a' && c <= 'z') || (c >= 'G' && c <= 'Z') || (c && strchr("-_~!$&'()*+,=:@", c)) ? 4 : 0;
}

static int nibble(uint8_t kind)
{
	return kind >= 20 ? kind - 10 : kind >= 10 ? kind - 10 : -1;
}

static bool is_escaped(unsigned int c)
{
	if (c < 0x20 || c == 0x7f || c == ';')
		return false;
	if (c == '/')
		return true;
	return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		 (c < 0x80 && strchr("-._~!$&'()*+,=:@", (int)c)));
}

static int path_step(int state, uint8_t c)
{
	uint8_t kind = path_kind(c);
	int n = nibble(kind);

	if (state == 5)
		return n < 0 ? -1 : 16 + n;
	if (state >= 16)
		return n >= 0 && is_escaped((unsigned int)((state - 16) << 4 | n)) ? 4 : -1;
	if (kind == 3)
		return state == 0 ? -1 : 5;
	if (kind == 0)
		return -1;
	if (kind == 1)
		return state == 0 || state == 4 ? 1 : -1;
	if (state == 0)
		return -1;
	return kind == 2 ? (state == 1 ? 2 : state == 2 ? 3 : 4) : 4;
}

static bool path_accepts(int state)
{
	return state == 1 || state == 4;
}

const struct domain domain_path = { path_step, path_accepts, path_kind };

static uint8_t value_kind(uint8_t c)
{
	return c >= 0x20 && c < 0x7f;
}

static int value_step(int state, uint8_t c)
{
	(void)state;
	return value_kind(c) ? 0 : -1;
}

static bool always(int state)
{
	(void)state;
	return true;
}

const struct domain domain_value = { value_step, always, value_kind };

/* The same, but not empty. */
static int text_step(int state, uint8_t c)
{
	(void)state;
	return value_kind(c) ? 1 : -1;
}

const struct domain domain_text = { text_step, is_one, value_kind };

/* Tool names, as strict_tool_names demands them. */
static uint8_t tool_kind(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
	       c == '.' || c == '-';
}

static int tool_step(int state, uint8_t c)
{
	(void)state;
	return tool_kind(c) ? 1 : -1;
}

const struct domain domain_tool = { tool_step, is_one, tool_kind };

/* GraphQL names. */
static uint8_t word_kind(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return 2;
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? 1 : 0;
}

static int word_step(int state, uint8_t c)
{
	uint8_t kind = word_kind(c);

	return kind == 1 || (kind == 2 && state == 1) ? 1 : -1;
}

const struct domain domain_word = { word_step, is_one, word_kind };

/* ---- the product ---- */

struct set {
	uint32_t *s; /* sorted state numbers: reading and END states of all patterns */
	size_t n;
	int domain;
	uint32_t parent;
	uint8_t byte;
};

struct product {
	struct arena *a;
	const struct automaton *const *pattern;
	uint32_t *base; /* of each pattern's states; base[n] = all */
	uint16_t *owner;
	size_t n, total;
	const struct domain *domain;
	struct set *sets;
	size_t n_sets;
	uint32_t *hash;
	size_t hash_size;
	uint8_t bytes[256]; /* one representative of each class */
	size_t n_bytes;
	uint32_t *mark, *build, *stack; /* scratch: of size total */
	uint32_t stamp;
	size_t built;
};

static const struct automaton_state *state_of(const struct product *p, uint32_t s)
{
	uint16_t o = p->owner[s];

	return &p->pattern[o]->state[s - p->base[o]];
}

static void enter(struct product *p, uint32_t s)
{
	size_t depth = 0;

	for (;;) {
		if (p->mark[s] != p->stamp) {
			const struct automaton_state *st = state_of(p, s);
			uint32_t base = p->base[p->owner[s]];

			p->mark[s] = p->stamp;
			if (st->kind == AUTOMATON_FORK) {
				p->stack[depth++] = base + st->other;
				s = base + st->out;
				continue;
			}
			p->build[p->built++] = s;
		}
		if (!depth)
			return;
		s = p->stack[--depth];
	}
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static size_t set_hash(const uint32_t *v, size_t n, int domain)
{
	size_t h = 0xcbf29ce484222325ull ^ (size_t)domain;

	for (size_t i = 0; i < n; i++)
		h = (h ^ v[i]) * 0x100000001b3ull;
	return h ^ h >> 31;
}

static int grow(struct product *p)
{
	size_t size = p->hash_size ? p->hash_size * 4 : 256;
	uint32_t *hash = calloc(size, sizeof(*hash));

	if (!hash)
		return -1;
	for (size_t i = 0; i < p->n_sets; i++) {
		size_t h = set_hash(p->sets[i].s, p->sets[i].n, p->sets[i].domain);

		while (hash[h & (size - 1)])
			h++;
		hash[h & (size - 1)] = (uint32_t)i + 1;
	}
	free(p->hash);
	p->hash = hash;
	p->hash_size = size;
	return 0;
}

/* Takes the set in p->build; its index, or -1 / -2. */
static int64_t intern(struct product *p, int domain, uint32_t parent, uint8_t byte)
{
	struct set *s;
	size_t h;

	if (p->n_sets * 2 >= p->hash_size && grow(p) < 0)
		return -1;
	if (p->built > 1)
		qsort(p->build, p->built, sizeof(*p->build), by_number);
	for (h = set_hash(p->build, p->built, domain);; h++) {
		uint32_t at = p->hash[h & (p->hash_size - 1)];

		if (!at)
			break;
		s = &p->sets[at - 1];
		if (s->domain == domain && s->n == p->built &&
		    !memcmp(s->s, p->build, p->built * sizeof(*p->build)))
			return at - 1;
	}
	if (p->n_sets >= CELLS_STATES_MAX)
		return -2;
	s = policy_arena_push(p->a, &p->sets, &p->n_sets, sizeof(*s));
	if (!s)
		return -1;
	s->s = policy_arena_array(p->a, p->built, sizeof(*s->s));
	if (!s->s)
		return -1;
	memcpy(s->s, p->build, p->built * sizeof(*s->s));
	s->n = p->built;
	s->domain = domain;
	s->parent = parent;
	s->byte = byte;
	p->hash[h & (p->hash_size - 1)] = (uint32_t)p->n_sets;
	return (int64_t)p->n_sets - 1;
}

static void start_build(struct product *p)
{
	p->stamp++;
	p->built = 0;
}

/* One byte as the automata see it: up to three. */
static size_t fed(const struct product *p, uint8_t c, uint8_t out[3])
{
	bool dots = p->n && p->pattern[0]->feed == FEED_DOTS;

	if (dots && c == '.') {
		memcpy(out, "/./", 3);
		return 3;
	}
	out[0] = dots && c == '/' ? 0 : c;
	return 1;
}

static int64_t step(struct product *p, size_t from, uint8_t c)
{
	int domain = p->domain->step(p->sets[from].domain, c);
	uint8_t feed[3];
	size_t n = fed(p, c, feed), len = p->sets[from].n;
	uint32_t *cur = p->sets[from].s, *copy = NULL;

	if (domain < 0)
		return -3;
	for (size_t k = 0; k < n; k++) {
		start_build(p);
		for (size_t i = 0; i < len; i++) {
			const struct automaton_state *s = state_of(p, cur[i]);
			uint16_t o = p->owner[cur[i]];

			if (policy_automaton_reads(p->pattern[o], s, feed[k]))
				enter(p, p->base[o] + s->out);
		}
		if (k + 1 < n) {
			free(copy);
			copy = malloc((p->built + 1) * sizeof(*copy));
			if (!copy)
				return -1;
			memcpy(copy, p->build, p->built * sizeof(*copy));
			cur = copy;
			len = p->built;
		}
	}
	free(copy);
	return intern(p, domain, (uint32_t)from, c);
}

/* Bytes that no state and no domain tells apart need to be tried once; readable ones first. */
static void byte_classes(struct product *p)
{
	static const char order[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ/.-_";
	uint64_t key[256];
	uint8_t list[256];
	size_t n = 0;
	bool listed[256] = { false };

	for (const char *c = order; *c; c++) {
		list[n++] = (uint8_t)*c;
		listed[(uint8_t)*c] = true;
	}
	for (unsigned int c = 1; c < 256; c++)
		if (!listed[c])
			list[n++] = (uint8_t)c;
	for (size_t i = 0; i < n; i++) {
		uint8_t c = list[i], feed[3];
		uint64_t h = p->domain->kind(c) + 1u;
		size_t k, m = fed(p, c, feed);

		if (p->domain->kind(c) == 0)
			continue;
		if (m > 1)
			h = h * 31 + 1000;
		for (uint32_t s = 0; s < p->total && m == 1; s++) {
			const struct automaton_state *st = state_of(p, s);

			if (st->kind == AUTOMATON_SET || st->kind == AUTOMATON_BYTE ||
			    st->kind == AUTOMATON_PART)
				h = (h ^ (uint64_t)policy_automaton_reads(p->pattern[p->owner[s]], st, feed[0])) *
				    0x9e3779b97f4a7c15ull + (h >> 7);
		}
		for (k = 0; k < p->n_bytes; k++)
			if (key[k] == h)
				break;
		if (k < p->n_bytes)
			continue;
		key[p->n_bytes] = h;
		p->bytes[p->n_bytes++] = c;
	}
}

static const char *witness(struct product *p, size_t at)
{
	size_t n = 0;
	char *s;

	for (size_t k = at; k; k = p->sets[k].parent)
		n++;
	s = policy_arena_alloc(p->a, n + 1);
	for (size_t k = at; s && k; k = p->sets[k].parent)
		s[--n] = (char)p->sets[k].byte;
	return s;
}

static int collect(struct product *p, struct cells *out)
{
	size_t words = (p->n + 63) / 64, rows = 0;
	uint64_t *row = policy_arena_array(p->a, words ? words : 1, sizeof(*row));
	const char **w;

	if (!row)
		return -1;
	for (size_t i = 0; i < p->n_sets; i++) {
		size_t k;

		if (!p->domain->accepts(p->sets[i].domain))
			continue;
		memset(row, 0, words * sizeof(*row));
		for (k = 0; k < p->sets[i].n; k++) {
			uint32_t s = p->sets[i].s[k];

			if (state_of(p, s)->kind == AUTOMATON_END)
				row[p->owner[s] / 64] |= 1ull << (p->owner[s] % 64);
		}
		for (k = 0; k < out->n; k++)
			if (!memcmp(out->match + k * words, row, words * sizeof(*row)))
				break;
		if (k < out->n)
			continue;
		for (k = 0; k < words; k++) {
			uint64_t *slot = policy_arena_push(p->a, &out->match, &rows, sizeof(*slot));

			if (!slot)
				return -1;
			*slot = row[k];
		}
		w = policy_arena_push(p->a, &out->witness, &out->n, sizeof(*w));
		if (!w || !(*w = witness(p, i)))
			return -1;
	}
	return 0;
}

int policy_cells(struct arena *a, const struct automaton *const *patterns, size_t n,
		 const struct domain *domain, struct cells *out)
{
	struct product p = { .a = a, .pattern = patterns, .n = n, .domain = domain };

	memset(out, 0, sizeof(*out));
	out->patterns = n;
	p.base = policy_arena_array(a, n + 1, sizeof(*p.base));
	if (!p.base)
		return -1;
	for (size_t i = 0; i < n; i++)
		p.base[i + 1] = p.base[i] + patterns[i]->n;
	p.total = p.base[n];
	if (p.total > 1000000)
		return -2;
	p.owner = policy_arena_array(a, p.total, sizeof(*p.owner));
	p.mark = policy_arena_array(a, p.total, sizeof(*p.mark));
	p.build = policy_arena_array(a, p.total, sizeof(*p.build));
	p.stack = policy_arena_array(a, p.total, sizeof(*p.stack));
	if (!p.owner || !p.mark || !p.build || !p.stack)
		return -1;
	for (size_t i = 0; i < n; i++)
		for (uint32_t s = p.base[i]; s < p.base[i + 1]; s++)
			p.owner[s] = (uint16_t)i;
	byte_classes(&p);
	start_build(&p);
	for (size_t i = 0; i < n; i++)
		enter(&p, p.base[i] + patterns[i]->start);
	int64_t rc = intern(&p, 0, 0, 0);

	for (size_t i = 0; rc >= 0 && i < p.n_sets; i++)
		for (size_t k = 0; k < p.n_bytes; k++) {
			rc = step(&p, i, p.bytes[k]);
			if (rc == -1 || rc == -2)
				break;
			rc = 0;
		}
	free(p.hash);
	if (rc < 0)
		return (int)rc;
	return collect(&p, out);
}
