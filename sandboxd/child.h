/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one way by which anything runs in the workspace: a forked child that confines itself, then execs. */
#ifndef SANDBOXD_CHILD_H
#define SANDBOXD_CHILD_H

#include <stdbool.h>

#include "sandboxd/confine.h"

/* What a child sends up its error pipe when a step fails. Nothing and end of file: it was executed. */
struct guest_child_failure {
	char step[24];
	char path[232];
	int error_nr;
};

struct guest_child {
	const struct guest_confine *confine;
	const struct guest_identity *who;
	bool unconfined;		/* the host's own administration, as root */
	int in_fd, out_fd, err_fd;	/* become 0, 1, 2 */
	bool terminal;			/* in_fd is a terminal that becomes the controlling one */
	int terminal_index;		/* N of /dev/pts/N */
	int cgroup_fd;			/* O_PATH directory, or -1 */
	int error_fd;			/* close-on-exec */
	char *const *argv;
	char *const *env;
	const char *cwd;
	bool login;			/* argv[0] gets a leading '-' */
	int (*run)(void *user);		/* instead of exec: its result is the exit code */
	void *user;
};

/* Runs the steps in the calling (forked) process and never returns. */
void guest_child_run(const struct guest_child *c) __attribute__((noreturn));

#endif
