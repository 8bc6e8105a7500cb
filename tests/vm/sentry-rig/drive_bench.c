// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Costs: `drive bench LABEL [build]` prints `bench TAB LABEL TAB WHAT TAB LEAST TAB BUSY TAB NUMBER TAB HOST` for each kind of
 * operation, with `build` also for compiling the files that /src/sources names. LEAST: nanoseconds that the caller waits for
 * one, in the quickest of some rounds. BUSY: nanoseconds for which the CPU (the only one) is busy for one, on the average of
 * all rounds and with what others do of it afterwards. NUMBER: how many there were. HOST: of BUSY, the nanoseconds of
 * the test host, which the product has outside of the guest. Under QEMU's -icount shift=0 a nanosecond
 * of the guest's clock is one guest instruction.
 */
#include "drive.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7
#define BUILD_ROUNDS 3
#define AFTERWARDS_US 100000 /* the slowest of the monitors looks every 50 ms whether there is work */

static struct sockaddr_in server = { .sin_family = AF_INET };
static int listener, receiver, sender;

static void do_exec(void)
{
	char *words[] = { "drive", NULL }, *environment[] = { NULL };
	pid_t pid;

	posix_spawn(&pid, "/bin/drive", NULL, NULL, words, environment);
	waitpid(pid, NULL, 0);
}

static void do_fork_exec(void)
{
	char *words[] = { "drive", NULL }, *environment[] = { NULL };
	pid_t pid = fork();

	if (!pid) {
		execve("/bin/drive", words, environment);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static void do_open(void)
{
	close(open("/bin/drive", O_RDONLY));
}

static void do_connect(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), peer;

	connect(fd, (struct sockaddr *)&server, sizeof(server));
	peer = accept(listener, NULL, NULL);
	close(fd);
	close(peer);
}

static void do_udp(void)
{
	char byte;

	send(sender, "x", 1, 0);
	recv(receiver, &byte, 1, 0);
}

static void do_getppid(void)
{
	syscall(SYS_getppid);
}

static void compile(char *source)
{
	char *words[] = { "gcc", "-c", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-I.", "-Iinclude", "-o", "/tmp/out.o", source, NULL };
	char *environment[] = { "PATH=/usr/bin:/bin", "TMPDIR=/tmp", NULL };
	int status = 0;
	pid_t pid;

	if (posix_spawn(&pid, "/usr/bin/gcc", NULL, NULL, words, environment) || waitpid(pid, &status, 0) < 0 || status)
		printf("bench: %s does not compile: %#x\n", source, status);
}

static void do_build(void)
{
	char source[256];
	FILE *f = fopen("/src/sources", "re");

	while (f && fgets(source, sizeof(source), f)) {
		source[strcspn(source, "\n")] = 0;
		compile(source);
	}
	if (f)
		fclose(f);
}

struct cost {
	const char *name;
	void (*run)(void);
	int times;
};

/* All rounds together stay below 256 events of a kind, which the Sentry sends in one burst: past that it only counts. */
static const struct cost costs[] = {
	{ "vfork+exec", do_exec, 12 },	  { "fork+exec", do_fork_exec, 12 }, { "open+close", do_open, 400 },
	{ "tcp connect", do_connect, 30 }, { "udp send+recv", do_udp, 300 }, { "getppid", do_getppid, 2000 },
};

static unsigned long long read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static unsigned long long now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

static unsigned long long own_time(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* Wait until this thread has the CPU for itself, ten times in a row: the kernel's start-up work goes on for a while. */
static void settle(void)
{
	for (int quiet = 0, tries = 0; quiet < 10 && tries < 400; tries++) {
		unsigned long long start = now(), own = own_time(), took;

		while (now() - start < 20000000)
			;
		took = now() - start;
		quiet = own_time() - own > took - took / 100 ? quiet + 1 : 0;
		usleep(200000);
	}
}

/* A process that runs when nobody else wants to, once it is told to go on. */
static pid_t start_idler(void)
{
	struct sched_param none = { 0 };
	pid_t pid = fork();

	if (pid < 0) {
		perror("bench");
		exit(1);
	}
	if (!pid) {
		sched_setscheduler(0, SCHED_IDLE, &none);
		raise(SIGSTOP);
		for (;;)
			;
	}
	waitpid(pid, NULL, WUNTRACED);
	return pid;
}

/* How long the CPU was busy in the time that begins here. The idler stands still while something is measured, since a new
 * process waits for it. */
static unsigned long long busy_afterwards(pid_t idler)
{
	unsigned long long begin, idle, busy;
	clockid_t clock;

	clock_getcpuclockid(idler, &clock);
	begin = now();
	idle = read_clock(clock);
	kill(idler, SIGCONT);
	usleep(AFTERWARDS_US);
	busy = now() - begin - (read_clock(clock) - idle);
	kill(idler, SIGSTOP);
	waitpid(idler, NULL, WUNTRACED);
	return busy;
}

/* How long the test host has had the CPU; 0 where there is none. */
static unsigned long long host_time(void)
{
	pid_t host = process_of("/bin/host");
	clockid_t clock;

	return host && !clock_getcpuclockid(host, &clock) ? read_clock(clock) : 0;
}

static void measure(const struct cost *cost, int rounds, const char *label, pid_t idler)
{
	unsigned long long host = host_time(), least = ~0ULL, begin = now(), busy;
	int times = rounds * cost->times;

	for (int round = 0; round < rounds; round++) {
		unsigned long long start = now(), took;

		for (int n = 0; n < cost->times; n++)
			cost->run();
		took = (now() - start) / cost->times;
		least = took < least ? took : least;
	}
	busy = now() - begin;
	busy += busy_afterwards(idler);
	host = host_time() - host;
	printf("bench\t%s\t%s\t%llu\t%llu\t%d\t%llu\n", label, cost->name, least, busy / times, times, host / times);
	fflush(stdout);
}

static void open_sockets(void)
{
	socklen_t len = sizeof(server);

	server.sin_addr.s_addr = htonl(0xc0000201);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	bind(listener, (struct sockaddr *)&server, sizeof(server));
	listen(listener, 8);
	receiver = socket(AF_INET, SOCK_DGRAM, 0);
	bind(receiver, (struct sockaddr *)&server, sizeof(server));
	getsockname(receiver, (struct sockaddr *)&server, &len);
	sender = socket(AF_INET, SOCK_DGRAM, 0);
	connect(sender, (struct sockaddr *)&server, len);
	getsockname(listener, (struct sockaddr *)&server, &len);
}

static void part_bench(char **words)
{
	static const struct cost build = { "C build", do_build, 1 };
	bool builds = words[1] && !strcmp(words[1], "build") && !chdir("/src");
	pid_t idler;

	settle();
	open_sockets();
	idler = start_idler();
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
		costs[i].run(); /* the kernel and the monitors do some things only the first time */
	busy_afterwards(idler);
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
		measure(&costs[i], ROUNDS, words[0], idler);
	if (builds)
		measure(&build, BUILD_ROUNDS, words[0], idler);
	kill(idler, SIGKILL);
	waitpid(idler, NULL, 0);
}

/* What the module holds in vmalloc, which is nearly all of it. */
static void part_memory(char **words)
{
	FILE *info = fopen("/proc/vmallocinfo", "re");
	unsigned long bytes, sum = 0;
	char line[512];

	(void)words;
	while (info && fgets(line, sizeof(line), info))
		if (strstr(line, "[sentry]") && sscanf(line, "%*s %lu", &bytes) == 1)
			sum += bytes;
	check("the module's buffers stay below 2 MiB", sum > 1 << 20 && sum < 2 << 20, "%lu bytes", sum);
	printf("memory\t%lu\n", sum);
}

const struct part bench_parts[] = {
	{ "bench", part_bench },
	{ "memory", part_memory },
	{ NULL, NULL },
};
