// SPDX-License-Identifier: GPL-2.0-or-later
/* A live patch as an attacker would bring it: a function of the kernel is replaced, here the one that prints /proc/cmdline. */
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/seq_file.h>

static int patched_cmdline(struct seq_file *m, void *v)
{
	seq_puts(m, "patched\n");
	return 0;
}

static struct klp_func functions[] = {
	{ .old_name = "cmdline_proc_show", .new_func = patched_cmdline },
	{ }
};

static struct klp_object objects[] = {
	{ .funcs = functions },
	{ }
};

static struct klp_patch patch = { .mod = THIS_MODULE, .objs = objects };

static int __init livepatch_init(void)
{
	return klp_enable_patch(&patch);
}

module_init(livepatch_init);
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
MODULE_DESCRIPTION("replaces a function of the kernel, for the tests of the Sentry");
