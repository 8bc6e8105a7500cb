/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checked translation of guest physical and QEMU virtual addresses into our own mapping. */
#include "hostd/vm/gpa.h"

#include <stdbool.h>

static bool wraps(uint64_t start, uint64_t size)
{
	return start + size < start;
}

static bool overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

int gpa_add(struct gpa_map *m, const struct gpa_region *r, struct err *err)
{
	if (m->n == GPA_REGIONS_MAX)
		return err_set(err, "more than %d memory regions", GPA_REGIONS_MAX);
	if (!r->size || !r->host || wraps(r->gpa, r->size) || wraps(r->uva, r->size))
		return err_set(err, "memory region is empty or wraps");
	for (size_t i = 0; i < m->n; i++) {
		const struct gpa_region *o = &m->region[i];

		if (overlaps(r->gpa, r->size, o->gpa, o->size) ||
		    overlaps(r->uva, r->size, o->uva, o->size))
			return err_set(err, "memory regions overlap");
	}
	m->region[m->n++] = *r;
	return 0;
}

uint8_t *gpa_run(const struct gpa_map *m, uint64_t gpa, uint64_t *len)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct gpa_region *r = &m->region[i];
		uint64_t off = gpa - r->gpa;

		if (gpa < r->gpa || off >= r->size)
			continue;
		if (*len > r->size - off)
			*len = r->size - off;
		return r->host + off;
	}
	return NULL;
}

uint8_t *gpa_ptr(const struct gpa_map *m, uint64_t gpa, uint64_t len)
{
	uint64_t run = len;
	uint8_t *p = gpa_run(m, gpa, &run);

	return p && run == len ? p : NULL;
}

uint8_t *gpa_uva_ptr(const struct gpa_map *m, uint64_t uva, uint64_t len)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct gpa_region *r = &m->region[i];
		uint64_t off = uva - r->uva;

		if (uva >= r->uva && off < r->size && len <= r->size - off)
			return r->host + off;
	}
	return NULL;
}
