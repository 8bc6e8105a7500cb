/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a timeline that cannot be written means for a VM: the workspace's on_store_full decides. */
#include "hostd/daemon/workspace.h"

#include <string.h>

#include <holdfast/role.h>

#include "hostd/ws/settings.h"

/*
 * Theory of operation. Nothing is acknowledged while the store fails: frames wait in the role and in the guest,
 * and what finds no room there is counted as dropped. `run` accepts that; `pause`, the default, stops the VM's
 * CPUs until the store takes rows again, so that nothing happens that no row will tell of. The reason of the
 * pause is the mark by which it is known again, also by the next hostd: no other pause is ended here.
 */
static const char PAUSED[] = "the timeline cannot be written";

static bool pauses(const struct workspace *ws)
{
	return !strcmp(settings_text(ws->settings, "on_store_full"), "pause");
}

static bool paused_for_it(const struct workspace *ws)
{
	return ws->state == WS_PAUSED && !strcmp(ws->reason, PAUSED);
}

int store_full_check(const struct workspace *ws, struct err *err)
{
	char why[256];

	if (!pauses(ws) || store_health(ws->hostd->store, why, sizeof(why)) == STORE_HEALTHY)
		return 0;
	return err_set(err, "%s: %s (make room, or: holdfast ws set %s --on-store-full run)", PAUSED, why, ws->name);
}

void store_full_apply(struct workspace *ws)
{
	char why[256];
	bool healthy = store_health(ws->hostd->store, why, sizeof(why)) == STORE_HEALTHY;

	if (!ws->vm)
		return;
	if (!healthy && pauses(ws) && ws->state == WS_RUNNING)
		vmlink_request(ws, ROLE_VM_PAUSE, json_pack("{s:s}", "reason", PAUSED), -1, NULL, NULL);
	else if ((healthy || !pauses(ws)) && paused_for_it(ws) && quarantine_state(ws->quarantine) == QUARANTINE_FREE)
		vmlink_request(ws, ROLE_VM_CONT, json_object(), -1, NULL, NULL);
}
