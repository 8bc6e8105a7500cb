/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of lib/: buffers, JSON limits, keys, files, the loop and role messages. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/buf.h"
#include "lib/ed25519.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/loop.h"
#include "lib/msg.h"

static void test_buf_keeps_its_cap(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 8);
	assert_int_equal(buf_put_u32(&b, 0x01020304), 0);
	assert_int_equal(buf_put(&b, "abcd", 4), 0);
	assert_int_equal(buf_put_u8(&b, 1), -1);
	assert_int_equal(b.len, 8);
	assert_memory_equal(b.data, "\1\2\3\4abcd", 8);
	buf_drop(&b, 4);
	assert_memory_equal(b.data, "abcd", 4);
	buf_free(&b);
}

static void test_rd_consumes_nothing_when_short(void **state)
{
	struct rd r;
	uint32_t v32;
	uint16_t v16;

	(void)state;
	rd_init(&r, "\1\2\3", 3);
	assert_int_equal(rd_u32(&r, &v32), -1);
	assert_int_equal(rd_u16(&r, &v16), 0);
	assert_int_equal(v16, 0x0102);
	assert_int_equal(r.left, 1);
}

static void test_json_limits_and_duplicates(void **state)
{
	const struct json_limits limits = { .bytes = 64, .depth = 2, .values = 6 };
	struct err err;
	json_t *good = json_parse("{\"a\":[1,2]}", 11, &limits, &err);

	(void)state;
	assert_non_null(good);
	json_decref(good);
	assert_null(json_parse("[[[]]]", 6, &limits, &err));
	assert_string_equal(err.text, "JSON nested deeper than 2");
	assert_null(json_parse("{\"a\":1,\"a\":2}", 13, &limits, &err));
	assert_null(json_parse("[1,2,3,4,5,6,7]", 15, &limits, &err));
	assert_null(json_parse("{} x", 4, &limits, &err));
	/* A bracket inside a string is no nesting. */
	good = json_parse("[\"[[[[\\\"[[\"]", 12, &limits, &err);
	assert_non_null(good);
	json_decref(good);
}

static void test_json_unknown_key_is_named(void **state)
{
	static const char *const keys[] = { "known", NULL };
	json_t *object = json_pack("{s:i,s:i}", "known", 1, "other", 2);
	struct err err;

	(void)state;
	assert_int_equal(json_only_keys(object, keys, &err), -1);
	assert_string_equal(err.text, "unknown key \"other\"");
	json_decref(object);
}

static void test_hmac_vector(void **state)
{
	/* RFC 4231 test case 1 with the key padded to the 32 bytes of our interface (zeros pad the same). */
	uint8_t key[HASH_BYTES] = { 0 }, out[HASH_BYTES];
	char text[HASH_HEX];

	(void)state;
	memset(key, 0x0b, 20);
	hash_hmac_sha256(out, key, "Hi There", 8);
	hex_encode(text, out, sizeof(out));
	assert_string_equal(text, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

static void test_ed25519_file_round_trip(void **state)
{
	char dir[] = "/tmp/holdfast-test-XXXXXX", path[64], pub_path[80];
	uint8_t sig[ED25519_SIGNATURE];
	struct ed25519_public pub;
	struct ed25519_secret *secret;
	struct err err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/key", dir);
	snprintf(pub_path, sizeof(pub_path), "%s.pub", path);
	secret = ed25519_secret_ensure(path, &err);
	assert_non_null(secret);
	ed25519_sign(sig, secret, "text", 4);
	ed25519_secret_free(secret);
	assert_int_equal(ed25519_public_load(&pub, pub_path, &err), 0);
	assert_int_equal(ed25519_verify(sig, &pub, "text", 4), 0);
	assert_int_equal(ed25519_verify(sig, &pub, "texT", 4), -1);
	assert_int_equal(chmod(path, 0644), 0);
	assert_null(ed25519_secret_load(path, &err));
	assert_int_equal(io_remove_tree(AT_FDCWD, dir, &err), 0);
}

static void test_atomic_write_replaces(void **state)
{
	char dir[] = "/tmp/holdfast-test-XXXXXX";
	struct buf b;
	struct err err;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(io_write_file_atomic(fd, "f", "one", 3, 0600, &err), 0);
	assert_int_equal(io_write_file_atomic(fd, "f", "two!", 4, 0600, &err), 0);
	buf_init(&b, 4);
	assert_int_equal(io_read_file_at(fd, "f", &b, &err), 0);
	assert_int_equal(b.len, 4);
	assert_memory_equal(b.data, "two!", 4);
	buf_free(&b);
	buf_init(&b, 3);
	assert_int_equal(io_read_file_at(fd, "f", &b, &err), -1);
	buf_free(&b);
	close(fd);
	assert_int_equal(io_remove_tree(AT_FDCWD, dir, &err), 0);
	assert_int_equal(access(dir, F_OK), -1);
}

struct peer_log {
	int handled;
	char closed[128];
};

static int count_message(void *user, struct msg *msg, struct err *err)
{
	struct peer_log *log = user;

	(void)err;
	log->handled++;
	assert_string_equal(json_string_value(json_object_get(msg->json, "k")), "v");
	assert_int_equal(msg->blob_len, 3);
	assert_int_equal(msg->n_fds, 1);
	return 0;
}

static void note_close(void *user, const char *why)
{
	struct peer_log *log = user;

	snprintf(log->closed, sizeof(log->closed), "%s", why);
}

static const struct msg_rule test_rules[] = {
	{ 7, "seven", 1, 1, count_message },
	{ 8, "eight", 2, 0, count_message },
	{ 0, NULL, 0, 0, NULL },
};

static void test_msg_table(void **state)
{
	struct peer_log log = { 0 }, other = { 0 };
	struct msg_peer_config in = { test_rules, note_close, &log };
	struct msg_peer_config out = { test_rules, note_close, &other };
	struct err err;
	struct loop *loop = loop_new(&err);
	json_t *json = json_pack("{s:s}", "k", "v");
	struct msg_peer *a, *b;
	int sv[2], fd = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	a = msg_peer_new(loop, sv[0], &in, &err);
	b = msg_peer_new(loop, sv[1], &out, &err);
	assert_int_equal(msg_send(b, 7, json, "abc", 3, &fd, 1, &err), 0);
	loop_turn(loop, 100, &err);
	assert_int_equal(log.handled, 1);
	/* Out of state: the peer ends, the handler does not run. */
	assert_int_equal(msg_send(b, 8, json, NULL, 0, NULL, 0, &err), 0);
	loop_turn(loop, 100, &err);
	assert_int_equal(log.handled, 1);
	assert_string_equal(log.closed, "message eight out of state 0x1");
	loop_turn(loop, 100, &err);
	assert_string_equal(other.closed, "closed");
	json_decref(json);
	msg_peer_free(a);
	msg_peer_free(b);
	loop_free(loop);
}

static void test_msg_malformed_ends_the_peer(void **state)
{
	struct peer_log log = { 0 };
	struct msg_peer_config config = { test_rules, note_close, &log };
	struct err err;
	struct loop *loop = loop_new(&err);
	struct msg_peer *peer;
	int sv[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	peer = msg_peer_new(loop, sv[0], &config, &err);
	assert_int_equal(send(sv[1], "\0\7\0\0\0\0\0\xff\0\0\0\0{}", 14, 0), 14);
	loop_turn(loop, 100, &err);
	assert_string_equal(log.closed, "malformed message of 14 bytes");
	msg_peer_free(peer);
	close(sv[1]);
	loop_free(loop);
}

static void count_tick(void *user)
{
	++*(int *)user;
}

static void test_loop_timers(void **state)
{
	struct err err;
	struct loop *loop = loop_new(&err);
	int once = 0, many = 0;
	struct loop_timer *timer;

	(void)state;
	loop_timer_add(loop, 1, 0, count_tick, &once);
	timer = loop_timer_add(loop, 1, 1, count_tick, &many);
	for (int i = 0; i < 10; i++)
		loop_turn(loop, 5, &err);
	assert_int_equal(once, 1);
	assert_true(many >= 3);
	loop_timer_del(timer);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf_keeps_its_cap),
		cmocka_unit_test(test_rd_consumes_nothing_when_short),
		cmocka_unit_test(test_json_limits_and_duplicates),
		cmocka_unit_test(test_json_unknown_key_is_named),
		cmocka_unit_test(test_hmac_vector),
		cmocka_unit_test(test_ed25519_file_round_trip),
		cmocka_unit_test(test_atomic_write_replaces),
		cmocka_unit_test(test_msg_table),
		cmocka_unit_test(test_msg_malformed_ends_the_peer),
		cmocka_unit_test(test_loop_timers),
	};

	return cmocka_run_group_tests_name("lib", tests, NULL, NULL);
}
