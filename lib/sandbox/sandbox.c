// SPDX-License-Identifier: GPL-2.0-or-later
/* Applies a profile to the calling process, probes it from inside, and prints the table. */
#include "lib/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/err.h"
#include "lib/sandbox/table.h"

static void filters_release(struct sandbox_filters **f)
{
	sandbox_filters_free(*f);
}
#define _cleanup_filters_ __attribute__((cleanup(filters_release)))

/* "/" is a directory that everybody may list, so only Landlock can answer EACCES. */
static int probe_landlock(const struct sandbox_profile *p, struct sandbox_report *rep, struct err *e)
{
	_cleanup_close_ int fd = -1;

	for (size_t i = 0; i < p->path_count; i++)
		if (!strcmp(p->paths[i].path, "/"))
			return err_set(e, "probe: the rules cover /, so nothing could be refused");
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return err_set(e, "probe: / could be listed in spite of Landlock");
	if (errno != EACCES)
		return err_errno(e, "probe: list /");
	rep->landlock_enforced = true;
	return 0;
}

/* Without a filter the kernel answers ESRCH: there is no process -1. */
static int probe_filters(struct sandbox_report *rep, struct err *e)
{
	long r = syscall(SYS_ptrace, PTRACE_PEEKDATA, -1, 0, 0);

	if (r >= 0 || errno != EPERM)
		return err_errno(e, "probe: ptrace was not refused");
	rep->filters_enforced = true;
	return 0;
}

int sandbox_probe(const struct sandbox_profile *p, struct sandbox_report *rep, struct err *e)
{
	rep->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
	if (p->no_new_privs && !rep->no_new_privs)
		return err_set(e, "probe: no_new_privs is not set");
	if (p->landlock && rep->handled_fs && probe_landlock(p, rep, e) < 0)
		return -1;
	if (p->filters != SANDBOX_FILTERS_NONE)
		return probe_filters(rep, e);
	return 0;
}

int sandbox_apply(const struct sandbox_profile *p, struct sandbox_report *rep, struct err *e)
{
	_cleanup_filters_ struct sandbox_filters *filters = NULL;
	_cleanup_close_ int ruleset = -1;
	int n;

	memset(rep, 0, sizeof(*rep));
	ruleset = sandbox_ruleset_open(p, AT_FDCWD, rep, e);
	if (ruleset == -1)
		return -1;
	filters = sandbox_filters_new(p, e);
	if (!filters)
		return -1;
	if (p->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, "no_new_privs");
	if (ruleset >= 0 && sandbox_ruleset_enter(ruleset, e) < 0)
		return -1;
	n = sandbox_filters_enter(filters, e);
	if (n < 0)
		return -1;
	rep->filters = (unsigned)n;
	return sandbox_probe(p, rep, e);
}

static const char *decision_text(const struct sandbox_call *call)
{
	switch (call->decision) {
	case SANDBOX_MAIN:
		return "main EPERM";
	case SANDBOX_COMPAT:
		return "compat ENOSYS";
	case SANDBOX_HARDEN:
		return "hardening EPERM";
	case SANDBOX_BOTH:
		return "main,hardening EPERM";
	case SANDBOX_ARGS:
		return "by argument";
	case SANDBOX_ALLOW:
		break;
	}
	return "allow";
}

static void print_compare(int fd, const struct sandbox_compare *c)
{
	static const char *const names[] = { NULL, "SUPERVISOR", "GROUP", "-GROUP" };

	if (c->operand != SANDBOX_VALUE)
		dprintf(fd, " arg%u=%s", c->arg, names[c->operand]);
	else if (c->mask == UINT32_MAX)
		dprintf(fd, " arg%u=%#x", c->arg, c->value);
	else
		dprintf(fd, " arg%u&%#x=%#x", c->arg, c->mask, c->value);
}

int sandbox_table_print(int fd)
{
	static const char *const filters[] = { "hardening", "compat", "main", "role" };

	dprintf(fd, "# number name class decision; other architectures and x32: kill\n");
	for (size_t i = 0; i < sandbox_call_count; i++) {
		const struct sandbox_call *call = &sandbox_calls[i];

		dprintf(fd, "%d %s %s %s\n", call->nr, call->name, sandbox_class_name(call->class),
			decision_text(call));
		for (size_t k = 0; k < sandbox_arg_rule_count; k++) {
			const struct sandbox_arg_rule *r = &sandbox_arg_rules[k];

			if (r->nr != call->nr)
				continue;
			dprintf(fd, "%d %s - %s EPERM", r->nr, call->name, filters[r->filter]);
			for (unsigned c = 0; c < r->count; c++)
				print_compare(fd, &r->compare[c]);
			dprintf(fd, " # %s\n", r->what);
		}
		if (call->nr == SYS_socket || call->nr == SYS_socketpair)
			dprintf(fd, "%d %s - main EPERM arg0 not 0,1,2,10,16; 16 with arg2 not 0 # families\n",
				call->nr, call->name);
	}
	dprintf(fd, "other numbers up to %d - compat ENOSYS\n", SANDBOX_UNDECIDED_MAX);
	return 0;
}
