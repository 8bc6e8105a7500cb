/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Replays: event streams in tests/data/replays, each with the score, the moment of the trip and the rows it must give.
 *
 * They take the way of live events: ingest, judge, store. Only the clock is the stream's own.
 * Format (made by tests/data/replays/generate.py): {about, strict, required?, config?, steps[], expect}. A step is
 * {t, every?, times?} and one of: frame {…}, tamper [reason, text], event [kind, {…}], tick, boot, restart, release,
 * running bool, volume bytes. "$i" becomes the number of the repetition, "${i}" inside a text likewise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/sentry/ingest.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

#define DIR_REPLAYS "tests/data/replays"
#define BOOT "3e2f1a90-6a52-4c1e-9d11-000000000001"
#define WALL_BASE 1764000000000000000LL

static int64_t clock_ms;
static bool scored[EVENT_COUNT]; /* kinds that had points in some replay */

static int64_t fake_mono(void)
{
	return __atomic_load_n(&clock_ms, __ATOMIC_SEQ_CST) * 1000000;
}

static int64_t fake_wall(void)
{
	return WALL_BASE + fake_mono();
}

struct replay {
	const char *name;
	struct judge_config cfg;
	char dir[64], path[96];
	struct store *store;
	struct ingest *in;
	uint64_t seq;
	int64_t now;
	/* what came out */
	unsigned trips, max_score;
	int64_t trip_ms;
	char first_trip[256];
	json_t *rows; /* kind: events counted in rows, and kind+"#": rows */
};

static void on_trip(void *u, const struct ingest_alert *alert)
{
	struct replay *r = u;

	if (!r->trips++) {
		r->trip_ms = alert->at_ms;
		snprintf(r->first_trip, sizeof(r->first_trip), "%s", event_defs[alert->kind].name);
	}
}

static void bump(json_t *obj, const char *key, json_int_t by)
{
	json_object_set_new(obj, key, json_integer(json_integer_value(json_object_get(obj, key)) + by));
}

static void on_row(void *u, const struct store_row *row)
{
	struct replay *r = u;
	char key[64];

	scored[row->kind] |= row->weight > 0;
	bump(r->rows, event_defs[row->kind].name, row->count);
	snprintf(key, sizeof(key), "%s#", event_defs[row->kind].name);
	bump(r->rows, key, 1);
}

/* "$i" and "${i}" */
static json_t *expand(const json_t *v, long i)
{
	const char *key, *s, *at;
	json_t *out, *member;
	char text[1024];
	size_t n;

	switch (json_typeof(v)) {
	case JSON_STRING:
		s = json_string_value(v);
		if (!strcmp(s, "$i"))
			return json_integer(i);
		at = strstr(s, "${i}");
		if (!at)
			return json_incref((json_t *)v);
		snprintf(text, sizeof(text), "%.*s%ld%s", (int)(at - s), s, i, at + 4);
		return json_string(text);
	case JSON_OBJECT:
		out = json_object();
		json_object_foreach ((json_t *)v, key, member)
			json_object_set_new(out, key, expand(member, i));
		return out;
	case JSON_ARRAY:
		out = json_array();
		json_array_foreach (v, n, member)
			json_array_append_new(out, expand(member, i));
		return out;
	default:
		return json_incref((json_t *)v);
	}
}

static void open_store(struct replay *r)
{
	static const struct store_ops ops = { .row = on_row };
	struct store_config cfg = { .path = r->path, .no_sync = true, .mono_ns = fake_mono, .wall_ns = fake_wall };
	static const struct ingest_ops in_ops = { .trip = on_trip };
	struct err e;

	if (store_open(&cfg, &ops, r, &r->store, &e))
		fail_msg("%s: %s", r->name, e.text);
	r->in = ingest_new(r->store, "demo", &r->cfg, &in_ops, r, r->now);
	assert_non_null(r->in);
}

static void close_store(struct replay *r)
{
	ingest_free(r->in);
	store_close(r->store);
}

static void step_frame(struct replay *r, const json_t *frame)
{
	_cleanup_json_ json_t *event = json_copy((json_t *)frame);
	_cleanup_free_ char *text = NULL;
	const char *type = json_string_value(json_object_get(frame, "type"));
	struct err e;
	bool hello = !strcmp(type, "hello");
	uint64_t seq = hello ? 0 : ++r->seq;
	int rc;

	json_object_set_new(event, "seq", json_integer((json_int_t)seq));
	json_object_set_new(event, "t", json_integer(r->now * 1000000));
	text = json_text(event);
	while ((rc = ingest_frame(r->in, r->now, type, seq, event, text, strlen(text), "{}", &e)) == STORE_BUSY) {
		store_sync(r->store, 10000, NULL);
		store_dispatch(r->store);
	}
	if (rc != STORE_OK)
		fail_msg("%s: frame %llu: %d", r->name, (unsigned long long)seq, rc);
}

static void one_step(struct replay *r, const json_t *step)
{
	const json_t *v;
	struct err e;

	if ((v = json_object_get(step, "frame")))
		step_frame(r, v);
	else if ((v = json_object_get(step, "tamper")))
		ingest_tamper(r->in, r->now, json_string_value(json_array_get(v, 0)),
			      json_string_value(json_array_get(v, 1)), &e);
	else if ((v = json_object_get(step, "event"))) {
		int kind = event_find(json_string_value(json_array_get(v, 0)));

		assert_true(kind >= 0);
		ingest_event(r->in, r->now, (enum event_kind)kind, json_array_get(v, 1), &e);
	} else if (json_object_get(step, "boot"))
		ingest_boot(r->in, BOOT, 1, r->now);
	else if (json_object_get(step, "restart")) {
		/* hostd died and came back: all it knows is what it stored */
		close_store(r);
		open_store(r);
		ingest_attach(r->in, BOOT, 1);
	} else if (json_object_get(step, "release"))
		ingest_release(r->in, r->now, "tester", &e);
	else if ((v = json_object_get(step, "running")))
		ingest_running(r->in, r->now, json_is_true(v));
	else if ((v = json_object_get(step, "volume")))
		ingest_volume(r->in, r->now, (uint64_t)json_integer_value(v));
	else if (!json_object_get(step, "tick"))
		fail_msg("%s: a step that is none", r->name);
}

/* The clock goes to @t by seconds, with a tick at each, as hostd's does. */
static void advance(struct replay *r, int64_t t)
{
	unsigned score;

	while (r->now / 1000 < t / 1000) {
		r->now = (r->now / 1000 + 1) * 1000;
		if (r->now > t)
			r->now = t;
		__atomic_store_n(&clock_ms, r->now, __ATOMIC_SEQ_CST);
		ingest_tick(r->in, r->now);
	}
	r->now = t;
	__atomic_store_n(&clock_ms, t, __ATOMIC_SEQ_CST);
	score = judge_score(ingest_judge(r->in), r->now);
	if (score > r->max_score)
		r->max_score = score;
}

static void run_steps(struct replay *r, const json_t *steps)
{
	const json_t *step;
	size_t n;

	json_array_foreach (steps, n, step) {
		json_int_t t = json_integer_value(json_object_get(step, "t"));
		json_int_t every = json_integer_value(json_object_get(step, "every"));
		json_int_t times = json_integer_value(json_object_get(step, "times"));

		if (!times)
			times = 1;
		for (json_int_t i = 0; i < times; i++) {
			_cleanup_json_ json_t *one = expand(step, (long)i);
			unsigned score;

			advance(r, t + i * every);
			one_step(r, one);
			score = judge_score(ingest_judge(r->in), r->now);
			if (score > r->max_score)
				r->max_score = score;
			if (i % 256 == 255)
				store_dispatch(r->store);
		}
	}
}

static unsigned check_int(const struct replay *r, const json_t *expect, const char *key, long long have)
{
	const json_t *want = json_object_get(expect, key);

	if (!want || (json_is_null(want) ? have == -1 : json_integer_value(want) == have))
		return 0;
	print_error("%s: %s is %lld, expected %lld\n", r->name, key, have,
		    json_is_null(want) ? -1LL : (long long)json_integer_value(want));
	return 1;
}

static unsigned check(const struct replay *r, const json_t *expect)
{
	const char *key, *by = json_string_value(json_object_get(expect, "trip_by"));
	const json_t *rows = json_object_get(expect, "rows");
	unsigned wrong = 0;
	json_t *want;

	wrong += check_int(r, expect, "max_score", r->max_score);
	wrong += check_int(r, expect, "trips", r->trips);
	wrong += check_int(r, expect, "trip_ms", r->trips ? r->trip_ms : -1);
	if (by && strcmp(by, r->first_trip) != 0) {
		print_error("%s: tripped by %s, expected %s\n", r->name, r->first_trip, by);
		wrong++;
	}
	json_object_foreach ((json_t *)rows, key, want)
		wrong += check_int(r, rows, key, json_integer_value(json_object_get(r->rows, key)));
	if (!json_object_get(expect, "max_score") || !json_object_get(expect, "trip_ms") || !json_object_size(rows)) {
		print_error("%s: expects too little\n", r->name);
		wrong++;
	}
	return wrong;
}

static unsigned replay(const char *path, const char *name)
{
	static const struct json_limits limits = { .bytes = 4 << 20, .depth = 16, .values = 1 << 20 };
	struct replay r = { .name = name, .rows = json_object() };
	_cleanup_json_ json_t *doc = NULL;
	struct buf text;
	unsigned wrong;
	struct err e;

	buf_init(&text, 4 << 20);
	if (io_read_file(path, &text, &e) || !(doc = json_parse(text.data, text.len, &limits, &e)))
		fail_msg("%s: %s", path, e.text);
	buf_free(&text);
	judge_config_default(&r.cfg);
	r.cfg.strict = json_is_true(json_object_get(doc, "strict"));
	r.cfg.required = json_is_true(json_object_get(doc, "required"));
	if (judge_config_parse(json_object_get(doc, "config"), &r.cfg, &e))
		fail_msg("%s: %s", path, e.text);
	strcpy(r.dir, "/tmp/hf-replay-XXXXXX");
	assert_non_null(mkdtemp(r.dir));
	snprintf(r.path, sizeof(r.path), "%s/t.db", r.dir);
	clock_ms = 0;
	open_store(&r);
	run_steps(&r, json_object_get(doc, "steps"));
	close_store(&r);
	wrong = check(&r, json_object_get(doc, "expect"));
	json_decref(r.rows);
	io_remove_tree(AT_FDCWD, r.dir, &e);
	return wrong;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void all_replays_give_what_they_must(void **state)
{
	struct dirent **list;
	const char *only = getenv("REPLAY");
	unsigned wrong = 0, run = 0;
	int n = scandir(DIR_REPLAYS, &list, NULL, by_name);

	(void)state;
	for (int i = 0; i < n; i++) {
		size_t len = strlen(list[i]->d_name);
		char path[512];

		if (len > 5 && !strcmp(list[i]->d_name + len - 5, ".json") && (!only || strstr(list[i]->d_name, only))) {
			snprintf(path, sizeof(path), DIR_REPLAYS "/%s", list[i]->d_name);
			wrong += replay(path, list[i]->d_name);
			run++;
		}
		free(list[i]);
	}
	free(list);
	print_message("%u replays\n", run);
	for (int k = 0; !only && k < EVENT_COUNT; k++)
		if (event_defs[k].signal != SIGNAL_NONE && !scored[k]) {
			print_error("no replay in which %s has points\n", event_defs[k].name);
			wrong++;
		}
	assert_int_equal(wrong, 0);
	if (!only)
		assert_true(run >= 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_replays_give_what_they_must) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
