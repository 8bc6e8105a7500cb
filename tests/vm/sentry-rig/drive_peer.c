// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What peers.py needs of the guest beside the bench: `load FILE` loads a module, `end PROGRAM` interrupts a program and waits
 * for its end, `runs PROGRAM` tells whether it does, `lines NAME COMMAND ...` prints `lines TAB NAME TAB NUMBER` with how many
 * lines the command prints.
 */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_TRIES 600

static void part_load(char **words)
{
	int fd = open(words[0], O_RDONLY | O_CLOEXEC);
	bool loaded = !syscall(SYS_finit_module, fd, "", 0);

	check("the module loads", loaded, "%s: %s", words[0], strerror(errno));
	close(fd);
}

static void part_end(char **words)
{
	pid_t pid = process_of(words[0]);
	int tries = 0;

	if (pid)
		kill(pid, SIGINT);
	while (pid && process_of(words[0]) && ++tries < END_TRIES)
		pause_ms(100);
	check("the monitor ran until it was interrupted", pid && tries < END_TRIES, "%s: process %d", words[0], pid);
}

static void part_runs(char **words)
{
	check("the monitor still runs", process_of(words[0]), "%s", words[0]);
}

static void part_lines(char **words)
{
	int ends[2], c;
	long count = 0;
	FILE *out;
	pid_t pid;

	pipe2(ends, O_CLOEXEC);
	pid = fork();
	if (!pid) {
		dup2(ends[1], 1);
		execv(words[1], words + 1);
		_exit(127);
	}
	close(ends[1]);
	out = fdopen(ends[0], "re");
	while ((c = getc(out)) != EOF)
		count += c == '\n';
	waitpid(pid, NULL, 0);
	printf("lines\t%s\t%ld\n", words[0], count);
}

const struct part peer_parts[] = {
	{ "load", part_load },
	{ "end", part_end },
	{ "runs", part_runs },
	{ "lines", part_lines },
	{ NULL, NULL },
};
