// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gains of authority.
 *
 * commit_creds() is where every change of credentials takes effect, whatever the system call was. An event is a
 * change that gives what the task could not take by itself: root's id while none of its ids was root's, or more
 * permitted capabilities in the initial user namespace. An exploit that writes into the credentials in place does
 * not come by here; SECURITY.md says so.
 */
#include <linux/cred.h>
#include <linux/ptrace.h>
#include <linux/user_namespace.h>
#include <asm/syscall.h>
#include <asm/unistd.h>

#include "canary.h"
#include "gate.h"
#include "ops.h"
#include "probe.h"
#include "tally.h"
#include "task.h"

static u64 caps_of(const kernel_cap_t *caps)
{
	u64 value;

	/* 6.3 made two words one; in memory they are the same on a little-endian machine. */
	static_assert(sizeof(*caps) == sizeof(value));
	memcpy(&value, caps, sizeof(value));
	return value;
}

static void ids_of(struct sentry_ids *ids, const struct cred *cred)
{
	ids->uid = from_kuid(&init_user_ns, cred->uid);
	ids->euid = from_kuid(&init_user_ns, cred->euid);
	ids->suid = from_kuid(&init_user_ns, cred->suid);
	ids->fsuid = from_kuid(&init_user_ns, cred->fsuid);
	ids->caps = cred->user_ns == &init_user_ns ? caps_of(&cred->cap_permitted) : 0;
}

static bool is_gain(const struct sentry_ids *old, const struct sentry_ids *new)
{
	if ((!new->euid || !new->fsuid) && old->uid && old->euid && old->suid)
		return true;
	return new->caps & ~old->caps;
}

static enum sentry_cred_op via(int syscall)
{
	static const u16 native[] = { 105, 106, 113, 114, 117, 119, 122, 123 };
	static const u16 compat[] = { 23, 46, 70, 71, 138, 139, 164, 170, 203, 204, 208, 210, 213, 214, 215, 216 };
	bool is_compat = in_compat_syscall();
	const u16 *list = is_compat ? compat : native;
	unsigned int i, n = is_compat ? ARRAY_SIZE(compat) : ARRAY_SIZE(native);

	if (current->in_execve)
		return SENTRY_CRED_EXEC;
	if (syscall == (is_compat ? 185 : __NR_capset))
		return SENTRY_CRED_CAPSET;
	for (i = 0; i < n; i++)
		if (syscall == list[i])
			return SENTRY_CRED_SETID;
	return SENTRY_CRED_OTHER;
}

static int on_commit_creds(struct kprobe *kp, struct pt_regs *regs)
{
	const struct cred *new = (const struct cred *)sentry_arg(regs, 0), *old = current_real_cred();
	struct sentry_ids from, to;
	struct sentry_record *r;

	if (sentry_task_is_own()) {
		sentry_selftest_answer(SENTRY_SELFTEST_CRED);
		return 0;
	}
	if (!new)
		return 0;
	ids_of(&from, old);
	ids_of(&to, new);
	if (!is_gain(&from, &to)) {
		bool userns = new->user_ns != &init_user_ns &&
			      caps_of(&new->cap_permitted) & ~caps_of(&old->cap_permitted);

		sentry_tally_add(userns ? SENTRY_TALLY_CRED_USERNS : SENTRY_TALLY_CRED_NO_GAIN, 1);
		return 0;
	}
	r = sentry_record_begin(HF_SENTRY_KIND_CRED_GAIN);
	if (!r)
		return 0;
	r->detail.cred.old = from;
	r->detail.cred.new = to;
	r->detail.cred.syscall = current->flags & PF_KTHREAD ? -1 : syscall_get_nr(current, task_pt_regs(current));
	r->op = via(r->detail.cred.syscall);
	sentry_record_add_exe(r);
	return sentry_record_offer(r);
}

static struct sentry_probe probes[] = {
	SENTRY_ENTRY("commit_creds", on_commit_creds),
};
const struct sentry_probe_table sentry_hook_cred = { probes, ARRAY_SIZE(probes) };
