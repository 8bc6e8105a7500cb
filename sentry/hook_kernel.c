// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What reaches for the kernel or for other processes: ptrace, modules, bpf, kexec, lockdown and what it can refuse,
 * and refusals by seccomp.
 *
 * Loads of modules that succeed are seen at do_init_module(), refusals at the return of the system calls, so that
 * modules_disabled, signatures and lockdown are all covered. A system call has up to two wrappers (64 and 32 bit),
 * each taking pt_regs; both are probed.
 */
#include <linux/bpf.h>
#include <linux/kexec.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/security.h>
#include <linux/uaccess.h>

#include "gate.h"
#include "ops.h"
#include "probe.h"
#include "tally.h"
#include "task.h"

/* Enough for every thread that can wait in such a call at once on the machines we run on; "missed" tells otherwise. */
#define INSTANCES 32

/* ptrace */

static int ptraced(enum sentry_ptrace_op op, struct task_struct *target)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_PTRACE);

	if (!r)
		return 0;
	r->op = op;
	sentry_process_fill(&r->detail.target.process, target);
	return sentry_record_offer(r);
}

static int on_ptrace_access_check(struct kprobe *kp, struct pt_regs *regs)
{
	struct task_struct *child = (struct task_struct *)sentry_arg(regs, 0);

	if (!(sentry_arg(regs, 1) & PTRACE_MODE_ATTACH)) {
		sentry_tally_add(SENTRY_TALLY_PTRACE_READ, 1);
		return 0;
	}
	return ptraced(SENTRY_PTRACE_ATTACH, child);
}

static int on_ptrace_traceme(struct kprobe *kp, struct pt_regs *regs)
{
	return ptraced(SENTRY_PTRACE_TRACEME, (struct task_struct *)sentry_arg(regs, 0));
}

/* Modules */

static int on_do_init_module(struct kprobe *kp, struct pt_regs *regs)
{
	const struct module *mod = (const struct module *)sentry_arg(regs, 0);
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_MODULE_LOAD);

	if (!r)
		return 0;
	sentry_record_add_string(r, SENTRY_TEXT_PATH, mod->name);
	r->detail.module.taints = mod->taints;
#ifdef CONFIG_MODULE_SIG
	r->detail.module.is_signed = mod->sig_ok;
#endif
	return sentry_record_offer(r);
}

/* What a call of a system call wrapper was given; what it was asked for lies in user space, so it is read on entry. */
struct call {
	u64 arg[2];
	char name[MODULE_NAME_LEN];
};

static void call_args(struct call *call, struct pt_regs *wrapper, bool compat)
{
	const struct pt_regs *regs = (const struct pt_regs *)sentry_arg(wrapper, 0);

	call->arg[0] = compat ? (u32)regs->bx : regs->di;
	call->arg[1] = compat ? (u32)regs->cx : regs->si;
	call->name[0] = 0;
}

static int on_call(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	call_args(SENTRY_DATA(ri, struct call), regs, false);
	return 0;
}

static int on_call_compat(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	call_args(SENTRY_DATA(ri, struct call), regs, true);
	return 0;
}

static int module_refused(enum sentry_module_op op, struct pt_regs *regs)
{
	int result = (int)regs_return_value(regs);
	struct sentry_record *r;

	if (result >= 0)
		return 0;
	if (result == -EEXIST || result == -EBUSY) {
		sentry_tally_add(SENTRY_TALLY_MODULE_NOT_NEW, 1);
		return 0;
	}
	r = sentry_record_begin_exe(HF_SENTRY_KIND_MODULE_LOAD);
	if (!r)
		return 0;
	r->op = op;
	r->detail.module.result = result;
	return sentry_record_offer(r);
}

static int init_module_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return module_refused(SENTRY_MODULE_INIT, regs);
}

static int finit_module_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return module_refused(SENTRY_MODULE_FINIT, regs);
}

static void delete_name(struct call *call)
{
	size_t len = sentry_user_bytes(call->name, (const void __user *)call->arg[0], sizeof(call->name) - 1);

	call->name[len] = 0;
}

static int on_delete_module(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	on_call(ri, regs);
	delete_name(SENTRY_DATA(ri, struct call));
	return 0;
}

static int on_delete_module_compat(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	on_call_compat(ri, regs);
	delete_name(SENTRY_DATA(ri, struct call));
	return 0;
}

static int module_deleted(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct call *call = SENTRY_DATA(ri, struct call);
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_MODULE_UNLOAD);

	if (!r)
		return 0;
	sentry_record_add_string(r, SENTRY_TEXT_PATH, call->name);
	r->detail.module.result = (int)regs_return_value(regs);
	r->detail.module.flags = call->arg[1];
	return sentry_record_offer(r);
}

/* bpf: security_bpf() sees the kernel's copy of the attributes, whatever the entry was. */

static int on_bpf(struct kprobe *kp, struct pt_regs *regs)
{
	int cmd = (int)sentry_arg(regs, 0);
	const union bpf_attr *attr = (const union bpf_attr *)sentry_arg(regs, 1);
	struct sentry_record *r;

	if (cmd != BPF_PROG_LOAD && cmd != BPF_PROG_ATTACH && cmd != BPF_RAW_TRACEPOINT_OPEN && cmd != BPF_LINK_CREATE &&
	    cmd != BPF_LINK_UPDATE) {
		sentry_tally_add(SENTRY_TALLY_BPF_OTHER, 1);
		return 0;
	}
	r = sentry_record_begin_exe(HF_SENTRY_KIND_BPF);
	if (!r)
		return 0;
	r->detail.bpf.cmd = cmd;
	if (cmd == BPF_PROG_LOAD) {
		r->detail.bpf.prog_type = attr->prog_type;
		r->detail.bpf.attach_type = attr->expected_attach_type;
		sentry_record_add_bytes(r, SENTRY_TEXT_PATH, attr->prog_name, strnlen(attr->prog_name, sizeof(attr->prog_name)));
	} else if (cmd == BPF_PROG_ATTACH) {
		r->detail.bpf.attach_type = attr->attach_type;
	} else if (cmd == BPF_LINK_CREATE) {
		r->detail.bpf.attach_type = attr->link_create.attach_type;
	}
	return sentry_record_offer(r);
}

/* kexec */

static int kexec_done(enum sentry_kexec_op op, struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_KEXEC);

	if (!r)
		return 0;
	r->op = op;
	r->detail.result.result = (int)regs_return_value(regs);
	r->detail.result.flags = SENTRY_DATA(ri, struct call)->arg[1];
	return sentry_record_offer(r);
}

static int kexec_load_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return kexec_done(SENTRY_KEXEC_LOAD, ri, regs);
}

static int kexec_file_load_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return kexec_done(SENTRY_KEXEC_FILE_LOAD, ri, regs);
}

/* Lockdown: lockdown_write(file, text, len, position) */

static int on_lockdown_write(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct call *call = SENTRY_DATA(ri, struct call);
	size_t len = min_t(size_t, sentry_arg(regs, 2), sizeof(call->name) - 1);

	len = sentry_user_bytes(call->name, (const void __user *)sentry_arg(regs, 1), len);
	call->name[len] = 0;
	call->name[strcspn(call->name, "\n")] = 0;
	return 0;
}

static int lockdown_written(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	long result = regs_return_value(regs); /* ssize_t */
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_LOCKDOWN);

	if (!r)
		return 0;
	sentry_record_add_string(r, SENTRY_TEXT_PATH, SENTRY_DATA(ri, struct call)->name);
	r->detail.result.result = min(result, 0L);
	return sentry_record_offer(r);
}

/*
 * Every way to the kernel's memory and inner workings that lockdown knows asks security_locked_down(what) first, so
 * that it is seen here whether this kernel is locked down or not.
 */
struct access_call {
	enum sentry_access_op op;
};

static int on_locked_down(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	static const u8 op_plus_one[LOCKDOWN_CONFIDENTIALITY_MAX] = {
#define X(constant, name) [LOCKDOWN_##constant] = SENTRY_ACCESS_##constant + 1,
		SENTRY_ACCESS_OPS(X)
#undef X
	};
	unsigned long what = sentry_arg(regs, 0);

	if (what >= ARRAY_SIZE(op_plus_one) || !op_plus_one[what])
		return 1;
	SENTRY_DATA(ri, struct access_call)->op = op_plus_one[what] - 1;
	return 0;
}

static int locked_down_answered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_KERNEL_ACCESS);

	if (!r)
		return 0;
	r->op = SENTRY_DATA(ri, struct access_call)->op;
	r->detail.result.result = (int)regs_return_value(regs);
	sentry_gate_offer(r, true);
	sentry_record_end(r);
	return 0;
}

/* seccomp: audit_seccomp(syscall, signal, code), and the setting that would blind it. */

static int on_audit_seccomp(struct kprobe *kp, struct pt_regs *regs)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_SECCOMP_DENIED);

	if (!r)
		return 0;
	if (r->flags & SENTRY_SANDBOXED)
		atomic64_inc(&sentry_sums.denied_syscalls);
	r->detail.seccomp.syscall = sentry_arg(regs, 0);
	r->detail.seccomp.signal = (int)sentry_arg(regs, 1);
	r->detail.seccomp.action = (u32)sentry_arg(regs, 2);
	r->detail.seccomp.arch = in_compat_syscall() ? AUDIT_ARCH_I386 : AUDIT_ARCH_X86_64;
	sentry_gate_offer(r, true);
	sentry_record_end(r);
	return 0;
}

/*
 * The setting kernel.seccomp.actions_logged decides which refusals reach audit_seccomp(). Its handler is probed, since
 * audit_seccomp_actions_logged() is called only while auditing is on. (table, write, buffer, length, position); the
 * buffer is kernel memory.
 */
struct logged_call {
	char names[128];
};

static int on_actions_logged(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct logged_call *call = SENTRY_DATA(ri, struct logged_call);
	const size_t *len = (const size_t *)sentry_arg(regs, 3);

	if (!(int)sentry_arg(regs, 1))
		return 1;
	memset(call, 0, sizeof(*call));
	if (copy_from_kernel_nofault(call->names, (const void *)sentry_arg(regs, 2), min(*len, sizeof(call->names) - 1)))
		call->names[0] = 0;
	call->names[strcspn(call->names, "\n")] = 0;
	return 0;
}

static int actions_logged_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_SECCOMP_LOG);

	if (!r)
		return 0;
	sentry_record_add_string(r, SENTRY_TEXT_PATH, SENTRY_DATA(ri, struct logged_call)->names);
	r->detail.result.result = (int)regs_return_value(regs);
	return sentry_record_offer(r);
}

#define SYSCALL(symbol, entry, done) SENTRY_RETURN(symbol, entry, done, sizeof(struct call), INSTANCES)

static struct sentry_probe probes[] = {
	SENTRY_ENTRY("security_ptrace_access_check", on_ptrace_access_check),
	SENTRY_ENTRY("security_ptrace_traceme", on_ptrace_traceme),
	SENTRY_ENTRY("do_init_module", on_do_init_module),
	SYSCALL("__x64_sys_init_module", on_call, init_module_done),
	SYSCALL("__ia32_sys_init_module", on_call_compat, init_module_done),
	SYSCALL("__x64_sys_finit_module", on_call, finit_module_done),
	SYSCALL("__ia32_sys_finit_module", on_call_compat, finit_module_done),
	SYSCALL("__x64_sys_delete_module", on_delete_module, module_deleted),
	SYSCALL("__ia32_sys_delete_module", on_delete_module_compat, module_deleted),
	SENTRY_ENTRY("security_bpf", on_bpf),
	SYSCALL("__x64_sys_kexec_load", on_call, kexec_load_done),
	SYSCALL("__ia32_compat_sys_kexec_load", on_call_compat, kexec_load_done),
	SYSCALL("__x64_sys_kexec_file_load", on_call, kexec_file_load_done),
	SYSCALL("__ia32_sys_kexec_file_load", on_call_compat, kexec_file_load_done),
	SENTRY_RETURN("lockdown_write", on_lockdown_write, lockdown_written, sizeof(struct call), INSTANCES),
	SENTRY_RETURN("security_locked_down", on_locked_down, locked_down_answered, sizeof(struct access_call), INSTANCES),
	SENTRY_ENTRY("audit_seccomp", on_audit_seccomp),
	SENTRY_RETURN("seccomp_actions_logged_handler", on_actions_logged, actions_logged_done, sizeof(struct logged_call), INSTANCES),
};
const struct sentry_probe_table sentry_hook_kernel = { probes, ARRAY_SIZE(probes) };
