/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who did it: building a record about the current task, and the tasks that the Sentry does not watch. */
#ifndef SENTRY_TASK_H
#define SENTRY_TASK_H

#include <linux/cgroup.h>
#include <linux/path.h>
#include <linux/sched.h>

#include "record.h"

int sentry_task_init(void);

/* The Sentry's own threads: their socket and credential calls would otherwise feed back. */
void sentry_task_set_own(unsigned int slot, struct task_struct *thread); /* slot 0 or 1 */
bool sentry_task_is_own_thread(void);
static inline bool sentry_task_is_own(void)
{
	return unlikely(current->flags & PF_KTHREAD) && sentry_task_is_own_thread();
}

/* The sandbox cgroup, set once; the reference is kept for good, so its id cannot be used again. */
void sentry_task_set_sandbox(struct cgroup *cgroup);
struct cgroup *sentry_task_sandbox(void);
bool sentry_task_is_sandboxed(struct task_struct *task); /* under RCU */

/*
 * Begin a record about the current task, or NULL if none may be made here (then the event is counted as dropped).
 * It lies in this CPU's scratch; preemption stays off until sentry_record_end(). Any context but NMI and hard IRQ.
 */
struct sentry_record *sentry_record_begin(enum hf_sentry_kind kind);
void sentry_record_end(struct sentry_record *record);

/* The two ends of most handlers: begin with the executable; offer without folding, end, and return a handler's 0. */
struct sentry_record *sentry_record_begin_exe(enum hf_sentry_kind kind);
int sentry_record_offer(struct sentry_record *record);

/* Parts of a record; texts must be added in the order of enum sentry_text. */
void sentry_record_add_exe(struct sentry_record *record);
void sentry_record_add_chain(struct sentry_record *record);
void sentry_record_add_path(struct sentry_record *record, enum sentry_text which, const struct path *path);
void sentry_record_add_child(struct sentry_record *record, const struct path *dir, struct dentry *dentry);
void sentry_record_add_bytes(struct sentry_record *record, enum sentry_text which, const void *bytes, size_t len);
void sentry_record_add_string(struct sentry_record *record, enum sentry_text which, const char *kernel_string);
/* A string in user space, up to its NUL, without faulting. Returns its length, or -EFAULT. */
int sentry_record_add_user(struct sentry_record *record, enum sentry_text which, const void __user *from, size_t max);

void sentry_file_id_fill(struct sentry_file_id *id, const struct file *file);

void sentry_process_fill(struct sentry_process *process, struct task_struct *task);

/* Copy up to len bytes from user space without faulting; returns how many could be read. */
size_t sentry_user_bytes(void *to, const void __user *from, size_t len);

#endif
