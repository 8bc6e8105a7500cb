/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exports: the signed file, CSV, JSON lines, OCSF.
 *
 * Theory of operation. The signed file (docs/protocol/timeline.md) is JSON lines: a head with the store's identity and
 * the checkpoint that the rows begin after, rows, digests of rows that the filter leaves out, checkpoints, and an end
 * whose signature covers the SHA-256 of all that comes before it. Where no row between two checkpoints was selected
 * both checkpoints stand for them. So a reader with the key can follow the chain from head to end without the rows
 * that are none of their business, and a changed, missing or added byte shows.
 */
#include "hostd/store/export.h"

#include <sodium.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/store/chain.h"
#include "hostd/store/ocsf.h"
#include "hostd/store/verify.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/json.h"

/* ---- one line a row ---- */

/* A cell that a spreadsheet would take for a formula gets an apostrophe; control characters are shown. */
static void csv_cell(FILE *out, const char *s)
{
	fputc('"', out);
	if (*s && strchr("=+-@\t\r\n|%", *s))
		fputc('\'', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"')
			fputs("\"\"", out);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\x%02x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

const char *export_header(enum export_format format)
{
	return format == EXPORT_CSV ?
		       "id,time,workspace,engine,kind,verdict,weight,count,processes,subject,sentence\r\n" : "";
}

static int csv_row(FILE *out, const struct store_row *row)
{
	_cleanup_json_ json_t *obj = query_row_json(row);

	if (!obj)
		return -1;
	fprintf(out, "%llu,", (unsigned long long)row->id);
	csv_cell(out, json_string_value(json_object_get(obj, "time")));
	fputc(',', out);
	csv_cell(out, row->ws);
	fprintf(out, ",%s,%s,%s,%u,%u,%u,", event_engine_name(event_defs[row->kind].engine), event_defs[row->kind].name,
		event_verdict_name(row->verdict), row->weight, row->count, row->procs);
	csv_cell(out, row->subject);
	fputc(',', out);
	csv_cell(out, json_string_value(json_object_get(obj, "sentence")));
	fputs("\r\n", out);
	return ferror(out) ? -1 : 0;
}

int export_row(FILE *out, enum export_format format, const struct store_row *row)
{
	_cleanup_json_ json_t *obj = NULL;
	_cleanup_free_ char *text = NULL;

	if (format == EXPORT_CSV)
		return csv_row(out, row);
	obj = format == EXPORT_OCSF ? ocsf_event(row) : query_row_json(row);
	if (!obj)
		return 0; /* a kind without an OCSF class */
	text = json_text(obj);
	if (!text)
		return -1;
	fputs(text, out);
	fputc('\n', out);
	return ferror(out) ? -1 : 0;
}

/* ---- the signed file ---- */

struct export {
	sqlite3 *sql;
	FILE *out;
	crypto_hash_sha256_state sha;
	const struct ed25519_secret *key;
	struct ed25519_public public;
	struct checkpoint base;
	uint64_t last_id;
	uint8_t head[STORE_HASH_BYTES];
	struct export_totals *totals;
	/* the interval since the last checkpoint: digests that wait to see whether any row of it is selected */
	uint8_t (*waiting)[STORE_HASH_BYTES];
	uint64_t first_waiting;
	size_t n_waiting, room;
	bool selected;
};

static void put(struct export *x, const char *text)
{
	crypto_hash_sha256_update(&x->sha, (const unsigned char *)text, strlen(text));
	crypto_hash_sha256_update(&x->sha, (const unsigned char *)"\n", 1);
	fputs(text, x->out);
	fputc('\n', x->out);
}

/* Consumes @obj. */
static int put_json(struct export *x, json_t *obj, struct err *e)
{
	_cleanup_free_ char *text = obj ? json_text(obj) : NULL;

	json_decref(obj);
	if (!text)
		return err_set(e, "export: out of memory");
	put(x, text);
	return ferror(x->out) ? err_errno(e, "export") : 0;
}

static json_t *hex_json(const uint8_t *p, size_t n)
{
	char hex[2 * ED25519_SIGNATURE + 1];

	hex_encode(hex, p, n);
	return json_string(hex);
}

static int put_waiting(struct export *x, struct err *e)
{
	for (size_t i = 0; i < x->n_waiting; i++)
		if (put_json(x,
			     json_pack("{s:I,s:o}", "id", (json_int_t)(x->first_waiting + i), "digest",
				       hex_json(x->waiting[i], STORE_HASH_BYTES)), e))
			return -1;
	x->totals->omitted += x->n_waiting;
	x->n_waiting = 0;
	return 0;
}

static int wait_for(struct export *x, uint64_t id, const uint8_t digest[STORE_HASH_BYTES], struct err *e)
{
	if (x->selected && !x->n_waiting) {
		x->totals->omitted++;
		return put_json(x,
				json_pack("{s:I,s:o}", "id", (json_int_t)id, "digest", hex_json(digest, STORE_HASH_BYTES)),
				e);
	}
	if (x->n_waiting == x->room) {
		size_t room = x->room ? 2 * x->room : 1024;
		void *more = realloc(x->waiting, room * STORE_HASH_BYTES);

		if (!more)
			return err_set(e, "export: out of memory");
		x->waiting = more;
		x->room = room;
	}
	if (!x->n_waiting)
		x->first_waiting = id;
	memcpy(x->waiting[x->n_waiting++], digest, STORE_HASH_BYTES);
	return 0;
}

static const char *col_text(sqlite3_stmt *st, int i)
{
	const char *s = (const char *)sqlite3_column_text(st, i);

	return s ? s : "";
}

static json_t *row_json(const struct chain_row *r, const uint8_t hash[STORE_HASH_BYTES])
{
	return json_pack("{s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:s,s:s,s:s,s:I,s:I,s:I,s:b,s:s,s:s,s:o}", "id",
			 (json_int_t)r->id, "ws", r->ws, "boot", r->boot, "epoch", (json_int_t)r->epoch, "seq",
			 (json_int_t)r->seq, "host_ns", (json_int_t)r->host_ns, "guest_ns", (json_int_t)r->guest_ns,
			 "engine", r->engine, "kind", r->kind, "verdict", r->verdict, "weight", (json_int_t)r->weight,
			 "count", (json_int_t)r->count, "procs", (json_int_t)r->procs, "fold", r->fold, "subject",
			 r->subject, "data", r->data, "hash", hex_json(hash, STORE_HASH_BYTES));
}

static int put_row(struct export *x, sqlite3_stmt *st, struct err *e)
{
	int verdict = sqlite3_column_int(st, 8), engine = sqlite3_column_int(st, 17);
	struct chain_row r = {
		.id = (uint64_t)sqlite3_column_int64(st, 0),
		.ws = col_text(st, 1),
		.boot = col_text(st, 2),
		.epoch = (uint32_t)sqlite3_column_int64(st, 3),
		.seq = (uint64_t)sqlite3_column_int64(st, 4),
		.host_ns = sqlite3_column_int64(st, 5),
		.guest_ns = sqlite3_column_int64(st, 6),
		.kind = col_text(st, 7),
		.verdict = event_verdict_name((enum event_verdict)verdict),
		.engine = event_engine_name((enum event_engine)engine),
		.weight = (uint32_t)sqlite3_column_int64(st, 9),
		.count = (uint32_t)sqlite3_column_int64(st, 10),
		.procs = (uint32_t)sqlite3_column_int64(st, 11),
		.fold = sqlite3_column_int(st, 12) != 0,
		.subject = col_text(st, 13),
		.data = col_text(st, 14),
	};
	uint8_t digest[STORE_HASH_BYTES];
	bool wanted = sqlite3_column_int(st, 16) != 0;

	chain_row_digest(&r, digest);
	chain_step(x->head, digest);
	x->last_id = r.id;
	if (sqlite3_column_bytes(st, 15) != STORE_HASH_BYTES ||
	    memcmp(x->head, sqlite3_column_blob(st, 15), STORE_HASH_BYTES) != 0)
		return err_set(e, "export: row %llu does not fit the chain; holdfast timeline verify says more",
			       (unsigned long long)r.id);
	if (!wanted)
		return wait_for(x, r.id, digest, e);
	x->selected = true;
	if (put_waiting(x, e))
		return -1;
	x->totals->rows++;
	return put_json(x, json_pack("{s:o}", "row", row_json(&r, x->head)), e);
}

/* The end of an interval: either its digests are there, or the checkpoint stands for them. */
static int put_checkpoint(struct export *x, const struct checkpoint *c, struct err *e)
{
	bool skip = !x->selected && x->n_waiting;

	if (skip)
		x->totals->omitted += x->n_waiting;
	x->n_waiting = 0;
	x->selected = false;
	return put_json(x, json_pack("{s:o}", skip ? "skip" : "checkpoint", checkpoint_json(c)), e);
}

/*
 * Which rows are selected is the same WHERE as query_run() has; it is asked per row as an expression, so one walk by id
 * sees all rows. For that the ids of the query are put into a table of this connection first.
 */
static int select_one(void *u, const struct store_row *row)
{
	sqlite3_stmt *st = u;

	sqlite3_bind_int64(st, 1, (int64_t)row->id);
	sqlite3_step(st);
	sqlite3_reset(st);
	return 0;
}

static int select_rows(struct export *x, const char *db_path, const struct query *q, struct err *e)
{
	struct query all = *q;
	struct query_db *db = NULL;
	sqlite3_stmt *st = NULL;
	int rc;

	all.limit = 0;
	all.newest_first = false;
	all.after_id = all.before_id = 0;
	if (sqlite3_exec(x->sql, "PRAGMA temp_store=FILE; CREATE TEMP TABLE wanted(id INTEGER PRIMARY KEY); BEGIN", NULL,
			 NULL, NULL) ||
	    sqlite3_prepare_v2(x->sql, "INSERT INTO wanted VALUES(?)", -1, &st, NULL))
		return err_set(e, "export: %s", sqlite3_errmsg(x->sql));
	/* the reader's snapshot begins here; rows that come meanwhile are not in it */
	if (sqlite3_exec(x->sql, "SELECT count(*) FROM meta", NULL, NULL, NULL)) {
		sqlite3_finalize(st);
		return err_set(e, "export: %s", sqlite3_errmsg(x->sql));
	}
	rc = query_open(db_path, &db, e);
	if (!rc)
		rc = query_run(db, &all, select_one, st, e);
	query_close(db);
	sqlite3_finalize(st);
	return rc;
}

static int put_frames(struct export *x, const char *ws, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = 0;

	if (sqlite3_prepare_v2(x->sql,
			       "SELECT f.id, w.name, b.name, f.epoch, f.seq, f.host_ns, f.text FROM frames f JOIN names w ON"
			       " w.id = f.ws JOIN names b ON b.id = f.boot WHERE ?1 IS NULL OR w.name = ?1 ORDER BY f.id",
			       -1, &st, NULL))
		return err_set(e, "export: %s", sqlite3_errmsg(x->sql));
	if (ws)
		sqlite3_bind_text(st, 1, ws, -1, SQLITE_STATIC);
	while (!rc && sqlite3_step(st) == SQLITE_ROW) {
		size_t n = (size_t)sqlite3_column_bytes(st, 6), len = 4 * ((n + 2) / 3) + 1;
		_cleanup_free_ char *b64 = malloc(len);

		if (!b64) {
			rc = err_set(e, "export: out of memory");
			break;
		}
		sodium_bin2base64(b64, len, sqlite3_column_blob(st, 6), n, sodium_base64_VARIANT_ORIGINAL);
		x->totals->frames++;
		rc = put_json(x,
			      json_pack("{s:{s:I,s:s,s:s,s:I,s:I,s:I,s:s}}", "frame", "id",
					(json_int_t)sqlite3_column_int64(st, 0), "ws", col_text(st, 1), "boot",
					col_text(st, 2), "epoch", (json_int_t)sqlite3_column_int64(st, 3), "seq",
					(json_int_t)sqlite3_column_int64(st, 4), "host_ns",
					(json_int_t)sqlite3_column_int64(st, 5), "text_b64", b64), e);
	}
	sqlite3_finalize(st);
	return rc;
}

static int put_head(struct export *x, const struct query *q, struct err *e)
{
	json_t *start = x->base.n ? checkpoint_json(&x->base) : json_null();

	return put_json(x,
			json_pack("{s:i,s:o,s:o,s:o,s:o}", "holdfast_timeline", 1, "store", hex_json(x->base.store_id, 32),
				  "key", hex_json(x->public.bytes, ED25519_PUBLIC), "filter", query_to_json(q), "start",
				  start), e);
}

/* The end is not part of what it signs. */
static int put_end(struct export *x, struct err *e)
{
	struct verify_end end = { .rows = x->totals->rows, .omitted = x->totals->omitted,
				  .frames = x->totals->frames, .last_id = x->last_id };
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *obj = NULL;

	memcpy(end.store_id, x->base.store_id, sizeof(end.store_id));
	memcpy(end.head, x->head, sizeof(end.head));
	crypto_hash_sha256_final(&x->sha, end.sha256);
	verify_end_sign(&end, x->key);
	obj = verify_end_json(&end);
	text = obj ? json_text(obj) : NULL;
	if (!text)
		return err_set(e, "export: out of memory");
	fputs(text, x->out);
	fputc('\n', x->out);
	return fflush(x->out) || ferror(x->out) ? err_errno(e, "export") : 0;
}

static int walk(struct export *x, struct err *e)
{
	sqlite3_stmt *rows = NULL, *cps = NULL;
	struct checkpoint c = { .n = 0 };
	int rc = 0, more;
	char walk_sql[512];

	snprintf(walk_sql, sizeof(walk_sql),
		 "SELECT r.id, w.name, b.name, r.epoch, r.seq, r.host_ns, r.guest_ns, k.name, r.verdict, r.weight, r.count,"
		 " r.procs, r.fold, r.subject, r.data, r.hash, EXISTS(SELECT 1 FROM wanted t WHERE t.id = r.id), r.engine"
		 " FROM rows r JOIN names w ON w.id = r.ws JOIN names b ON b.id = r.boot JOIN names k ON k.id = r.kind"
		 " ORDER BY r.id");
	if (sqlite3_prepare_v2(x->sql, walk_sql, -1, &rows, NULL) ||
	    sqlite3_prepare_v2(x->sql, "SELECT * FROM checkpoints WHERE n > ? ORDER BY n", -1, &cps, NULL)) {
		sqlite3_finalize(rows);
		return err_set(e, "export: %s", sqlite3_errmsg(x->sql));
	}
	sqlite3_bind_int64(cps, 1, (int64_t)x->base.n);
	more = verify_next_checkpoint(cps, x->base.store_id, &c);
	while (!rc && sqlite3_step(rows) == SQLITE_ROW) {
		/* checkpoints of frames alone may end at the same row */
		rc = put_row(x, rows, e);
		while (!rc && more && c.row_id <= x->last_id) {
			rc = put_checkpoint(x, &c, e);
			more = verify_next_checkpoint(cps, x->base.store_id, &c);
		}
	}
	if (!rc)
		rc = put_waiting(x, e);
	sqlite3_finalize(rows);
	sqlite3_finalize(cps);
	return rc;
}

int export_file(const char *db_path, const char *key_path, const struct query *q, bool frames, FILE *out,
		struct export_totals *totals, struct err *e)
{
	struct export x = { .out = out, .totals = totals };
	struct ed25519_secret *key = ed25519_secret_load(key_path, e);
	struct ed25519_public stored;
	int rc;

	memset(totals, 0, sizeof(*totals));
	if (!key)
		return -1;
	x.key = key;
	ed25519_public_of(&x.public, key);
	crypto_hash_sha256_init(&x.sha);
	if (sqlite3_open_v2(db_path, &x.sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) {
		rc = err_set(e, "timeline %s: %s", db_path, sqlite3_errmsg(x.sql));
	} else {
		sqlite3_busy_timeout(x.sql, 5000);
		rc = select_rows(&x, db_path, q, e);
		if (!rc)
			rc = verify_base(x.sql, &stored, &x.base, e);
		if (!rc && memcmp(stored.bytes, x.public.bytes, ED25519_PUBLIC) != 0)
			rc = err_set(e, "export: %s is not the key of this timeline", key_path);
		memcpy(x.head, x.base.row_head, STORE_HASH_BYTES);
		x.last_id = x.base.row_id;
		if (!rc)
			rc = put_head(&x, q, e);
		if (!rc)
			rc = walk(&x, e);
		if (!rc && frames)
			rc = put_frames(&x, q->ws, e);
		if (!rc)
			rc = put_end(&x, e);
	}
	sqlite3_close(x.sql);
	ed25519_secret_free(key);
	free(x.waiting);
	return rc;
}
