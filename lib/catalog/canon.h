/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one text that a document of the catalog has: sorted keys, one member and one list entry a line. */
#ifndef HOLDFAST_LIB_CATALOG_CANON_H
#define HOLDFAST_LIB_CATALOG_CANON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum { CANON_DOCUMENT_MAX = 4 << 20 };

/* The canonical text of an object; the caller frees it. NULL when out of memory or not an object. */
char *canon_text(const json_t *document);

/*
 * Parses a document and refuses it unless its bytes are exactly the canonical text, so that two
 * different files never mean the same and a signature covers one reading only. Caller owns it.
 */
json_t *canon_parse(const void *text, size_t n, struct err *err);

/* RFC 3339 in UTC with seconds ("2026-11-30T12:00:00Z") to unix time; -1 when it is not that. */
int canon_time(const char *text, int64_t *out_s);
void canon_time_text(char out[21], int64_t s);

#endif
