// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exec and exit.
 *
 * Both come from tracepoints, which ftrace_enabled=0 does not touch. The kprobe on security_bprm_committed_creds is
 * the independent second source: it counts, so that the two counts in the heartbeat give a silenced one away, and
 * where the tracepoint cannot be had it reports the exec itself.
 */
#include <linux/binfmts.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "gate.h"
#include "probe.h"
#include "tally.h"
#include "task.h"

static bool tracepoint_is_armed(void);

/* Arguments as the new image has them: NUL separated, on its fresh stack, so seldom absent. */
static void add_argv(struct sentry_record *r, unsigned long start, unsigned long len)
{
	size_t wanted = min_t(size_t, len, HF_SENTRY_ARGV_MAX), got;

	if (len > HF_SENTRY_ARGV_MAX)
		r->flags |= SENTRY_ARGV_TRUNCATED;
	got = sentry_user_bytes(r->text + r->text_used, (const void __user *)start, wanted);
	if (!got && wanted)
		r->flags |= SENTRY_ARGV_UNAVAILABLE;
	else if (got < wanted)
		r->flags |= SENTRY_ARGV_TRUNCATED;
	r->text_len[SENTRY_TEXT_ARGV] = got;
	r->text_used += got;
}

static struct sentry_record *exec_begin(const struct linux_binprm *bprm)
{
	struct sentry_record *r = sentry_record_begin(HF_SENTRY_KIND_EXEC);

	if (!r)
		return NULL;
	r->detail.exec.argc = bprm->argc;
	sentry_record_add_exe(r);
	sentry_record_add_string(r, SENTRY_TEXT_PATH, bprm->filename);
	if (bprm->interp != bprm->filename)
		sentry_record_add_string(r, SENTRY_TEXT_SECOND, bprm->interp);
	sentry_record_add_chain(r);
	return r;
}

static void on_sched_process_exec(void *data, struct task_struct *task, pid_t old_pid, struct linux_binprm *bprm)
{
	struct sentry_record *r;

	sentry_tally_add(SENTRY_TALLY_EXEC_TRACEPOINT, 1);
	r = exec_begin(bprm);
	if (!r)
		return;
	if (current->mm)
		add_argv(r, current->mm->arg_start, current->mm->arg_end - current->mm->arg_start);
	sentry_record_offer(r);
}

static int on_committed_creds(struct kprobe *kp, struct pt_regs *regs)
{
	struct linux_binprm *bprm = (void *)sentry_arg(regs, 0);
	struct sentry_record *r;

	sentry_tally_add(SENTRY_TALLY_EXEC_KPROBE, 1);
	if (tracepoint_is_armed())
		return 0;
	r = exec_begin(bprm);
	if (!r)
		return 0;
	r->flags |= SENTRY_FALLBACK;
	/* arg_start is not set yet: the strings lie at bprm->p, arguments first, and the environment ends them. */
	add_argv(r, bprm->p, HF_SENTRY_ARGV_MAX + 1);
	return sentry_record_offer(r);
}

/*
 * The process ends with its last thread. signal->live is already 0 for each thread that is late on its way out, so
 * two of them may both come here; the table of the last ones remembers which process has been reported.
 */
static bool already_ended(struct task_struct *task)
{
	static struct { u64 start_ns; pid_t pid; } last[64];
	static DEFINE_RAW_SPINLOCK(lock);
	unsigned int i = task->tgid % ARRAY_SIZE(last);
	u64 start_ns = task->group_leader->start_boottime;
	unsigned long irq;
	bool seen;

	raw_spin_lock_irqsave(&lock, irq);
	seen = last[i].pid == task->tgid && last[i].start_ns == start_ns;
	last[i].pid = task->tgid;
	last[i].start_ns = start_ns;
	raw_spin_unlock_irqrestore(&lock, irq);
	return seen;
}

static void on_sched_process_exit(void *data, struct task_struct *task)
{
	struct sentry_record *r;

	if (task->flags & PF_KTHREAD || atomic_read(&task->signal->live) || already_ended(task))
		return;
	r = sentry_record_begin(HF_SENTRY_KIND_EXIT);
	if (!r)
		return;
	r->detail.exit.status = task->signal->flags & SIGNAL_GROUP_EXIT ? task->signal->group_exit_code : task->exit_code;
	sentry_record_offer(r);
}

static struct sentry_probe probes[] = {
	SENTRY_TRACEPOINT("sched_process_exec", on_sched_process_exec),
	SENTRY_ENTRY("security_bprm_committed_creds", on_committed_creds),
	SENTRY_TRACEPOINT("sched_process_exit", on_sched_process_exit),
};

static bool tracepoint_is_armed(void)
{
	return READ_ONCE(probes[0].state) == SENTRY_PROBE_ARMED;
}

const struct sentry_probe_table sentry_hook_exec = { probes, ARRAY_SIZE(probes) };
