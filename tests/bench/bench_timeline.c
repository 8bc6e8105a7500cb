/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Figures of the timeline: ingest with durability on, event to durable row, queries and size as it grows, verify.
 *
 *	bench_timeline [ROWS [DIR]]       default 200000 rows below /tmp; the figures of the docs are of 10 million
 *	bench_timeline --read FILE        only the queries, of a timeline that an earlier run left
 *
 * The clocks are simulated so that the rows spread over 90 days: "the last hour" then holds what it would hold.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/query.h"
#include "hostd/store/verify.h"
#include "lib/err.h"

#define SINGLES 1000
#define REPEATS 21
#define DAYS 90

static int64_t sim_ns = 1764000000000000000LL, sim_step_ns;

static int64_t sim_wall(void)
{
	return __atomic_load_n(&sim_ns, __ATOMIC_RELAXED);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static unsigned rnd(unsigned n)
{
	static uint64_t s = 88172645463325252ull;

	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return (unsigned)(s % n);
}

static const char *const programs[] = { "/usr/bin/node", "/usr/bin/git", "/bin/bash", "/usr/bin/python3", "/usr/bin/cc1",
					"/usr/bin/ld", "/usr/bin/curl", "/usr/bin/make" };

/* A day of an agent: mostly program starts, then flows and denials; one row in five comes with its frame. */
static void fill(struct store *s, uint64_t i)
{
	char data[1024], frame[1400], ws[16];
	unsigned what = rnd(100), p = rnd(8);
	struct store_row r = { .ws = ws, .data = data, .subject = programs[p] };

	snprintf(ws, sizeof(ws), "ws%u", rnd(8));
	if (what < 60) {
		r.kind = EVENT_EXEC;
		snprintf(data, sizeof(data),
			 "{\"argv\":[\"%s\",\"build/step%llu\",\"--out\",\"/home/agent/work/target%u\"],\"path\":\"%s\",\"pid\":%u,"
			 "\"ppid\":%u,\"start_ns\":%llu,\"uid\":1000,\"sandbox\":true}",
			 programs[p], (unsigned long long)i, rnd(5000), programs[p], rnd(4000000), rnd(4000000),
			 (unsigned long long)i * 77);
	} else if (what < 85) {
		r.kind = EVENT_FLOW_ALLOWED;
		snprintf(data, sizeof(data),
			 "{\"program\":\"%s\",\"name\":\"host%u.example.org\",\"dst\":\"192.0.2.%u\",\"dport\":443,\"proto\":\"tcp\","
			 "\"sport\":%u,\"rule\":\"registry/%llu\"}",
			 programs[p], rnd(3000), rnd(250), rnd(60000), (unsigned long long)i);
	} else {
		r.kind = EVENT_SANDBOX_DENIED;
		r.weight = 1;
		snprintf(data, sizeof(data),
			 "{\"exe\":\"%s\",\"op\":\"open_read\",\"path\":\"/root/secret/%llu\",\"pid\":%u,\"errno\":13}", programs[p],
			 (unsigned long long)i, rnd(4000000));
	}
	r.verdict = event_defs[r.kind].verdict;
	store_begin(s, ws);
	if (i % 5 == 0) {
		struct store_frame f = { .boot = ws, .epoch = 1, .seq = i + 1, .raw = frame };

		f.raw_len = (size_t)snprintf(frame, sizeof(frame),
					     "{\"v\":1,\"type\":\"exec\",\"t\":%llu,\"seq\":%llu,%s,\"chain\":[{\"pid\":%u,\"start_ns\":1,"
					     "\"comm\":\"bash\",\"path\":\"/bin/bash\",\"args\":\"bash -c make\"},{\"pid\":1,\"start_ns\":1,"
					     "\"comm\":\"init\",\"path\":\"/sbin/init\"}],\"mac\":\"%064llu\"}",
					     (unsigned long long)i, (unsigned long long)i, data + 1, rnd(4000000),
					     (unsigned long long)i);
		r.boot = ws;
		r.seq = i + 1;
		store_frame(s, &f);
	}
	store_row(s, &r);
}

static void must(int rc, const struct err *e)
{
	if (rc < 0)
		die("%s", e->text);
}

static uint64_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

static int count_row(void *u, const struct store_row *row)
{
	(void)row;
	++*(uint64_t *)u;
	return 0;
}

static void time_query(struct query_db *db, const char *what, const struct query *q, int repeats)
{
	double took[REPEATS], cpu = cpu_seconds();
	uint64_t n = 0;
	struct err e;

	for (int i = 0; i < repeats; i++) {
		double t = seconds();

		n = 0;
		must(query_run(db, q, count_row, &n, &e), &e);
		took[i] = (seconds() - t) * 1000;
	}
	cpu = (cpu_seconds() - cpu) * 1000 / repeats;
	qsort(took, (size_t)repeats, sizeof(took[0]), by_value);
	printf("    %-34s median %8.2f ms, worst of %d %8.2f ms, CPU %8.2f ms, %llu rows\n", what, took[repeats / 2], repeats,
	       took[repeats - 1], cpu, (unsigned long long)n);
}

static void queries(const char *path, uint64_t rows)
{
	int64_t hour = sim_wall() - 3600 * 1000000000LL;
	struct query last_hour = { .since_ns = hour }, ws = { .since_ns = hour, .ws = "ws3" },
		     denied = { .since_ns = hour, .verdicts = 1u << VERDICT_DENIED },
		     grep = { .since_ns = hour, .grep = "target77" }, newest = { .limit = 200 },
		     weight = { .min_weight = 1, .limit = 200 }, trips = { .limit = 200 }, execs = { .ws = "ws3", .limit = 200 },
		     alarms = { .verdicts = 1u << VERDICT_ALARM, .limit = 200 },
		     judge = { .engines = 1u << ENGINE_JUDGE, .limit = 200 };
	char word[32];
	struct query word_q = { .match = word };
	struct query_db *db;
	struct err e;

	snprintf(word, sizeof(word), "step%llu", (unsigned long long)(rows / 2));
	must(query_open(path, &db, &e), &e);
	time_query(db, "the last hour", &last_hour, REPEATS);
	time_query(db, "the last hour of one workspace", &ws, REPEATS);
	time_query(db, "denials of the last hour", &denied, REPEATS);
	time_query(db, "text in the last hour (--grep)", &grep, REPEATS);
	time_query(db, "a word anywhere (--match)", &word_q, REPEATS);
	time_query(db, "the newest 200", &newest, REPEATS);
	time_query(db, "the newest 200 with weight", &weight, REPEATS);
	query_kind_add(&execs, EVENT_EXEC);
	time_query(db, "200 program starts of one workspace", &execs, REPEATS);
	query_kind_add(&trips, EVENT_SCORE_TRIP);
	time_query(db, "a kind that never came", &trips, REPEATS);
	time_query(db, "an engine that said nothing", &judge, REPEATS);
	time_query(db, "alarms, of which there are none", &alarms, REPEATS);
	query_close(db);
}

static void grow(struct store *s, const char *path, uint64_t *done, uint64_t goal)
{
	char wal[512];
	double t = seconds(), took;
	uint64_t from = *done;
	struct err e;
	struct pollfd p = { .fd = store_fd(s), .events = POLLIN };

	while (*done < goal) {
		__atomic_fetch_add(&sim_ns, sim_step_ns, __ATOMIC_RELAXED);
		fill(s, *done);
		while (store_end(s, &e) == STORE_BUSY) {
			poll(&p, 1, 1000);
			store_dispatch(s);
			fill(s, *done);
		}
		if (++*done % 512 == 0)
			store_dispatch(s);
	}
	must(store_sync(s, 600000, &e), &e);
	store_dispatch(s);
	took = seconds() - t;
	snprintf(wal, sizeof(wal), "%s-wal", path);
	printf("%llu rows: %.0f rows a second durable, %.2f GB, %.0f bytes a row (with frames, indexes and full text)\n",
	       (unsigned long long)*done, (double)(*done - from) / took, (double)(size_of(path) + size_of(wal)) / 1e9,
	       (double)size_of(path) / (double)*done);
	fflush(stdout);
}

static void singles(struct store *s, uint64_t *done)
{
	static double took[SINGLES];
	struct err e;

	for (int i = 0; i < SINGLES; i++) {
		double t = seconds();

		__atomic_fetch_add(&sim_ns, 1000000000, __ATOMIC_RELAXED);
		fill(s, (*done)++);
		must(store_end(s, &e), &e);
		must(store_sync(s, 10000, &e), &e);
		took[i] = (seconds() - t) * 1000;
		store_dispatch(s);
		usleep(25000); /* one event now and then: no group to wait for */
	}
	qsort(took, SINGLES, sizeof(took[0]), by_value);
	printf("event to durable row, alone: median %.2f ms, p99 %.2f ms\n", took[SINGLES / 2], took[SINGLES * 99 / 100]);
}

static void verify(const char *path)
{
	static struct verify_pins pins;
	char anchor[512], key[512];
	struct verify_report r;
	struct err e;
	double t;

	snprintf(anchor, sizeof(anchor), "%s.anchor", path);
	snprintf(key, sizeof(key), "%s.key.pub", path);
	must(verify_pin_add(&pins, key, &e), &e);
	t = seconds();
	if (verify_db(path, anchor, &pins, &r))
		die("it does not verify: %s", r.text);
	printf("verify: %llu rows and %llu frames in %.1f s (%.0f a second)\n", (unsigned long long)r.rows,
	       (unsigned long long)r.frames, seconds() - t, (double)(r.rows + r.frames) / (seconds() - t));
}

static int newest_time(void *u, const struct store_row *row)
{
	(void)u;
	sim_ns = row->host_ns;
	return 1;
}

static void read_only(const char *path)
{
	struct query newest = { .limit = 1, .newest_first = true, .all = true };
	struct query_db *db;
	uint64_t rows;
	struct err e;

	must(query_open(path, &db, &e), &e);
	must(query_run(db, &newest, newest_time, NULL, &e), &e);
	rows = query_last_id(db);
	query_close(db);
	printf("%llu rows, %.2f GB\n", (unsigned long long)rows, (double)size_of(path) / 1e9);
	queries(path, rows);
}

int main(int argc, char **argv)
{
	uint64_t goal = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000, done = 0, step;
	const char *dir = argc > 2 ? argv[2] : "/tmp";
	static const unsigned stops[] = { 10, 20, 50, 100 };
	char path[400], sub[300];
	struct store_config cfg = { .path = path, .wall_ns = sim_wall, .mono_ns = sim_wall };
	struct store_stats st;
	struct store *s;
	struct err e;

	if (argc == 3 && !strcmp(argv[1], "--read")) {
		read_only(argv[2]);
		return 0;
	}
	if (!goal)
		die("usage: bench_timeline [ROWS [DIR]]");
	snprintf(sub, sizeof(sub), "%s/bench-timeline-XXXXXX", dir);
	if (!mkdtemp(sub))
		die("%s", sub);
	snprintf(path, sizeof(path), "%s/timeline.db", sub);
	sim_step_ns = DAYS * 86400LL * 1000000000 / (int64_t)goal;
	must(store_open(&cfg, NULL, NULL, &s, &e), &e);
	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		step = goal * stops[i] / 100;
		grow(s, path, &done, step);
		queries(path, done);
		fflush(stdout);
	}
	singles(s, &done);
	store_stats(s, &st);
	printf("longest commit %.1f ms, %llu commits, queue at most %.1f MB\n", (double)st.commit_ns_max / 1e6,
	       (unsigned long long)st.commits, (double)st.queued_max / 1e6);
	store_close(s);
	verify(path);
	printf("files are in %s\n", sub);
	return 0;
}
