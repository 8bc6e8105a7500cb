/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows to standard output, and on with --follow, to readers of every speed.
 *
 * A query that stands still keeps its snapshot of the database, and with it hostd's log of changes from being written
 * back: a pager that somebody left open would fill the disk. So what is written waits a second at most while a query is
 * open. A reader that takes longer ends the query; the rest is asked for when it reads again.
 */
#include "hostd/cli/timeline_list.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum {
	RETRY_MS = 500,
	STALL_MS = 1000,
	PIECE = 4096, /* what a pipe takes at once when poll() calls it writable */
};

struct listing {
	const struct timeline_listing *how;
	struct timeline_style style;
	FILE *rows; /* into text */
	char *text;
	size_t len, sent;
	uint64_t last;
	bool stalled, failed;
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* ---- to the reader ---- */

/* Writes until less than @keep bytes are left. 1: the reader took nothing for @wait_ms (-1: for ever). */
static int send_rows(struct listing *l, size_t keep, int wait_ms)
{
	fflush(l->rows);
	while (!l->failed && l->len - l->sent > keep) {
		struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
		size_t left = l->len - l->sent;
		ssize_t n = poll(&p, 1, wait_ms);

		if (!n)
			return 1;
		if (n > 0)
			n = write(STDOUT_FILENO, l->text + l->sent, left < PIECE ? left : PIECE);
		if (n > 0)
			l->sent += (size_t)n;
		else if (n < 0 && errno != EINTR && errno != EAGAIN)
			l->failed = true; /* it has gone: stop quietly */
	}
	if (l->sent == l->len) {
		rewind(l->rows);
		l->sent = 0;
	}
	return 0;
}

static void print_row(struct listing *l, const struct store_row *row)
{
	l->last = row->id;
	if (l->how->rows_for_programs) {
		export_row(l->rows, l->how->format, row);
	} else {
		_cleanup_json_ json_t *obj = query_row_json(row);

		timeline_print_row(l->rows, &l->style, obj);
	}
}

static int on_read(void *u, const struct store_row *row)
{
	struct listing *l = u;

	print_row(l, row);
	l->stalled = send_rows(l, PIECE, STALL_MS) != 0;
	return l->stalled || l->failed;
}

/* Everything that @q finds and is durable now; after it l->last is the newest row that was looked at, printed or not. */
static int read_rows(struct query_db *db, struct listing *l, struct query q, struct err *e)
{
	uint64_t end = query_last_id(db);

	for (;;) {
		l->stalled = false;
		if (query_run(db, &q, on_read, l, e))
			return -1;
		send_rows(l, 0, -1);
		if (!l->stalled || l->failed)
			break;
		q.after_id = l->last;
		q.limit = 0; /* what it was to leave out came before */
		if (!q.before_id || q.before_id > end)
			q.before_id = end + 1;
	}
	if (l->last < end)
		l->last = end;
	return 0;
}

/* ---- --follow ---- */

/* A row that hostd pushed, in the form of those that were read here. */
static int on_pushed(void *u, const json_t *event)
{
	struct listing *l = u;
	_cleanup_free_ char *data = NULL;
	struct store_row row;

	if (query_row_from_json(event, &row, &data, NULL))
		return 0; /* a kind that this program does not know */
	l->style.now_ns = now_ns();
	print_row(l, &row);
	send_rows(l, 0, -1);
	return l->failed;
}

/* 0: the reader went; 1: ask again; -1. hostd is started once: whoever stops it later meant it. */
static int follow_once(struct listing *l, const struct query *query, bool start, struct err *e)
{
	struct query q = *query;
	struct api_client *client;
	json_t *end;

	client = api_client_open(cli_paths(), start, e);
	if (!client)
		return start ? -1 : 1;
	q.after_id = l->last;
	end = api_client_call(client, "timeline.follow", query_to_json(&q), on_pushed, l, e);
	json_decref(end);
	api_client_close(client);
	return l->failed ? 0 : 1;
}

static int follow(struct query_db *db, struct listing *l, struct err *e)
{
	const struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };
	struct query q = l->how->q;
	int rc = 1;

	q.limit = 0;
	q.since_ns = 0;
	for (bool first = true; rc > 0 && !l->failed; first = false) {
		if (!first)
			nanosleep(&pause, NULL);
		q.after_id = l->last;
		if (read_rows(db, l, q, e))
			return -1;
		if (!l->failed)
			rc = follow_once(l, &q, first, e);
	}
	return rc < 0 ? -1 : 0;
}

int timeline_list(struct query_db *db, const struct timeline_listing *how, struct err *e)
{
	struct listing l = { .how = how, .style = { .color = how->color, .relative = how->relative, .now_ns = now_ns() } };
	int rc;

	l.rows = open_memstream(&l.text, &l.len);
	if (!l.rows)
		return err_set(e, "out of memory");
	l.style.ws_width = how->q.ws ? 0 : query_ws_width(db);
	if (how->rows_for_programs)
		fputs(export_header(how->format), l.rows);
	rc = read_rows(db, &l, how->q, e);
	if (!rc && how->follow)
		rc = follow(db, &l, e);
	fclose(l.rows);
	free(l.text);
	return rc;
}
