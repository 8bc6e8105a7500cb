/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store: durability callbacks, entries as a whole, folding, state, bounds, restart, checkpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/query.h"
#include "hostd/store/store.h"
#include "lib/io.h"

/* What ASan holds back for its checks would hide what the store itself grows by. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16";
}

struct fixture {
	char dir[64], path[96];
	struct store_config cfg;
	struct store *s;
	/* what the callbacks said */
	char ws[STORE_WS_MAX];
	uint64_t durable, last_row;
	unsigned rows, folds, folded_count, writable, health_calls;
	enum store_health health;
	char sentence[512];
};

static void on_durable(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	struct fixture *f = u;

	(void)boot;
	(void)epoch;
	if (!strcmp(f->ws, ws))
		assert_true(seq >= f->durable);
	snprintf(f->ws, sizeof(f->ws), "%s", ws);
	f->durable = seq;
}

static void on_row(void *u, const struct store_row *row)
{
	struct fixture *f = u;

	assert_true(row->id > f->last_row);
	f->last_row = row->id;
	f->rows++;
	if (row->fold) {
		f->folds++;
		f->folded_count += row->count;
	}
}

static void on_writable(void *u, const char *ws)
{
	(void)ws;
	((struct fixture *)u)->writable++;
}

static void on_health(void *u, enum store_health health, const char *why)
{
	struct fixture *f = u;

	(void)why;
	f->health = health;
	f->health_calls++;
}

static const struct store_ops ops = { .durable = on_durable, .row = on_row, .writable = on_writable,
				      .health = on_health };

static void reopen(struct fixture *f)
{
	struct err e;

	store_close(f->s);
	f->s = NULL;
	if (store_open(&f->cfg, &ops, f, &f->s, &e))
		fail_msg("%s", e.text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e;

	strcpy(f->dir, "/tmp/hf-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/timeline.db", f->dir);
	f->cfg.path = f->path;
	if (store_open(&f->cfg, &ops, f, &f->s, &e))
		fail_msg("%s", e.text);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct err e;

	store_close(f->s);
	io_remove_tree(AT_FDCWD, f->dir, &e);
	free(f);
	return 0;
}

static void settle(struct fixture *f)
{
	struct err e;

	if (store_sync(f->s, 5000, &e))
		fail_msg("%s", e.text);
	store_dispatch(f->s);
}

static int frame(struct fixture *f, uint64_t seq, const char *text)
{
	struct store_frame fr = { .boot = "b0", .epoch = 1, .seq = seq, .raw = text, .raw_len = strlen(text),
				  .state = "{\"last\":1}" };

	return store_append_frame(f->s, "demo", &fr, NULL);
}

static int denial(struct fixture *f, const char *path, uint64_t pid)
{
	char data[256];
	struct store_row r = { .ws = "demo", .kind = EVENT_SANDBOX_DENIED, .verdict = VERDICT_DENIED, .weight = 1,
			       .subject = "/usr/bin/npm", .data = data, .proc = store_proc(pid, 7) };

	snprintf(data, sizeof(data), "{\"program\":\"/usr/bin/npm\",\"op\":\"open_read\",\"path\":\"%s\",\"pid\":%llu}", path,
		 (unsigned long long)pid);
	return store_append_row(f->s, &r, NULL);
}

static void frames_are_durable_before_they_are_told(void **state)
{
	struct fixture *f = *state;
	struct pollfd p = { .fd = store_fd(f->s), .events = POLLIN };

	for (uint64_t seq = 1; seq <= 100; seq++)
		assert_int_equal(frame(f, seq, "{\"type\":\"heartbeat\"}"), STORE_OK);
	assert_int_equal(store_last_seq(f->s, "demo", "b0", 1), 100);
	assert_int_equal(f->durable, 0);
	while (f->durable < 100) {
		assert_int_equal(poll(&p, 1, 1000), 1);
		store_dispatch(f->s);
	}
	assert_string_equal(f->ws, "demo");
	assert_int_equal(store_durable_seq(f->s, "demo", "b0", 1), 100);
}

static void a_frame_seen_before_is_told_again_and_not_taken(void **state)
{
	struct fixture *f = *state;
	struct store_stats st;

	assert_int_equal(frame(f, 1, "{}"), STORE_OK);
	settle(f);
	f->durable = 0;
	assert_int_equal(frame(f, 1, "{}"), STORE_SEEN);
	store_dispatch(f->s);
	assert_int_equal(f->durable, 1);
	reopen(f);
	assert_int_equal(frame(f, 1, "{}"), STORE_SEEN);
	assert_int_equal(frame(f, 2, "{}"), STORE_OK);
	settle(f);
	store_stats(f->s, &st);
	assert_int_equal(st.frames, 1);
}

static void state_comes_back(void **state)
{
	struct fixture *f = *state;
	char *json;

	frame(f, 1, "{}");
	assert_int_equal(store_put_state(f->s, "demo", "judge", "{\"score\":3}", NULL), STORE_OK);
	assert_int_equal(store_put_state(f->s, "demo", "gone", "1", NULL), STORE_OK);
	assert_int_equal(store_put_state(f->s, "demo", "gone", NULL, NULL), STORE_OK);
	reopen(f);
	json = store_get_state(f->s, "demo", "judge");
	assert_string_equal(json, "{\"score\":3}");
	free(json);
	json = store_get_state(f->s, "demo", "session");
	assert_string_equal(json, "{\"last\":1}");
	free(json);
	assert_null(store_get_state(f->s, "demo", "gone"));
	assert_null(store_get_state(f->s, "other", "judge"));
}

static void equal_rows_fold_and_add_up(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 50; i++)
		denial(f, "/root/.ssh/id_ed25519", 100 + (uint64_t)(i % 3));
	denial(f, "/etc/shadow", 100);
	settle(f);
	assert_int_equal(f->rows, 2); /* the first of each at once */
	reopen(f);		      /* closing writes what the window held */
	assert_int_equal(f->rows, 3);
	assert_int_equal(f->folds, 1);
	assert_int_equal(f->folded_count, 49);
}

static void too_many_different_rows_stay_bounded(void **state)
{
	struct fixture *f = *state;
	char path[64];

	for (int i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/tmp/%d", i);
		while (denial(f, path, 1) == STORE_BUSY)
			settle(f);
	}
	settle(f);
	assert_true(f->rows <= 513);
	reopen(f);
	assert_true(f->rows <= 520);
	assert_int_equal(f->rows - f->folds + f->folded_count, 5000);
}

static void a_full_queue_says_busy_to_one_workspace_only(void **state)
{
	struct fixture *f = *state;
	static char big[60000];
	uint64_t seq = 0;
	int rc;

	f->cfg.ws_queue_bytes = 1 << 20;
	reopen(f);
	memset(big, 'x', sizeof(big) - 1);
	while ((rc = frame(f, ++seq, big)) == STORE_OK)
		;
	assert_int_equal(rc, STORE_BUSY);
	assert_true(seq < 20);
	struct store_frame other = { .boot = "b1", .epoch = 1, .seq = 1, .raw = "{}", .raw_len = 2 };
	assert_int_equal(store_append_frame(f->s, "other", &other, NULL), STORE_OK);
	settle(f);
	assert_int_equal(f->writable, 1);
	assert_int_equal(frame(f, seq, big), STORE_OK);
}

static void an_entry_is_refused_as_a_whole(void **state)
{
	struct fixture *f = *state;
	static char big[STORE_FRAME_MAX + 2];
	struct store_row r = { .kind = EVENT_EXEC, .data = "{}" };
	struct store_stats st;

	memset(big, 'x', sizeof(big) - 1);
	struct store_frame fr = { .boot = "b0", .seq = 1, .raw = big, .raw_len = sizeof(big) - 1 };
	store_begin(f->s, "demo");
	store_row(f->s, &r);
	store_frame(f->s, &fr);
	assert_int_equal(store_end(f->s, NULL), STORE_ERR);
	settle(f);
	store_stats(f->s, &st);
	assert_int_equal(st.rows, 0);
}

static void files_are_private(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	char path[128];

	denial(f, "/x", 1);
	assert_int_equal(store_checkpoint(f->s, 5000, NULL), 0);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	for (const char *const *s = (const char *const[]){ "-wal", ".key", ".anchor", NULL }; *s; s++) {
		snprintf(path, sizeof(path), "%s%s", f->path, *s);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
}

static void data_that_is_no_json_is_kept_as_such(void **state)
{
	struct fixture *f = *state;
	struct store_row r = { .ws = "demo", .kind = EVENT_EXEC, .data = "[1", .subject = "\xff\xfe" };

	assert_int_equal(store_append_row(f->s, &r, NULL), STORE_OK);
	r.data = NULL;
	r.subject = NULL;
	assert_int_equal(store_append_row(f->s, &r, NULL), STORE_OK);
	settle(f);
	assert_int_equal(f->rows, 2);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static long resident_kib(void)
{
	long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * 4;
}

/* A guest that sends all it can, each time something new: others are served, and nothing grows without bound. */
static void a_flood_of_one_does_not_hold_up_the_others(void **state)
{
	struct fixture *f = *state;
	struct store_frame calm = { .boot = "calm", .epoch = 1, .raw = "{}", .raw_len = 2 };
	double end = seconds() + 5, sent = 0, worst = 0;
	unsigned offered = 0, refused = 0, answered = 0;
	struct store_stats st;
	long before;
	char path[64];

	f->cfg.ws_queue_bytes = 1 << 18;
	reopen(f);
	before = resident_kib();
	while (seconds() < end) {
		for (int i = 0; i < 200; i++, offered++) {
			snprintf(path, sizeof(path), "/tmp/made/up/%u", offered);
			refused += denial(f, path, offered) == STORE_BUSY;
			refused += frame(f, offered + 1, "{\"type\":\"exec\",\"path\":\"/bin/x\"}") == STORE_BUSY;
		}
		if (!sent) {
			calm.seq++;
			assert_int_equal(store_append_frame(f->s, "calm", &calm, NULL), STORE_OK);
			sent = seconds();
		}
		store_dispatch(f->s);
		if (store_durable_seq(f->s, "calm", "calm", 1) == calm.seq) {
			if (seconds() - sent > worst)
				worst = seconds() - sent;
			answered++;
			sent = 0;
		}
	}
	store_stats(f->s, &st);
	print_message("%u a second offered, %u refused, %u answers to the other, the slowest after %.0f ms, queue %.1f MB, +%ld KiB\n",
		      2 * offered / 5, refused, answered, worst * 1000, (double)st.queued_max / 1e6, resident_kib() - before);
	assert_true(offered > 5000);
	assert_true(answered >= 3);
	assert_true(st.queued_max <= (1u << 19));
	assert_true(resident_kib() - before < 64 * 1024); /* ASan's quarantine of 16 MiB with it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(frames_are_durable_before_they_are_told),
		T(a_frame_seen_before_is_told_again_and_not_taken),
		T(state_comes_back),
		T(equal_rows_fold_and_add_up),
		T(too_many_different_rows_stay_bounded),
		T(a_full_queue_says_busy_to_one_workspace_only),
		T(an_entry_is_refused_as_a_whole),
		T(files_are_private),
		T(data_that_is_no_json_is_kept_as_such),
		T(a_flood_of_one_does_not_hold_up_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
