/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is the guest's supervisor heard? It reports at least every HF_CONTROL_STATUS_MS. The Sentry tells when it is killed; that
 * it was stopped, or its cgroup frozen, shows only here. Only time in which the VM runs and hostd itself looks is counted.
 * What it has confined stays confined, so this is a row and no points.
 */
#include "hostd/daemon/workspace.h"

#include <holdfast/guest.h>

enum { SILENT_MS = 4 * HF_CONTROL_STATUS_MS, LOOK_MS = 1000 };

void supervisor_expected(struct workspace *ws, bool expected)
{
	ws->supervisor.expected = expected;
	ws->supervisor.silent = false;
	ws->supervisor.quiet_ms = 0;
}

void supervisor_heard(struct workspace *ws)
{
	if (ws->supervisor.silent)
		workspace_event(ws, EVENT_GUEST_HEARD, json_object());
	ws->supervisor.silent = false;
	ws->supervisor.quiet_ms = 0;
}

void supervisor_tick(struct workspace *ws, uint64_t now_ms)
{
	uint64_t passed = now_ms - ws->supervisor.looked_ms;

	ws->supervisor.looked_ms = now_ms;
	if (!ws->supervisor.expected || ws->state != WS_RUNNING || passed > LOOK_MS)
		return;
	ws->supervisor.quiet_ms += passed;
	if (ws->supervisor.silent || ws->supervisor.quiet_ms < SILENT_MS)
		return;
	ws->supervisor.silent = true;
	workspace_event(ws, EVENT_GUEST_SILENT, json_pack("{s:i}", "seconds", SILENT_MS / 1000));
}
