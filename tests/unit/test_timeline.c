/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Query, verify, export, prune, and what happens when the disk, the clock or the file goes wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/store/export.h"
#include "hostd/store/verify.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "tests/unit/lossy_vfs.h"

#define DAY 86400000000000LL

static int64_t wall = 1764000000000000000LL, mono = 1000000000LL;

static int64_t fake_wall(void)
{
	return __atomic_load_n(&wall, __ATOMIC_SEQ_CST);
}

static int64_t fake_mono(void)
{
	return __atomic_load_n(&mono, __ATOMIC_SEQ_CST);
}

static void pass(int64_t ns)
{
	__atomic_fetch_add(&wall, ns, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&mono, ns, __ATOMIC_SEQ_CST);
}

struct fixture {
	char dir[64], path[96], anchor[128], key[128], pub[160], out[128];
	struct store_config cfg;
	struct store *s;
	enum store_health health;
	char why[256];
	uint64_t durable;
	struct verify_pins pins;
};

static void on_health(void *u, enum store_health health, const char *why)
{
	struct fixture *f = u;

	f->health = health;
	snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_durable(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	(void)ws;
	(void)boot;
	(void)epoch;
	((struct fixture *)u)->durable = seq;
}

static const struct store_ops ops = { .health = on_health, .durable = on_durable };

static void open_it(struct fixture *f)
{
	struct err e;

	if (store_open(&f->cfg, &ops, f, &f->s, &e))
		fail_msg("%s", e.text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/hf-timeline-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/t.db", f->dir);
	snprintf(f->anchor, sizeof(f->anchor), "%s.anchor", f->path);
	snprintf(f->key, sizeof(f->key), "%s.key", f->path);
	snprintf(f->pub, sizeof(f->pub), "%s.pub", f->key);
	snprintf(f->out, sizeof(f->out), "%s/export", f->dir);
	f->cfg = (struct store_config){ .path = f->path, .commit_ms = 1, .checkpoint_rows = 100,
					.wall_ns = fake_wall, .mono_ns = fake_mono };
	lossy_fail = 0;
	open_it(f);
	assert_int_equal(verify_pin_add(&f->pins, f->pub, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct err e;

	lossy_fail = 0;
	store_close(f->s);
	io_remove_tree(AT_FDCWD, f->dir, &e);
	free(f);
	return 0;
}

static void exec_row(struct fixture *f, const char *ws, unsigned i)
{
	char data[256], frame[256];
	struct store_row r = { .kind = EVENT_EXEC, .subject = "/bin/sh", .data = data, .boot = ws, .epoch = 1, .seq = i };
	struct store_frame fr = { .boot = ws, .epoch = 1, .seq = i, .raw = frame };

	snprintf(data, sizeof(data), "{\"argv\":[\"sh\",\"step%u\"],\"path\":\"/bin/sh\",\"pid\":%u}", i, i);
	fr.raw_len = (size_t)snprintf(frame, sizeof(frame), "{\"type\":\"exec\",\"seq\":%u,\"chain\":[{\"pid\":1,\"comm\":\"init\"}]}", i);
	store_begin(f->s, ws);
	store_frame(f->s, &fr);
	store_row(f->s, &r);
	while (store_end(f->s, NULL) == STORE_BUSY) {
		store_sync(f->s, 5000, NULL);
		store_dispatch(f->s);
	}
}

static void fill(struct fixture *f, unsigned n)
{
	for (unsigned i = 1; i <= n; i++)
		exec_row(f, i % 4 ? "demo" : "other", i);
	assert_int_equal(store_checkpoint(f->s, 10000, NULL), 0);
	store_dispatch(f->s);
}

static void closed(struct fixture *f)
{
	store_close(f->s);
	f->s = NULL;
}

static void sql(const struct fixture *f, const char *text)
{
	sqlite3 *db;
	char *why = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	if (sqlite3_exec(db, text, NULL, NULL, &why))
		fail_msg("%s: %s", text, why);
	sqlite3_close(db);
}

static struct verify_report verified(const struct fixture *f, int want)
{
	struct verify_report r;
	int rc = verify_db(f->path, f->anchor, &f->pins, &r);

	if (rc != want)
		fail_msg("verify gave %d: %s", rc, r.text);
	return r;
}

/* ---- verify ---- */

static void an_untouched_timeline_verifies(void **state)
{
	struct fixture *f = *state;
	struct verify_report r;

	fill(f, 950);
	r = verified(f, 0);
	assert_int_equal(r.rows, 950);
	assert_int_equal(r.frames, 950);
	assert_int_equal(r.checkpoints, 10);
	assert_int_equal(r.unsigned_rows, 0);
	closed(f);
	open_it(f);
	exec_row(f, "demo", 2000);
	closed(f); /* closing signs what is left */
	r = verified(f, 0);
	assert_int_equal(r.rows, 951);
}

static void tampering_is_named(void **state)
{
	static const struct {
		const char *sql;
		uint64_t row;
		const char *says;
	} cases[] = {
		{ "UPDATE rows SET data = replace(data, 'step500', 'step501') WHERE id = 500", 500, "row 500 does not fit" },
		{ "UPDATE rows SET weight = 0, verdict = 1 WHERE id = 77", 77, "row 77 does not fit" },
		{ "UPDATE rows SET host_ns = host_ns - 1 WHERE id = 1", 1, "row 1 does not fit" },
		{ "DELETE FROM rows WHERE id = 321", 321, "row 321 is missing" },
		{ "DELETE FROM rows WHERE id > 940", 941, "cut tail" },
		{ "DELETE FROM rows WHERE id > 900; DELETE FROM frames WHERE id > 900; DELETE FROM checkpoints WHERE row_id > 900",
		  901, "cut tail" },
		{ "UPDATE checkpoints SET sig = zeroblob(64) WHERE n = 5", 401, "checkpoint 5 is not signed" },
		{ "DELETE FROM checkpoints WHERE n = 5", 0, "checkpoint 5 is missing" },
		{ "UPDATE frames SET text = 'x' WHERE id = 10", 10, "frame 10 does not fit" },
		{ "DELETE FROM frames WHERE id = 11", 11, "frame 11 is missing" },
		{ "UPDATE rows SET hash = zeroblob(32) WHERE id = 600", 600, "row 600 does not fit" },
		{ "UPDATE names SET name = 'exit' WHERE name = 'exec'", 1, "row 1 does not fit" },
		{ "UPDATE rows SET data = NULL WHERE id = 9", 0, NULL }, /* refused by the schema */
	};
	struct fixture *f = *state;

	fill(f, 950);
	closed(f);
	verified(f, 0);
	for (size_t i = 0; i + 1 < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verify_report r;
		char copy[256];

		snprintf(copy, sizeof(copy), "cp %s %s.good", f->path, f->path);
		assert_int_equal(system(copy), 0);
		sql(f, cases[i].sql);
		r = verified(f, -1);
		if (!strstr(r.text, cases[i].says) || r.bad_row != cases[i].row)
			fail_msg("%s: row %llu, %s", cases[i].sql, (unsigned long long)r.bad_row, r.text);
		snprintf(copy, sizeof(copy), "rm -f %s-wal %s-shm; mv %s.good %s", f->path, f->path, f->path, f->path);
		assert_int_equal(system(copy), 0);
	}
}

static void a_rewritten_chain_does_not_fit_its_checkpoint(void **state)
{
	struct fixture *f = *state;
	struct verify_report r;
	struct store *forged;
	struct store_config cfg;
	char dir[128], text[512], path[160], other[200];
	struct err e;

	/* somebody with another key builds a whole timeline and puts it in place */
	fill(f, 250);
	closed(f);
	snprintf(dir, sizeof(dir), "%s/forged", f->dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/t.db", dir);
	snprintf(other, sizeof(other), "%s.key", path);
	cfg = f->cfg;
	cfg.path = path;
	assert_int_equal(store_open(&cfg, NULL, NULL, &forged, &e), 0);
	f->s = forged;
	fill(f, 250);
	closed(f);
	snprintf(text, sizeof(text), "cp %s %s", path, f->path);
	assert_int_equal(system(text), 0);
	r = verified(f, -1);
	assert_non_null(strstr(r.text, "unknown key hf1:"));
	/* even with that key pinned, the anchor is another's */
	snprintf(text, sizeof(text), "%s.pub", other);
	assert_int_equal(verify_pin_add(&f->pins, text, &e), 0);
	r = verified(f, -1);
	assert_non_null(strstr(r.text, "belongs to another timeline"));
}

static void no_pin_is_an_unknown_key(void **state)
{
	struct fixture *f = *state;
	struct verify_report r;

	fill(f, 10);
	f->pins.n = 0;
	r = verified(f, -1);
	assert_non_null(strstr(r.text, "unknown key"));
}

static void an_old_copy_is_refused_at_open(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	char text[400];
	struct err e;

	fill(f, 150);
	closed(f);
	snprintf(text, sizeof(text), "cp %s %s.old", f->path, f->path);
	assert_int_equal(system(text), 0);
	open_it(f);
	for (unsigned i = 1000; i < 1200; i++)
		exec_row(f, "demo", i);
	closed(f);
	snprintf(text, sizeof(text), "mv %s.old %s; rm -f %s-wal %s-shm", f->path, f->path, f->path, f->path);
	assert_int_equal(system(text), 0);
	assert_int_equal(store_open(&f->cfg, NULL, NULL, &s, &e), -1);
	assert_non_null(strstr(e.text, "missing"));
}

/* ---- export ---- */

static void export_it(struct fixture *f, const struct query *q, bool frames)
{
	struct export_totals totals;
	FILE *out = fopen(f->out, "w");
	struct err e;

	assert_non_null(out);
	if (export_file(f->path, f->key, q, frames, out, &totals, &e))
		fail_msg("%s", e.text);
	fclose(out);
}

static struct verify_report verify_file(struct fixture *f, int want)
{
	FILE *in = fopen(f->out, "r");
	struct verify_report r;
	int rc;

	assert_non_null(in);
	rc = verify_export(in, &f->pins, &r);
	fclose(in);
	if (rc != want)
		fail_msg("export verify gave %d: %s", rc, r.text);
	return r;
}

static void exports_verify_by_themselves(void **state)
{
	struct fixture *f = *state;
	struct query all = { .all = true }, other = { .ws = "other", .all = true }, none = { .ws = "nobody", .all = true };
	struct verify_report r;

	fill(f, 950);
	export_it(f, &all, true);
	r = verify_file(f, 0);
	assert_int_equal(r.rows, 950);
	assert_int_equal(r.frames, 950);
	export_it(f, &other, false);
	r = verify_file(f, 0);
	assert_int_equal(r.rows, 237);
	assert_int_equal(r.omitted, 713);
	export_it(f, &none, false);
	r = verify_file(f, 0);
	assert_int_equal(r.rows, 0);
	assert_int_equal(r.omitted, 950);
	exec_row(f, "other", 5000); /* not yet under a checkpoint: the export's own end vouches for it */
	assert_int_equal(store_sync(f->s, 5000, NULL), 0);
	export_it(f, &other, false);
	r = verify_file(f, 0);
	assert_int_equal(r.rows, 238);
	f->pins.n = 0;
	r = verify_file(f, -1);
	assert_non_null(strstr(r.text, "unknown key"));
}

/* Every kind of edit of the file, line by line, is seen. */
static void edits_of_an_export_are_seen(void **state)
{
	static const struct {
		const char *sed, *says;
	} cases[] = {
		{ "s/step500/step501/", "row 500 does not fit" },
		{ "/\"id\":400,/d", "row 400 is missing" },
		{ "$d", "without its signed end" },
		{ "600,$d", "cut tail" },
		{ "1s/\"min_weight\":0/\"min_weight\":1/", "something in it" },
		{ "/\"frame\":7,/s/\"n\":1/\"n\":9/", "" },
		{ "s/\"rows\":950/\"rows\":949/", "not signed" },
		{ "2s/^/x/", "line 2 is broken" },
		{ "2s/^/{}\\n/", "none that an export has" },
		{ "$s/$/\\n{}/", "behind its end" },
		{ "0,/\"checkpoint\"/s/\"checkpoint\"/\"skip\"/", "" },
	};
	struct fixture *f = *state;
	struct query all = { .all = true };

	fill(f, 950);
	export_it(f, &all, false);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verify_report r;
		char text[400];

		snprintf(text, sizeof(text), "cp %s %s.good; sed -i '%s' %s", f->out, f->out, cases[i].sed, f->out);
		assert_int_equal(system(text), 0);
		snprintf(text, sizeof(text), "cmp -s %s %s.good", f->out, f->out);
		if (system(text) == 0) {
			if (*cases[i].says)
				fail_msg("'%s' changed nothing", cases[i].sed);
		} else {
			r = verify_file(f, -1);
			if (!strstr(r.text, cases[i].says))
				fail_msg("%s: %s", cases[i].sed, r.text);
		}
		snprintf(text, sizeof(text), "mv %s.good %s", f->out, f->out);
		assert_int_equal(system(text), 0);
	}
}

/* ---- query ---- */

struct got {
	unsigned n;
	uint64_t first, last;
};

static int take(void *u, const struct store_row *row)
{
	struct got *g = u;

	if (!g->n++)
		g->first = row->id;
	g->last = row->id;
	return 0;
}

static struct got ask(const struct fixture *f, const struct query *q)
{
	struct query_db *db;
	struct got g = { 0, 0, 0 };
	struct err e;

	if (query_open(f->path, &db, &e) || query_run(db, q, take, &g, &e))
		fail_msg("%s", e.text);
	query_close(db);
	return g;
}

static void filters_find_what_they_say(void **state)
{
	struct fixture *f = *state;
	struct store_row denied = { .ws = "demo", .kind = EVENT_FLOW_DENIED, .verdict = VERDICT_DENIED, .weight = 1,
				    .subject = "evil.example", .data = "{\"name\":\"evil.example\",\"reason\":\"100% 'no' \\\"rule\\\"\"}" };
	struct query q = { .ws = "other" };
	struct got g;

	fill(f, 200);
	pass(3600 * 1000000000LL);
	assert_int_equal(store_append_row(f->s, &denied, NULL), STORE_OK);
	assert_int_equal(store_sync(f->s, 5000, NULL), 0);
	assert_int_equal(ask(f, &q).n, 50);
	q = (struct query){ .limit = 10 };
	g = ask(f, &q);
	assert_int_equal(g.n, 10);
	assert_true(g.first < g.last && g.last == 201);
	q = (struct query){ .limit = 10, .newest_first = true };
	g = ask(f, &q);
	assert_int_equal(g.first, 201);
	q = (struct query){ .since_ns = fake_wall() - 60000000000LL };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .until_ns = fake_wall() - 60000000000LL };
	assert_int_equal(ask(f, &q).n, 200);
	q = (struct query){ .min_weight = 1 };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .engines = 1u << ENGINE_SWITCH };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .verdicts = 1u << VERDICT_DENIED };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .grep = "EVIL.exam" };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .grep = "100% 'no' \\\"" };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .match = "step77" };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .match = "evil example rule" };
	assert_int_equal(ask(f, &q).n, 1);
	q = (struct query){ .match = "step1*" };
	assert_int_equal(ask(f, &q).n, 111);
	q = (struct query){ .match = "\" OR 1 AND NEAR( *" };
	ask(f, &q); /* nothing of a user's words is syntax */
	q = (struct query){ .after_id = 190, .before_id = 195 };
	assert_int_equal(ask(f, &q).n, 4);
	q = (struct query){ .limit = 0 };
	query_kind_add(&q, EVENT_FLOW_DENIED);
	assert_int_equal(ask(f, &q).n, 1);
}

/* ---- whatever index a query goes by, it gives the rows that fit, in their order ---- */

enum { MIXED = 400, ASKED = 1000 };

struct ids {
	const struct query *q;
	uint64_t id[2 * MIXED + 64];
	unsigned n;
};

static int take_id(void *u, const struct store_row *row)
{
	struct ids *ids = u;

	assert_true(ids->n < sizeof(ids->id) / sizeof(ids->id[0]));
	ids->id[ids->n++] = row->id;
	return 0;
}

static int take_fitting(void *u, const struct store_row *row)
{
	return query_fits(((struct ids *)u)->q, row) ? take_id(u, row) : 0;
}

static unsigned random_below(unsigned n)
{
	static uint64_t s = 88172645463325252ull;

	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return (unsigned)(s % n);
}

static void fill_mixed(struct fixture *f)
{
	char data[64];

	for (unsigned i = 0; i < MIXED; i++) {
		unsigned k = random_below(EVENT_COUNT);
		struct store_row row = { .ws = i % 3 ? "demo" : "other", .kind = (enum event_kind)k, .data = data,
					 .verdict = (enum event_verdict)random_below(VERDICT_COUNT), .weight = i % 5 ? 0 : i % 7 };

		if (event_defs[k].flags & EVENT_NO_ROW)
			continue;
		snprintf(data, sizeof(data), "{\"program\":\"/bin/p%u\",\"command\":\"c%u\"}", i % 9, i);
		assert_int_equal(store_append_row(f->s, &row, NULL), STORE_OK);
		pass(1000000000LL);
	}
	assert_int_equal(store_sync(f->s, 5000, NULL), 0);
}

static struct query random_query(int64_t start_ns)
{
	struct query q = { .ws = random_below(2) ? NULL : random_below(4) ? "demo" : "none", .all = random_below(2) };

	for (unsigned i = random_below(3) * random_below(12); i--;)
		query_kind_add(&q, (enum event_kind)random_below(EVENT_COUNT));
	if (!random_below(3))
		q.engines = 1 + random_below((1u << ENGINE_COUNT) - 1);
	if (!random_below(3))
		q.verdicts = 1 + random_below((1u << VERDICT_COUNT) - 1);
	if (!random_below(3))
		q.min_weight = random_below(5);
	if (!random_below(4))
		q.since_ns = start_ns + random_below(MIXED) * 1000000000LL;
	if (!random_below(6))
		q.until_ns = start_ns + random_below(MIXED) * 1000000000LL;
	if (!random_below(4))
		q.after_id = random_below(MIXED);
	if (!random_below(6))
		q.before_id = random_below(MIXED);
	if (!random_below(6))
		q.grep = "BIN/p3";
	return q;
}

static void every_way_finds_the_same_rows(void **state)
{
	struct fixture *f = *state;
	struct query everything = { .all = true };
	int64_t start_ns = fake_wall();
	struct query_db *db;
	unsigned found = 0;
	struct err e;

	fill_mixed(f);
	assert_int_equal(query_open(f->path, &db, &e), 0);
	for (unsigned i = 0; i < ASKED; i++) {
		struct query q = random_query(start_ns);
		struct ids want = { .q = &q }, got = { .q = &q };
		unsigned limit = random_below(2) ? 0 : 1 + random_below(20), skip, n;

		assert_int_equal(query_run(db, &everything, take_fitting, &want, &e), 0);
		q.limit = limit;
		q.newest_first = random_below(2);
		if (query_run(db, &q, take_id, &got, &e))
			fail_msg("%s", e.text);
		n = limit && want.n > limit ? limit : want.n;
		skip = want.n - n;
		assert_int_equal(got.n, n);
		for (unsigned j = 0; j < n; j++)
			assert_int_equal(got.id[q.newest_first ? n - 1 - j : j], want.id[skip + j]);
		found += n;
	}
	assert_true(found > ASKED);
	query_close(db);
}

static void a_bounded_query_ends(void **state)
{
	struct fixture *f = *state;
	struct query q = { .grep = "nothing like it" };
	struct got g = { 0, 0, 0 };
	struct query_db *db;
	struct err e = { "" };

	fill(f, 950);
	assert_int_equal(query_open(f->path, &db, &e), 0);
	query_bound(db, 60000);
	assert_int_equal(query_run(db, &q, take, &g, &e), 0);
	query_bound(db, 0);
	assert_int_equal(query_run(db, &q, take, &g, &e), -1);
	assert_non_null(strstr(e.text, "takes longer"));
	query_close(db);
}

static void queries_survive_json(void **state)
{
	struct query q = { .ws = "demo", .since_ns = 5, .min_weight = 3, .grep = "x", .limit = 7, .all = true,
			   .engines = 5, .verdicts = 16 }, back;
	_cleanup_json_ json_t *obj = NULL, *bad = json_pack("{s:i}", "nonsense", 1);
	struct err e;

	(void)state;
	query_kind_add(&q, EVENT_PROBING);
	obj = query_to_json(&q);
	assert_int_equal(query_from_json(obj, &back, &e), 0);
	assert_memory_equal(q.kinds, back.kinds, sizeof(q.kinds));
	assert_string_equal(back.ws, "demo");
	assert_int_equal(back.engines, 5);
	assert_int_equal(back.verdicts, 16);
	assert_int_equal(back.limit, 7);
	assert_int_equal(query_from_json(bad, &back, &e), -1);
	assert_non_null(strstr(e.text, "nonsense"));
}

static void the_frame_behind_a_row_is_found(void **state)
{
	struct fixture *f = *state;
	struct query_db *db;
	json_t *frame;
	struct err e;

	fill(f, 20);
	assert_int_equal(query_open(f->path, &db, &e), 0);
	frame = query_frame(db, "demo", "demo", 1, 7);
	assert_non_null(json_object_get(frame, "chain"));
	json_decref(frame);
	assert_null(query_frame(db, "demo", "demo", 2, 7));
	query_close(db);
}

/* ---- pruning ---- */

static void pruning_leaves_what_verifies(void **state)
{
	struct fixture *f = *state;
	struct query q = { .match = "step5" };
	struct verify_report r;

	fill(f, 500);
	pass(20 * DAY);
	exec_row(f, "demo", 600); /* the clock went on with rows, it did not jump */
	assert_int_equal(store_sync(f->s, 5000, NULL), 0);
	pass(20 * DAY);
	for (unsigned i = 601; i < 700; i++)
		exec_row(f, "demo", i);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	assert_int_equal(ask(f, &q).n, 1);
	assert_int_equal(store_prune(f->s, 30, 10000, NULL), 0);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	r = verified(f, 0);
	assert_int_equal(r.first_row, 501);
	assert_int_equal(ask(f, &q).n, 0);
	q = (struct query){ .limit = 0 };
	query_kind_add(&q, EVENT_PRUNED);
	assert_int_equal(ask(f, &q).n, 1);
	closed(f);
	open_it(f);
	exec_row(f, "demo", 1000);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	verified(f, 0);
	q = (struct query){ .ws = "demo", .all = true };
	export_it(f, &q, true);
	verify_file(f, 0);
}

static void a_jump_of_the_clock_holds_pruning_back(void **state)
{
	struct fixture *f = *state;
	struct query q = { .limit = 0 };

	fill(f, 300);
	__atomic_fetch_add(&wall, 400 * DAY, __ATOMIC_SEQ_CST); /* forward by a year, nothing else moved */
	store_dispatch(f->s);
	assert_int_equal(store_sync(f->s, 5000, NULL), 0);
	query_kind_add(&q, EVENT_CLOCK_STEP);
	assert_int_equal(ask(f, &q).n, 1);
	assert_int_equal(store_prune(f->s, 0, 10000, NULL), 0);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	q = (struct query){ .ws = "demo" };
	assert_int_equal(ask(f, &q).n, 225);
	__atomic_fetch_add(&wall, -401 * DAY, __ATOMIC_SEQ_CST); /* and back */
	store_dispatch(f->s);
	exec_row(f, "demo", 900);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	verified(f, 0);
	q = (struct query){ .limit = 0 };
	query_kind_add(&q, EVENT_CLOCK_STEP);
	assert_int_equal(ask(f, &q).n, 2);
}

/* ---- a disk that fails ---- */

static void a_full_disk_is_said_and_loses_nothing(void **state)
{
	static const struct {
		int rc;
		const char *says;
	} faults[] = { { SQLITE_FULL, "full" }, { SQLITE_READONLY, "readonly" }, { SQLITE_IOERR_WRITE, "I/O" } };
	struct fixture *f = *state;
	struct query q = { .limit = 0 };
	uint64_t before;

	closed(f);
	lossy_register();
	f->cfg.vfs = "lossy";
	open_it(f);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		exec_row(f, "demo", 10 * (unsigned)i + 1);
		assert_int_equal(store_sync(f->s, 5000, NULL), 0);
		store_dispatch(f->s);
		before = f->durable;
		lossy_fail = faults[i].rc;
		exec_row(f, "demo", 10 * (unsigned)i + 2);
		exec_row(f, "demo", 10 * (unsigned)i + 3);
		assert_int_equal(store_sync(f->s, 300, NULL), -1);
		store_dispatch(f->s);
		assert_int_equal(f->health, STORE_UNAVAILABLE);
		if (!strstr(f->why, faults[i].says))
			fail_msg("%s", f->why);
		assert_int_equal(f->durable, before); /* nothing is acknowledged meanwhile */
		lossy_fail = 0;
		assert_int_equal(store_sync(f->s, 10000, NULL), 0);
		store_dispatch(f->s);
		assert_int_equal(f->health, STORE_HEALTHY);
		assert_int_equal(f->durable, before + 2);
	}
	closed(f);
	verified(f, 0);
	query_kind_add(&q, EVENT_STORE_UNAVAILABLE);
	assert_int_equal(ask(f, &q).n, 3);
}

static void a_damaged_page_is_named(void **state)
{
	struct fixture *f = *state;
	struct verify_report r;
	char junk[4096], moved[200];
	struct stat st;
	struct err e;
	bool lost;
	int fd;

	fill(f, 2000);
	closed(f);
	assert_int_equal(stat(f->path, &st), 0);
	memset(junk, 0xa5, sizeof(junk));
	fd = open(f->path, O_WRONLY | O_CLOEXEC);
	for (off_t page = st.st_size / 4096 / 4; page < st.st_size / 4096; page += 7)
		assert_int_equal(pwrite(fd, junk, sizeof(junk), page * 4096), sizeof(junk));
	close(fd);
	r = verified(f, -1);
	assert_true(strlen(r.text) > 10);
	/* at open, or with the first write or read, it is said, and never written over */
	if (store_open(&f->cfg, &ops, f, &f->s, &e) == 0) {
		for (unsigned i = 3000; i < 5000 && f->health != STORE_DAMAGED; i++) {
			struct store_row row = { .ws = "demo", .kind = EVENT_EXEC, .data = "{}" };

			if (store_append_row(f->s, &row, &e) < 0)
				break;
			store_sync(f->s, 1000, NULL);
			store_dispatch(f->s);
		}
		closed(f);
	} else {
		f->s = NULL;
	}
	/* the way out: set it aside and begin again */
	assert_int_equal(store_rotate(&f->cfg, "it was damaged", false, NULL, moved, sizeof(moved), &lost, &e), 0);
	assert_int_equal(access(moved, F_OK), 0);
	open_it(f);
	exec_row(f, "demo", 1);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	verified(f, 0);
}

static void rotation_takes_along_what_is_held(void **state)
{
	struct fixture *f = *state;
	struct query q = { .all = true };
	_cleanup_free_ char *held = NULL;
	char moved[200], key[2][STORE_FINGERPRINT_SIZE], path[220];
	struct err e;
	bool lost = true;

	fill(f, 50);
	assert_true(store_put_state(f->s, "demo", "quarantine", "{\"state\":\"held\"}", &e) >= 0);
	closed(f);
	snprintf(path, sizeof(path), "%s.key", f->path);
	assert_int_equal(store_key_fingerprint(path, key[0], &e), 0);
	assert_int_equal(store_rotate(&f->cfg, "a test", true, NULL, moved, sizeof(moved), &lost, &e), 0);
	assert_false(lost);
	assert_int_equal(store_key_fingerprint(path, key[1], &e), 0);
	assert_string_not_equal(key[0], key[1]);
	open_it(f);
	held = store_get_state(f->s, "demo", "quarantine");
	assert_string_equal(held, "{\"state\":\"held\"}");
	q.kinds[EVENT_STORE_ROTATED / 64] = 1ull << (EVENT_STORE_ROTATED % 64);
	assert_int_equal(ask(f, &q).n, 1);
	/* the old one stays checkable, by its own key */
	snprintf(path, sizeof(path), "%s.key.pub", moved);
	assert_int_equal(access(path, F_OK), 0);
}

static void what_cannot_be_begun_leaves_the_old_one(void **state)
{
	struct fixture *f = *state;
	struct rlimit was, none;
	_cleanup_free_ char *held = NULL;
	char moved[200];
	struct err e;
	bool lost;

	fill(f, 50);
	assert_true(store_put_state(f->s, "demo", "quarantine", "{\"state\":\"held\"}", &e) >= 0);
	closed(f);
	/* no file can be written */
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(store_rotate(&f->cfg, "a test", true, NULL, moved, sizeof(moved), &lost, &e), -1);
	setrlimit(RLIMIT_FSIZE, &was);
	assert_int_equal(access(moved, F_OK), -1);
	open_it(f);
	held = store_get_state(f->s, "demo", "quarantine");
	assert_non_null(held);
	assert_string_equal(held, "{\"state\":\"held\"}");
	closed(f);
	verified(f, 0);
}

static void a_timeline_that_cannot_be_read_begins_with_what_is_given(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *given = json_pack("[[s,s,s]]", "demo", "quarantine", "{\"state\":\"held\"}");
	_cleanup_free_ char *held = NULL;
	char moved[200];
	struct err e;
	bool lost = false;

	closed(f);
	assert_int_equal(truncate(f->path, 100), 0);
	assert_int_equal(store_rotate(&f->cfg, "a test", false, given, moved, sizeof(moved), &lost, &e), 0);
	assert_true(lost);
	open_it(f);
	held = store_get_state(f->s, "demo", "quarantine");
	assert_non_null(held);
	assert_string_equal(held, "{\"state\":\"held\"}");
}

static void what_is_no_database_is_refused(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	struct err e;

	closed(f);
	sql(f, "PRAGMA wal_checkpoint(TRUNCATE)");
	assert_int_equal(truncate(f->path, 0), 0);
	FILE *out = fopen(f->path, "w");
	for (int i = 0; i < 2000; i++)
		fputs("this is no database\n", out);
	fclose(out);
	assert_int_equal(store_open(&f->cfg, NULL, NULL, &s, &e), -1);
	assert_non_null(strstr(e.text, "not a database"));
}

static void two_timelines_do_not_share_a_key_file_by_accident(void **state)
{
	struct fixture *f = *state;
	struct store *s;
	struct err e;

	fill(f, 10);
	closed(f);
	assert_int_equal(unlink(f->key), 0);
	assert_int_equal(unlink(f->pub), 0);
	assert_int_equal(store_open(&f->cfg, NULL, NULL, &s, &e), -1);
	assert_non_null(strstr(e.text, "another key"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(an_untouched_timeline_verifies),
		T(tampering_is_named),
		T(a_rewritten_chain_does_not_fit_its_checkpoint),
		T(no_pin_is_an_unknown_key),
		T(an_old_copy_is_refused_at_open),
		T(exports_verify_by_themselves),
		T(edits_of_an_export_are_seen),
		T(filters_find_what_they_say),
		T(every_way_finds_the_same_rows),
		T(a_bounded_query_ends),
		T(queries_survive_json),
		T(the_frame_behind_a_row_is_found),
		T(pruning_leaves_what_verifies),
		T(a_jump_of_the_clock_holds_pruning_back),
		T(a_full_disk_is_said_and_loses_nothing),
		T(a_damaged_page_is_named),
		T(rotation_takes_along_what_is_held),
		T(what_cannot_be_begun_leaves_the_old_one),
		T(a_timeline_that_cannot_be_read_begins_with_what_is_given),
		T(what_is_no_database_is_refused),
		T(two_timelines_do_not_share_a_key_file_by_accident),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
