// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The thread.
 *
 * It runs at the lowest real-time priority, so that ordinary load and a CPU quota do not hold it up, and with
 * PF_NO_SETAFFINITY, which keeps it out of cgroups and off cpusets. It has a root directory of its own, since the
 * one that it would share changes when PID 1 calls chroot.
 */
#include <linux/fs_struct.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "daemon.h"
#include "frame.h"
#include "gate.h"
#include "link.h"
#include "store.h"
#include "tally.h"
#include "task.h"

#define IDLE_MS 250
#define BEHIND_MS 10

static struct task_struct *thread;
static struct sentry_record *record;

static void drain(void)
{
	unsigned int n;

	for (n = 0; n < HF_SENTRY_RING_SLOTS && sentry_store_has_room(false) && sentry_gate_take(record); n++)
		sentry_frame_event(record);
}

static void beat(unsigned long *next)
{
	bool welcomed = sentry_link_take_welcome();

	if (!sentry_link_is_up() || (!welcomed && time_before(jiffies, *next)))
		return;
	*next = jiffies + msecs_to_jiffies(HF_SENTRY_BEAT_MS);
	if (sentry_store_has_room(true))
		sentry_frame_heartbeat();
	else
		sentry_tally_add(SENTRY_TALLY_BEAT_SKIPPED, 1);
}

static void rest(unsigned long next_beat)
{
	long until_beat = (long)(next_beat - jiffies), most = msecs_to_jiffies(IDLE_MS);
	bool blocked = !sentry_store_has_room(false);

	if (sentry_link_is_behind() || blocked)
		most = msecs_to_jiffies(BEHIND_MS);
	else if (sentry_link_is_up())
		most = clamp(until_beat, 1L, most);
	sentry_gate_prepare_sleep(!blocked);
	set_current_state(TASK_IDLE);
	if (blocked || sentry_gate_is_empty())
		schedule_timeout(most);
	__set_current_state(TASK_RUNNING);
}

static int run(void *unused)
{
	unsigned long next_beat = jiffies;

	current->flags |= PF_NO_SETAFFINITY;
	unshare_fs_struct();
	sched_set_fifo_low(current);
	for (;;) {
		sentry_gate_expire();
		drain();
		sentry_link_step();
		beat(&next_beat);
		sentry_link_step();
		rest(next_beat);
	}
	return 0;
}

int sentry_daemon_create(void)
{
	record = vzalloc(sizeof(*record));
	if (!record)
		return -ENOMEM;
	thread = kthread_create(run, NULL, "holdfast-sentry");
	if (IS_ERR(thread)) {
		vfree(record);
		return PTR_ERR(thread);
	}
	sentry_task_set_own(0, thread);
	return 0;
}

void sentry_daemon_start(void)
{
	sentry_gate_set_waiter(thread);
	wake_up_process(thread);
}

void sentry_daemon_discard(void)
{
	kthread_stop(thread);
	vfree(record);
}
