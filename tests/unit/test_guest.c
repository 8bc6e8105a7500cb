// SPDX-License-Identifier: GPL-2.0-or-later
/* sandboxd's parsers and small decisions: the spec, the environment, terminal output, groups, clock, frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <openssl/sha.h>

#include <holdfast/exec.h>

#include "lib/json.h"
#include "sandboxd/clock.h"
#include "sandboxd/conn.h"
#include "sandboxd/env.h"
#include "sandboxd/files.h"
#include "sandboxd/keystore.h"
#include "lib/osc52.h"
#include "sandboxd/revoke.h"
#include "sandboxd/spec.h"

/* --- spec --- */

#define USER "\"session_user\":{\"name\":\"agent\",\"uid\":1000,\"gid\":1000,\"home\":\"/home/agent\"}"
#define HEAD "{\"schema\":1,\"workspace\":\"w\",\"level\":"

static struct guest_spec *parse(const char *text, struct err *e)
{
	return guest_spec_parse(text, strlen(text), e);
}

static void test_spec_takes_what_the_host_writes(void **state)
{
	static const char text[] =
		HEAD "\"strict\",\"hostname\":\"h\",\"sentry\":{\"mode\":\"required\",\"sha256\":"
		     "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
		     "\"hash_programs\":[\"/usr/bin/dpkg\",\"/opt/agent/*\"]}," USER ",\"filesystem\":{\"include_workdir\":true,\"read_only\":[\"/usr\"],\"read_write\":[\"/tmp\",\"/srv\"]},"
		     "\"landlock\":{\"compatibility\":\"hard_requirement\"},\"process\":{\"run_as_user\":\"sandbox\"},"
		     "\"network_rules\":true,\"proxy\":\"on\",\"cgroup\":{\"pids_max\":10,\"memory_max\":20},"
		     "\"boot_unix_ns\":5,\"mtu\":1400}";
	struct err e = { .text = "" };
	struct guest_spec *s = parse(text, &e);

	(void)state;
	assert_string_equal(e.text, "");
	assert_non_null(s);
	assert_int_equal(s->level, GUEST_STRICT);
	assert_int_equal(s->sentry, GUEST_SENTRY_REQUIRED);
	assert_string_equal(s->hash_programs, "/usr/bin/dpkg\n/opt/agent/*");
	assert_int_equal(s->user.uid, 1000);
	assert_true(s->include_workdir && s->network_rules && s->proxy && s->has_process);
	assert_int_equal(s->read_write_count, 2);
	assert_string_equal(s->read_write[1], "/srv");
	assert_int_equal(s->compat, SANDBOX_HARD_REQUIREMENT);
	assert_int_equal(s->pids_max, 10);
	assert_int_equal(s->mtu, 1400);
	guest_spec_free(s);
}

/* What the module takes: 4 095 bytes with a line end for each. */
static void test_the_list_of_programs_is_bounded(void **state)
{
	char out[HF_SENTRY_HASH_LIST_MAX + 1], path[1024];
	json_t *list = json_array();
	struct err e = { .text = "" };

	(void)state;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[1022] = '\0'; /* with its line end 1 023 bytes */
	for (int i = 0; i < 4; i++)
		json_array_append_new(list, json_string(path));
	assert_int_equal(guest_hash_list(list, out, &e), 0);
	assert_int_equal(strlen(out), 4 * 1023 - 1);
	json_array_append_new(list, json_string("/y"));
	assert_int_equal(guest_hash_list(list, out, &e), 0);
	json_array_append_new(list, json_string("/z"));
	assert_int_equal(guest_hash_list(list, out, &e), -1);
	assert_non_null(strstr(e.text, "4095"));
	json_decref(list);
}

static void test_spec_refuses_by_name(void **state)
{
	static const struct { const char *text, *word; } cases[] = {
		{ "[]", "not an object" },
		{ "{\"schema\":2,\"workspace\":\"w\",\"level\":\"observe\"," USER "}", "schema" },
		{ HEAD "\"observe\"}", "session_user" },
		{ HEAD "\"loose\"," USER "}", "level" },
		{ HEAD "\"observe\",\"surprise\":1," USER "}", "surprise" },
		{ HEAD "\"observe\",\"level\":\"strict\"," USER "}", "level" },
		{ HEAD "\"files\"," USER "}", "no filesystem section" },
		{ HEAD "\"observe\",\"filesystem\":{}," USER "}", "filesystem" },
		{ HEAD "\"files\",\"filesystem\":{},\"process\":{}," USER "}", "needs strict" },
		{ HEAD "\"files\",\"filesystem\":{\"read_only\":[\"etc\"]}," USER "}", "read_only[0]" },
		{ HEAD "\"files\",\"filesystem\":{\"read_write\":[\"/\"]}," USER "}", "covers everything" },
		{ HEAD "\"files\",\"filesystem\":{\"write\":[]}," USER "}", "write" },
		{ HEAD "\"strict\",\"process\":{\"run_as_user\":\"root\"}," USER "}", "root" },
		{ HEAD "\"strict\",\"process\":{\"run_as_user\":\"0\"}," USER "}", "run_as_user" },
		{ HEAD "\"strict\",\"process\":{\"run_as_user\":\"+0\"}," USER "}", "run_as_user" },
		{ HEAD "\"strict\",\"process\":{\"run_as_user\":\"4294967295\"}," USER "}", "run_as_user" },
		{ HEAD "\"strict\",\"process\":{\"run_as_user\":\"12x\"}," USER "}", "run_as_user" },
		{ HEAD "\"strict\",\"process\":{\"run_as_group\":\"-1\"}," USER "}", "run_as_group" },
		{ HEAD "\"observe\",\"sentry\":{\"mode\":\"required\"}," USER "}", "sha256" },
		{ HEAD "\"observe\",\"sentry\":{\"mode\":\"required\",\"sha256\":\"ABC\"}," USER "}", "sha256" },
		{ HEAD "\"observe\",\"sentry\":{\"mode\":\"off\",\"hash_programs\":\"*\"}," USER "}", "not a list" },
		{ HEAD "\"observe\",\"sentry\":{\"mode\":\"off\",\"hash_programs\":[\"*\",\"bin/x\"]}," USER "}", "no. 2" },
		{ HEAD "\"observe\",\"sentry\":{\"mode\":\"off\",\"hash_programs\":[\"/a\\n/b\"]}," USER "}", "no. 1" },
		{ HEAD "\"observe\",\"landlock\":{\"compatibility\":\"maybe\"}," USER "}", "compatibility" },
		{ HEAD "\"observe\",\"proxy\":\"yes\"," USER "}", "proxy" },
		{ HEAD "\"observe\",\"cgroup\":{\"pids_max\":-1}," USER "}", "negative" },
		{ HEAD "\"observe\",\"session_user\":{\"name\":\"r\",\"uid\":0,\"gid\":1,\"home\":\"/r\"}}", "uid" },
		{ HEAD "\"observe\",\"session_user\":{\"name\":\"r\",\"uid\":5,\"gid\":1,\"home\":\"r\"}}", "home" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = { .text = "" };
		struct guest_spec *s = parse(cases[i].text, &e);

		if (s || !strstr(e.text, cases[i].word))
			fail_msg("case %zu: \"%s\" does not name %s", i, e.text, cases[i].word);
	}
}

/* --- environment --- */

static void test_variables_that_load_or_run_files_are_dropped(void **state)
{
	static const char *const dropped[] = {
		"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PERL5OPT",
		"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_GLOBAL", "GIT_CONFIG", "NODE_OPTIONS", "BASH_FUNC_x%%",
		"PATH", "HOME", "a b", "", "9X", "HOLDFAST_X",
	};
	static const char *const passed[] = { "TERM_PROGRAM", "EDITOR", "CI", "FOO", "_X1", "ANTHROPIC_API_KEY" };

	(void)state;
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		assert_false(guest_env_allowed(dropped[i]));
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		assert_true(guest_env_allowed(passed[i]));
}

static bool has(const struct guest_env *env, const char *text)
{
	for (size_t i = 0; i < env->count; i++)
		if (!strncmp(env->list[i], text, strlen(text)))
			return true;
	return false;
}

static void test_environment_is_built_not_inherited(void **state)
{
	const struct guest_identity id = { .name = "agent", .uid = 1000, .home = "/home/agent", .shell = "/bin/bash" };
	json_t *extra = json_pack("{s:s, s:s, s:s}", "FOO", "bar", "LD_PRELOAD", "/x.so", "TERM", "vt100");
	json_t *dropped = json_array(), *bad = json_pack("{s:i}", "FOO", 1);
	struct guest_env env;

	(void)state;
	setenv("SECRET_OF_THE_SUPERVISOR", "1", 1);
	assert_int_equal(guest_env_build(&env, -1, &id, false, "xterm", extra, dropped, NULL), 0);
	assert_true(has(&env, "HOME=/home/agent") && has(&env, "USER=agent") && has(&env, "FOO=bar") && has(&env, "TERM=vt100"));
	assert_false(has(&env, "SECRET_OF_THE_SUPERVISOR") || has(&env, "LD_PRELOAD") || has(&env, "HTTPS_PROXY"));
	assert_int_equal(json_array_size(dropped), 1);
	assert_string_equal(json_string_value(json_array_get(dropped, 0)), "LD_PRELOAD");
	guest_env_free(&env);
	/* With a proxy but without a CA file only the addresses are set. */
	assert_int_equal(guest_env_build(&env, -1, &id, true, "xterm", NULL, dropped, NULL), 0);
	assert_true(has(&env, "HTTPS_PROXY=http://127.0.0.1:8080") && has(&env, "no_proxy=") && has(&env, "NODE_USE_ENV_PROXY=1"));
	assert_false(has(&env, "SSL_CERT_FILE") || has(&env, "NODE_EXTRA_CA_CERTS"));
	guest_env_free(&env);
	assert_int_equal(guest_env_build(&env, -1, &id, false, "xterm", bad, dropped, NULL), -1);
	json_decref(extra);
	json_decref(bad);
	json_decref(dropped);
}

/* --- Java's keystore, read back by a reader of its own --- */

static void check_entry(struct rd *r, const char *alias, const char *bytes)
{
	const uint8_t *p;
	uint16_t n16;
	uint32_t n32;
	uint64_t date;

	assert_true(rd_u32(r, &n32) == 0 && n32 == 2);
	assert_true(rd_u16(r, &n16) == 0 && n16 == strlen(alias) && rd_bytes(r, &p, n16) == 0 && !memcmp(p, alias, n16));
	assert_int_equal(rd_u64(r, &date), 0);
	assert_true(rd_u16(r, &n16) == 0 && n16 == 5 && rd_bytes(r, &p, n16) == 0 && !memcmp(p, "X.509", 5));
	assert_true(rd_u32(r, &n32) == 0 && n32 == strlen(bytes) && rd_bytes(r, &p, n32) == 0 && !memcmp(p, bytes, n32));
}

static void test_keystore_holds_every_certificate_of_the_bundle(void **state)
{
	static const char head[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	static const char pem[] = "# a comment\n-----BEGIN CERTIFICATE-----\nZmlyc3QgY2VydGlm\naWNhdGU=\n-----END CERTIFICATE-----\n"
				  "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"
				  "-----BEGIN CERTIFICATE-----\nc2Vjb25k\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nYQ==\n";
	uint8_t all[1024], want[SHA_DIGEST_LENGTH];
	const uint8_t *digest;
	uint32_t magic, version, count;
	struct buf b;
	struct rd r;

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(guest_keystore_put(&b, pem, strlen(pem)), 2);
	rd_init(&r, b.data, b.len);
	assert_true(rd_u32(&r, &magic) == 0 && rd_u32(&r, &version) == 0 && rd_u32(&r, &count) == 0);
	assert_true(magic == 0xfeedfeed && version == 2 && count == 2);
	check_entry(&r, "holdfast-0", "first certificate");
	check_entry(&r, "holdfast-1", "second");
	assert_int_equal(rd_bytes(&r, &digest, SHA_DIGEST_LENGTH), 0);
	assert_int_equal(r.left, 0);
	memcpy(all, head, sizeof(head) - 1);
	memcpy(all + sizeof(head) - 1, b.data, b.len - SHA_DIGEST_LENGTH);
	SHA1(all, sizeof(head) - 1 + b.len - SHA_DIGEST_LENGTH, want);
	assert_memory_equal(digest, want, SHA_DIGEST_LENGTH);
	buf_free(&b);
}

/* --- terminal output --- */

static void filter(const char *in, size_t step, char *out, size_t size)
{
	struct osc52 f = { .len = 0 };
	size_t n = strlen(in), used = 0;

	for (size_t at = 0; at < n; at += step) {
		uint8_t piece[4096];
		size_t take = n - at < step ? n - at : step;
		size_t got = osc52_filter(&f, (const uint8_t *)in + at, take, piece);

		assert_true(used + got < size);
		memcpy(out + used, piece, got);
		used += got;
	}
	memcpy(out + used, f.held, f.len);
	out[used + f.len] = '\0';
}

static void test_clipboard_queries_are_taken_out(void **state)
{
	static const struct { const char *in, *out; } cases[] = {
		{ "plain \033[1mbold\033[0m", "plain \033[1mbold\033[0m" },
		{ "a\033]52;c;?\007b", "ab" },
		{ "a\033]52;c;?\033\\b", "ab" },
		{ "a\033]52;pc;?\007\033]52;;?\007b", "ab" },
		{ "a\033]52;c;aGVsbG8=\007b", "a\033]52;c;aGVsbG8=\007b" },
		{ "\033]0;title\007x", "\033]0;title\007x" },
		{ "\033\033]52;c;?\007y", "\033y" },
		{ "\033]52;zz;?\007.", "." },
		{ "\033]0052;c;?\007.", "." },
		{ "a\302\2359b\303\235c\302\243", "a\302\2359b\303\235c\302\243" },
		{ "\302\23552;c;?\302\234x\007.", "." },
		{ "\23552;c;?\007.", "." },
		{ "\033]52;ccccccccccccccccccccccccccccccc;?\007.", "." },
		{ "\033]5\0012;\002c;\003?\007.", "\001\002\003." },
		{ "\033\177]52;c;?\007.", "\177." },
		{ "\033]52;c\007;?\007", "\033]52;c\007;?\007" },
		{ "\033]53;c;?\007\033]522;c;?\007", "\033]53;c;?\007\033]522;c;?\007" },
		{ "\033]52;c;?x\033]52;c;?\033\\.", "." },
		{ "\033Ptmux;\033\033]52;c;?\007\033\\.", "\033Ptmux;\033\033\\." },
		{ "\033]5", "\033]5" },
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t step = 1; step < 12; step++) {
			filter(cases[i].in, step, out, sizeof(out));
			assert_string_equal(out, cases[i].out);
		}
}

/* --- groups, clock, files --- */

static void test_user_leaves_privileged_groups_only(void **state)
{
	static const struct { const char *in, *out; } cases[] = {
		{ "sudo:x:27:agent\n", "sudo:x:27:\n" },
		{ "sudo:x:27:bob,agent,eve\n", "sudo:x:27:bob,eve\n" },
		{ "docker:x:110:agent,bob", "docker:x:110:bob" },
		{ "docker:x:110:agents,agent\n", "docker:x:110:agents\n" },
		{ "dialout:x:20:agent\n", "dialout:x:20:agent\n" },
		{ "sudo:*::bob,agent\n", "sudo:*::bob\n" },
		{ "sudo:x:27:\n", "sudo:x:27:\n" },
	};
	char line[128];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "%s", cases[i].in);
		guest_group_strip(line, "agent");
		assert_string_equal(line, cases[i].out);
	}
}

static void test_clock_goes_forward_only(void **state)
{
	const int64_t now = INT64_C(1800000000) * 1000000000;

	(void)state;
	assert_int_equal(guest_clock_step_ms(now, now), 0);
	assert_int_equal(guest_clock_step_ms(now, now - INT64_C(3600) * 1000000000), 0);
	assert_int_equal(guest_clock_step_ms(now, now + 50 * 1000000), 0);
	assert_int_equal(guest_clock_step_ms(now, now + INT64_C(600) * 1000000000), 600000);
	assert_int_equal(guest_clock_push(-5), -1);
}

static void test_files_requests(void **state)
{
	static const struct { const char *text, *word; } cases[] = {
		{ "{\"op\":\"files\",\"verb\":\"list\",\"path\":\"/x\"}", NULL },
		{ "{\"op\":\"files\",\"verb\":\"write\",\"path\":\"/x\",\"mode\":384,\"create\":false}", NULL },
		{ "{\"op\":\"files\",\"verb\":\"steal\",\"path\":\"/x\"}", "verb" },
		{ "{\"op\":\"files\",\"verb\":\"list\",\"path\":\"x\"}", "path" },
		{ "{\"op\":\"files\",\"verb\":\"list\"}", "path" },
		{ "{\"op\":\"files\",\"verb\":\"mkdir\",\"path\":\"/x\",\"mode\":4096}", "mode" },
		{ "{\"op\":\"files\",\"verb\":\"list\",\"path\":\"/x\",\"as\":\"root\"}", "as" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *o = json_loads(cases[i].text, 0, NULL);
		struct err e = { .text = "" };
		struct guest_files f;

		assert_int_equal(guest_files_parse(o, &f, &e), cases[i].word ? -1 : 0);
		if (cases[i].word)
			assert_non_null(strstr(e.text, cases[i].word));
		json_decref(o);
	}
}

/* --- frames --- */

struct seen {
	int frames, closed;
	uint8_t last_type;
	char last[64];
};

static void on_frame(void *user, struct guest_conn *c, uint8_t type, const uint8_t *payload, size_t len)
{
	struct seen *s = user;

	(void)c;
	s->frames++;
	s->last_type = type;
	snprintf(s->last, sizeof(s->last), "%.*s", (int)len, (const char *)payload);
}

static void on_drained(void *user, struct guest_conn *c)
{
	(void)user;
	(void)c;
}

static void on_closed(void *user, struct guest_conn *c)
{
	struct seen *s = user;

	(void)c;
	s->closed++;
}

static const struct guest_conn_ops ops = { on_frame, on_drained, on_closed };

static void turn(struct loop *loop, int times)
{
	while (times--)
		loop_turn(loop, 10, NULL);
}

static void test_frames_arrive_whole_whatever_the_pieces(void **state)
{
	static const uint8_t bytes[] = { 1, 0, 0, 0, 2, '{', '}', 3, 0, 0, 0, 3, 'a', 'b', 'c', 9, 0, 0, 0, 0 };
	struct loop *loop = loop_new(NULL);
	struct seen seen = { .frames = 0 };
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_non_null(guest_conn_new(loop, fds[0], &ops, &seen));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(write(fds[1], bytes + i, 1), 1);
		turn(loop, 1);
		if (i == 6)
			assert_string_equal(seen.last, "{}");
		if (i == 14)
			assert_string_equal(seen.last, "abc");
	}
	assert_int_equal(seen.frames, 3);
	assert_int_equal(seen.last_type, HF_EXEC_EOF);
	close(fds[1]);
	turn(loop, 2);
	assert_int_equal(seen.closed, 1);
	loop_free(loop);
}

static void test_broken_frames_end_the_connection(void **state)
{
	static const uint8_t bad[][5] = {
		{ 3, 0, 1, 0, 1 },		/* data longer than 64 KiB */
		{ 1, 0, 0xa0, 0, 1 },		/* request longer than 10 MiB */
		{ 4, 0, 0, 0, 0 },		/* a type of ours */
		{ 0, 0, 0, 0, 0 }, { 77, 0, 0, 0, 0 },
		{ 6, 0, 0, 0, 5 },		/* resize with five bytes */
		{ 9, 0xff, 0xff, 0xff, 0xff },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct loop *loop = loop_new(NULL);
		struct seen seen = { .frames = 0 };
		uint8_t answer[256];
		int fds[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		assert_non_null(guest_conn_new(loop, fds[0], &ops, &seen));
		assert_int_equal(write(fds[1], bad[i], 5), 5);
		turn(loop, 4);
		assert_int_equal(seen.frames, 0);
		assert_int_equal(seen.closed, 1);
		assert_true(read(fds[1], answer, sizeof(answer)) > 5);
		assert_int_equal(answer[0], HF_EXEC_ERROR);
		close(fds[1]);
		loop_free(loop);
	}
}

static void test_held_connection_takes_no_frames(void **state)
{
	static const uint8_t two[] = { 3, 0, 0, 0, 1, 'x', 3, 0, 0, 0, 1, 'y' };
	struct loop *loop = loop_new(NULL);
	struct seen seen = { .frames = 0 };
	struct guest_conn *c;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	c = guest_conn_new(loop, fds[0], &ops, &seen);
	guest_conn_hold(c, true);
	assert_int_equal(write(fds[1], two, sizeof(two)), sizeof(two));
	turn(loop, 3);
	assert_int_equal(seen.frames, 0);
	guest_conn_hold(c, false);
	turn(loop, 3);
	assert_int_equal(seen.frames, 2);
	guest_conn_free(c);
	close(fds[1]);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spec_takes_what_the_host_writes),
		cmocka_unit_test(test_the_list_of_programs_is_bounded),
		cmocka_unit_test(test_spec_refuses_by_name),
		cmocka_unit_test(test_variables_that_load_or_run_files_are_dropped),
		cmocka_unit_test(test_environment_is_built_not_inherited),
		cmocka_unit_test(test_keystore_holds_every_certificate_of_the_bundle),
		cmocka_unit_test(test_clipboard_queries_are_taken_out),
		cmocka_unit_test(test_user_leaves_privileged_groups_only),
		cmocka_unit_test(test_clock_goes_forward_only),
		cmocka_unit_test(test_files_requests),
		cmocka_unit_test(test_frames_arrive_whole_whatever_the_pieces),
		cmocka_unit_test(test_broken_frames_end_the_connection),
		cmocka_unit_test(test_held_connection_takes_no_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
