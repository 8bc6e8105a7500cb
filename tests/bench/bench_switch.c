/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Figures of the switch: `bench_switch` with a guest behind a tap; `bench_switch qemu|user KERNEL
 * INITRD MTU` with a guest of QEMU on the switch or on QEMU's own user network. */
#include <sys/resource.h>

#include "tests/unit/net_world.h"

#define USER_NETDEV                                                                    \
	"user,id=n,net=192.168.64.0/24,host=192.168.64.1,dhcpstart=192.168.64.2,ipv6=off"

enum { BENCH_MS = 3000, CONNECTS = 300 };

static struct world world;
static const char *at = WORLD_SERVER;

static void measure(unsigned port, const char *what)
{
	static char b[65536];
	uint64_t start, total = 0;
	int fd = guest_connect(at, port);

	if (fd < 0) {
		printf("%s: %s\n", what, strerror(errno));
		return;
	}
	start = world_ms();
	while (world_ms() - start < BENCH_MS) {
		ssize_t n = port == PORT_SINK ? send(fd, b, sizeof(b), 0) : recv(fd, b, sizeof(b), 0);

		if (n <= 0)
			break;
		total += (uint64_t)n;
	}
	printf("%s %.0f Mbit/s\n", what, (double)total * 8 / 1000 / (double)(world_ms() - start));
	close(fd);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void connects(unsigned port, const char *what)
{
	static double t[CONNECTS];

	for (int i = 0; i < CONNECTS; i++) {
		double start = now_us();
		int fd = guest_connect(at, port);

		t[i] = now_us() - start;
		if (fd >= 0)
			close(fd);
	}
	qsort(t, CONNECTS, sizeof(t[0]), compare);
	printf("%s p50 %.0f us, p99 %.0f us\n", what, t[CONNECTS / 2], t[CONNECTS * 99 / 100]);
}

static void round_trips(const char *what)
{
	static double t[2000];
	int fd = guest_connect(at, PORT_ECHO);
	char c = 'x';

	for (size_t i = 0; i < 2000; i++) {
		double start = now_us();

		if (fd < 0 || send(fd, &c, 1, 0) != 1 || recv(fd, &c, 1, 0) != 1)
			return;
		t[i] = now_us() - start;
	}
	close(fd);
	qsort(t, 2000, sizeof(t[0]), compare);
	printf("%s p50 %.0f us, p99 %.0f us\n", what, t[1000], t[1980]);
}

static int scenario(struct world *w)
{
	(void)w;
	measure(PORT_SINK, "up");
	measure(PORT_SOURCE, "down");
	round_trips("round trip of one byte");
	connects(PORT_ECHO, "connect, allowed");
	connects(PORT_DENIED, "connect, refused");
	fflush(stdout);
	return 0;
}

/* What the switch itself costs, which a busy machine does not change much. */
static void cost(struct world *w)
{
	struct switch_stats s;
	struct rusage r;
	double cpu_s;

	getrusage(RUSAGE_SELF, &r);
	switch_stats_get(w->sw, &s);
	cpu_s = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
		(double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
	printf("switch: %.2f s of CPU for %.2f GB, largest RSS %ld MiB\n", cpu_s,
	       (double)(s.bytes_up + s.bytes_down) / 1e9, r.ru_maxrss / 1024);
}

static int with_tap(void)
{
	static const unsigned mtus[] = { 1280, 1500, 4000, 9000 };

	printf("-- loopback without any switch\n");
	fflush(stdout);
	if (fork() == 0)
		_exit(scenario(&world));
	wait(NULL);
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		printf("-- switch, guest behind a tap, MTU %u\n", mtus[i]);
		fflush(stdout);
		if (fork() == 0) { /* a process of its own for its own rusage */
			world_start(&world, mtus[i]);
			world_run(&world, scenario);
			cost(&world);
			world_stop(&world);
			exit(0);
		}
		wait(NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int link, status;
	bool user;

	if (!world_enter(&world)) {
		fprintf(stderr, "no user namespaces here\n");
		return 1;
	}
	if (argc != 5)
		return with_tap();
	link = world_switch(&world, (unsigned)atoi(argv[4]));
	user = !strcmp(argv[1], "user");
	if (user)
		close(link);
	status = world_qemu(&world, argv[2], argv[3], user ? USER_NETDEV : NULL,
			    user ? "netbench netuser" : "netbench", user ? -1 : link);
	if (!user)
		cost(&world);
	world_stop(&world);
	return status;
}
