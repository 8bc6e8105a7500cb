/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a hostile guest can make the Sentry's session use: memory by counting every allocation, and CPU time a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "hostd/sentry/session.h"
#include "tests/sentry/fake.h"

/* Of AddressSanitizer's runtime, whose header Debian's gcc does not bring. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

/* The session's own buffers are 8 connections of 64 KiB and 128 KiB of digests; the rest is one frame being parsed. */
#define MEMORY_MAX (4u << 20)
/* One call with at most 64 KiB, with the sanitizers and on a busy machine. */
#define CALL_MAX_MS 2000

static const uint8_t key[32] = "a boot key of thirty-two bytes..";

static size_t live, peak;
static bool counting;

static void on_malloc(const volatile void *p, size_t size)
{
	(void)p;
	(void)size;
	if (!counting)
		return;
	live += __sanitizer_get_allocated_size(p);
	if (live > peak)
		peak = live;
}

static void on_free(const volatile void *p)
{
	size_t size = counting && p ? __sanitizer_get_allocated_size(p) : 0;

	live -= size < live ? size : live;
}

static uint64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct guest {
	struct session *s;
	struct fake f;
	uint64_t id, tampers, worst_us, calls, bytes;
	uint8_t sent[4096];
	size_t n_sent;
	bool dropped;
};

static int on_send(void *u, uint64_t id, const void *bytes, size_t len)
{
	struct guest *g = u;

	(void)id;
	if (g->n_sent + len > sizeof(g->sent))
		return -1;
	memcpy(g->sent + g->n_sent, bytes, len);
	g->n_sent += len;
	return 0;
}

static void on_frame(void *u, const struct session_frame *frame)
{
	(void)u;
	(void)frame;
}

static void on_tamper(void *u, enum session_tamper reason, const char *text)
{
	struct guest *g = u;

	(void)reason;
	(void)text;
	g->tampers++;
}

static void on_drop(void *u, uint64_t id)
{
	struct guest *g = u;

	(void)id;
	g->dropped = true;
}

static const struct session_ops ops = { .send = on_send, .frame = on_frame, .tamper = on_tamper, .drop = on_drop };

static struct guest *guest_new(void)
{
	struct guest *g = calloc(1, sizeof(*g));
	struct session_cfg cfg = { 0 };

	assert_non_null(g);
	fake_init(&g->f, key);
	memcpy(cfg.boot_key, key, sizeof(key));
	live = peak = 0;
	counting = true;
	g->s = session_new(&cfg, &ops, g, NULL);
	assert_non_null(g->s);
	session_tick(g->s, 1000, true);
	return g;
}

/* The guest's bytes are this test's; only what the session makes of them counts. */
static void say(struct guest *g, const uint8_t *bytes, size_t len)
{
	uint64_t began = cpu_us(), took;

	session_conn_bytes(g->s, g->id, bytes, len);
	took = cpu_us() - began;
	g->calls++;
	g->bytes += len;
	if (took > g->worst_us)
		g->worst_us = took;
}

static bool connected(struct guest *g)
{
	g->dropped = false;
	g->n_sent = 0;
	return !session_conn_open(g->s, ++g->id);
}

static void guest_end(struct guest *g, const char *what)
{
	size_t kib = peak / 1024;

	counting = false;
	print_message("%s: at most %zu KiB, slowest of %llu calls %llu us, %llu KiB in all, %llu alarms\n", what, kib,
		      (unsigned long long)g->calls, (unsigned long long)g->worst_us, (unsigned long long)g->bytes / 1024,
		      (unsigned long long)g->tampers);
	assert_in_range(peak, 1, MEMORY_MAX);
	assert_in_range(g->worst_us, 0, CALL_MAX_MS * 1000ull);
	session_free(g->s);
	free(g);
}

/* A frame of the greatest length made of one thing again and again, with a MAC's form at its end. */
static size_t full_frame(uint8_t *out, const char *head, const char *again, const char *tail)
{
	size_t len = HF_SENTRY_FRAME_HOST_MAX, room = len - HF_SENTRY_MAC_TAIL_BYTES - strlen(tail), at;

	at = (size_t)sprintf((char *)out + 4, "%s", head);
	while (at + strlen(again) <= room) {
		memcpy(out + 4 + at, again, strlen(again));
		at += strlen(again);
	}
	memset(out + 4 + at, ' ', room - at);
	memcpy(out + 4 + room, tail, strlen(tail));
	sprintf((char *)out + 4 + len - HF_SENTRY_MAC_TAIL_BYTES, ",\"mac\":\"%064d\"}", 0);
	out[0] = 0;
	out[1] = (uint8_t)(len >> 16);
	out[2] = (uint8_t)(len >> 8);
	out[3] = (uint8_t)len;
	return len + 4;
}

static const struct {
	const char *what, *head, *again, *tail;
} shapes[] = {
	{ "arrays in arrays", "{\"v\":1,\"a\":", "[", "1" },
	{ "objects in objects", "{\"v\":1,\"a\":", "{\"a\":", "1" },
	{ "many values", "{\"v\":1,\"a\":[0", ",0", "]" },
	{ "many empty arrays", "{\"v\":1,\"a\":[0", ",[]", "]" },
	{ "one long string", "{\"v\":1,\"a\":\"", "x", "\"" },
	{ "escapes", "{\"v\":1,\"a\":\"", "\\ud83d\\ude00", "\"" },
	{ "one long number", "{\"v\":1,\"a\":1", "0", "" },
	{ "the same key", "{\"v\":1", ",\"a\":1", "" },
	{ "blanks", "{\"v\":1,\"a\":1", " ", "" },
};

static void frames_of_every_shape(void **state)
{
	static uint8_t frame[HF_SENTRY_FRAME_HOST_MAX + 8];

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct guest *g = guest_new();
		size_t len = full_frame(frame, shapes[i].head, shapes[i].again, shapes[i].tail);

		for (int n = 0; n < 20; n++) {
			assert_true(connected(g));
			say(g, frame, len);
			assert_true(g->dropped);
		}
		guest_end(g, shapes[i].what);
	}
}

/* As many values as the limit lets through, each under a key of its own: the most that a frame can make jansson hold. */
static void a_frame_of_as_many_keys_as_are_allowed(void **state)
{
	static uint8_t frame[HF_SENTRY_FRAME_HOST_MAX + 8];
	struct guest *g = guest_new();
	size_t at = (size_t)sprintf((char *)frame + 4, "{\"v\":1");

	(void)state;
	for (int n = 0; n < 4000; n++)
		at += (size_t)sprintf((char *)frame + 4 + at, ",\"%x\":[]", n);
	at += (size_t)sprintf((char *)frame + 4 + at, ",\"mac\":\"%064d\"}", 0);
	assert_true(at <= HF_SENTRY_FRAME_HOST_MAX);
	frame[2] = (uint8_t)(at >> 8);
	frame[3] = (uint8_t)at;
	for (int n = 0; n < 20; n++) {
		assert_true(connected(g));
		say(g, frame, at + 4);
		assert_true(g->dropped);
	}
	guest_end(g, "4 000 keys");
}

static void every_connection_holds_an_unfinished_frame(void **state)
{
	static uint8_t frame[HF_SENTRY_FRAME_HOST_MAX + 8];
	struct guest *g = guest_new();
	size_t len = full_frame(frame, "{\"v\":1,\"a\":\"", "x", "\"");

	(void)state;
	for (int n = 0; n < 5 * SESSION_CONNS_MAX; n++)
		if (connected(g))
			say(g, frame, len - 1);
	guest_end(g, "unfinished frames");
}

/* A hello whose number is as far ahead as the host looks, which costs it the most key derivations. */
static void forged_hellos_after_a_thousand_connections(void **state)
{
	struct guest *g = guest_new();
	const struct fake_frame *hello;
	struct fake_frame forged;
	uint8_t none[32] = { 0 };
	char text[256];

	(void)state;
	for (int n = 0; n < 1000; n++) {
		hello = fake_connect(&g->f);
		assert_true(connected(g));
		say(g, hello->bytes, hello->len);
		fake_bytes(&g->f, g->sent, g->n_sent);
		session_conn_close(g->s, g->id);
	}
	assert_int_equal(g->tampers, 0);
	g->worst_us = 0;
	snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"hello\",\"t\":1,\"conn\":%d,\"resume_seq\":1", 1000 + 16);
	fake_sign(&forged, text, none);
	for (int n = 0; n < 500; n++) {
		assert_true(connected(g));
		say(g, forged.bytes, forged.len);
		assert_true(g->dropped);
	}
	guest_end(g, "forged hellos");
}

/* A frame with a number as far ahead as a gap may be; whoever says it has lost the connection, so it is once each. */
static void forged_frames_far_ahead(void **state)
{
	struct guest *g = guest_new();
	const struct fake_frame *hello;
	struct fake_frame forged;
	uint8_t none[32] = { 0 };
	char text[256];

	(void)state;
	snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":%d", 65536);
	fake_sign(&forged, text, none);
	for (int n = 0; n < 10; n++) {
		hello = fake_connect(&g->f);
		assert_true(connected(g));
		say(g, hello->bytes, hello->len);
		fake_bytes(&g->f, g->sent, g->n_sent);
		say(g, forged.bytes, forged.len);
		assert_true(g->dropped);
	}
	guest_end(g, "forged frames far ahead");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_every_shape),
		cmocka_unit_test(a_frame_of_as_many_keys_as_are_allowed),
		cmocka_unit_test(every_connection_holds_an_unfinished_frame),
		cmocka_unit_test(forged_hellos_after_a_thousand_connections),
		cmocka_unit_test(forged_frames_far_ahead),
	};

	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
