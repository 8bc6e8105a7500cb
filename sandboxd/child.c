// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A session's child: each step in the order of the design, each named.
 *
 * Everything that needs a lookup or a path outside was done by the supervisor before the fork: the ruleset
 * and the filters exist, users are numbers. A step that fails is written to the error pipe and the child
 * exits with 126; it never goes on with less than was asked.
 *
 * What each level takes part in:
 *	all	session, cgroup, root, groups, gid, uid, working directory, exec
 *	files	a mount namespace with masks, the home's map, Landlock while still root (so without no_new_privs)
 *	strict	all of that, no core dumps, no bounding set, no way back to root, no_new_privs, Landlock,
 *		seccomp: hardening, compat, main
 */
#include "sandboxd/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/io.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

struct step {
	const char *name;
	enum guest_level from;	/* the lowest level that takes this step */
	bool admin;		/* the unconfined administrator takes it too */
	/* 0, or -1 with errno; *path says on what. */
	int (*fn)(const struct guest_child *c, const char **path);
};

static int do_session(const struct guest_child *c, const char **path)
{
	struct sigaction def = { .sa_handler = SIG_DFL };
	sigset_t none;

	(void)path;
	for (int i = 1; i < NSIG; i++)
		sigaction(i, &def, NULL);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 || setsid() < 0)
		return -1;
	if (c->terminal && ioctl(c->in_fd, TIOCSCTTY, 0) < 0)
		return -1;
	umask(022);
	return guest_write_file(c->confine->guest->proc_fd, "self/oom_score_adj", "0");
}

static int do_cgroup(const struct guest_child *c, const char **path)
{
	*path = "cgroup.procs";
	return c->cgroup_fd < 0 ? 0 : guest_write_file(c->cgroup_fd, "cgroup.procs", "0");
}

static int do_root(const struct guest_child *c, const char **path)
{
	*path = "/";
	return fchdir(c->confine->guest->root_fd) < 0 || chroot(".") < 0 || chdir("/") < 0 ? -1 : 0;
}

/* Terminals of confined sessions are apart from all others: root at level files could type into the administrator's
 * (TIOCSTI). The working directory leads to them, since of what is open it alone moves to a new namespace. */
static int mount_terminals(const struct guest_child *c)
{
	struct stat have, want;

	if (mount(".", "/dev/pts", NULL, MS_BIND, NULL) < 0 || stat("/dev/pts", &have) < 0 ||
	    fstat(c->confine->guest->pts_fd, &want) < 0 || chdir("/") < 0)
		return -1;
	if (have.st_dev == want.st_dev)
		return 0;
	errno = EXDEV;
	return -1;
}

/* The terminal again, by the new namespace's own mount: ttyname(3) finds no other. */
static int reopen_terminal(const struct guest_child *c)
{
	_cleanup_close_ int fd = -1;
	char name[32];

	snprintf(name, sizeof(name), "/dev/pts/%d", c->terminal_index);
	fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return fd < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 ? -1 : 0;
}

static int do_mounts(const struct guest_child *c, const char **path)
{
	*path = "/";
	if (fchdir(c->confine->guest->pts_fd) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || guest_masks_apply(path) < 0)
		return -1;
	*path = "/dev/pts";
	if (mount_terminals(c) < 0)
		return -1;
	return c->terminal ? reopen_terminal(c) : 0;
}

/* A mount of the home in which the workspace's user and the session's user have changed places. */
static int do_home(const struct guest_child *c, const char **path)
{
	const char *home = c->confine->owner.home;
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		.userns_fd = (uint64_t)c->confine->idmap_fd,
	};
	_cleanup_close_ int tree = -1;

	*path = home;
	if (c->confine->idmap_fd < 0)
		return 0;
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, home, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -1;
	return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, home, MOVE_MOUNT_F_EMPTY_PATH);
}

static int do_core(const struct guest_child *c, const char **path)
{
	(void)c;
	(void)path;
	return setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

static int do_groups(const struct guest_child *c, const char **path)
{
	bool none = c->confine->level == GUEST_STRICT && !c->unconfined;
	gid_t now[GUEST_GROUPS_MAX];
	int n;

	(void)path;
	if (setgroups(none ? 0 : c->who->group_count, c->who->groups) < 0)
		return -1;
	n = getgroups(GUEST_GROUPS_MAX, now);
	if (n == (int)(none ? 0 : c->who->group_count))
		return 0;
	if (n >= 0)
		errno = EPERM;
	return -1;
}

static int do_gid(const struct guest_child *c, const char **path)
{
	gid_t r, e, s, want = c->who->gid;

	*path = c->who->name;
	if (setresgid(want, want, want) < 0 || getresgid(&r, &e, &s) < 0)
		return -1;
	if (r == want && e == want && s == want)
		return 0;
	errno = EPERM;
	return -1;
}

static int do_bounding(const struct guest_child *c, const char **path)
{
	(void)c;
	(void)path;
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 || prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
			return -1;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static int do_uid(const struct guest_child *c, const char **path)
{
	uid_t r, e, s, want = c->who->uid;

	*path = c->who->name;
	if (setresuid(want, want, want) < 0 || getresuid(&r, &e, &s) < 0)
		return -1;
	if (r == want && e == want && s == want)
		return 0;
	errno = EPERM;
	return -1;
}

/* Neither a way back to root nor a capability may be left. */
static int do_no_return(const struct guest_child *c, const char **path)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	(void)path;
	if (syscall(SYS_capget, &header, caps) < 0)
		return -1;
	if (c->who->uid == 0 || setuid(0) == 0 ||
	    (caps[0].permitted | caps[1].permitted | caps[0].inheritable | caps[1].inheritable)) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

static int do_no_new_privs(const struct guest_child *c, const char **path)
{
	(void)c;
	(void)path;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int do_landlock(const struct guest_child *c, const char **path)
{
	(void)path;
	return c->confine->ruleset_fd < 0 ? 0 : sandbox_ruleset_enter(c->confine->ruleset_fd, NULL);
}

static int do_seccomp(const struct guest_child *c, const char **path)
{
	(void)path;
	if (!c->confine->filters)
		return 0;
	return sandbox_filters_enter(c->confine->filters, NULL) < 0 ? -1 : 0;
}

static int do_chdir(const struct guest_child *c, const char **path)
{
	*path = c->cwd;
	return chdir(c->cwd);
}

/* Level files confines as root, before the user is dropped: CAP_SYS_ADMIN stands in for no_new_privs,
 * which would break sudo. Strict does it after, without any capability. */
static int do_landlock_as_root(const struct guest_child *c, const char **path)
{
	return c->confine->level == GUEST_FILES ? do_landlock(c, path) : 0;
}

static const struct step steps[] = {
	{ "setsid", GUEST_OBSERVE, true, do_session },
	{ "cgroup", GUEST_OBSERVE, true, do_cgroup },
	{ "chroot", GUEST_OBSERVE, true, do_root },
	{ "mount_namespace", GUEST_FILES, false, do_mounts },
	{ "idmapped_home", GUEST_FILES, false, do_home },
	{ "core_limit", GUEST_STRICT, false, do_core },
	{ "landlock", GUEST_FILES, false, do_landlock_as_root },
	{ "setgroups", GUEST_OBSERVE, true, do_groups },
	{ "setgid", GUEST_OBSERVE, true, do_gid },
	{ "capability_bounding_set", GUEST_STRICT, false, do_bounding },
	{ "setuid", GUEST_OBSERVE, true, do_uid },
	{ "no_return_to_root", GUEST_STRICT, false, do_no_return },
	{ "no_new_privs", GUEST_STRICT, false, do_no_new_privs },
	{ "landlock", GUEST_STRICT, false, do_landlock },
	{ "seccomp", GUEST_STRICT, false, do_seccomp },
	{ "chdir", GUEST_OBSERVE, true, do_chdir },
};

static void __attribute__((noreturn)) fail(const struct guest_child *c, const char *step, const char *path)
{
	struct guest_child_failure failure = { .error_nr = errno };

	snprintf(failure.step, sizeof(failure.step), "%s", step);
	snprintf(failure.path, sizeof(failure.path), "%s", path);
	io_write_all(c->error_fd, &failure, sizeof(failure));
	_exit(126);
}

/* 0, 1 and 2 from whatever they are, also when they are 0, 1 or 2 in another order. */
static int take_stdio(const struct guest_child *c)
{
	int in = fcntl(c->in_fd, F_DUPFD_CLOEXEC, 3), out = fcntl(c->out_fd, F_DUPFD_CLOEXEC, 3),
	    err = fcntl(c->err_fd, F_DUPFD_CLOEXEC, 3);

	return dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ? -1 : 0;
}

void guest_child_run(const struct guest_child *c)
{
	enum guest_level level = c->confine->level;
	char name[256];
	char **argv = (char **)(uintptr_t)c->argv;

	if (take_stdio(c) < 0)
		fail(c, "stdio", "");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const char *path = "";

		if (level < steps[i].from || (c->unconfined && !steps[i].admin))
			continue;
		if (steps[i].fn(c, &path) < 0)
			fail(c, steps[i].name, path);
	}
	if (c->run) {
		/* Without an exec nothing else closes the supervisor's descriptors. */
		syscall(SYS_close_range, 3, ~0u, 0);
		_exit(c->run(c->user));
	}
	syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
	environ = (char **)(uintptr_t)c->env;
	if (c->login) {
		const char *shell = argv[0];

		snprintf(name, sizeof(name), "-%s", strrchr(shell, '/') ? strrchr(shell, '/') + 1 : shell);
		argv[0] = name;
		execv(shell, argv);
		fail(c, "exec", shell);
	}
	execvp(argv[0], argv);
	fail(c, "exec", argv[0]);
}
