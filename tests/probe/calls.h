/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads tests/data/probes/seccomp.tsv and makes one system call of it in a child of its own. */
#ifndef TESTS_PROBE_CALLS_H
#define TESTS_PROBE_CALLS_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum probe_entry { PROBE_64, PROBE_INT80, PROBE_X32 };

struct probe_row {
	char label[48];
	long nr, nr32;
	char arg[6][16];
	char expect[8];
};

/* What came of a call: the errno (0 none), or 1000 + the signal that killed the child. */
enum { PROBE_KILLED = 1000 };

static void *probe_page, *probe_info;

static inline void probe_init(void)
{
	int si_queue = -1;

	/* Below 4 GiB, so that int 0x80 can point at it too. */
	probe_page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	probe_info = (char *)probe_page + 4096;
	memcpy((char *)probe_info + 8, &si_queue, sizeof(si_queue));
}

static inline int probe_read(FILE *f, struct probe_row *r)
{
	char line[512];

	while (fgets(line, sizeof(line), f)) {
		if (*line == '#')
			continue;
		if (sscanf(line, "%47s %ld %ld %15s %15s %15s %15s %15s %15s %7s", r->label, &r->nr, &r->nr32, r->arg[0],
			   r->arg[1], r->arg[2], r->arg[3], r->arg[4], r->arg[5], r->expect) == 10)
			return 1;
	}
	return 0;
}

static inline long probe_arg(const char *s, pid_t supervisor, pid_t group)
{
	if (!strcmp(s, "ptr"))
		return (long)probe_page;
	if (!strcmp(s, "bad"))
		return 1;
	if (!strcmp(s, "empty"))
		return (long)probe_page + 100;
	if (!strcmp(s, "qinfo"))
		return (long)probe_info;
	if (!strcmp(s, "SELF"))
		return getpid();
	if (!strcmp(s, "SUP"))
		return supervisor;
	if (!strcmp(s, "USUP"))
		return supervisor | (long)0x7700000000;
	if (!strcmp(s, "SUPG"))
		return group;
	if (!strcmp(s, "NSUPG"))
		return -(long)group;
	return (long)strtoull(s, NULL, 0);
}

static inline long probe_call(enum probe_entry entry, long nr, const long *a)
{
	long r;

	if (entry == PROBE_INT80) {
		__asm__ volatile("push %%rbp; mov %7, %%ebp; int $0x80; pop %%rbp"
				 : "=a"(r)
				 : "a"((int)nr), "b"((int)a[0]), "c"((int)a[1]), "d"((int)a[2]), "S"((int)a[3]),
				   "D"((int)a[4]), "r"((int)a[5])
				 : "memory", "r8", "r9", "r10", "r11");
		return (int)r;
	}
	if (entry == PROBE_X32)
		nr |= 0x40000000;
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}

/* Forks, calls, and says what happened. */
static inline int probe_run(const struct probe_row *row, enum probe_entry entry, pid_t supervisor, pid_t group)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		long a[6], r, e;

		for (int i = 0; i < 6; i++)
			a[i] = probe_arg(row->arg[i], supervisor, group);
		r = probe_call(entry, entry == PROBE_INT80 ? row->nr32 : row->nr, a);
		e = r < 0 && r > -4096 ? -r : 0;
		syscall(SYS_exit_group, e > 255 ? 255 : e);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFSIGNALED(status) ? PROBE_KILLED + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
