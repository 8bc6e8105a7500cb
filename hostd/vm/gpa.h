/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checked translation of guest physical and QEMU virtual addresses into our own mapping. */
#ifndef HOLDFAST_HOSTD_VM_GPA_H
#define HOLDFAST_HOSTD_VM_GPA_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum { GPA_REGIONS_MAX = 8 };

struct gpa_region {
	uint64_t gpa;	/* where the guest sees it */
	uint64_t uva;	/* where QEMU sees it */
	uint64_t size;
	uint8_t *host;	/* where we see it */
};

struct gpa_map {
	size_t n;
	struct gpa_region region[GPA_REGIONS_MAX];
};

/* Adds a region; refused when it wraps, is empty, overlaps another or is one too many. */
int gpa_add(struct gpa_map *m, const struct gpa_region *r, struct err *err);

/*
 * Host pointer for `len` bytes at a guest address, or NULL unless all of them lie in one region.
 * The bytes belong to the guest and change under our hands: copy first, look afterwards.
 */
uint8_t *gpa_ptr(const struct gpa_map *m, uint64_t gpa, uint64_t len);

/* Like gpa_ptr, but takes what the region has: *len is lowered to it. NULL if there is nothing. */
uint8_t *gpa_run(const struct gpa_map *m, uint64_t gpa, uint64_t *len);

/* The same as gpa_ptr for QEMU's own addresses, as the vring addresses are given. */
uint8_t *gpa_uva_ptr(const struct gpa_map *m, uint64_t uva, uint64_t len);

#endif
