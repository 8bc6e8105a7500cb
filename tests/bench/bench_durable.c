/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From an event's arrival in hostd to its durable row: median and p99, with durability on.
 * bench_durable DIR [EVENTS [PAUSE_US]]: events come PAUSE_US apart (5000), so each may wait for its group.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/store.h"
#include "lib/loop.h"

enum { EVENTS_MAX = 100000 };

static uint64_t arrived[EVENTS_MAX + 1], took[EVENTS_MAX + 1];
static uint64_t done;

static void durable(void *user, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	uint64_t now = loop_now_ns();

	(void)user;
	(void)ws;
	(void)boot;
	(void)epoch;
	while (done < seq) {
		done++;
		took[done] = now - arrived[done];
	}
}

static void append(struct store *store, uint64_t seq)
{
	static const char raw[] = "{\"v\":1,\"type\":\"exec\",\"seq\":1,\"t\":1,\"pid\":1,\"mac\":\"\"}";
	struct store_frame frame = { .boot = "boot", .epoch = 1, .seq = seq, .raw = raw, .raw_len = sizeof(raw) - 1,
				     .state = "{}" };
	struct store_row row = { .ws = "bench", .epoch = 1, .seq = seq, .kind = EVENT_EXEC, .subject = "/usr/bin/true",
				 .data = "{\"program\":\"/usr/bin/true\",\"command\":\"true\"}" };
	struct err err;

	arrived[seq] = loop_now_ns();
	store_begin(store, "bench");
	store_frame(store, &frame);
	store_row(store, &row);
	if (store_end(store, &err) == STORE_ERR)
		die("%s", err.text);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	static const struct store_ops ops = { .durable = durable };
	uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
	long pause_us = argc > 3 ? strtol(argv[3], NULL, 10) : 5000;
	struct store_config config = { 0 };
	struct store *store;
	char path[4096];
	struct err err;

	if (argc < 2 || !events || events > EVENTS_MAX)
		die("usage: bench_durable DIR [EVENTS [PAUSE_US]], at most %d events", EVENTS_MAX);
	snprintf(path, sizeof(path), "%s/timeline.db", argv[1]);
	config.path = path;
	if (store_open(&config, &ops, NULL, &store, &err))
		die("%s", err.text);
	for (uint64_t seq = 1; seq <= events || done < events;) {
		struct pollfd fd = { .fd = store_fd(store), .events = POLLIN };
		struct timespec pause = { 0, pause_us * 1000 };

		if (seq <= events)
			append(store, seq++);
		if (ppoll(&fd, 1, &pause, NULL) > 0)
			store_dispatch(store);
	}
	qsort(took + 1, events, sizeof(took[0]), by_value);
	printf("%llu events, %ld us apart: median %.1f ms, p99 %.1f ms, worst %.1f ms\n", (unsigned long long)events,
	       pause_us, (double)took[events / 2] / 1e6, (double)took[events * 99 / 100] / 1e6,
	       (double)took[events] / 1e6);
	store_close(store);
	return 0;
}
