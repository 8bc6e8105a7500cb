// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Changes of what a process can see or is held by: mounts, namespaces, cgroups, traffic control.
 *
 * The new mount API never comes by path_mount(), only by security_move_mount(). New namespaces come from unshare and
 * from clone, which meet at copy_namespaces().
 */
#include <linux/cgroup.h>
#include <linux/netdevice.h>
#include <linux/netlink.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/sched/task.h>
#include <net/net_namespace.h>
#include <net/netlink.h>

#include "gate.h"
#include "ops.h"
#include "probe.h"
#include "task.h"

#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP)
#define INSTANCES 32

/* path_mount(source, target, type, flags, data) */
static int on_path_mount(struct kprobe *kp, struct pt_regs *regs)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_MOUNT);

	if (!r)
		return 0;
	r->op = SENTRY_MOUNT_MOUNT;
	sentry_record_add_path(r, SENTRY_TEXT_PATH, (const struct path *)sentry_arg(regs, 1));
	sentry_record_add_string(r, SENTRY_TEXT_SECOND, (const char *)sentry_arg(regs, 2));
	r->detail.result.flags = sentry_arg(regs, 3);
	return sentry_record_offer(r);
}

/* security_move_mount(from, to) */
static int on_move_mount(struct kprobe *kp, struct pt_regs *regs)
{
	const struct path *from = (const struct path *)sentry_arg(regs, 0);
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_MOUNT);

	if (!r)
		return 0;
	r->op = SENTRY_MOUNT_MOVE;
	sentry_record_add_path(r, SENTRY_TEXT_PATH, (const struct path *)sentry_arg(regs, 1));
	sentry_record_add_string(r, SENTRY_TEXT_SECOND, from->dentry->d_sb->s_type->name);
	return sentry_record_offer(r);
}

static int namespaces(enum sentry_unshare_op op, unsigned long flags)
{
	struct sentry_record *r;

	if (!(flags & NEW_NAMESPACES))
		return 0;
	r = sentry_record_begin_exe(HF_SENTRY_KIND_UNSHARE);
	if (!r)
		return 0;
	r->op = op;
	r->detail.result.flags = flags & NEW_NAMESPACES;
	return sentry_record_offer(r);
}

static int on_unshare(struct kprobe *kp, struct pt_regs *regs)
{
	return namespaces(SENTRY_UNSHARE_UNSHARE, sentry_arg(regs, 0));
}

static int on_copy_namespaces(struct kprobe *kp, struct pt_regs *regs)
{
	return namespaces(SENTRY_UNSHARE_CLONE, sentry_arg(regs, 0));
}

struct setns_call {
	u32 flags;
};

static int on_setns(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	SENTRY_DATA(ri, struct setns_call)->flags = ((const struct pt_regs *)sentry_arg(regs, 0))->si;
	return 0;
}

static int on_setns_compat(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	SENTRY_DATA(ri, struct setns_call)->flags = ((const struct pt_regs *)sentry_arg(regs, 0))->cx;
	return 0;
}

static int setns_done(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_SETNS);

	if (!r)
		return 0;
	r->detail.result.flags = SENTRY_DATA(ri, struct setns_call)->flags;
	r->detail.result.result = (int)regs_return_value(regs);
	return sentry_record_offer(r);
}

static void cgroup_left(enum sentry_move_op op, struct task_struct *task, struct cgroup *from, struct cgroup *to)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_CGROUP_MOVE);

	if (!r)
		return;
	/* What left was sandboxed, whoever moved it. */
	r->flags |= SENTRY_SANDBOXED;
	r->op = op;
	r->detail.move.from = cgroup_id(from);
	r->detail.move.to = cgroup_id(to);
	sentry_process_fill(&r->detail.move.process, task);
	sentry_record_offer(r);
}

/* cgroup_attach_task(to, leader, threadgroup), also called for cgroup v1 hierarchies, which do not concern us. */
static int on_attach_task(struct kprobe *kp, struct pt_regs *regs)
{
	struct cgroup *to = (struct cgroup *)sentry_arg(regs, 0), *top = sentry_task_sandbox();
	struct task_struct *task = (struct task_struct *)sentry_arg(regs, 1);

	if (!top || to->root != top->root || cgroup_is_descendant(to, top) || !sentry_task_is_sandboxed(task))
		return 0;
	cgroup_left(SENTRY_MOVE_ATTACH, task, task_dfl_cgroup(task), to);
	return 0;
}

/* clone3 with CLONE_INTO_CGROUP puts a child elsewhere without ever moving it. */
static void on_sched_process_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	if (likely(!sentry_task_sandbox()) || sentry_task_is_own())
		return;
	if (sentry_task_is_sandboxed(parent) && !sentry_task_is_sandboxed(child))
		cgroup_left(SENTRY_MOVE_FORK, child, task_dfl_cgroup(parent), task_dfl_cgroup(child));
}

/* The handlers of rtnetlink messages: (skb, nlmsghdr, extack); tcmsg and tcamsg both begin with the family. */
static int tc_event(enum sentry_tc_op op, const struct nlmsghdr *n)
{
	struct sentry_record *r = sentry_record_begin_exe(HF_SENTRY_KIND_TC_CHANGE);
	struct net_device *dev = NULL;
	struct net *net;

	if (!r)
		return 0;
	r->op = op;
	r->detail.tc.message = n->nlmsg_type;
	if (op != SENTRY_TC_ACTION) {
		r->detail.tc.ifindex = ((const struct tcmsg *)nlmsg_data(n))->tcm_ifindex;
		net = current->nsproxy ? current->nsproxy->net_ns : NULL;
		rcu_read_lock();
		if (net)
			dev = dev_get_by_index_rcu(net, r->detail.tc.ifindex);
		if (dev)
			sentry_record_add_bytes(r, SENTRY_TEXT_PATH, dev->name, strnlen(dev->name, IFNAMSIZ));
		rcu_read_unlock();
	}
	return sentry_record_offer(r);
}

static int on_tc_qdisc(struct kprobe *kp, struct pt_regs *regs)
{
	return tc_event(SENTRY_TC_QDISC_ADD, (const struct nlmsghdr *)sentry_arg(regs, 1));
}

/* One handler for RTM_GETQDISC and RTM_DELQDISC. */
static int on_tc_get_qdisc(struct kprobe *kp, struct pt_regs *regs)
{
	const struct nlmsghdr *n = (const struct nlmsghdr *)sentry_arg(regs, 1);

	return n->nlmsg_type == RTM_DELQDISC ? tc_event(SENTRY_TC_QDISC_DELETE, n) : 0;
}

static int on_tc_filter(struct kprobe *kp, struct pt_regs *regs)
{
	return tc_event(SENTRY_TC_FILTER_ADD, (const struct nlmsghdr *)sentry_arg(regs, 1));
}

static int on_tc_filter_delete(struct kprobe *kp, struct pt_regs *regs)
{
	return tc_event(SENTRY_TC_FILTER_DELETE, (const struct nlmsghdr *)sentry_arg(regs, 1));
}

static int on_tc_action(struct kprobe *kp, struct pt_regs *regs)
{
	const struct nlmsghdr *n = (const struct nlmsghdr *)sentry_arg(regs, 1);

	return n->nlmsg_type == RTM_GETACTION ? 0 : tc_event(SENTRY_TC_ACTION, n);
}

static struct sentry_probe probes[] = {
	SENTRY_ENTRY("path_mount", on_path_mount),
	SENTRY_ENTRY("security_move_mount", on_move_mount),
	SENTRY_ENTRY("ksys_unshare", on_unshare),
	SENTRY_ENTRY("copy_namespaces", on_copy_namespaces),
	SENTRY_RETURN("__x64_sys_setns", on_setns, setns_done, sizeof(struct setns_call), INSTANCES),
	SENTRY_RETURN("__ia32_sys_setns", on_setns_compat, setns_done, sizeof(struct setns_call), INSTANCES),
	SENTRY_ENTRY("cgroup_attach_task", on_attach_task),
	SENTRY_TRACEPOINT("sched_process_fork", on_sched_process_fork),
	SENTRY_ENTRY("tc_modify_qdisc", on_tc_qdisc),
	SENTRY_ENTRY("tc_get_qdisc", on_tc_get_qdisc),
	SENTRY_ENTRY("tc_new_tfilter", on_tc_filter),
	SENTRY_ENTRY("tc_del_tfilter", on_tc_filter_delete),
	SENTRY_ENTRY("tc_ctl_action", on_tc_action),
};
const struct sentry_probe_table sentry_hook_ns = { probes, ARRAY_SIZE(probes) };
