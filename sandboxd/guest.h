/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What early launch hands to the supervisor, across one fork. */
#ifndef SANDBOXD_GUEST_H
#define SANDBOXD_GUEST_H

#include <stdbool.h>

#include "sandboxd/spec.h"
#include "sandboxd/step.h"

#define GUEST_OWN_PTS "/holdfast/pts"
#define GUEST_OWN_PROC "/holdfast/proc"	/* in the initramfs, which nothing of the workspace can reach */

struct guest {
	struct guest_spec *spec;	/* NULL when it could not be read */
	struct guest_steps steps;
	int root_fd;			/* O_PATH, the workspace's root; -1 when it was not mounted */
	int proc_fd;			/* O_PATH, a procfs of our own, out of the workspace's reach by path */
	int pts_fd;			/* O_PATH, a devpts of the sessions' own; -1 when there is none */
	int params_fd;			/* O_PATH, the Sentry's parameters; -1 without a Sentry */
	int daemon_cgroup_fd;		/* O_PATH directories */
	int sandbox_cgroup_fd;
	int run_fd;			/* O_PATH, /run/holdfast */
	int launch_fd;			/* end of file: init was executed; a record: it could not be */
	uint64_t sandbox_cgroup_id;
	bool sentry_loaded;
	bool modules_disabled;
	char secret_digest[65];
	char lockdown[32];		/* none, integrity or confidentiality, as read back */
};

/* A failure after the fork, from PID 1 to the supervisor. */
struct guest_launch_failure {
	char name[32];
	char path[128];
	int error_nr;
};

/* The life as PID 1 of the initramfs. Returns only in the supervisor; PID 1 becomes the disk's init. */
void guest_launch(struct guest *g, char **argv);

/* Writes text to a file in one write(2). 0, or -1 with errno. */
int guest_write_file(int dir_fd, const char *name, const char *text);

/* Reads the first line of a small file, without its newline. 0, or -1 with errno. */
int guest_read_line(int dir_fd, const char *name, char *line, size_t size);

#endif
