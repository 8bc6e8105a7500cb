/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `timeline --follow`: new rows to every client that asked for them.
 *
 * A client says which row it has last; the few that came since then are read from the database, and from there on each row
 * is pushed as the store tells of it. A client that is further back, or that reads too slowly, so that its connection's
 * queue is full, is let go: it reads the database by itself and asks again, and nobody waited for it.
 */
#include <stdlib.h>
#include <string.h>

#include "hostd/daemon/daemon.h"
#include "hostd/store/query.h"

enum { FOLLOWS_MAX = 16, BEHIND_MAX = 1000 };

struct follow {
	struct hostd *hostd;
	struct follow *next;
	struct api_call *call;
	json_t *params; /* query's strings point into it */
	struct query query;
	uint64_t last; /* pushed, or had before */
	bool failed;
};

static void follow_end(void *user)
{
	struct follow *f = user;
	struct follow **at = &f->hostd->follows;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	json_decref(f->params);
	free(f);
}

/* One row to one client, unless it had it. Nonzero: it does not keep up. */
static int push(struct follow *f, const struct store_row *row)
{
	if (row->id <= f->last || !query_fits(&f->query, row))
		return 0;
	f->last = row->id;
	return api_push(f->call, query_row_json(row));
}

static int push_missed(void *user, const struct store_row *row)
{
	struct follow *f = user;

	f->failed = push(f, row) != 0;
	return f->failed;
}

/* What came between the client's own reading and now: few rows, or hostd would read for one while all others wait. */
static int catch_up(struct follow *f, struct err *err)
{
	struct query query = f->query;
	struct query_db *db = NULL;
	int rc;

	query.limit = 0;
	query.newest_first = false;
	rc = query_open(f->hostd->db_path, &db, err);
	if (!rc)
		rc = query_last_id(db) > query.after_id + BEHIND_MAX ? err_set(err, "behind") :
								       query_run(db, &query, push_missed, f, err);
	query_close(db);
	if (!rc && f->failed)
		rc = err_set(err, "behind");
	return rc;
}

unsigned follow_count(const struct hostd *hostd)
{
	unsigned n = 0;

	for (const struct follow *f = hostd->follows; f; f = f->next)
		n++;
	return n;
}

void follow_add(struct hostd *hostd, struct api_call *call, const json_t *params)
{
	struct follow *f = follow_count(hostd) < FOLLOWS_MAX ? calloc(1, sizeof(*f)) : NULL;
	struct err err;

	if (!f) {
		api_fail(call, "too many commands follow the timeline");
		return;
	}
	*f = (struct follow){ .hostd = hostd, .call = call, .params = json_deep_copy(params) };
	if (query_from_json(f->params, &f->query, &err) || (f->query.after_id && catch_up(f, &err))) {
		api_fail_err(call, &err);
		json_decref(f->params);
		free(f);
		return;
	}
	f->next = hostd->follows;
	hostd->follows = f;
	api_call_on_cancel(call, follow_end, f);
}

void follow_row(struct hostd *hostd, const struct store_row *row)
{
	struct follow *f = hostd->follows;

	while (f) {
		struct api_call *call = f->call;

		if (!push(f, row)) {
			f = f->next;
			continue;
		}
		follow_end(f);
		api_call_on_cancel(call, NULL, NULL);
		api_fail(call, "behind");
		f = hostd->follows; /* more than this one may be gone; none gets a row twice */
	}
}
