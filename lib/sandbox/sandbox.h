/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Confinement of a process: Landlock, no_new_privs and seccomp, as one library for guest and host.
 *
 * Short form (a host role that confines itself):
 *
 *	struct sandbox_path paths[] = {
 *		{ .path = "/usr/lib", .access = SANDBOX_READ },
 *		{ .path = state_dir,  .access = SANDBOX_WRITE },
 *	};
 *	struct sandbox_profile p = sandbox_profile_vm;
 *	p.paths = paths;
 *	p.path_count = 2;
 *	if (sandbox_apply(&p, &report, &err) < 0)
 *		die("%s", err.text);		// the step and the path are in the text
 *
 * Long form (a supervisor that confines a child): sandbox_ruleset_open() as root in the parent, then in
 * the child, after its privileges are gone, sandbox_ruleset_enter() and sandbox_filters_enter().
 *
 * Confinement is inherited by fork and exec and can never be undone. Descriptors that are open already
 * keep their rights: close what the process must not have before it applies a profile.
 */
#ifndef LIB_SANDBOX_SANDBOX_H
#define LIB_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum sandbox_access {
	SANDBOX_READ = 1,	/* execute, read files, list directories */
	SANDBOX_WRITE = 2,	/* everything that Landlock handles */
	SANDBOX_READ_DATA = 3,	/* read files and list directories, never execute */
};

struct sandbox_path {
	const char *path;	/* absolute */
	enum sandbox_access access;
	bool optional;		/* an absent path is skipped whatever the compatibility says */
	const char *reason;	/* NULL for a path that the user configured, else why it was added */
};

enum sandbox_compat {
	SANDBOX_BEST_EFFORT,		/* go on with what the kernel offers and say what is lost */
	SANDBOX_HARD_REQUIREMENT,	/* refuse when a handled right or a configured path is missing */
};

/* Which set of seccomp filters a profile installs. */
enum sandbox_filter_set {
	SANDBOX_FILTERS_NONE,
	SANDBOX_FILTERS_GUEST,	/* hardening, compat, main: default allow, each call decided in the table */
	SANDBOX_FILTERS_ROLE,	/* a host role: only the classes in allowed_classes, the rest EPERM */
};

/* Classes of system calls in the table (lib/sandbox/table.c); a role allows a set of them. */
enum sandbox_class {
	SANDBOX_CLASS_FD	= 1u << 0,	/* read, write, poll, epoll, eventfd, pipes, fcntl */
	SANDBOX_CLASS_FILE	= 1u << 1,	/* open, stat, rename, unlink, links, truncation, modes */
	SANDBOX_CLASS_MEMORY	= 1u << 2,
	SANDBOX_CLASS_TIME	= 1u << 3,
	SANDBOX_CLASS_SIGNAL	= 1u << 4,
	SANDBOX_CLASS_PROCESS	= 1u << 5,	/* fork, threads, wait, exit, own limits and ids (reading) */
	SANDBOX_CLASS_EXEC	= 1u << 6,	/* execve, execveat */
	SANDBOX_CLASS_NET	= 1u << 7,	/* sockets of AF_UNIX, AF_INET, AF_INET6 */
	SANDBOX_CLASS_MEMFD	= 1u << 8,	/* memfd_create */
	SANDBOX_CLASS_IDENTITY	= 1u << 9,	/* setuid, setgroups, capset ... */
	SANDBOX_CLASS_IPC	= 1u << 10,	/* SysV and POSIX queues, shared memory, semaphores */
	SANDBOX_CLASS_SANDBOX	= 1u << 11,	/* landlock_*, seccomp */
	SANDBOX_CLASS_XATTR	= 1u << 12,
	SANDBOX_CLASS_SCHED	= 1u << 13,
	SANDBOX_CLASS_TRACE	= 1u << 14,	/* ptrace, process_vm_*, perf, bpf, pidfd_getfd, kcmp */
	SANDBOX_CLASS_MOUNT	= 1u << 15,
	SANDBOX_CLASS_NAMESPACE	= 1u << 16,
	SANDBOX_CLASS_KEYS	= 1u << 17,
	SANDBOX_CLASS_URING	= 1u << 18,
	SANDBOX_CLASS_ADMIN	= 1u << 19,	/* modules, kexec, reboot, swap, clocks, ports, quota */
	SANDBOX_CLASS_OBSOLETE	= 1u << 20,	/* not implemented by any kernel we meet */
};

struct sandbox_profile {
	const char *name;
	bool landlock;			/* false: the path list is ignored (scopes still apply) */
	enum sandbox_compat compat;
	const struct sandbox_path *paths;
	size_t path_count;
	const char *place;		/* a path that will name something else by then; NULL: none */
	int place_fd;			/* what it will name (O_PATH) */
	bool scope_abstract;		/* ABI 6: no connect to abstract sockets made outside */
	bool scope_signal;		/* ABI 6: no signals to processes outside */
	bool deny_tcp_bind;		/* ABI 4 */
	bool deny_tcp_connect;		/* ABI 4 */
	bool no_new_privs;
	enum sandbox_filter_set filters;
	uint32_t allowed_classes;	/* SANDBOX_FILTERS_ROLE */
	bool role_inet;			/* SANDBOX_FILTERS_ROLE: AF_INET and AF_INET6 as well as AF_UNIX */
	pid_t supervisor_pid;		/* SANDBOX_FILTERS_GUEST: who may not be reached; 0 = nobody */
	pid_t supervisor_pgid;
};

/* Templates. Copy one, set paths (and supervisor_pid), apply. The qemu profile has no filter: QEMU brings
 * its own (-sandbox), and confinement is inherited. */
extern const struct sandbox_profile sandbox_profile_guest_files;
extern const struct sandbox_profile sandbox_profile_guest_strict;
extern const struct sandbox_profile sandbox_profile_hostd;
extern const struct sandbox_profile sandbox_profile_vm;
extern const struct sandbox_profile sandbox_profile_proxy;
extern const struct sandbox_profile sandbox_profile_qemu;
const struct sandbox_profile *sandbox_profile_find(const char *name);

/* What was applied, and what a probe then saw. */
struct sandbox_report {
	int landlock_abi;		/* 0: the kernel has none */
	uint64_t handled_fs, handled_net, scoped;
	char lost[512];			/* what an older ABI loses, "; " between; empty at ABI 6 and above */
	unsigned user_paths, plumbing_paths, missing_paths;
	char missing[512];		/* the first missing paths, " " between */
	bool landlock_enforced;		/* probed: an open outside the rules was denied */
	bool no_new_privs;		/* read back from the kernel */
	unsigned filters;		/* how many were installed */
	bool filters_enforced;		/* probed: a call that the table denies was denied */
};

/*
 * Applies the profile to the calling thread and its future children: ruleset, no_new_privs, filters, then
 * probes. Single-threaded callers only. -1 with e set if any step fails; the process may then be partly
 * confined and must exit.
 */
int sandbox_apply(const struct sandbox_profile *p, struct sandbox_report *rep, struct err *e);

/* --- the same, step by step --- */

/* Refuses a read path below a write path (Landlock only adds rights) and paths that are not absolute. */
int sandbox_paths_check(const struct sandbox_path *paths, size_t n, struct err *e);

/* Whether inner is outer or lies below it, by components. */
bool sandbox_path_beneath(const char *inner, const char *outer);

/* Landlock ABI of the running kernel, 0 for none. */
int sandbox_landlock_abi(void);

/* What the newest ABI handles that abi lacks, as text. Returns the number of losses. */
int sandbox_landlock_lost(int abi, char *text, size_t size);

/* The file system rights that this ABI lets us handle. */
uint64_t sandbox_landlock_fs_rights(int abi);

/*
 * Builds the ruleset: each path is opened O_PATH beneath root_fd (AT_FDCWD: the caller's root; symlinks
 * resolve inside it, but none is followed in a path that lies in a writable one) and added. Returns a
 * close-on-exec ruleset fd, or -1. Under best effort SANDBOX_NO_RULESET with rep->lost set, where the
 * kernel offers nothing of what was asked; the same where nothing was.
 */
#define SANDBOX_NO_RULESET (-2)
int sandbox_ruleset_open(const struct sandbox_profile *p, int root_fd, struct sandbox_report *rep, struct err *e);

/* landlock_restrict_self. Needs no_new_privs or CAP_SYS_ADMIN. */
int sandbox_ruleset_enter(int ruleset_fd, struct err *e);

/* Compiled filters: made once, installed in many children. */
struct sandbox_filters;
struct sandbox_filters *sandbox_filters_new(const struct sandbox_profile *p, struct err *e);
void sandbox_filters_free(struct sandbox_filters *f);

/* Installs them in order (hardening, compat, main). Needs no_new_privs. Returns how many, -1 on failure. */
int sandbox_filters_enter(const struct sandbox_filters *f, struct err *e);
/* The same filters, and what they refuse is no event: for a child that only tries whether they refuse. */
void sandbox_filters_quiet(struct sandbox_filters *f);

/* Probes from inside: does the confinement hold? Fills the *_enforced members. -1 when it does not. */
int sandbox_probe(const struct sandbox_profile *p, struct sandbox_report *rep, struct err *e);

/* The table, for people (`sandboxd --print-filter`). fd is written to as text, one row a line. */
int sandbox_table_print(int fd);

#endif
