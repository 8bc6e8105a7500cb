// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The Sentry: reports from the guest kernel what programs in the guest do.
 *
 * The way of one event: a probe handler (hook_*.c) fills a binary record (task.c), the gate folds, limits and
 * queues it (gate.c), the thread (daemon.c) turns it into a frame (frame.c) with a MAC (key.c), keeps it until the
 * host has it (store.c) and sends it (link.c). docs/protocol/sentry.md describes what the host sees.
 *
 * There is no exit function and the module holds a reference on itself: it is not meant to leave.
 */
#include <linux/module.h>
#include <net/af_vsock.h>

#include "canary.h"
#include "daemon.h"
#include "frame.h"
#include "gate.h"
#include "hash.h"
#include "param.h"
#include "probe.h"
#include "program.h"
#include "selftest/selftest.h"
#include "store.h"
#include "tally.h"
#include "task.h"

struct sentry_sums sentry_sums;

/* Memory is not given back if a later step fails: a Sentry that did not load is the end of the launch. */
static int __init sentry_init(void)
{
	int err;

	err = sentry_selftest();
	if (err)
		return err;
	err = sentry_param_init();
	if (err)
		return err;
	/* The call also makes this module depend on the vsock stack: a missing one is a load error. */
	if (vsock_find_cid(sentry_param_cid))
		pr_warn("sentry: cid %u is inside this guest\n", sentry_param_cid);

	err = sentry_task_init();
	if (!err)
		err = sentry_gate_init(sentry_param_dedup_ms, sentry_param_flow_dedup_ms);
	if (!err)
		err = sentry_store_init();
	if (!err)
		err = sentry_program_init();
	if (!err)
		err = sentry_frame_init();
	if (err)
		return err;
	err = sentry_hash_create();
	if (err)
		return err;
	err = sentry_daemon_create();
	if (err)
		goto err_hash;

	/* From the first armed probe on the kernel calls us, so nothing after sentry_probe_arm() may fail. */
	err = sentry_canary_init();
	if (err)
		goto err_daemon;
	err = sentry_probe_arm();
	if (err)
		goto err_canary;
	__module_get(THIS_MODULE);
	sentry_hash_start();
	sentry_daemon_start();
	sentry_param_ready();
	return 0;

err_canary:
	sentry_canary_exit();
err_daemon:
	sentry_daemon_discard();
err_hash:
	sentry_hash_discard();
	return err;
}
module_init(sentry_init);

MODULE_DESCRIPTION("Holdfast Sentry");
MODULE_AUTHOR("Holdfast");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0");
