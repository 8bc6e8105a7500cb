// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The init of a VM that is like a workspace's in all but sandboxd: the same kernel, modules, disks and mounts, then
 * the disk's own init. What /holdfast/plain.sh of the initramfs says is run by a unit at the end of the boot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEW "/newroot"

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	printf("plain: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	for (;;)
		pause();
}

static void mount_on(const char *type, const char *from, const char *target, unsigned long flags)
{
	mkdir(target, 0755);
	if (mount(from, target, type, flags, NULL) < 0 && errno != EBUSY)
		must(-1, target);
}

static void load_modules(void)
{
	FILE *f = fopen("/holdfast/early.list", "re");
	char name[64], path[128];

	must(f ? 0 : -1, "early.list");
	while (fscanf(f, "%63s", name) == 1) {
		int fd;

		snprintf(path, sizeof(path), "/holdfast/early/%s.ko", name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
			must(-1, path);
		close(fd);
	}
	fclose(f);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	must(f && fputs(text, f) >= 0 && fclose(f) == 0 ? 0 : -1, path);
}

static void copy(const char *from, const char *to)
{
	static char text[256 * 1024];
	FILE *f = fopen(from, "re");
	size_t n;

	must(f ? 0 : -1, from);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	put(to, text);
}

int main(void)
{
	static char init[] = "/sbin/init", *const argv[] = { init, NULL };
	static const char *const moved[] = { "/proc", "/sys", "/dev", "/run" };

	mount_on("proc", "proc", "/proc", 0);
	mount_on("sysfs", "sysfs", "/sys", 0);
	mount_on("devtmpfs", "devtmpfs", "/dev", 0);
	mount_on("tmpfs", "tmpfs", "/run", MS_NOSUID | MS_NODEV);
	load_modules();
	for (int i = 0; i < 500 && access("/dev/vdc", F_OK) < 0; i++)
		usleep(20000);
	mount_on("ext4", "/dev/vda", NEW, 0);
	mount_on("ext4", "/dev/vdb", NEW "/home", MS_NODEV | MS_NOSUID);
	if (mkdir(NEW "/home/agent", 0755) == 0)
		must(chown(NEW "/home/agent", 1000, 1000), "chown");
	mount_on("squashfs", "/dev/vdc", NEW "/usr/lib/modules", MS_RDONLY);
	mkdir("/run/systemd", 0755);
	mkdir("/run/systemd/system", 0755);
	mkdir("/run/systemd/system/multi-user.target.wants", 0755);
	copy("/holdfast/plain.sh", "/run/plain.sh");
	put("/run/systemd/system/plain.service",
	    "[Unit]\nAfter=systemd-user-sessions.service\n[Service]\nType=simple\nExecStart=/bin/bash /run/plain.sh\n"
	    "StandardOutput=file:/dev/ttyS0\nStandardError=null\n");
	must(symlink("../plain.service", "/run/systemd/system/multi-user.target.wants/plain.service"), "unit");
	for (int i = 0; i < 4; i++) {
		char target[32];

		snprintf(target, sizeof(target), NEW "%s", moved[i]);
		must(mount(moved[i], target, NULL, MS_MOVE, NULL), target);
	}
	must(chdir(NEW), "chdir");
	must(mount(".", "/", NULL, MS_MOVE, NULL), "move");
	must(chroot("."), "chroot");
	must(chdir("/"), "chdir /");
	execv(init, argv);
	must(-1, "exec");
	return 1;
}
