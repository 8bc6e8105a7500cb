// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads passwd(5) and group(5) of the workspace. */
#include "sandboxd/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cleanup.h"

enum { FIELDS_MAX = 8 };

int guest_open_beneath(int root_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* A table of millions of users, or a sparse file of zeros, is none. */
static bool is_table(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	if (S_ISREG(st.st_mode) && st.st_size <= GUEST_TABLE_MAX)
		return true;
	errno = S_ISREG(st.st_mode) ? EFBIG : EINVAL;
	return false;
}

FILE *guest_open_table(int root_fd, const char *path, struct err *e)
{
	_cleanup_close_ int fd = guest_open_beneath(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	FILE *f = fd < 0 || !is_table(fd) ? NULL : fdopen(fd, "r");

	if (!f) {
		err_errno(e, "open %s", path);
		return NULL;
	}
	steal_fd(&fd);
	return f;
}

/* Splits a line at its colons, in place. Returns the number of fields. */
static size_t split(char *line, char *fields[FIELDS_MAX])
{
	size_t n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (line && n < FIELDS_MAX)
		fields[n++] = strsep(&line, ":");
	return n;
}

static int parse_id(const char *s, unsigned *id)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 10);

	if (!*s || *end || strspn(s, "0123456789") != strlen(s) || v >= UINT32_MAX)
		return -1;
	*id = (unsigned)v;
	return 0;
}

static void fill(struct guest_identity *id, const char *name, unsigned uid, unsigned gid, const char *home,
		 const char *shell)
{
	memset(id, 0, sizeof(*id));
	snprintf(id->name, sizeof(id->name), "%s", name);
	snprintf(id->home, sizeof(id->home), "%s", home[0] == '/' ? home : "/");
	snprintf(id->shell, sizeof(id->shell), "%s", shell[0] == '/' ? shell : "/bin/sh");
	id->uid = uid;
	id->gid = gid;
}

int guest_identity_find(int root_fd, const char *who, struct guest_identity *out, struct err *e)
{
	_cleanup_fclose_ FILE *f = guest_open_table(root_fd, "/etc/passwd", e);
	unsigned wanted, uid, gid;
	bool numeric = parse_id(who, &wanted) == 0;
	char line[1024], *fields[FIELDS_MAX];

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (split(line, fields) < 7 || parse_id(fields[2], &uid) < 0 || parse_id(fields[3], &gid) < 0)
			continue;
		if (numeric ? uid != wanted : strcmp(fields[0], who) != 0)
			continue;
		fill(out, fields[0], uid, gid, fields[5], fields[6]);
		return 0;
	}
	if (numeric) {
		fill(out, who, wanted, wanted, "/", "/bin/sh");
		return 0;
	}
	errno = ENOENT;
	return err_set(e, "no user \"%s\" in the workspace's /etc/passwd", who);
}

static bool lists(char *members, const char *name)
{
	char *member;

	while ((member = strsep(&members, ",")))
		if (!strcmp(member, name))
			return true;
	return false;
}

int guest_identity_groups(int root_fd, struct guest_identity *id, struct err *e)
{
	_cleanup_fclose_ FILE *f = guest_open_table(root_fd, "/etc/group", e);
	char line[4096], *fields[FIELDS_MAX];
	unsigned gid;

	if (!f)
		return -1;
	id->groups[0] = id->gid;
	id->group_count = 1;
	while (fgets(line, sizeof(line), f)) {
		if (split(line, fields) < 4 || parse_id(fields[2], &gid) < 0 || gid == id->gid)
			continue;
		if (lists(fields[3], id->name) && id->group_count < GUEST_GROUPS_MAX)
			id->groups[id->group_count++] = gid;
	}
	return 0;
}

int guest_group_find(int root_fd, const char *who, gid_t *gid, struct err *e)
{
	_cleanup_fclose_ FILE *f = NULL;
	char line[4096], *fields[FIELDS_MAX];
	unsigned id;

	if (parse_id(who, gid) == 0)
		return 0;
	f = guest_open_table(root_fd, "/etc/group", e);
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (split(line, fields) < 3 || strcmp(fields[0], who) || parse_id(fields[2], &id) < 0)
			continue;
		*gid = id;
		return 0;
	}
	errno = ENOENT;
	return err_set(e, "no group \"%s\" in the workspace's /etc/group", who);
}
