// SPDX-License-Identifier: GPL-2.0-or-later
/* The parts of the Sentry module that know no kernel: JSON writer, folding, token bucket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "sentry/fold.c"
#include "sentry/json.c"
#include "sentry/limit.c"

static json_t *written_text(const uint8_t *text, size_t len, bool *is_base64)
{
	static char buffer[8192];
	struct sentry_json j;
	json_t *root, *value;

	sentry_json_init(&j, buffer, sizeof(buffer));
	sentry_json_open(&j, NULL, '{');
	sentry_json_text(&j, "x", text, len);
	sentry_json_close(&j, '}');
	assert_false(j.full);
	root = json_loadb(buffer, j.len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	assert_int_equal(json_object_size(root), 1);
	*is_base64 = json_object_get(root, "x_b64");
	value = json_incref(json_object_get(root, *is_base64 ? "x_b64" : "x"));
	json_decref(root);
	return value;
}

/* Any bytes become one string that a strict parser reads back. */
static void test_json_any_bytes(void **state)
{
	uint8_t text[64];
	bool is_base64;

	(void)state;
	srandom(7);
	for (int round = 0; round < 20000; round++) {
		size_t len = random() % sizeof(text);
		json_t *value;

		for (size_t i = 0; i < len; i++)
			text[i] = round % 2 ? random() : random() % 0x80;
		value = written_text(text, len, &is_base64);
		if (!is_base64) {
			assert_int_equal(json_string_length(value), len);
			assert_memory_equal(json_string_value(value), text, len);
		} else {
			assert_int_equal(json_string_length(value), (len + 2) / 3 * 4);
		}
		json_decref(value);
	}
}

static void test_json_utf8(void **state)
{
	static const struct { const char *text; bool good; } cases[] = {
		{ "plain", true },		{ "\xc3\xa9", true },	      { "\xe2\x82\xac", true },
		{ "\xf0\x9f\x98\x80", true },	{ "\xf4\x8f\xbf\xbf", true }, { "\xf4\x90\x80\x80", false },
		{ "\xc0\x80", false },		{ "\xe0\x80\x80", false },    { "\xed\xa0\x80", false },
		{ "\xf0\x80\x80\x80", false }, { "\xff", false },	      { "\xe2\x82", false },
		{ "a\x80", false },		{ "\xc3", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(sentry_json_is_utf8((const uint8_t *)cases[i].text, strlen(cases[i].text)), cases[i].good);
}

static void test_json_base64(void **state)
{
	static const struct { const char *text, *base64; } cases[] = {
		{ "\xff", "/w==" }, { "\xff\xfe", "//4=" }, { "\xff\xfe\xfd", "//79" }, { "f\xf8o", "Zvhv" },
	};
	bool is_base64;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *value = written_text((const uint8_t *)cases[i].text, strlen(cases[i].text), &is_base64);

		assert_true(is_base64);
		assert_string_equal(json_string_value(value), cases[i].base64);
		json_decref(value);
	}
}

static void test_json_arrays_and_numbers(void **state)
{
	char buffer[256];
	struct sentry_json j;

	(void)state;
	sentry_json_init(&j, buffer, sizeof(buffer));
	sentry_json_open(&j, NULL, '{');
	sentry_json_u64(&j, "a", UINT64_MAX);
	sentry_json_s64(&j, "b", INT64_MIN);
	sentry_json_texts(&j, "c", (const uint8_t *)"x\0y z\0", 6);
	sentry_json_texts(&j, "d", (const uint8_t *)"", 0);
	sentry_json_texts(&j, "e", (const uint8_t *)"a\0\xff", 3);
	sentry_json_hex64(&j, "f", 0x1ff);
	sentry_json_bool(&j, "g", true);
	sentry_json_close(&j, '}');
	buffer[j.len] = 0;
	assert_string_equal(buffer, "{\"a\":18446744073709551615,\"b\":-9223372036854775808,\"c\":[\"x\",\"y z\"],\"d\":[],"
				    "\"e_b64\":[\"YQ==\",\"/w==\"],\"f\":\"00000000000001ff\",\"g\":true}");
}

/* A buffer of any size is never overrun, and a result that does not fit says so. */
static void test_json_never_overruns(void **state)
{
	(void)state;
	for (size_t size = 0; size < 80; size++) {
		char *buffer = malloc(size ? size : 1);
		struct sentry_json j;

		sentry_json_init(&j, buffer, size);
		sentry_json_open(&j, NULL, '{');
		sentry_json_text(&j, "name", (const uint8_t *)"\x01\x02\"\\\xc3\xa9", 6);
		sentry_json_text(&j, "raw", (const uint8_t *)"\xff\xff\xff\xff", 4);
		sentry_json_close(&j, '}');
		assert_true(j.len <= size);
		assert_int_equal(j.full, size < strlen("{\"name\":\"\\u0001\\u0002\\\"\\\\\xc3\xa9\",\"raw_b64\":\"/////w==\"}"));
		free(buffer);
	}
}

static struct sentry_record *denial(uint32_t pid, uint8_t op, const char *path)
{
	static struct sentry_record r;

	memset(&r, 0, sizeof(r));
	r.kind = HF_SENTRY_KIND_SANDBOX_DENIED;
	r.op = op;
	r.subject.pid = pid;
	r.subject.start_ns = 5;
	r.detail.denied.error = -13;
	r.text_len[SENTRY_TEXT_PATH] = r.text_used = strlen(path);
	memcpy(r.text, path, strlen(path));
	r.count = 1;
	return &r;
}

/* CAP-12: only what is equal in every part folds, even where the hash says the same. */
static void test_fold_only_equal_facts(void **state)
{
	static struct sentry_fold fold;
	struct sentry_fold_slot *slot;

	(void)state;
	memset(&fold, 0, sizeof(fold));
	slot = sentry_fold_victim(&fold, 9);
	assert_true(sentry_fold_open(slot, 9, denial(1, 2, "/a"), 100));
	assert_ptr_equal(sentry_fold_find(&fold, 9, denial(1, 2, "/a"), true, 200, 1000), slot);
	assert_null(sentry_fold_find(&fold, 9, denial(2, 2, "/a"), true, 200, 1000));
	assert_null(sentry_fold_find(&fold, 9, denial(1, 3, "/a"), true, 200, 1000));
	assert_null(sentry_fold_find(&fold, 9, denial(1, 2, "/b"), true, 200, 1000));
	assert_null(sentry_fold_find(&fold, 9, denial(1, 2, "/a/"), true, 200, 1000));
	assert_non_null(sentry_fold_find(&fold, 9, denial(1, 2, "/b"), false, 200, 1000));
	assert_null(sentry_fold_find(&fold, 9, denial(1, 2, "/a"), true, 1100, 1000));
}

/* The table is full of other facts: the oldest of the set makes room, and its repeats are not forgotten. */
/* CAP-12: a datagram is a repeat only of the same flow of the same process, within the window. */
static void test_fold_finds_flows(void **state)
{
	static struct sentry_fold fold;
	static struct sentry_record r;
	struct sentry_flow flow = { .dst = { 192, 0, 2, 1 }, .sport = 1000, .dport = 53, .protocol = 17, .family = 4 }, other;
	struct sentry_fold_slot *slot = sentry_fold_victim(&fold, 5);

	(void)state;
	memset(&r, 0, sizeof(r));
	r.kind = HF_SENTRY_KIND_NET_FLOW;
	r.subject.pid = 7;
	r.subject.start_ns = 70;
	r.detail.flow = flow;
	assert_true(sentry_fold_open(slot, 5, &r, 100));
	assert_ptr_equal(sentry_fold_find_flow(&fold, 5, &flow, 7, 70, 200, 1000), slot);
	assert_ptr_equal(sentry_fold_find_flow(&fold, 5, &flow, 7, 70, 99, 1000), slot);
	assert_null(sentry_fold_find_flow(&fold, 5, &flow, 8, 70, 200, 1000));
	assert_null(sentry_fold_find_flow(&fold, 5, &flow, 7, 71, 200, 1000));
	assert_null(sentry_fold_find_flow(&fold, 6, &flow, 7, 70, 200, 1000));
	assert_null(sentry_fold_find_flow(&fold, 5, &flow, 7, 70, 1100, 1000));
	for (size_t i = 0; i < sizeof(flow); i++) {
		other = flow;
		((unsigned char *)&other)[i] ^= 1;
		assert_null(sentry_fold_find_flow(&fold, 5, &other, 7, 70, 200, 1000));
	}
}

static void test_fold_bound(void **state)
{
	static struct sentry_fold fold;
	struct sentry_fold_slot *slot;

	(void)state;
	memset(&fold, 0, sizeof(fold));
	for (uint32_t i = 0; i < SENTRY_FOLD_WAYS; i++) {
		slot = sentry_fold_victim(&fold, 3);
		assert_int_equal(slot->opened_ns, 0);
		sentry_fold_open(slot, 3, denial(i, 0, "/x"), 100 + i);
	}
	sentry_fold_find(&fold, 3, denial(0, 0, "/x"), true, 200, 1000)->repeats = 7;
	slot = sentry_fold_victim(&fold, 3);
	assert_int_equal(sentry_fold_record(slot)->subject.pid, 0);
	assert_int_equal(slot->repeats, 7);
	assert_int_equal(sentry_fold_victim(&fold, 4)->opened_ns, 0);
}

static void test_fold_refuses_what_it_cannot_keep(void **state)
{
	static struct sentry_fold fold;
	struct sentry_record *r = denial(1, 0, "/x");

	(void)state;
	r->text_used = SENTRY_FOLD_TEXT_BYTES + 1;
	assert_false(sentry_fold_open(sentry_fold_victim(&fold, 0), 0, r, 1));
}

/* TRN-04: 1000 in a second, of which at most the burst and a second's rate pass. */
static void test_limit_rate(void **state)
{
	struct sentry_limit limit = { 0 };
	unsigned int taken = 0;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		taken += sentry_limit_take(&limit, 1 + i * 1000000, HF_SENTRY_RATE, HF_SENTRY_BURST);
	assert_in_range(taken, HF_SENTRY_BURST, HF_SENTRY_BURST + HF_SENTRY_RATE);
}

static void test_limit_recovers(void **state)
{
	struct sentry_limit limit = { 0 };
	unsigned int taken = 0;

	(void)state;
	while (sentry_limit_take(&limit, 1, 64, 256))
		;
	for (int i = 0; i < 1000; i++)
		taken += sentry_limit_take(&limit, 1 + 3600000000000ULL, 64, 256);
	assert_int_equal(taken, 256);
	/* a clock that stands still or goes back gives nothing */
	assert_false(sentry_limit_take(&limit, 1, 64, 256));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_any_bytes),
		cmocka_unit_test(test_json_utf8),
		cmocka_unit_test(test_json_base64),
		cmocka_unit_test(test_json_arrays_and_numbers),
		cmocka_unit_test(test_json_never_overruns),
		cmocka_unit_test(test_fold_only_equal_facts),
		cmocka_unit_test(test_fold_finds_flows),
		cmocka_unit_test(test_fold_bound),
		cmocka_unit_test(test_fold_refuses_what_it_cannot_keep),
		cmocka_unit_test(test_limit_rate),
		cmocka_unit_test(test_limit_recovers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
