// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds virtio disks by serial and prepares a fresh home. */
#include "sandboxd/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/loop.h"
#include "sandboxd/guest.h"
#include "sandboxd/identity.h"

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

int guest_mount_on(int fd, const char *from, const char *type, unsigned long flags)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/self/fd/%d", access(GUEST_OWN_PROC "/self", F_OK) ? "/proc" : GUEST_OWN_PROC, fd);
	return mount(from, path, type, flags, NULL);
}

/* The last component is made where it is missing; mkdirat(2) follows no link at its end. */
int guest_mount_point(int root_fd, const char *target)
{
	_cleanup_close_ int parent = -1;
	char copy[PATH_MAX];
	char *name;
	int fd = guest_open_beneath(root_fd, target, O_PATH | O_DIRECTORY, 0);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	snprintf(copy, sizeof(copy), "%s", target);
	name = strrchr(copy, '/');
	if (!name)
		return -1;
	*name++ = '\0';
	parent = guest_open_beneath(root_fd, *copy ? copy : "/", O_PATH | O_DIRECTORY, 0);
	if (parent < 0 || (mkdirat(parent, name, 0755) < 0 && errno != EEXIST))
		return -1;
	return guest_open_beneath(root_fd, target, O_PATH | O_DIRECTORY, 0);
}

static int copy_file(int from_dir, int to_dir, const char *name, unsigned uid, unsigned gid)
{
	_cleanup_close_ int in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	out = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0755);
	if (out < 0 || sendfile(out, in, NULL, (size_t)st.st_size) != st.st_size)
		return -1;
	return fchown(out, uid, gid);
}

static int copy_skeleton(int root_fd, int home, unsigned uid, unsigned gid, struct err *e)
{
	_cleanup_dir_ DIR *skel = NULL;
	struct dirent *entry;
	int fd = guest_open_beneath(root_fd, "/etc/skel", O_RDONLY | O_DIRECTORY, 0);

	skel = fd < 0 ? NULL : fdopendir(fd);
	while (skel && (entry = readdir(skel)))
		if (copy_file(dirfd(skel), home, entry->d_name, uid, gid) < 0)
			return err_errno(e, "copy %s from /etc/skel", entry->d_name);
	return 0;
}

int guest_home_make(int root_fd, const char *home, unsigned uid, unsigned gid, struct err *e)
{
	_cleanup_close_ int dir = guest_open_beneath(root_fd, home, O_PATH, 0);

	if (dir >= 0 || errno != ENOENT)
		return 0;
	dir = guest_mount_point(root_fd, home);
	if (dir < 0)
		return err_errno(e, "mkdir");
	close(dir);
	dir = guest_open_beneath(root_fd, home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir < 0)
		return err_errno(e, "open");
	if (copy_skeleton(root_fd, dir, uid, gid, e) < 0)
		return -1;
	return fchown(dir, uid, gid) < 0 ? err_errno(e, "chown") : 0;
}
