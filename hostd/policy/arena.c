/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that lives and dies with one policy: allocated piece by piece, freed as a whole. */
#include "hostd/policy/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 16384

struct block {
	struct block *next;
	size_t used, size;
	_Alignas(16) unsigned char data[];
};

struct arena {
	struct block *head;
	size_t total, max;
	int failed;
};

struct arena *policy_arena_new(size_t max)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (a)
		a->max = max;
	return a;
}

void policy_arena_free(struct arena *a)
{
	struct block *b, *next;

	if (!a)
		return;
	for (b = a->head; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

static struct block *block_add(struct arena *a, size_t n)
{
	size_t size = n > BLOCK ? n : BLOCK;
	struct block *b;

	if (a->failed || size > a->max - a->total || !(b = calloc(1, sizeof(*b) + size))) {
		a->failed = 1;
		return NULL;
	}
	a->total += size;
	b->size = size;
	if (a->head && n > BLOCK) { /* a big piece goes behind, the open block stays in front */
		b->next = a->head->next;
		a->head->next = b;
	} else {
		b->next = a->head;
		a->head = b;
	}
	return b;
}

void *policy_arena_alloc(struct arena *a, size_t n)
{
	struct block *b = a->head;
	void *p;

	if (n > a->max) {
		a->failed = 1;
		return NULL;
	}
	n = (n + 15) & ~(size_t)15;
	if (n == 0)
		n = 16;
	if (!b || b->size - b->used < n) {
		b = block_add(a, n);
		if (!b)
			return NULL;
	}
	p = b->data + b->used;
	b->used += n;
	return p;
}

void *policy_arena_array(struct arena *a, size_t n, size_t size)
{
	if (size && n > a->max / size) {
		a->failed = 1;
		return NULL;
	}
	return policy_arena_alloc(a, n * size);
}

char *policy_arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = policy_arena_alloc(a, n + 1);

	if (p)
		memcpy(p, s, n);
	return p;
}

char *policy_arena_strdup(struct arena *a, const char *s)
{
	return policy_arena_strndup(a, s, strlen(s));
}

char *policy_arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *p;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	p = n < 0 ? NULL : policy_arena_alloc(a, (size_t)n + 1);
	if (p)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return p;
}

int policy_arena_failed(const struct arena *a)
{
	return a->failed;
}

void *policy_arena_push(struct arena *a, void *array_ptr, size_t *n, size_t size)
{
	unsigned char *items;

	memcpy(&items, array_ptr, sizeof(items));
	if ((*n & (*n - 1)) == 0) { /* 0, 1, 2, 4, 8 ... : full */
		unsigned char *more = policy_arena_array(a, *n ? *n * 2 : 1, size);

		if (!more)
			return NULL;
		if (*n)
			memcpy(more, items, *n * size);
		items = more;
		memcpy(array_ptr, &items, sizeof(items));
	}
	return items + (*n)++ * size;
}
