// SPDX-License-Identifier: GPL-2.0-or-later
/* Prepares a boot's confinement from its spec, probes it in a child, and tells the status. */
#include "sandboxd/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/io.h"
#include "sandboxd/child.h"

#define MASK_FILE "/run/holdfast/mask/file"
#define MASK_DIR "/run/holdfast/mask/dir"
#define SYSTEMD "/run/systemd"
#define MASK_SYSTEMD "/run/holdfast/mask/systemd"

/* A directory rather than a socket in it, where there is one: when its daemon makes the socket anew (PID 1 does at
 * each re-execution, which root can ask for by a signal), the mount over the old one goes with it. */
const char *const guest_masks[GUEST_MASKS] = {
	"/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", SYSTEMD, "/run/dbus", "/run/udev",
	"/run/user", "/run/libvirt", "/run/snapd.socket", "/run/incus", "/run/lxd", "/var/spool/cron",
	"/var/spool/at", "/run/holdfast/revoke", "/run/holdfast/sandboxd.sock",
};

/* What stays of /run/systemd: the resolver, the journal's sockets, the state of links. "system" is there, and empty,
 * for programs that ask whether systemd runs. */
static const char *const systemd_kept[] = { "resolve", "journal", "netif" };

/* What OpenShell's documents assume once there is a network rule. */
static const struct sandbox_path baseline[] = {
	{ "/usr", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/lib", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/etc", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/app", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/var/log", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/proc", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/dev/urandom", SANDBOX_READ, true, "baseline of a policy with network rules" },
	{ "/tmp", SANDBOX_WRITE, true, "baseline of a policy with network rules" },
	{ "/dev/null", SANDBOX_WRITE, true, "baseline of a policy with network rules" },
};

static const struct sandbox_path plumbing[] = {
	{ "/dev/null", SANDBOX_WRITE, true, "programs discard output" },
	{ "/dev/zero", SANDBOX_READ, true, "programs map zero pages" },
	{ "/dev/random", SANDBOX_READ, true, "random numbers" },
	{ "/dev/urandom", SANDBOX_READ, true, "random numbers" },
	{ "/dev/tty", SANDBOX_WRITE, true, "the session's own terminal" },
	{ "/dev/ptmx", SANDBOX_WRITE, true, "terminals that programs open" },
	{ "/dev/pts", SANDBOX_WRITE, true, "terminals" },
	{ "/run/systemd/resolve", SANDBOX_READ_DATA, true, "the resolver replaces its file by rename" },
	{ "/run/holdfast", SANDBOX_READ_DATA, true, "the resolver's file, certificates, the agents' sockets" },
};

static bool covered(const struct guest_confine *c, const struct sandbox_path *p)
{
	for (size_t i = 0; i < c->profile.path_count; i++)
		if (!strcmp(c->paths[i].path, p->path) &&
		    (c->paths[i].access == p->access || c->paths[i].access == SANDBOX_WRITE ||
		     (c->paths[i].access == SANDBOX_READ && p->access == SANDBOX_READ_DATA)))
			return true;
	return false;
}

static void add_path(struct guest_confine *c, const struct sandbox_path *p)
{
	if (!covered(c, p))
		c->paths[c->profile.path_count++] = *p;
}

static int collect_paths(struct guest_confine *c, const struct guest_spec *s, struct err *e)
{
	size_t n_base = sizeof(baseline) / sizeof(baseline[0]), n_plumbing = sizeof(plumbing) / sizeof(plumbing[0]);

	c->paths = calloc(s->read_only_count + s->read_write_count + n_base + n_plumbing + 1, sizeof(*c->paths));
	if (!c->paths)
		return err_errno(e, "paths");
	c->profile.paths = c->paths;
	for (size_t i = 0; i < s->read_write_count; i++)
		add_path(c, &(struct sandbox_path){ s->read_write[i], SANDBOX_WRITE, false, NULL });
	for (size_t i = 0; i < s->read_only_count; i++)
		add_path(c, &(struct sandbox_path){ s->read_only[i], SANDBOX_READ, false, NULL });
	if (s->include_workdir)
		add_path(c, &(struct sandbox_path){ s->user.home, SANDBOX_WRITE, false, NULL });
	for (size_t i = 0; s->network_rules && i < n_base; i++)
		add_path(c, &baseline[i]);
	for (size_t i = 0; i < n_plumbing; i++)
		add_path(c, &plumbing[i]);
	return 0;
}

static int find_users(struct guest_confine *c, const struct guest *g, struct err *e)
{
	const struct guest_spec *s = g->spec;
	bool other = s->has_process && s->run_as_user && *s->run_as_user;

	if (guest_identity_find(g->root_fd, s->user.name, &c->owner, e) < 0)
		return -1;
	if (c->owner.uid != s->user.uid || c->owner.gid != s->user.gid)
		return err_set(e, "%s is %u:%u in the workspace, %u:%u in the spec", s->user.name, c->owner.uid,
			       c->owner.gid, s->user.uid, s->user.gid);
	snprintf(c->owner.home, sizeof(c->owner.home), "%s", s->user.home);
	c->session = c->owner;
	if (other && guest_identity_find(g->root_fd, s->run_as_user, &c->session, e) < 0)
		return -1;
	if (other && s->run_as_group && *s->run_as_group &&
	    guest_group_find(g->root_fd, s->run_as_group, &c->session.gid, e) < 0)
		return -1;
	if (c->session.uid == 0 || c->session.gid == 0) {
		errno = EPERM;
		return err_set(e, "the session would be root");
	}
	snprintf(c->session.home, sizeof(c->session.home), "%s", s->user.home);
	if (!strncmp(c->session.shell, "/usr/sbin/nologin", 17) || !strcmp(c->session.shell, "/bin/false"))
		snprintf(c->session.shell, sizeof(c->session.shell), "/bin/sh");
	return c->level == GUEST_STRICT ? 0 : guest_identity_groups(g->root_fd, &c->session, e);
}

/* Two ids change places, all others stay: an unmapped id would show as nobody. */
static int swap_map(char *out, size_t size, unsigned a, unsigned b)
{
	unsigned low = a < b ? a : b, high = a < b ? b : a;
	int n = snprintf(out, size, "0 0 %u\n%u %u 1\n%u %u 1\n", low, low, high, high, low);

	if (high - low > 1)
		n += snprintf(out + n, size - (size_t)n, "%u %u %u\n", low + 1, low + 1, high - low - 1);
	return n + snprintf(out + n, size - (size_t)n, "%u %u %u\n", high + 1, high + 1, UINT32_MAX - high - 1);
}

static int write_map(int proc_fd, pid_t pid, const char *file, unsigned a, unsigned b)
{
	char path[64], map[256];

	snprintf(path, sizeof(path), "%d/%s", pid, file);
	if (a == b)
		snprintf(map, sizeof(map), "0 0 %u\n", UINT32_MAX);
	else
		swap_map(map, sizeof(map), a, b);
	return guest_write_file(proc_fd, path, map);
}

/* A user namespace that nobody lives in; its maps are what a mount can take. -1 with errno. */
static int map_namespace(const struct guest_confine *c)
{
	int proc_fd = c->guest->proc_fd, ready[2], fd = -1;
	char byte, path[64];
	pid_t pid;
	ssize_t n;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		/* In the workspace's root, since a process in any other counts as chrooted and may not. */
		if (fchdir(c->guest->root_fd) < 0 || chroot(".") < 0 || unshare(CLONE_NEWUSER) < 0 ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	snprintf(path, sizeof(path), "%d/ns/user", pid);
	n = pid > 0 ? read(ready[0], &byte, 1) : -1;
	if (n == 0)
		errno = EPERM;
	if (n == 1 &&
	    write_map(proc_fd, pid, "uid_map", c->owner.uid, c->session.uid) == 0 &&
	    write_map(proc_fd, pid, "gid_map", c->owner.gid, c->session.gid) == 0)
		fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	close(ready[0]);
	if (pid > 0) {
		int saved = errno;

		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		errno = saved;
	}
	return fd;
}

static int make_dir(const struct guest *g, const char *name, mode_t mode)
{
	return mkdirat(g->run_fd, name, mode) < 0 && errno != EEXIST ? -1 : 0;
}

static int make_masks(const struct guest *g)
{
	int fd;

	if (make_dir(g, "mask", 0711) < 0 || make_dir(g, "mask/dir", 0) < 0 || make_dir(g, "mask/systemd", 0755) < 0 ||
	    make_dir(g, "mask/systemd/system", 0755) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(systemd_kept) / sizeof(systemd_kept[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "mask/systemd/%s", systemd_kept[i]);
		if (make_dir(g, name, 0755) < 0)
			return -1;
	}
	fd = openat(g->run_fd, "mask/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static const char *cover_of(const char *path, mode_t mode)
{
	if (!strcmp(path, SYSTEMD))
		return MASK_SYSTEMD;
	return S_ISDIR(mode) ? MASK_DIR : MASK_FILE;
}

/* What is kept is laid into the cover, which only this namespace sees, and goes with it. */
static int keep_systemd(void)
{
	for (size_t i = 0; i < sizeof(systemd_kept) / sizeof(systemd_kept[0]); i++) {
		char from[64], to[64];

		snprintf(from, sizeof(from), SYSTEMD "/%s", systemd_kept[i]);
		snprintf(to, sizeof(to), MASK_SYSTEMD "/%s", systemd_kept[i]);
		if (mount(from, to, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
			return -1;
	}
	return 0;
}

static bool is_covered(const char *path, mode_t mode)
{
	struct stat st, mask;

	return stat(path, &st) == 0 && stat(cover_of(path, mode), &mask) == 0 && st.st_ino == mask.st_ino &&
	       st.st_dev == mask.st_dev;
}

int guest_masks_apply(const char **path)
{
	for (size_t i = 0; i < GUEST_MASKS; i++) {
		struct stat st;

		*path = guest_masks[i];
		if (lstat(*path, &st) < 0)
			continue;
		if (S_ISLNK(st.st_mode)) {
			errno = ELOOP;
			return -1;
		}
		if (!strcmp(*path, SYSTEMD) && keep_systemd() < 0)
			return -1;
		if (mount(cover_of(*path, st.st_mode), *path, NULL, MS_BIND | (strcmp(*path, SYSTEMD) ? 0 : MS_REC), NULL) < 0)
			return -1;
		if (!is_covered(*path, st.st_mode)) {
			errno = EXDEV;
			return -1;
		}
	}
	return 0;
}

struct probe_result {
	struct sandbox_report report;
	bool ok;
	bool masked[GUEST_MASKS];
	char text[200];
};

/* Inside the confined child. Its standard output is the pipe back. */
static int probe_inside(void *user)
{
	const struct guest_confine *c = user;
	struct probe_result result = { .report = c->report };
	struct err e = { .text = "" };
	struct stat st;

	result.ok = sandbox_probe(&c->profile, &result.report, &e) == 0;
	if (result.ok && c->idmap_fd >= 0 && (stat(c->owner.home, &st) < 0 || st.st_uid != c->session.uid)) {
		result.ok = false;
		err_set(&e, "probe: the home belongs to %u inside, not to %u", st.st_uid, c->session.uid);
	}
	for (size_t i = 0; c->level >= GUEST_FILES && i < GUEST_MASKS; i++)
		result.masked[i] = stat(guest_masks[i], &st) == 0 && is_covered(guest_masks[i], st.st_mode);
	snprintf(result.text, sizeof(result.text), "%.199s", e.text);
	return io_write_all(STDOUT_FILENO, &result, sizeof(result)) < 0;
}

/* One child through every step, outside the sandbox cgroup and with quiet filters, so that its refusals are no event. */
static int probe_child(struct guest_confine *c, struct guest_child_failure *failure, struct probe_result *result)
{
	int out[2], error[2];
	struct guest_child child = {
		.confine = c, .who = &c->session, .cgroup_fd = -1, .cwd = "/", .run = probe_inside, .user = c,
	};
	pid_t pid;
	int r;

	memset(failure, 0, sizeof(*failure));
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		if (c->filters)
			sandbox_filters_quiet(c->filters); /* this process's copy */
		child.in_fd = child.err_fd = out[1];
		child.out_fd = out[1];
		child.error_fd = error[1];
		guest_child_run(&child);
	}
	close(out[1]);
	close(error[1]);
	r = io_read_all(error[0], failure, sizeof(*failure));
	if (r == 0) {
		errno = failure->error_nr;
		r = -1;
	} else {
		r = io_read_all(out[0], result, sizeof(*result));
	}
	close(out[0]);
	close(error[0]);
	if (pid > 0) {
		int saved = errno;

		waitpid(pid, NULL, 0);
		errno = saved;
	}
	return r;
}

static int fail(struct guest *g, const char *step, const char *path, const struct err *e)
{
	return guest_step_failed(&g->steps, step, path, errno, e->text);
}

static int probe(struct guest_confine *c, struct guest *g)
{
	struct guest_child_failure failure;
	struct probe_result result = { .ok = false };
	int r = probe_child(c, &failure, &result);

	if (r < 0 && !strcmp(failure.step, "idmapped_home")) {
		snprintf(c->idmap_reason, sizeof(c->idmap_reason), "%.100s: %s", failure.path, strerror(failure.error_nr));
		guest_step_degraded(&g->steps, "idmapped_home", failure.path, failure.error_nr, NULL);
		close(c->idmap_fd);
		c->idmap_fd = -1;
		r = probe_child(c, &failure, &result);
	}
	if (r < 0)
		return guest_step_failed(&g->steps, *failure.step ? failure.step : "probe", failure.path, errno, NULL);
	if (!result.ok)
		return guest_step_failed(&g->steps, "probe", "", EPERM, result.text);
	c->report.landlock_enforced = result.report.landlock_enforced;
	c->report.filters_enforced = result.report.filters_enforced;
	c->report.no_new_privs = result.report.no_new_privs;
	c->report.filters = c->filters ? 3 : 0;
	memcpy(c->masked, result.masked, sizeof(c->masked));
	c->setuid0_refused = c->bounding_empty = c->level == GUEST_STRICT;
	c->probed = true;
	guest_step_ok(&g->steps, "probe");
	return 0;
}

static int prepare_filters(struct guest_confine *c, struct guest *g)
{
	struct err e = { .text = "" };

	if (c->level != GUEST_STRICT)
		return 0;
	c->filters = sandbox_filters_new(&c->profile, &e);
	if (!c->filters)
		return fail(g, "seccomp_compile", "", &e);
	guest_step_ok(&g->steps, "seccomp_compile");
	return 0;
}

static int prepare_ruleset(struct guest_confine *c, struct guest *g)
{
	struct err e = { .text = "" };

	c->ruleset_fd = sandbox_ruleset_open(&c->profile, g->root_fd, &c->report, &e);
	if (c->ruleset_fd == -1)
		return fail(g, "landlock_ruleset", "", &e);
	if (c->profile.landlock && c->ruleset_fd == SANDBOX_NO_RULESET)
		guest_step_degraded(&g->steps, "landlock_ruleset", "", ENOSYS, c->report.lost);
	else if (c->ruleset_fd >= 0)
		guest_step_ok(&g->steps, "landlock_ruleset");
	return 0;
}

static void prepare_idmap(struct guest_confine *c, struct guest *g)
{
	if (c->level != GUEST_STRICT || c->session.uid == c->owner.uid)
		return;
	c->idmap_fd = map_namespace(c);
	if (c->idmap_fd >= 0)
		return;
	snprintf(c->idmap_reason, sizeof(c->idmap_reason), "user namespace: %s", strerror(errno));
	guest_step_degraded(&g->steps, "idmapped_home", c->owner.home, errno, c->idmap_reason);
}

/* ping works without a capability for groups in this range. */
static void allow_ping(const struct guest_confine *c)
{
	char range[32];

	snprintf(range, sizeof(range), "%u %u", c->session.gid, c->session.gid);
	guest_write_file(c->guest->proc_fd, "sys/net/ipv4/ping_group_range", range);
}

static void init(struct guest_confine *c, struct guest *g)
{
	memset(c, 0, sizeof(*c));
	c->guest = g;
	c->level = g->spec->level;
	c->ruleset_fd = SANDBOX_NO_RULESET;
	c->idmap_fd = -1;
	c->profile = c->level == GUEST_STRICT ? sandbox_profile_guest_strict : sandbox_profile_guest_files;
	c->profile.landlock = g->spec->has_filesystem;
	c->profile.compat = g->spec->compat;
	c->profile.place = "/dev/pts";
	c->profile.place_fd = g->pts_fd;
	c->profile.supervisor_pid = getpid();
	c->profile.supervisor_pgid = getpgrp();
}

int guest_confine_preflight(struct guest *g)
{
	struct guest_confine c;
	struct err e = { .text = "" };
	int fd = SANDBOX_NO_RULESET;

	init(&c, g);
	if (find_users(&c, g, &e) < 0)
		return fail(g, "identity", "/etc/passwd", &e);
	if (collect_paths(&c, g->spec, &e) < 0)
		return fail(g, "paths", "", &e);
	errno = EINVAL;
	if (c.profile.landlock && sandbox_paths_check(c.paths, c.profile.path_count, &e) < 0)
		fd = -1;
	c.profile.path_count = 0;
	if (fd != -1 && c.level >= GUEST_FILES)
		fd = sandbox_ruleset_open(&c.profile, g->root_fd, &c.report, &e);
	free(c.paths);
	if (fd == -1)
		return fail(g, "landlock_ruleset", "", &e);
	if (fd >= 0)
		close(fd);
	return 0;
}

int guest_confine_prepare(struct guest_confine *c, struct guest *g)
{
	struct err e = { .text = "" };

	init(c, g);
	if (find_users(c, g, &e) < 0)
		return fail(g, "identity", "/etc/passwd", &e);
	guest_step_ok(&g->steps, "identity");
	if (collect_paths(c, g->spec, &e) < 0)
		return fail(g, "paths", "", &e);
	if (c->level == GUEST_OBSERVE)
		return probe(c, g);
	if (make_masks(g) < 0)
		return guest_step_failed(&g->steps, "masks", MASK_DIR, errno, NULL);
	if (prepare_ruleset(c, g) < 0 || prepare_filters(c, g) < 0)
		return -1;
	prepare_idmap(c, g);
	if (c->level == GUEST_STRICT)
		allow_ping(c);
	return probe(c, g);
}

static const char *access_name(enum sandbox_access access)
{
	return access == SANDBOX_WRITE ? "read_write" : access == SANDBOX_READ ? "read_only" : "read_data";
}

json_t *guest_confine_landlock_json(const struct guest_confine *c)
{
	json_t *additions = json_array();
	bool wanted = c->profile.landlock;

	for (size_t i = 0; wanted && i < c->profile.path_count; i++)
		if (c->paths[i].reason)
			json_array_append_new(additions,
					      json_pack("{s:s, s:s, s:s}", "path", c->paths[i].path, "access",
							access_name(c->paths[i].access), "reason", c->paths[i].reason));
	return json_pack("{s:b, s:s, s:i, s:b, s:b, s:b, s:s, s:{s:i, s:i, s:s}, s:b, s:o}", "requested", wanted,
			 "compatibility", c->profile.compat == SANDBOX_HARD_REQUIREMENT ? "hard_requirement" : "best_effort",
			 "abi", c->report.landlock_abi, "enforced", c->report.landlock_enforced, "probed",
			 wanted && c->probed, "degraded",
			 wanted && (!c->report.landlock_enforced || c->report.missing_paths || c->report.landlock_abi < 5),
			 "lost", c->report.lost, "paths", "user", (int)c->report.user_paths, "missing_count",
			 (int)c->report.missing_paths, "missing", c->report.missing, "scoped", c->report.scoped != 0,
			 "additions", additions);
}

json_t *guest_confine_seccomp_json(const struct guest_confine *c)
{
	return json_pack("{s:b, s:i, s:b, s:b, s:b}", "requested", c->filters != NULL, "filters", (int)c->report.filters,
			 "enforced", c->report.filters_enforced, "probed", c->filters && c->probed, "no_new_privs",
			 c->report.no_new_privs);
}

json_t *guest_confine_identity_json(const struct guest_confine *c)
{
	bool wanted = c->session.uid != c->owner.uid;

	return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s}", "user", c->session.name, "uid", (json_int_t)c->session.uid, "gid",
			 (json_int_t)c->session.gid, "home", c->session.home, "idmap",
			 !wanted ? "none" : c->idmap_fd >= 0 ? "mapped" : "fallback", "idmap_reason", c->idmap_reason);
}

json_t *guest_confine_masks_json(const struct guest_confine *c)
{
	json_t *list = json_array();

	for (size_t i = 0; c->level >= GUEST_FILES && i < GUEST_MASKS; i++)
		if (c->masked[i])
			json_array_append_new(list, json_pack("{s:s, s:b}", "path", guest_masks[i], "ok", 1));
	return list;
}
