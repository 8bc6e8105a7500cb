// SPDX-License-Identifier: GPL-2.0-or-later
/* Registration of the probes, and the figures by which the host sees whether they are still there. */
#include <linux/mutex.h>

#include "probe.h"
#include "task.h"

static const struct sentry_probe_table *const tables[] = {
	&sentry_hook_exec,   &sentry_hook_cred, &sentry_hook_kernel,	 &sentry_hook_ns,
	&sentry_hook_denied, &sentry_hook_flow, &sentry_hook_supervisor,
};

static DEFINE_MUTEX(arm_lock);
static bool denials_armed;

#define for_each_probe(t, p)                                                                       \
	for ((t) = 0; (t) < ARRAY_SIZE(tables); (t)++)                                             \
		for ((p) = tables[t]->probes; (p) < tables[t]->probes + tables[t]->count; (p)++)

static void find_tracepoint(struct tracepoint *tp, void *data)
{
	struct sentry_probe *probe = data;

	if (!strcmp(tp->name, probe->symbol))
		probe->tracepoint = tp;
}

static int tracepoint_arm(struct sentry_probe *probe)
{
	for_each_kernel_tracepoint(find_tracepoint, probe);
	return probe->tracepoint ? tracepoint_probe_register(probe->tracepoint, probe->function, NULL) : -ENOENT;
}

static int probe_arm(struct sentry_probe *probe)
{
	int err = -EINVAL;

	switch (probe->kind) {
	case SENTRY_PROBE_ENTRY:
		err = register_kprobe(&probe->entry);
		break;
	case SENTRY_PROBE_RETURN:
		err = register_kretprobe(&probe->ret);
		break;
	case SENTRY_PROBE_TRACEPOINT:
		err = tracepoint_arm(probe);
		break;
	}
	probe->state = err ? SENTRY_PROBE_ABSENT : SENTRY_PROBE_ARMED;
	return err;
}

int sentry_probe_arm(void)
{
	struct sentry_probe *probe;
	unsigned int t, armed = 0;

	for_each_probe(t, probe)
		if (!probe->denial && !probe_arm(probe))
			armed++;
	return armed ? 0 : -ENOENT;
}

void sentry_probe_arm_denials(void)
{
	struct sentry_probe *probe;
	unsigned int t;

	mutex_lock(&arm_lock);
	for_each_probe(t, probe)
		if (probe->denial && probe->state == SENTRY_PROBE_IDLE)
			probe_arm(probe);
	WRITE_ONCE(denials_armed, true);
	mutex_unlock(&arm_lock);
}

bool sentry_probe_denials_armed(void)
{
	return READ_ONCE(denials_armed);
}

static struct kprobe *probe_kprobe(struct sentry_probe *probe)
{
	return probe->kind == SENTRY_PROBE_ENTRY ? &probe->entry : &probe->ret.kp;
}

void sentry_probe_count(struct sentry_probe_totals *totals)
{
	struct sentry_probe *probe;
	struct kprobe *kp;
	unsigned int t;

	memset(totals, 0, sizeof(*totals));
	for_each_probe(t, probe) {
		if (probe->state != SENTRY_PROBE_ARMED)
			continue;
		totals->total++;
		if (probe->kind == SENTRY_PROBE_TRACEPOINT) {
			totals->armed++;
			continue;
		}
		kp = probe_kprobe(probe);
		totals->armed += !kprobe_disabled(kp);
		totals->ftrace += kprobe_ftrace(kp);
		totals->missed += kp->nmissed;
		if (probe->kind == SENTRY_PROBE_RETURN)
			totals->missed += probe->ret.nmissed;
	}
}

void sentry_probe_each(void (*visit)(const struct sentry_probe *probe, void *data), void *data)
{
	struct sentry_probe *probe;
	unsigned int t;

	for_each_probe(t, probe)
		visit(probe, data);
}
