/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The append-only log of catalogs: one line each, chained by hash. */
#ifndef HOLDFAST_LIB_CATALOG_HISTORY_H
#define HOLDFAST_LIB_CATALOG_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/hash.h"

/*
 * A line is canonical compact JSON: {"catalog_sha256","issued","previous","root_version","version"},
 * `previous` being the SHA-256 of the line before it without its newline, 64 zeros for the first.
 */
enum { CATALOG_LOG_BYTES_MAX = 16 << 20, CATALOG_LOG_LINE_MAX = 512 };

struct catalog_history {
	uint64_t lines;
	char head[HASH_HEX];	 /* hash of the last line */
	char before[HASH_HEX];	 /* hash of the line before it */
	char catalog[HASH_HEX];	 /* what the last line names */
	uint64_t version;
	char at_seen[HASH_HEX]; /* hash of line number `seen`, empty if there are fewer */
};

/* Checks the chain and fills `out`; `seen` is the number of lines that the reader saw before. */
int catalog_history_parse(struct catalog_history *out, const void *text, size_t n, uint64_t seen,
			  struct err *err);

#endif
