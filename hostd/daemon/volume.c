/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What leaves a workspace, to its judge: the switch's own counter, asked of the role once a second.
 *
 * The judge takes samples of a second. An answer that comes late stands for as many seconds as passed, in equal parts, so
 * that a role or a hostd that was busy makes no burst of what was none.
 */
#include "hostd/daemon/workspace.h"

#include <holdfast/role.h>

enum { SAMPLE_MS = 1000, SAMPLES_MAX = 120 };

static void took(void *user, bool ok, const json_t *result, const char *why)
{
	struct workspace *ws = user;
	const json_t *bytes = json_object_get(json_object_get(json_object_get(result, "status"), "net"), "bytes_up");
	uint64_t now = loop_now_ms(), seconds = (now - ws->volume.sampled_ms) / SAMPLE_MS, total;

	(void)why;
	ws->volume.asked = false;
	if (!ok || !json_is_integer(bytes) || json_integer_value(bytes) < 0)
		return;
	total = (uint64_t)json_integer_value(bytes);
	if (!ws->volume.sampled_ms || total < ws->volume.bytes || seconds < 1)
		seconds = 1;
	if (seconds > SAMPLES_MAX)
		seconds = SAMPLES_MAX;
	for (uint64_t i = 1; i < seconds; i++)
		ingest_volume(ws->ingest, (int64_t)now, ws->volume.bytes + (total - ws->volume.bytes) / seconds * i);
	ingest_volume(ws->ingest, (int64_t)now, total);
	ws->volume.sampled_ms = now;
	ws->volume.bytes = total;
}

void volume_tick(struct workspace *ws)
{
	uint64_t now = loop_now_ms();

	if (ws->state != WS_RUNNING || !ws->vm || ws->volume.asked || now - ws->volume.asked_ms < SAMPLE_MS)
		return;
	ws->volume.asked = true;
	ws->volume.asked_ms = now;
	vmlink_request(ws, ROLE_VM_STATUS, json_object(), -1, took, ws);
}
