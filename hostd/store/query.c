/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading the timeline: from filters to one SQL statement, rows out, and both as JSON. */
#include "hostd/store/query.h"

#include <ctype.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/json.h"

#define SQL_MAX 65536
#define KINDS_MERGED 16 /* more than these are looked for in one pass over all rows */
#define MATCH_MAX 1024

#define LOOK_AT_CLOCK 4096 /* instructions of SQLite's machine, some tens of microseconds */

struct query_db {
	sqlite3 *sql;
	unsigned bound_ms; /* 0: none */
	int64_t end_ns;
};

#define COLUMNS                                                                                                        \
	"r.id, w.name, b.name, r.epoch, r.seq, r.host_ns, r.guest_ns, k.name, r.verdict, r.weight, r.count, r.procs,"  \
	" r.fold, r.subject, r.data, r.hash"
#define JOINS " JOIN names w ON w.id = r.ws JOIN names b ON b.id = r.boot JOIN names k ON k.id = r.kind"

int query_open(const char *db_path, struct query_db **out, struct err *e)
{
	struct query_db *db;
	struct stat st;

	if (stat(db_path, &st) < 0)
		return err_errno(e, "timeline %s", db_path);
	db = calloc(1, sizeof(*db));
	if (!db)
		return err_set(e, "timeline: out of memory");
	if (sqlite3_open_v2(db_path, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) {
		err_set(e, "timeline %s: %s", db_path, db->sql ? sqlite3_errmsg(db->sql) : "out of memory");
		query_close(db);
		return -1;
	}
	sqlite3_busy_timeout(db->sql, 5000);
	sqlite3_exec(db->sql, "PRAGMA trusted_schema=OFF; PRAGMA query_only=ON", NULL, NULL, NULL);
	*out = db;
	return 0;
}

void query_close(struct query_db *db)
{
	if (!db)
		return;
	sqlite3_close(db->sql);
	free(db);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static int too_long(void *u)
{
	return now_ns() > ((struct query_db *)u)->end_ns;
}

void query_bound(struct query_db *db, unsigned ms)
{
	db->bound_ms = ms;
	sqlite3_progress_handler(db->sql, LOOK_AT_CLOCK, too_long, db);
}

void query_kind_add(struct query *q, enum event_kind kind)
{
	q->kinds[kind / 64] |= 1ull << (kind % 64);
}

static bool has_kind(const struct query *q, int kind)
{
	return q->kinds[kind / 64] >> (kind % 64) & 1;
}

static int kinds_of(const struct query *q)
{
	int n = 0;

	for (size_t i = 0; i < sizeof(q->kinds) / sizeof(q->kinds[0]); i++)
		n += __builtin_popcountll(q->kinds[i]);
	return n;
}

static bool any_kind(const struct query *q)
{
	return kinds_of(q) > 0;
}

/* A list of the kinds that @want says yes to, as SQL. Names are ours: no quoting is needed. */
static void put_kinds(struct buf *b, const struct query *q, bool listed, bool indexed)
{
	const char *comma = "";

	buf_putf(b, " AND %sr.kind IN (SELECT id FROM names WHERE name IN (", indexed ? "" : "+");
	for (int k = 0; k < EVENT_COUNT; k++) {
		if (listed ? !has_kind(q, k) : (event_defs[k].flags & EVENT_ROUTINE) != 0)
			continue;
		buf_putf(b, "%s'%s'", comma, event_defs[k].name);
		comma = ",";
	}
	buf_put_str(b, "))");
}

/* Words for the full-text index: each a quoted string, so that nothing of a user's text is syntax. */
static void match_text(const char *words, char *out, size_t size)
{
	size_t len = 0;

	while (*words) {
		size_t n = strcspn(words, " \t\n");
		bool beginning = n && words[n - 1] == '*';

		if (n && len + 2 * n + 8 < size) {
			out[len++] = '"';
			for (size_t i = 0; i < n - beginning; i++) {
				/* detail=none knows no phrases: what the tokenizer splits becomes words of its own */
				unsigned char c = (unsigned char)words[i];

				if (isalnum(c) || c >= 0x80) {
					out[len++] = (char)c;
				} else if (i && out[len - 1] != '"') {
					memcpy(out + len, "\" \"", 3);
					len += 3;
				}
			}
			out[len++] = '"';
			if (beginning)
				out[len++] = '*';
			out[len++] = ' ';
		}
		words += n;
		words += strspn(words, " \t\n");
	}
	out[len] = '\0';
}

static void put_bits(struct buf *b, const char *column, uint32_t bits)
{
	const char *comma = "";

	buf_putf(b, " AND %s IN (", column);
	for (int i = 0; bits >> i; i++)
		if (bits >> i & 1) {
			buf_putf(b, "%s%d", comma, i);
			comma = ",";
		}
	buf_put_str(b, ")");
}

/* @kind: only this one; -1: those that @q wants. Unless they are to be found by their index, a plus keeps SQLite from it. */
static void put_where(struct buf *b, const struct query *q, int kind, bool indexed)
{
	buf_put_str(b, " WHERE 1");
	if (q->ws)
		buf_put_str(b, " AND r.ws = (SELECT id FROM names WHERE name = :ws)");
	if (q->since_ns)
		buf_putf(b, " AND r.host_ns >= %lld", (long long)q->since_ns);
	if (q->until_ns)
		buf_putf(b, " AND r.host_ns < %lld", (long long)q->until_ns);
	if (q->after_id)
		buf_putf(b, " AND r.id > %llu", (unsigned long long)q->after_id);
	if (q->before_id)
		buf_putf(b, " AND r.id < %llu", (unsigned long long)q->before_id);
	if (kind >= 0)
		buf_putf(b, " AND r.kind = (SELECT id FROM names WHERE name = '%s')", event_defs[kind].name);
	else if (any_kind(q))
		put_kinds(b, q, true, indexed);
	else if (!q->all)
		put_kinds(b, q, false, indexed);
	if (q->engines)
		put_bits(b, "r.engine", q->engines);
	if (q->verdicts)
		put_bits(b, "r.verdict", q->verdicts);
	if (q->min_weight)
		buf_putf(b, " AND r.weight > 0 AND r.weight >= %u", q->min_weight);
	if (q->match)
		buf_put_str(b, " AND r.id IN (SELECT rowid FROM words WHERE words MATCH :match)");
	if (q->grep)
		buf_put_str(b, " AND (instr(lower(r.subject), lower(:grep)) OR instr(lower(r.data), lower(:grep)))");
}

/* The index that has the rows of all these verdicts, and the fewest others; NULL: none. */
static const char *verdict_index(uint32_t verdicts)
{
	uint32_t alarm = 1u << VERDICT_WARNING | 1u << VERDICT_ALARM, notable = alarm | 1u << VERDICT_DENIED;

	if (!verdicts || verdicts & ~notable)
		return NULL;
	return verdicts & ~alarm ? "rows_verdict" : "rows_alarm";
}

static void put_select(struct buf *b, const struct query *q, const char *index, int kind)
{
	buf_put_str(b, "SELECT " COLUMNS " FROM rows r");
	if (index)
		buf_putf(b, " INDEXED BY %s", index);
	buf_put_str(b, JOINS);
	put_where(b, q, kind, index && !strcmp(index, "rows_kind"));
	/* SQLite takes a partial index only for a query that repeats its condition */
	if (index && !strcmp(index, "rows_verdict"))
		buf_put_str(b, " AND r.verdict > 1");
	if (index && !strcmp(index, "rows_alarm"))
		buf_put_str(b, " AND r.verdict > 2");
}

/* One pass for each kind, each in the order of ids, and SQLite merges them: what is rare is found without reading all. */
static void put_merged(struct buf *b, const struct query *q)
{
	const char *between = "";

	for (int k = 0; k < EVENT_COUNT; k++)
		if (has_kind(q, k)) {
			buf_put_str(b, between);
			put_select(b, q, "rows_kind", k);
			between = " UNION ALL ";
		}
}

/* The kinds of the engines that were asked for: their rows are found by the index on kinds. */
static void kinds_of_engines(struct query *q)
{
	for (int k = 0; k < EVENT_COUNT; k++)
		if (q->engines >> event_defs[k].engine & 1 && (q->all || !(event_defs[k].flags & EVENT_ROUTINE)))
			query_kind_add(q, (enum event_kind)k);
}

/* Those that say little: to sort what they said costs less than to read what the others said. */
static bool only_quiet(uint32_t engines)
{
	return engines && !(engines & ~(1u << ENGINE_POLICY | 1u << ENGINE_LIFECYCLE | 1u << ENGINE_JUDGE));
}

/*
 * Which way is taken: a time bound goes by the index on time (the unary plus keeps SQLite from walking the table by
 * id in the hope of an early limit), a few kinds, a quiet engine, a weight or a verdict by theirs, all else by id.
 */
static int statement_for(const struct query *query, struct buf *b)
{
	struct query by_kind = *query, *q = &by_kind;
	bool timed = q->since_ns || q->until_ns, newest = q->newest_first || q->limit;
	const char *id = "r.id";

	if (q->engines && !any_kind(q))
		kinds_of_engines(q);

	if (q->limit && !q->newest_first)
		buf_put_str(b, "SELECT * FROM (");
	if (q->match) {
		put_select(b, q, NULL, -1);
	} else if (timed) {
		put_select(b, q, "rows_time", -1);
		id = "+r.id";
	} else if (q->min_weight) {
		put_select(b, q, "rows_weight", -1);
	} else if (any_kind(q) && kinds_of(q) <= KINDS_MERGED) {
		put_merged(b, q);
		id = "1";
	} else if (only_quiet(q->engines)) {
		put_select(b, q, "rows_kind", -1);
		id = "+r.id";
	} else {
		put_select(b, q, verdict_index(q->verdicts), -1);
	}
	buf_putf(b, " ORDER BY %s%s", id, newest ? " DESC" : "");
	if (q->limit)
		buf_putf(b, " LIMIT %u", q->limit);
	if (q->limit && !q->newest_first)
		buf_put_str(b, ") ORDER BY 1");
	return buf_cstr(b) ? 0 : -1;
}

static const char *column(sqlite3_stmt *st, int i)
{
	const char *s = (const char *)sqlite3_column_text(st, i);

	return s ? s : "";
}

/* A kind that this program does not know (a newer one wrote it) is shown by what it says of itself. */
static int fill_row(sqlite3_stmt *st, struct store_row *row)
{
	int kind = event_find(column(st, 7));

	memset(row, 0, sizeof(*row));
	if (kind < 0)
		return -1;
	row->id = (uint64_t)sqlite3_column_int64(st, 0);
	row->ws = column(st, 1);
	row->boot = column(st, 2);
	row->epoch = (uint32_t)sqlite3_column_int64(st, 3);
	row->seq = (uint64_t)sqlite3_column_int64(st, 4);
	row->host_ns = sqlite3_column_int64(st, 5);
	row->guest_ns = sqlite3_column_int64(st, 6);
	row->kind = (enum event_kind)kind;
	row->verdict = (enum event_verdict)sqlite3_column_int(st, 8);
	row->weight = (unsigned)sqlite3_column_int(st, 9);
	row->count = (uint32_t)sqlite3_column_int64(st, 10);
	row->procs = (uint32_t)sqlite3_column_int64(st, 11);
	row->fold = sqlite3_column_int(st, 12) != 0;
	row->subject = column(st, 13);
	row->data = column(st, 14);
	if (sqlite3_column_bytes(st, 15) == STORE_HASH_BYTES)
		memcpy(row->hash, sqlite3_column_blob(st, 15), STORE_HASH_BYTES);
	return 0;
}

static int step_rows(struct query_db *db, sqlite3_stmt *st, query_row_fn fn, void *u, struct err *e)
{
	int rc;

	db->end_ns = now_ns() + db->bound_ms * 1000000LL;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct store_row row;

		if (!fill_row(st, &row) && fn(u, &row))
			return 0;
	}
	if (rc == SQLITE_INTERRUPT)
		return err_set(e, "timeline: this takes longer than %u ms: give it a time, or ask for less", db->bound_ms);
	if (rc != SQLITE_DONE)
		return err_set(e, "timeline: %s%s", sqlite3_errmsg(db->sql),
			       (rc & 0xff) == SQLITE_CORRUPT ? "; holdfast timeline verify says where" : "");
	return 0;
}

static void bind_named(sqlite3_stmt *st, const char *name, const char *value)
{
	int i = sqlite3_bind_parameter_index(st, name);

	if (i)
		sqlite3_bind_text(st, i, value, -1, SQLITE_TRANSIENT);
}

int query_run(struct query_db *db, const struct query *q, query_row_fn fn, void *u, struct err *e)
{
	sqlite3_stmt *st = NULL;
	struct buf sql;
	char match[MATCH_MAX];
	int rc;

	buf_init(&sql, SQL_MAX);
	if (statement_for(q, &sql)) {
		buf_free(&sql);
		return err_set(e, "timeline: the query is too long");
	}
	rc = sqlite3_prepare_v2(db->sql, (char *)sql.data, -1, &st, NULL);
	buf_free(&sql);
	if (rc)
		return err_set(e, "timeline: %s", sqlite3_errmsg(db->sql));
	if (q->ws)
		bind_named(st, ":ws", q->ws);
	if (q->grep)
		bind_named(st, ":grep", q->grep);
	if (q->match) {
		match_text(q->match, match, sizeof(match));
		bind_named(st, ":match", *match ? match : "\"\"");
	}
	rc = step_rows(db, st, fn, u, e);
	sqlite3_finalize(st);
	return rc;
}

int query_row(struct query_db *db, uint64_t id, query_row_fn fn, void *u, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->sql, "SELECT " COLUMNS " FROM rows r" JOINS " WHERE r.id = ?", -1, &st, NULL);

	if (rc)
		return err_set(e, "timeline: %s", sqlite3_errmsg(db->sql));
	sqlite3_bind_int64(st, 1, (int64_t)id);
	rc = step_rows(db, st, fn, u, e);
	sqlite3_finalize(st);
	return rc;
}

static int64_t one_number(struct query_db *db, const char *text)
{
	sqlite3_stmt *st = NULL;
	int64_t n = 0;

	if (!sqlite3_prepare_v2(db->sql, text, -1, &st, NULL) && sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

uint64_t query_last_id(struct query_db *db)
{
	return (uint64_t)one_number(db, "SELECT max(id) FROM rows");
}

int query_ws_width(struct query_db *db)
{
	return (int)one_number(db, "SELECT max(length(name)) FROM names n WHERE EXISTS (SELECT 1 FROM rows WHERE ws = n.id)");
}

json_t *query_frame(struct query_db *db, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	static const struct json_limits limits = { .bytes = STORE_FRAME_MAX, .depth = 16, .values = 16384 };
	sqlite3_stmt *st = NULL;
	json_t *frame = NULL;

	if (sqlite3_prepare_v2(db->sql,
			       "SELECT text FROM frames WHERE boot = (SELECT id FROM names WHERE name = ?1) AND epoch = ?2"
			       " AND seq = ?3 AND ws = (SELECT id FROM names WHERE name = ?4)",
			       -1, &st, NULL))
		return NULL;
	sqlite3_bind_text(st, 1, boot, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, epoch);
	sqlite3_bind_int64(st, 3, (int64_t)seq);
	sqlite3_bind_text(st, 4, ws, -1, SQLITE_STATIC);
	if (sqlite3_step(st) == SQLITE_ROW)
		frame = json_parse(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), &limits, NULL);
	sqlite3_finalize(st);
	return frame;
}

/* ASCII without case, as SQLite's lower() is. */
static bool contains(const char *hay, const char *needle, size_t n)
{
	for (; strlen(hay) >= n; hay++) {
		size_t i = 0;

		while (i < n && tolower((unsigned char)hay[i]) == tolower((unsigned char)needle[i]))
			i++;
		if (i == n)
			return true;
	}
	return false;
}

static bool words_fit(const char *words, const struct store_row *row)
{
	while (*words) {
		size_t n = strcspn(words, " \t\n"), m = n && words[n - 1] == '*' ? n - 1 : n;

		if (m && !contains(row->subject, words, m) && !contains(row->data, words, m))
			return false;
		words += n;
		words += strspn(words, " \t\n");
	}
	return true;
}

bool query_fits(const struct query *q, const struct store_row *row)
{
	const struct event_def *def = &event_defs[row->kind];

	if (any_kind(q) ? !has_kind(q, row->kind) : (!q->all && (def->flags & EVENT_ROUTINE)))
		return false;
	if ((q->engines && !(q->engines >> def->engine & 1)) || (q->verdicts && !(q->verdicts >> row->verdict & 1)))
		return false;
	if ((q->ws && strcmp(q->ws, row->ws) != 0) || row->weight < q->min_weight)
		return false;
	if ((q->since_ns && row->host_ns < q->since_ns) || (q->until_ns && row->host_ns >= q->until_ns) ||
	    (q->after_id && row->id <= q->after_id) || (q->before_id && row->id >= q->before_id))
		return false;
	if (q->grep && !contains(row->subject, q->grep, strlen(q->grep)) &&
	    !contains(row->data, q->grep, strlen(q->grep)))
		return false;
	return !q->match || words_fit(q->match, row);
}

/* ---- JSON ---- */

static int names_to_bits(const json_t *list, const char *key, int (*find)(const char *), struct query *q,
			 uint32_t *bits, struct err *e)
{
	const json_t *v;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list))
		return err_set(e, "\"%s\" must be an array of names", key);
	json_array_foreach (list, i, v) {
		int n = json_is_string(v) ? find(json_string_value(v)) : -1;

		if (n < 0)
			return err_set(e, "\"%s\": unknown name \"%s\"", key,
				       json_is_string(v) ? json_string_value(v) : "?");
		if (bits)
			*bits |= 1u << n;
		else
			query_kind_add(q, (enum event_kind)n);
	}
	return 0;
}

int query_from_json(const json_t *args, struct query *q, struct err *e)
{
	static const char *const keys[] = { "ws",	 "since_ns", "until_ns", "after_id", "before_id", "kinds", "engines",
					    "verdicts", "min_weight", "grep",	 "match",  "all",    "newest_first",
					    "limit",	NULL };
	int64_t after, before, weight, limit;

	memset(q, 0, sizeof(*q));
	if (!json_is_object(args))
		return err_set(e, "the query must be an object");
	if (json_only_keys(args, keys, e) || json_opt_str(args, "ws", &q->ws, NULL, e) ||
	    json_opt_int(args, "since_ns", &q->since_ns, 0, e) || json_opt_int(args, "until_ns", &q->until_ns, 0, e) ||
	    json_opt_int(args, "after_id", &after, 0, e) || json_opt_int(args, "before_id", &before, 0, e) ||
	    json_opt_int(args, "min_weight", &weight, 0, e) || json_opt_str(args, "grep", &q->grep, NULL, e) ||
	    json_opt_str(args, "match", &q->match, NULL, e) || json_opt_bool(args, "all", &q->all, false, e) ||
	    json_opt_bool(args, "newest_first", &q->newest_first, false, e) ||
	    json_opt_int(args, "limit", &limit, 0, e) ||
	    names_to_bits(json_object_get(args, "kinds"), "kinds", event_find, q, NULL, e) ||
	    names_to_bits(json_object_get(args, "engines"), "engines", event_engine_find, q, &q->engines, e) ||
	    names_to_bits(json_object_get(args, "verdicts"), "verdicts", event_verdict_find, q, &q->verdicts, e))
		return -1;
	if (after < 0 || before < 0 || weight < 0 || weight > INT32_MAX || limit < 0 || limit > INT32_MAX)
		return err_set(e, "numbers of a query must not be negative");
	q->after_id = (uint64_t)after;
	q->before_id = (uint64_t)before;
	q->min_weight = (unsigned)weight;
	q->limit = (unsigned)limit;
	return 0;
}

json_t *query_to_json(const struct query *q)
{
	json_t *obj = json_pack("{s:s*,s:s*,s:s*}", "ws", q->ws, "grep", q->grep, "match", q->match);
	json_t *kinds = json_array(), *engines = json_array(), *verdicts = json_array();

	for (int k = 0; k < EVENT_COUNT; k++)
		if (has_kind(q, k))
			json_array_append_new(kinds, json_string(event_defs[k].name));
	for (int i = 0; i < ENGINE_COUNT; i++)
		if (q->engines >> i & 1)
			json_array_append_new(engines, json_string(event_engine_name((enum event_engine)i)));
	for (int i = 0; i < VERDICT_COUNT; i++)
		if (q->verdicts >> i & 1)
			json_array_append_new(verdicts, json_string(event_verdict_name((enum event_verdict)i)));
	json_object_set_new(obj, "kinds", kinds);
	json_object_set_new(obj, "engines", engines);
	json_object_set_new(obj, "verdicts", verdicts);
	json_object_set_new(obj, "since_ns", json_integer(q->since_ns));
	json_object_set_new(obj, "until_ns", json_integer(q->until_ns));
	json_object_set_new(obj, "after_id", json_integer((json_int_t)q->after_id));
	json_object_set_new(obj, "before_id", json_integer((json_int_t)q->before_id));
	json_object_set_new(obj, "min_weight", json_integer(q->min_weight));
	json_object_set_new(obj, "all", json_boolean(q->all));
	json_object_set_new(obj, "newest_first", json_boolean(q->newest_first));
	json_object_set_new(obj, "limit", json_integer(q->limit));
	return obj;
}

static void iso_time(int64_t ns, char out[40])
{
	time_t s = (time_t)(ns / 1000000000);
	struct tm tm;
	size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", gmtime_r(&s, &tm));

	snprintf(out + n, 40 - n, ".%03lldZ", (long long)(ns / 1000000 % 1000));
}

json_t *query_row_json(const struct store_row *row)
{
	json_t *data = json_loads(row->data ? row->data : "{}", 0, NULL), *obj;
	char sentence[1024], time_text[40], hash[2 * STORE_HASH_BYTES + 1];

	if (!json_is_object(data)) {
		json_decref(data);
		data = json_object();
	}
	event_sentence(row->kind, row->subject, data, sentence, sizeof(sentence));
	iso_time(row->host_ns, time_text);
	hex_encode(hash, row->hash, STORE_HASH_BYTES);
	obj = json_pack("{s:I,s:s,s:I,s:I,s:s,s:s,s:i,s:I,s:s,s:s,s:s,s:i,s:I,s:i,s:s,s:s,s:b,s:o,s:s}", "id",
			(json_int_t)row->id, "time", time_text, "host_ns", (json_int_t)row->host_ns, "guest_ns",
			(json_int_t)row->guest_ns, "ws", row->ws, "boot", row->boot ? row->boot : "", "epoch",
			(int)row->epoch, "seq", (json_int_t)row->seq, "engine",
			event_engine_name(event_defs[row->kind].engine), "kind", event_defs[row->kind].name, "verdict",
			event_verdict_name(row->verdict), "weight", (int)row->weight, "count", (json_int_t)row->count,
			"procs", (int)row->procs, "subject", row->subject ? row->subject : "", "sentence", sentence,
			"fold", row->fold, "data", data, "hash", hash);
	return obj;
}

int query_row_from_json(const json_t *obj, struct store_row *row, char **data_out, struct err *e)
{
	int64_t id, seq, epoch, weight, count, procs;
	const char *kind, *verdict, *hash;
	json_t *data;
	int k, v;

	memset(row, 0, sizeof(*row));
	*data_out = NULL;
	if (!json_is_object(obj))
		return err_set(e, "a row must be an object");
	if (json_get_int(obj, "id", &id, e) || json_get_str(obj, "ws", &row->ws, e) ||
	    json_opt_str(obj, "boot", &row->boot, "", e) || json_get_int(obj, "host_ns", &row->host_ns, e) ||
	    json_get_int(obj, "guest_ns", &row->guest_ns, e) || json_get_int(obj, "epoch", &epoch, e) ||
	    json_get_int(obj, "seq", &seq, e) || json_get_str(obj, "kind", &kind, e) ||
	    json_get_str(obj, "verdict", &verdict, e) || json_get_int(obj, "weight", &weight, e) ||
	    json_get_int(obj, "count", &count, e) || json_get_int(obj, "procs", &procs, e) ||
	    json_get_str(obj, "subject", &row->subject, e) || json_get_bool(obj, "fold", &row->fold, e) ||
	    json_get_object(obj, "data", &data, e) || json_get_str(obj, "hash", &hash, e))
		return -1;
	k = event_find(kind);
	v = event_verdict_find(verdict);
	if (k < 0 || v < 0)
		return err_set(e, "row %lld: unknown kind or verdict", (long long)id);
	if (id < 0 || seq < 0 || epoch < 0 || epoch > UINT32_MAX || weight < 0 || weight > INT32_MAX || count < 0 ||
	    count > UINT32_MAX || procs < 0 || procs > UINT32_MAX)
		return err_set(e, "row %lld: a number is out of range", (long long)id);
	if (hex_decode(row->hash, STORE_HASH_BYTES, hash))
		return err_set(e, "row %lld: \"hash\" must be 64 hex digits", (long long)id);
	row->id = (uint64_t)id;
	row->seq = (uint64_t)seq;
	row->epoch = (uint32_t)epoch;
	row->kind = (enum event_kind)k;
	row->verdict = (enum event_verdict)v;
	row->weight = (unsigned)weight;
	row->count = (uint32_t)count;
	row->procs = (uint32_t)procs;
	*data_out = json_text(data);
	row->data = *data_out;
	return *data_out ? 0 : err_set(e, "out of memory");
}
