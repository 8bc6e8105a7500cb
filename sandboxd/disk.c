// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds virtio disks by serial and prepares a fresh home. */
#include "sandboxd/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/loop.h"
#include "sandboxd/guest.h"

static void dir_close(DIR **d)
{
	if (*d)
		closedir(*d);
}
#define _cleanup_dir_ __attribute__((cleanup(dir_close)))

static int find_once(const char *serial, char *node, size_t size)
{
	_cleanup_dir_ DIR *d = opendir("/sys/block");
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		char name[PATH_MAX], line[64];

		snprintf(name, sizeof(name), "%s/serial", entry->d_name);
		if (guest_read_line(dirfd(d), name, line, sizeof(line)) < 0 || strcmp(line, serial))
			continue;
		snprintf(node, size, "/dev/%s", entry->d_name);
		return 0;
	}
	return -1;
}

int guest_disk_find(const char *serial, int wait_ms, char *node, size_t size)
{
	uint64_t end = loop_now_ms() + (uint64_t)wait_ms;

	while (find_once(serial, node, size) < 0) {
		if (loop_now_ms() >= end) {
			errno = ENODEV;
			return -1;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
	}
	return 0;
}

static int copy_file(int from_dir, int to_dir, const char *name, unsigned uid, unsigned gid)
{
	_cleanup_close_ int in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	out = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0755);
	if (out < 0 || sendfile(out, in, NULL, (size_t)st.st_size) != st.st_size)
		return -1;
	return fchown(out, uid, gid);
}

int guest_home_make(const char *root, const char *home, unsigned uid, unsigned gid, struct err *e)
{
	_cleanup_dir_ DIR *skel = NULL;
	_cleanup_close_ int dir = -1;
	char path[PATH_MAX];
	struct dirent *entry;

	snprintf(path, sizeof(path), "%s%s", root, home);
	if (mkdir(path, 0755) < 0)
		return errno == EEXIST ? 0 : err_errno(e, "mkdir");
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/etc/skel", root);
	skel = opendir(path);
	while (skel && (entry = readdir(skel)))
		if (copy_file(dirfd(skel), dir, entry->d_name, uid, gid) < 0)
			return err_errno(e, "copy %s from /etc/skel", entry->d_name);
	if (dir < 0 || fchown(dir, uid, gid) < 0)
		return err_errno(e, "chown");
	return 0;
}
