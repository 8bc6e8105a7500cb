/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kill -9 at random points of ingest: nothing that was acknowledged is missing, and the chain verifies.
 *
 * The program that is killed appends frames with rows and state and tells over a pipe what became durable. 200 kills on
 * the real file system, 200 on a VFS that loses every write that was not synced, and the control: the same VFS with
 * synchronous=OFF must lose something, or the test would see nothing. CRASH_KILLS sets another number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/query.h"
#include "hostd/store/verify.h"
#include "lib/io.h"
#include "tests/unit/lossy_vfs.h"

#define BOOT "boot-a"

struct place {
	char dir[64], path[96], anchor[128], pub[128];
};

static unsigned kills(void)
{
	const char *text = getenv("CRASH_KILLS");

	return text ? (unsigned)atoi(text) : 200;
}

static void make_place(struct place *p)
{
	strcpy(p->dir, "/tmp/hf-crash-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/t.db", p->dir);
	snprintf(p->anchor, sizeof(p->anchor), "%s.anchor", p->path);
	snprintf(p->pub, sizeof(p->pub), "%s.key.pub", p->path);
}

static void on_durable(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	(void)ws;
	(void)boot;
	(void)epoch;
	if (write(*(int *)u, &seq, sizeof(seq)) != sizeof(seq))
		_exit(3);
}

/* One frame with what belongs to it. Folded rows too, so that windows are open when the kill comes. */
static int append(struct store *s, uint64_t seq)
{
	char frame[256], data[256], state[64];
	struct store_frame f = { .boot = BOOT, .epoch = 1, .seq = seq, .raw = frame, .state = state };
	struct store_row exec = { .kind = EVENT_EXEC, .data = data, .subject = "/bin/sh", .boot = BOOT, .epoch = 1, .seq = seq };
	struct store_row denied = { .kind = EVENT_SANDBOX_DENIED, .verdict = VERDICT_DENIED, .subject = "/bin/sh",
				    .data = "{\"exe\":\"/bin/sh\",\"op\":\"open_read\",\"path\":\"/x\"}" };

	f.raw_len = (size_t)snprintf(frame, sizeof(frame), "{\"type\":\"exec\",\"seq\":%llu,\"pid\":%llu}",
				     (unsigned long long)seq, (unsigned long long)seq);
	snprintf(data, sizeof(data), "{\"path\":\"/bin/sh\",\"argv\":[\"sh\",\"%llu\"]}", (unsigned long long)seq);
	snprintf(state, sizeof(state), "{\"seq\":%llu}", (unsigned long long)seq);
	store_begin(s, "demo");
	store_frame(s, &f);
	store_row(s, &exec);
	store_row(s, &denied);
	return store_end(s, NULL);
}

static void ingest_until_killed(const struct place *p, const char *vfs, bool no_sync, int out)
{
	static const struct store_ops ops = { .durable = on_durable };
	struct store_config cfg = { .path = p->path, .vfs = vfs, .no_sync = no_sync, .commit_ms = 1, .checkpoint_rows = 50 };
	struct store *s;
	struct pollfd pfd;
	uint64_t seq, zero = 0;
	struct err e;

	if (vfs)
		lossy_register();
	if (store_open(&cfg, &ops, &out, &s, &e)) {
		fprintf(stderr, "%s\n", e.text);
		_exit(2);
	}
	pfd = (struct pollfd){ .fd = store_fd(s), .events = POLLIN };
	seq = store_last_seq(s, "demo", BOOT, 1);
	if (write(out, &zero, sizeof(zero)) != sizeof(zero)) /* ready */
		_exit(3);
	for (;;) {
		for (int i = 0; i < 7; i++)
			if (append(s, ++seq) != STORE_OK)
				_exit(4);
		poll(&pfd, 1, 20);
		store_dispatch(s);
	}
}

static uint64_t kill_once(const struct place *p, const char *vfs, bool no_sync)
{
	struct timespec wait = { .tv_nsec = (rand() % 60 + 1) * 1000000L + rand() % 1000000 };
	uint64_t acked = 0, seq;
	int pair[2], status;
	pid_t pid;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(pair[0]);
		ingest_until_killed(p, vfs, no_sync, pair[1]);
	}
	close(pair[1]);
	assert_int_equal(io_read_all(pair[0], &seq, sizeof(seq)), 0);
	/* every other kill comes once something was acknowledged, however slow the machine is */
	if (rand() % 2 && io_read_all(pair[0], &seq, sizeof(seq)) == 0)
		acked = seq;
	nanosleep(&wait, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	while (io_read_all(pair[0], &seq, sizeof(seq)) == 0)
		if (seq > acked)
			acked = seq;
	close(pair[0]);
	return acked;
}

static long long number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	long long n = -1;

	if (!sqlite3_prepare_v2(db, sql, -1, &st, NULL) && sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

/* What must hold after a kill; NULL: it does. */
static const char *broken(const struct place *p, uint64_t acked)
{
	static struct verify_pins pins;
	static char why[600];
	struct verify_report r;
	long long last, frames, execs, state;
	sqlite3 *db = NULL;
	struct err e;

	pins.n = 0;
	if (verify_pin_add(&pins, p->pub, &e))
		return "no key";
	if (verify_db(p->path, p->anchor, &pins, &r)) {
		snprintf(why, sizeof(why), "does not verify: %s", r.text);
		return why;
	}
	sqlite3_open_v2(p->path, &db, SQLITE_OPEN_READONLY, NULL);
	last = number(db, "SELECT ifnull(max(seq), 0) FROM frames");
	frames = number(db, "SELECT count(*) FROM frames");
	execs = number(db, "SELECT count(*) FROM rows r JOIN names k ON k.id = r.kind WHERE k.name = 'exec'");
	state = number(db, "SELECT ifnull(max(json_extract(json, '$.seq')), 0) FROM states WHERE key = 'session'");
	sqlite3_close(db);
	if (last < (long long)acked || frames != last || execs != last || state != last) {
		snprintf(why, sizeof(why), "acknowledged %llu, last frame %lld, %lld frames, %lld rows, state %lld",
			 (unsigned long long)acked, last, frames, execs, state);
		return why;
	}
	return NULL;
}

static void kill_many(const char *vfs, unsigned n)
{
	struct place p;
	uint64_t highest = 0;
	struct err e;

	make_place(&p);
	for (unsigned i = 0; i < n; i++) {
		uint64_t acked = kill_once(&p, vfs, false);
		const char *why;

		if (acked > highest)
			highest = acked;
		why = broken(&p, highest);
		if (why)
			fail_msg("kill %u of %u: %s (%s)", i + 1, n, why, p.dir);
	}
	assert_true(highest > n);
	print_message("%u kills, %llu frames acknowledged, none missing\n", n, (unsigned long long)highest);
	io_remove_tree(AT_FDCWD, p.dir, &e);
}

static void kills_lose_nothing(void **state)
{
	(void)state;
	kill_many(NULL, kills());
}

static void kills_on_a_disk_that_loses_unsynced_writes_lose_nothing(void **state)
{
	(void)state;
	kill_many("lossy", kills());
}

/* Without syncing the same kills must lose what was acknowledged: else the two tests above prove nothing. */
static void without_sync_acknowledged_frames_are_lost(void **state)
{
	unsigned lost = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct place p;
		uint64_t acked;
		struct err e;

		make_place(&p);
		acked = kill_once(&p, "lossy", true);
		lost += acked && broken(&p, acked) != NULL;
		io_remove_tree(AT_FDCWD, p.dir, &e);
	}
	assert_true(lost > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kills_lose_nothing),
		cmocka_unit_test(kills_on_a_disk_that_loses_unsynced_writes_lose_nothing),
		cmocka_unit_test(without_sync_acknowledged_frames_are_lost),
	};

	srand((unsigned)time(NULL));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
