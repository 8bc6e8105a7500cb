/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Taking the timeline elsewhere: a signed file that verifies by itself, and one line a row in other forms. */
#ifndef HOSTD_STORE_EXPORT_H
#define HOSTD_STORE_EXPORT_H

#include <stdio.h>

#include "hostd/store/query.h"

enum export_format { EXPORT_JSON, EXPORT_CSV, EXPORT_OCSF };

/* One row as one line (with its newline) of the format. 0, or -1 with errno from @out. */
int export_row(FILE *out, enum export_format format, const struct store_row *row);
/* What comes before the first row ("" but for CSV). */
const char *export_header(enum export_format format);

struct export_totals {
	uint64_t rows, omitted, frames;
};

/*
 * The self-contained file: rows that @q selects in full, the others by their digests, frames of the selected
 * workspace if @frames, checkpoints, and a signed end that counts them. Needs the store's key; works with or without a
 * running hostd. Limit, order and after/before of @q are not used: an export has no holes.
 */
int export_file(const char *db_path, const char *key_path, const struct query *q, bool frames, FILE *out,
		struct export_totals *totals, struct err *e);

#endif
