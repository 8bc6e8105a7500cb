/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd and its timeline in one process, a role that this test plays: what a full disk pauses, what --follow catches up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "hostd/api/client.h"
#include "hostd/daemon/alerts.h"
#include "hostd/daemon/workspace.h"
#include "hostd/ws/settings.h"
#include "lib/buf.h"
#include "lib/io.h"
#include "lib/json.h"

enum { ROWS = 5100, FIRST_BY = 50, LONG_MS = 20000, SHORT_MS = 500 };

static char dir[] = "/tmp/hf-full-XXXXXX";
static struct hostd hostd;
static struct rlimit was;
static pid_t server;

/* ---- a timeline that cannot be written ---- */

static struct workspace *ws;
static int role;

static void say(uint16_t type, json_t *json)
{
	char *text = json_text(json);
	struct buf b;

	buf_init(&b, 65536);
	buf_put_u16(&b, type);
	buf_put_u16(&b, 0);
	buf_put_u32(&b, (uint32_t)strlen(text));
	buf_put_u32(&b, 0);
	buf_put_str(&b, text);
	assert_int_equal(send(role, b.data, b.len, MSG_NOSIGNAL), b.len);
	buf_free(&b);
	free(text);
	json_decref(json);
}

static void say_state(const char *state, const char *reason)
{
	say(ROLE_VM_STATE, json_pack("{s:s,s:s}", "state", state, "reason", reason));
}

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
	say(ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0));
	for (uint64_t end_ms = loop_now_ms() + LONG_MS; loop_now_ms() < end_ms && ws->state != WS_RUNNING;)
		turn();
	assert_int_equal(ws->state, WS_RUNNING);

	until_health(false);
	assert_int_equal(asked(LONG_MS), ROLE_VM_PAUSE);
	say_state("paused", reason);
	assert_int_equal(asked(SHORT_MS), 0);
	/* something else lets it run while nothing can be written */
	say_state("running", "continued");
	assert_int_equal(asked(LONG_MS), ROLE_VM_PAUSE);
	/* the store is well again before the role says that the VM stands still */
	until_health(true);
	assert_int_equal(asked(SHORT_MS), 0);
	say_state("paused", reason);
	assert_int_equal(asked(LONG_MS), ROLE_VM_CONT);
	say_state("running", "continued");
	assert_int_equal(asked(SHORT_MS), 0);
	/* another's pause is not ended */
	say_state("paused", "quarantine");
	assert_int_equal(asked(SHORT_MS), 0);
}

/* ---- --follow ---- */

static void follow_method(void *user, struct api_call *call, const json_t *params)
{
	follow_add(user, call, params);
}

struct followed {
	json_int_t last;
	unsigned n, gaps;
};

static int on_event(void *user, const json_t *event)
{
	struct followed *f = user;
	json_int_t id = json_integer_value(json_object_get(event, "id"));

	f->gaps += f->n ? id != f->last + 1 : id > FIRST_BY;
	f->last = id;
	f->n++;
	return 0;
}

static void append_rows(void)
{
	struct err err;

	for (unsigned i = 1; i <= ROWS; i++) {
		struct store_row row = { .ws = "behind", .kind = EVENT_WS_PAUSED, .data = "{}" };

		if (store_append_row(hostd.store, &row, &err) < 0 ||
		    ((i % 500 == 0 || i == ROWS) && store_sync(hostd.store, 10000, &err) < 0))
			_exit(1);
	}
}

/* A hostd with a timeline of its own, and one method. */
static void serve(void)
{
	static const char *const params[] = { "ws", "after_id", "all", NULL };
	static const struct api_method methods[] = { { "timeline.follow", params, follow_method }, { NULL, NULL, NULL } };
	struct err err;

	snprintf(hostd.paths.store, sizeof(hostd.paths.store), "%s/follow", dir);
	hostd.loop = loop_new(&err);
	if (mkdir(hostd.paths.store, 0700) < 0 || daemon_open_store(&hostd, &err))
		_exit(1);
	append_rows();
	hostd.api = api_server_new(hostd.loop, hostd.paths.api, methods, NULL, &hostd, &err);
	loop_run(hostd.loop, &err);
	_exit(0);
}

/* A client that is far behind gets the oldest that it lacks, so that it can go on from the last it got. */
static void catching_up_leaves_no_gap(void **state)
{
	struct followed f = { 0 };
	struct api_client *client;
	struct err err = { "" };

	(void)state;
	for (int i = 0; i < 1000 && access(hostd.paths.api, F_OK); i++)
		usleep(10000);
	client = api_client_open(&hostd.paths, 0, &err);
	assert_non_null(client);
	assert_null(api_client_call(client, "timeline.follow", json_pack("{s:s,s:i,s:b}", "ws", "behind", "after_id", 1, "all", 1),
				    on_event, &f, &err));
	assert_string_equal(err.text, "behind");
	assert_true(f.n > 100);
	assert_int_equal(f.gaps, 0);
	api_client_close(client);
}

static int set_up(void **state)
{
	struct err err = { "" };

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	assert_non_null(mkdtemp(dir));
	setenv("XDG_DATA_HOME", dir, 1);
	setenv("XDG_CONFIG_HOME", dir, 1);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	hostd.spawner = -1;
	assert_int_equal(paths_init(&hostd.paths, &err), 0);
	server = fork(); /* before there are threads */
	if (!server)
		serve();
	hostd.loop = loop_new(&err);
	assert_int_equal(daemon_open_store(&hostd, &err), 0);
	hostd.alerts = alerts_new(&hostd);
	return hostd.alerts ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(catching_up_leaves_no_gap),
		cmocka_unit_test(a_pause_for_the_timeline_ends_with_its_reason),
	};

	int failed = cmocka_run_group_tests(tests, set_up, tear_down);

	fflush(NULL);
	_exit(failed); /* the parts of hostd live as long as their process */
}
