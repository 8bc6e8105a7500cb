// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Refused file and socket operations of the sandbox.
 *
 * Return probes on the security hooks that Landlock answers. The entry handler lets the instance go at once unless
 * the task is in the sandbox, so that others pay little and cannot use instances up. DAC refuses before these hooks,
 * so an event means that a security module said no.
 *
 * The hooks return int: as an unsigned register, -EACCES is not -EACCES, and a comparison would never be true.
 */
#include <linux/fs.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/socket.h>
#include <net/ipv6.h>

#include "canary.h"
#include "gate.h"
#include "ops.h"
#include "probe.h"
#include "tally.h"
#include "task.h"

/* Opens can be held up on purpose, by fanotify permission events below the hook; the others cannot. */
#define OPEN_INSTANCES 512
#define INSTANCES 64

/* What the hook was asked about. The caller of the hook holds all of it until the hook has returned. */
struct question {
	const struct path *dir;
	struct dentry *dentry;
	struct file *file;
	u16 port;
	u8 family;
};

static bool is_refusal(const struct pt_regs *regs)
{
	int result = (int)regs_return_value((struct pt_regs *)regs);

	return result == -EACCES || result == -EPERM;
}

/* 0 keeps the instance for the return. */
static int in_sandbox(void)
{
	if (sentry_task_is_own()) {
		sentry_selftest_answer(SENTRY_SELFTEST_OPEN);
		return 1;
	}
	return sentry_task_is_sandboxed(current) ? 0 : 1;
}

static enum sentry_denied_op open_op(const struct file *file)
{
	/* FMODE_EXEC is in f_flags while the file is opened; both are looked at, as kernels differ. */
	if ((__force unsigned int)file->f_mode & (__force unsigned int)FMODE_EXEC ||
	    file->f_flags & (__force unsigned int)FMODE_EXEC)
		return SENTRY_DENIED_OPEN_EXEC;
	return file->f_mode & FMODE_WRITE ? SENTRY_DENIED_OPEN_WRITE : SENTRY_DENIED_OPEN_READ;
}

static int refused(enum sentry_denied_op op, struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct question *q = SENTRY_DATA(ri, struct question);
	struct sentry_record *r;

	if (!is_refusal(regs)) {
		atomic64_inc(&sentry_sums.allowed_file_ops);
		return 0;
	}
	atomic64_inc(&sentry_sums.denied_file_ops);
	r = sentry_record_begin(HF_SENTRY_KIND_SANDBOX_DENIED);
	if (!r)
		return 0;
	r->op = op;
	r->detail.denied.error = (int)regs_return_value(regs);
	sentry_record_add_exe(r);
	if (q->file) {
		r->detail.denied.access = q->file->f_flags;
		sentry_record_add_path(r, SENTRY_TEXT_PATH, &q->file->f_path);
	} else if (q->dentry) {
		sentry_record_add_child(r, q->dir, q->dentry);
	} else if (q->dir) {
		sentry_record_add_path(r, SENTRY_TEXT_PATH, q->dir);
	} else {
		r->detail.denied.address_family = q->family;
		r->detail.denied.port = q->port;
	}
	sentry_gate_offer(r, true);
	sentry_record_end(r);
	return 0;
}

static int on_file(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct question *q = SENTRY_DATA(ri, struct question);

	if (in_sandbox())
		return 1;
	*q = (struct question){ .file = (struct file *)sentry_arg(regs, 0) };
	return 0;
}

/* hook(dir, dentry, ...) */
static int on_child(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct question *q = SENTRY_DATA(ri, struct question);

	if (in_sandbox())
		return 1;
	*q = (struct question){
		.dir = (const struct path *)sentry_arg(regs, 0), .dentry = (struct dentry *)sentry_arg(regs, 1),
	};
	return 0;
}

/* hook(old dentry, new dir, new dentry) */
static int on_link(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct question *q = SENTRY_DATA(ri, struct question);

	if (in_sandbox())
		return 1;
	*q = (struct question){
		.dir = (const struct path *)sentry_arg(regs, 1), .dentry = (struct dentry *)sentry_arg(regs, 2),
	};
	return 0;
}

static int on_path(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct question *q = SENTRY_DATA(ri, struct question);

	if (in_sandbox())
		return 1;
	*q = (struct question){ .dir = (const struct path *)sentry_arg(regs, 0) };
	return 0;
}

/* hook(socket, address, length); the address is the kernel's copy. */
static int on_address(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct sockaddr *address = (const struct sockaddr *)sentry_arg(regs, 1);
	int len = (int)sentry_arg(regs, 2);
	struct question *q = SENTRY_DATA(ri, struct question);

	if (in_sandbox())
		return 1;
	*q = (struct question){ 0 };
	if (len >= (int)sizeof(address->sa_family))
		q->family = address->sa_family;
	if (q->family == AF_INET && len >= (int)sizeof(struct sockaddr_in))
		q->port = ntohs(((const struct sockaddr_in *)address)->sin_port);
	else if (q->family == AF_INET6 && len >= SIN6_LEN_RFC2133)
		q->port = ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
	return 0;
}

static int open_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return refused(open_op(SENTRY_DATA(ri, struct question)->file), ri, regs);
}

#define DONE(function, op)                                                                         \
	static int function(struct kretprobe_instance *ri, struct pt_regs *regs)                   \
	{                                                                                          \
		return refused(op, ri, regs);                                                      \
	}
DONE(mknod_done, SENTRY_DENIED_CREATE)
DONE(mkdir_done, SENTRY_DENIED_MKDIR)
DONE(rmdir_done, SENTRY_DENIED_RMDIR)
DONE(unlink_done, SENTRY_DENIED_UNLINK)
DONE(symlink_done, SENTRY_DENIED_SYMLINK)
DONE(link_done, SENTRY_DENIED_LINK)
DONE(rename_done, SENTRY_DENIED_RENAME)
DONE(truncate_done, SENTRY_DENIED_TRUNCATE)
DONE(connect_done, SENTRY_DENIED_CONNECT)
DONE(bind_done, SENTRY_DENIED_BIND)

#define DENIAL(symbol, entry, done) SENTRY_DENIAL(symbol, entry, done, sizeof(struct question), INSTANCES)

static struct sentry_probe probes[] = {
	SENTRY_DENIAL("security_file_open", on_file, open_done, sizeof(struct question), OPEN_INSTANCES),
	DENIAL("security_path_mknod", on_child, mknod_done),
	DENIAL("security_path_mkdir", on_child, mkdir_done),
	DENIAL("security_path_rmdir", on_child, rmdir_done),
	DENIAL("security_path_unlink", on_child, unlink_done),
	DENIAL("security_path_symlink", on_child, symlink_done),
	DENIAL("security_path_link", on_link, link_done),
	DENIAL("security_path_rename", on_child, rename_done),
	DENIAL("security_path_truncate", on_path, truncate_done),
	DENIAL("security_file_truncate", on_file, truncate_done),
	DENIAL("security_socket_connect", on_address, connect_done),
	DENIAL("security_socket_bind", on_address, bind_done),
};
const struct sentry_probe_table sentry_hook_denied = { probes, ARRAY_SIZE(probes) };
