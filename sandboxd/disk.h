/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The workspace's disks, found by the serial numbers that the host gave them. */
#ifndef SANDBOXD_DISK_H
#define SANDBOXD_DISK_H

#include <stddef.h>

#include "lib/err.h"

/* Device node (/dev/vdX) of the disk with this serial, waiting up to wait_ms for it. -1 with ENODEV. */
int guest_disk_find(const char *serial, int wait_ms, char *node, size_t size);

/*
 * Opens (O_PATH) the directory that target names inside the root behind root_fd; a missing last component is made.
 * Links of the disk resolve inside that root. -1 with errno; the caller closes.
 */
int guest_mount_point(int root_fd, const char *target);

/* mount(2) on an open place: from and type as there (type may be NULL). 0, or -1 with errno. */
int guest_mount_on(int fd, const char *from, const char *type, unsigned long flags);

/* Makes the user's home on a fresh home disk, with what the image's /etc/skel holds. */
int guest_home_make(int root_fd, const char *home, unsigned uid, unsigned gid, struct err *e);

#endif
