/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the vsock device costs, in CPU time, without a guest or a kernel: packets through rings in memory. */
#include <stdio.h>
#include <time.h>

#include "tests/unit/guest_driver.h"

enum { PORT = 5841, GPORT = 1024, ROUNDS = 200000, BULK = 65536 };

static struct vsock_stream *stream;
static bool echoing;

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void on_open(struct vsock_stream *s, void *u)
{
	(void)u;
	stream = s;
}

static size_t on_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	(void)u;
	if (echoing)
		vsock_stream_write(s, p, n);
	return n;
}

static void on_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	(void)s;
	(void)u;
	(void)reason;
}

static const struct vsock_ops ops = { .on_open = on_open, .on_data = on_data, .on_close = on_close };

static void drain(struct drv *d, uint32_t *got)
{
	struct drv_packet k;

	while (drv_recv(d, &k))
		if (k.op == 5)
			*got += k.len;
}

int main(void)
{
	static uint8_t bulk[BULK];
	struct drv *d = drv_new(128);
	uint64_t start, total;
	uint32_t got = 0;

	vsock_listen(d->v, PORT, &ops, NULL);
	d->buf_alloc = 1 << 20;
	drv_send(d, 1, GPORT, PORT, 0, NULL, 0);
	drain(d, &got);

	echoing = true;
	start = cpu_ns();
	for (int i = 0; i < ROUNDS; i++) {
		drv_send(d, 5, GPORT, PORT, 0, bulk, 64);
		drain(d, &got);
		d->fwd_cnt = got;
	}
	printf("echo of 64 bytes: %.0f ns of CPU, driver included\n", (double)(cpu_ns() - start) / ROUNDS);
	echoing = false;

	start = cpu_ns();
	for (int i = 0; i < ROUNDS / 10; i++) {
		drv_send(d, 5, GPORT, PORT, 0, bulk, BULK);
		drain(d, &got);
	}
	total = (uint64_t)ROUNDS / 10 * BULK;
	printf("from the guest, 64 KiB packets: %.2f s of CPU a GB, of which the driver copies one half\n",
	       (double)(cpu_ns() - start) / (double)total);

	start = cpu_ns();
	total = 0;
	while (total < 1u << 30) {
		ssize_t n = vsock_stream_write(stream, bulk, BULK);

		if (n < 0)
			return 1;
		total += (uint64_t)n;
		drain(d, &got);
		d->fwd_cnt = got;
		drv_send(d, 6, GPORT, PORT, 0, NULL, 0);
		vsock_kick(d->v, VSOCK_RX);
	}
	printf("to the guest, 4 KiB buffers: %.2f s of CPU a GB, of which the driver copies one half\n",
	       (double)(cpu_ns() - start) / (double)total);
	drv_free(d);
	return 0;
}
