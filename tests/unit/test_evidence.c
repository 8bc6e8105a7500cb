/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Evidence is of one time in which a workspace stood still: what ran, or was reset, between its ends gets no row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "hostd/api/client.h"
#include "hostd/daemon/workspace.h"
#include "hostd/ws/settings.h"
#include "tests/unit/hostd_world.h"

#define SHA "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

enum { RUNS = 3, WAIT_S = 30 };

static pid_t server;
static int role[RUNS]; /* this end is the role of the n-th run */
static unsigned runs;
static struct api_client *api;

/* ---- the hostd: its own methods, and one that begins a run ---- */

static int given[RUNS];

static void boot_method(void *user, struct api_call *call, const json_t *params)
{
	struct workspace *ws = workspace_find(user, "demo");
	struct err err;

	(void)params;
	snprintf(ws->boot_id, sizeof(ws->boot_id), "00000000-0000-4000-8000-00000000000%u", runs);
	if (vmlink_open(ws, given[runs++], &err))
		api_fail_err(call, &err);
	else
		api_reply(call, NULL);
}

static void serve(void)
{
	static const char *const wanted[] = { "ws.show", "ws.reset", "evidence.begin", "evidence.done", "timeline", NULL };
	static const char *const no_params[] = { NULL };
	static struct api_method methods[16] = { { "test.boot", no_params, boot_method } };
	json_t *settings = settings_default();
	struct err err = { "" };

	take_methods(methods + 1, wanted);
	hostd.loop = loop_new(&err);
	if (daemon_open_store(&hostd, &err) || ws_create(&hostd.paths, "demo", settings, NULL, 0, &err) ||
	    !workspace_add(&hostd, "demo", &err))
		_exit(1);
	hostd.api = api_server_new(hostd.loop, hostd.paths.api, methods, NULL, &hostd, &err);
	loop_run(hostd.loop, &err);
	_exit(0);
}

/* ---- this end ---- */

static json_t *ask(const char *method, json_t *params, struct err *err)
{
	return api_client_call(api, method, params, NULL, NULL, err);
}

static void ask_it(const char *method)
{
	struct err err = { "" };
	json_t *result = ask(method, strcmp(method, "test.boot") ? json_pack("{s:s}", "name", "demo") : json_object(), &err);

	if (!result)
		fail_msg("%s: %s", method, err.text);
	json_decref(result);
}

static void until(const char *state)
{
	for (int i = 0; i < WAIT_S * 100; i++) {
		json_t *shown = ask("ws.show", json_pack("{s:s}", "name", "demo"), NULL);
		bool is = !strcmp(json_string_value(json_object_get(shown, "state")), state);

		json_decref(shown);
		if (is)
			return;
		usleep(10000);
	}
	fail_msg("it does not become %s", state);
}

static void boots(void)
{
	ask_it("test.boot");
	say(role[runs++], ROLE_VM_STARTED, json_pack("{s:s,s:i}", "accel", "none", "qemu_pid", 0));
	until("running");
}

static void becomes(const char *state)
{
	say_state(role[runs - 1], state, "a test");
	if (!strcmp(state, "off"))
		close(role[runs - 1]);
	until(state);
}

static void begin(char stand[64])
{
	struct err err = { "" };
	json_t *result = ask("evidence.begin", json_pack("{s:s}", "name", "demo"), &err);

	if (!result)
		fail_msg("%s", err.text);
	assert_non_null(json_object_get(result, "boot_id"));
	assert_non_null(json_object_get(result, "epoch"));
	snprintf(stand, 64, "%s", json_string_value(json_object_get(result, "stand")));
	json_decref(result);
}

static json_int_t rows(void)
{
	json_t *result = ask("timeline", json_pack("{s:s,s:[s],s:b}", "ws", "demo", "kinds", "evidence", "all", 1), NULL);
	json_int_t n = (json_int_t)json_array_size(json_object_get(result, "rows"));

	json_decref(result);
	return n;
}

/* Does it end with its row? If not, there is none, and it is said why. */
static bool done(const char *stand)
{
	json_int_t before = rows();
	struct err err = { "" };
	json_t *result = ask("evidence.done", json_pack("{s:s,s:s,s:s,s:s}", "name", "demo", "stand", stand, "file", "/e",
						       "sha256", SHA), &err);

	assert_int_equal(rows(), before + (result != NULL));
	if (!result)
		assert_non_null(strstr(err.text, "no one moment's"));
	json_decref(result);
	return result != NULL;
}

static void evidence_is_of_one_stand(void **state)
{
	char stand[64], earlier[64];
	struct err err = { "" };

	(void)state;
	/* off all the time */
	begin(stand);
	assert_true(done(stand));
	assert_true(done(stand)); /* a second copy of the same */

	/* a whole run between two stops */
	snprintf(earlier, sizeof(earlier), "%s", stand);
	boots();
	assert_null(ask("evidence.begin", json_pack("{s:s}", "name", "demo"), &err));
	assert_non_null(strstr(err.text, "is running"));
	assert_false(done(earlier)); /* while it runs */
	becomes("off");
	assert_false(done(earlier));
	begin(stand);
	assert_true(done(stand));

	/* let go and held again, in one boot */
	boots();
	becomes("paused");
	begin(stand);
	assert_true(done(stand));
	begin(stand);
	becomes("running");
	becomes("paused");
	assert_false(done(stand));
	/* to end a VM that is paused runs nothing */
	begin(stand);
	becomes("off");
	assert_true(done(stand));

	/* another disk */
	begin(stand);
	ask_it("ws.reset");
	assert_false(done(stand));

	/* a word that nobody gave, none at all */
	assert_false(done("0123456789abcdef"));
	assert_null(ask("evidence.done", json_pack("{s:s,s:s,s:s}", "name", "demo", "file", "/e", "sha256", SHA), &err));
	assert_non_null(strstr(err.text, "stand"));
}

static int set_up(void **state)
{
	struct err err;

	(void)state;
	hostd_world_make();
	for (unsigned i = 0; i < RUNS; i++) {
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		given[i] = pair[0];
		role[i] = pair[1];
	}
	server = fork(); /* before there are threads */
	for (unsigned i = 0; i < RUNS; i++)
		close(server ? given[i] : role[i]);
	if (!server)
		serve();
	for (int i = 0; i < 1000 && access(hostd.paths.api, F_OK); i++)
		usleep(10000);
	api = api_client_open(&hostd.paths, 0, &err);
	return api ? 0 : -1;
}

static int tear_down(void **state)
{
	api_client_close(api);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return hostd_world_remove(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(evidence_is_of_one_stand) };

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
