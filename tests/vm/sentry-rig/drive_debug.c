// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A debug kernel's own findings: lockdep's state and kmemleak's list, then faults that must be found.
 *
 * `drive debug-watch` is started before lockdown, which would keep debugfs closed; `drive debug-check` and
 * `drive debug-controls` tell it to go on and wait for it.
 */
#include "drive.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASK "/run/debug-ask"
#define ANSWER "/run/debug-answer"
#define KMEMLEAK "/sys/kernel/debug/kmemleak"
#define FIRE "/sys/module/control/parameters/fire"

static int kmemleak = -1;

static bool locks_watched(void)
{
	char line[256];
	bool on = false;
	FILE *f = fopen("/proc/lockdep_stats", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "debug_locks:"))
			on = atoi(strchr(line, ':') + 1) == 1;
	if (f)
		fclose(f);
	return on;
}

/* A block counts once it is 5 s old and two scans agree on it. Prints what is found; returns how many blocks. */
static int leaks(const char *where)
{
	static char text[65536];
	int found = 0;
	ssize_t n;

	for (int i = 0; i < 2; i++) {
		pause_ms(6000);
		write(kmemleak, "scan", 4);
	}
	lseek(kmemleak, 0, SEEK_SET);
	while ((n = read(kmemleak, text, sizeof(text) - 1)) > 0) {
		text[n] = 0;
		for (char *at = text; (at = strstr(at, "unreferenced object")); at++)
			found++;
		printf("kmemleak %s:\n%s\n", where, text);
	}
	write(kmemleak, "clear", 5);
	return found;
}

static void check_all(void)
{
	int found = leaks("after the suite");

	check("kmemleak finds no block that nothing refers to", !found, "%d", found);
	check("lockdep watched to the end (debug_locks is 1)", locks_watched(), " ");
}

/* lockdep first: a report of KASAN switches it off. */
static void controls(void)
{
	int found;

	try_write(FIRE, "lockdep");
	check("control: lockdep has seen the two orders", !locks_watched(), " ");
	try_write(FIRE, "atomic");
	try_write(FIRE, "leak");
	found = leaks("of the control");
	check("control: kmemleak finds the lost blocks", found >= 4, "%d", found);
	try_write(FIRE, "kasan");
}

static void part_watch(char **words)
{
	int fd = open("/modules/control.ko", O_RDONLY), ask, answer;
	char byte;

	(void)words;
	syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	kmemleak = open(KMEMLEAK, O_RDWR);
	check("the debug kernel has kmemleak and the control is loaded", kmemleak >= 0 && !access(FIRE, F_OK), " ");
	mkfifo(ASK, 0600);
	mkfifo(ANSWER, 0600);
	ask = open(ASK, O_RDWR);
	answer = open(ANSWER, O_RDWR);
	while (read(ask, &byte, 1) == 1) {
		if (byte == 'c')
			check_all();
		else
			controls();
		fflush(stdout);
		write(answer, "k", 1);
	}
}

static void ask(const char *what)
{
	int to = open(ASK, O_RDWR), from = open(ANSWER, O_RDWR);
	char byte;

	write(to, what, 1);
	read(from, &byte, 1);
}

static void part_check(char **words)
{
	(void)words;
	ask("c");
}

static void part_controls(char **words)
{
	(void)words;
	printf("controls begin\n");
	fflush(stdout);
	ask("f");
}

const struct part debug_parts[] = {
	{ "debug-watch", part_watch },
	{ "debug-check", part_check },
	{ "debug-controls", part_controls },
	{ NULL, NULL },
};
