/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Users and groups of the workspace, read from its own files (a static program has no NSS). */
#ifndef SANDBOXD_IDENTITY_H
#define SANDBOXD_IDENTITY_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/err.h"

enum { GUEST_GROUPS_MAX = 64 };

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

/* By name, or by decimal id (which needs no entry). -1 with ENOENT when there is no such user. */
int guest_identity_find(int root_fd, const char *who, struct guest_identity *out, struct err *e);

/* Fills the supplementary groups that /etc/group gives this user. */
int guest_identity_groups(int root_fd, struct guest_identity *id, struct err *e);

int guest_group_find(int root_fd, const char *who, gid_t *gid, struct err *e);

#endif
