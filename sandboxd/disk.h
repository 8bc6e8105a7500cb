/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The workspace's disks, found by the serial numbers that the host gave them. */
#ifndef SANDBOXD_DISK_H
#define SANDBOXD_DISK_H

#include <stddef.h>

#include "lib/err.h"

/* Device node (/dev/vdX) of the disk with this serial, waiting up to wait_ms for it. -1 with ENODEV. */
int guest_disk_find(const char *serial, int wait_ms, char *node, size_t size);

/* Makes the user's home on a fresh home disk, with what the image's /etc/skel holds. */
int guest_home_make(const char *root, const char *home, unsigned uid, unsigned gid, struct err *e);

#endif
