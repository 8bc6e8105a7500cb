/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * index.c - finding the endpoints of a host and the clauses of a path without looking at all of them.
 *
 * A pattern waits at the trie node of its literal part; a lookup walks the subject once and meets only
 * patterns whose literal part the subject has.  The pattern itself is still matched by its automaton.
 */
#include <string.h>

#include "hostd/policy/model.h"

#define CLAUSES_INDEXED 8 /* fewer are scanned */

static uint8_t folded(enum trie_order order, char c)
{
	return (uint8_t)(order == TRIE_HOST && c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static size_t hash(enum trie_order order, const char *s, size_t len)
{
	size_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ folded(order, s[i])) * 0x100000001b3ull;
	return h ^ h >> 29;
}

static bool same(enum trie_order order, const struct trie_node *n, const char *s, size_t len)
{
	if (n->len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (folded(order, n->part[i]) != folded(order, s[i]))
			return false;
	return true;
}

static struct trie_node *find(enum trie_order order, const struct trie_node *n, const char *s, size_t len)
{
	for (size_t h = hash(order, s, len); n->size; h++) {
		struct trie_node *c = n->child[h & (n->size - 1)];

		if (!c || same(order, c, s, len))
			return c;
	}
	return NULL;
}

static int grow(struct arena *a, enum trie_order order, struct trie_node *n)
{
	size_t size = n->size ? n->size * 4 : 4;
	struct trie_node **child = policy_arena_array(a, size, sizeof(struct trie_node *));

	if (!child)
		return -1;
	for (size_t i = 0; i < n->size; i++) {
		size_t h;

		if (!n->child[i])
			continue;
		h = hash(order, n->child[i]->part, n->child[i]->len);
		while (child[h & (size - 1)])
			h++;
		child[h & (size - 1)] = n->child[i];
	}
	n->child = child;
	n->size = size;
	return 0;
}

static struct trie_node *child_of(struct arena *a, enum trie_order order, struct trie_node *n,
				  const char *s, size_t len)
{
	struct trie_node *c = find(order, n, s, len);
	size_t h;

	if (c)
		return c;
	if (n->n * 2 >= n->size && grow(a, order, n) < 0)
		return NULL;
	c = policy_arena_alloc(a, sizeof(*c));
	if (!c)
		return NULL;
	c->part = s;
	c->len = len;
	h = hash(order, s, len);
	while (n->child[h & (n->size - 1)])
		h++;
	n->child[h & (n->size - 1)] = c;
	n->n++;
	return c;
}

/* The next component of [*from, *to), which shrinks; false when there is none left. */
static bool component(enum trie_order order, const char **from, const char **to, bool *done,
		      const char **part, size_t *len)
{
	const char *p;

	if (*done)
		return false;
	if (order == TRIE_HOST) {
		p = memrchr(*from, '.', (size_t)(*to - *from));
		*part = p ? p + 1 : *from;
		*len = (size_t)(*to - *part);
		*to = p ? p : *from;
	} else {
		p = memchr(*from, '/', (size_t)(*to - *from));
		*part = *from;
		*len = (size_t)((p ? p : *to) - *from);
		*from = p ? p + 1 : *to;
	}
	*done = !p;
	return true;
}

/* @from..@to: the literal components of a pattern; @whole: there is nothing else to it. */
static int add(struct arena *a, struct trie *t, enum trie_order order, const char *from, const char *to,
	       bool none, bool whole, uint32_t value)
{
	struct trie_node *n = &t->root;
	struct trie_entry *e = policy_arena_alloc(a, sizeof(*e)), **list;
	const char *part;
	bool done = none;
	size_t len;

	while (n && component(order, &from, &to, &done, &part, &len))
		n = child_of(a, order, n, part, len);
	if (!n || !e)
		return -1;
	list = whole ? &n->exact : &n->wild;
	e->value = value;
	e->next = *list;
	*list = e;
	return 0;
}

static int add_host(struct policy *p, const struct host_glob *g, uint32_t value)
{
	const char *s = g->g.text, *end = s + strlen(s), *from = end;

	if (!g->wild)
		return add(p->arena, &p->hosts, TRIE_HOST, s, end, false, true, value);
	/* whole labels at the end without anything special in them */
	for (const char *c = end; c > s && !strchr("*?[]{}\\,!", c[-1]); c--)
		if (c[-1] == '.')
			from = c;
	return add(p->arena, &p->hosts, TRIE_HOST, from, end, from == end, false, value);
}

static int add_path(struct policy *p, struct trie *t, const struct path_glob *g, uint32_t value)
{
	const char *s = g->g.text, *end = s + g->g.a.prefix_len;

	if (g->g.a.literal && !g->g.bad)
		return add(p->arena, t, TRIE_PATH, s, end, false, true, value);
	while (end > s && end[-1] != '/')
		end--;
	if (g->all || g->g.bad || end == s)
		return add(p->arena, t, TRIE_PATH, s, s, true, false, value);
	return add(p->arena, t, TRIE_PATH, s, end - 1, false, false, value);
}

static int index_clauses(struct policy *p, const struct clause *c, size_t n, struct trie **out)
{
	struct trie *t;

	if (n < CLAUSES_INDEXED)
		return 0;
	t = policy_arena_alloc(p->arena, sizeof(*t));
	for (size_t i = n; t && i-- > 0;)
		if (c[i].has_method && c[i].has_path && add_path(p, t, &c[i].path, (uint32_t)i) < 0)
			return -1;
	*out = t;
	return t ? 0 : -1;
}

int policy_index(struct policy *p)
{
	for (size_t r = 0; r < p->n_rules; r++) {
		struct rule *rule = &p->rules[r];

		for (size_t i = 0; i < rule->n_endpoints; i++) {
			struct endpoint *e = &rule->endpoints[i], **slot;

			slot = policy_arena_push(p->arena, &p->endpoints, &p->n_endpoints, sizeof(*slot));
			if (!slot)
				return -1;
			*slot = e;
			if (e->has_host && add_host(p, &e->host, (uint32_t)(p->n_endpoints - 1)) < 0)
				return -1;
			if (!*e->host.g.text && e->n_allowed_ips) {
				slot = policy_arena_push(p->arena, &p->hostless, &p->n_hostless,
							 sizeof(*slot));
				if (!slot)
					return -1;
				*slot = e;
			}
			if (index_clauses(p, e->allow, e->n_allow, &e->allow_paths) < 0 ||
			    index_clauses(p, e->deny, e->n_deny, &e->deny_paths) < 0)
				return -1;
		}
	}
	return 0;
}

int policy_trie_each(const struct trie *t, enum trie_order order, const char *subject,
		     int (*fn)(void *u, uint32_t value), void *u)
{
	const struct trie_node *n = &t->root;
	const char *from = subject, *to = subject + strlen(subject), *part;
	const struct trie_entry *e;
	bool done = false;
	size_t len;
	int rc;

	for (;;) {
		for (e = n->wild; e; e = e->next)
			if ((rc = fn(u, e->value)) != 0)
				return rc;
		if (!component(order, &from, &to, &done, &part, &len))
			break;
		n = find(order, n, part, len);
		if (!n)
			return 0;
	}
	for (e = n->exact; e; e = e->next)
		if ((rc = fn(u, e->value)) != 0)
			return rc;
	return 0;
}

bool policy_endpoint_public_only(const struct endpoint *e, uint16_t port)
{
	if (!e->public_only)
		return false;
	for (size_t i = 0; i < e->n_ports; i++)
		if ((!port || e->ports[i] == port) && !e->public_only[i])
			return false;
	return true;
}

bool policy_endpoint_has_port(const struct endpoint *e, uint16_t port)
{
	if (!port)
		return true;
	for (size_t i = 0; i < e->n_ports; i++)
		if (e->ports[i] == port)
			return true;
	return false;
}

struct each {
	const struct policy *p;
	const char *host;
	size_t host_len;
	uint16_t port;
	bool *bad;
	int (*fn)(void *u, const struct endpoint *e);
	void *u;
};

static int each_found(void *u, uint32_t value)
{
	struct each *w = u;
	const struct endpoint *e = w->p->endpoints[value];
	int rc;

	if (!policy_endpoint_has_port(e, w->port) && !e->host.g.bad)
		return 0;
	rc = policy_host_matches(&e->host, w->host, w->host_len);
	if (rc < 0 && w->bad)
		*w->bad = true;
	if (rc <= 0 || !policy_endpoint_has_port(e, w->port))
		return 0;
	return w->fn(w->u, e);
}

int policy_each_endpoint(const struct policy *p, const char *host, uint16_t port, bool *bad,
			 int (*fn)(void *u, const struct endpoint *e), void *u)
{
	struct each w = { p, host ? host : "", host ? strlen(host) : 0, port, bad, fn, u };
	int rc = policy_trie_each(&p->hosts, TRIE_HOST, w.host, each_found, &w);

	/* an endpoint without host matches every host; one with an empty host found an empty one above */
	for (size_t i = 0; !rc && i < p->n_hostless; i++)
		if ((w.host_len || !p->hostless[i]->has_host) && policy_endpoint_has_port(p->hostless[i], port))
			rc = fn(u, p->hostless[i]);
	return rc;
}
