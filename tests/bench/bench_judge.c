/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Figures of the judge within hostd: from the deciding event to the cut, and a flood beside a quiet workspace.
 *
 *	bench_judge cut [TRIPS]            default 200
 *	bench_judge flood [RATE [SECONDS]] default 10000 events a second for 10 s
 *	bench_judge volume                 a steady 100 kB a second, then 20 MB: how long until the row
 *
 * hostd's own code from its end of the role's socket on: message, ingest, judge, store with durability, quarantine, link.
 * The role is a thread here that speaks its protocol; no VM runs, so the cut is the moment at which the order to close
 * the network has arrived. Exit 1 when a flood held up the quiet workspace or memory grew with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "hostd/daemon/alerts.h"
#include "hostd/daemon/workspace.h"
#include "hostd/ws/settings.h"
#include "lib/buf.h"
#include "lib/io.h"
#include "lib/json.h"

enum { TRIPS_MAX = 10000, SAMPLES_MAX = 100000, QUIET_EVERY_MS = 100 };

/* ---- the role's side ---- */

struct role {
	const char *name;
	struct workspace *ws;
	int fd;
	uint64_t seq;
	pthread_t thread;
	/* cut */
	unsigned trips;
	_Atomic unsigned released;
	double took_ms[TRIPS_MAX];
	/* flood */
	unsigned rate, seconds;
	uint64_t sent, blocked_ns;
	double acked_ms[SAMPLES_MAX];
	unsigned n_acked;
};

static void sleep_ns(int64_t ns)
{
	const struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&ts, NULL);
}

static void send_msg(struct role *r, uint16_t type, json_t *json, const char *blob)
{
	char *text = json_text(json);
	size_t n = strlen(text), m = blob ? strlen(blob) : 0;
	uint64_t before = loop_now_ns();
	struct buf b;

	buf_init(&b, MSG_MAX);
	buf_put_u16(&b, type);
	buf_put_u16(&b, 0);
	buf_put_u32(&b, (uint32_t)n);
	buf_put_u32(&b, (uint32_t)m);
	buf_put(&b, text, n);
	if (m)
		buf_put(&b, blob, m);
	if (send(r->fd, b.data, b.len, MSG_NOSIGNAL) < 0)
		die("%s: hostd took no message: %s", r->name, strerror(errno));
	r->blocked_ns += loop_now_ns() - before;
	buf_free(&b);
	free(text);
	json_decref(json);
}

/* A frame as the session passes it on, with the text that the guest sent. */
static void send_frame(struct role *r, const char *kind, json_t *event)
{
	char *raw;

	r->seq++;
	json_object_update_new(event, json_pack("{s:i,s:s,s:I,s:I}", "v", 1, "type", kind, "seq", (json_int_t)r->seq, "t",
						(json_int_t)loop_now_ns()));
	raw = json_text(event);
	send_msg(r, ROLE_VM_SENTRY_FRAME,
		 json_pack("{s:s,s:I,s:i,s:I,s:{s:i},s:o}", "kind", kind, "seq", (json_int_t)r->seq, "conn", 0, "host_ms",
			   (json_int_t)loop_now_ms(), "state", "schema", 1, "event", event), raw);
	free(raw);
}

/* One message of hostd's: its type, 0 for none within the time; *json is the caller's. */
static uint16_t receive(struct role *r, int timeout_ms, json_t **json)
{
	static _Thread_local char text[MSG_MAX];
	struct pollfd p = { .fd = r->fd, .events = POLLIN };
	uint16_t type, flags;
	uint32_t n, m;
	struct rd rd;
	ssize_t got;

	*json = NULL;
	if (poll(&p, 1, timeout_ms) <= 0)
		return 0;
	got = recv(r->fd, text, sizeof(text), 0);
	if (got <= 0)
		die("%s: hostd ended the connection", r->name);
	rd_init(&rd, text, (size_t)got);
	if (rd_u16(&rd, &type) || rd_u16(&rd, &flags) || rd_u32(&rd, &n) || rd_u32(&rd, &m))
		die("%s: a short message", r->name);
	*json = json_loadb((const char *)rd.p, n, 0, NULL);
	return type;
}

static void answer(struct role *r, const json_t *request)
{
	json_t *id = json_object_get(request, "id");

	if (id)
		send_msg(r, ROLE_VM_DONE, json_pack("{s:O,s:b}", "id", id, "ok", 1), NULL);
}

static json_t *gadget(void)
{
	return json_pack("{s:i,s:i,s:s,s:s,s:b,s:s}", "pid", 4242, "start_ns", 5, "comm", "x", "exe", "/tmp/x", "sandbox", 1,
			 "to", "/");
}

/* Answers what hostd asks of the VM: the switch's counter grows by @rate bytes in each second. */
static void *volume_thread(void *u)
{
	struct role *r = u;
	uint64_t begin = loop_now_ms(), sent = 0;

	send_msg(r, ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0), NULL);
	while (!atomic_load(&r->released)) {
		uint64_t passed = loop_now_ms() - begin;
		json_t *json;
		uint16_t type = receive(r, 1000, &json);

		if (passed > 60000)
			break; /* no row came of it */
		sent = passed * 100 + (passed > 5000 ? 20000000 : 0);
		if (passed > 5000 && !r->sent)
			r->sent = loop_now_ms();
		if (type == ROLE_VM_STATUS)
			send_msg(r, ROLE_VM_DONE,
				 json_pack("{s:O,s:b,s:{s:{s:I}}}", "id", json_object_get(json, "id"), "ok", 1, "status", "net",
					   "bytes_up", (json_int_t)sent), NULL);
		json_decref(json);
	}
	return NULL;
}

static void *trip_thread(void *u)
{
	struct role *r = u;

	send_msg(r, ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0), NULL);
	for (unsigned i = 0; i < r->trips; i++) {
		uint64_t decided;
		bool cut = false, stopped = false;

		send_frame(r, "cgroup_move", gadget());
		sleep_ns(5000000 + (int64_t)(i % 17) * 1000000); /* not in step with commits and timers */
		decided = loop_now_ns();
		send_frame(r, "cgroup_move", gadget());
		while (!stopped) {
			json_t *json;
			uint16_t type = receive(r, 10000, &json);
			const char *what = json_string_value(json_object_get(json, "what"));

			if (!type)
				die("trip %u: no order within 10 s", i);
			if (type == ROLE_VM_CUT && !strcmp(what, "network") && !cut) {
				r->took_ms[i] = (double)(loop_now_ns() - decided) / 1e6;
				cut = true;
			}
			stopped = type == ROLE_VM_PAUSE;
			answer(r, json);
			json_decref(json);
		}
		while (atomic_load(&r->released) <= i)
			sleep_ns(1000000);
	}
	return NULL;
}

/* A program start, like none before. */
static json_t *start_of(uint64_t i)
{
	char word[32];

	snprintf(word, sizeof(word), "step%llu", (unsigned long long)i);
	return json_pack("{s:I,s:I,s:I,s:s,s:s,s:s,s:[s,s,s],s:i,s:b,s:[{s:i,s:i,s:s,s:s}]}", "pid", (json_int_t)(i % 4000000),
			 "start_ns", (json_int_t)i, "ppid", (json_int_t)7, "comm", "cc1", "path", "/usr/bin/cc1", "file",
			 "/usr/bin/cc1", "argv", "cc1", word, "-O2", "uid", 1000, "sandbox", 1, "chain", "pid", 1, "start_ns", 1,
			 "comm", "init", "path", "/sbin/init");
}

static void drain(struct role *r)
{
	json_t *json;

	while (receive(r, 0, &json)) {
		answer(r, json);
		json_decref(json);
	}
}

static void *flood_thread(void *u)
{
	struct role *r = u;
	uint64_t begin, end, now;

	send_msg(r, ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0), NULL);
	r->blocked_ns = 0;
	begin = loop_now_ns();
	end = begin + (uint64_t)r->seconds * 1000000000;
	while ((now = loop_now_ns()) < end) {
		uint64_t due = (now - begin) * r->rate / 1000000000;

		if (r->sent < due) {
			send_frame(r, "exec", start_of(r->sent++));
			if (r->sent % 64 == 0)
				drain(r);
		} else {
			sleep_ns(200000);
		}
	}
	return NULL;
}

static void *quiet_thread(void *u)
{
	struct role *r = u;
	uint64_t end;

	send_msg(r, ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0), NULL);
	end = loop_now_ns() + (uint64_t)r->seconds * 1000000000;
	while (loop_now_ns() < end && r->n_acked < SAMPLES_MAX) {
		uint64_t before = loop_now_ns();
		json_int_t acked = 0;

		send_frame(r, "exec", start_of(r->sent++));
		while (acked < (json_int_t)r->seq) {
			json_t *json;
			uint16_t type = receive(r, 60000, &json);

			if (!type)
				die("the quiet workspace waited for over a minute");
			if (type == ROLE_VM_SENTRY_ACK)
				acked = json_integer_value(json_object_get(json, "seq"));
			answer(r, json);
			json_decref(json);
		}
		r->acked_ms[r->n_acked++] = (double)(loop_now_ns() - before) / 1e6;
		sleep_ns(QUIET_EVERY_MS * 1000000LL);
	}
	return NULL;
}

/* ---- hostd's side ---- */

static struct hostd hostd;
static struct role roles[2];
static unsigned running;
static long rss_begin, rss_most;

static long rss_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size, pages = 0;

	if (f && fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void tick(void *user)
{
	long rss = rss_kib();

	(void)user;
	if (rss > rss_most)
		rss_most = rss;
	for (struct workspace *ws = hostd.workspaces; ws; ws = ws->next)
		workspace_tick(ws);
	for (unsigned i = 0; i < 2; i++) {
		struct role *r = &roles[i];
		struct err err;

		if (r->trips && quarantine_state(r->ws->quarantine) == QUARANTINE_HELD) {
			quarantine_release(r->ws->quarantine, "release", "bench");
			ingest_release(r->ws->ingest, (int64_t)loop_now_ms(), "bench", &err);
			atomic_fetch_add(&r->released, 1);
		}
		if (r->sent && !strcmp(r->name, "volume") && judge_score(ingest_judge(r->ws->ingest), (int64_t)loop_now_ms())) {
			r->n_acked = judge_score(ingest_judge(r->ws->ingest), (int64_t)loop_now_ms());
			atomic_store(&r->released, 1);
		}
		if (r->thread && !pthread_tryjoin_np(r->thread, NULL)) {
			r->thread = 0;
			if (!--running)
				loop_stop(hostd.loop, 0);
		}
	}
}

static void must(int rc, const struct err *err)
{
	if (rc < 0)
		die("%s", err->text);
}

static void set_up(const char *dir)
{
	char path[PATHS_MAX + 16];
	struct err err;
	FILE *f;

	setenv("XDG_DATA_HOME", dir, 1);
	setenv("XDG_CONFIG_HOME", dir, 1);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	hostd.spawner = -1;
	must(paths_init(&hostd.paths, &err), &err);
	snprintf(path, sizeof(path), "%s/alerts.json", hostd.paths.config);
	f = fopen(path, "we");
	if (!f || fputs("{\"journal\":false,\"desktop\":false}", f) < 0 || fclose(f))
		die("%s", path);
	if (!freopen("/dev/null", "w", stderr)) /* each trip is a line of the log */
		die("/dev/null");
	hostd.loop = loop_new(&err);
	must(hostd.loop ? 0 : -1, &err);
	must(daemon_open_store(&hostd, &err), &err);
	hostd.alerts = alerts_new(&hostd);
	if (!hostd.alerts)
		die("out of memory");
}

static void begin(struct role *r, const char *name, void *(*thread)(void *))
{
	json_t *settings = settings_default();
	struct err err;
	int pair[2];

	r->name = name;
	must(ws_create(&hostd.paths, name, settings, NULL, 0, &err), &err);
	json_decref(settings);
	r->ws = workspace_add(&hostd, name, &err);
	must(r->ws ? 0 : -1, &err);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		die("socketpair");
	snprintf(r->ws->boot_id, sizeof(r->ws->boot_id), "00000000-0000-4000-8000-%012d", (int)(r - roles));
	must(vmlink_open(r->ws, pair[0], &err), &err);
	r->fd = pair[1];
	running++;
	if (pthread_create(&r->thread, NULL, thread, r))
		die("thread");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int cut(unsigned trips)
{
	struct role *r = &roles[0];
	struct err err;

	r->trips = trips;
	begin(r, "trips", trip_thread);
	if (!loop_timer_add(hostd.loop, 5, 5, tick, NULL) || loop_run(hostd.loop, &err) < 0)
		die("the loop ended");
	qsort(r->took_ms, trips, sizeof(r->took_ms[0]), by_value);
	printf("deciding event to the order that closes the network, %u trips: median %.3f ms, p99 %.3f ms, worst %.3f ms\n",
	       trips, r->took_ms[trips / 2], r->took_ms[trips * 99 / 100], r->took_ms[trips - 1]);
	return 0;
}

static int volume(void)
{
	struct role *r = &roles[0];
	struct err err;

	begin(r, "volume", volume_thread);
	if (!loop_timer_add(hostd.loop, 50, 50, tick, NULL) || loop_run(hostd.loop, &err) < 0)
		die("the loop ended");
	if (!r->released) {
		puts("FAILED: 20 MB within a second gave no points");
		return 1;
	}
	printf("20 MB within a second after 100 kB a second: %d points within %.1f s\n", (int)r->n_acked,
	       (double)(loop_now_ms() - r->sent) / 1000);
	return r->n_acked != 8;
}

static int flood(unsigned rate, unsigned seconds)
{
	struct role *f = &roles[0], *q = &roles[1];
	struct store_stats stats;
	struct err err;
	bool bad;

	f->rate = rate;
	f->seconds = q->seconds = seconds;
	begin(f, "flood", flood_thread);
	begin(q, "quiet", quiet_thread);
	rss_begin = rss_kib();
	if (!loop_timer_add(hostd.loop, 50, 50, tick, NULL) || loop_run(hostd.loop, &err) < 0)
		die("the loop ended");
	store_stats(hostd.store, &stats);
	qsort(q->acked_ms, q->n_acked, sizeof(q->acked_ms[0]), by_value);
	printf("offered %u a second for %u s: %llu events taken (%llu a second), the sender was held back %.1f s\n", rate,
	       seconds, (unsigned long long)f->sent, (unsigned long long)f->sent / seconds, (double)f->blocked_ns / 1e9);
	printf("the quiet workspace: %u events, each durable and acknowledged: median %.1f ms, p99 %.1f ms, worst %.1f ms\n",
	       q->n_acked, q->acked_ms[q->n_acked / 2], q->acked_ms[q->n_acked * 99 / 100], q->acked_ms[q->n_acked - 1]);
	printf("memory: %.1f MB at the start, %.1f MB at most; the store's queue at most %.1f MB\n", (double)rss_begin / 1024,
	       (double)rss_most / 1024, (double)stats.queued_max / 1e6);
	bad = q->acked_ms[q->n_acked - 1] > 5000 || rss_most - rss_begin > 96 * 1024 || stats.queued_max > 64u << 20;
	if (bad)
		puts("FAILED: over 5 s for the quiet one, 96 MiB more memory, or 64 MiB in the queue");
	return bad;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/bench-judge-XXXXXX";
	unsigned a = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	unsigned b = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
	int rc;

	if (argc < 2 || (strcmp(argv[1], "cut") && strcmp(argv[1], "flood") && strcmp(argv[1], "volume")) || a > 1000000 || !mkdtemp(dir))
		die("usage: bench_judge cut [TRIPS] | flood [RATE [SECONDS]] | volume");
	set_up(dir);
	if (!strcmp(argv[1], "cut"))
		rc = cut(a && a <= TRIPS_MAX ? a : 200);
	else if (!strcmp(argv[1], "volume"))
		rc = volume();
	else
		rc = flood(a ? a : 10000, b ? b : 10);
	workspaces_free(&hostd);
	alerts_free(hostd.alerts);
	store_close(hostd.store);
	io_remove_tree(AT_FDCWD, dir, NULL);
	return rc;
}
