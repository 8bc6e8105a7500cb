// SPDX-License-Identifier: GPL-2.0-or-later
/* Revocations by bind mounts from /run; the disk's files stay as they are. */
#include "sandboxd/revoke.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "sandboxd/disk.h"
#include "sandboxd/identity.h"

#define DIR "/run/holdfast/revoke"

/* The targets of guest_revoke_units() are systemd's own templates; a mask in /run outranks /usr/lib. */
static const char *const console_units[] = {
	"getty@.service", "serial-getty@.service", "container-getty@.service", "console-getty.service",
	"emergency.service", "rescue.service", "debug-shell.service",
};

int guest_group_privileged(const char *name)
{
	static const char *const names[] = { "root", "sudo", "wheel", "admin", "adm", "docker", "podman", "lxd",
					     "incus", "incus-admin", "libvirt", "kvm", "disk", "shadow",
					     "systemd-journal", "staff", "kmem", "tty", "video", "input" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return 1;
	return 0;
}

/* Takes user out of a comma-separated list, in place. */
static void strip_member(char *list, const char *user)
{
	size_t n = strlen(user);
	char *out = list, *in = list;

	while (*in) {
		size_t len = strcspn(in, ",");

		if (len && (len != n || strncmp(in, user, n))) {
			if (out != list)
				*out++ = ',';
			memmove(out, in, len);
			out += len;
		}
		in += len + (in[len] == ',');
	}
	*out = '\0';
}

void guest_group_strip(char *line, const char *user)
{
	char name[64];
	char *members = strrchr(line, ':');
	size_t end = strcspn(line, "\n");
	char newline = line[end];

	line[end] = '\0';
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, ":"), line);
	if (members && guest_group_privileged(name))
		strip_member(members + 1, user);
	end = strlen(line);
	line[end] = newline;
	line[end + 1] = '\0';
}

/* Mounts on what the name means inside the root, whatever links the disk has there; a link has no say here. */
static int mount_beneath(int root_fd, const char *target, const char *from, unsigned long flags)
{
	_cleanup_close_ int fd = guest_open_beneath(root_fd, target, O_PATH, 0);

	return fd < 0 ? -1 : guest_mount_on(fd, from, NULL, flags);
}

int guest_cover(const char *from, int root_fd, const char *target)
{
	_cleanup_close_ int fd = -1;
	struct stat a, b;

	if (mount_beneath(root_fd, target, from, MS_BIND) < 0 ||
	    mount_beneath(root_fd, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV) < 0)
		return -1;
	/* What is read through the path is now the file in /run. */
	fd = guest_open_beneath(root_fd, target, O_PATH, 0);
	if (fd < 0 || stat(from, &a) < 0 || fstat(fd, &b) < 0)
		return -1;
	if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return 0;
	errno = EXDEV;
	return -1;
}

bool guest_is_absent(int root_fd, const char *target)
{
	_cleanup_close_ int fd = guest_open_beneath(root_fd, target, O_PATH, 0);

	return fd < 0 && errno == ENOENT;
}

static int make_file(const char *path, const char *text, mode_t mode)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	size_t n = strlen(text);

	return fd < 0 || fchmod(fd, mode) < 0 || write(fd, text, n) != (ssize_t)n ? -1 : 0;
}

static int revoke_sudo(const struct guest_spec *spec, int root_fd)
{
	(void)spec;
	if (!guest_is_absent(root_fd, "/etc/sudoers") &&
	    (make_file(DIR "/sudoers", "# Revoked for this boot: the workspace is strict.\n", 0440) < 0 ||
	     guest_cover(DIR "/sudoers", root_fd, "/etc/sudoers") < 0))
		return -1;
	if (guest_is_absent(root_fd, "/etc/sudoers.d"))
		return 0;
	if (mkdir(DIR "/sudoers.d", 0750) < 0 && errno != EEXIST)
		return -1;
	return guest_cover(DIR "/sudoers.d", root_fd, "/etc/sudoers.d");
}

static int filter_groups(int root_fd, const char *from, const char *to, const char *user, mode_t mode)
{
	_cleanup_fclose_ FILE *in = guest_open_table(root_fd, from, NULL);
	_cleanup_fclose_ FILE *out = fopen(to, "we");
	char line[8192];

	if (!in || !out || fchmod(fileno(out), mode) < 0)
		return -1;
	while (fgets(line, sizeof(line) - 1, in)) {
		guest_group_strip(line, user);
		if (fputs(line, out) < 0)
			return -1;
	}
	return fflush(out) ? -1 : 0;
}

static int revoke_groups(const struct guest_spec *spec, int root_fd)
{
	static const struct { const char *target, *copy; mode_t mode; } files[] = {
		{ "/etc/group", DIR "/group", 0644 }, { "/etc/gshadow", DIR "/gshadow", 0600 },
	};

	for (size_t i = 0; i < 2; i++) {
		if (guest_is_absent(root_fd, files[i].target))
			continue;
		if (filter_groups(root_fd, files[i].target, files[i].copy, spec->user.name, files[i].mode) < 0 ||
		    guest_cover(files[i].copy, root_fd, files[i].target) < 0)
			return -1;
	}
	return 0;
}

static int mask_units(const char *const *units, size_t n)
{
	if ((mkdir("/run/systemd", 0755) < 0 && errno != EEXIST) ||
	    (mkdir("/run/systemd/system", 0755) < 0 && errno != EEXIST))
		return -1;
	for (size_t i = 0; i < n; i++) {
		char path[128];

		snprintf(path, sizeof(path), "/run/systemd/system/%s", units[i]);
		if (symlink("/dev/null", path) < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

static int revoke_console(const struct guest_spec *spec, int root_fd)
{
	(void)spec;
	(void)root_fd;
	return mask_units(console_units, sizeof(console_units) / sizeof(console_units[0]));
}

/* A manager of the session's user would run that user's units outside the confinement. Root at level files can ask
 * PID 1 for one without any socket, by a forged event of a device (SYSTEMD_WANTS). */
int guest_revoke_managers(struct guest_steps *steps)
{
	static const char *const units[] = { "user@.service", "debug-shell.service" };

	if (mask_units(units, sizeof(units) / sizeof(units[0])) < 0)
		return guest_step_failed(steps, "revoke_managers", "/run/systemd/system", errno, NULL);
	guest_step_ok(steps, "revoke_managers");
	return 0;
}

int guest_revoke(const struct guest_spec *spec, int root_fd, struct guest_steps *steps)
{
	static const struct {
		const char *name;
		int (*fn)(const struct guest_spec *, int);
	} list[] = {
		{ "revoke_sudo", revoke_sudo }, { "revoke_groups", revoke_groups },
		{ "revoke_console", revoke_console },
	};

	if (mkdir(DIR, 0755) < 0 && errno != EEXIST)
		return guest_step_failed(steps, "revoke", DIR, errno, NULL);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		if (list[i].fn(spec, root_fd) < 0)
			return guest_step_failed(steps, list[i].name, "", errno, NULL);
		guest_step_ok(steps, list[i].name);
	}
	return 0;
}
