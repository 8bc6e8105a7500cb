/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of hostd/ws: settings by table, workspaces made whole or not at all. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "hostd/ws/settings.h"
#include "hostd/ws/workspace.h"
#include "lib/io.h"

static char home[] = "/tmp/holdfast-ws-XXXXXX";
static struct paths paths;

static int make_home(void **state)
{
	struct err err;
	char run[64];

	(void)state;
	assert_non_null(mkdtemp(home));
	setenv("HOME", home, 1);
	unsetenv("XDG_DATA_HOME");
	unsetenv("XDG_CONFIG_HOME");
	snprintf(run, sizeof(run), "%s/run", home);
	mkdir(run, 0700);
	setenv("XDG_RUNTIME_DIR", run, 1);
	return paths_init(&paths, &err);
}

static int drop_home(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, home, NULL);
}

static void test_every_default_is_valid(void **state)
{
	json_t *settings = settings_default();
	struct err err = { "" };

	(void)state;
	assert_int_equal(settings_check(settings, &err), 0);
	for (const struct setting *s = settings_table; s->key; s++)
		assert_non_null(json_object_get(settings, s->key));
	json_decref(settings);
}

static void test_set_checks_bounds(void **state)
{
	json_t *settings = settings_default();
	struct err err;

	(void)state;
	assert_int_equal(settings_set(settings, "cpus", "4", &err), 0);
	assert_int_equal(settings_set(settings, "memory-mib", "2048", &err), 0);
	assert_int_equal(settings_int(settings, "memory_mib"), 2048);
	assert_int_equal(settings_set(settings, "cpus", "0", &err), -1);
	assert_string_equal(err.text, "cpus: must be a number from 1 to 64");
	assert_int_equal(settings_set(settings, "cpus", "4x", &err), -1);
	assert_int_equal(settings_set(settings, "accel", "xen", &err), -1);
	assert_string_equal(err.text, "accel: must be one of auto|kvm|tcg");
	assert_int_equal(settings_set(settings, "accel", "auto|kvm", &err), -1);
	assert_int_equal(settings_set(settings, "colour", "red", &err), -1);
	assert_string_equal(err.text, "no setting is named \"colour\"");
	assert_int_equal(settings_set(settings, "ports", "3000", &err), -1);
	assert_string_equal(err.text, "ports: not available yet; leave it empty");
	assert_int_equal(settings_set(settings, "segment", "lab", &err), -1);
	assert_int_equal(settings_set(settings, "segment", "", &err), 0);
	assert_int_equal(settings_int(settings, "cpus"), 4);
	json_decref(settings);
}

static void test_env_is_a_map(void **state)
{
	json_t *settings = settings_default();
	struct err err;

	(void)state;
	assert_int_equal(settings_set(settings, "env", "A=1=2", &err), 0);
	assert_string_equal(json_string_value(json_object_get(json_object_get(settings, "env"), "A")), "1=2");
	assert_int_equal(settings_set(settings, "env", "A=", &err), 0);
	assert_null(json_object_get(json_object_get(settings, "env"), "A"));
	assert_int_equal(settings_set(settings, "env", "=x", &err), -1);
	json_decref(settings);
}

static void test_unknown_key_and_newer_schema_are_refused(void **state)
{
	json_t *settings = settings_default();
	struct err err;

	(void)state;
	json_object_set_new(settings, "turbo", json_true());
	assert_int_equal(settings_check(settings, &err), -1);
	assert_string_equal(err.text, "unknown key \"turbo\"");
	json_object_del(settings, "turbo");
	json_object_set_new(settings, "schema", json_integer(2));
	assert_int_equal(settings_check(settings, &err), -1);
	json_decref(settings);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(ws_name_valid("demo"));
	assert_true(ws_name_valid("a-1"));
	assert_false(ws_name_valid(""));
	assert_false(ws_name_valid("../x"));
	assert_false(ws_name_valid("1a"));
	assert_false(ws_name_valid("a-"));
	assert_false(ws_name_valid("A"));
	assert_false(ws_name_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

static void test_create_load_delete(void **state)
{
	json_t *settings = settings_default(), *names, *loaded, *mark;
	struct err err = { "" };
	int dir;

	(void)state;
	assert_int_equal(ws_open(&paths, "demo", &err), -1);
	assert_int_equal(ws_create(&paths, "demo", settings, "version: 1\n", 11, &err), 0);
	assert_int_equal(ws_create(&paths, "demo", settings, NULL, 0, &err), -1);
	assert_string_equal(err.text, "workspace \"demo\" exists already");
	names = ws_names(&paths, &err);
	assert_int_equal(json_array_size(names), 1);
	dir = ws_open(&paths, "demo", &err);
	assert_true(dir >= 0);
	loaded = settings_load(dir, &err);
	assert_non_null(loaded);
	assert_true(json_equal(settings, loaded));
	assert_int_equal(ws_mark_read(dir, WS_MARK_QUARANTINE, &mark, &err), 0);
	assert_null(mark);
	assert_int_equal(ws_mark_write(dir, WS_MARK_QUARANTINE, settings, &err), 0);
	assert_int_equal(ws_mark_read(dir, WS_MARK_QUARANTINE, &mark, &err), 0);
	assert_non_null(mark);
	close(dir);
	assert_int_equal(ws_delete(&paths, "demo", &err), 0);
	assert_int_equal(ws_open(&paths, "demo", &err), -1);
	json_decref(mark);
	json_decref(names);
	json_decref(loaded);
	json_decref(settings);
}

static void test_sweep_removes_halves(void **state)
{
	char half[PATHS_MAX + 16];

	(void)state;
	snprintf(half, sizeof(half), "%s/.new-demo", paths.workspaces);
	assert_int_equal(mkdir(half, 0700), 0);
	ws_sweep(&paths);
	assert_int_equal(access(half, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_default_is_valid),
		cmocka_unit_test(test_set_checks_bounds),
		cmocka_unit_test(test_env_is_a_map),
		cmocka_unit_test(test_unknown_key_and_newer_schema_are_refused),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_create_load_delete),
		cmocka_unit_test(test_sweep_removes_halves),
	};

	return cmocka_run_group_tests_name("ws", tests, make_home, drop_home);
}
