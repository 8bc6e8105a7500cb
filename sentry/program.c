// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Programs by (pid, start_ns, exec_id): 256 sets of 4; the entry made longest ago makes room.
 *
 * Execs come through the ring in order, so an exec is known before the flows of its process. A process that never
 * called exec (a forked shell), or whose exec was limited away, is looked up by its pid; the exec_id that the
 * handler saw makes sure that the program found is the one that ran then.
 */
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "program.h"

#define WAYS 4
#define SETS 256

static struct sentry_program (*programs)[WAYS];

int sentry_program_init(void)
{
	programs = vzalloc(SETS * sizeof(*programs));
	return programs ? 0 : -ENOMEM;
}

size_t sentry_program_bytes(void)
{
	return SETS * sizeof(*programs);
}

static struct sentry_program *slot(const struct sentry_process *process, bool make)
{
	struct sentry_program *set = programs[process->pid % SETS], *oldest = set;
	unsigned int i;

	for (i = 0; i < WAYS; i++) {
		if (set[i].used_ns && set[i].pid == process->pid && set[i].start_ns == process->start_ns &&
		    set[i].exec_id == process->exec_id)
			return &set[i];
		if (set[i].used_ns < oldest->used_ns)
			oldest = &set[i];
	}
	return make ? oldest : NULL;
}

static void set_args(struct sentry_program *p, const u8 *argv, size_t len)
{
	size_t i, keep = min_t(size_t, len, sizeof(p->args));

	/* Every argument ends with a NUL, so the last one separates nothing. */
	if (keep == len && keep && !argv[keep - 1])
		keep--;
	for (i = 0; i < keep; i++)
		p->args[i] = argv[i] ? argv[i] : ' ';
	p->args_len = keep;
	p->args_truncated = len > sizeof(p->args);
}

static void set_process(struct sentry_program *p, const struct sentry_process *process, u64 now)
{
	p->pid = process->pid;
	p->start_ns = process->start_ns;
	p->exec_id = process->exec_id;
	p->used_ns = now;
}

void sentry_program_exec(const struct sentry_record *r)
{
	struct sentry_program *p = slot(&r->subject, true);

	set_process(p, &r->subject, r->t);
	p->exe_len = r->text_len[SENTRY_TEXT_EXE];
	memcpy(p->exe, sentry_record_text(r, SENTRY_TEXT_EXE), p->exe_len);
	set_args(p, sentry_record_text(r, SENTRY_TEXT_ARGV), r->text_len[SENTRY_TEXT_ARGV]);
}

struct file *sentry_program_file(const struct sentry_process *process)
{
	struct pid *pid = find_get_pid(process->pid);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	struct file *file = NULL;
	struct mm_struct *mm;

	put_pid(pid);
	if (!task)
		return NULL;
	mm = get_task_mm(task);
	if (mm) {
		file = sentry_mm_exe_file(mm);
		mmput(mm);
	}
	/* Looked at after the file was taken: equal means that no exec came before that. */
	if (file && (task->group_leader->start_boottime != process->start_ns ||
		     READ_ONCE(task->group_leader->self_exec_id) != process->exec_id)) {
		fput(file);
		file = NULL;
	}
	put_task_struct(task);
	return file;
}

const struct sentry_program *sentry_program_find(const struct sentry_process *process)
{
	static char buffer[HF_SENTRY_PATH_MAX + 1];
	struct sentry_program *p = slot(process, false);
	struct file *file;
	char *path;

	if (p)
		return p;
	file = sentry_program_file(process);
	if (!file)
		return NULL;
	path = d_path(&file->f_path, buffer, sizeof(buffer));
	if (!IS_ERR(path)) {
		p = slot(process, true);
		set_process(p, process, ktime_get_boot_fast_ns());
		p->exe_len = buffer + sizeof(buffer) - 1 - path;
		memcpy(p->exe, path, p->exe_len);
		p->args_len = 0;
		p->args_truncated = false;
	}
	fput(file);
	return p;
}

bool sentry_program_differs(const struct sentry_process *process, const u8 *exe, size_t len)
{
	const struct sentry_program *p = slot(process, false);

	return p && p->exe_len && (p->exe_len != len || memcmp(p->exe, exe, len) != 0);
}
