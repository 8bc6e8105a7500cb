/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest's supervisor that falls silent is one row, and that it is heard again another; time that proves nothing is not counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>

#include "hostd/daemon/alerts.h"
#include "hostd/daemon/workspace.h"
#include "hostd/store/query.h"
#include "hostd/ws/settings.h"
#include "tests/unit/hostd_world.h"

enum { STEP_MS = 50, SILENT_MS = 20000 };

static struct workspace *ws;
static uint64_t clock_ms = 1000000;

static void pass(uint64_t ms)
{
	for (uint64_t end_ms = clock_ms + ms; clock_ms < end_ms;)
		supervisor_tick(ws, clock_ms += STEP_MS);
}

static int count(void *user, const struct store_row *row)
{
	(void)row;
	++*(unsigned *)user;
	return 0;
}

static unsigned rows(unsigned kind)
{
	struct query query = { .ws = "demo" };
	struct query_db *db = NULL;
	struct err err;
	unsigned n = 0;

	query.kinds[kind / 64] = 1ULL << kind % 64;
	assert_int_equal(store_sync(hostd.store, 10000, &err), 0);
	assert_int_equal(query_open(hostd.db_path, &db, &err), 0);
	assert_int_equal(query_run(db, &query, count, &n, &err), 0);
	query_close(db);
	return n;
}

static void it_is_told_once_and_once_that_it_is_over(void **state)
{
	(void)state;
	pass(60000);
	assert_int_equal(rows(EVENT_GUEST_SILENT), 0); /* it never took sessions */
	supervisor_expected(ws, true);
	for (int i = 0; i < 10; i++) {
		pass(SILENT_MS - STEP_MS);
		supervisor_heard(ws);
	}
	assert_int_equal(rows(EVENT_GUEST_SILENT), 0);
	pass(SILENT_MS);
	assert_int_equal(rows(EVENT_GUEST_SILENT), 1);
	pass(60000);
	assert_int_equal(rows(EVENT_GUEST_SILENT), 1);
	assert_int_equal(rows(EVENT_GUEST_HEARD), 0);
	supervisor_heard(ws);
	supervisor_heard(ws);
	assert_int_equal(rows(EVENT_GUEST_HEARD), 1);
	pass(SILENT_MS);
	assert_int_equal(rows(EVENT_GUEST_SILENT), 2);
	supervisor_heard(ws);
}

static void time_in_which_nothing_could_be_heard_is_not_counted(void **state)
{
	unsigned before = rows(EVENT_GUEST_SILENT);

	(void)state;
	pass(SILENT_MS - STEP_MS);
	ws->state = WS_PAUSED;
	pass(60000);
	ws->state = WS_RUNNING;
	assert_int_equal(rows(EVENT_GUEST_SILENT), before);
	clock_ms += 60000; /* hostd itself stood still */
	supervisor_tick(ws, clock_ms);
	assert_int_equal(rows(EVENT_GUEST_SILENT), before);
	pass(STEP_MS);
	assert_int_equal(rows(EVENT_GUEST_SILENT), before + 1);
	supervisor_expected(ws, false); /* the run is over */
	pass(60000);
	assert_int_equal(rows(EVENT_GUEST_SILENT), before + 1);
}

static int set_up(void **state)
{
	json_t *settings = settings_default();
	struct err err = { "" };

	(void)state;
	hostd_world_make();
	hostd.loop = loop_new(&err);
	assert_int_equal(daemon_open_store(&hostd, &err), 0);
	hostd.alerts = alerts_new(&hostd);
	assert_int_equal(ws_create(&hostd.paths, "demo", settings, NULL, 0, &err), 0);
	json_decref(settings);
	ws = workspace_add(&hostd, "demo", &err);
	assert_non_null(ws);
	ws->state = WS_RUNNING;
	return hostd.alerts ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_told_once_and_once_that_it_is_over),
		cmocka_unit_test(time_in_which_nothing_could_be_heard_is_not_counted),
	};

	hostd_world_exit(cmocka_run_group_tests(tests, set_up, hostd_world_remove));
}
