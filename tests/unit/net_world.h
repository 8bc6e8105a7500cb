/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two network namespaces for tests of the switch: servers and switch in one, a guest in the other.
 *
 * The guest is a kernel network stack behind a tap device; a relay speaks QEMU's framing
 * between the tap and the switch. Addresses are documentation addresses on the loopback
 * device of the first namespace; nothing leaves it.
 */
#ifndef HOLDFAST_TESTS_NET_WORLD_H
#define HOLDFAST_TESTS_NET_WORLD_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostd/net/switch.h"
#include "lib/io.h"
#include "lib/loop.h"

#define WORLD_SERVER "192.0.2.10"
#define WORLD_SERVER2 "192.0.2.11"
#define WORLD_DNS "192.0.2.53"
#define WORLD_GATEWAY "192.168.64.1"
#define WORLD_GUEST "192.168.64.2"
enum { PORT_ECHO = 7000, PORT_SOURCE = 7001, PORT_SINK = 7002, PORT_CLOSED = 7003,
       PORT_DENIED = 7004, PORT_SILENT = 7005 /* policy never answers */, PORT_HOST = 7006,
       PORT_INSPECT = 7007, PORT_ONCE = 7008 /* one answer, then the server closes */ };

struct world_shared {
	unsigned dns_queries;
	unsigned rebound; /* answers given for "rebind" */
	unsigned flow_asks;
	unsigned server_resets; /* connections that the echo server saw reset */
	uint64_t figure; /* for a scenario's result */
};

struct world {
	struct loop *loop;
	struct switch_ctx *sw;
	struct world_shared *shared;
	int host_ns, guest_ns, tap, link;
	pid_t relay, fixture;
	char dir[64];
	unsigned mtu;
	bool deny_all;
	int inspect_fd;
	struct flow last[3]; /* by enum flow_what */
	unsigned events[3];
	void (*on_event)(struct world *w, const struct flow *f, enum flow_what what);
	void (*before_loop)(struct world *w); /* once the scenario's process exists */
	int gate[2];
};

static void world_die(const char *what)
{
	fprintf(stderr, "world: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void world_sh(const char *cmd)
{
	if (system(cmd)) {
		fprintf(stderr, "world: failed: %s\n", cmd);
		exit(1);
	}
}

static struct sockaddr_in world_addr(const char *ip, unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}

static uint64_t world_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- servers ---- */

static int world_bind(int type, const char *ip, unsigned port)
{
	struct sockaddr_in a = world_addr(ip, port);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || (type == SOCK_STREAM && listen(fd, 512)))
		world_die("bind");
	return fd;
}

/* Echo: as it comes, until the end of file, then closes. Source: bytes until the peer
 * closes. Sink: until the end of file, then answers with the count. */
static void world_serve(struct world *w, int fd, unsigned port)
{
	static char b[65536];
	uint64_t total = 0;
	ssize_t n;

	if (port == PORT_SOURCE) {
		while (send(fd, b, sizeof(b), MSG_NOSIGNAL) > 0)
			;
		return;
	}
	while ((n = recv(fd, b, sizeof(b), 0)) > 0) {
		total += (uint64_t)n;
		if (port != PORT_SINK && io_write_all(fd, b, (size_t)n))
			return;
		if (port == PORT_ONCE)
			return;
	}
	if (n < 0 && errno == ECONNRESET)
		__atomic_add_fetch(&w->shared->server_resets, 1, __ATOMIC_SEQ_CST);
	if (n == 0 && port == PORT_SINK && io_write_all(fd, &total, sizeof(total)))
		return;
}

static size_t world_dns_records(struct world *w, const char *q, size_t len, struct in_addr *out,
				unsigned *ttl, bool *nx)
{
	*ttl = 60;
	*nx = false;
	if (len > 6 && !memcmp(q, "\4evil", 5)) {
		inet_pton(AF_INET, "127.0.0.1", &out[0]);
		inet_pton(AF_INET, "10.1.2.3", &out[1]);
		return 2;
	}
	if (len > 7 && !memcmp(q, "\5mixed", 6)) {
		inet_pton(AF_INET, "127.0.0.1", &out[0]);
		inet_pton(AF_INET, WORLD_SERVER, &out[1]);
		return 2;
	}
	if (len > 8 && !memcmp(q, "\6rebind", 7)) {
		inet_pton(AF_INET, w->shared->rebound++ ? "10.9.9.9" : WORLD_SERVER, &out[0]);
		return 1;
	}
	if (len > 4 && !memcmp(q, "\2nx", 3)) {
		*nx = true;
		return 0;
	}
	inet_pton(AF_INET, WORLD_SERVER, &out[0]);
	return 1;
}

static void world_dns(struct world *w, int fd)
{
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	struct in_addr records[2];
	uint8_t b[600];
	ssize_t n = recvfrom(fd, b, 512, 0, (struct sockaddr *)&from, &from_len);
	size_t end = 12, count;
	unsigned ttl;
	bool nx;

	if (n < 17)
		return;
	__atomic_add_fetch(&w->shared->dns_queries, 1, __ATOMIC_SEQ_CST);
	while (end < (size_t)n && b[end])
		end += b[end] + 1u;
	end += 5;
	count = world_dns_records(w, (char *)b + 12, (size_t)n - 12, records, &ttl, &nx);
	b[2] = 0x81;
	b[3] = nx ? 0x83 : 0x80;
	b[7] = (uint8_t)count;
	b[11] = 0;
	for (size_t i = 0; i < count; i++) {
		const uint8_t head[10] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, (uint8_t)ttl };

		memcpy(b + end, head, 10);
		b[end + 10] = 0;
		b[end + 11] = 4;
		memcpy(b + end + 12, &records[i], 4);
		end += 16;
	}
	sendto(fd, b, end, 0, (struct sockaddr *)&from, from_len);
}

static void world_fixture(struct world *w)
{
	static const struct { int type; const char *ip; unsigned port; } at[] = {
		{ SOCK_STREAM, WORLD_SERVER, PORT_ECHO },   { SOCK_STREAM, WORLD_SERVER, PORT_SOURCE },
		{ SOCK_STREAM, WORLD_SERVER, PORT_SINK },   { SOCK_STREAM, WORLD_SERVER, PORT_DENIED },
		{ SOCK_STREAM, "127.0.0.1", PORT_HOST },    { SOCK_STREAM, "127.0.0.1", PORT_ECHO },
		{ SOCK_DGRAM, WORLD_SERVER, PORT_ECHO },    { SOCK_DGRAM, WORLD_DNS, 53 },
		{ SOCK_STREAM, WORLD_SERVER, PORT_ONCE },
	};
	enum { N = sizeof(at) / sizeof(at[0]) };
	struct pollfd p[N];
	char b[65536];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	for (size_t i = 0; i < N; i++)
		p[i] = (struct pollfd){ world_bind(at[i].type, at[i].ip, at[i].port), POLLIN, 0 };
	for (;;) {
		poll(p, N, -1);
		for (size_t i = 0; i < N; i++) {
			struct sockaddr_in from;
			socklen_t len = sizeof(from);
			ssize_t n;
			int fd;

			if (!(p[i].revents & POLLIN))
				continue;
			if (at[i].port == 53) {
				world_dns(w, p[i].fd);
			} else if (at[i].type == SOCK_DGRAM) {
				n = recvfrom(p[i].fd, b, sizeof(b), 0, (struct sockaddr *)&from, &len);
				if (n >= 0)
					sendto(p[i].fd, b, (size_t)n, 0, (struct sockaddr *)&from, len);
			} else {
				fd = accept(p[i].fd, NULL, NULL);
				if (fd >= 0 && fork() == 0) {
					world_serve(w, fd, at[i].port);
					_exit(0);
				}
				close(fd);
			}
		}
	}
}

/* ---- the guest's wire ---- */

static void world_relay(int tap, int sock)
{
	struct pollfd p[2] = { { tap, POLLIN, 0 }, { sock, POLLIN, 0 } };
	static uint8_t b[4 + 70000], in[1 << 18];
	size_t in_len = 0, off;
	uint32_t len;
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	io_set_nonblock(tap);
	for (;;) {
		poll(p, 2, -1);
		for (int i = 0; i < 64 && (n = read(tap, b + 4, sizeof(b) - 4)) > 0; i++) {
			len = htonl((uint32_t)n);
			memcpy(b, &len, 4);
			if (io_write_all(sock, b, (size_t)n + 4))
				_exit(0);
		}
		if (!(p[1].revents & (POLLIN | POLLHUP)))
			continue;
		n = recv(sock, in + in_len, sizeof(in) - in_len, MSG_DONTWAIT);
		if (n == 0)
			_exit(0);
		if (n < 0)
			continue;
		in_len += (size_t)n;
		for (off = 0; in_len - off >= 4; off += 4 + len) {
			memcpy(&len, in + off, 4);
			len = ntohl(len);
			if (in_len - off - 4 < len)
				break;
			if (write(tap, in + off + 4, len) < 0 && errno != EAGAIN && errno != EIO)
				_exit(1);
		}
		memmove(in, in + off, in_len - off);
		in_len -= off;
	}
}

static int world_open_tap(unsigned mtu)
{
	struct ifreq r = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	char cmd[512];

	strcpy(r.ifr_name, "tap0");
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r))
		world_die("tap");
	snprintf(cmd, sizeof(cmd),
		 "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null;"
		 "ip link set lo up && ip link set tap0 address 02:00:00:00:00:02 mtu %u up && "
		 "ip addr add " WORLD_GUEST "/24 dev tap0 && ip route add default via " WORLD_GATEWAY,
		 mtu);
	world_sh(cmd);
	return fd;
}

/* ---- policy of the tests ---- */

static void world_flow_ask(void *u, uint64_t id, const struct flow *f)
{
	struct in_addr server = world_addr(WORLD_SERVER, 0).sin_addr;
	struct in_addr gateway = world_addr(WORLD_GATEWAY, 0).sin_addr;
	struct world *w = u;

	w->shared->flow_asks++;
	if (f->dport == PORT_SILENT)
		return;
	if (f->dst.s_addr == gateway.s_addr && f->dport == PORT_HOST)
		switch_flow_verdict(w->sw, id, FLOW_ALLOW_HOST, "host", "");
	else if (f->dst.s_addr == gateway.s_addr)
		switch_flow_verdict(w->sw, id, FLOW_ALLOW, "any", "");
	else if (f->dst.s_addr == server.s_addr && f->dport == PORT_INSPECT)
		switch_flow_verdict(w->sw, id, FLOW_INSPECT, "inspect", "");
	else if (f->dst.s_addr == server.s_addr && f->dport != PORT_DENIED && !w->deny_all)
		switch_flow_verdict(w->sw, id, FLOW_ALLOW, "server", "");
	else
		switch_flow_verdict(w->sw, id, FLOW_DENY, "", "no rule allows it");
}

static void world_name_ask(void *u, uint64_t id, const char *name, uint16_t qtype)
{
	struct world *w = u;
	size_t n = strlen(name);

	(void)qtype;
	switch_name_verdict(w->sw, id,
			    !strcmp(name, SWITCH_HOST_NAME) ||
				    (n > 13 && !strcmp(name + n - 13, ".allowed.test")),
			    "");
}

static void world_dest_ask(void *u, uint64_t id, const char *name, const struct in_addr *addrs,
			   size_t n)
{
	struct in_addr keep[SWITCH_DEST_MAX];
	struct world *w = u;
	size_t kept = 0;

	(void)name;
	for (size_t i = 0; i < n; i++) {
		if ((ntohl(addrs[i].s_addr) & 0xffffff00) == 0xc0000200)
			keep[kept++] = addrs[i];
	}
	switch_dest_verdict(w->sw, id, keep, kept, "");
}

static void world_flow_event(void *u, const struct flow *f, enum flow_what what)
{
	struct world *w = u;

	w->last[what] = *f;
	w->events[what]++;
	if (w->on_event)
		w->on_event(w, f, what);
}

static void world_flow_handover(void *u, const struct flow *f, int fd)
{
	struct world *w = u;

	(void)f;
	w->inspect_fd = fd;
}

static const struct switch_ops world_ops = {
	.flow_ask = world_flow_ask,
	.name_ask = world_name_ask,
	.dest_ask = world_dest_ask,
	.flow_event = world_flow_event,
	.flow_handover = world_flow_handover,
};

/* ---- life ---- */

/* Once for each program, before anything else. False: the machine has no user namespaces. */
static bool world_enter(struct world *w)
{
	uid_t uid = getuid();
	char map[64];

	*w = (struct world){ .inspect_fd = -1 };
	signal(SIGPIPE, SIG_IGN);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	io_write_all(open("/proc/self/setgroups", O_WRONLY), "deny", 4);
	if (io_write_all(open("/proc/self/uid_map", O_WRONLY), map, strlen(map)) ||
	    io_write_all(open("/proc/self/gid_map", O_WRONLY), map, strlen(map)))
		world_die("user namespace");
	world_sh("ip link set lo up && ip addr add " WORLD_SERVER "/32 dev lo && ip addr add "
		 WORLD_SERVER2 "/32 dev lo && ip addr add " WORLD_DNS "/32 dev lo && "
		 "echo '0 0' > /proc/sys/net/ipv4/ping_group_range");
	w->host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	w->shared = mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	w->fixture = fork();
	if (w->fixture == 0)
		world_fixture(w);
	usleep(100000);
	return true;
}

/* The switch and its servers; returns the other end of its link. */
static int world_switch(struct world *w, unsigned mtu)
{
	struct switch_config cfg = {
		.guest_mac = { 2, 0, 0, 0, 0, 2 },
		.guest_ip = world_addr(WORLD_GUEST, 0).sin_addr,
		.gateway = world_addr(WORLD_GATEWAY, 0).sin_addr,
		.prefix_len = 24,
		.mtu = mtu,
		.hostname = "guest",
		.nameservers = { world_addr(WORLD_DNS, 53) },
		.nameserver_n = 1,
		.run_dir = w->dir,
	};
	struct err err;
	int sv[2];

	strcpy(w->dir, "/tmp/net-world-XXXXXX");
	if (!mkdtemp(w->dir))
		world_die("mkdtemp");
	w->loop = loop_new(&err);
	w->sw = switch_new(w->loop, &cfg, &world_ops, w, &err);
	if (!w->sw) {
		fprintf(stderr, "switch_new: %s\n", err.text);
		exit(1);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) || switch_attach(w->sw, sv[0], &err))
		world_die("link");
	memset(w->last, 0, sizeof(w->last));
	memset(w->events, 0, sizeof(w->events));
	w->deny_all = false;
	w->shared->rebound = 0;
	w->link = sv[0];
	return sv[1];
}

/* The same with a guest that is a namespace behind a tap. */
static inline void world_start(struct world *w, unsigned mtu)
{
	int link = world_switch(w, mtu);

	if (unshare(CLONE_NEWNET))
		world_die("guest namespace");
	w->guest_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	w->tap = world_open_tap(mtu);
	if (setns(w->host_ns, CLONE_NEWNET))
		world_die("setns");
	w->relay = fork();
	if (w->relay == 0) {
		close(w->link); /* our copy of the other end */
		world_relay(w->tap, link);
	}
	close(link);
}

static inline void world_stop(struct world *w)
{
	switch_free(w->sw);
	loop_free(w->loop);
	if (w->relay) {
		waitpid(w->relay, NULL, 0);
		close(w->tap);
		close(w->guest_ns);
	}
	w->relay = 0;
	rmdir(w->dir);
}

static void world_scenario_over(void *u, int fd, uint32_t events)
{
	(void)fd;
	(void)events;
	loop_stop(((struct world *)u)->loop, 0);
}

static void world_count_tcp(void *u, const struct flow *f)
{
	*(unsigned *)u += f->proto == IPPROTO_TCP;
}

static unsigned world_tcp_open(const struct world *w)
{
	unsigned n = 0;

	switch_flows_each(w->sw, world_count_tcp, &n);
	return n;
}

/* Works until the process is over. Its exit status. */
static int world_loop(struct world *w, pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), status;
	struct loop_fd *watch = loop_fd_add(w->loop, pidfd, EPOLLIN, world_scenario_over, w, NULL);

	if (w->before_loop)
		w->before_loop(w);
	loop_run(w->loop, NULL);
	loop_fd_del(watch);
	waitpid(pid, &status, 0);
	close(pidfd);
	/* The scenario's process has closed what it had open: let the switch see it. */
	for (int i = 0; i < 20 || (world_tcp_open(w) && i < 1000); i++)
		loop_turn(w->loop, 5, NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

/* Runs the scenario as a process of the guest while the switch works. Its return value. */
static inline int world_run(struct world *w, int (*scenario)(struct world *w))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
		if (setns(w->guest_ns, CLONE_NEWNET))
			_exit(100);
		_exit(scenario(w));
	}
	return world_loop(w, pid);
}

/* Runs QEMU with this kernel and initramfs; netdev is an option of it, or NULL for the
 * switch of w. The console is our standard output. */
static inline int world_qemu(struct world *w, const char *kernel, const char *initrd,
			     const char *netdev, const char *cmdline, int link)
{
	char stream[64], append[256];
	pid_t pid;

	snprintf(stream, sizeof(stream), "stream,id=n,server=off,addr.type=fd,addr.str=%d", link);
	snprintf(append, sizeof(append),
		 "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on net.ifnames=0 %s",
		 cmdline);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (link >= 0)
			fcntl(link, F_SETFD, 0);
		execlp("qemu-system-x86_64", "qemu-system-x86_64", "-accel", "tcg", "-cpu",
		       "max,-cx16", "-m", "512", "-smp", "1", "-nodefaults", "-display", "none",
		       "-no-reboot", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
		       "-append", append, "-netdev", netdev ? netdev : stream, "-device",
		       "virtio-net-pci,netdev=n,mac=02:00:00:00:00:02,romfile=", (char *)NULL);
		_exit(127);
	}
	if (link >= 0)
		close(link);
	return world_loop(w, pid);
}

/* ---- for scenarios (in the guest) ---- */

static inline int guest_connect(const char *ip, unsigned port)
{
	struct sockaddr_in a = world_addr(ip, port);
	struct timeval tv = { 20, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

/* Asks the gateway; fills addrs. The response code, or -1 without an answer. */
static inline int guest_resolve(const char *name, uint16_t qtype, struct in_addr addrs[8], size_t *n,
			 uint32_t *ttl)
{
	struct sockaddr_in a = world_addr(WORLD_GATEWAY, 53);
	struct timeval tv = { 12, 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint8_t q[300] = { 0x12, 0x34, 1, 0, 0, 1 }, r[600];
	size_t len = 12;
	ssize_t got;

	for (const char *s = name; *s;) {
		size_t label = strcspn(s, ".");

		q[len++] = (uint8_t)label;
		memcpy(q + len, s, label);
		len += label;
		s += label + (s[label] == '.');
	}
	q[len + 1] = (uint8_t)(qtype >> 8);
	q[len + 2] = (uint8_t)qtype;
	q[len + 4] = 1;
	len += 5;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	sendto(fd, q, len, 0, (struct sockaddr *)&a, sizeof(a));
	got = recv(fd, r, sizeof(r), 0);
	close(fd);
	*n = 0;
	if (got < (ssize_t)len || r[0] != 0x12 || r[1] != 0x34)
		return -1;
	for (; *n < r[7] && len + 16 <= (size_t)got && *n < 8; (*n)++, len += 16) {
		memcpy(ttl, r + len + 6, 4);
		*ttl = ntohl(*ttl);
		memcpy(&addrs[*n], r + len + 12, 4);
	}
	return r[3] & 15;
}

#endif
