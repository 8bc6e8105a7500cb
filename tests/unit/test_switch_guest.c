/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The switch against a real network stack: a guest behind a tap in a namespace of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/sandbox/sandbox.h"
#include "tests/unit/net_world.h"

static struct world world;

#define CHECK(cond, code)                                                        \
	do {                                                                     \
		if (!(cond)) {                                                   \
			fprintf(stderr, "guest: %s failed (errno %s)\n", #cond,  \
				strerror(errno));                                \
			return code;                                             \
		}                                                                \
	} while (0)

static int setup(void **state)
{
	world_start(&world, 1280);
	*state = &world;
	return 0;
}

static int teardown(void **state)
{
	world_stop(*state);
	return 0;
}

/* ---- TCP ---- */

enum { MIB = 1 << 20 };

static void fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (uint8_t)(seed >> 24);
	}
}

/* Sends n bytes of the seed and half-closes while reading the same back. 0 when equal. */
static int echo_check(int fd, size_t n, uint32_t seed)
{
	uint8_t *sent = malloc(n), *back = malloc(n + 1);
	size_t up = 0, down = 0;
	int bad = 1;

	fill(sent, n, seed);
	io_set_nonblock(fd);
	for (;;) {
		struct pollfd p = { fd, (short)(POLLIN | (up < n ? POLLOUT : 0)), 0 };
		ssize_t m;

		if (poll(&p, 1, 10000) <= 0)
			break;
		if (p.revents & POLLOUT && up < n) {
			m = send(fd, sent + up, n - up, MSG_NOSIGNAL);
			if (m < 0 && errno != EAGAIN)
				break;
			up += m > 0 ? (size_t)m : 0;
			if (up == n)
				shutdown(fd, SHUT_WR);
		}
		if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
			m = recv(fd, back + down, n + 1 - down, 0);
			if (m == 0) {
				bad = down != n || memcmp(sent, back, n);
				break;
			}
			if (m < 0 && errno != EAGAIN)
				break;
			down += m > 0 ? (size_t)m : 0;
			if (down > n)
				break;
		}
	}
	free(sent);
	free(back);
	return bad;
}

static int tcp_allowed(struct world *w)
{
	int fd = guest_connect(WORLD_SERVER, PORT_ECHO);

	(void)w;
	CHECK(fd >= 0, 1);
	CHECK(echo_check(fd, MIB, 1) == 0, 2);
	return 0;
}

static void test_tcp_allowed(void **state)
{
	struct world *w = *state;
	struct switch_stats s;

	assert_int_equal(world_run(w, tcp_allowed), 0);
	assert_int_equal(w->events[FLOW_ALLOWED], 1);
	assert_int_equal(w->events[FLOW_ENDED], 1);
	assert_int_equal(w->events[FLOW_DENIED], 0);
	assert_string_equal(w->last[FLOW_ENDED].rule, "server");
	assert_string_equal(w->last[FLOW_ENDED].reason, "closed");
	assert_int_equal(w->last[FLOW_ENDED].bytes_up, MIB);
	assert_int_equal(w->last[FLOW_ENDED].bytes_down, MIB);
	assert_int_equal(w->last[FLOW_ENDED].dport, PORT_ECHO);
	assert_string_equal(w->last[FLOW_ENDED].name, "");
	switch_stats_get(w->sw, &s);
	assert_int_equal(s.bytes_up, MIB);
	for (int i = 0; i < DROP_MAX; i++) {
		if (i != DROP_IPV6 && i != DROP_DEST_MAC) /* multicast chatter of the stack */
			assert_int_equal(s.drops[i], 0);
	}
}

static int tcp_refused(struct world *w)
{
	CHECK(tcp_allowed(w) == 0, 1);
	w->shared->figure = UINT64_MAX; /* the quickest of five: the machine may be busy */
	for (int i = 0; i < 5; i++) {
		uint64_t before = world_ms();

		CHECK(guest_connect(WORLD_SERVER, PORT_DENIED) < 0 && errno == ECONNREFUSED, 2);
		if (world_ms() - before < w->shared->figure)
			w->shared->figure = world_ms() - before;
	}
	CHECK(guest_connect(WORLD_SERVER2, PORT_ECHO) < 0 && errno == ECONNREFUSED, 3);
	CHECK(guest_connect("198.51.100.7", 80) < 0 && errno == ECONNREFUSED, 4);
	/* Nothing may even be asked about these. */
	CHECK(guest_connect("169.254.169.254", 80) < 0 && errno == ECONNREFUSED, 5);
	CHECK(guest_connect("240.0.0.1", 80) < 0 && errno == ECONNREFUSED, 6);
	return 0;
}

static void test_tcp_refused(void **state)
{
	struct world *w = *state;

	w->shared->flow_asks = 0;
	assert_int_equal(world_run(w, tcp_refused), 0);
	assert_true(w->shared->figure < 100);
	assert_int_equal(w->shared->flow_asks, 8);
	assert_int_equal(w->events[FLOW_ALLOWED], 1);
	assert_int_equal(w->events[FLOW_DENIED], 9);
}

static int tcp_closed_port(struct world *w)
{
	(void)w;
	CHECK(guest_connect(WORLD_SERVER, PORT_CLOSED) < 0 && errno == ECONNREFUSED, 1);
	return 0;
}

static void test_tcp_closed_port(void **state)
{
	struct world *w = *state;

	assert_int_equal(world_run(w, tcp_closed_port), 0);
	assert_int_equal(w->events[FLOW_ALLOWED], 1);
	assert_int_equal(w->events[FLOW_ENDED], 1);
	assert_string_equal(w->last[FLOW_ENDED].reason, "connect: Connection refused");
}

static int tcp_reset(struct world *w)
{
	const struct linger reset = { 1, 0 };
	int fd = guest_connect(WORLD_SERVER, PORT_ECHO);

	(void)w;
	CHECK(fd >= 0, 1);
	CHECK(send(fd, "x", 1, 0) == 1, 2);
	usleep(100000);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	usleep(300000);
	return 0;
}

static void test_tcp_reset_by_guest(void **state)
{
	struct world *w = *state;

	assert_int_equal(world_run(w, tcp_reset), 0);
	assert_int_equal(w->events[FLOW_ENDED], 1);
	assert_string_equal(w->last[FLOW_ENDED].reason, "reset by the guest");
	assert_int_equal(w->last[FLOW_ENDED].bytes_up, 1);
}

static int tcp_same_port(struct world *w)
{
	struct sockaddr_in from = world_addr(WORLD_GUEST, 40000), to = world_addr(WORLD_SERVER, PORT_ECHO);
	const struct linger reset = { 1, 0 };
	const int on = 1;
	char b;

	(void)w;
	for (int i = 0; i < 5; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		CHECK(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0, 1);
		CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, 2);
		CHECK(send(fd, &on, 1, 0) == 1 && recv(fd, &b, 1, 0) == 1, 3);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
	}
	return 0;
}

/* Another program may have got the port: each connection is a question of its own. */
static void test_tcp_same_port_asks_again(void **state)
{
	struct world *w = *state;

	w->shared->flow_asks = 0;
	assert_int_equal(world_run(w, tcp_same_port), 0);
	assert_int_equal(w->shared->flow_asks, 5);
	assert_int_equal(w->events[FLOW_ALLOWED], 5);
	assert_int_equal(w->events[FLOW_ENDED], 5);
}

static int tcp_port_of_closed_flow(struct world *w)
{
	struct sockaddr_in from = world_addr(WORLD_GUEST, 40001), to = world_addr(WORLD_SERVER, PORT_ONCE);
	const int on = 1;
	char b;

	(void)w;
	for (int i = 0; i < 4; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		CHECK(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0, 1);
		CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, 2);
		CHECK(send(fd, "x", 1, 0) == 1 && recv(fd, &b, 1, 0) == 1 && recv(fd, &b, 1, 0) == 0, 3);
		close(fd);
		usleep(50000);
	}
	return 0;
}

/* The server closed first: its side of the NAT waits, but the guest has not to. */
static void test_tcp_port_of_closed_flow(void **state)
{
	struct world *w = *state;

	assert_int_equal(world_run(w, tcp_port_of_closed_flow), 0);
	assert_int_equal(w->events[FLOW_ALLOWED], 4);
	assert_int_equal(w->events[FLOW_ENDED], 4);
	assert_string_equal(w->last[FLOW_ENDED].reason, "closed");
	assert_int_equal(w->last[FLOW_ENDED].bytes_up, 1);
	assert_int_equal(w->last[FLOW_ENDED].bytes_down, 1);
}

enum { PARALLEL = 200 };

static int tcp_parallel(struct world *w)
{
	static char b[PARALLEL][1000], back[1000];
	int fd[PARALLEL];

	(void)w;
	for (int i = 0; i < PARALLEL; i++) {
		fd[i] = guest_connect(WORLD_SERVER, PORT_ECHO);
		CHECK(fd[i] >= 0, 1);
		fill((uint8_t *)b[i], sizeof(b[i]), (uint32_t)i);
	}
	for (int i = 0; i < PARALLEL; i++)
		CHECK(send(fd[i], b[i], sizeof(b[i]), 0) == sizeof(b[i]), 2);
	for (int i = 0; i < PARALLEL; i++) {
		CHECK(io_read_all(fd[i], back, sizeof(back)) == 0, 3);
		CHECK(memcmp(back, b[i], sizeof(back)) == 0, 4);
	}
	for (int i = 0; i < PARALLEL; i++)
		close(fd[i]);
	usleep(500000);
	return 0;
}

static void test_tcp_parallel(void **state)
{
	struct world *w = *state;
	struct switch_stats s;

	assert_int_equal(world_run(w, tcp_parallel), 0);
	assert_int_equal(w->events[FLOW_ALLOWED], PARALLEL);
	assert_int_equal(w->events[FLOW_ENDED], PARALLEL);
	switch_stats_get(w->sw, &s);
	assert_int_equal(s.bytes_up, PARALLEL * 1000);
	assert_int_equal(s.bytes_down, PARALLEL * 1000);
	assert_int_equal(s.flows_open, 0);
}

static int tcp_bulk(struct world *w)
{
	enum { BULK = 32 * MIB };
	static uint8_t b[65536];
	uint64_t left = BULK, total = 0;
	int fd = guest_connect(WORLD_SERVER, PORT_SINK);

	(void)w;
	CHECK(fd >= 0, 1);
	for (; left; left -= sizeof(b))
		CHECK(io_write_all(fd, b, sizeof(b)) == 0, 2);
	shutdown(fd, SHUT_WR);
	CHECK(io_read_all(fd, &total, sizeof(total)) == 0, 3);
	CHECK(total == BULK, 4);
	close(fd);
	fd = guest_connect(WORLD_SERVER, PORT_SOURCE);
	CHECK(fd >= 0, 5);
	for (left = BULK; left; left -= sizeof(b))
		CHECK(io_read_all(fd, b, sizeof(b)) == 0, 6);
	close(fd);
	return 0;
}

static void test_tcp_bulk(void **state)
{
	assert_int_equal(world_run(*state, tcp_bulk), 0);
}

/* ---- policy that is late, changes, cuts ---- */

static int tcp_silent(struct world *w)
{
	uint64_t before = world_ms();

	CHECK(guest_connect(WORLD_SERVER, PORT_SILENT) < 0 && errno == ECONNREFUSED, 1);
	w->shared->figure = world_ms() - before;
	return 0;
}

static void test_silence_is_no(void **state)
{
	struct world *w = *state;

	w->shared->flow_asks = 0;
	assert_int_equal(world_run(w, tcp_silent), 0);
	assert_in_range(w->shared->figure, 9900, 15000);
	assert_int_equal(w->shared->flow_asks, 1); /* the SYN came again, the question did not */
	assert_string_equal(w->last[FLOW_DENIED].reason, "no answer from policy in time");
}

static int open_until_reset(struct world *w)
{
	int fd = guest_connect(WORLD_SERVER, PORT_ECHO);
	uint64_t before;
	char b[5];

	CHECK(fd >= 0, 1);
	CHECK(send(fd, "hello", 5, 0) == 5 && io_read_all(fd, b, 5) == 0, 2);
	before = world_ms();
	CHECK(recv(fd, b, 1, 0) < 0 && errno == ECONNRESET, 3);
	w->shared->figure = world_ms() - before;
	CHECK(guest_connect(WORLD_SERVER, PORT_ECHO) < 0 && errno == ECONNREFUSED, 4);
	usleep(200000);
	return 0;
}

/* Runs fn once, so many ms after the next flow was allowed: a guest that begins slowly is waited for. */
static struct {
	uint64_t ms;
	void (*fn)(void *u);
} once_open;

static void flow_happened(struct world *w, const struct flow *f, enum flow_what what)
{
	(void)f;
	if (what != FLOW_ALLOWED)
		return;
	w->on_event = NULL;
	loop_timer_add(w->loop, once_open.ms, 0, once_open.fn, w);
}

static void when_open(struct world *w, uint64_t ms, void (*fn)(void *u))
{
	once_open.ms = ms;
	once_open.fn = fn;
	w->on_event = flow_happened;
}

static void cut_now(void *u)
{
	switch_cut(((struct world *)u)->sw, "quarantine");
}

static void test_cut(void **state)
{
	struct world *w = *state;

	w->shared->server_resets = 0;
	when_open(w, 500, cut_now);
	assert_int_equal(world_run(w, open_until_reset), 0);
	assert_true(w->shared->figure < 3000);
	assert_int_equal(w->shared->server_resets, 1); /* the other end as well */
	assert_string_equal(w->last[FLOW_ENDED].reason, "quarantine");
	assert_string_equal(w->last[FLOW_DENIED].reason, "quarantine");
	assert_int_equal(w->last[FLOW_ENDED].bytes_up, 5);
	switch_uncut(w->sw);
	assert_int_equal(world_run(w, tcp_allowed), 0);
}

static void tighten_now(void *u)
{
	struct world *w = u;

	w->deny_all = true;
	switch_rejudge(w->sw);
}

static void test_rejudge_closes(void **state)
{
	struct world *w = *state;

	w->shared->server_resets = 0;
	when_open(w, 500, tighten_now);
	assert_int_equal(world_run(w, open_until_reset), 0);
	assert_int_equal(w->shared->server_resets, 1);
	assert_string_equal(w->last[FLOW_ENDED].reason, "no rule allows it");
}

static void rejudge_now(void *u)
{
	switch_rejudge(((struct world *)u)->sw);
}

static int slow_echo(struct world *w)
{
	int fd = guest_connect(WORLD_SERVER, PORT_ECHO);
	char b[5];

	(void)w;
	CHECK(fd >= 0, 1);
	for (int i = 0; i < 10; i++) {
		CHECK(send(fd, "hello", 5, 0) == 5 && io_read_all(fd, b, 5) == 0, 2);
		usleep(100000);
	}
	return 0;
}

static void test_rejudge_keeps(void **state)
{
	struct world *w = *state;

	w->shared->flow_asks = 0;
	when_open(w, 300, rejudge_now);
	assert_int_equal(world_run(w, slow_echo), 0);
	assert_int_equal(w->shared->flow_asks, 2);
	assert_int_equal(w->last[FLOW_ENDED].bytes_up, 50);
}

/* ---- the host itself ---- */

static int host_loopback(struct world *w)
{
	int fd;

	/* The echo server listens on the host's 127.0.0.1 as well: the verdict is a plain allow. */
	CHECK(guest_connect(WORLD_GATEWAY, PORT_ECHO) < 0 && errno == ECONNREFUSED, 1);
	fd = guest_connect(WORLD_GATEWAY, PORT_HOST);
	CHECK(fd >= 0, 2);
	CHECK(echo_check(fd, 10000, 3) == 0, 3);
	(void)w;
	return 0;
}

static void test_host_loopback_needs_a_rule(void **state)
{
	struct world *w = *state;

	assert_int_equal(world_run(w, host_loopback), 0);
	assert_string_equal(w->last[FLOW_DENIED].reason, "no rule names the host itself");
	assert_string_equal(w->last[FLOW_ENDED].rule, "host");
}

static void echo_inspected(void *u, int fd, uint32_t events)
{
	struct world *w = u;
	char b[4096];
	ssize_t n = recv(fd, b, sizeof(b), MSG_DONTWAIT);

	(void)events;
	(void)w;
	if (n > 0)
		assert_int_equal(send(fd, b, (size_t)n, MSG_NOSIGNAL), n);
	else if (n == 0)
		shutdown(fd, SHUT_WR);
}

static struct loop_fd *inspect_watch;

static void inspect_soon(void *u)
{
	struct world *w = u;

	if (w->inspect_fd >= 0)
		inspect_watch = loop_fd_add(w->loop, w->inspect_fd, EPOLLIN, echo_inspected, w, NULL);
	else
		loop_timer_add(w->loop, 50, 0, inspect_soon, w);
}

static int inspected(struct world *w)
{
	int fd = guest_connect(WORLD_SERVER, PORT_INSPECT);
	char b[11];

	(void)w;
	CHECK(fd >= 0, 1);
	CHECK(send(fd, "through you", 11, 0) == 11 && io_read_all(fd, b, 11) == 0, 2);
	CHECK(memcmp(b, "through you", 11) == 0, 3);
	return 0;
}

static void test_inspect_hands_over(void **state)
{
	struct world *w = *state;

	w->inspect_fd = -1;
	loop_timer_add(w->loop, 50, 0, inspect_soon, w);
	assert_int_equal(world_run(w, inspected), 0);
	assert_true(w->inspect_fd >= 0);
	loop_fd_del(inspect_watch);
	close(w->inspect_fd);
	loop_turn(w->loop, 0, NULL);
}

/* ---- UDP and echo ---- */

static int udp_socket(const char *ip, unsigned port)
{
	struct sockaddr_in a = world_addr(ip, port);
	struct timeval tv = { 3, 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return -1;
	return fd;
}

static int udp(struct world *w)
{
	uint64_t before;
	char b[1200];
	int fd = udp_socket(WORLD_SERVER, PORT_ECHO);

	memset(b, 7, sizeof(b));
	CHECK(send(fd, b, sizeof(b), 0) == sizeof(b), 1);
	memset(b, 0, sizeof(b));
	CHECK(recv(fd, b, sizeof(b), 0) == sizeof(b) && b[0] == 7 && b[1199] == 7, 2);
	CHECK(send(fd, "", 0, 0) == 0 && recv(fd, b, sizeof(b), 0) == 0, 3);
	fd = udp_socket(WORLD_SERVER2, 9);
	before = world_ms();
	CHECK(send(fd, "x", 1, 0) == 1, 4);
	CHECK(recv(fd, b, 1, 0) < 0 && errno == EHOSTUNREACH, 5);
	w->shared->figure = world_ms() - before;
	CHECK(send(fd, "x", 1, 0) == 1, 6);
	CHECK(recv(fd, b, 1, 0) < 0 && errno == EHOSTUNREACH, 7);
	fd = udp_socket(WORLD_SERVER, 443);
	CHECK(send(fd, "x", 1, 0) == 1, 8);
	CHECK(recv(fd, b, 1, 0) < 0 && errno == EHOSTUNREACH, 9);
	fd = udp_socket(WORLD_SERVER, PORT_CLOSED);
	CHECK(send(fd, "x", 1, 0) == 1, 10);
	CHECK(recv(fd, b, 1, 0) < 0 && errno == ECONNREFUSED, 11);
	return 0;
}

static void test_udp(void **state)
{
	struct world *w = *state;

	w->shared->flow_asks = 0;
	assert_int_equal(world_run(w, udp), 0);
	assert_true(w->shared->figure < 100);
	assert_int_equal(w->shared->flow_asks, 3); /* the second try of a refused one is not asked */
	assert_int_equal(w->events[FLOW_DENIED], 2);
	assert_string_equal(w->last[FLOW_DENIED].reason, "QUIC is refused so that clients use TCP");
}

static int ping(const char *ip)
{
	uint8_t b[64] = { 8 };
	struct sockaddr_in a = world_addr(ip, 0);
	struct timeval tv = { 3, 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return -1;
	b[7] = 9;
	memset(b + 8, 5, 56);
	if (send(fd, b, sizeof(b), 0) != sizeof(b) || recv(fd, b, sizeof(b), 0) != sizeof(b))
		return -1;
	return b[0] == 0 && b[7] == 9 && b[63] == 5 ? 0 : -1;
}

static int echo_requests(struct world *w)
{
	(void)w;
	world_sh("echo '0 0' > /proc/sys/net/ipv4/ping_group_range");
	CHECK(ping(WORLD_GATEWAY) == 0, 1);
	CHECK(ping(WORLD_SERVER) == 0, 2);
	CHECK(ping(WORLD_SERVER2) < 0 && errno == EHOSTUNREACH, 3);
	return 0;
}

static void test_echo(void **state)
{
	struct world *w = *state;

	assert_int_equal(world_run(w, echo_requests), 0);
	assert_int_equal(w->last[FLOW_ALLOWED].proto, IPPROTO_ICMP);
}

/* ---- names ---- */

static int names_allowed(struct world *w)
{
	struct in_addr a[8], server = world_addr(WORLD_SERVER, 0).sin_addr;
	uint32_t ttl;
	size_t n;
	int fd;

	(void)w;
	CHECK(guest_resolve("www.allowed.test", 1, a, &n, &ttl) == 0, 1);
	CHECK(n == 1 && a[0].s_addr == server.s_addr && ttl == 60, 2);
	CHECK(guest_resolve("WWW.Allowed.Test", 1, a, &n, &ttl) == 0 && n == 1 && ttl <= 60, 3);
	CHECK(guest_resolve("www.allowed.test", 28, a, &n, &ttl) == 0 && n == 0, 4);
	CHECK(guest_resolve("www.allowed.test", 65, a, &n, &ttl) == 0 && n == 0, 5);
	CHECK(guest_resolve("nx.allowed.test", 1, a, &n, &ttl) == 3, 6);
	CHECK(guest_resolve("mixed.allowed.test", 1, a, &n, &ttl) == 0, 7);
	CHECK(n == 1 && a[0].s_addr == server.s_addr, 8);
	CHECK(guest_resolve("rebind.allowed.test", 1, a, &n, &ttl) == 0 && a[0].s_addr == server.s_addr, 9);
	CHECK(guest_resolve("rebind.allowed.test", 1, a, &n, &ttl) == 0 && a[0].s_addr == server.s_addr, 10);
	fd = guest_connect(WORLD_SERVER, PORT_ECHO);
	CHECK(fd >= 0 && echo_check(fd, 100, 1) == 0, 11);
	CHECK(guest_resolve(SWITCH_HOST_NAME, 1, a, &n, &ttl) == 0 && n == 1, 12);
	CHECK(a[0].s_addr == world_addr(WORLD_GATEWAY, 0).sin_addr.s_addr, 13);
	return 0;
}

static void test_names_allowed(void **state)
{
	struct world *w = *state;

	w->shared->dns_queries = 0;
	assert_int_equal(world_run(w, names_allowed), 0);
	assert_int_equal(w->shared->dns_queries, 4); /* www, nx, mixed, rebind: once each */
	assert_string_equal(w->last[FLOW_ALLOWED].name, "rebind.allowed.test");
	assert_int_equal(w->last[FLOW_ALLOWED].name_n, 3);
}

static int names_refused(struct world *w)
{
	struct in_addr a[8], again[8];
	char ip[INET_ADDRSTRLEN];
	uint32_t ttl;
	size_t n;

	(void)w;
	CHECK(guest_resolve("c2VjcmV0.exfil.test", 1, a, &n, &ttl) == 0 && n == 1 && ttl == 1, 1);
	CHECK((ntohl(a[0].s_addr) & 0xfffe0000) == 0xc6120000, 2);
	CHECK(guest_resolve("c2VjcmV0.exfil.test", 1, again, &n, &ttl) == 0, 3);
	CHECK(again[0].s_addr == a[0].s_addr, 4);
	CHECK(guest_resolve("www.allowed.test", 16, again, &n, &ttl) == 5, 5);
	CHECK(guest_resolve("www.allowed.test", 10, again, &n, &ttl) == 5, 6);
	CHECK(guest_resolve("1.2.0.192.in-addr.arpa", 12, again, &n, &ttl) == 5, 7);
	CHECK(guest_resolve("0x7f.1", 1, again, &n, &ttl) == 5, 8);
	CHECK(guest_connect(inet_ntop(AF_INET, &a[0], ip, sizeof(ip)), 443) < 0 && errno == ECONNREFUSED, 9);
	CHECK(guest_connect("198.18.7.7", 443) < 0 && errno == ECONNREFUSED, 10);
	return 0;
}

static void test_names_refused(void **state)
{
	struct world *w = *state;

	w->shared->dns_queries = 0;
	assert_int_equal(world_run(w, tcp_allowed), 0);
	w->on_event = NULL;
	assert_int_equal(world_run(w, names_refused), 0);
	assert_int_equal(w->shared->dns_queries, 0);
	assert_int_equal(w->events[FLOW_DENIED], 2);
	assert_string_equal(w->last[FLOW_DENIED].name, "");
}

static int name_refused_then_connect(struct world *w)
{
	struct in_addr a[8];
	char ip[INET_ADDRSTRLEN];
	uint32_t ttl;
	size_t n;

	(void)w;
	CHECK(guest_resolve("data.exfil.test", 1, a, &n, &ttl) == 0 && n == 1, 1);
	CHECK(guest_connect(inet_ntop(AF_INET, &a[0], ip, sizeof(ip)), 443) < 0, 2);
	return 0;
}

static void test_refused_flow_has_its_name(void **state)
{
	struct world *w = *state;

	assert_int_equal(world_run(w, name_refused_then_connect), 0);
	assert_string_equal(w->last[FLOW_DENIED].name, "data.exfil.test");
	assert_true(w->last[FLOW_DENIED].synthetic);
}

static int name_with_private_answers(struct world *w)
{
	struct in_addr a[8];
	uint32_t ttl;
	size_t n;

	(void)w;
	CHECK(guest_resolve("evil.allowed.test", 1, a, &n, &ttl) == 0 && n == 1 && ttl == 1, 1);
	CHECK((ntohl(a[0].s_addr) & 0xfffe0000) == 0xc6120000, 2);
	return 0;
}

static void test_refused_answers_are_not_given(void **state)
{
	assert_int_equal(world_run(*state, name_with_private_answers), 0);
}

/* ---- confined as the role is ---- */

static int everything(struct world *w)
{
	char go;

	CHECK(read(w->gate[0], &go, 1) == 1, 99);
	CHECK(tcp_allowed(w) == 0, 10);
	CHECK(tcp_refused(w) == 0, 20);
	CHECK(udp(w) == 0, 30);
	CHECK(names_allowed(w) == 0, 40);
	CHECK(echo_requests(w) == 0, 50);
	return 0;
}

/* The role's profile, with nothing but run_dir: the switch needs no more once it stands. */
static void confine(struct world *w)
{
	struct sandbox_path path = { .path = w->dir, .access = SANDBOX_WRITE };
	struct sandbox_profile p = sandbox_profile_vm;
	struct sandbox_report report = { 0 };
	struct err err;

	p.paths = &path;
	p.path_count = 1;
	if (sandbox_apply(&p, &report, &err)) {
		fprintf(stderr, "sandbox_apply: %s\n", err.text);
		_exit(98);
	}
	if (write(w->gate[1], "g", 1) != 1)
		_exit(97);
}

static void test_confined(void **state)
{
	struct world *w = *state;
	int status;
	pid_t pid;

	assert_int_equal(pipe(w->gate), 0);
	pid = fork();
	if (pid == 0) {
		w->before_loop = confine;
		_exit(world_run(w, everything));
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(w->gate[0]);
	close(w->gate[1]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* `test_switch_guest qemu KERNEL INITRD`: the same switch with a guest of QEMU, whose init
 * (tests/vm/guest/netinit.c) does the checks; what only the host sees is checked here. */
static int with_qemu(const char *kernel, const char *initrd)
{
	static const enum switch_drop forged[] = { DROP_SOURCE_MAC, DROP_VLAN, DROP_IPV6, DROP_IP_OPTIONS };
	struct switch_stats s;
	bool good, all = true;
	unsigned n = 0;
	int link = world_switch(&world, 0);

	world.shared->dns_queries = 0;
	if (world_qemu(&world, kernel, initrd, NULL, "", link))
		all = false;
	switch_stats_get(world.sw, &s);
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		good = s.drops[forged[i]] > 0;
		all &= good;
		printf("%sok %u - host: a forged frame was dropped as %s\n", good ? "" : "not ", ++n,
		       switch_drop_name(forged[i]));
	}
	good = world.shared->dns_queries == 1;
	all &= good;
	printf("%sok %u - host: one name was asked upstream, the refused one was not\n",
	       good ? "" : "not ", ++n);
	printf("# frames in %llu out %llu, flows allowed %llu denied %llu ended %llu open %zu\n",
	       (unsigned long long)s.frames_in, (unsigned long long)s.frames_out,
	       (unsigned long long)s.flows_allowed, (unsigned long long)s.flows_denied,
	       (unsigned long long)s.flows_ended, s.flows_open);
	world_stop(&world);
	return all ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_tcp_allowed),
		T(test_tcp_refused),
		T(test_tcp_closed_port),
		T(test_tcp_reset_by_guest),
		T(test_tcp_same_port_asks_again),
		T(test_tcp_port_of_closed_flow),
		T(test_tcp_parallel),
		T(test_tcp_bulk),
		T(test_silence_is_no),
		T(test_cut),
		T(test_rejudge_closes),
		T(test_rejudge_keeps),
		T(test_host_loopback_needs_a_rule),
		T(test_inspect_hands_over),
		T(test_udp),
		T(test_echo),
		T(test_names_allowed),
		T(test_names_refused),
		T(test_refused_flow_has_its_name),
		T(test_refused_answers_are_not_given),
		T(test_confined),
	};

	if (!world_enter(&world)) {
		printf("1..1\nok 1 - switch with a guest # SKIP no user namespaces here\n");
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "qemu"))
		return with_qemu(argv[2], argv[3]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
