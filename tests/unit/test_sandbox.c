// SPDX-License-Identifier: GPL-2.0-or-later
/* The confinement library on the host's own kernel: the table against headers, each filter row, Landlock. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <cmocka.h>

#include "lib/err.h"
#include "lib/sandbox/landlock.h"
#include "lib/sandbox/sandbox.h"
#include "lib/sandbox/table.h"
#include "tests/probe/calls.h"

static char dir[] = "/tmp/holdfast-sandbox-XXXXXX";

/* Exit status of fn in a child of its own. */
static int in_child(int (*fn)(void *), void *user)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn(user));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : PROBE_KILLED + WTERMSIG(status);
}

/* --- the table --- */

static void check_call(const char *name, int nr, const char *file)
{
	const struct sandbox_call *call = sandbox_call_by_nr(nr);

	if (!call || strcmp(call->name, name))
		fail_msg("%s knows %s (%d), the table has %s", file, name, nr, call ? call->name : "nothing");
}

static int check_header(const char *file)
{
	FILE *f = fopen(file, "r");
	char line[256], name[64];
	int nr, n = 0;

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		/* "syscalls" is their number, not one of them. */
		if (sscanf(line, "#define __NR_%63s %d", name, &nr) != 2 || !strcmp(name, "syscalls"))
			continue;
		check_call(name, nr, file);
		n++;
	}
	fclose(f);
	return n;
}

static void test_every_call_of_the_headers_is_decided(void **state)
{
	static const char kernels[] =
		"/usr/src/linux-headers-*/arch/x86/include/generated/uapi/asm/unistd_64.h";
	char cached[512];
	const char *const patterns[] = { "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", kernels, cached };
	char name[64];
	int nr, n = 0, listed = 0;
	FILE *f = fopen("tests/data/syscalls-x86_64.txt", "r");
	char line[128];

	(void)state;
	if (getenv("HOLDFAST_CACHE"))
		snprintf(cached, sizeof(cached), "%s/kernel/*%s", getenv("HOLDFAST_CACHE"), kernels);
	else
		snprintf(cached, sizeof(cached), "%s/.cache/holdfast/kernel/*%s", getenv("HOME"), kernels);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		glob_t g;

		if (glob(patterns[i], 0, NULL, &g) == 0)
			for (size_t k = 0; k < g.gl_pathc; k++)
				n += check_header(g.gl_pathv[k]);
		globfree(&g);
	}
	assert_true(n > 350);
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%d %63s", &nr, name) != 2)
			continue;
		check_call(name, nr, "tests/data/syscalls-x86_64.txt");
		listed++;
	}
	fclose(f);
	assert_int_equal(listed, (int)sandbox_call_count);
}

static void test_table_is_sorted_and_argument_rules_have_rows(void **state)
{
	(void)state;
	for (size_t i = 1; i < sandbox_call_count; i++)
		assert_true(sandbox_calls[i - 1].nr < sandbox_calls[i].nr);
	for (size_t i = 0; i < sandbox_arg_rule_count; i++) {
		const struct sandbox_call *call = sandbox_call_by_nr(sandbox_arg_rules[i].nr);

		assert_non_null(call);
		assert_int_equal(call->decision, SANDBOX_ARGS);
	}
}

/* --- filters --- */

struct filter_run {
	int failures, rows;
	pid_t supervisor;
};

static int baseline[2048];

static int run_filtered(void *user)
{
	struct filter_run *run = user;
	struct sandbox_profile p = sandbox_profile_guest_strict;
	struct sandbox_report rep = { .handled_fs = 0 };
	struct err e = { .text = "" };
	struct probe_row row;
	FILE *f = fopen("tests/data/probes/seccomp.tsv", "r");
	struct sandbox_filters *filters;
	int bad = 0, n = 0;

	p.landlock = false;
	p.supervisor_pid = run->supervisor;
	p.supervisor_pgid = run->supervisor;
	filters = sandbox_filters_new(&p, &e);
	if (!filters || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || sandbox_filters_enter(filters, &e) != 3) {
		fprintf(stderr, "%s\n", e.text);
		return 100;
	}
	if (sandbox_probe(&p, &rep, &e) < 0 || !rep.filters_enforced)
		return 101;
	while (probe_read(f, &row)) {
		int have = probe_run(&row, PROBE_64, run->supervisor, run->supervisor);
		int want = !strcmp(row.expect, "EPERM") ? EPERM : !strcmp(row.expect, "ENOSYS") ? ENOSYS : baseline[n];
		int x32 = probe_run(&row, PROBE_X32, run->supervisor, run->supervisor);
		int int80 = row.nr32 < 0 ? PROBE_KILLED + SIGSYS : probe_run(&row, PROBE_INT80, run->supervisor, run->supervisor);

		n++;
		if (have == want && x32 == PROBE_KILLED + SIGSYS &&
		    (int80 == PROBE_KILLED + SIGSYS || int80 == PROBE_KILLED + SIGSEGV))
			continue;
		fprintf(stderr, "%s: 64-bit %d, want %d; x32 %d; int80 %d\n", row.label, have, want, x32, int80);
		bad++;
	}
	fclose(f);
	return bad > 99 ? 99 : bad;
}

static int sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		for (;;)
			pause();
	}
	return pid;
}

static void test_each_row_answers_as_specified(void **state)
{
	struct filter_run run = { .supervisor = sleeper() };
	struct probe_row row;
	FILE *f = fopen("tests/data/probes/seccomp.tsv", "r");

	(void)state;
	assert_non_null(f);
	usleep(50000);
	while (probe_read(f, &row)) {
		/* Only what is to stay as it is needs the unfiltered answer. */
		baseline[run.rows] = !strcmp(row.expect, "same") ?
				     probe_run(&row, PROBE_64, run.supervisor, run.supervisor) : 0;
		run.rows++;
	}
	fclose(f);
	assert_true(run.rows > 500);
	assert_int_equal(in_child(run_filtered, &run), 0);
	kill(run.supervisor, SIGKILL);
	waitpid(run.supervisor, NULL, 0);
}

static int enter_strict(void)
{
	struct sandbox_profile p = sandbox_profile_guest_strict;
	struct sandbox_report rep;

	p.landlock = false;
	return sandbox_apply(&p, &rep, NULL);
}

static void *thread_main(void *n)
{
	__atomic_add_fetch((int *)n, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static int threads_and_spawns(void *user)
{
	extern char **environ;
	char *argv[] = { (char *)(uintptr_t)"true", NULL };
	int n = 0;

	(void)user;
	if (enter_strict() < 0)
		return 1;
	for (int i = 0; i < 200; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, thread_main, &n) || pthread_join(t, NULL))
			return 2;
	}
	for (int i = 0; i < 20; i++) {
		int status;
		pid_t pid;

		if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ) || waitpid(pid, &status, 0) < 0 || status)
			return 3;
	}
	return n == 200 ? 0 : 4;
}

static void test_threads_and_spawns_fall_back_from_clone3(void **state)
{
	(void)state;
	assert_int_equal(in_child(threads_and_spawns, NULL), 0);
}

static int second_filter(void *user)
{
	struct sandbox_filters *f = sandbox_filters_new(&sandbox_profile_guest_strict, NULL);

	(void)user;
	if (enter_strict() < 0)
		return 1;
	return sandbox_filters_enter(f, NULL) == -1 && errno == EPERM ? 0 : 2;
}

static int quiet(void *user)
{
	struct sandbox_profile p = *(const struct sandbox_profile *)user;
	struct sandbox_filters *f = sandbox_filters_new(&p, NULL);
	struct sandbox_report rep = { .landlock_abi = 0 };
	struct err e;

	if (!f)
		return 2;
	sandbox_filters_quiet(f);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || sandbox_filters_enter(f, &e) != 3)
		return 3;
	return sandbox_probe(&p, &rep, &e) == 0 && rep.filters_enforced ? 0 : 4;
}

/* What a probe of sandboxd enters refuses what the logged filters do. */
static void test_quiet_filters_refuse_the_same(void **state)
{
	struct sandbox_profile p = sandbox_profile_guest_strict;

	(void)state;
	p.landlock = false;
	p.supervisor_pid = p.supervisor_pgid = getpid();
	assert_int_equal(in_child(quiet, &p), 0);
}

static void test_no_further_filter_can_be_installed(void **state)
{
	(void)state;
	assert_int_equal(in_child(second_filter, NULL), 0);
}

/* --- roles --- */

static int role(void *user)
{
	struct sandbox_profile p = *(const struct sandbox_profile *)user;
	const struct sandbox_path paths[] = { { dir, SANDBOX_WRITE, false, NULL } };
	bool memfd = p.allowed_classes & SANDBOX_CLASS_MEMFD;
	struct sandbox_report rep;
	struct err e = { .text = "" };

	p.paths = paths;
	p.path_count = 1;
	if (sandbox_apply(&p, &rep, &e) < 0) {
		fprintf(stderr, "%s: %s\n", p.name, e.text);
		return 1;
	}
	if (!rep.landlock_enforced || !rep.no_new_privs)
		return 2;
	if (open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES)
		return 3;
	if (open(dir, O_RDONLY) < 0)
		return 4;
	if (p.filters == SANDBOX_FILTERS_NONE)
		return 0;
	if (execl("/bin/true", "true", NULL) == 0 || errno != EPERM)
		return 5;
	if ((syscall(SYS_memfd_create, "x", 0) >= 0) != memfd)
		return 6;
	if (socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EPERM || socket(AF_VSOCK, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		return 7;
	if (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		return 8;
	if (setuid(0) == 0 || errno != EPERM || syscall(SYS_ptrace, 2, -1, 0, 0) == 0 || errno != EPERM)
		return 9;
	if (syscall(SYS_unshare, CLONE_NEWUSER) == 0 || errno != EPERM || syscall(SYS_mount, 0, 0, 0, 0, 0) == 0 || errno != EPERM)
		return 10;
	if (syscall(600) != -1 || errno != EPERM)
		return 11;
	return 0;
}

static void test_roles_may_do_what_they_need_and_no_more(void **state)
{
	static const struct sandbox_profile *const roles[] = {
		&sandbox_profile_hostd, &sandbox_profile_vm, &sandbox_profile_proxy, &sandbox_profile_qemu,
	};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(in_child(role, (void *)(uintptr_t)roles[i]), 0);
}

static void test_profiles_are_found_by_name(void **state)
{
	(void)state;
	assert_ptr_equal(sandbox_profile_find("vm"), &sandbox_profile_vm);
	assert_ptr_equal(sandbox_profile_find("guest-strict"), &sandbox_profile_guest_strict);
	assert_null(sandbox_profile_find("nobody"));
}

/* --- Landlock --- */

static void test_each_abi_says_what_it_loses(void **state)
{
	static const struct { int abi, losses; const char *word; } cases[] = {
		{ 0, 6, "no Landlock" }, { 1, 5, "refer" }, { 2, 4, "truncate" }, { 3, 3, "tcp" },
		{ 4, 2, "ioctl_dev" }, { 5, 1, "scope" }, { 6, 0, "" }, { 7, 0, "" }, { 12, 0, "" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(sandbox_landlock_lost(cases[i].abi, text, sizeof(text)), cases[i].losses);
		assert_non_null(strstr(text, cases[i].word));
	}
	assert_int_equal(sandbox_landlock_fs_rights(0), 0);
	assert_int_equal(sandbox_landlock_fs_rights(1), 0x1fff);
	assert_int_equal(sandbox_landlock_fs_rights(2), 0x3fff);
	assert_int_equal(sandbox_landlock_fs_rights(3), 0x7fff);
	assert_int_equal(sandbox_landlock_fs_rights(4), 0x7fff);
	assert_int_equal(sandbox_landlock_fs_rights(5), 0xffff);
	assert_int_equal(sandbox_landlock_fs_rights(7), 0xffff);
}

static void test_files_take_file_rights_only(void **state)
{
	(void)state;
	assert_int_equal(sandbox_landlock_rights(SANDBOX_READ, true, ~0ull), LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_READ_DIR);
	assert_int_equal(sandbox_landlock_rights(SANDBOX_READ, false, ~0ull), LL_FS_EXECUTE | LL_FS_READ_FILE);
	assert_int_equal(sandbox_landlock_rights(SANDBOX_READ_DATA, true, ~0ull), LL_FS_READ_FILE | LL_FS_READ_DIR);
	assert_int_equal(sandbox_landlock_rights(SANDBOX_WRITE, true, 0xffff), 0xffff);
	assert_int_equal(sandbox_landlock_rights(SANDBOX_WRITE, false, 0xffff),
			 LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_READ_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV);
	assert_int_equal(sandbox_landlock_rights(SANDBOX_WRITE, true, 0x1fff), 0x1fff);
}

static void test_path_lists_that_promise_what_landlock_cannot(void **state)
{
	static const struct {
		struct sandbox_path paths[2];
		const char *word;	/* NULL: accepted */
	} cases[] = {
		{ { { "/w", SANDBOX_WRITE, false, NULL }, { "/w/secrets", SANDBOX_READ, false, NULL } }, "no protection" },
		{ { { "/w/", SANDBOX_WRITE, false, NULL }, { "/w", SANDBOX_READ, false, NULL } }, "no protection" },
		{ { { "/", SANDBOX_WRITE, false, NULL }, { "/etc", SANDBOX_READ, false, NULL } }, "no protection" },
		{ { { "/w", SANDBOX_WRITE, false, NULL }, { "/work", SANDBOX_READ, false, NULL } }, NULL },
		{ { { "/w", SANDBOX_READ, false, NULL }, { "/w/out", SANDBOX_WRITE, false, NULL } }, NULL },
		{ { { "/w", SANDBOX_WRITE, false, NULL }, { "/w/x", SANDBOX_READ, false, "plumbing" } }, NULL },
		{ { { "w", SANDBOX_WRITE, false, NULL }, { "/x", SANDBOX_READ, false, NULL } }, "not absolute" },
		{ { { "/w/../etc", SANDBOX_WRITE, false, NULL }, { "/x", SANDBOX_READ, false, NULL } }, "dot components" },
		{ { { "/w//x", SANDBOX_WRITE, false, NULL }, { "/x", SANDBOX_READ, false, NULL } }, "dot components" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = { .text = "" };
		int r = sandbox_paths_check(cases[i].paths, 2, &e);

		assert_int_equal(r, cases[i].word ? -1 : 0);
		if (cases[i].word)
			assert_non_null(strstr(e.text, cases[i].word));
	}
}

static char *path_of(const char *name)
{
	static char paths[8][128];
	static int n;

	n = (n + 1) % 8;
	snprintf(paths[n], sizeof(paths[n]), "%s/%s", dir, name);
	return paths[n];
}

static int touch(const char *name)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0755);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

static int landlocked(void *user)
{
	char *ro = path_of("ro"), *rw = path_of("rw");
	const struct sandbox_path paths[] = {
		{ ro, SANDBOX_READ, false, NULL }, { rw, SANDBOX_WRITE, false, NULL },
		{ "/dev/zero", SANDBOX_READ, true, "the probe's control" },
	};
	struct sandbox_profile p = sandbox_profile_guest_files;
	struct sandbox_report rep;
	struct err e;
	int fd;

	(void)user;
	p.paths = paths;
	p.path_count = 3;
	/* As level files does: root may restrict itself without no_new_privs. */
	p.no_new_privs = getuid() != 0;
	if (sandbox_apply(&p, &rep, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	if (rep.user_paths != 2 || rep.plumbing_paths != 1 || !rep.landlock_enforced || rep.no_new_privs != p.no_new_privs)
		return 2;
	if (open(path_of("ro/f"), O_RDONLY) < 0 || open(path_of("ro/f"), O_WRONLY) >= 0 || errno != EACCES)
		return 3;
	if (touch("rw/new") < 0 || touch("ro/new") == 0 || errno != EACCES || touch("new") == 0 || errno != EACCES)
		return 4;
	if (truncate(path_of("ro/f"), 0) == 0 || errno != EACCES || truncate(path_of("rw/new"), 0))
		return 5;
	if (rename(path_of("rw/new"), path_of("ro/new")) == 0 || link(path_of("ro/f"), path_of("rw/l")) == 0)
		return 6;
	if (mkdir(path_of("rw/d"), 0755) || rename(path_of("rw/new"), path_of("rw/d/new")))
		return 7;
	fd = open("/etc/passwd", O_RDONLY);
	return fd < 0 && errno == EACCES ? 0 : 8;
}

static void test_landlock_holds_against_root(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path_of("ro"), 0755), 0);
	assert_int_equal(mkdir(path_of("rw"), 0755), 0);
	assert_int_equal(touch("ro/f"), 0);
	assert_int_equal(in_child(landlocked, NULL), 0);
}

static int layers(void *user)
{
	const struct sandbox_path paths[] = { { dir, SANDBOX_WRITE, false, NULL } };
	struct sandbox_profile p = sandbox_profile_guest_files;
	struct sandbox_report rep = { .landlock_abi = 0 };

	(void)user;
	p.paths = paths;
	p.path_count = 1;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (int i = 0; i < 17; i++) {
		int fd = sandbox_ruleset_open(&p, AT_FDCWD, &rep, NULL);

		if (fd < 0)
			return 100;
		if (sandbox_ruleset_enter(fd, NULL) < 0)
			return errno == E2BIG ? i : 101;
		close(fd);
	}
	return 102;
}

static void test_rulesets_stack_to_sixteen_and_never_come_off(void **state)
{
	(void)state;
	assert_int_equal(in_child(layers, NULL), 16);
}

static void test_missing_paths(void **state)
{
	char *none = path_of("absent");
	const struct sandbox_path both[] = { { dir, SANDBOX_READ, false, NULL }, { none, SANDBOX_READ, false, NULL } };
	const struct sandbox_path only[] = { { none, SANDBOX_READ, false, NULL }, { "/dev/null", SANDBOX_WRITE, true, "plumbing" } };
	struct sandbox_profile p = sandbox_profile_guest_files;
	struct sandbox_report rep = { .landlock_abi = 0 };
	struct err e = { .text = "" };
	int fd;

	(void)state;
	p.paths = both;
	p.path_count = 2;
	fd = sandbox_ruleset_open(&p, AT_FDCWD, &rep, &e);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rep.missing_paths, 1);
	assert_non_null(strstr(rep.missing, "absent"));
	p.compat = SANDBOX_HARD_REQUIREMENT;
	memset(&rep, 0, sizeof(rep));
	assert_int_equal(sandbox_ruleset_open(&p, AT_FDCWD, &rep, &e), -1);
	assert_non_null(strstr(e.text, "absent"));
	/* Plumbing alone never makes a ruleset. */
	p.compat = SANDBOX_BEST_EFFORT;
	p.paths = only;
	memset(&rep, 0, sizeof(rep));
	assert_int_equal(sandbox_ruleset_open(&p, AT_FDCWD, &rep, &e), -1);
	assert_non_null(strstr(e.text, "none of the configured paths"));
}

/* What a session can replace may not decide what the next one is given. */
static void test_symlinks_in_writable_places_are_not_followed(void **state)
{
	char *out = path_of("out"), *link_path = path_of("out/link"), *alias = path_of("alias");
	const struct sandbox_path nested[] = { { out, SANDBOX_WRITE, false, NULL }, { link_path, SANDBOX_WRITE, false, NULL } };
	const struct sandbox_path plain[] = { { alias, SANDBOX_READ, false, NULL } };
	struct sandbox_profile p = sandbox_profile_guest_files;
	struct sandbox_report rep = { .landlock_abi = 0 };
	int fd;

	(void)state;
	assert_int_equal(mkdir(out, 0755), 0);
	assert_int_equal(symlink("/etc", link_path), 0);
	assert_int_equal(symlink("out", alias), 0);
	p.paths = nested;
	p.path_count = 2;
	fd = sandbox_ruleset_open(&p, AT_FDCWD, &rep, NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rep.user_paths, 1);
	assert_int_equal(rep.missing_paths, 1);
	p.paths = plain;
	p.path_count = 1;
	memset(&rep, 0, sizeof(rep));
	fd = sandbox_ruleset_open(&p, AT_FDCWD, &rep, NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rep.user_paths, 1);
}

static pid_t outsider;
static int abstract_fd;

static int scoped(void *user)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct sandbox_profile p = sandbox_profile_guest_strict;
	struct sandbox_report rep;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	pid_t inner;

	(void)user;
	memcpy(a.sun_path, "\0holdfast-scope", 15);
	/* The baseline first: both work before. */
	if (kill(outsider, 0) || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return 1;
	close(fd);
	p.landlock = false;
	if (sandbox_apply(&p, &rep, NULL) < 0 || rep.scoped != 3)
		return 2;
	if (kill(outsider, 0) == 0 || errno != EPERM)
		return 3;
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno != EPERM)
		return 4;
	inner = sleeper();
	return kill(inner, SIGKILL) == 0 ? 0 : 5;
}

static void test_scopes_without_paths(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)state;
	if (sandbox_landlock_abi() < 6) {
		print_message("# SKIP the host's Landlock has ABI %d, scopes need 6\n", sandbox_landlock_abi());
		skip();
	}
	memcpy(a.sun_path, "\0holdfast-scope", 15);
	abstract_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(abstract_fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(abstract_fd, 4), 0);
	outsider = sleeper();
	assert_int_equal(in_child(scoped, NULL), 0);
	kill(outsider, SIGKILL);
	waitpid(outsider, NULL, 0);
	close(abstract_fd);
}

static int set_up(void **state)
{
	(void)state;
	probe_init();
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call_of_the_headers_is_decided),
		cmocka_unit_test(test_table_is_sorted_and_argument_rules_have_rows),
		cmocka_unit_test(test_each_row_answers_as_specified),
		cmocka_unit_test(test_threads_and_spawns_fall_back_from_clone3),
		cmocka_unit_test(test_quiet_filters_refuse_the_same),
		cmocka_unit_test(test_no_further_filter_can_be_installed),
		cmocka_unit_test(test_roles_may_do_what_they_need_and_no_more),
		cmocka_unit_test(test_profiles_are_found_by_name),
		cmocka_unit_test(test_each_abi_says_what_it_loses),
		cmocka_unit_test(test_files_take_file_rights_only),
		cmocka_unit_test(test_path_lists_that_promise_what_landlock_cannot),
		cmocka_unit_test(test_landlock_holds_against_root),
		cmocka_unit_test(test_rulesets_stack_to_sixteen_and_never_come_off),
		cmocka_unit_test(test_missing_paths),
		cmocka_unit_test(test_symlinks_in_writable_places_are_not_followed),
		cmocka_unit_test(test_scopes_without_paths),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
