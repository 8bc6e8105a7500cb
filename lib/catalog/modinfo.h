/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a kernel module says about itself in its .modinfo section. */
#ifndef HOLDFAST_LIB_CATALOG_MODINFO_H
#define HOLDFAST_LIB_CATALOG_MODINFO_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

/*
 * Copies the value of KEY from the .modinfo section of a 64-bit little-endian ELF file. 0 when it
 * is there, 1 when the section does not have it, -1 when the file is no such module or it is too long.
 */
int modinfo_get(const void *elf, size_t n, const char *key, char *out, size_t room, struct err *err);

/* vermagic names exactly this release, and there is no test-only mark ("testable"). */
int modinfo_check(const void *elf, size_t n, const char *release, struct err *err);

#endif
