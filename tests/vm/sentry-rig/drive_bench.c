// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Costs: `drive bench LABEL` prints `bench TAB LABEL TAB WHAT TAB NS` for one operation of each kind, the least of some
 * rounds. Under QEMU's -icount shift=0 a nanosecond of the guest's clock is one guest instruction.
 */
#include "drive.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7

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

static const struct {
	const char *name;
	void (*run)(void);
	int times;
} costs[] = {
	{ "vfork+exec", do_exec, 12 },	  { "fork+exec", do_fork_exec, 12 }, { "open+close", do_open, 400 },
	{ "tcp connect", do_connect, 40 }, { "udp send+recv", do_udp, 300 }, { "getppid", do_getppid, 2000 },
};

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static unsigned long long own_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
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

static void part_bench(char **words)
{
	socklen_t len = sizeof(server);

	settle();

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
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		unsigned long long least = ~0ULL;

		for (int round = 0; round < ROUNDS; round++) {
			unsigned long long start = now(), took;

			for (int n = 0; n < costs[i].times; n++)
				costs[i].run();
			took = (now() - start) / costs[i].times;
			least = took < least ? took : least;
		}
		printf("bench\t%s\t%s\t%llu\n", words[0], costs[i].name, least);
	}
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
