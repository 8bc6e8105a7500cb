/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Users and groups of the workspace, read from its own files (a static program has no NSS). */
#ifndef SANDBOXD_IDENTITY_H
#define SANDBOXD_IDENTITY_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "lib/err.h"

enum {
	GUEST_GROUPS_MAX = 64,
	GUEST_TABLE_MAX = 4 * 1024 * 1024,	/* bytes of a passwd(5) or group(5) that is read */
};

struct guest_identity {
	char name[64];
	uid_t uid;
	gid_t gid;
	char home[256];
	char shell[128];
	gid_t groups[GUEST_GROUPS_MAX];
	size_t group_count;
};

/* open(2) beneath the workspace's root: symlinks resolve inside it, magic links never. */
int guest_open_beneath(int root_fd, const char *path, int flags, mode_t mode);

/*
 * Opens a table of the workspace for reading. The workspace made it: what is no regular file (a FIFO would hold the
 * supervisor for ever) or longer than GUEST_TABLE_MAX is refused. NULL with errno and *e; the caller closes.
 */
FILE *guest_open_table(int root_fd, const char *path, struct err *e);

/* By name, or by decimal id (which needs no entry). -1 with ENOENT when there is no such user. */
int guest_identity_find(int root_fd, const char *who, struct guest_identity *out, struct err *e);

/* Fills the supplementary groups that /etc/group gives this user. */
int guest_identity_groups(int root_fd, struct guest_identity *id, struct err *e);

int guest_group_find(int root_fd, const char *who, gid_t *gid, struct err *e);

#endif
