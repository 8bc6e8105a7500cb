/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that lives and dies with one policy: allocated piece by piece, freed as a whole. */
#ifndef HOLDFAST_POLICY_ARENA_H
#define HOLDFAST_POLICY_ARENA_H

#include <stddef.h>

struct arena;

/* @max: the most bytes it may hold.  NULL when out of memory. */
struct arena *policy_arena_new(size_t max);
void policy_arena_free(struct arena *a);

/*
 * Zeroed, aligned memory.  At the cap or out of memory the result is NULL and the arena stays failed:
 * a builder may go on and check policy_arena_failed() once at its end only where it handles NULL.
 */
void *policy_arena_alloc(struct arena *a, size_t n);
void *policy_arena_array(struct arena *a, size_t n, size_t size);
char *policy_arena_strndup(struct arena *a, const char *s, size_t n);
char *policy_arena_strdup(struct arena *a, const char *s);
char *policy_arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int policy_arena_failed(const struct arena *a);

/*
 * Appends one item to a growing array whose length is *@n: doubles at powers of two, so the array must
 * only ever grow by this call.  Returns the new item (zeroed) or NULL.
 */
void *policy_arena_push(struct arena *a, void *array_ptr, size_t *n, size_t size);

#endif
