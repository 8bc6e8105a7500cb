/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd and its timeline in one process, a role that this test plays: what a full disk pauses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "hostd/daemon/alerts.h"
#include "hostd/daemon/workspace.h"
#include "hostd/ws/settings.h"
#include "tests/unit/hostd_world.h"

enum { LONG_MS = 20000, SHORT_MS = 500 };

static struct rlimit was;

/* ---- a timeline that cannot be written ---- */

static struct workspace *ws;
static int role;

static void turn(void)
{
	struct err err;

	assert_true(loop_turn(hostd.loop, 20, &err) >= 0);
}

/* Lets hostd work until it asks for a pause or for the VM to go on; 0: it asks for neither in that time. */
static uint16_t asked(uint64_t within_ms)
{
	uint64_t end_ms = loop_now_ms() + within_ms;

	while (loop_now_ms() < end_ms) {
		uint8_t got[65536];
		struct rd r;
		uint16_t type;

		turn();
		while (recv(role, got, sizeof(got), MSG_DONTWAIT) >= 2) {
			rd_init(&r, got, 2);
			rd_u16(&r, &type);
			if (type == ROLE_VM_PAUSE || type == ROLE_VM_CONT)
				return type;
		}
	}
	return 0;
}

static void until_health(bool healthy)
{
	struct rlimit limit = { .rlim_cur = healthy ? was.rlim_cur : 0, .rlim_max = was.rlim_max };
	uint64_t end_ms = loop_now_ms() + LONG_MS;
	char why[256];
	struct err err;

	setrlimit(RLIMIT_FSIZE, &limit);
	while (loop_now_ms() < end_ms && (store_health(hostd.store, why, sizeof(why)) == STORE_HEALTHY) != healthy) {
		struct store_row row = { .ws = "full", .kind = EVENT_EXEC, .data = "{}" };

		store_append_row(hostd.store, &row, &err);
		turn();
	}
	assert_int_equal(store_health(hostd.store, why, sizeof(why)) == STORE_HEALTHY, healthy);
}

static void a_pause_for_the_timeline_ends_with_its_reason(void **state)
{
	json_t *settings = settings_default();
	struct err err = { "" };
	const char *reason = "the timeline cannot be written";
	int pair[2];

	(void)state;
	assert_int_equal(ws_create(&hostd.paths, "full", settings, NULL, 0, &err), 0);
	json_decref(settings);
	ws = workspace_add(&hostd, "full", &err);
	assert_non_null(ws);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	strcpy(ws->boot_id, "00000000-0000-4000-8000-000000000001");
	assert_int_equal(vmlink_open(ws, pair[0], &err), 0);
	role = pair[1];
	say(role, ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0));
	for (uint64_t end_ms = loop_now_ms() + LONG_MS; loop_now_ms() < end_ms && ws->state != WS_RUNNING;)
		turn();
	assert_int_equal(ws->state, WS_RUNNING);

	until_health(false);
	assert_int_equal(asked(LONG_MS), ROLE_VM_PAUSE);
	say_state(role, "paused", reason);
	assert_int_equal(asked(SHORT_MS), 0);
	/* something else lets it run while nothing can be written */
	say_state(role, "running", "continued");
	assert_int_equal(asked(LONG_MS), ROLE_VM_PAUSE);
	/* the store is well again before the role says that the VM stands still */
	until_health(true);
	assert_int_equal(asked(SHORT_MS), 0);
	say_state(role, "paused", reason);
	assert_int_equal(asked(LONG_MS), ROLE_VM_CONT);
	say_state(role, "running", "continued");
	assert_int_equal(asked(SHORT_MS), 0);
	/* another's pause is not ended */
	say_state(role, "paused", "quarantine");
	assert_int_equal(asked(SHORT_MS), 0);
}

static int set_up(void **state)
{
	struct err err = { "" };

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	hostd_world_make();
	hostd.loop = loop_new(&err);
	assert_int_equal(daemon_open_store(&hostd, &err), 0);
	hostd.alerts = alerts_new(&hostd);
	return hostd.alerts ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pause_for_the_timeline_ends_with_its_reason),
	};

	hostd_world_exit(cmocka_run_group_tests(tests, set_up, hostd_world_remove));
}
