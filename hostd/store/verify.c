/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifying a timeline or an export.
 *
 * Theory of operation. Both walks are the same: start from a head that is signed (the oldest checkpoint that is left)
 * or defined (genesis), take row after row, recompute each digest and step the chain, and compare with what is
 * recorded. A row that was changed does not fit its own hash; a row that was changed together with all hashes after
 * it does not fit the next checkpoint, and without the key no checkpoint can be made. What the signatures are worth
 * depends on the key: one that the reader did not pin is "unknown key", whoever made it. Everything read is taken for
 * hostile: lengths are bounded, types checked, and a broken file ends with a reason, never with a crash.
 */
#include "hostd/store/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define LABEL_EXPORT "holdfast-export-1"
#define LINE_MAX_BYTES (1u << 20)
#define PINS_FILE_MAX 65536

/* ---- pins ---- */

static bool is_fingerprint(const char *text, size_t n)
{
	return n == STORE_FINGERPRINT_SIZE - 1 && !memcmp(text, "hf1:", 4) &&
	       strspn(text + 4, "0123456789abcdef") >= n - 4;
}

int verify_pin_add(struct verify_pins *pins, const char *text, struct err *e)
{
	struct ed25519_public key;

	if (pins->n == VERIFY_PINS_MAX)
		return err_set(e, "more than %d pinned keys", VERIFY_PINS_MAX);
	if (!strncmp(text, "hf1:", 4)) {
		if (!is_fingerprint(text, strlen(text)))
			return err_set(e, "%s: a fingerprint is hf1: and 64 hex digits", text);
		memcpy(pins->fingerprint[pins->n++], text, STORE_FINGERPRINT_SIZE);
		return 0;
	}
	if (ed25519_public_load(&key, text, e))
		return -1;
	chain_fingerprint(&key, pins->fingerprint[pins->n++]);
	return 0;
}

int verify_pins_load(struct verify_pins *pins, const char *path, struct err *e)
{
	struct buf text;
	char *line, *rest;
	int rc = 0;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	buf_init(&text, PINS_FILE_MAX);
	if (io_read_file(path, &text, e) || !(rest = buf_cstr(&text))) {
		buf_free(&text);
		return -1;
	}
	while (!rc && (line = strsep(&rest, "\n"))) {
		size_t n = strcspn(line, "# \t\r");

		line[n] = '\0';
		if (!n)
			continue;
		if (strncmp(line, "hf1:", 4) != 0)
			rc = err_set(e, "%s: \"%.80s\" is no fingerprint", path, line);
		else
			rc = verify_pin_add(pins, line, e);
	}
	buf_free(&text);
	return rc;
}

static bool is_pinned(const struct verify_pins *pins, const char *fingerprint)
{
	for (unsigned i = 0; i < pins->n; i++)
		if (!strcmp(pins->fingerprint[i], fingerprint))
			return true;
	return false;
}

int verify_pins_save(const char *path, const char *fingerprint, struct err *e)
{
	struct verify_pins *pins = calloc(1, sizeof(*pins));
	_cleanup_close_ int fd = -1;
	char line[STORE_FINGERPRINT_SIZE + 1];
	int rc;

	if (!pins)
		return err_set(e, "out of memory");
	rc = verify_pins_load(pins, path, e);
	if (!rc && is_pinned(pins, fingerprint)) {
		free(pins);
		return 0;
	}
	free(pins);
	if (rc)
		return rc;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(e, "%s", path);
	snprintf(line, sizeof(line), "%s\n", fingerprint);
	if (io_write_all(fd, line, strlen(line)) || fsync(fd) < 0)
		return err_errno(e, "%s", path);
	return 0;
}

/* ---- shared ---- */

static int bad(struct verify_report *r, uint64_t row, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int bad(struct verify_report *r, uint64_t row, const char *fmt, ...)
{
	struct err clean;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&clean, "%s", text); /* text of a hostile file loses its control characters */
	snprintf(r->text, sizeof(r->text), "%s", clean.text);
	r->bad_row = row;
	return -1;
}

static int check_key(const struct ed25519_public *key, const struct verify_pins *pins, struct verify_report *r)
{
	chain_fingerprint(key, r->fingerprint);
	if (!is_pinned(pins, r->fingerprint))
		return bad(r, 0, "unknown key %s: it is not pinned here (--key, or timeline.pins)", r->fingerprint);
	return 0;
}

int verify_next_checkpoint(sqlite3_stmt *st, const uint8_t store_id[32], struct checkpoint *c)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_DONE)
		return 0;
	if (rc != SQLITE_ROW || sqlite3_column_bytes(st, 4) != STORE_HASH_BYTES ||
	    sqlite3_column_bytes(st, 5) != STORE_HASH_BYTES || sqlite3_column_bytes(st, 6) != ED25519_SIGNATURE)
		return -1;
	c->n = (uint64_t)sqlite3_column_int64(st, 0);
	c->row_id = (uint64_t)sqlite3_column_int64(st, 1);
	c->frame_id = (uint64_t)sqlite3_column_int64(st, 2);
	c->host_ns = sqlite3_column_int64(st, 3);
	memcpy(c->row_head, sqlite3_column_blob(st, 4), STORE_HASH_BYTES);
	memcpy(c->frame_head, sqlite3_column_blob(st, 5), STORE_HASH_BYTES);
	memcpy(c->sig, sqlite3_column_blob(st, 6), ED25519_SIGNATURE);
	memcpy(c->store_id, store_id, sizeof(c->store_id));
	return 1;
}

static int get_blob(sqlite3 *sql, const char *text, void *out, int n)
{
	sqlite3_stmt *st = NULL;
	int ok = -1;

	if (!sqlite3_prepare_v2(sql, text, -1, &st, NULL) && sqlite3_step(st) == SQLITE_ROW &&
	    sqlite3_column_bytes(st, 0) == n) {
		memcpy(out, sqlite3_column_blob(st, 0), (size_t)n);
		ok = 0;
	}
	sqlite3_finalize(st);
	return ok;
}

static bool exists(sqlite3 *sql, const char *text)
{
	sqlite3_stmt *st = NULL;
	bool found = !sqlite3_prepare_v2(sql, text, -1, &st, NULL) && sqlite3_step(st) == SQLITE_ROW;

	sqlite3_finalize(st);
	return found;
}

int verify_base(sqlite3 *sql, struct ed25519_public *key, struct checkpoint *base, struct err *e)
{
	sqlite3_stmt *st = NULL;
	struct checkpoint first;
	uint8_t id[32];
	int found;

	if (get_blob(sql, "SELECT value FROM meta WHERE key='store'", id, sizeof(id)) ||
	    get_blob(sql, "SELECT value FROM meta WHERE key='key'", key->bytes, ED25519_PUBLIC))
		return err_set(e, "it is no timeline, or its first page is damaged");
	memset(base, 0, sizeof(*base));
	memcpy(base->store_id, id, sizeof(id));
	if (sqlite3_prepare_v2(sql, "SELECT * FROM checkpoints ORDER BY n LIMIT 1", -1, &st, NULL))
		return err_set(e, "%s", sqlite3_errmsg(sql));
	found = verify_next_checkpoint(st, id, &first);
	sqlite3_finalize(st);
	if (found < 0)
		return err_set(e, "its checkpoints can't be read");
	/* pruned: the oldest checkpoint stands for what is gone */
	if (found && ((first.row_id && !exists(sql, "SELECT 1 FROM rows WHERE id = 1")) ||
		      (first.frame_id && !exists(sql, "SELECT 1 FROM frames WHERE id = 1")))) {
		*base = first;
		return 0;
	}
	chain_genesis(id, key, base->row_head);
	memcpy(base->frame_head, base->row_head, STORE_HASH_BYTES);
	return 0;
}

/* ---- a database ---- */

struct walk {
	sqlite3 *sql;
	struct ed25519_public key;
	struct checkpoint base, last;
	struct verify_report *r;
};

static const char *col_text(sqlite3_stmt *st, int i)
{
	const char *s = (const char *)sqlite3_column_text(st, i);

	return s ? s : "";
}

static void row_digest(sqlite3_stmt *st, uint8_t digest[STORE_HASH_BYTES])
{
	struct chain_row row = {
		.id = (uint64_t)sqlite3_column_int64(st, 0),
		.ws = col_text(st, 1),
		.boot = col_text(st, 2),
		.epoch = (uint32_t)sqlite3_column_int64(st, 3),
		.seq = (uint64_t)sqlite3_column_int64(st, 4),
		.host_ns = sqlite3_column_int64(st, 5),
		.guest_ns = sqlite3_column_int64(st, 6),
		.kind = col_text(st, 7),
		.verdict = event_verdict_name((enum event_verdict)sqlite3_column_int(st, 8)),
		.weight = (uint32_t)sqlite3_column_int64(st, 9),
		.count = (uint32_t)sqlite3_column_int64(st, 10),
		.procs = (uint32_t)sqlite3_column_int64(st, 11),
		.fold = sqlite3_column_int(st, 12) != 0,
		.subject = col_text(st, 13),
		.data = col_text(st, 14),
		.engine = event_engine_name((enum event_engine)sqlite3_column_int(st, 16)),
	};

	chain_row_digest(&row, digest);
}

static void frame_digest(sqlite3_stmt *st, uint8_t digest[STORE_HASH_BYTES])
{
	uint8_t sha[HASH_BYTES];
	const void *text = sqlite3_column_blob(st, 7);
	size_t n = (size_t)sqlite3_column_bytes(st, 7);
	struct chain_frame frame = {
		.id = (uint64_t)sqlite3_column_int64(st, 0),
		.ws = col_text(st, 1),
		.boot = col_text(st, 2),
		.epoch = (uint32_t)sqlite3_column_int64(st, 3),
		.seq = (uint64_t)sqlite3_column_int64(st, 4),
		.host_ns = sqlite3_column_int64(st, 5),
		.text = text ? text : "",
		.text_len = text ? n : 0,
		.raw_sha = sha,
	};

	if (sqlite3_column_bytes(st, 6) == HASH_BYTES)
		memcpy(sha, sqlite3_column_blob(st, 6), HASH_BYTES);
	else
		hash_sha256(sha, frame.text, frame.text_len);
	chain_frame_digest(&frame, digest);
}

static int broken_read(struct walk *w, const char *what, uint64_t after)
{
	return bad(w->r, after + 1, "%s %llu can't be read: %s", what, (unsigned long long)(after + 1),
		   sqlite3_errmsg(w->sql));
}

/* Is @c what the chain came to at its row (or frame)? */
static int at_checkpoint(struct walk *w, const struct checkpoint *c, bool rows, const uint8_t head[STORE_HASH_BYTES],
			 uint64_t last_good)
{
	const char *what = rows ? "row" : "frame";

	if (checkpoint_verify(c, &w->key))
		return bad(w->r, last_good + 1, "checkpoint %llu is not signed by this timeline's key: %s %llu and on were rewritten",
			   (unsigned long long)c->n, what, (unsigned long long)(last_good + 1));
	if (memcmp(head, rows ? c->row_head : c->frame_head, STORE_HASH_BYTES) != 0)
		return bad(w->r, last_good + 1, "checkpoint %llu does not fit: %s %llu or a later one was rewritten",
			   (unsigned long long)c->n, what, (unsigned long long)(last_good + 1));
	return 0;
}

struct cursor {
	sqlite3_stmt *st;
	struct checkpoint c;
	int more;
	uint64_t expected_n;
};

static int next_checkpoint(struct walk *w, struct cursor *cur)
{
	cur->more = verify_next_checkpoint(cur->st, w->base.store_id, &cur->c);
	if (cur->more < 0)
		return bad(w->r, 0, "checkpoint %llu can't be read", (unsigned long long)cur->expected_n);
	if (cur->more && cur->c.n != cur->expected_n)
		return bad(w->r, 0, "checkpoint %llu is missing", (unsigned long long)cur->expected_n);
	cur->expected_n++;
	return 0;
}

static int walk_table(struct walk *w, bool rows)
{
	const char *what = rows ? "row" : "frame";
	uint64_t id = rows ? w->base.row_id : w->base.frame_id, last_good = id;
	uint8_t head[STORE_HASH_BYTES], digest[STORE_HASH_BYTES];
	struct cursor cur = { .expected_n = w->base.n + 1 };
	sqlite3_stmt *st = NULL;
	int rc = 0, step;

	memcpy(head, rows ? w->base.row_head : w->base.frame_head, sizeof(head));
	if (sqlite3_prepare_v2(w->sql,
			       rows ? "SELECT r.id, w.name, b.name, r.epoch, r.seq, r.host_ns, r.guest_ns, k.name, r.verdict,"
				      " r.weight, r.count, r.procs, r.fold, r.subject, r.data, r.hash, r.engine FROM rows r"
				      " LEFT JOIN names w ON w.id = r.ws LEFT JOIN names b ON b.id = r.boot"
				      " LEFT JOIN names k ON k.id = r.kind ORDER BY r.id" :
				      "SELECT f.id, w.name, b.name, f.epoch, f.seq, f.host_ns, f.raw_sha, f.text, f.hash"
				      " FROM frames f LEFT JOIN names w ON w.id = f.ws LEFT JOIN names b ON b.id = f.boot"
				      " ORDER BY f.id",
			       -1, &st, NULL) ||
	    sqlite3_prepare_v2(w->sql, "SELECT * FROM checkpoints WHERE n > ? ORDER BY n", -1, &cur.st, NULL)) {
		sqlite3_finalize(st);
		return bad(w->r, 0, "%s", sqlite3_errmsg(w->sql));
	}
	sqlite3_bind_int64(cur.st, 1, (int64_t)w->base.n);
	rc = next_checkpoint(w, &cur);
	for (;;) {
		int hash_at = rows ? 15 : 8;

		while (!rc && cur.more && (rows ? cur.c.row_id : cur.c.frame_id) == id) {
			rc = at_checkpoint(w, &cur.c, rows, head, last_good);
			last_good = id;
			w->last = cur.c;
			if (!rc)
				rc = next_checkpoint(w, &cur);
		}
		if (rc)
			break;
		step = sqlite3_step(st);
		if (step == SQLITE_DONE)
			break;
		if (step != SQLITE_ROW) {
			rc = broken_read(w, what, id);
			break;
		}
		if ((uint64_t)sqlite3_column_int64(st, 0) != id + 1) {
			rc = bad(w->r, id + 1, "%s %llu is missing", what, (unsigned long long)(id + 1));
			break;
		}
		id++;
		if (rows)
			row_digest(st, digest);
		else
			frame_digest(st, digest);
		chain_step(head, digest);
		if (sqlite3_column_bytes(st, hash_at) != STORE_HASH_BYTES ||
		    memcmp(head, sqlite3_column_blob(st, hash_at), STORE_HASH_BYTES) != 0) {
			rc = bad(w->r, id, "%s %llu does not fit: it was changed", what, (unsigned long long)id);
			break;
		}
		*(rows ? &w->r->rows : &w->r->frames) += 1;
	}
	if (!rc && cur.more)
		rc = bad(w->r, id + 1, "cut tail: %s %llu and on are missing, checkpoint %llu covers them up to %llu", what,
			 (unsigned long long)(id + 1), (unsigned long long)cur.c.n,
			 (unsigned long long)(rows ? cur.c.row_id : cur.c.frame_id));
	if (rows) {
		w->r->last_row = id;
		w->r->unsigned_rows = id - last_good;
		w->r->checkpoints = w->last.n - w->base.n + (w->base.n > 0);
	}
	sqlite3_finalize(st);
	sqlite3_finalize(cur.st);
	return rc;
}

/* The copy of the last checkpoint outside the database must not know more than the database. */
static int check_anchor(struct walk *w, const char *path)
{
	struct checkpoint anchor;
	struct err e;
	int rc = path ? checkpoint_anchor_read(path, &anchor, &e) : 1;

	if (rc > 0)
		return 0;
	if (rc < 0)
		return bad(w->r, 0, "%s", e.text);
	if (memcmp(anchor.store_id, w->base.store_id, sizeof(anchor.store_id)) != 0)
		return bad(w->r, 0, "the anchor %s belongs to another timeline", path);
	if (checkpoint_verify(&anchor, &w->key))
		return bad(w->r, 0, "the anchor %s is not signed by this timeline's key", path);
	if (anchor.n > w->last.n || anchor.row_id > w->r->last_row)
		return bad(w->r, w->r->last_row + 1, "cut tail: row %llu and on are missing, %llu rows had been signed",
			   (unsigned long long)(w->r->last_row + 1), (unsigned long long)anchor.row_id);
	return 0;
}

static int verify_open_db(struct walk *w, const char *anchor_path, const struct verify_pins *pins)
{
	struct err e;

	if (sqlite3_exec(w->sql, "PRAGMA trusted_schema=OFF; BEGIN", NULL, NULL, NULL) ||
	    verify_base(w->sql, &w->key, &w->base, &e))
		return bad(w->r, 0, "%s", sqlite3_errcode(w->sql) ? sqlite3_errmsg(w->sql) : e.text);
	if (check_key(&w->key, pins, w->r))
		return -1;
	if (w->base.n && checkpoint_verify(&w->base, &w->key))
		return bad(w->r, w->base.row_id + 1, "checkpoint %llu is not signed by this timeline's key",
			   (unsigned long long)w->base.n);
	w->last = w->base;
	w->r->first_row = w->base.row_id + 1;
	if (walk_table(w, true) || check_anchor(w, anchor_path) || walk_table(w, false))
		return -1;
	w->r->signed_ns = w->last.host_ns;
	return 0;
}

int verify_db(const char *db_path, const char *anchor_path, const struct verify_pins *pins, struct verify_report *report)
{
	struct walk w = { .r = report };
	int rc;

	memset(report, 0, sizeof(*report));
	if (access(db_path, R_OK) < 0)
		return bad(report, 0, "%s: %s", db_path, strerror(errno));
	if (sqlite3_open_v2(db_path, &w.sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) {
		rc = bad(report, 0, "%s: %s", db_path, sqlite3_errmsg(w.sql));
	} else {
		sqlite3_busy_timeout(w.sql, 5000);
		rc = verify_open_db(&w, anchor_path, pins);
	}
	sqlite3_close(w.sql);
	return rc;
}

/* ---- an export ---- */

static size_t end_text(const struct verify_end *end, uint8_t out[256])
{
	struct buf b;
	size_t n;

	buf_init(&b, 256);
	buf_put_str(&b, LABEL_EXPORT);
	buf_put(&b, end->store_id, 32);
	buf_put(&b, end->sha256, 32);
	buf_put_u64(&b, end->rows);
	buf_put_u64(&b, end->omitted);
	buf_put_u64(&b, end->frames);
	buf_put_u64(&b, end->last_id);
	buf_put(&b, end->head, STORE_HASH_BYTES);
	n = b.len;
	memcpy(out, b.data, n);
	buf_free(&b);
	return n;
}

void verify_end_sign(struct verify_end *end, const struct ed25519_secret *key)
{
	uint8_t text[256];
	size_t n = end_text(end, text);

	ed25519_sign(end->sig, key, text, n);
}

static json_t *hex_json(const uint8_t *p, size_t n)
{
	char hex[2 * ED25519_SIGNATURE + 1];

	hex_encode(hex, p, n);
	return json_string(hex);
}

json_t *verify_end_json(const struct verify_end *end)
{
	return json_pack("{s:{s:I,s:I,s:I,s:I,s:o,s:o,s:o}}", "end", "rows", (json_int_t)end->rows, "omitted",
			 (json_int_t)end->omitted, "frames", (json_int_t)end->frames, "last", (json_int_t)end->last_id,
			 "head", hex_json(end->head, STORE_HASH_BYTES), "sha256", hex_json(end->sha256, 32), "sig",
			 hex_json(end->sig, ED25519_SIGNATURE));
}

/* State of the walk over the lines of an export. */
struct reading {
	struct verify_report *r;
	crypto_hash_sha256_state sha;
	struct ed25519_public key;
	uint8_t store_id[32], head[STORE_HASH_BYTES];
	uint64_t id, last_good, checkpoint_n;
	unsigned long line;
	bool ended;
};

static int get_hex(const json_t *obj, const char *key, uint8_t *out, size_t n)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? hex_decode(out, n, s) : -1;
}

static int get_u64(const json_t *obj, const char *key, uint64_t *out)
{
	const json_t *v = json_object_get(obj, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return -1;
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int get_u32(const json_t *obj, const char *key, uint32_t *out)
{
	uint64_t v;

	if (get_u64(obj, key, &v) || v > UINT32_MAX)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int read_head(struct reading *rd, const json_t *obj, const struct verify_pins *pins)
{
	const json_t *start = json_object_get(obj, "start");
	struct checkpoint base;
	struct err e;

	if (json_integer_value(json_object_get(obj, "holdfast_timeline")) != 1 ||
	    get_hex(obj, "store", rd->store_id, 32) || get_hex(obj, "key", rd->key.bytes, ED25519_PUBLIC))
		return bad(rd->r, 0, "this is no timeline export of version 1");
	if (check_key(&rd->key, pins, rd->r))
		return -1;
	if (json_is_null(start)) {
		chain_genesis(rd->store_id, &rd->key, rd->head);
		rd->r->first_row = 1;
		return 0;
	}
	if (checkpoint_from_json(start, &base, &e))
		return bad(rd->r, 0, "its start: %s", e.text);
	if (memcmp(base.store_id, rd->store_id, 32) != 0 || checkpoint_verify(&base, &rd->key))
		return bad(rd->r, 0, "its start is not signed by its key");
	memcpy(rd->head, base.row_head, STORE_HASH_BYTES);
	rd->id = rd->last_good = base.row_id;
	rd->checkpoint_n = base.n;
	rd->r->first_row = base.row_id + 1;
	return 0;
}

static int read_row(struct reading *rd, const json_t *obj)
{
	uint8_t digest[STORE_HASH_BYTES], hash[STORE_HASH_BYTES];
	struct chain_row row = { 0 };
	const json_t *fold = json_object_get(obj, "fold");
	struct {
		const char *key, **at;
	} strings[] = { { "ws", &row.ws },	   { "boot", &row.boot },	{ "engine", &row.engine },
			{ "kind", &row.kind },	   { "verdict", &row.verdict }, { "subject", &row.subject },
			{ "data", &row.data } };

	if (get_u64(obj, "id", &row.id) || row.id != rd->id + 1)
		return bad(rd->r, rd->id + 1, "row %llu is missing", (unsigned long long)(rd->id + 1));
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		*strings[i].at = json_string_value(json_object_get(obj, strings[i].key));
		if (!*strings[i].at)
			return bad(rd->r, row.id, "row %llu has no \"%s\"", (unsigned long long)row.id, strings[i].key);
	}
	if (get_u32(obj, "epoch", &row.epoch) || get_u64(obj, "seq", &row.seq) || get_u32(obj, "weight", &row.weight) ||
	    get_u32(obj, "count", &row.count) || get_u32(obj, "procs", &row.procs) || !json_is_boolean(fold) ||
	    !json_is_integer(json_object_get(obj, "host_ns")) || !json_is_integer(json_object_get(obj, "guest_ns")) ||
	    get_hex(obj, "hash", hash, STORE_HASH_BYTES))
		return bad(rd->r, row.id, "row %llu is incomplete", (unsigned long long)row.id);
	row.host_ns = json_integer_value(json_object_get(obj, "host_ns"));
	row.guest_ns = json_integer_value(json_object_get(obj, "guest_ns"));
	row.fold = json_is_true(fold);
	chain_row_digest(&row, digest);
	chain_step(rd->head, digest);
	if (memcmp(rd->head, hash, STORE_HASH_BYTES) != 0)
		return bad(rd->r, row.id, "row %llu does not fit: it, or a digest before it, was changed",
			   (unsigned long long)row.id);
	rd->id = row.id;
	rd->r->rows++;
	return 0;
}

static int read_digest(struct reading *rd, const json_t *obj)
{
	uint8_t digest[STORE_HASH_BYTES];
	uint64_t id;

	if (get_u64(obj, "id", &id) || id != rd->id + 1)
		return bad(rd->r, rd->id + 1, "row %llu is missing", (unsigned long long)(rd->id + 1));
	if (get_hex(obj, "digest", digest, sizeof(digest)))
		return bad(rd->r, id, "the digest of row %llu is broken", (unsigned long long)id);
	chain_step(rd->head, digest);
	rd->id = id;
	rd->r->omitted++;
	return 0;
}

/* @skip: the checkpoint stands for rows that are not here. */
static int read_checkpoint(struct reading *rd, const json_t *obj, bool skip)
{
	struct checkpoint c;
	struct err e;

	if (checkpoint_from_json(obj, &c, &e))
		return bad(rd->r, rd->last_good + 1, "a checkpoint after row %llu: %s", (unsigned long long)rd->id, e.text);
	if (memcmp(c.store_id, rd->store_id, 32) != 0 || checkpoint_verify(&c, &rd->key))
		return bad(rd->r, rd->last_good + 1, "checkpoint %llu is not signed by its key",
			   (unsigned long long)c.n);
	if (c.n != rd->checkpoint_n + 1)
		return bad(rd->r, rd->last_good + 1, "checkpoint %llu is missing",
			   (unsigned long long)(rd->checkpoint_n + 1));
	if (skip) {
		if (c.row_id <= rd->id || rd->id != rd->last_good)
			return bad(rd->r, rd->id + 1, "checkpoint %llu can't stand for rows here", (unsigned long long)c.n);
		rd->r->omitted += c.row_id - rd->id;
		rd->id = c.row_id;
		memcpy(rd->head, c.row_head, STORE_HASH_BYTES);
	} else if (c.row_id > rd->id) {
		return bad(rd->r, rd->id + 1, "row %llu is missing", (unsigned long long)(rd->id + 1));
	} else if (c.row_id != rd->id || memcmp(c.row_head, rd->head, STORE_HASH_BYTES) != 0) {
		return bad(rd->r, rd->last_good + 1, "checkpoint %llu does not fit: row %llu or a later one was rewritten",
			   (unsigned long long)c.n, (unsigned long long)(rd->last_good + 1));
	}
	rd->last_good = rd->id;
	rd->checkpoint_n = c.n;
	rd->r->checkpoints++;
	rd->r->signed_ns = c.host_ns;
	return 0;
}

static int read_end(struct reading *rd, const json_t *obj)
{
	struct verify_end end = { .rows = 0 };
	crypto_hash_sha256_state sha = rd->sha;
	uint8_t have[32], text[256];
	size_t n;

	if (get_u64(obj, "rows", &end.rows) || get_u64(obj, "omitted", &end.omitted) ||
	    get_u64(obj, "frames", &end.frames) || get_u64(obj, "last", &end.last_id) ||
	    get_hex(obj, "head", end.head, STORE_HASH_BYTES) || get_hex(obj, "sha256", end.sha256, 32) ||
	    get_hex(obj, "sig", end.sig, ED25519_SIGNATURE))
		return bad(rd->r, 0, "its end is broken");
	memcpy(end.store_id, rd->store_id, 32);
	n = end_text(&end, text);
	if (ed25519_verify(end.sig, &rd->key, text, n))
		return bad(rd->r, 0, "its end is not signed by its key");
	if (end.rows != rd->r->rows || end.omitted != rd->r->omitted || end.frames != rd->r->frames ||
	    end.last_id != rd->id || memcmp(end.head, rd->head, STORE_HASH_BYTES) != 0)
		return bad(rd->r, rd->id + 1, "its end speaks of %llu rows up to %llu, here are %llu up to %llu",
			   (unsigned long long)end.rows, (unsigned long long)end.last_id,
			   (unsigned long long)rd->r->rows, (unsigned long long)rd->id);
	crypto_hash_sha256_final(&sha, have);
	if (memcmp(have, end.sha256, sizeof(have)) != 0)
		return bad(rd->r, 0, "something in it that is no row was changed");
	rd->ended = true;
	return 0;
}

static int read_line(struct reading *rd, const char *line, size_t n, const struct verify_pins *pins)
{
	static const struct json_limits limits = { .bytes = LINE_MAX_BYTES, .depth = 8, .values = 4096 };
	_cleanup_json_ json_t *obj = NULL;
	const json_t *part;
	struct err e;

	if (rd->ended)
		return bad(rd->r, 0, "there is something behind its end");
	obj = json_parse(line, n, &limits, &e);
	if (!json_is_object(obj))
		return bad(rd->r, rd->line > 1 ? rd->id + 1 : 0, rd->line > 1 ? "line %lu is broken" : "this is no timeline export",
			   rd->line);
	if (rd->line == 1)
		return read_head(rd, obj, pins);
	if ((part = json_object_get(obj, "row")))
		return read_row(rd, part);
	if (json_object_get(obj, "digest"))
		return read_digest(rd, obj);
	if ((part = json_object_get(obj, "checkpoint")))
		return read_checkpoint(rd, part, false);
	if ((part = json_object_get(obj, "skip")))
		return read_checkpoint(rd, part, true);
	if (json_object_get(obj, "frame")) {
		rd->r->frames++; /* vouched for by the end */
		return 0;
	}
	if ((part = json_object_get(obj, "end")))
		return read_end(rd, part);
	return bad(rd->r, rd->id + 1, "line %lu is none that an export has", rd->line);
}

/* A line without its newline; 1: there is one, 0: end of file, -1: too long. */
static int next_line(FILE *in, char **line, size_t *room, size_t *len)
{
	int c;

	*len = 0;
	while ((c = getc_unlocked(in)) != EOF && c != '\n') {
		if (*len + 1 >= *room) {
			size_t more = *room ? 2 * *room : 4096;
			char *bigger = more > 2 * LINE_MAX_BYTES ? NULL : realloc(*line, more);

			if (!bigger)
				return -1;
			*line = bigger;
			*room = more;
		}
		(*line)[(*len)++] = (char)c;
	}
	return c == '\n' || *len ? 1 : 0;
}

int verify_export(FILE *in, const struct verify_pins *pins, struct verify_report *report)
{
	struct reading rd = { .r = report };
	_cleanup_free_ char *line = NULL;
	size_t room = 0, len;
	int rc = 0, got = 0;

	memset(report, 0, sizeof(*report));
	crypto_hash_sha256_init(&rd.sha);
	while (!rc && (got = next_line(in, &line, &room, &len)) > 0) {
		rd.line++;
		rc = read_line(&rd, line ? line : "", len, pins);
		crypto_hash_sha256_update(&rd.sha, (const unsigned char *)(line ? line : ""), len);
		crypto_hash_sha256_update(&rd.sha, (const unsigned char *)"\n", 1);
	}
	report->last_row = rd.id;
	if (rc)
		return rc;
	if (got < 0)
		return bad(report, rd.id + 1, "line %lu is too long", rd.line + 1);
	if (!rd.ended)
		return bad(report, rd.line ? rd.id + 1 : 0, rd.line ? "cut tail: it ends after row %llu without its signed end" :
									"it is empty",
			   (unsigned long long)rd.id);
	return 0;
}

bool verify_is_export(const char *path)
{
	char magic[16] = "";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, magic, sizeof(magic) - 1);

	return n > 0 && magic[0] == '{';
}
