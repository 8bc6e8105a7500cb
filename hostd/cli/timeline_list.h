/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of the timeline to standard output: once, or on and on. */
#ifndef HOLDFAST_CLI_TIMELINE_LIST_H
#define HOLDFAST_CLI_TIMELINE_LIST_H

#include "hostd/cli/timeline_print.h"
#include "hostd/store/export.h"

struct timeline_listing {
	struct query q;		   /* with --follow its limit and beginning are those of the first rows */
	bool rows_for_programs;	   /* in this format; else as people read them */
	enum export_format format;
	bool color, relative, follow;
};

/* Ends when all is written, or quietly when the reader has gone. With --follow it never ends by itself. -1 with e. */
int timeline_list(struct query_db *db, const struct timeline_listing *how, struct err *e);

#endif
