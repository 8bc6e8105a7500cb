// SPDX-License-Identifier: GPL-2.0-or-later
/* sandboxd's bridges against a host that is a unix socket: bytes, ends of file, resets, many streams. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/io.h"
#include "lib/loop.h"
#include "sandboxd/bridge.h"
#include "sandboxd/supervisor.h"

static char dir[] = "/tmp/holdfast-bridge-XXXXXX";
static char host_path[64], agent_path[64];
static struct guest_supervisor v;
static int host_listener;

static int connect_unix(unsigned port)
{
	int fd = io_unix_connect(host_path, SOCK_STREAM, NULL);

	(void)port;
	if (fd >= 0)
		io_set_nonblock(fd);
	return fd;
}

static void turn(int times)
{
	while (times--)
		assert_int_equal(loop_turn(v.loop, 5, NULL), 0);
}

static int streams(void)
{
	json_t *o = guest_bridge_json(v.bridge);
	int n = (int)json_integer_value(json_object_get(o, "streams"));

	json_decref(o);
	return n;
}

static void open_pair(int *client, int *host)
{
	*client = io_unix_connect(agent_path, SOCK_STREAM, NULL);
	assert_true(*client >= 0);
	turn(3);
	*host = accept(host_listener, NULL, NULL);
	assert_true(*host >= 0);
	turn(3);
}

static void test_bytes_both_ways(void **state)
{
	char got[64] = "";
	int client, host;

	(void)state;
	open_pair(&client, &host);
	assert_int_equal(write(client, "question", 8), 8);
	turn(3);
	assert_int_equal(read(host, got, sizeof(got)), 8);
	assert_int_equal(write(host, "answer", 6), 6);
	close(host);
	turn(5);
	assert_int_equal(read(client, got, sizeof(got)), 6);
	assert_int_equal(read(client, got, sizeof(got)), 0);
	close(client);
	turn(5);
	assert_int_equal(streams(), 0);
}

static void test_half_close_passes_on(void **state)
{
	char got[64];
	int client, host;

	(void)state;
	open_pair(&client, &host);
	assert_int_equal(write(client, "all of it", 9), 9);
	shutdown(client, SHUT_WR);
	turn(5);
	assert_int_equal(read(host, got, sizeof(got)), 9);
	assert_int_equal(read(host, got, sizeof(got)), 0);
	assert_int_equal(write(host, "late", 4), 4);
	close(host);
	turn(5);
	assert_int_equal(read(client, got, sizeof(got)), 4);
	assert_int_equal(read(client, got, sizeof(got)), 0);
	close(client);
	turn(5);
	assert_int_equal(streams(), 0);
}

static void test_a_client_that_goes_away(void **state)
{
	int client, host;

	(void)state;
	for (int how = 0; how < 4; how++) {
		open_pair(&client, &host);
		if (how & 1)
			assert_int_equal(write(host, "unread", 6), 6);
		turn(3);
		if (how & 2)
			assert_int_equal(write(client, "unread", 6), 6);
		close(client);
		turn(6);
		close(host);
		turn(6);
		assert_int_equal(streams(), 0);
	}
}

static void test_a_host_that_goes_away(void **state)
{
	int client, host;

	(void)state;
	for (int how = 0; how < 4; how++) {
		open_pair(&client, &host);
		if (how & 1)
			assert_int_equal(write(host, "unread", 6), 6);
		if (how & 2)
			assert_int_equal(write(client, "unread", 6), 6);
		turn(how);
		close(host);
		turn(6);
		close(client);
		turn(6);
		assert_int_equal(streams(), 0);
	}
}

static void test_a_slow_reader_stops_the_other_side(void **state)
{
	static char piece[65536];
	size_t sent = 0, got = 0;
	int client, host;

	(void)state;
	open_pair(&client, &host);
	io_set_nonblock(client);
	for (int i = 0; i < 200; i++) {
		ssize_t n = write(client, piece, sizeof(piece));

		if (n > 0)
			sent += (size_t)n;
		turn(1);
	}
	/* What stands between the two is bounded by their socket buffers and ours. */
	assert_true(sent < 2 * 1024 * 1024);
	io_set_nonblock(host);
	shutdown(client, SHUT_WR);
	for (int i = 0; i < 2000 && got < sent; i++) {
		ssize_t n = read(host, piece, sizeof(piece));

		if (n > 0)
			got += (size_t)n;
		turn(1);
	}
	assert_int_equal(got, sent);
	close(client);
	close(host);
	turn(6);
	assert_int_equal(streams(), 0);
}

static void test_no_host(void **state)
{
	int client;
	char c;

	(void)state;
	unlink(host_path);
	client = io_unix_connect(agent_path, SOCK_STREAM, NULL);
	turn(5);
	assert_int_equal(read(client, &c, 1), 0);
	close(client);
	assert_int_equal(streams(), 0);
}

static int set_up(void **state)
{
	static struct guest g = { .params_fd = -1, .root_fd = -1, .proc_fd = -1 };
	static const char spec[] = "{\"schema\":1,\"workspace\":\"w\",\"level\":\"observe\",\"session_user\":"
				   "{\"name\":\"a\",\"uid\":1000,\"gid\":1000,\"home\":\"/home/a\"}}";

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(host_path, sizeof(host_path), "%s/host", dir);
	snprintf(agent_path, sizeof(agent_path), "%s/ssh-agent.sock", dir);
	g.spec = guest_spec_parse(spec, strlen(spec), NULL);
	g.run_fd = open(dir, O_PATH | O_DIRECTORY);
	v.guest = &g;
	v.loop = loop_new(NULL);
	v.confine.session.uid = getuid();
	v.confine.session.gid = getgid();
	v.connect_host = connect_unix;
	host_listener = io_unix_listen(host_path, SOCK_STREAM, NULL);
	guest_console_fd(-1);
	v.bridge = guest_bridge_new(&v);
	return v.bridge && host_listener >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	guest_bridge_free(v.bridge);
	close(host_listener);
	loop_free(v.loop);
	guest_spec_free(v.guest->spec);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	char cwd[512];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_both_ways),
		cmocka_unit_test(test_half_close_passes_on),
		cmocka_unit_test(test_a_client_that_goes_away),
		cmocka_unit_test(test_a_host_that_goes_away),
		cmocka_unit_test(test_a_slow_reader_stops_the_other_side),
		cmocka_unit_test(test_no_host),
	};

	/* The listeners are bound by relative names, which ends in "/". */
	return getcwd(cwd, sizeof(cwd)) ? cmocka_run_group_tests(tests, set_up, tear_down) : 1;
}
