// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Landlock by raw system calls, at the newest ABI that the running kernel offers.
 *
 * The structures and rights are defined here up to ABI 7, since the headers of the oldest build host
 * (Linux 6.1) know ABI 2 only. A right that is not handled is a right that everybody has, so the ruleset
 * handles all the ABI offers, and what an older one cannot handle is said by landlock_limit(), in one
 * switch that falls through from the oldest ABI to the newest.
 */
#include "lib/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/err.h"

enum { LL_CALL_CREATE = 444, LL_CALL_ADD = 445, LL_CALL_RESTRICT = 446 };
enum { LL_CREATE_VERSION = 1, LL_RULE_PATH_BENEATH = 1 };

struct ll_ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;	/* ABI 4 */
	uint64_t scoped;		/* ABI 6 */
};
_Static_assert(sizeof(struct ll_ruleset_attr) == 24, "kernel ABI");

struct ll_path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));
_Static_assert(sizeof(struct ll_path_beneath_attr) == 12, "kernel ABI");

#define FS_ALL ((LL_FS_IOCTL_DEV << 1) - 1)
#define FS_FILE (LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_READ_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)
#define NET_ALL (LL_NET_BIND_TCP | LL_NET_CONNECT_TCP)
#define SCOPE_ALL (LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL)

int sandbox_landlock_abi(void)
{
	long abi = syscall(LL_CALL_CREATE, NULL, 0, LL_CREATE_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

struct losses {
	char *text;
	size_t size;
	int count;
};

static void lose(struct losses *l, const char *what)
{
	size_t used = l->size ? strlen(l->text) : 0;

	l->count++;
	if (used + 1 < l->size)
		snprintf(l->text + used, l->size - used, "%s%s", used ? "; " : "", what);
}

/* Takes from attr what abi does not know. */
static void landlock_limit(int abi, struct ll_ruleset_attr *attr, struct losses *l)
{
	switch (abi < 0 ? 0 : abi) {
	case 0:
		lose(l, "files: the kernel has no Landlock");
		attr->handled_access_fs = 0;
		/* fall through */
	case 1:
		lose(l, "refer: files cannot be moved or linked between directories at all");
		attr->handled_access_fs &= ~LL_FS_REFER;
		/* fall through */
	case 2:
		lose(l, "truncate: a file that may not be written can still be emptied");
		attr->handled_access_fs &= ~LL_FS_TRUNCATE;
		/* fall through */
	case 3:
		lose(l, "tcp: bind and connect are not judged here");
		attr->handled_access_net = 0;
		/* fall through */
	case 4:
		lose(l, "ioctl_dev: device commands are not judged");
		attr->handled_access_fs &= ~LL_FS_IOCTL_DEV;
		/* fall through */
	case 5:
		lose(l, "scope: abstract sockets and signals reach outside");
		attr->scoped = 0;
		/* fall through */
	case 6:
		/* Without ABI 7 nothing is lost but the kernel's own audit records of denials. */
	default:
		break;
	}
}

int sandbox_landlock_lost(int abi, char *text, size_t size)
{
	struct ll_ruleset_attr attr = { FS_ALL, NET_ALL, SCOPE_ALL };
	struct losses l = { text, size, 0 };

	if (size)
		text[0] = '\0';
	landlock_limit(abi, &attr, &l);
	return l.count;
}

uint64_t sandbox_landlock_fs_rights(int abi)
{
	struct ll_ruleset_attr attr = { FS_ALL, NET_ALL, SCOPE_ALL };
	struct losses l = { NULL, 0, 0 };

	landlock_limit(abi, &attr, &l);
	return attr.handled_access_fs;
}

uint64_t sandbox_landlock_rights(enum sandbox_access access, bool directory, uint64_t handled)
{
	uint64_t rights = 0;

	switch (access) {
	case SANDBOX_READ:
		rights = LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_READ_DIR;
		break;
	case SANDBOX_READ_DATA:
		rights = LL_FS_READ_FILE | LL_FS_READ_DIR;
		break;
	case SANDBOX_WRITE:
		rights = FS_ALL;
		break;
	}
	if (!directory)
		rights &= FS_FILE;
	return rights & handled;
}

/* Whether another path of the list lets the confined process replace this one by a symlink, which would
 * widen the next start's rules to wherever it points. */
static bool is_replaceable(const struct sandbox_profile *p, const struct sandbox_path *path)
{
	for (size_t i = 0; i < p->path_count; i++)
		if (&p->paths[i] != path && p->paths[i].access == SANDBOX_WRITE &&
		    strcmp(p->paths[i].path, path->path) && sandbox_path_beneath(path->path, p->paths[i].path))
			return true;
	return false;
}

/* Opens a path as the process that is to be confined will see it. */
static int open_beneath(int root_fd, const struct sandbox_profile *p, const struct sandbox_path *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int root = -1;

	if (p->place && !strcmp(path->path, p->place))
		return fcntl(p->place_fd, F_DUPFD_CLOEXEC, 3);
	if (is_replaceable(p, path))
		how.resolve |= RESOLVE_NO_SYMLINKS;
	if (root_fd == AT_FDCWD) {
		root = open("/", O_PATH | O_CLOEXEC);
		root_fd = root;
	}
	return (int)syscall(SYS_openat2, root_fd, path->path, &how, sizeof(how));
}

static int add_path(int ruleset, int fd, const struct sandbox_path *p, uint64_t handled, struct err *e)
{
	struct ll_path_beneath_attr beneath = { .parent_fd = fd };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(e, "landlock: stat %s", p->path);
	beneath.allowed_access = sandbox_landlock_rights(p->access, S_ISDIR(st.st_mode), handled);
	if (!beneath.allowed_access)
		return 0;
	if (syscall(LL_CALL_ADD, ruleset, LL_RULE_PATH_BENEATH, &beneath, 0) < 0)
		return err_errno(e, "landlock: add %s", p->path);
	return 0;
}

static void note_missing(struct sandbox_report *rep, const char *path)
{
	size_t used = strlen(rep->missing);

	rep->missing_paths++;
	snprintf(rep->missing + used, sizeof(rep->missing) - used, "%s%s", used ? " " : "", path);
}

/* Adds every path that exists. An absent path that the user asked for is fatal under hard_requirement. */
static int add_paths(int ruleset, const struct sandbox_profile *p, int root_fd, struct sandbox_report *rep,
		     struct err *e)
{
	for (size_t i = 0; i < p->path_count; i++) {
		const struct sandbox_path *path = &p->paths[i];
		_cleanup_close_ int fd = open_beneath(root_fd, p, path);

		if (fd < 0) {
			if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EACCES)
				return err_errno(e, "landlock: open %s", path->path);
			if (!path->optional && p->compat == SANDBOX_HARD_REQUIREMENT)
				return err_errno(e, "landlock: hard_requirement: open %s", path->path);
			if (!path->optional)
				note_missing(rep, path->path);
			continue;
		}
		if (add_path(ruleset, fd, path, rep->handled_fs, e) < 0)
			return -1;
		if (path->reason)
			rep->plumbing_paths++;
		else
			rep->user_paths++;
	}
	return 0;
}

/* Whether any path was the user's own; plumbing alone never makes a ruleset. */
static bool has_user_paths(const struct sandbox_profile *p)
{
	for (size_t i = 0; i < p->path_count; i++)
		if (!p->paths[i].reason)
			return true;
	return false;
}

int sandbox_ruleset_open(const struct sandbox_profile *p, int root_fd, struct sandbox_report *rep, struct err *e)
{
	struct ll_ruleset_attr attr = { .handled_access_fs = p->landlock ? FS_ALL : 0 };
	struct losses l = { rep->lost, sizeof(rep->lost), 0 };
	_cleanup_close_ int ruleset = -1;
	struct ll_ruleset_attr asked;
	size_t size;

	if (sandbox_paths_check(p->paths, p->path_count, e) < 0)
		return -1;
	if (p->deny_tcp_bind)
		attr.handled_access_net |= LL_NET_BIND_TCP;
	if (p->deny_tcp_connect)
		attr.handled_access_net |= LL_NET_CONNECT_TCP;
	if (p->scope_abstract)
		attr.scoped |= LL_SCOPE_ABSTRACT_UNIX;
	if (p->scope_signal)
		attr.scoped |= LL_SCOPE_SIGNAL;
	asked = attr;
	rep->lost[0] = '\0';
	rep->landlock_abi = sandbox_landlock_abi();
	landlock_limit(rep->landlock_abi, &attr, &l);
	rep->handled_fs = attr.handled_access_fs;
	rep->handled_net = attr.handled_access_net;
	rep->scoped = attr.scoped;
	if (p->compat == SANDBOX_HARD_REQUIREMENT && memcmp(&asked, &attr, sizeof(attr)))
		return err_set(e, "landlock: hard_requirement: ABI %d lacks %s", rep->landlock_abi, rep->lost);
	if (!attr.handled_access_fs && !attr.handled_access_net && !attr.scoped)
		return SANDBOX_NO_RULESET;

	/* A kernel refuses a structure with bytes it does not know unless they are zero; it takes a short one. */
	size = rep->landlock_abi >= 6 ? sizeof(attr) : rep->landlock_abi >= 4 ? 16 : 8;
	ruleset = (int)syscall(LL_CALL_CREATE, &attr, size, 0);
	if (ruleset < 0)
		return err_errno(e, "landlock: create ruleset (ABI %d)", rep->landlock_abi);
	if (fcntl(ruleset, F_SETFD, FD_CLOEXEC) < 0)
		return err_errno(e, "landlock: ruleset fd");
	if (!p->landlock)
		return steal_fd(&ruleset);
	if (add_paths(ruleset, p, root_fd, rep, e) < 0)
		return -1;
	if (has_user_paths(p) && !rep->user_paths)
		return err_set(e, "landlock: none of the configured paths exists:%s%s", *rep->missing ? " " : "",
			       rep->missing);
	return steal_fd(&ruleset);
}

int sandbox_ruleset_enter(int ruleset_fd, struct err *e)
{
	if (syscall(LL_CALL_RESTRICT, ruleset_fd, 0) < 0)
		return err_errno(e, "landlock: restrict self");
	return 0;
}
