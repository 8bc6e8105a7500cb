// SPDX-License-Identifier: GPL-2.0-or-later
/* The supervisor's end: a fatal or stopping signal to it, with its sender, and its exit. */
#include <linux/pid.h>
#include <linux/sched/signal.h>

#include "gate.h"
#include "ops.h"
#include "probe.h"
#include "supervisor.h"
#include "task.h"

static struct pid *supervisor;

void sentry_supervisor_set(struct pid *pid)
{
	smp_store_release(&supervisor, pid);
}

struct pid *sentry_supervisor(void)
{
	return smp_load_acquire(&supervisor);
}

static bool is_supervisor(struct task_struct *task)
{
	struct pid *pid = sentry_supervisor();

	return pid && task_tgid(task) == pid;
}

static void lost(enum sentry_lost_op op, int signal, int status)
{
	struct sentry_record *r = sentry_record_begin(HF_SENTRY_KIND_SUPERVISOR_LOST);

	if (!r)
		return;
	r->op = op;
	r->detail.lost.signal = signal;
	r->detail.lost.status = status;
	if (op == SENTRY_LOST_SIGNAL) /* in exit there is no address space any more */
		sentry_record_add_exe(r);
	sentry_record_offer(r);
}

/* Called with the target's siglock held, so its handlers can be read. Who sends is current. */
static void on_signal_generate(void *data, int signal, struct kernel_siginfo *info, struct task_struct *task,
			       int group, int result)
{
	if (likely(!is_supervisor(task)))
		return;
	/* No RCU needed: the lock keeps the handlers where they are. */
	if (signal != SIGKILL && signal != SIGSTOP) {
		if (!valid_signal(signal) || signal < 1 || sig_kernel_ignore(signal) || signal == SIGCONT)
			return;
		if (rcu_dereference_raw(task->sighand)->action[signal - 1].sa.sa_handler != SIG_DFL)
			return;
	}
	lost(SENTRY_LOST_SIGNAL, signal, 0);
}

static void on_sched_process_exit(void *data, struct task_struct *task)
{
	int code;

	if (likely(!is_supervisor(task)) || atomic_read(&task->signal->live))
		return;
	code = task->signal->flags & SIGNAL_GROUP_EXIT ? task->signal->group_exit_code : task->exit_code;
	lost(SENTRY_LOST_EXIT, code & 0x7f, code);
}

static struct sentry_probe probes[] = {
	SENTRY_TRACEPOINT("signal_generate", on_signal_generate),
	SENTRY_TRACEPOINT("sched_process_exit", on_sched_process_exit),
};
const struct sentry_probe_table sentry_hook_supervisor = { probes, ARRAY_SIZE(probes) };
