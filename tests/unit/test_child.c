// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The session's child, system call by system call.
 *
 * The real guest_child_run() runs under ptrace. What it asked of the kernel is compared with the order of the
 * specification; then each call in turn is made to fail, and each that is verified is made to do nothing while
 * it says that it did: the child must end with 126, name the step, and never reach its exec.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <linux/ptrace.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/err.h"
#include "lib/io.h"
#include "sandboxd/child.h"

enum { EVENTS_MAX = 64, OWNER = 54321, SESSION = 54320 };

struct event {
	char text[64];
	uint64_t number;	/* of landlock_add_rule its rights, of seccomp its filter's length */
};

struct trace {
	struct event events[EVENTS_MAX];
	int count;
	int inject;		/* this event does not take place ... */
	long answer;		/* ... and answers this */
	int status;
	bool executed;
	struct guest_child_failure failure;
};

static char dir[] = "/tmp/holdfast-child-XXXXXX", home[64];
static struct guest guest = { .params_fd = -1, .launch_fd = -1 };
static struct guest_confine confine;
static bool able;

/* --- the tracer --- */

static size_t peek(pid_t pid, uint64_t from, void *to, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)from, size };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}

static const char *peek_text(pid_t pid, uint64_t from)
{
	static char text[48];

	memset(text, 0, sizeof(text));
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		if (peek(pid, from + i, text + i, 1) != 1 || !text[i])
			break;
	return text;
}

static const char *describe_prctl(const uint64_t *a)
{
	if (a[0] == PR_CAPBSET_DROP)
		return "bounding set";
	if (a[0] == PR_CAP_AMBIENT && a[1] == PR_CAP_AMBIENT_CLEAR_ALL)
		return "ambient set";
	return a[0] == PR_SET_NO_NEW_PRIVS && a[1] == 1 ? "no_new_privs" : NULL;
}

static const char *describe_mount(uint64_t flags)
{
	if (flags == (MS_REC | MS_PRIVATE))
		return "mount private";
	return flags == MS_BIND ? "mask" : "mount";
}

/* The calls that the specification names; NULL for all others. */
static const char *describe(pid_t pid, uint64_t nr, const uint64_t *a)
{
	static char text[64];

	switch (nr) {
	case SYS_setsid: return "setsid";
	case SYS_openat: return strcmp(peek_text(pid, a[1]), "cgroup.procs") ? NULL : "cgroup.procs";
	case SYS_fchdir: return "fchdir";
	case SYS_chroot: return "chroot";
	case SYS_unshare: return a[0] == CLONE_NEWNS ? "unshare mounts" : "unshare";
	case SYS_mount: return describe_mount(a[3]);
	case SYS_open_tree: return "open_tree";
	case SYS_mount_setattr: return "mount_setattr";
	case SYS_move_mount: return "move_mount";
	case SYS_setrlimit: return a[0] == RLIMIT_CORE ? "core limit" : NULL;
	case SYS_prlimit64: return a[1] == RLIMIT_CORE && a[2] ? "core limit" : NULL;
	case SYS_setgroups: return a[0] ? "setgroups" : "setgroups none";
	case SYS_getgroups: return "getgroups";
	case SYS_setresgid: return "setresgid";
	case SYS_getresgid: return "getresgid";
	case SYS_setresuid: return "setresuid";
	case SYS_getresuid: return "getresuid";
	case SYS_setuid: return "setuid 0";
	case SYS_capget: return "capget";
	case SYS_prctl: return describe_prctl(a);
	case SYS_landlock_create_ruleset: return a[0] ? "landlock create" : NULL;
	case SYS_landlock_add_rule: return "landlock add";
	case SYS_landlock_restrict_self: return "landlock restrict";
	case SYS_seccomp: return a[1] & SECCOMP_FILTER_FLAG_LOG ? "seccomp log" : "seccomp quiet";
	case SYS_chdir:
		snprintf(text, sizeof(text), "chdir %s", peek_text(pid, a[0]));
		return text;
	case SYS_execve: return "exec";
	default: return NULL;
	}
}

static uint64_t number_of(pid_t pid, uint64_t nr, const uint64_t *a)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = 0 };
	unsigned short length = 0;
	uint64_t handled = 0;

	if (nr == SYS_landlock_add_rule && peek(pid, a[2], &rule, sizeof(rule)) == sizeof(rule))
		return rule.allowed_access;
	if (nr == SYS_landlock_create_ruleset && peek(pid, a[0], &handled, sizeof(handled)) == sizeof(handled))
		return handled;
	if (nr == SYS_seccomp && peek(pid, a[2], &length, sizeof(length)) == sizeof(length))
		return length;
	return 0;
}

/* Repetitions of a mask, a capability and a rule count as one event, but each rule is kept. */
static bool repeats(const struct trace *t, const char *text)
{
	return t->count && strcmp(text, "landlock add") && strncmp(text, "seccomp", 7) &&
	       !strcmp(t->events[t->count - 1].text, text);
}

/* At a call's entry. Returns whether it is the one that shall not take place. */
static bool note(struct trace *t, pid_t pid, const struct ptrace_syscall_info *info)
{
	const uint64_t *args = (const uint64_t *)info->entry.args;
	const char *text = describe(pid, info->entry.nr, args);

	if (!text)
		return false;
	if (repeats(t, text))
		return t->count - 1 == t->inject;
	assert_true(t->count < EVENTS_MAX);
	snprintf(t->events[t->count].text, sizeof(t->events[0].text), "%s", text);
	t->events[t->count].number = number_of(pid, info->entry.nr, args);
	return t->count++ == t->inject;
}

static void change(pid_t pid, bool entry, long value)
{
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
	if (entry)
		regs.orig_rax = (unsigned long long)-1;
	else
		regs.rax = (unsigned long long)value;
	assert_int_equal(ptrace(PTRACE_SETREGS, pid, 0, &regs), 0);
}

static void follow(struct trace *t, pid_t pid)
{
	bool injecting = false;
	int signal = 0;

	assert_int_equal(waitpid(pid, &t->status, 0), pid);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL), 0);
	while (ptrace(PTRACE_SYSCALL, pid, 0, signal) == 0 && waitpid(pid, &t->status, 0) == pid && WIFSTOPPED(t->status)) {
		struct ptrace_syscall_info info;

		signal = 0;
		if (t->status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
			t->executed = true;
			assert_int_equal(ptrace(PTRACE_DETACH, pid, 0, 0), 0);
			assert_int_equal(waitpid(pid, &t->status, 0), pid);
			return;
		}
		if (WSTOPSIG(t->status) != (SIGTRAP | 0x80)) {
			signal = WSTOPSIG(t->status);
			continue;
		}
		assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY && note(t, pid, &info)) {
			change(pid, true, 0);
			injecting = true;
		} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && injecting) {
			change(pid, false, t->answer);
			injecting = false;
		}
	}
}

/* --- the traced --- */

static void __attribute__((noreturn)) child(int error_fd, bool from_rules)
{
	static char path[] = "/bin/true", *const argv[] = { path, NULL }, *const env[] = { NULL };
	char cgroup[80];
	struct guest_child c = { .confine = &confine, .who = &confine.session, .error_fd = error_fd, .argv = argv, .env = env,
				 .cwd = home };

	snprintf(cgroup, sizeof(cgroup), "%s/cgroup", dir);
	c.cgroup_fd = open(cgroup, O_PATH | O_DIRECTORY | O_CLOEXEC);
	c.in_fd = c.out_fd = c.err_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	if (from_rules)
		confine.ruleset_fd = sandbox_ruleset_open(&confine.profile, guest.root_fd, &confine.report, NULL);
	guest_child_run(&c);
}

static void run(struct trace *t, bool from_rules)
{
	int error[2];
	pid_t pid;

	assert_int_equal(pipe2(error, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		child(error[1], from_rules);
	close(error[1]);
	follow(t, pid);
	memset(&t->failure, 0, sizeof(t->failure));
	if (io_read_all(error[0], &t->failure, sizeof(t->failure)) < 0)
		memset(&t->failure, 0, sizeof(t->failure));
	close(error[0]);
}

/* --- the world --- */

static int user_namespace(void)
{
	static const char map[] = "0 0 54320\n54320 54321 1\n54321 54320 1\n54322 54322 10\n";
	char path[64];
	int ready[2], fd;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], path, 1), 1);
	close(ready[0]);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, i ? "gid_map" : "uid_map");
		assert_int_equal(guest_write_file(AT_FDCWD, path, map), 0);
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}

static void make(const char *name, bool folder)
{
	int fd;

	if (folder) {
		assert_true(mkdir(name, 0755) == 0 || errno == EEXIST);
		return;
	}
	fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
}

/* A mount namespace of the test's own, with a /run in which there is something to mask. */
static bool make_world(void)
{
	char path[96];

	if (geteuid() || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0)
		return false;
	make("/run/holdfast", true);
	make("/run/holdfast/mask", true);
	make("/run/holdfast/mask/dir", true);
	make("/run/holdfast/mask/file", false);
	make("/run/dbus", true);
	make("/run/docker.sock", false);
	make("/run/pts", true);
	if (mount("devpts", "/run/pts", "devpts", 0, "gid=5,mode=620,ptmxmode=666") < 0)
		return false;
	/* something for the child to leave */
	assert_int_equal(setgroups(1, &(gid_t){ 27 }), 0);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	snprintf(path, sizeof(path), "%s/cgroup", dir);
	make(path, true);
	snprintf(path, sizeof(path), "%s/cgroup/cgroup.procs", dir);
	make(path, false);
	snprintf(home, sizeof(home), "%s/home", dir);
	make(home, true);
	assert_int_equal(chown(home, OWNER, OWNER), 0);
	return true;
}

static struct sandbox_path paths[] = {
	{ "/usr", SANDBOX_READ, false, NULL }, { home, SANDBOX_WRITE, false, NULL }, { "/lib", SANDBOX_READ, true, NULL },
	{ "/lib64", SANDBOX_READ, true, NULL }, { "/bin", SANDBOX_READ, true, NULL }, { "/etc/passwd", SANDBOX_READ, false, NULL },
	{ "/dev/null", SANDBOX_WRITE, true, "programs discard output" },
};

static int set_up(void **state)
{
	(void)state;
	able = make_world();
	if (!able)
		return 0;
	guest.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	guest.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	guest.pts_fd = open("/run/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
	confine = (struct guest_confine){ .guest = &guest, .level = GUEST_STRICT, .profile = sandbox_profile_guest_strict };
	confine.session = (struct guest_identity){ .name = "session", .uid = SESSION, .gid = SESSION, .groups = { 27 }, .group_count = 1 };
	confine.owner = (struct guest_identity){ .name = "owner", .uid = OWNER, .gid = OWNER };
	snprintf(confine.owner.home, sizeof(confine.owner.home), "%s", home);
	confine.profile.paths = paths;
	confine.profile.path_count = sizeof(paths) / sizeof(paths[0]);
	confine.profile.supervisor_pid = getpid();
	confine.profile.supervisor_pgid = getpgrp();
	confine.filters = sandbox_filters_new(&confine.profile, NULL);
	confine.ruleset_fd = sandbox_ruleset_open(&confine.profile, guest.root_fd, &confine.report, NULL);
	confine.idmap_fd = user_namespace();
	return confine.filters && confine.ruleset_fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[96];

	(void)state;
	sandbox_filters_free(confine.filters);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return able ? system(command) : 0;
}

static void need_root(void)
{
	if (able)
		return;
	print_message("# SKIP the child changes users and mounts, for which this test needs root\n");
	skip();
}

/* --- the tests --- */

struct want {
	const char *event;
	const char *step;	/* what a failure of this call is called */
	bool verified;		/* a lie of this call is noticed */
};

/* spec, section 3, in its order. "chdir /" belongs to the chroot. */
static const struct want strict[] = {
	{ "setsid", "setsid", false },
	{ "cgroup.procs", "cgroup", false },
	{ "fchdir", "chroot", false },
	{ "chroot", "chroot", false },
	{ "chdir /", "chroot", false },
	{ "fchdir", "mount_namespace", false },	/* to the sessions' own terminals */
	{ "unshare mounts", "mount_namespace", false },
	{ "mount private", "mount_namespace", false },
	{ "mask", "mount_namespace", true },
	{ "chdir /", "mount_namespace", false },
	{ "open_tree", "idmapped_home", false },
	{ "mount_setattr", "idmapped_home", false },
	{ "move_mount", "idmapped_home", false },
	{ "core limit", "core_limit", false },
	{ "setgroups none", "setgroups", true },
	{ "getgroups", "setgroups", false },
	{ "setresgid", "setgid", true },
	{ "getresgid", "setgid", false },
	{ "bounding set", "capability_bounding_set", true },
	{ "ambient set", "capability_bounding_set", false },
	{ "setresuid", "setuid", true },
	{ "getresuid", "setuid", false },
	{ "capget", "no_return_to_root", false },
	{ "setuid 0", NULL, true },	/* must fail, and a success is the failure */
	{ "no_new_privs", "no_new_privs", true },
	{ "landlock restrict", "landlock", false },
	{ "seccomp log", "seccomp", false },
	{ "seccomp quiet", "seccomp", false },
	{ "seccomp log", "seccomp", false },
	{ "chdir HOME", "chdir", false },
	{ "exec", "exec", false },
};
enum { STRICT_EVENTS = sizeof(strict) / sizeof(strict[0]) };

static const char *event_name(const struct trace *t, int i)
{
	static char text[80];

	snprintf(text, sizeof(text), "chdir %.47s", home);
	return strcmp(t->events[i].text, text) ? t->events[i].text : "chdir HOME";
}

static void compare(const struct trace *t)
{
	for (int i = 0; i < t->count || i < STRICT_EVENTS; i++) {
		const char *have = i < t->count ? event_name(t, i) : "nothing", *want = i < STRICT_EVENTS ? strict[i].event : "nothing";

		if (strcmp(have, want))
			fail_msg("call %d: have %s, want %s", i, have, want);
	}
}

static void test_the_order_is_the_specifications(void **state)
{
	struct trace t = { .inject = -1 };

	(void)state;
	need_root();
	run(&t, false);
	compare(&t);
	assert_true(t.executed);
	assert_true(WIFEXITED(t.status) && WEXITSTATUS(t.status) == 0);
	/* hardening comes first, main last */
	assert_true(t.events[26].number > t.events[24].number);
}

static void test_every_failure_is_named_and_ends_the_child(void **state)
{
	(void)state;
	need_root();
	for (int i = 0; i < STRICT_EVENTS; i++) {
		struct trace t = { .inject = i, .answer = -EACCES };

		if (!strict[i].step)
			continue;
		run(&t, false);
		if (t.executed || !WIFEXITED(t.status) || WEXITSTATUS(t.status) != 126 || t.failure.error_nr != EACCES ||
		    strcmp(t.failure.step, strict[i].step))
			fail_msg("%s fails: executed %d, status %x, step \"%s\", errno %d", strict[i].event, t.executed, t.status,
				 t.failure.step, t.failure.error_nr);
		if (i < STRICT_EVENTS - 1 && !strcmp(event_name(&t, t.count - 1), "exec"))
			fail_msg("%s fails, and the child goes on to exec", strict[i].event);
	}
}

static void test_a_step_that_only_says_it_was_done_is_noticed(void **state)
{
	(void)state;
	need_root();
	for (int i = 0; i < STRICT_EVENTS; i++) {
		struct trace t = { .inject = i, .answer = 0 };

		if (!strict[i].verified)
			continue;
		run(&t, false);
		if (t.executed || !WIFEXITED(t.status) || WEXITSTATUS(t.status) != 126 || !*t.failure.step)
			fail_msg("%s does nothing: executed %d, status %x, step \"%s\"", strict[i].event, t.executed, t.status,
				 t.failure.step);
	}
}

/* LL-01, LL-02: what each path is given, as the kernel was told. */
static void test_rules_have_the_rights_of_their_list(void **state)
{
	enum { FILE_READ = 1 | 4, DIR_READ = 1 | 4 | 8, FILE_WRITE = 1 | 2 | 4 | 1 << 14 | 1 << 15, ALL = 0xffff };
	struct trace t = { .inject = -1 };
	uint64_t seen[8] = { 0 }, handled = 0;
	int n = 0, saved = confine.ruleset_fd;

	(void)state;
	need_root();
	if (sandbox_landlock_abi() < 5) {
		print_message("# SKIP the rights are those of ABI 5, the kernel has %d\n", sandbox_landlock_abi());
		skip();
	}
	run(&t, true);
	confine.ruleset_fd = saved;
	assert_true(t.executed);
	for (int i = 0; i < t.count; i++) {
		if (!strcmp(t.events[i].text, "landlock create"))
			handled = t.events[i].number;
		if (!strcmp(t.events[i].text, "landlock add") && n < 8)
			seen[n++] = t.events[i].number;
	}
	assert_int_equal(handled, ALL);
	assert_int_equal(n, 7);
	assert_int_equal(seen[0], DIR_READ);
	assert_int_equal(seen[1], ALL);
	assert_int_equal(seen[5], FILE_READ);
	assert_int_equal(seen[6], FILE_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_order_is_the_specifications),
		cmocka_unit_test(test_every_failure_is_named_and_ends_the_child),
		cmocka_unit_test(test_a_step_that_only_says_it_was_done_is_noticed),
		cmocka_unit_test(test_rules_have_the_rights_of_their_list),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
