// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults made on purpose, so that a debug kernel which reports nothing is known to see: write a name to `fire`. */
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

/* Two locks in both orders: a deadlock that has not happened yet. */
static void fire_lockdep(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static noinline void probed(void)
{
	barrier();
}

static int __kprobes sleeps(struct kprobe *probe, struct pt_regs *regs)
{
	might_sleep();
	return 0;
}

/* What no handler may do, in a handler. */
static void fire_atomic(void)
{
	struct kprobe probe = { .addr = (kprobe_opcode_t *)probed, .pre_handler = sleeps };

	if (register_kprobe(&probe))
		return;
	probed();
	unregister_kprobe(&probe);
}

static void fire_leak(void)
{
	void *volatile block;

	for (int i = 0; i < 8; i++)
		block = kmalloc(1000 + i, GFP_KERNEL);
	block = NULL;
}

static void fire_kasan(void)
{
	char *volatile block = kmalloc(64, GFP_KERNEL);

	if (!block)
		return;
	kfree(block);
	block[8]++;
}

static int fire(const char *value, const struct kernel_param *param)
{
	if (sysfs_streq(value, "lockdep"))
		fire_lockdep();
	else if (sysfs_streq(value, "atomic"))
		fire_atomic();
	else if (sysfs_streq(value, "leak"))
		fire_leak();
	else if (sysfs_streq(value, "kasan"))
		fire_kasan();
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops fire_ops = { .set = fire };
module_param_cb(fire, &fire_ops, NULL, 0200);

static int __init control_init(void)
{
	return 0;
}
module_init(control_init);

MODULE_DESCRIPTION("Faults made on purpose, for the tests of the Sentry");
MODULE_LICENSE("GPL");
