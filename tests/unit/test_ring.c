/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest addresses and virtqueues: what is taken, and what breaks the ring instead of us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/guest_driver.h"

static struct drv *start(void **state)
{
	(void)state;
	return drv_new(0);
}

/* ---- addresses ---- */

static void addresses_are_checked(void **state)
{
	static uint8_t low[4096], high[4096];
	struct gpa_map m = { 0 };
	struct gpa_region a = { .gpa = 0x1000, .uva = 0x500000, .size = 4096, .host = low };
	struct gpa_region b = { .gpa = 0x2000, .uva = 0x800000, .size = 4096, .host = high };
	struct gpa_region over = { .gpa = 0x2800, .uva = 0x900000, .size = 4096, .host = high };
	struct gpa_region wrap = { .gpa = UINT64_MAX - 10, .uva = 0xa00000, .size = 4096, .host = high };
	uint64_t len = 8192;

	(void)state;
	assert_int_equal(gpa_add(&m, &a, NULL), 0);
	assert_int_equal(gpa_add(&m, &b, NULL), 0);
	assert_int_equal(gpa_add(&m, &over, NULL), -1);
	assert_int_equal(gpa_add(&m, &wrap, NULL), -1);
	assert_ptr_equal(gpa_ptr(&m, 0x1000, 4096), low);
	assert_ptr_equal(gpa_ptr(&m, 0x2fff, 1), high + 4095);
	assert_null(gpa_ptr(&m, 0xfff, 1));
	assert_null(gpa_ptr(&m, 0x3000, 1));
	assert_null(gpa_ptr(&m, 0x1fff, 2)); /* no pointer covers two regions */
	assert_null(gpa_ptr(&m, 0x1001, UINT64_MAX));
	assert_null(gpa_ptr(&m, UINT64_MAX, 2));
	assert_ptr_equal(gpa_run(&m, 0x1800, &len), low + 0x800);
	assert_int_equal(len, 0x800);
	assert_ptr_equal(gpa_uva_ptr(&m, 0x800010, 16), high + 16);
	assert_null(gpa_uva_ptr(&m, 0x800ff8, 16));
	assert_null(gpa_uva_ptr(&m, 0x1000, 1));
}

static void regions_are_bounded(void **state)
{
	static uint8_t page[4096];
	struct gpa_map m = { 0 };

	(void)state;
	for (uint64_t i = 0; i < GPA_REGIONS_MAX + 1; i++) {
		struct gpa_region r = { .gpa = i << 20, .uva = i << 20, .size = 4096, .host = page };

		assert_int_equal(gpa_add(&m, &r, NULL), i < GPA_REGIONS_MAX ? 0 : -1);
	}
}

/* ---- rings ---- */

static void ring_setup_is_checked(void **state)
{
	struct drv *d = start(state);
	struct ring r;

	assert_int_equal(ring_init(&r, &d->map, 0, DRV_UVA, DRV_UVA, DRV_UVA, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 100, DRV_UVA, DRV_UVA, DRV_UVA, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 2048, DRV_UVA, DRV_UVA, DRV_UVA, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 128, DRV_UVA + 8, DRV_UVA, DRV_UVA, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 128, DRV_UVA, DRV_UVA + 1, DRV_UVA, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 128, DRV_UVA, DRV_UVA, DRV_UVA + 2, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 128, DRV_UVA + DRV_MEM - 16, DRV_UVA, DRV_UVA, 0, false, NULL),
			 -1);
	assert_int_equal(ring_init(&r, &d->map, 128, DRV_UVA, DRV_UVA + DRV_MEM, DRV_UVA, 0, false, NULL), -1);
	assert_int_equal(ring_init(&r, &d->map, 128, DRV_UVA, DRV_UVA + 4096, DRV_UVA + 8192, 0, false, NULL), 0);
	drv_free(d);
}

static void chains_are_taken_and_given_back(void **state)
{
	struct drv *d = start(state);
	struct drv_queue *q = &d->q[VSOCK_TX];
	struct ring *r = vsock_ring(d->v, VSOCK_TX);
	struct ring_chain c;
	char text[16] = "";

	memcpy(d->mem + 0x100000, "hello ", 6);
	memcpy(d->mem + 0x180000, "world", 5);
	drv_desc(d, q, 3, 0x100000, 6, 1, 7);
	drv_desc(d, q, 7, 0x180000, 5, 1, 9);
	drv_desc(d, q, 9, 0x190000, 100, 2, 0);
	assert_int_equal(ring_pop(r, &c), 0);
	drv_offer(d, q, 3);
	assert_int_equal(ring_pop(r, &c), 1);
	assert_int_equal(c.head, 3);
	assert_int_equal(c.out_bytes, 11);
	assert_int_equal(c.in_bytes, 100);
	assert_int_equal(ring_copy_out(&c, 2, text, sizeof(text)), 9);
	assert_string_equal(text, "llo world");
	assert_int_equal(ring_copy_in(&c, 98, "abc", 3), 2);
	assert_memory_equal(d->mem + 0x190000 + 98, "ab", 2);
	ring_push(r, c.head, 100);
	assert_int_equal(drv_r16(d, q->used + 2), 1);
	assert_int_equal(drv_r32(d, q->used + 4), 3);
	assert_int_equal(drv_r32(d, q->used + 8), 100);
	assert_int_equal(ring_pop(r, &c), 0);
	drv_free(d);
}

static void indirect_tables_work(void **state)
{
	struct drv *d = start(state);
	struct drv_queue *q = &d->q[VSOCK_TX];
	struct drv_queue table = { .desc = 0x50000 };
	struct ring_chain c;

	drv_desc(d, &table, 0, 0x100000, 44, 1, 1);
	drv_desc(d, &table, 1, 0x110000, 10, 0, 0);
	drv_desc(d, q, 0, 0x50000, 32, 4, 0);
	drv_offer(d, q, 0);
	assert_int_equal(ring_pop(vsock_ring(d->v, VSOCK_TX), &c), 1);
	assert_int_equal(c.n_out, 2);
	assert_int_equal(c.out_bytes, 54);
	drv_free(d);
}

/* Each row is one broken chain at descriptor 0; the ring must say so and stay broken. */
static void broken_chains_break_the_ring(void **state)
{
	static const struct {
		const char *name;
		uint64_t addr;
		uint32_t len;
		uint16_t flags, next;
		uint64_t addr1;
		uint32_t len1;
		uint16_t flags1, next1;
	} rows[] = {
		{ "next out of range", 0x100000, 4, 1, DRV_QUEUE, 0, 0, 0, 0 },
		{ "a loop", 0x100000, 4, 1, 1, 0x100000, 4, 1, 0 },
		{ "outside of memory", DRV_MEM, 4, 0, 0, 0, 0, 0, 0 },
		{ "over the end of memory", DRV_MEM - 2, 4, 0, 0, 0, 0, 0, 0 },
		{ "wrapping address", UINT64_MAX - 1, 4, 0, 0, 0, 0, 0, 0 },
		{ "too many bytes", 0x100000, RING_CHAIN_BYTES_MAX + 1, 0, 0, 0, 0, 0, 0 },
		{ "too many bytes in two", 0x100000, RING_CHAIN_BYTES_MAX, 1, 1, 0x100000, 1, 0, 0 },
		{ "readable after writable", 0x100000, 4, 3, 1, 0x100000, 4, 0, 0 },
		{ "indirect with next", 0x50000, 32, 5, 1, 0, 0, 0, 0 },
		{ "indirect of no entries", 0x50000, 0, 4, 0, 0, 0, 0, 0 },
		{ "indirect of odd length", 0x50000, 17, 4, 0, 0, 0, 0, 0 },
		{ "indirect outside of memory", DRV_MEM, 32, 4, 0, 0, 0, 0, 0 },
		{ "indirect in indirect", 0x1000 + 0x10000, 32, 4, 0, 0, 0, 0, 0 },
		{ "indirect next out of its table", 0x51000, 16, 4, 0, 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct drv *d = start(state);
		struct drv_queue *q = &d->q[VSOCK_TX];
		struct drv_queue table = { .desc = 0x51000 };
		struct ring_chain c;

		drv_desc(d, &table, 0, 0x100000, 4, 1, 1);
		drv_desc(d, q, 0, rows[i].addr, rows[i].len, rows[i].flags, rows[i].next);
		drv_desc(d, q, 1, rows[i].addr1, rows[i].len1, rows[i].flags1, rows[i].next1);
		drv_offer(d, q, 0);
		print_message("%s\n", rows[i].name);
		assert_int_equal(ring_pop(vsock_ring(d->v, VSOCK_TX), &c), -1);
		assert_non_null(vsock_ring(d->v, VSOCK_TX)->broken);
		assert_int_equal(ring_pop(vsock_ring(d->v, VSOCK_TX), &c), -1);
		drv_free(d);
	}
}

static void head_and_index_are_checked(void **state)
{
	struct drv *d = start(state);
	struct ring_chain c;

	drv_offer(d, &d->q[VSOCK_TX], DRV_QUEUE);
	assert_int_equal(ring_pop(vsock_ring(d->v, VSOCK_TX), &c), -1);
	drv_w16(d, d->q[VSOCK_RX].avail + 2, DRV_QUEUE + 1);
	assert_int_equal(ring_pop(vsock_ring(d->v, VSOCK_RX), &c), -1);
	drv_free(d);
}

static void chains_cross_regions(void **state)
{
	static uint8_t low[4096] __attribute__((aligned(4096)));
	struct drv *d = start(state);
	struct gpa_region r = { .gpa = DRV_MEM, .uva = 0x1000, .size = 4096, .host = low };
	struct ring_chain c;
	uint8_t out[8];

	gpa_add(&d->map, &r, NULL);
	memcpy(d->mem + DRV_MEM - 4, "abcd", 4);
	memcpy(low, "efgh", 4);
	drv_desc(d, &d->q[VSOCK_TX], 0, DRV_MEM - 4, 8, 0, 0);
	drv_offer(d, &d->q[VSOCK_TX], 0);
	assert_int_equal(ring_pop(vsock_ring(d->v, VSOCK_TX), &c), 1);
	assert_int_equal(c.n_out, 2);
	assert_int_equal(ring_copy_out(&c, 0, out, 8), 8);
	assert_memory_equal(out, "abcdefgh", 8);
	drv_free(d);
}

static void calls_are_saved_by_event_index(void **state)
{
	struct drv *d = start(state);
	struct drv_queue *q = &d->q[VSOCK_TX];
	uint64_t used_event = q->avail + 4 + DRV_QUEUE * 2;
	struct ring r;

	assert_int_equal(ring_init(&r, &d->map, DRV_QUEUE, DRV_UVA + q->desc, DRV_UVA + q->avail,
				   DRV_UVA + q->used, 0, true, NULL),
			 0);
	drv_w16(d, used_event, 0);
	ring_push(&r, 0, 0);
	assert_true(ring_needs_call(&r));
	ring_push(&r, 1, 0);
	assert_false(ring_needs_call(&r)); /* the driver asked for entry 0 only */
	drv_w16(d, used_event, 2);
	ring_push(&r, 2, 0);
	assert_true(ring_needs_call(&r));
	drv_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test(regions_are_bounded),
		cmocka_unit_test(ring_setup_is_checked),
		cmocka_unit_test(chains_are_taken_and_given_back),
		cmocka_unit_test(indirect_tables_work),
		cmocka_unit_test(broken_chains_break_the_ring),
		cmocka_unit_test(head_and_index_are_checked),
		cmocka_unit_test(chains_cross_regions),
		cmocka_unit_test(calls_are_saved_by_event_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
