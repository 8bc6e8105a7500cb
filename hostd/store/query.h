/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * query.h - reading the timeline: filters, full text, one row with what belongs to it.
 *
 * Works on a connection of its own, opened read-only, so hostd's API and a CLI without hostd use the same code.
 */
#ifndef HOSTD_STORE_QUERY_H
#define HOSTD_STORE_QUERY_H

#include "hostd/store/store.h"

struct query_db; /* a read-only connection */

struct query {
	const char *ws;	     /* NULL: all */
	int64_t since_ns, until_ns; /* host clock; 0: open */
	uint64_t after_id, before_id; /* exclusive; 0: open */
	uint64_t kinds[(EVENT_COUNT + 63) / 64]; /* bit set; none set: all */
	uint32_t engines;    /* bit set; 0: all */
	uint32_t verdicts;   /* bit set; 0: all */
	unsigned min_weight;
	const char *grep;    /* substring of subject or data, ASCII case ignored */
	const char *match;   /* words, all of them, from the full-text index; a word ending in * is a beginning */
	bool all;	     /* routine rows too */
	bool newest_first;
	unsigned limit;	     /* 0: none */
};

/* Nonzero stops. */
typedef int (*query_row_fn)(void *u, const struct store_row *row);

int query_open(const char *db_path, struct query_db **out, struct err *e);
void query_close(struct query_db *db);
/* From here on a query that takes longer fails: for whoever has others to serve. */
void query_bound(struct query_db *db, unsigned ms);
/* Rows come oldest first (unless newest_first); of more than @limit the newest are taken. Kinds that this program
 * does not know are left out. */
int query_run(struct query_db *db, const struct query *q, query_row_fn fn, void *u, struct err *e);
int query_row(struct query_db *db, uint64_t id, query_row_fn fn, void *u, struct err *e);
/* The frame behind a row, with its chain of processes; NULL: there is none. */
json_t *query_frame(struct query_db *db, const char *ws, const char *boot, uint32_t epoch, uint64_t seq);

uint64_t query_last_id(struct query_db *db);
/* Length of the longest name of a workspace that has rows. */
int query_ws_width(struct query_db *db);

/* Would query_run() give this row? For --follow; words of @match count as substrings here. */
bool query_fits(const struct query *q, const struct store_row *row);

/* The arguments of `holdfast timeline` as JSON (the "timeline" request of the API), and back. Unknown keys are refused. */
int query_from_json(const json_t *args, struct query *q, struct err *e);
json_t *query_to_json(const struct query *q);
void query_kind_add(struct query *q, enum event_kind kind);

/*
 * A row as the API, --json and the web give it:
 * {id, time (ISO 8601, UTC), host_ns, guest_ns, ws, boot, epoch, seq, engine, kind, verdict, weight, count, procs, subject,
 *  sentence, fold, data{}, hash}
 */
json_t *query_row_json(const struct store_row *row);
/* The reverse, for printers: strings point into @obj and into @data_out, which the caller frees. */
int query_row_from_json(const json_t *obj, struct store_row *row, char **data_out, struct err *e);

#endif
