/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of the timeline as a person reads them on a terminal. */
#ifndef HOLDFAST_CLI_TIMELINE_PRINT_H
#define HOLDFAST_CLI_TIMELINE_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct timeline_style {
	bool color, relative;
	int64_t now_ns;	    /* for relative times and "today" */
	int ws_width;	    /* of the workspace's column; 0: no such column */
};

/* Text of a guest on one line: C0, DEL, C1, line and bidi marks are shown, not sent. */
void timeline_escape(FILE *out, const char *text);
/* One line for a row as query_row_json() gives it. */
void timeline_print_row(FILE *out, const struct timeline_style *style, const json_t *row);
/* All of a row, the chain of processes as a tree. @frame: the Sentry's frame behind it, or NULL. */
void timeline_print_whole(FILE *out, const struct timeline_style *style, const json_t *row, const json_t *frame);
/* "10m", "2h", "3d", "90s", "2026-11-30", "2026-11-30T12:00[:00][Z]": ns since 1970, or -1. */
int64_t timeline_parse_time(const char *text, int64_t now_ns);

#endif
