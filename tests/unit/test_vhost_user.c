/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The control socket as QEMU speaks it: start, pause, last words, new driver, loss, bad descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/vm/vhost_user.h"
#include "lib/io.h"
#include "tests/unit/guest_driver.h"

enum { PORT = 5841, GPORT = 1024, RW = 5 };
enum { GET_FEATURES = 1, SET_FEATURES = 2, MEM_TABLE = 5, NUM = 8, ADDR = 9, BASE = 10, GET_BASE = 11, KICK = 12,
       CALL = 13, ENABLE = 18 };

struct world {
	struct loop *loop;
	struct vhost_user *device;
	struct drv d; /* the guest's driver, on the same memory by its own mapping */
	int memfd, qemu, kick[2], call[2];
	int detached, opened, closed;
	enum vsock_reason reason;
	size_t bytes;
	struct vsock_stream *stream;
};

static void on_broken(void *u, const char *why)
{
	((struct world *)u)->d.broken = why;
}

static void on_detached(void *u, const char *why)
{
	(void)why;
	((struct world *)u)->detached++;
}

static void on_open(struct vsock_stream *s, void *u)
{
	((struct world *)u)->opened++;
	((struct world *)u)->stream = s;
}

static size_t on_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	(void)s;
	(void)p;
	((struct world *)u)->bytes += n;
	return n;
}

static void on_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	(void)s;
	((struct world *)u)->closed++;
	((struct world *)u)->reason = reason;
}

static const struct vsock_ops ops = { .on_open = on_open, .on_data = on_data, .on_close = on_close };

static void turns(struct world *w)
{
	for (int i = 0; i < 4; i++)
		loop_turn(w->loop, 0, NULL);
}

static void say(struct world *w, uint32_t req, const void *body, uint32_t n, int fd)
{
	uint8_t out[12 + 64];
	uint32_t head[3] = { req, 1, n };

	memcpy(out, head, 12);
	memcpy(out + 12, body, n);
	assert_int_equal(io_send_fds(w->qemu, out, 12 + n, &fd, fd >= 0), 12 + n);
	turns(w);
}

static void say2(struct world *w, uint32_t req, uint32_t a, uint32_t b)
{
	uint32_t body[2] = { a, b };

	say(w, req, body, sizeof(body), -1);
}

static uint32_t ask_base(struct world *w, uint32_t q)
{
	uint32_t in[5];

	say2(w, GET_BASE, q, 0);
	assert_int_equal(recv(w->qemu, in, sizeof(in), 0), sizeof(in));
	return in[4];
}

static void give_memory(struct world *w)
{
	uint64_t body[5] = { 1, 0, DRV_MEM, DRV_UVA, 0 };

	say(w, MEM_TABLE, body, sizeof(body), w->memfd);
}

static void start_queue(struct world *w, uint32_t q, uint32_t base)
{
	struct drv_queue *k = &w->d.q[q];
	uint64_t addr[5] = { q, DRV_UVA + k->desc, DRV_UVA + k->used, DRV_UVA + k->avail, 0 };
	uint64_t index = q;

	say2(w, NUM, q, DRV_QUEUE);
	say2(w, BASE, q, base);
	say(w, ADDR, addr, sizeof(addr), -1);
	say(w, KICK, &index, sizeof(index), w->kick[q]);
	say(w, CALL, &index, sizeof(index), w->call[q]);
	say2(w, ENABLE, q, 1);
}

/* What a driver does that has just been loaded. */
static void new_driver(struct world *w)
{
	for (int i = 0; i < VSOCK_QUEUES; i++) {
		struct drv_queue *q = &w->d.q[i];

		*q = (struct drv_queue){ .desc = 0x1000 + (uint64_t)i * 0x10000,
					 .avail = 0x4000 + (uint64_t)i * 0x10000,
					 .used = 0x8000 + (uint64_t)i * 0x10000 };
		memset(w->d.mem + q->desc, 0, 0x8000);
	}
	for (uint16_t i = 0; i < 64; i++) {
		drv_desc(&w->d, &w->d.q[VSOCK_RX], i, drv_rx_at(i), DRV_RX_BYTES, 2, 0);
		drv_offer(&w->d, &w->d.q[VSOCK_RX], i);
	}
	start_queue(w, VSOCK_RX, 0);
	start_queue(w, VSOCK_TX, 0);
}

static struct world *world_new(bool sealed)
{
	static const struct vhost_user_ops device_ops = { on_broken, on_detached };
	struct world *w = calloc(1, sizeof(*w));
	uint64_t features = 1ull << 32 | 1ull << 30;
	int pair[2];

	w->loop = loop_new(NULL);
	w->device = vhost_user_new(w->loop, DRV_CID, &device_ops, w);
	w->d.v = vhost_user_vsock(w->device);
	w->d.type = 1;
	w->d.buf_alloc = 65536;
	vsock_listen(w->d.v, PORT, &ops, w);
	w->memfd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(w->memfd, DRV_MEM), 0);
	if (sealed)
		assert_int_equal(fcntl(w->memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	w->d.mem = mmap(NULL, DRV_MEM, PROT_READ | PROT_WRITE, MAP_SHARED, w->memfd, 0);
	for (int q = 0; q < VSOCK_QUEUES; q++) {
		w->kick[q] = eventfd(0, EFD_NONBLOCK);
		w->call[q] = eventfd(0, EFD_NONBLOCK);
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w->qemu = pair[1];
	assert_int_equal(vhost_user_attach(w->device, pair[0], NULL), 0);
	say(w, SET_FEATURES, &features, sizeof(features), -1);
	return w;
}

static void world_free(struct world *w)
{
	vhost_user_free(w->device);
	loop_free(w->loop);
	munmap(w->d.mem, DRV_MEM);
	close(w->memfd);
	close(w->qemu);
	for (int q = 0; q < VSOCK_QUEUES; q++) {
		close(w->kick[q]);
		close(w->call[q]);
	}
	free(w);
}

static void send_packet(struct world *w, uint16_t op, const void *p, uint32_t n)
{
	drv_queue_packet(&w->d, op, GPORT, PORT, 0, p, n);
	assert_int_equal(eventfd_write(w->kick[VSOCK_TX], 1), 0);
	turns(w);
}

static void kicks_and_calls_are_descriptors(void **state)
{
	struct world *w = world_new(true);
	struct drv_packet k;
	eventfd_t calls;

	(void)state;
	give_memory(w);
	new_driver(w);
	send_packet(w, 1, NULL, 0);
	assert_int_equal(w->opened, 1);
	assert_true(drv_recv(&w->d, &k));
	assert_int_equal(k.op, 2);
	assert_int_equal(eventfd_read(w->call[VSOCK_RX], &calls), 0);
	world_free(w);
}

static void streams_outlive_a_pause(void **state)
{
	struct world *w = world_new(true);
	uint32_t rx, tx;

	(void)state;
	give_memory(w);
	new_driver(w);
	send_packet(w, 1, NULL, 0);
	/* The guest's last words, not kicked yet when the VM stops. */
	drv_queue_packet(&w->d, RW, GPORT, PORT, 0, "bye", 3);
	say2(w, ENABLE, VSOCK_RX, 0);
	assert_int_equal(w->bytes, 3);
	rx = ask_base(w, VSOCK_RX);
	tx = ask_base(w, VSOCK_TX);
	assert_int_equal(rx, 1);
	assert_int_equal(tx, 2);
	assert_int_equal(w->closed, 0);
	start_queue(w, VSOCK_RX, rx);
	start_queue(w, VSOCK_TX, tx);
	send_packet(w, RW, "again", 5);
	assert_int_equal(w->bytes, 8);
	assert_int_equal(w->closed, 0);
	world_free(w);
}

static void a_new_driver_has_no_old_streams(void **state)
{
	struct world *w = world_new(true);

	(void)state;
	give_memory(w);
	new_driver(w);
	send_packet(w, 1, NULL, 0);
	ask_base(w, VSOCK_RX);
	ask_base(w, VSOCK_TX);
	assert_int_equal(w->closed, 0);
	new_driver(w);
	assert_int_equal(w->closed, 1);
	assert_int_equal(w->reason, VSOCK_GONE);
	send_packet(w, 1, NULL, 0);
	assert_int_equal(w->opened, 2);
	world_free(w);
}

static void qemu_goes_away(void **state)
{
	struct world *w = world_new(true);

	(void)state;
	give_memory(w);
	new_driver(w);
	send_packet(w, 1, NULL, 0);
	shutdown(w->qemu, SHUT_RDWR);
	turns(w);
	assert_int_equal(w->detached, 1);
	assert_int_equal(w->closed, 1);
	assert_int_equal(w->reason, VSOCK_GONE);
	assert_false(vhost_user_attached(w->device));
	world_free(w);
}

static void memory_that_can_shrink_is_refused(void **state)
{
	struct world *w = world_new(false);

	(void)state;
	give_memory(w);
	assert_int_equal(w->detached, 1);
	world_free(w);
}

static void wrong_requests_end_the_connection(void **state)
{
	static const struct {
		uint32_t req, a, b;
	} rows[] = {
		{ NUM, 2, 128 }, { NUM, 0, 70000 }, { MEM_TABLE, 1, 0 }, { KICK, 0, 0 }, { 31, 0, 0 }, { SET_FEATURES, 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world *w = world_new(true);

		say2(w, rows[i].req, rows[i].a, rows[i].b);
		assert_int_equal(w->detached, 1);
		world_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kicks_and_calls_are_descriptors),
		cmocka_unit_test(streams_outlive_a_pause),
		cmocka_unit_test(a_new_driver_has_no_old_streams),
		cmocka_unit_test(qemu_goes_away),
		cmocka_unit_test(memory_that_can_shrink_is_refused),
		cmocka_unit_test(wrong_requests_end_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
