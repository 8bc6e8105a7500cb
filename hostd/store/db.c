/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The database: schema, one transaction for a batch, loading at start, pruning.
 *
 * Theory of operation. WAL with synchronous=FULL: when COMMIT returns, the log has been synced, so whatever the
 * callers are told afterwards survives a kill and a power cut. Heads of the chains live in memory and move only when
 * the commit succeeded; a failed batch is rolled back and can be applied again. Names (workspaces, boot ids, kinds)
 * are stored once and referred to by number; what is hashed are the names.
 * SQLITE_CORRUPT and SQLITE_NOTADB are final (DB_DAMAGED); every other failure is worth another try (DB_RETRY).
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hostd/store/store_int.h"
#include "lib/cleanup.h"
#include "lib/hash.h"

#define SCHEMA_VERSION 2
#define NAMES_CACHED 1024
#define WORDS_MAX 4096

static const char schema[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
	"CREATE TABLE rows(id INTEGER PRIMARY KEY, ws INTEGER NOT NULL, boot INTEGER NOT NULL, epoch INTEGER NOT NULL,"
	" seq INTEGER NOT NULL, host_ns INTEGER NOT NULL, guest_ns INTEGER NOT NULL, engine INTEGER NOT NULL,"
	" kind INTEGER NOT NULL, verdict INTEGER NOT NULL, weight INTEGER NOT NULL, count INTEGER NOT NULL,"
	" procs INTEGER NOT NULL, fold INTEGER NOT NULL, subject TEXT NOT NULL, data TEXT NOT NULL,"
	" hash BLOB NOT NULL);"
	"CREATE INDEX rows_time ON rows(host_ns);"
	"CREATE INDEX rows_ws ON rows(ws);"
	"CREATE INDEX rows_weight ON rows(id, weight) WHERE weight > 0;"
	"CREATE INDEX rows_kind ON rows(kind);"
	"CREATE INDEX rows_verdict ON rows(id, verdict, ws) WHERE verdict > 1;"
	"CREATE INDEX rows_alarm ON rows(id, verdict, ws) WHERE verdict > 2;"
	"CREATE TABLE frames(id INTEGER PRIMARY KEY, ws INTEGER NOT NULL, boot INTEGER NOT NULL, epoch INTEGER NOT NULL,"
	" seq INTEGER NOT NULL, host_ns INTEGER NOT NULL, raw_sha BLOB, text BLOB NOT NULL, hash BLOB NOT NULL);"
	"CREATE UNIQUE INDEX frames_seq ON frames(boot, epoch, seq);"
	"CREATE TABLE boots(ws INTEGER NOT NULL, boot INTEGER NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,"
	" PRIMARY KEY(ws, boot, epoch))"
	" WITHOUT ROWID;"
	"CREATE TABLE checkpoints(n INTEGER PRIMARY KEY, row_id INTEGER NOT NULL, frame_id INTEGER NOT NULL,"
	" host_ns INTEGER NOT NULL, row_head BLOB NOT NULL, frame_head BLOB NOT NULL, sig BLOB NOT NULL);"
	"CREATE TABLE states(ws TEXT NOT NULL, key TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY(ws, key))"
	" WITHOUT ROWID;"
	"CREATE TABLE folds(key BLOB PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;"
	"CREATE VIRTUAL TABLE words USING fts5(text, content='', detail=none, columnsize=0,"
	" tokenize='unicode61 remove_diacritics 0');";

enum statement {
	ST_ROW,
	ST_WORDS,
	ST_FRAME,
	ST_BOOT,
	ST_CHECKPOINT,
	ST_STATE_PUT,
	ST_STATE_DROP,
	ST_FOLD_PUT,
	ST_FOLD_DROP,
	ST_NAME_GET,
	ST_NAME_PUT,
	ST_COUNT,
};

static const char *const statements[ST_COUNT] = {
	[ST_ROW] = "INSERT INTO rows VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[ST_WORDS] = "INSERT INTO words(rowid, text) VALUES(?,?)",
	[ST_FRAME] = "INSERT INTO frames VALUES(?,?,?,?,?,?,?,?,?)",
	[ST_BOOT] = "INSERT INTO boots VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)",
	[ST_CHECKPOINT] = "INSERT INTO checkpoints VALUES(?,?,?,?,?,?,?)",
	[ST_STATE_PUT] = "INSERT INTO states VALUES(?,?,?) ON CONFLICT DO UPDATE SET json = excluded.json",
	[ST_STATE_DROP] = "DELETE FROM states WHERE ws = ? AND key = ?",
	[ST_FOLD_PUT] = "INSERT INTO folds VALUES(?,?) ON CONFLICT DO UPDATE SET json = excluded.json",
	[ST_FOLD_DROP] = "DELETE FROM folds WHERE key = ?",
	[ST_NAME_GET] = "SELECT id FROM names WHERE name = ?",
	[ST_NAME_PUT] = "INSERT INTO names(name) VALUES(?)",
};

struct name {
	char *name;
	int64_t id;
};

struct db {
	sqlite3 *sql;
	sqlite3_stmt *st[ST_COUNT];
	const struct ed25519_secret *key;
	struct ed25519_public public;
	unsigned checkpoint_rows;
	uint8_t store_id[32];
	struct db_heads heads;
	struct checkpoint last;
	struct name names[NAMES_CACHED];
};

static int sql_err(struct db *db, struct err *e, const char *what)
{
	return err_set(e, "timeline: %s: %s", what, sqlite3_errmsg(db->sql));
}

static enum db_result result_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return DB_OK;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return DB_DAMAGED;
	default:
		return DB_RETRY;
	}
}

static int exec(struct db *db, const char *text)
{
	return sqlite3_exec(db->sql, text, NULL, NULL, NULL);
}

/* Runs a statement that returns no rows and makes it ready for its next use. */
static int run(sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	sqlite3_reset(st);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static void forget_names(struct db *db)
{
	for (size_t i = 0; i < NAMES_CACHED; i++) {
		free(db->names[i].name);
		db->names[i].name = NULL;
	}
}

static int name_id(struct db *db, const char *name, int64_t *id)
{
	uint32_t h = 2166136261u;
	struct name *slot;
	sqlite3_stmt *st = db->st[ST_NAME_GET];
	int rc;

	for (const char *c = name; *c; c++)
		h = (h ^ (unsigned char)*c) * 16777619u;
	slot = &db->names[h % NAMES_CACHED];
	if (slot->name && !strcmp(slot->name, name)) {
		*id = slot->id;
		return SQLITE_OK;
	}
	sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	*id = sqlite3_column_int64(st, 0);
	sqlite3_reset(st);
	if (rc == SQLITE_DONE) {
		st = db->st[ST_NAME_PUT];
		sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
		rc = run(st);
		if (rc)
			return rc;
		*id = sqlite3_last_insert_rowid(db->sql);
	} else if (rc != SQLITE_ROW) {
		return rc;
	}
	free(slot->name);
	slot->name = strdup(name);
	slot->id = *id;
	return SQLITE_OK;
}

/* Copies string values, not names of members, and drops numbers and what a tokenizer has no use for. */
void db_words(const char *subject, const char *data, char *out, size_t size)
{
	size_t len = 0;
	const char *p = data;

	for (const char *s = subject; *s && len + 2 < size; s++)
		out[len++] = *s;
	while (p && (p = strchr(p, '"'))) {
		const char *start = ++p, *q;

		while (*p && *p != '"')
			p += *p == '\\' && p[1] ? 2 : 1;
		if (!*p)
			break;
		q = p++;
		if (*p == ':' || len + (size_t)(q - start) + 2 >= size)
			continue;
		out[len++] = ' ';
		for (; start < q; start++) {
			if (*start == '\\') {
				start += start[1] == 'u' ? 5 : 1;
				out[len++] = ' ';
			} else {
				out[len++] = *start;
			}
		}
	}
	out[len] = '\0';
}

/* ---- writing ---- */

/* The heads as they will be once this transaction is committed. */
struct change {
	struct db_heads heads;
	struct checkpoint last;
	int64_t now_ns;
};

static int write_checkpoint(struct db *db, struct change *c)
{
	sqlite3_stmt *st = db->st[ST_CHECKPOINT];
	struct checkpoint cp = {
		.n = c->heads.checkpoint_n + 1,
		.row_id = c->heads.row_id,
		.frame_id = c->heads.frame_id,
		.host_ns = c->now_ns,
	};
	int rc;

	memcpy(cp.row_head, c->heads.row_head, STORE_HASH_BYTES);
	memcpy(cp.frame_head, c->heads.frame_head, STORE_HASH_BYTES);
	memcpy(cp.store_id, db->store_id, sizeof(cp.store_id));
	checkpoint_sign(&cp, db->key);
	sqlite3_bind_int64(st, 1, (int64_t)cp.n);
	sqlite3_bind_int64(st, 2, (int64_t)cp.row_id);
	sqlite3_bind_int64(st, 3, (int64_t)cp.frame_id);
	sqlite3_bind_int64(st, 4, cp.host_ns);
	sqlite3_bind_blob(st, 5, cp.row_head, STORE_HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_blob(st, 6, cp.frame_head, STORE_HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_blob(st, 7, cp.sig, ED25519_SIGNATURE, SQLITE_STATIC);
	rc = run(st);
	if (rc)
		return rc;
	c->heads.checkpoint_n = cp.n;
	c->heads.rows_since = 0;
	c->heads.frames_since = 0;
	c->last = cp;
	return SQLITE_OK;
}

static int write_row(struct db *db, struct change *c, struct store_row *r)
{
	struct chain_row cr = {
		.id = c->heads.row_id + 1,
		.ws = r->ws,
		.boot = r->boot ? r->boot : "",
		.epoch = r->epoch,
		.seq = r->seq,
		.host_ns = r->host_ns,
		.guest_ns = r->guest_ns,
		.engine = event_engine_name(event_defs[r->kind].engine),
		.kind = event_defs[r->kind].name,
		.verdict = event_verdict_name(r->verdict),
		.weight = r->weight,
		.count = r->count,
		.procs = r->procs,
		.fold = r->fold,
		.subject = r->subject,
		.data = r->data,
	};
	uint8_t digest[STORE_HASH_BYTES], head[STORE_HASH_BYTES];
	char words[WORDS_MAX];
	sqlite3_stmt *st = db->st[ST_ROW];
	int64_t ws, boot, kind;
	int rc;

	if ((rc = name_id(db, cr.ws, &ws)) || (rc = name_id(db, cr.boot, &boot)) || (rc = name_id(db, cr.kind, &kind)))
		return rc;
	memcpy(head, c->heads.row_head, sizeof(head));
	chain_row_digest(&cr, digest);
	chain_step(head, digest);
	sqlite3_bind_int64(st, 1, (int64_t)cr.id);
	sqlite3_bind_int64(st, 2, ws);
	sqlite3_bind_int64(st, 3, boot);
	sqlite3_bind_int64(st, 4, r->epoch);
	sqlite3_bind_int64(st, 5, (int64_t)r->seq);
	sqlite3_bind_int64(st, 6, r->host_ns);
	sqlite3_bind_int64(st, 7, r->guest_ns);
	sqlite3_bind_int(st, 8, event_defs[r->kind].engine);
	sqlite3_bind_int64(st, 9, kind);
	sqlite3_bind_int(st, 10, r->verdict);
	sqlite3_bind_int64(st, 11, r->weight);
	sqlite3_bind_int64(st, 12, r->count);
	sqlite3_bind_int64(st, 13, r->procs);
	sqlite3_bind_int(st, 14, r->fold);
	sqlite3_bind_text(st, 15, r->subject, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 16, r->data, -1, SQLITE_STATIC);
	sqlite3_bind_blob(st, 17, head, sizeof(head), SQLITE_STATIC);
	rc = run(st);
	if (rc)
		return rc;
	db_words(r->subject, r->data, words, sizeof(words));
	st = db->st[ST_WORDS];
	sqlite3_bind_int64(st, 1, (int64_t)cr.id);
	sqlite3_bind_text(st, 2, words, -1, SQLITE_STATIC);
	rc = run(st);
	if (rc)
		return rc;
	r->id = cr.id;
	memcpy(r->hash, head, sizeof(head));
	memcpy(c->heads.row_head, head, sizeof(head));
	c->heads.row_id = cr.id;
	c->heads.last_row_ns = r->host_ns;
	if (++c->heads.rows_since >= db->checkpoint_rows)
		return write_checkpoint(db, c);
	return SQLITE_OK;
}

static int write_frame(struct db *db, struct change *c, const char *ws_name, const struct item_frame *f)
{
	struct chain_frame cf = {
		.id = c->heads.frame_id + 1,
		.ws = ws_name,
		.boot = f->boot,
		.epoch = f->epoch,
		.seq = f->seq,
		.host_ns = f->host_ns,
		.raw_sha = f->raw_sha,
		.text = f->text,
		.text_len = f->len,
	};
	uint8_t digest[STORE_HASH_BYTES], head[STORE_HASH_BYTES];
	sqlite3_stmt *st = db->st[ST_FRAME];
	int64_t ws, boot;
	int rc;

	if ((rc = name_id(db, ws_name, &ws)) || (rc = name_id(db, f->boot, &boot)))
		return rc;
	memcpy(head, c->heads.frame_head, sizeof(head));
	chain_frame_digest(&cf, digest);
	chain_step(head, digest);
	sqlite3_bind_int64(st, 1, (int64_t)cf.id);
	sqlite3_bind_int64(st, 2, ws);
	sqlite3_bind_int64(st, 3, boot);
	sqlite3_bind_int64(st, 4, f->epoch);
	sqlite3_bind_int64(st, 5, (int64_t)f->seq);
	sqlite3_bind_int64(st, 6, f->host_ns);
	if (f->redacted) /* else it is that of the text */
		sqlite3_bind_blob(st, 7, f->raw_sha, STORE_HASH_BYTES, SQLITE_STATIC);
	else
		sqlite3_bind_null(st, 7);
	sqlite3_bind_blob(st, 8, f->text, (int)f->len, SQLITE_STATIC);
	sqlite3_bind_blob(st, 9, head, sizeof(head), SQLITE_STATIC);
	rc = run(st);
	if (rc)
		return rc;
	st = db->st[ST_BOOT];
	sqlite3_bind_int64(st, 1, ws);
	sqlite3_bind_int64(st, 2, boot);
	sqlite3_bind_int64(st, 3, f->epoch);
	sqlite3_bind_int64(st, 4, (int64_t)f->seq);
	rc = run(st);
	if (rc)
		return rc;
	memcpy(c->heads.frame_head, head, sizeof(head));
	c->heads.frame_id = cf.id;
	c->heads.frames_since++;
	return SQLITE_OK;
}

static int write_state(struct db *db, const char *ws, const struct item_state *s)
{
	sqlite3_stmt *st = db->st[s->json ? ST_STATE_PUT : ST_STATE_DROP];

	sqlite3_bind_text(st, 1, ws, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, s->key, -1, SQLITE_STATIC);
	if (s->json)
		sqlite3_bind_text(st, 3, s->json, -1, SQLITE_STATIC);
	return run(st);
}

static int write_folds(struct db *db, const struct batch *batch)
{
	int rc = SQLITE_OK;

	for (const struct item_row *r = batch->closings; r && !rc; r = r->next) {
		sqlite3_stmt *st = db->st[ST_FOLD_DROP];

		sqlite3_bind_blob(st, 1, r->fold_key, STORE_HASH_BYTES, SQLITE_STATIC);
		rc = run(st);
	}
	for (const struct fold_upsert *f = batch->folds; f && !rc; f = f->next) {
		sqlite3_stmt *st = db->st[ST_FOLD_PUT];

		sqlite3_bind_blob(st, 1, f->key, STORE_HASH_BYTES, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, f->json, -1, SQLITE_STATIC);
		rc = run(st);
	}
	return rc;
}

static int write_unit(struct db *db, struct change *c, const struct unit *u)
{
	int rc = SQLITE_OK;

	for (const struct item_frame *f = u->frames; f && !rc; f = f->next)
		rc = write_frame(db, c, u->ws, f);
	for (struct item_row *r = u->rows; r && !rc; r = r->next)
		if (!r->absorbed)
			rc = write_row(db, c, &r->r);
	for (const struct item_state *s = u->states; s && !rc; s = s->next)
		rc = write_state(db, u->ws, s);
	return rc;
}

static int write_batch(struct db *db, struct change *c, const struct batch *batch)
{
	int rc = exec(db, "BEGIN IMMEDIATE");

	/* windows that ended come first: their events were before those of the batch */
	for (struct item_row *r = batch->closings; r && !rc; r = r->next)
		rc = write_row(db, c, &r->r);
	for (const struct unit *u = batch->units; u && !rc; u = u->next)
		rc = write_unit(db, c, u);
	if (!rc)
		rc = write_folds(db, batch);
	if (!rc && batch->checkpoint && (c->heads.rows_since || c->heads.frames_since))
		rc = write_checkpoint(db, c);
	if (!rc)
		rc = exec(db, "COMMIT");
	return rc;
}

enum db_result db_apply(struct db *db, const struct batch *batch, int64_t now_ns, struct err *e)
{
	struct change c = { .heads = db->heads, .last = db->last, .now_ns = now_ns };
	int rc = write_batch(db, &c, batch);

	if (rc) {
		sql_err(db, e, "cannot write");
		if (!sqlite3_get_autocommit(db->sql))
			exec(db, "ROLLBACK");
		forget_names(db);
		return result_of(rc);
	}
	db->heads = c.heads;
	db->last = c.last;
	return DB_OK;
}

/* ---- pruning ---- */

static int delete_words(struct db *db, uint64_t first, uint64_t last)
{
	sqlite3_stmt *rows = NULL, *drop = NULL;
	char words[WORDS_MAX];
	int rc;

	rc = sqlite3_prepare_v2(db->sql, "SELECT id, subject, data FROM rows WHERE id BETWEEN ? AND ?", -1, &rows, NULL);
	if (!rc)
		rc = sqlite3_prepare_v2(db->sql, "INSERT INTO words(words, rowid, text) VALUES('delete', ?, ?)", -1, &drop,
					NULL);
	if (!rc) {
		sqlite3_bind_int64(rows, 1, (int64_t)first);
		sqlite3_bind_int64(rows, 2, (int64_t)last);
		while (!rc && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
			const char *subject = (const char *)sqlite3_column_text(rows, 1);
			const char *data = (const char *)sqlite3_column_text(rows, 2);

			db_words(subject ? subject : "", data ? data : "", words, sizeof(words));
			sqlite3_bind_int64(drop, 1, sqlite3_column_int64(rows, 0));
			sqlite3_bind_text(drop, 2, words, -1, SQLITE_STATIC);
			rc = run(drop);
		}
		if (rc == SQLITE_DONE)
			rc = SQLITE_OK;
	}
	sqlite3_finalize(rows);
	sqlite3_finalize(drop);
	return rc;
}

static int delete_upto(struct db *db, const char *table, const char *column, uint64_t last)
{
	char *text = sqlite3_mprintf("DELETE FROM %s WHERE %s <= %lld", table, column, (long long)last);
	int rc = text ? exec(db, text) : SQLITE_NOMEM;

	sqlite3_free(text);
	return rc;
}

/* The newest checkpoint that ended before the cutoff, stepping over at most @max rows from the first. */
static int prune_target(struct db *db, int64_t cutoff_ns, unsigned max, struct checkpoint *target, uint64_t *first,
			bool *more)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql,
				    "SELECT n, row_id, frame_id, (SELECT min(id) FROM rows),"
				    " (SELECT max(n) FROM checkpoints WHERE host_ns < ?1) FROM checkpoints"
				    " WHERE host_ns < ?1 AND n > (SELECT min(n) FROM checkpoints) AND"
				    " (row_id <= (SELECT min(id) FROM rows) + ?2 OR n = (SELECT min(n) + 1 FROM"
				    " checkpoints)) ORDER BY n DESC LIMIT 1",
				    -1, &st, NULL);

	target->n = 0;
	if (rc)
		return rc;
	sqlite3_bind_int64(st, 1, cutoff_ns);
	sqlite3_bind_int64(st, 2, max);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		target->n = (uint64_t)sqlite3_column_int64(st, 0);
		target->row_id = (uint64_t)sqlite3_column_int64(st, 1);
		target->frame_id = (uint64_t)sqlite3_column_int64(st, 2);
		*first = (uint64_t)sqlite3_column_int64(st, 3);
		*more = (uint64_t)sqlite3_column_int64(st, 4) > target->n;
	}
	sqlite3_finalize(st);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

enum db_result db_prune(struct db *db, int64_t cutoff_ns, unsigned max, uint64_t *removed, bool *more, struct err *e)
{
	struct checkpoint target;
	uint64_t first = 0;
	int rc;

	*removed = 0;
	*more = false;
	rc = exec(db, "BEGIN IMMEDIATE");
	if (!rc)
		rc = prune_target(db, cutoff_ns, max, &target, &first, more);
	if (!rc && target.n) {
		rc = delete_words(db, first, target.row_id);
		if (!rc)
			rc = delete_upto(db, "rows", "id", target.row_id);
		*removed = rc ? 0 : (uint64_t)sqlite3_changes64(db->sql);
		if (!rc)
			rc = delete_upto(db, "frames", "id", target.frame_id);
		if (!rc) /* the target stays: it is what the rest begins with */
			rc = delete_upto(db, "checkpoints", "n", target.n - 1);
	}
	if (!rc)
		rc = exec(db, "COMMIT");
	if (rc) {
		sql_err(db, e, "cannot prune");
		if (!sqlite3_get_autocommit(db->sql))
			exec(db, "ROLLBACK");
	}
	return result_of(rc);
}

/* ---- opening ---- */

static int put_meta(struct db *db, const char *key, const void *value, int n)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, "INSERT INTO meta VALUES(?,?)", -1, &st, NULL);

	if (!rc) {
		sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
		sqlite3_bind_blob(st, 2, value, n, SQLITE_STATIC);
		rc = sqlite3_step(st) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(db->sql);
	}
	sqlite3_finalize(st);
	return rc;
}

/* Copies one blob of exactly @n bytes. 1: no such row. */
static int get_blob(struct db *db, const char *text, void *out, int n)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, text, -1, &st, NULL), found = -1;

	if (!rc) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_DONE)
			found = 1;
		else if (rc == SQLITE_ROW && sqlite3_column_bytes(st, 0) == n)
			memcpy(out, sqlite3_column_blob(st, 0), (size_t)n), found = 0;
	}
	sqlite3_finalize(st);
	return found;
}

static int get_int(struct db *db, const char *text, int64_t *out)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, text, -1, &st, NULL), found = -1;

	if (!rc) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_DONE || (rc == SQLITE_ROW && sqlite3_column_type(st, 0) == SQLITE_NULL))
			found = 1;
		else if (rc == SQLITE_ROW)
			*out = sqlite3_column_int64(st, 0), found = 0;
	}
	sqlite3_finalize(st);
	return found;
}

static int create(struct db *db, struct err *e)
{
	char version[64];

	randombytes_buf(db->store_id, sizeof(db->store_id));
	snprintf(version, sizeof(version), "PRAGMA user_version=%d", SCHEMA_VERSION);
	if (exec(db, "BEGIN IMMEDIATE") || exec(db, schema) ||
	    put_meta(db, "store", db->store_id, sizeof(db->store_id)) ||
	    put_meta(db, "key", db->public.bytes, ED25519_PUBLIC) || exec(db, version) || exec(db, "COMMIT"))
		return sql_err(db, e, "cannot create");
	return 0;
}

static int load_last_checkpoint(struct db *db, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, "SELECT * FROM checkpoints ORDER BY n DESC LIMIT 1", -1, &st, NULL);
	struct checkpoint *c = &db->last;

	memcpy(c->store_id, db->store_id, sizeof(c->store_id));
	if (!rc)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && sqlite3_column_bytes(st, 4) == STORE_HASH_BYTES &&
	    sqlite3_column_bytes(st, 5) == STORE_HASH_BYTES && sqlite3_column_bytes(st, 6) == ED25519_SIGNATURE) {
		c->n = (uint64_t)sqlite3_column_int64(st, 0);
		c->row_id = (uint64_t)sqlite3_column_int64(st, 1);
		c->frame_id = (uint64_t)sqlite3_column_int64(st, 2);
		c->host_ns = sqlite3_column_int64(st, 3);
		memcpy(c->row_head, sqlite3_column_blob(st, 4), STORE_HASH_BYTES);
		memcpy(c->frame_head, sqlite3_column_blob(st, 5), STORE_HASH_BYTES);
		memcpy(c->sig, sqlite3_column_blob(st, 6), ED25519_SIGNATURE);
	} else if (rc != SQLITE_DONE) {
		sql_err(db, e, "cannot read checkpoints");
		sqlite3_finalize(st);
		return -1;
	}
	sqlite3_finalize(st);
	if (c->n && checkpoint_verify(c, &db->public))
		return err_set(e, "timeline: checkpoint %llu is not signed by this store's key",
			       (unsigned long long)c->n);
	return 0;
}

static int load_head(struct db *db, const char *table, uint64_t covered, const uint8_t covered_head[STORE_HASH_BYTES],
		     uint64_t *id, uint8_t head[STORE_HASH_BYTES], struct err *e)
{
	char text[96];
	int64_t last = 0;
	int found;

	snprintf(text, sizeof(text), "SELECT max(id) FROM %s", table);
	found = get_int(db, text, &last);
	if (found < 0)
		return sql_err(db, e, "cannot read the last row");
	if (found == 1 || (uint64_t)last <= covered) {
		if (found == 0 && (uint64_t)last < covered)
			return err_set(e, "timeline: the last %llu %s are missing, the signed checkpoint ends at %llu",
				       (unsigned long long)(covered - (uint64_t)last), table,
				       (unsigned long long)covered);
		*id = covered;
		memcpy(head, covered_head, STORE_HASH_BYTES);
		return 0;
	}
	snprintf(text, sizeof(text), "SELECT hash FROM %s ORDER BY id DESC LIMIT 1", table);
	if (get_blob(db, text, head, STORE_HASH_BYTES))
		return sql_err(db, e, "cannot read the last row");
	*id = (uint64_t)last;
	return 0;
}

static int load_heads(struct db *db, struct err *e)
{
	struct db_heads *h = &db->heads;
	uint8_t genesis[STORE_HASH_BYTES];

	if (load_last_checkpoint(db, e))
		return -1;
	if (!db->last.n) {
		chain_genesis(db->store_id, &db->public, genesis);
		memcpy(db->last.row_head, genesis, STORE_HASH_BYTES);
		memcpy(db->last.frame_head, genesis, STORE_HASH_BYTES);
	}
	h->checkpoint_n = db->last.n;
	if (load_head(db, "rows", db->last.row_id, db->last.row_head, &h->row_id, h->row_head, e) ||
	    load_head(db, "frames", db->last.frame_id, db->last.frame_head, &h->frame_id, h->frame_head, e))
		return -1;
	h->rows_since = h->row_id - db->last.row_id;
	h->frames_since = h->frame_id - db->last.frame_id;
	get_int(db, "SELECT host_ns FROM rows ORDER BY id DESC LIMIT 1", &h->last_row_ns);
	return 0;
}

static int load_meta(struct db *db, struct err *e)
{
	uint8_t key[ED25519_PUBLIC];
	int64_t version = 0;

	if (get_int(db, "PRAGMA user_version", &version) < 0)
		return sql_err(db, e, "cannot open");
	if (version == 0)
		return create(db, e);
	if (version != SCHEMA_VERSION)
		return err_set(e, "timeline: schema version %lld, this program knows %d", (long long)version,
			       SCHEMA_VERSION);
	if (get_blob(db, "SELECT value FROM meta WHERE key='store'", db->store_id, sizeof(db->store_id)) ||
	    get_blob(db, "SELECT value FROM meta WHERE key='key'", key, sizeof(key)))
		return sql_err(db, e, "cannot read its identity");
	if (memcmp(key, db->public.bytes, sizeof(key)) != 0)
		return err_set(e, "timeline: it was signed with another key than the one beside it");
	return 0;
}

int db_open(const struct db_config *cfg, struct db **out, struct err *e)
{
	struct db *db = calloc(1, sizeof(*db));
	mode_t mask;
	int rc;

	if (!db)
		return err_set(e, "timeline: out of memory");
	db->key = cfg->key;
	db->public = cfg->public;
	db->checkpoint_rows = cfg->checkpoint_rows;
	mask = umask(0077);
	rc = sqlite3_open_v2(cfg->path, &db->sql,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
			     cfg->vfs);
	umask(mask);
	if (rc) {
		err_set(e, "timeline %s: %s", cfg->path, db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc));
		db_close(db);
		return -1;
	}
	sqlite3_busy_timeout(db->sql, 5000);
	sqlite3_extended_result_codes(db->sql, 1);
	if (exec(db, "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA trusted_schema=OFF;"
		     "PRAGMA cache_size=-16384; PRAGMA journal_size_limit=67108864; PRAGMA wal_autocheckpoint=4000") ||
	    exec(db, cfg->no_sync ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=FULL")) {
		sql_err(db, e, "cannot open");
		err_prefix(e, "%s", cfg->path);
		db_close(db);
		return -1;
	}
	if (load_meta(db, e) || load_heads(db, e)) {
		db_close(db);
		return -1;
	}
	for (int i = 0; i < ST_COUNT; i++)
		if (sqlite3_prepare_v3(db->sql, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &db->st[i], NULL)) {
			sql_err(db, e, "cannot prepare");
			db_close(db);
			return -1;
		}
	*out = db;
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	for (int i = 0; i < ST_COUNT; i++)
		sqlite3_finalize(db->st[i]);
	sqlite3_close(db->sql);
	forget_names(db);
	free(db);
}

const struct db_heads *db_heads(const struct db *db)
{
	return &db->heads;
}

const struct checkpoint *db_last_checkpoint(const struct db *db)
{
	return &db->last;
}

int db_load_states(struct db *db, void (*fn)(void *u, const char *ws, const char *key, const char *json), void *u,
		   struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, "SELECT ws, key, json FROM states", -1, &st, NULL);

	while (!rc && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		fn(u, (const char *)sqlite3_column_text(st, 0), (const char *)sqlite3_column_text(st, 1),
		   (const char *)sqlite3_column_text(st, 2));
		rc = SQLITE_OK;
	}
	sqlite3_finalize(st);
	return rc == SQLITE_DONE ? 0 : sql_err(db, e, "cannot read states");
}

int db_load_boots(struct db *db, void (*fn)(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq),
		  void *u,
		  struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql,
				    "SELECT w.name, b.name, x.epoch, x.seq FROM boots x JOIN names w ON w.id = x.ws"
				    " JOIN names b ON b.id = x.boot ORDER BY x.boot",
				    -1, &st, NULL);

	while (!rc && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		fn(u, (const char *)sqlite3_column_text(st, 0), (const char *)sqlite3_column_text(st, 1),
		   (uint32_t)sqlite3_column_int64(st, 2), (uint64_t)sqlite3_column_int64(st, 3));
		rc = SQLITE_OK;
	}
	sqlite3_finalize(st);
	return rc == SQLITE_DONE ? 0 : sql_err(db, e, "cannot read boots");
}

int db_load_folds(struct db *db, struct fold *f, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, "SELECT key, json FROM folds", -1, &st, NULL);

	while (!rc && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (sqlite3_column_bytes(st, 0) == STORE_HASH_BYTES)
			fold_load(f, sqlite3_column_blob(st, 0), (const char *)sqlite3_column_text(st, 1));
		rc = SQLITE_OK;
	}
	sqlite3_finalize(st);
	return rc == SQLITE_DONE ? 0 : sql_err(db, e, "cannot read open windows");
}
