/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of hostd/lineage: process identity, bounds, and the join of flows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hostd/lineage/flow.h"
#include "hostd/lineage/identity.h"
#include "hostd/lineage/owner.h"
#include "hostd/lineage/process.h"

static json_t *exec_event(int pid, long start, const char *path, const char *arg)
{
	return json_pack("{s:i,s:I,s:i,s:s,s:[s,s],s:[{s:i,s:I,s:s}]}", "pid", pid, "start_ns",
			 (json_int_t)start, "ppid", 1, "path", path, "argv", path, arg, "chain", "pid", 1,
			 "start_ns", (json_int_t)7, "comm", "systemd");
}

static void test_a_reused_pid_inherits_nothing(void **state)
{
	struct process_table *table = process_table_new();
	json_t *first = exec_event(40, 100, "/usr/bin/curl", "x"), *second = exec_event(40, 200, "/bin/sh", "y");

	(void)state;
	process_table_event(table, "exec", 1, first);
	process_table_event(table, "exec", 2, second);
	assert_string_equal(process_find(table, 40, 100)->path, "/usr/bin/curl");
	assert_string_equal(process_find(table, 40, 200)->path, "/bin/sh");
	assert_int_equal(process_find(table, 40, 200)->exec_seq, 2);
	assert_null(process_find(table, 40, 300));
	json_decref(first);
	json_decref(second);
	process_table_free(table);
}

static void test_the_table_is_bounded(void **state)
{
	struct process_table *table = process_table_new();

	(void)state;
	for (int i = 0; i < PROCESS_KEPT_MAX + 10; i++) {
		json_t *event = exec_event(i + 2, 1, "/bin/true", "");

		process_table_event(table, "exec", (uint64_t)i + 1, event);
		json_decref(event);
	}
	assert_null(process_find(table, 2, 1));
	assert_null(process_find(table, 11, 1));
	assert_non_null(process_find(table, 12, 1));
	assert_non_null(process_find(table, PROCESS_KEPT_MAX + 11, 1));
	process_table_free(table);
}

static void test_commands_are_quoted_and_cut(void **state)
{
	json_t *argv = json_pack("[s,s,s,s]", "sh", "-c", "echo 'a b'", "");
	char *command = process_command(argv), *cut;
	char longest[3000];

	(void)state;
	assert_string_equal(command, "sh -c 'echo '\\''a b'\\''' ''");
	free(command);
	json_decref(argv);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	argv = json_pack("[s,s]", "sh", longest);
	cut = process_command(argv);
	assert_true(strlen(cut) <= PROCESS_COMMAND_MAX);
	assert_string_equal(cut + strlen(cut) - 3, "...");
	free(cut);
	json_decref(argv);
}

static void test_chain_names_what_the_table_knows(void **state)
{
	struct process_table *table = process_table_new();
	json_t *parent = exec_event(50, 5, "/usr/bin/npm", "install"), *chain;
	json_t *flow = json_pack("{s:i,s:i,s:s,s:[{s:i,s:i,s:s}]}", "pid", 60, "start_ns", 6, "exe",
				 "/usr/bin/node", "chain", "pid", 50, "start_ns", 5, "comm", "npm");

	(void)state;
	process_table_event(table, "exec", 9, parent);
	chain = process_chain(table, flow);
	assert_int_equal(json_array_size(chain), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(chain, 0), "path")), "/usr/bin/npm");
	assert_string_equal(json_string_value(json_object_get(json_array_get(chain, 0), "command")),
			    "/usr/bin/npm install");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(chain, 0), "exec_seq")), 9);
	json_decref(chain);
	json_decref(flow);
	json_decref(parent);
	process_table_free(table);
}

static int answered;
static int64_t answered_pid;

static void on_join(void *user, const json_t *event)
{
	(void)user;
	answered++;
	answered_pid = event ? json_integer_value(json_object_get(event, "pid")) : -1;
}

static json_t *flow_event(int pid, int sport)
{
	return json_pack("{s:s,s:s,s:i,s:i,s:i}", "proto", "tcp", "dst", "192.0.2.1", "dport", 443, "sport", sport,
			 "pid", pid);
}

static void test_join_before_and_after(void **state)
{
	struct flow_join *join = flow_join_new();
	struct flow_key key = { "tcp", 4000, 443, "192.0.2.1" };
	json_t *event = flow_event(77, 4000), *other = flow_event(78, 4001);

	(void)state;
	answered = 0;
	/* The switch asks first; another flow's event does not answer it. */
	assert_int_not_equal(flow_join_ask(join, 0, &key, 1000, on_join, NULL), 0);
	flow_join_event(join, 10, other);
	assert_int_equal(answered, 0);
	flow_join_event(join, 20, event);
	assert_int_equal(answered, 1);
	assert_int_equal(answered_pid, 77);
	/* Known already: at once. */
	assert_int_equal(flow_join_ask(join, 30, &key, 1000, on_join, NULL), 0);
	assert_int_equal(answered, 2);
	assert_int_equal(answered_pid, 77);
	/* Too old: not joined, and the wait runs out. */
	assert_int_not_equal(flow_join_ask(join, 20 + FLOW_JOIN_MS + 1, &key, 1000, on_join, NULL), 0);
	flow_join_tick(join, 20 + FLOW_JOIN_MS + 900);
	assert_int_equal(answered, 2);
	flow_join_tick(join, 20 + FLOW_JOIN_MS + 1001);
	assert_int_equal(answered, 3);
	assert_int_equal(answered_pid, -1);
	json_decref(event);
	json_decref(other);
	flow_join_free(join);
}

static void test_a_port_used_again_has_its_new_owner(void **state)
{
	struct flow_join *join = flow_join_new();
	struct flow_key key = { "tcp", 4000, 443, "192.0.2.1" };
	json_t *first = flow_event(77, 4000), *second = flow_event(99, 4000);

	(void)state;
	flow_join_event(join, 10, first);
	flow_join_event(join, 20, second);
	flow_join_ask(join, 30, &key, 0, on_join, NULL);
	assert_int_equal(answered_pid, 99);
	json_decref(first);
	json_decref(second);
	flow_join_free(join);
}

static void test_an_event_is_claimed_once(void **state)
{
	struct flow_join *join = flow_join_new();
	struct flow_key key = { "tcp", 4000, 443, "192.0.2.1" };
	json_t *first = flow_event(77, 4000), *second = flow_event(99, 4000);

	(void)state;
	answered = 0;
	flow_join_event(join, 10, first);
	flow_join_claim(join, 20, &key, 1000, on_join, NULL);
	assert_int_equal(answered_pid, 77);
	/* The port again, before the event of its new owner has come: the old one does not answer. */
	assert_int_not_equal(flow_join_claim(join, 30, &key, 1000, on_join, NULL), 0);
	assert_int_equal(answered, 1);
	flow_join_event(join, 40, second);
	assert_int_equal(answered, 2);
	assert_int_equal(answered_pid, 99);
	/* Rows still find it. */
	flow_join_ask(join, 50, &key, 0, on_join, NULL);
	assert_int_equal(answered_pid, 99);
	/* Two events before the first question: the newest, and nothing is left for the second. */
	flow_join_event(join, 60, first);
	flow_join_event(join, 61, second);
	flow_join_claim(join, 70, &key, 0, on_join, NULL);
	assert_int_equal(answered_pid, 99);
	flow_join_claim(join, 71, &key, 0, on_join, NULL);
	assert_int_equal(answered_pid, -1);
	json_decref(first);
	json_decref(second);
	flow_join_free(join);
}

static void test_join_is_bounded(void **state)
{
	struct flow_join *join = flow_join_new();
	struct flow_key key = { "tcp", 1, 1, "192.0.2.9" };

	(void)state;
	answered = 0;
	for (int i = 0; i < FLOW_JOIN_WAITERS_MAX + 5; i++)
		flow_join_ask(join, 0, &key, 1000, on_join, NULL);
	assert_int_equal(answered, 5);
	flow_join_free(join);
	assert_int_equal(answered, FLOW_JOIN_WAITERS_MAX + 5);
}

static void test_an_open_flow_keeps_its_owner(void **state)
{
	struct owners *owners = owners_new();
	json_t *first = flow_event(77, 4000), *second = flow_event(99, 4000);

	(void)state;
	owners_note(owners, 1, first);
	for (uint64_t flow = 2; flow <= OWNERS_MAX; flow++)
		owners_note(owners, flow, second);
	assert_ptr_equal(owners_find(owners, 1), first);
	assert_null(owners_find(owners, OWNERS_MAX + 1));
	json_decref(owners_take(owners, 7));
	assert_null(owners_take(owners, 7));
	assert_null(owners_find(owners, 7));
	owners_note(owners, 5000, first); /* takes the free place */
	assert_ptr_equal(owners_find(owners, 1), first);
	owners_note(owners, 5001, first); /* takes that of the first */
	assert_null(owners_find(owners, 1));
	assert_ptr_equal(owners_find(owners, 2), second);
	owners_note(owners, 2, first);
	assert_ptr_equal(owners_find(owners, 2), first);
	owners_clear(owners);
	assert_null(owners_find(owners, 2));
	assert_int_equal(first->refcount, 1);
	json_decref(first);
	json_decref(second);
	owners_free(owners);
}

/* ---- identity ---- */

#define HEX(c) c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c
#define HASH_A HEX("aa")
#define HASH_B HEX("bb")
#define HASH_C HEX("cc")

/* One flow; member NULL: no further one. */
static enum identity_verdict check(struct identity *id, const char *exe, const char *member, const char *value)
{
	json_t *event = json_pack("{s:s,s:s,s:s}", "exe", exe, member, value, "exe_id", HEX("01"));
	const char *why;
	enum identity_verdict verdict = identity_check(id, event, &why);

	assert_true(!!why == (verdict == IDENTITY_UNKNOWN || verdict == IDENTITY_CHANGED));
	json_decref(event);
	return verdict;
}

static enum identity_verdict feed(struct identity *id, const char *kind, json_t *event)
{
	bool keep;
	enum identity_verdict verdict = identity_event(id, kind, event, &keep);

	json_decref(event);
	return verdict;
}

static json_t *hashed(const char *exe, const char *exe_id, const char *sha256)
{
	return json_pack("{s:s,s:s,s:s}", "exe", exe, "exe_id", exe_id, "exe_sha256", sha256);
}

static json_t *dpkg(int uid)
{
	return json_pack("{s:i,s:I,s:s,s:i}", "pid", 50, "start_ns", (json_int_t)5000, "path", IDENTITY_PACKAGE_MANAGER,
			 "uid", uid);
}

static void test_a_package_manager_in_a_loop_has_nothing_kept(void **state)
{
	struct identity *id = identity_new(NULL);
	bool keep[3];

	(void)state;
	feed(id, "program_hash", hashed("/usr/bin/curl", HEX("0a"), HASH_A));
	for (int i = 0; i < 3; i++) {
		json_t *exec = dpkg(0);

		identity_event(id, "exec", exec, &keep[i]);
		json_decref(exec);
	}
	assert_true(keep[0]);
	assert_false(keep[1]);
	assert_false(keep[2]);
	identity_free(id);
}

static void test_a_program_is_pinned_at_first_use(void **state)
{
	struct identity *id = identity_new(NULL), *again;
	json_t *kept;

	(void)state;
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_PINNED);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_SAME);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_B), IDENTITY_CHANGED);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_verity", HASH_A), IDENTITY_CHANGED);
	assert_int_equal(check(id, "/usr/bin/wget", "exe_verity", HASH_B), IDENTITY_PINNED);
	kept = identity_json(id);
	again = identity_new(kept);
	assert_int_equal(check(again, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_SAME);
	assert_int_equal(check(again, "/usr/bin/curl", "exe_sha256", HASH_B), IDENTITY_CHANGED);
	assert_int_equal(identity_forget(again, NULL), 2);
	assert_int_equal(check(again, "/usr/bin/curl", "exe_sha256", HASH_B), IDENTITY_PINNED);
	json_decref(kept);
	identity_free(id);
	identity_free(again);
}

static void test_the_package_manager_updates(void **state)
{
	struct identity *id = identity_new(NULL);

	(void)state;
	assert_int_equal(feed(id, "program_hash", hashed(IDENTITY_PACKAGE_MANAGER, HEX("0d"), HASH_C)), IDENTITY_PINNED);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_PINNED);
	feed(id, "exec", dpkg(1000)); /* nobody's but root's */
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_B), IDENTITY_CHANGED);
	feed(id, "exec", dpkg(0));
	/* the old one still runs while it works; its end counts too */
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_SAME);
	feed(id, "exit", json_pack("{s:i,s:I}", "pid", 50, "start_ns", (json_int_t)5000));
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_B), IDENTITY_UPDATED);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_B), IDENTITY_SAME);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_CHANGED);
	/* once its own file was changed, it excuses nothing */
	assert_int_equal(feed(id, "program_hash", hashed(IDENTITY_PACKAGE_MANAGER, HEX("0e"), HASH_A)), IDENTITY_CHANGED);
	feed(id, "exec", dpkg(0));
	assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_C), IDENTITY_CHANGED);
	identity_free(id);
}

/* A path that the process chose itself meets a pin or says nothing. */
static void test_a_chosen_name_makes_no_pin(void **state)
{
	static const char *const marks[] = { "exe_deleted", "exe_changed" };
	const char *why;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct identity *id = identity_new(NULL);
		json_t *event = hashed("/usr/bin/curl", HEX("01"), HASH_A);

		json_object_set_new(event, marks[i], json_true());
		assert_int_equal(identity_check(id, event, &why), IDENTITY_UNKNOWN);
		assert_int_equal(check(id, "/usr/bin/curl", "exe_sha256", HASH_A), IDENTITY_PINNED);
		assert_int_equal(identity_check(id, event, &why), IDENTITY_SAME);
		json_object_set_new(event, "exe_sha256", json_string(HASH_B));
		assert_int_equal(identity_check(id, event, &why), IDENTITY_UNKNOWN);
		json_decref(event);
		identity_free(id);
	}
}

static void test_hashes_come_later(void **state)
{
	struct identity *id = identity_new(NULL);
	const char *why;
	json_t *changed;

	(void)state;
	assert_int_equal(check(id, "/usr/bin/curl", "exe_hash", "hashing"), IDENTITY_HASHING);
	assert_int_equal(identity_check_name(id, "/usr/bin/curl", &why), IDENTITY_HASHING);
	assert_int_equal(feed(id, "program_hash", hashed("/usr/bin/curl", HEX("01"), HASH_A)), IDENTITY_PINNED);
	assert_int_equal(check(id, "/usr/bin/curl", "exe_hash", "hashing"), IDENTITY_SAME);
	assert_int_equal(identity_check_name(id, "/usr/bin/curl", &why), IDENTITY_SAME);
	assert_int_equal(feed(id, "program_hash", hashed("/usr/bin/curl", HEX("02"), HASH_B)), IDENTITY_CHANGED);
	assert_int_equal(identity_check_name(id, "/usr/bin/curl", &why), IDENTITY_CHANGED);
	changed = hashed("/usr/bin/curl", HEX("02"), HASH_B);
	assert_false(identity_note_change(id, changed)); /* told with its hash */
	json_object_set_new(changed, "exe_sha256", json_string(HASH_C));
	assert_true(identity_note_change(id, changed));
	assert_false(identity_note_change(id, changed));
	json_decref(changed);
	identity_free(id);
	id = identity_new(NULL);
	for (size_t i = 0; i < 5; i++) {
		static const char *const words[] = { "unsupported_fs", "too_large", "failed", "not_asked", "" };

		assert_int_equal(check(id, "/usr/bin/other", "exe_hash", words[i]), IDENTITY_UNKNOWN);
	}
	identity_free(id);
}

static void test_pins_are_bounded(void **state)
{
	struct identity *id = identity_new(NULL);
	char path[32];

	(void)state;
	for (int i = 0; i < IDENTITY_PINS_MAX; i++) {
		snprintf(path, sizeof(path), "/bin/%d", i);
		assert_int_equal(check(id, path, "exe_sha256", HASH_A), IDENTITY_PINNED);
	}
	assert_int_equal(check(id, "/bin/more", "exe_sha256", HASH_A), IDENTITY_UNKNOWN);
	assert_int_equal(check(id, "/bin/0", "exe_sha256", HASH_B), IDENTITY_CHANGED);
	identity_free(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_reused_pid_inherits_nothing),
		cmocka_unit_test(test_the_table_is_bounded),
		cmocka_unit_test(test_commands_are_quoted_and_cut),
		cmocka_unit_test(test_chain_names_what_the_table_knows),
		cmocka_unit_test(test_join_before_and_after),
		cmocka_unit_test(test_a_port_used_again_has_its_new_owner),
		cmocka_unit_test(test_an_event_is_claimed_once),
		cmocka_unit_test(test_join_is_bounded),
		cmocka_unit_test(test_an_open_flow_keeps_its_owner),
		cmocka_unit_test(test_a_program_is_pinned_at_first_use),
		cmocka_unit_test(test_a_package_manager_in_a_loop_has_nothing_kept),
		cmocka_unit_test(test_the_package_manager_updates),
		cmocka_unit_test(test_a_chosen_name_makes_no_pin),
		cmocka_unit_test(test_hashes_come_later),
		cmocka_unit_test(test_pins_are_bounded),
	};

	return cmocka_run_group_tests_name("lineage", tests, NULL, NULL);
}
