/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of hostd/api: a real server in a child, the real client, and a hostile one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hostd/api/client.h"
#include "hostd/api/server.h"
#include "lib/io.h"
#include "lib/json.h"

static char dir[] = "/tmp/holdfast-api-XXXXXX";
static struct paths paths;
static pid_t server_pid;

static void m_echo(void *user, struct api_call *call, const json_t *params)
{
	(void)user;
	api_reply(call, json_deep_copy(params));
}

static void m_fail(void *user, struct api_call *call, const json_t *params)
{
	(void)user;
	(void)params;
	api_fail(call, "it %s\nand more", "failed");
}

static void m_push(void *user, struct api_call *call, const json_t *params)
{
	(void)user;
	(void)params;
	for (int i = 0; i < 3; i++)
		api_push(call, json_pack("{s:i}", "n", i));
	api_reply(call, NULL);
}

static void m_fd(void *user, struct api_call *call, const json_t *params)
{
	int pair[2];

	(void)user;
	(void)params;
	if (pipe(pair))
		return;
	if (write(pair[1], "x", 1) != 1)
		return;
	api_reply_fd(call, NULL, pair[0]);
	close(pair[0]);
	close(pair[1]);
}

static struct api_call *parked;

static void m_park(void *user, struct api_call *call, const json_t *params)
{
	(void)user;
	(void)params;
	parked = call;
}

static void m_unpark(void *user, struct api_call *call, const json_t *params)
{
	(void)user;
	(void)params;
	api_reply(call, json_pack("{s:b}", "parked", parked != NULL));
	if (parked)
		api_reply(parked, NULL);
	parked = NULL;
}

static const char *const any[] = { "a", "b", NULL };
static const struct api_method methods[] = {
	{ "echo", any, m_echo }, { "fail", any, m_fail }, { "push", any, m_push }, { "fd", any, m_fd },
	{ "park", any, m_park }, { "unpark", any, m_unpark }, { NULL, NULL, NULL },
};

/* Whoever left a file of its pid is refused. */
static bool refuses(void *user, int pid)
{
	char path[64];

	(void)user;
	snprintf(path, sizeof(path), "%s/refused-%d", dir, pid);
	return !access(path, F_OK);
}

static int start_server(void **state)
{
	struct err err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(paths.api, sizeof(paths.api), "%s/api.sock", dir);
	server_pid = fork();
	if (!server_pid) {
		struct loop *loop = loop_new(&err);
		struct api_server *server = api_server_new(loop, paths.api, methods, refuses, NULL, &err);

		loop_run(loop, &err);
		api_server_free(server);
		_exit(0);
	}
	for (int i = 0; i < 200 && access(paths.api, F_OK); i++)
		usleep(10000);
	return access(paths.api, F_OK);
}

static int stop_server(void **state)
{
	(void)state;
	kill(server_pid, SIGKILL);
	waitpid(server_pid, NULL, 0);
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

static struct api_client *connected(void)
{
	struct err err = { "" };
	struct api_client *client = api_client_open(&paths, 0, &err);

	assert_string_equal(err.text, "");
	return client;
}

static void test_calls(void **state)
{
	struct api_client *client = connected();
	struct err err;
	json_t *result = api_client_call(client, "echo", json_pack("{s:s}", "a", "hi"), NULL, NULL, &err);

	(void)state;
	assert_string_equal(json_string_value(json_object_get(result, "a")), "hi");
	json_decref(result);
	assert_null(api_client_call(client, "fail", NULL, NULL, NULL, &err));
	assert_string_equal(err.text, "it failed?and more");
	assert_null(api_client_call(client, "echo", json_pack("{s:s}", "c", "x"), NULL, NULL, &err));
	assert_string_equal(err.text, "echo: unknown key \"c\"");
	assert_null(api_client_call(client, "nothing", NULL, NULL, NULL, &err));
	assert_string_equal(err.text, "unknown method \"nothing\" (this hostd speaks API version 1)");
	api_client_close(client);
}

static int count_event(void *user, const json_t *event)
{
	int *n = user;

	assert_int_equal(json_integer_value(json_object_get(event, "n")), *n);
	++*n;
	return 0;
}

static void test_pushes_come_before_the_answer(void **state)
{
	struct api_client *client = connected();
	struct err err;
	int n = 0;
	json_t *result = api_client_call(client, "push", NULL, count_event, &n, &err);

	(void)state;
	assert_non_null(result);
	assert_int_equal(n, 3);
	json_decref(result);
	api_client_close(client);
}

static void test_a_descriptor_comes_along(void **state)
{
	struct api_client *client = connected();
	struct err err;
	char byte = 0;
	int fd;
	json_t *result = api_client_call_fd(client, "fd", NULL, &fd, &err);

	(void)state;
	assert_non_null(result);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	close(fd);
	json_decref(result);
	api_client_close(client);
}

/* Sends raw bytes as one who does not keep the rules; true when the server closes the connection. */
static bool is_dropped(const void *bytes, size_t n)
{
	struct err err;
	int fd = io_unix_connect(paths.api, SOCK_STREAM, &err);
	struct timeval second = { .tv_sec = 1 };
	char in[4096];
	ssize_t got;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	assert_int_equal(write(fd, bytes, n), n);
	while ((got = read(fd, in, sizeof(in))) > 0)
		;
	close(fd);
	return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void test_malformed_frames_end_the_connection(void **state)
{
	(void)state;
	/* The positive baseline: a good frame is answered and the connection stays. */
	assert_false(is_dropped("\0\0\0\30{\"id\":1,\"method\":\"echo\"}", 28));
	assert_true(is_dropped("\xff\xff\xff\xff", 4));
	assert_true(is_dropped("\0\0\0\2xx", 6));
	assert_true(is_dropped("\0\0\0\2[]", 6));
	assert_true(is_dropped("\0\0\0\22{\"id\":1,\"id\":2}   ", 22));
}

static void test_a_client_that_leaves_cancels_its_call(void **state)
{
	struct err err;
	int fd = io_unix_connect(paths.api, SOCK_STREAM, &err);
	struct api_client *client;
	json_t *result;

	(void)state;
	assert_int_equal(write(fd, "\0\0\0\30{\"id\":1,\"method\":\"park\"}", 28), 28);
	usleep(100000);
	client = connected();
	result = api_client_call(client, "unpark", NULL, NULL, NULL, &err);
	assert_true(json_is_true(json_object_get(result, "parked")));
	json_decref(result);
	close(fd);
	/* The same id twice on one connection is no conversation. */
	assert_true(is_dropped("\0\0\0\30{\"id\":1,\"method\":\"park\"}\0\0\0\30{\"id\":1,\"method\":\"park\"}", 56));
	api_client_close(client);
}

static void test_a_refused_process_is_closed(void **state)
{
	char path[64];
	struct err err;

	(void)state;
	api_client_close(connected());
	snprintf(path, sizeof(path), "%s/refused-%d", dir, getpid());
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_null(api_client_open(&paths, 0, &err));
	unlink(path);
	api_client_close(connected());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_pushes_come_before_the_answer),
		cmocka_unit_test(test_a_descriptor_comes_along),
		cmocka_unit_test(test_malformed_frames_end_the_connection),
		cmocka_unit_test(test_a_client_that_leaves_cancels_its_call),
		cmocka_unit_test(test_a_refused_process_is_closed),
	};

	return cmocka_run_group_tests_name("api", tests, start_server, stop_server);
}
