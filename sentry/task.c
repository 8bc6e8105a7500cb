// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records about the current task.
 *
 * Paths are rendered here, at the time of the event and under the eyes of d_path(), which neither sleeps nor
 * allocates: rendered later, a rename could make one program look like another. d_path() renders from the
 * task's own root, so a record says when that root or the mount namespace is not the initial one.
 */
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fs_struct.h>
#include <linux/hardirq.h>
#include <linux/mount.h>
#include <linux/nsproxy.h>
#include <linux/percpu.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "compat/compat.h"
#include "gate.h"
#include "task.h"

/* A handler in a soft IRQ may come on top of one in a task, and no other nesting is let in. */
struct scratch {
	struct sentry_record record[2];
	bool busy[2];
};
static struct scratch __percpu *scratch;

static struct task_struct *own_threads[2];
static struct cgroup *sandbox;

int sentry_task_init(void)
{
	scratch = alloc_percpu(struct scratch);
	return scratch ? 0 : -ENOMEM;
}

void sentry_task_set_own(unsigned int slot, struct task_struct *thread)
{
	WRITE_ONCE(own_threads[slot], thread);
}

bool sentry_task_is_own_thread(void)
{
	return current == READ_ONCE(own_threads[0]) || current == READ_ONCE(own_threads[1]);
}

void sentry_task_set_sandbox(struct cgroup *cgroup)
{
	smp_store_release(&sandbox, cgroup);
}

struct cgroup *sentry_task_sandbox(void)
{
	return smp_load_acquire(&sandbox);
}

bool sentry_task_is_sandboxed(struct task_struct *task)
{
	struct cgroup *top = sentry_task_sandbox();

	return top && cgroup_is_descendant(task_dfl_cgroup(task), top);
}

void sentry_process_fill(struct sentry_process *process, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	process->pid = task->tgid;
	process->start_ns = leader->start_boottime;
	process->exec_id = leader->self_exec_id;
	memcpy(process->comm, task->comm, sizeof(process->comm));
	process->comm[sizeof(process->comm) - 1] = 0;
}

/* The root and mounts that the guest runs on are PID 1's; it never ends, so they are only compared, under no lock. */
static bool root_is_foreign(void)
{
	const struct task_struct *first = init_pid_ns.child_reaper;
	const struct fs_struct *own = current->fs, *initial = first->fs;

	if (current->nsproxy && first->nsproxy && current->nsproxy->mnt_ns != first->nsproxy->mnt_ns)
		return true;
	return own && initial && own != initial &&
	       (own->root.dentry != initial->root.dentry || own->root.mnt != initial->root.mnt);
}

struct sentry_record *sentry_record_begin(enum hf_sentry_kind kind)
{
	unsigned int level = in_serving_softirq();
	struct sentry_record *r;
	struct scratch *s;

	if (in_nmi() || in_hardirq()) {
		sentry_gate_drop(kind);
		return NULL;
	}
	preempt_disable();
	s = this_cpu_ptr(scratch);
	if (s->busy[level]) {
		preempt_enable();
		sentry_gate_drop(kind);
		return NULL;
	}
	s->busy[level] = true;
	barrier();

	r = &s->record[level];
	memset(r, 0, offsetof(struct sentry_record, chain));
	r->t = ktime_get_boot_fast_ns();
	r->kind = kind;
	r->count = 1;
	sentry_process_fill(&r->subject, current);
	r->uid = from_kuid(&init_user_ns, current_uid());
	r->gid = from_kgid(&init_user_ns, current_gid());
	rcu_read_lock();
	r->ppid = rcu_dereference(current->real_parent)->tgid;
	if (sentry_task_is_sandboxed(current))
		r->flags |= SENTRY_SANDBOXED;
	rcu_read_unlock();
	if (current->flags & PF_KTHREAD) {
		r->flags |= SENTRY_KERNEL;
		return r;
	}
	if (root_is_foreign())
		r->flags |= SENTRY_FOREIGN_ROOT;
	if (in_compat_syscall())
		r->flags |= SENTRY_COMPAT;
	return r;
}

void sentry_record_end(struct sentry_record *r)
{
	struct scratch *s = this_cpu_ptr(scratch);

	barrier();
	s->busy[r == &s->record[1]] = false;
	preempt_enable();
}

void sentry_record_add_chain(struct sentry_record *r)
{
	struct task_struct *task = current->group_leader;

	rcu_read_lock();
	while (r->chain_len < HF_SENTRY_CHAIN_MAX) {
		task = rcu_dereference(task->real_parent)->group_leader;
		if (!task->tgid)
			break;
		sentry_process_fill(&r->chain[r->chain_len++], task);
	}
	rcu_read_unlock();
}

static size_t room(const struct sentry_record *r, size_t most)
{
	return min(most, sizeof(r->text) - r->text_used);
}

static void text_done(struct sentry_record *r, enum sentry_text which, size_t len)
{
	r->text_len[which] = len;
	r->text_used += len;
}

void sentry_record_add_bytes(struct sentry_record *r, enum sentry_text which, const void *bytes, size_t len)
{
	len = room(r, len);
	memcpy(r->text + r->text_used, bytes, len);
	text_done(r, which, len);
}

void sentry_record_add_string(struct sentry_record *r, enum sentry_text which, const char *string)
{
	if (string)
		sentry_record_add_bytes(r, which, string, strnlen(string, HF_SENTRY_PATH_MAX));
}

size_t sentry_user_bytes(void *to, const void __user *from, size_t len)
{
	size_t first;

	if (!copy_from_user_nofault(to, from, len))
		return len;
	/* The second page may not be present; what lies on the first is better than nothing. */
	first = PAGE_SIZE - offset_in_page(from);
	if (first < len && !copy_from_user_nofault(to, from, first))
		return first;
	return 0;
}

int sentry_record_add_user(struct sentry_record *r, enum sentry_text which, const void __user *from, size_t max)
{
	size_t len;

	max = room(r, max);
	len = sentry_user_bytes(r->text + r->text_used, from, max);
	if (!len)
		return -EFAULT;
	len = strnlen(r->text + r->text_used, len);
	text_done(r, which, len);
	return len;
}

/* Where d_path() left the text, or NULL for one that does not fit. It writes from the end of the room. */
static char *rendered(struct sentry_record *r, const struct path *path, size_t *len)
{
	char *at = r->text + r->text_used, *text;
	size_t size = room(r, HF_SENTRY_PATH_MAX + 1);

	if (!current->fs) /* d_path() asks it for the root; gone late in exit */
		return NULL;
	text = d_path(path, at, size);
	if (IS_ERR(text))
		return NULL;
	*len = at + size - 1 - text;
	memmove(at, text, *len);
	return at;
}

void sentry_record_add_path(struct sentry_record *r, enum sentry_text which, const struct path *path)
{
	size_t len;

	if (rendered(r, path, &len))
		text_done(r, which, len);
	else
		r->flags |= SENTRY_PATH_UNKNOWN;
}

/* A name that may not exist yet, below a directory. */
void sentry_record_add_child(struct sentry_record *r, const struct path *dir, struct dentry *dentry)
{
	struct path path = { .mnt = dir->mnt, .dentry = dentry };
	size_t len, name_len;
	char *at;

	if (!d_unhashed(dentry)) {
		sentry_record_add_path(r, SENTRY_TEXT_PATH, &path);
		return;
	}
	/* d_path() calls a negative, unhashed dentry "deleted", so the name is put behind its directory here. */
	at = rendered(r, dir, &len);
	spin_lock(&dentry->d_lock);
	name_len = dentry->d_name.len;
	if (!at || len + 1 + name_len > HF_SENTRY_PATH_MAX) {
		spin_unlock(&dentry->d_lock);
		r->flags |= SENTRY_PATH_UNKNOWN;
		return;
	}
	if (len && at[len - 1] != '/')
		at[len++] = '/';
	memcpy(at + len, dentry->d_name.name, name_len);
	spin_unlock(&dentry->d_lock);
	text_done(r, SENTRY_TEXT_PATH, len + name_len);
}

void sentry_file_id_fill(struct sentry_file_id *id, const struct file *file)
{
	const struct inode *inode = file_inode(file);

	id->device = inode->i_sb->s_dev;
	id->inode = inode->i_ino;
	id->size = i_size_read(inode);
	id->change = sentry_inode_change(inode);
}

/* Deleted, or never in a directory: d_path() says " (deleted)" behind both. */
static bool is_nameless(struct dentry *dentry)
{
	return d_unlinked(dentry) || (dentry->d_op && dentry->d_op->d_dname);
}

void sentry_record_add_exe(struct sentry_record *r)
{
	static const char deleted[] = " (deleted)";
	struct file *file;
	size_t len;
	char *at;

	if (!current->mm || r->flags & SENTRY_KERNEL)
		return;
	file = sentry_mm_exe_file(current->mm);
	if (!file) {
		r->flags |= SENTRY_EXE_UNKNOWN;
		return;
	}
	sentry_file_id_fill(&r->exe_id, file);
	at = rendered(r, &file->f_path, &len);
	if (!at) {
		r->flags |= SENTRY_EXE_UNKNOWN;
	} else {
		if (is_nameless(file->f_path.dentry)) {
			r->flags |= SENTRY_EXE_DELETED;
			if (len > sizeof(deleted) - 1 && !memcmp(at + len - sizeof(deleted) + 1, deleted, sizeof(deleted) - 1))
				len -= sizeof(deleted) - 1;
		}
		text_done(r, SENTRY_TEXT_EXE, len);
	}
	fput(file);
}

struct sentry_record *sentry_record_begin_exe(enum hf_sentry_kind kind)
{
	struct sentry_record *r = sentry_record_begin(kind);

	if (r)
		sentry_record_add_exe(r);
	return r;
}

int sentry_record_offer(struct sentry_record *r)
{
	sentry_gate_offer(r, false);
	sentry_record_end(r);
	return 0;
}
