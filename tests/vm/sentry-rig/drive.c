// SPDX-License-Identifier: GPL-2.0-or-later
/* The test driver: `drive PART [WORDS]` does one thing in the guest and says which frame must come of it. */
#include "drive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what, const char *name, const char *format, va_list args)
{
	char text[3072];
	int at = snprintf(text, sizeof(text), "%s %s\t", what, name);

	at += vsnprintf(text + at, sizeof(text) - at - 1, format, args);
	text[at++] = '\n';
	fflush(stdout);
	write(1, text, at);
}

void expect(const char *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("expect", name, format, args);
	va_end(args);
}

void absent(const char *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("absent", name, format, args);
	va_end(args);
}

void check(const char *name, bool good, const char *format, ...)
{
	char with_result[512];
	va_list args;

	snprintf(with_result, sizeof(with_result), "%d %s", good, format);
	va_start(args, format);
	say("check", name, with_result, args);
	va_end(args);
}

void progress(const char *what, long done)
{
	if (done && done % 10000 == 0) {
		printf("progress %ld %s\n", done, what);
		fflush(stdout);
	}
}

struct waiting child_waits(void (*function)(void *), void *data)
{
	struct waiting child;
	int ends[2];
	char c;

	fflush(stdout);
	pipe2(ends, O_CLOEXEC);
	child.pid = fork();
	if (child.pid == 0) {
		close(ends[1]);
		read(ends[0], &c, 1);
		function(data);
		_exit(0);
	}
	close(ends[0]);
	child.pipe = ends[1];
	return child;
}

void go(struct waiting *child, int *status)
{
	int unused;

	close(child->pipe);
	waitpid(child->pid, status ? status : &unused, 0);
}

pid_t in_child(void (*function)(void *), void *data, int *status)
{
	struct waiting child = child_waits(function, data);

	go(&child, status);
	return child.pid;
}

long int80(long number, long a, long b, long c, long d, long e)
{
	long result;

	asm volatile("int $0x80"
		     : "=a"(result)
		     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

void *low(const void *bytes, size_t len)
{
	void *at = mmap(NULL, (len + 4095) & ~4095UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	memcpy(at, bytes, len);
	return at;
}

unsigned long long start_ticks(pid_t pid)
{
	char path[64], text[1024] = "", *at;
	int fd, i;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	read(fd, text, sizeof(text) - 1);
	close(fd);
	at = strrchr(text, ')');
	for (i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

int try_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), result = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		result = -errno;
	if (fd >= 0)
		close(fd);
	return result;
}

pid_t process_of(const char *program)
{
	DIR *proc = opendir("/proc");
	char link[300], path[256];
	struct dirent *entry;
	pid_t found = 0;

	while (!found && (entry = readdir(proc))) {
		snprintf(link, sizeof(link), "/proc/%s/exe", entry->d_name);
		ssize_t len = readlink(link, path, sizeof(path) - 1);

		if (len > 0 && (path[len] = 0, !strcmp(path, program)))
			found = atoi(entry->d_name);
	}
	closedir(proc);
	return found;
}

void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	write(fd, text, strlen(text));
	close(fd);
}

void copy_self(const char *path, unsigned int mode)
{
	int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	char block[65536];
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0)
		write(to, block, n);
	fchmod(to, mode);
	close(from);
	close(to);
}

void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
	const struct part *all[] = { exec_parts, flow_parts, hash_parts, kernel_parts, sandbox_parts, attack_parts, bench_parts,
				     debug_parts, peer_parts };

	if (argc < 2)
		return 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct part *p = all[i]; p->name; p++)
			if (!strcmp(p->name, argv[1])) {
				p->run(argv + 2);
				return 0;
			}
	return 0; /* so that any words can be the arguments of a program that does nothing */
}
