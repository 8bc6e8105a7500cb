// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Canaries.
 *
 *   ftrace     kprobe on a function entry, which KPROBES_ON_FTRACE makes an ftrace call, like nearly all our probes
 *   kretprobe  the same for returns
 *   int3       kprobe on a notrace function: a breakpoint, which ftrace_enabled=0 does not touch
 *   permanent  an ftrace_ops with FTRACE_OPS_FL_PERMANENT: while it is registered, ftrace_enabled=0 is -EBUSY
 *
 * All dead: kprobes switched off in debugfs. ftrace, kretprobe and permanent dead, int3 alive: ftrace switched off.
 * Only kretprobe dead: its instances are used up. A single foreign probe that is disarmed is not seen here,
 * so the thread also exercises real hooks.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ftrace.h>
#include <linux/in.h>
#include <linux/kprobes.h>
#include <linux/net.h>
#include <net/net_namespace.h>

#include "canary.h"
#include "probe.h"
#include "task.h"

static unsigned int hits[SENTRY_CANARIES];
static unsigned int answers;
static struct socket *probe_socket;

/* Empty functions to put probes on. The asm keeps calls apart and bodies from being merged. */
static noinline void canary_ftrace(void)
{
	asm volatile("# ftrace");
}

static noinline int canary_kretprobe(void)
{
	asm volatile("# kretprobe");
	return 1;
}

static noinline notrace void canary_int3(void)
{
	asm volatile("nop # int3");
}

static noinline void canary_permanent(void)
{
	asm volatile("# permanent");
}

static int on_ftrace(struct kprobe *kp, struct pt_regs *regs)
{
	hits[SENTRY_CANARY_FTRACE]++;
	return 0;
}

static int on_kretprobe(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits[SENTRY_CANARY_KRETPROBE]++;
	return 0;
}

static int on_int3(struct kprobe *kp, struct pt_regs *regs)
{
	hits[SENTRY_CANARY_INT3]++;
	return 0;
}

/* A probe with a post handler is never turned into a jump, so this one stays a breakpoint. */
static void after_int3(struct kprobe *kp, struct pt_regs *regs, unsigned long flags)
{
}

static void notrace on_permanent(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	hits[SENTRY_CANARY_PERMANENT]++;
}

static struct kprobe ftrace_probe = { .addr = (kprobe_opcode_t *)canary_ftrace, .pre_handler = on_ftrace };
static struct kretprobe return_probe = {
	.kp.addr = (kprobe_opcode_t *)canary_kretprobe, .handler = on_kretprobe, .maxactive = 4,
};
static struct kprobe int3_probe = {
	.addr = (kprobe_opcode_t *)canary_int3, .pre_handler = on_int3, .post_handler = after_int3,
};
static struct ftrace_ops permanent_ops = {
	.func = on_permanent, .flags = FTRACE_OPS_FL_PERMANENT | FTRACE_OPS_FL_RECURSION,
};

int sentry_canary_init(void)
{
	int err;

	/* Filter first: without one the op would be called for every function. */
	err = ftrace_set_filter_ip(&permanent_ops, (unsigned long)canary_permanent, 0, 0);
	if (err)
		return err;
	err = register_kprobe(&ftrace_probe);
	if (err)
		goto err_filter;
	err = register_kretprobe(&return_probe);
	if (err)
		goto err_ftrace;
	err = register_kprobe(&int3_probe);
	if (err)
		goto err_return;
	err = register_ftrace_function(&permanent_ops);
	if (err)
		goto err_int3;
	return 0;

err_int3:
	unregister_kprobe(&int3_probe);
err_return:
	unregister_kretprobe(&return_probe);
err_ftrace:
	unregister_kprobe(&ftrace_probe);
err_filter:
	ftrace_set_filter_ip(&permanent_ops, 0, 0, 1);
	return err;
}

void sentry_canary_exit(void)
{
	unregister_ftrace_function(&permanent_ops);
	unregister_kprobe(&int3_probe);
	unregister_kretprobe(&return_probe);
	unregister_kprobe(&ftrace_probe);
	ftrace_set_filter_ip(&permanent_ops, 0, 0, 1);
}

unsigned int sentry_canary_check(void)
{
	unsigned int before[SENTRY_CANARIES], alive = 0, i;

	memcpy(before, hits, sizeof(before));
	canary_ftrace();
	canary_kretprobe();
	canary_int3();
	canary_permanent();
	barrier();
	for (i = 0; i < SENTRY_CANARIES; i++)
		if (READ_ONCE(hits[i]) != before[i])
			alive |= BIT(i);
	return alive;
}

void sentry_selftest_answer(enum sentry_selftest which)
{
	WRITE_ONCE(answers, answers | BIT(which));
}

static void exercise_cred(void)
{
	struct cred *cred = prepare_creds();

	if (cred)
		commit_creds(cred);
}

/* One empty datagram to the discard port of loopback; nobody need listen. */
static void exercise_udp(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct msghdr msg = { .msg_name = &to, .msg_namelen = sizeof(to), .msg_flags = MSG_DONTWAIT };
	struct kvec none = { 0 };

	if (!probe_socket && sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, &probe_socket))
		probe_socket = NULL;
	if (probe_socket)
		kernel_sendmsg(probe_socket, &msg, &none, 0, 0);
}

static void exercise_open(void)
{
	struct file *file = filp_open("/", O_RDONLY | O_DIRECTORY, 0);

	if (!IS_ERR(file))
		fput(file);
}

unsigned int sentry_selftest_expected(void)
{
	return BIT(SENTRY_SELFTEST_CRED) | BIT(SENTRY_SELFTEST_UDP) |
	       (sentry_probe_denials_armed() ? BIT(SENTRY_SELFTEST_OPEN) : 0);
}

unsigned int sentry_selftest_run(void)
{
	answers = 0;
	exercise_cred();
	exercise_udp();
	if (sentry_probe_denials_armed())
		exercise_open();
	return READ_ONCE(answers);
}
