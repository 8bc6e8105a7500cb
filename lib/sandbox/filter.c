// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compiles the table into seccomp filters and installs them.
 *
 * Three filters for the guest, since they differ in what the kernel logs: hardening and main carry
 * SECCOMP_FILTER_FLAG_LOG, so that each refusal is an event of the Sentry; compat does not, since glibc
 * asks for clone3 again with each thread. Of two filters that answer ERRNO the one installed last wins.
 * libseccomp makes the programs; they are loaded here, so that one compilation serves every session.
 */
#include "lib/sandbox/filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/err.h"
#include "lib/sandbox/table.h"

enum { FILTERS_MAX = 3 };

struct program {
	struct sock_filter *code;
	unsigned short len;
	bool log;
};

struct sandbox_filters {
	struct program programs[FILTERS_MAX];
	unsigned count;
};

static void context_release(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}
#define _cleanup_context_ __attribute__((cleanup(context_release)))

static struct scmp_arg_cmp compare(unsigned arg, uint32_t mask, uint32_t value)
{
	return (struct scmp_arg_cmp){ .arg = arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value };
}

static int add(scmp_filter_ctx ctx, uint32_t action, int nr, unsigned n, const struct scmp_arg_cmp *args,
	       struct err *e)
{
	int r = seccomp_rule_add_array(ctx, action, nr, n, args);

	if (r == 0 || r == -EEXIST)
		return 0;
	errno = -r;
	return err_errno(e, "seccomp: rule for system call %d", nr);
}

static uint32_t operand(const struct sandbox_compare *c, const struct sandbox_profile *p)
{
	switch (c->operand) {
	case SANDBOX_SUPERVISOR:
		return (uint32_t)p->supervisor_pid;
	case SANDBOX_SUPERVISOR_GROUP:
		return (uint32_t)p->supervisor_pgid;
	case SANDBOX_SUPERVISOR_GROUP_NEG:
		return (uint32_t)-p->supervisor_pgid;
	case SANDBOX_VALUE:
		break;
	}
	return c->value;
}

/* Whether the rule names a supervisor that this profile does not have. */
static bool names_nobody(const struct sandbox_arg_rule *r, const struct sandbox_profile *p)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->compare[i].operand != SANDBOX_VALUE && !operand(&r->compare[i], p))
			return true;
	return false;
}

static int add_arg_rules(scmp_filter_ctx ctx, enum sandbox_filter_id filter, const struct sandbox_profile *p,
			 struct err *e)
{
	for (size_t i = 0; i < sandbox_arg_rule_count; i++) {
		const struct sandbox_arg_rule *r = &sandbox_arg_rules[i];
		struct scmp_arg_cmp args[2];

		if (r->filter != filter || names_nobody(r, p))
			continue;
		for (unsigned k = 0; k < r->count; k++)
			args[k] = compare(r->compare[k].arg, r->compare[k].mask, operand(&r->compare[k], p));
		if (add(ctx, SCMP_ACT_ERRNO(EPERM), r->nr, r->count, args, e) < 0)
			return -1;
	}
	return 0;
}

/* Refuses the families that sandbox_family_allowed() does not name. "Protocol is not 0" is one rule for
 * each bit, since a masked comparison can only ask for equality. */
static int add_family_rules(scmp_filter_ctx ctx, struct err *e)
{
	static const int calls[] = { SYS_socket, SYS_socketpair };

	for (size_t c = 0; c < 2; c++) {
		for (unsigned family = 0; family <= SANDBOX_FAMILY_MAX; family++) {
			struct scmp_arg_cmp arg = compare(0, UINT32_MAX, family);

			if (family == AF_NETLINK || sandbox_family_allowed(family))
				continue;
			if (add(ctx, SCMP_ACT_ERRNO(EPERM), calls[c], 1, &arg, e) < 0)
				return -1;
		}
		for (unsigned bit = 0; bit < 32; bit++) {
			struct scmp_arg_cmp args[] = {
				compare(0, UINT32_MAX, AF_NETLINK),
				compare(2, 1u << bit, 1u << bit),
			};

			if (add(ctx, SCMP_ACT_ERRNO(EPERM), calls[c], 2, args, e) < 0)
				return -1;
		}
	}
	return 0;
}

/* Calls of kernels newer than the table: as if the kernel did not have them. */
static int add_undecided(scmp_filter_ctx ctx, struct err *e)
{
	for (int nr = 0; nr <= SANDBOX_UNDECIDED_MAX; nr++)
		if (!sandbox_call_by_nr(nr) && add(ctx, SCMP_ACT_ERRNO(ENOSYS), nr, 0, NULL, e) < 0)
			return -1;
	return 0;
}

static bool decided_by(const struct sandbox_call *call, enum sandbox_filter_id filter)
{
	switch (filter) {
	case SANDBOX_FILTER_MAIN:
		return call->decision == SANDBOX_MAIN || call->decision == SANDBOX_BOTH;
	case SANDBOX_FILTER_HARDENING:
		return call->decision == SANDBOX_HARDEN || call->decision == SANDBOX_BOTH;
	case SANDBOX_FILTER_COMPAT:
		return call->decision == SANDBOX_COMPAT;
	case SANDBOX_FILTER_ROLE:
		break;
	}
	return false;
}

static int fill_guest(scmp_filter_ctx ctx, enum sandbox_filter_id filter, const struct sandbox_profile *p,
		      struct err *e)
{
	uint32_t action = SCMP_ACT_ERRNO(filter == SANDBOX_FILTER_COMPAT ? ENOSYS : EPERM);

	for (size_t i = 0; i < sandbox_call_count; i++)
		if (decided_by(&sandbox_calls[i], filter) && add(ctx, action, sandbox_calls[i].nr, 0, NULL, e) < 0)
			return -1;
	if (add_arg_rules(ctx, filter, p, e) < 0)
		return -1;
	if (filter == SANDBOX_FILTER_MAIN)
		return add_family_rules(ctx, e);
	if (filter == SANDBOX_FILTER_COMPAT)
		return add_undecided(ctx, e);
	return 0;
}

static int allow_families(scmp_filter_ctx ctx, int nr, bool inet, struct err *e)
{
	static const uint32_t families[] = { AF_UNIX, AF_INET, AF_INET6 };
	struct scmp_arg_cmp route[] = { compare(0, UINT32_MAX, AF_NETLINK), compare(2, UINT32_MAX, 0) };

	for (size_t i = 0; i < (inet ? 3u : 1u); i++) {
		struct scmp_arg_cmp arg = compare(0, UINT32_MAX, families[i]);

		if (add(ctx, SCMP_ACT_ALLOW, nr, 1, &arg, e) < 0)
			return -1;
	}
	return inet ? add(ctx, SCMP_ACT_ALLOW, nr, 2, route, e) : 0;
}

/* Default deny: the classes of the role, with sockets by family and clone without namespaces. */
static int fill_role(scmp_filter_ctx ctx, const struct sandbox_profile *p, struct err *e)
{
	const uint32_t namespaces = 0x7e020000; /* NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET */
	struct scmp_arg_cmp plain = compare(0, namespaces, 0);

	for (size_t i = 0; i < sandbox_call_count; i++) {
		const struct sandbox_call *call = &sandbox_calls[i];
		int r;

		if (!(call->class & p->allowed_classes))
			continue;
		if (call->nr == SYS_socket || call->nr == SYS_socketpair)
			r = allow_families(ctx, call->nr, p->role_inet, e);
		else if (call->nr == SYS_clone)
			r = add(ctx, SCMP_ACT_ALLOW, call->nr, 1, &plain, e);
		else if (call->decision == SANDBOX_COMPAT)
			r = add(ctx, SCMP_ACT_ERRNO(ENOSYS), call->nr, 0, NULL, e);
		else
			r = add(ctx, SCMP_ACT_ALLOW, call->nr, 0, NULL, e);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int export(scmp_filter_ctx ctx, struct program *out, struct err *e)
{
	_cleanup_close_ int fd = memfd_create("filter", MFD_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return err_errno(e, "seccomp: memfd");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0) {
		errno = -r;
		return err_errno(e, "seccomp: export");
	}
	if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size / (off_t)sizeof(*out->code) > BPF_MAXINSNS)
		return err_set(e, "seccomp: the program has %lld bytes", (long long)st.st_size);
	out->code = malloc((size_t)st.st_size);
	if (!out->code)
		return err_errno(e, "seccomp: program");
	if (pread(fd, out->code, (size_t)st.st_size, 0) != st.st_size)
		return err_errno(e, "seccomp: read program");
	out->len = (unsigned short)((size_t)st.st_size / sizeof(*out->code));
	return 0;
}

static int compile(enum sandbox_filter_id filter, const struct sandbox_profile *p, struct program *out,
		   struct err *e)
{
	bool role = filter == SANDBOX_FILTER_ROLE;
	_cleanup_context_ scmp_filter_ctx ctx = seccomp_init(role ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);

	if (!ctx)
		return err_set(e, "seccomp: no memory");
	/* Any other architecture, and x32 numbers, which libseccomp treats alike. */
	if (seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0 ||
	    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
		return err_set(e, "seccomp: attributes");
	if ((role ? fill_role(ctx, p, e) : fill_guest(ctx, filter, p, e)) < 0)
		return -1;
	out->log = filter != SANDBOX_FILTER_COMPAT;
	return export(ctx, out, e);
}

struct sandbox_filters *sandbox_filters_new(const struct sandbox_profile *p, struct err *e)
{
	static const enum sandbox_filter_id guest[] = {
		SANDBOX_FILTER_HARDENING, SANDBOX_FILTER_COMPAT, SANDBOX_FILTER_MAIN,
	};
	static const enum sandbox_filter_id role[] = { SANDBOX_FILTER_ROLE };
	const enum sandbox_filter_id *which = p->filters == SANDBOX_FILTERS_ROLE ? role : guest;
	unsigned n = p->filters == SANDBOX_FILTERS_GUEST ? 3 : p->filters == SANDBOX_FILTERS_ROLE ? 1 : 0;
	struct sandbox_filters *f = calloc(1, sizeof(*f));

	if (!f) {
		err_errno(e, "seccomp: filters");
		return NULL;
	}
	for (; f->count < n; f->count++) {
		if (compile(which[f->count], p, &f->programs[f->count], e) < 0) {
			f->count++;
			sandbox_filters_free(f);
			return NULL;
		}
	}
	return f;
}

void sandbox_filters_free(struct sandbox_filters *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->count; i++)
		free(f->programs[i].code);
	free(f);
}

size_t sandbox_filters_code(const struct sandbox_filters *f, unsigned i, const struct sock_filter **code)
{
	if (i >= f->count)
		return 0;
	*code = f->programs[i].code;
	return f->programs[i].len;
}

void sandbox_filters_quiet(struct sandbox_filters *f)
{
	for (unsigned i = 0; i < f->count; i++)
		f->programs[i].log = false;
}

int sandbox_filters_enter(const struct sandbox_filters *f, struct err *e)
{
	for (unsigned i = 0; i < f->count; i++) {
		struct sock_fprog program = { f->programs[i].len, f->programs[i].code };
		unsigned flags = f->programs[i].log ? SECCOMP_FILTER_FLAG_LOG : 0;

		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0)
			continue;
		return err_errno(e, "seccomp: install filter %u of %u", i + 1, f->count);
	}
	return (int)f->count;
}
