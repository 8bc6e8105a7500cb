/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vsock streams against a guest driver in plain memory: order, credit, half close, hostility. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/guest_driver.h"

enum { REQUEST = 1, RESPONSE, RST, SHUTDOWN, RW, CREDIT_UPDATE, CREDIT_REQUEST };
enum { PORT = 5841, GPORT = 1024 };

/* What a user of a stream saw. */
struct user {
	struct vsock_stream *s;
	int opened, shut, closed, writable;
	enum vsock_reason reason;
	uint8_t got[512 * 1024];
	size_t n, take; /* take: bytes it consumes at most, per call */
	bool close_in_data, reset_in_open;
};

static void on_open(struct vsock_stream *s, void *u)
{
	struct user *x = u;

	x->s = s;
	x->opened++;
	if (x->reset_in_open)
		vsock_stream_reset(s);
}

static size_t on_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	struct user *x = u;

	if (n > x->take)
		n = x->take;
	memcpy(x->got + x->n, p, n);
	x->n += n;
	if (x->close_in_data)
		vsock_stream_close(s);
	return n;
}

static void on_writable(struct vsock_stream *s, void *u)
{
	(void)s;
	((struct user *)u)->writable++;
}

static void on_shutdown(struct vsock_stream *s, void *u)
{
	(void)s;
	((struct user *)u)->shut++;
}

static void on_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	struct user *x = u;

	(void)s;
	x->closed++;
	x->reason = reason;
	x->s = NULL;
}

static const struct vsock_ops ops = { on_open, on_data, on_writable, on_shutdown, on_close };

static struct user *user_new(void)
{
	struct user *u = calloc(1, sizeof(*u));

	u->take = SIZE_MAX;
	return u;
}

static void expect(struct drv *d, uint16_t op, struct drv_packet *k)
{
	assert_true(drv_recv(d, k));
	assert_int_equal(k->op, op);
}

static void expect_nothing(struct drv *d)
{
	struct drv_packet k;

	assert_false(drv_recv(d, &k));
}

/* A stream that the guest opened. */
static void open_from_guest(struct drv *d, struct user *u)
{
	struct drv_packet k;

	vsock_listen(d->v, PORT, &ops, u);
	drv_send(d, REQUEST, GPORT, PORT, 0, NULL, 0);
	expect(d, RESPONSE, &k);
	assert_int_equal(k.src_port, PORT);
	assert_int_equal(k.dst_port, GPORT);
	assert_int_equal(k.buf_alloc, VSOCK_BUF_ALLOC);
	assert_int_equal(u->opened, 1);
}

static void guest_opens_and_both_talk(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	drv_send(d, RW, GPORT, PORT, 0, "hello", 5);
	assert_int_equal(u->n, 5);
	assert_memory_equal(u->got, "hello", 5);
	assert_int_equal(vsock_stream_write(u->s, "world!", 6), 6);
	expect(d, RW, &k);
	assert_int_equal(k.len, 6);
	assert_memory_equal(k.data, "world!", 6);
	assert_int_equal(k.fwd_cnt, 5);
	drv_send(d, SHUTDOWN, GPORT, PORT, 2, NULL, 0);
	assert_int_equal(u->shut, 1);
	assert_int_equal(u->closed, 0);
	assert_int_equal(vsock_stream_write(u->s, "x", 1), 1);
	expect(d, RW, &k);
	drv_send(d, SHUTDOWN, GPORT, PORT, 3, NULL, 0);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_CLOSED);
	expect(d, RST, &k);
	expect_nothing(d);
	drv_free(d);
	free(u);
}

static void host_closes_in_order(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct vsock_stats st;
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	vsock_stream_shutdown(u->s);
	expect(d, SHUTDOWN, &k);
	assert_int_equal(k.flags, 2);
	assert_int_equal(vsock_stream_write(u->s, "x", 1), -1);
	vsock_stream_close(u->s);
	expect(d, SHUTDOWN, &k);
	assert_int_equal(k.flags, 3);
	drv_send(d, RST, GPORT, PORT, 0, NULL, 0);
	vsock_stats(d->v, &st);
	assert_int_equal(st.streams, 0);
	assert_int_equal(u->closed, 0);
	drv_free(d);
	free(u);
}

static void unanswered_close_becomes_a_reset(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct vsock_stats st;
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	vsock_stream_close(u->s);
	expect(d, SHUTDOWN, &k);
	vsock_tick(d->v, VSOCK_CLOSE_MS - 1);
	expect_nothing(d);
	vsock_tick(d->v, 1);
	expect(d, RST, &k);
	vsock_stats(d->v, &st);
	assert_int_equal(st.streams, 0);
	drv_free(d);
	free(u);
}

static void nobody_listens(void **state)
{
	struct drv *d = drv_new(64);
	struct drv_packet k;

	(void)state;
	drv_send(d, REQUEST, GPORT, 99, 0, NULL, 0);
	expect(d, RST, &k);
	assert_int_equal(k.src_port, 99);
	drv_send(d, RW, GPORT, 99, 0, "x", 1);
	expect(d, RST, &k);
	/* A reset is never answered with a reset. */
	drv_send(d, RST, GPORT, 99, 0, NULL, 0);
	expect_nothing(d);
	/* SEQPACKET was not offered. */
	vsock_listen(d->v, 99, &ops, NULL);
	d->type = 2;
	drv_send(d, REQUEST, GPORT, 99, 0, NULL, 0);
	expect(d, RST, &k);
	assert_int_equal(k.type, 2);
	drv_free(d);
}

static void host_connects(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	assert_non_null(vsock_connect(d->v, 5800, &ops, u));
	assert_int_equal(u->opened, 0);
	expect(d, REQUEST, &k);
	assert_int_equal(k.dst_port, 5800);
	drv_send(d, RESPONSE, 5800, k.src_port, 0, NULL, 0);
	assert_int_equal(u->opened, 1);
	assert_int_equal(vsock_stream_write(u->s, "ls", 2), 2);
	expect(d, RW, &k);
	drv_send(d, RST, 5800, k.src_port, 0, NULL, 0);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_RESET);

	assert_non_null(vsock_connect(d->v, 5800, &ops, u));
	expect(d, REQUEST, &k);
	drv_send(d, RST, 5800, k.src_port, 0, NULL, 0);
	assert_int_equal(u->reason, VSOCK_REFUSED);

	assert_non_null(vsock_connect(d->v, 5800, &ops, u));
	expect(d, REQUEST, &k);
	vsock_tick(d->v, VSOCK_CONNECT_MS);
	assert_int_equal(u->closed, 3);
	assert_int_equal(u->reason, VSOCK_TIMEOUT);
	expect(d, RST, &k);
	/* The answer comes too late. */
	drv_send(d, RESPONSE, 5800, k.src_port, 0, NULL, 0);
	assert_int_equal(u->opened, 1);
	drv_free(d);
	free(u);
}

static void writes_wait_for_the_connection(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct vsock_stream *s;
	struct drv_packet k;

	(void)state;
	s = vsock_connect(d->v, 5800, &ops, u);
	expect(d, REQUEST, &k);
	assert_int_equal(vsock_stream_write(s, "x", 1), 0);
	vsock_stream_shutdown(s);
	expect_nothing(d);
	drv_send(d, RESPONSE, 5800, k.src_port, 0, NULL, 0);
	expect(d, SHUTDOWN, &k);
	drv_free(d);
	free(u);
}

static void guest_credit_is_kept(void **state)
{
	static uint8_t big[65536];
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	u->take = 0;
	for (int i = 0; i < VSOCK_BUF_ALLOC / 65536; i++)
		drv_send(d, RW, GPORT, PORT, 0, big, sizeof(big));
	assert_int_equal(u->closed, 0);
	expect_nothing(d);
	/* Consuming gives credit, told once it is worth a packet. */
	u->take = 1000;
	vsock_stream_resume(u->s);
	assert_int_equal(u->n, VSOCK_BUF_ALLOC);
	expect(d, CREDIT_UPDATE, &k);
	u->take = 0;
	for (int i = 0; i < VSOCK_BUF_ALLOC / 65536; i++)
		drv_send(d, RW, GPORT, PORT, 0, big, sizeof(big));
	assert_int_equal(u->closed, 0);
	/* One byte more than it was given. */
	drv_send(d, RW, GPORT, PORT, 0, big, 1);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_PROTOCOL);
	expect(d, RST, &k);
	drv_free(d);
	free(u);
}

static void bytes_come_before_the_end(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	u->take = 0;
	drv_send(d, RW, GPORT, PORT, 0, "tail", 4);
	drv_send(d, SHUTDOWN, GPORT, PORT, 3, NULL, 0);
	/* The guest is answered at once, the user reads on. */
	expect(d, RST, &k);
	assert_int_equal(u->shut, 0);
	assert_int_equal(u->closed, 0);
	/* The same ports again, while those bytes are still unread. */
	drv_send(d, RST, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(u->closed, 0);
	u->take = SIZE_MAX;
	vsock_stream_resume(u->s);
	assert_int_equal(u->n, 4);
	assert_int_equal(u->shut, 1);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_CLOSED);
	drv_free(d);
	free(u);
}

static void host_credit_is_respected(void **state)
{
	static uint8_t big[300 * 1024];
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;
	size_t got = 0;

	(void)state;
	d->buf_alloc = 10000;
	open_from_guest(d, u);
	assert_int_equal(vsock_stream_write(u->s, big, sizeof(big)), 10000);
	while (drv_recv(d, &k))
		got += k.op == RW ? k.len : 0;
	assert_int_equal(got, 10000);
	assert_int_equal(k.op, CREDIT_REQUEST);
	assert_int_equal(u->writable, 0);
	d->fwd_cnt = 4000;
	drv_send(d, CREDIT_UPDATE, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(u->writable, 1);
	/* An older count, overtaken on the way, takes nothing back. */
	d->fwd_cnt = 1000;
	drv_send(d, CREDIT_UPDATE, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(vsock_stream_write(u->s, big, sizeof(big)), 4000);
	/* A smaller buffer than what is under way: nothing goes. */
	d->buf_alloc = 100;
	drv_send(d, CREDIT_UPDATE, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(vsock_stream_write(u->s, big, sizeof(big)), 0);
	/* Consumed what was never sent. */
	d->fwd_cnt = 14001;
	drv_send(d, CREDIT_UPDATE, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_PROTOCOL);
	drv_free(d);
	free(u);
}

static void writes_wait_for_buffers(void **state)
{
	static uint8_t big[20000];
	struct drv *d = drv_new(0);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	vsock_listen(d->v, PORT, &ops, u);
	drv_send(d, REQUEST, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(vsock_stream_write(u->s, big, sizeof(big)), 0);
	drv_give_rx(d, 2);
	/* The answer to the request goes first, whatever waits. */
	expect(d, RESPONSE, &k);
	assert_int_equal(u->writable, 1);
	assert_int_equal(vsock_stream_write(u->s, big, sizeof(big)), DRV_RX_BYTES - DRV_HDR +
			 (DRV_RX_BYTES - DRV_HDR));
	drv_free(d);
	free(u);
}

static void strange_packets_harm_nobody(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct vsock_stats st;
	struct drv_packet k;
	uint64_t cid = 7;

	(void)state;
	open_from_guest(d, u);
	/* Another guest's cid, as source and as destination. */
	drv_queue_packet(d, RW, GPORT, PORT, 0, "x", 1);
	memcpy(d->mem + drv_tx_at((uint16_t)(d->q[VSOCK_TX].avail_idx - 1) % (DRV_QUEUE / 2)), &cid, 8);
	drv_kick_tx(d);
	drv_queue_packet(d, RW, GPORT, PORT, 0, "x", 1);
	memcpy(d->mem + drv_tx_at((uint16_t)(d->q[VSOCK_TX].avail_idx - 1) % (DRV_QUEUE / 2)) + 8, &cid, 8);
	drv_kick_tx(d);
	vsock_stats(d->v, &st);
	assert_int_equal(st.dropped, 2);
	assert_int_equal(u->n, 0);
	expect_nothing(d);
	/* A length beyond what is there. */
	drv_queue_packet(d, RW, GPORT, PORT, 0, "x", 1);
	drv_w32(d, drv_tx_at((uint16_t)(d->q[VSOCK_TX].avail_idx - 1) % (DRV_QUEUE / 2)) + 24, 2);
	drv_kick_tx(d);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_PROTOCOL);
	expect(d, RST, &k);
	assert_null(d->broken);
	drv_free(d);
	free(u);
}

static void a_request_again_begins_anew(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	drv_send(d, REQUEST, GPORT, PORT, 0, NULL, 0);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_RESET);
	assert_int_equal(u->opened, 2);
	expect(d, RESPONSE, &k);
	drv_free(d);
	free(u);
}

static void streams_are_bounded(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;
	int responses = 0, resets = 0;

	(void)state;
	vsock_listen(d->v, PORT, &ops, u);
	for (uint32_t i = 0; i < VSOCK_STREAMS_MAX + 3; i++) {
		drv_send(d, REQUEST, GPORT + i, PORT, 0, NULL, 0);
		vsock_kick(d->v, VSOCK_RX);
		while (drv_recv(d, &k)) {
			responses += k.op == RESPONSE;
			resets += k.op == RST;
		}
	}
	assert_int_equal(responses, VSOCK_STREAMS_MAX);
	assert_int_equal(resets, 3);
	drv_free(d);
	free(u);
}

static void replies_are_bounded(void **state)
{
	struct drv *d = drv_new(0);
	struct drv_packet k;
	int resets = 0;

	(void)state;
	/* No buffer to answer in: after VSOCK_RESETS_MAX the device takes no more packets. */
	for (uint32_t i = 0; i < DRV_QUEUE / 2; i++)
		drv_queue_packet(d, REQUEST, GPORT + i, 99, 0, NULL, 0);
	drv_kick_tx(d);
	assert_int_equal(drv_r16(d, d->q[VSOCK_TX].used + 2), VSOCK_RESETS_MAX);
	for (uint32_t i = 0; i < 10; i++)
		drv_queue_packet(d, REQUEST, GPORT + 100 + i, 99, 0, NULL, 0);
	drv_kick_tx(d);
	assert_int_equal(drv_r16(d, d->q[VSOCK_TX].used + 2), VSOCK_RESETS_MAX);
	drv_give_rx(d, 100);
	while (drv_recv(d, &k))
		resets += k.op == RST;
	assert_int_equal(resets, VSOCK_RESETS_MAX + 10);
	drv_free(d);
}

static void broken_ring_ends_the_device_only(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	drv_w16(d, d->q[VSOCK_TX].avail + 2, (uint16_t)(d->q[VSOCK_TX].avail_idx + DRV_QUEUE + 1));
	drv_kick_tx(d);
	assert_non_null(d->broken);
	assert_int_equal(u->closed, 0);
	assert_int_equal(vsock_stream_write(u->s, "x", 1), 0);
	assert_null(vsock_connect(d->v, 1, &ops, u));
	vsock_reset(d->v);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_GONE);
	/* A new driver: it works again, listeners are still there. */
	d->broken = NULL;
	drv_start(d);
	drv_give_rx(d, 64);
	drv_send(d, REQUEST, GPORT, PORT, 0, NULL, 0);
	expect(d, RESPONSE, &k);
	assert_null(d->broken);
	drv_free(d);
	free(u);
}

static void small_buffer_breaks_the_ring(void **state)
{
	struct drv *d = drv_new(0);
	struct drv_queue *q = &d->q[VSOCK_RX];

	(void)state;
	drv_desc(d, q, 0, drv_rx_at(0), DRV_HDR - 1, 2, 0);
	drv_offer(d, q, 0);
	drv_send(d, REQUEST, GPORT, 99, 0, NULL, 0);
	assert_non_null(d->broken);
	drv_free(d);
}

static void cut_leaves_the_sentry(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new(), *other = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	vsock_listen(d->v, 8443, &ops, other);
	drv_send(d, REQUEST, GPORT + 1, 8443, 0, NULL, 0);
	expect(d, RESPONSE, &k);
	vsock_cut(d->v, true, PORT);
	assert_int_equal(other->closed, 1);
	assert_int_equal(other->reason, VSOCK_GONE);
	expect(d, RST, &k);
	drv_send(d, RW, GPORT, PORT, 0, "alive", 5);
	assert_int_equal(u->n, 5);
	drv_send(d, REQUEST, GPORT + 2, 8443, 0, NULL, 0);
	expect(d, RST, &k);
	assert_null(vsock_connect(d->v, 5800, &ops, other));
	vsock_cut(d->v, false, PORT);
	drv_send(d, REQUEST, GPORT + 3, 8443, 0, NULL, 0);
	expect(d, RESPONSE, &k);
	drv_free(d);
	free(u);
	free(other);
}

static void users_may_end_streams_anywhere(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();
	struct drv_packet k;

	(void)state;
	open_from_guest(d, u);
	u->close_in_data = true;
	drv_send(d, RW, GPORT, PORT, 0, "x", 1);
	expect(d, SHUTDOWN, &k);
	assert_int_equal(k.flags, 3);
	u->close_in_data = false;
	u->reset_in_open = true;
	drv_send(d, REQUEST, GPORT + 1, PORT, 0, NULL, 0);
	expect(d, RST, &k);
	u->reset_in_open = false;
	/* In on_data out of what was kept. */
	drv_send(d, REQUEST, GPORT + 2, PORT, 0, NULL, 0);
	expect(d, RESPONSE, &k);
	u->take = 0;
	drv_send(d, RW, GPORT + 2, PORT, 0, "kept", 4);
	u->take = 2;
	u->close_in_data = true;
	vsock_stream_resume(u->s);
	expect(d, SHUTDOWN, &k);
	assert_int_equal(u->closed, 0);
	drv_free(d);
	free(u);
}

static void reset_by_the_guest_is_silent(void **state)
{
	struct drv *d = drv_new(64);
	struct user *u = user_new();

	(void)state;
	open_from_guest(d, u);
	vsock_reset(d->v);
	assert_int_equal(u->closed, 1);
	assert_int_equal(u->reason, VSOCK_GONE);
	expect_nothing(d);
	drv_free(d);
	free(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guest_opens_and_both_talk),
		cmocka_unit_test(host_closes_in_order),
		cmocka_unit_test(unanswered_close_becomes_a_reset),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(host_connects),
		cmocka_unit_test(writes_wait_for_the_connection),
		cmocka_unit_test(guest_credit_is_kept),
		cmocka_unit_test(bytes_come_before_the_end),
		cmocka_unit_test(host_credit_is_respected),
		cmocka_unit_test(writes_wait_for_buffers),
		cmocka_unit_test(strange_packets_harm_nobody),
		cmocka_unit_test(a_request_again_begins_anew),
		cmocka_unit_test(streams_are_bounded),
		cmocka_unit_test(replies_are_bounded),
		cmocka_unit_test(broken_ring_ends_the_device_only),
		cmocka_unit_test(small_buffer_breaks_the_ring),
		cmocka_unit_test(cut_leaves_the_sentry),
		cmocka_unit_test(users_may_end_streams_anywhere),
		cmocka_unit_test(reset_by_the_guest_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
