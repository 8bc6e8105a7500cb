/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `evidence export`, hostd's part: what only it can say or give of a workspace that stands still.
 *
 * The files of the workspace are the user's own and the client copies them itself; hostd says that the VM stands still,
 * hands over its RAM, and writes the row that names the digest of what was exported.
 */
#include "hostd/daemon/evidence.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "lib/cleanup.h"
#include "lib/json.h"

/* A workspace as it is shown, without the values of its environment: they may be secrets. */
static json_t *without_secrets(struct workspace *ws, const char *stand)
{
	_cleanup_json_ json_t *shown = workspace_json(ws);
	json_t *json = json_deep_copy(shown), *value;
	json_t *env = json_object_get(json_object_get(json, "settings"), "env");
	const char *key;

	json_object_foreach(env, key, value)
		json_object_set_new(env, key, json_string("(left out)"));
	json_object_set_new(json, "boot_id", json_string(ws->boot_id));
	json_object_set_new(json, "epoch", json_integer(ws->epoch));
	json_object_set_new(json, "stand", json_string(stand));
	return json;
}

struct dump {
	struct api_call *call; /* NULL: the client left */
	struct hostd *hostd;
	char name[WS_NAME_MAX + 1], stand[sizeof(((struct workspace *)0)->stand)];
	int fd;
};

static void dump_cancelled(void *user)
{
	((struct dump *)user)->call = NULL;
}

static void dumped(void *user, bool ok, const json_t *result, const char *why)
{
	struct dump *dump = user;
	struct workspace *ws = workspace_find(dump->hostd, dump->name);

	(void)result;
	if (dump->call && ok && ws)
		api_reply_fd(dump->call, without_secrets(ws, dump->stand), dump->fd);
	else if (dump->call)
		api_fail(dump->call, "%s", ok ? "the workspace is gone" : why);
	close(dump->fd);
	free(dump);
}

/* QEMU writes it into a file without a name, so it goes when the client has copied or left it. */
static void begin_dump(struct workspace *ws, struct api_call *call)
{
	struct dump *dump = calloc(1, sizeof(*dump));

	if (!dump || (dump->fd = open(ws->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) < 0) {
		api_fail(call, "no file for the RAM image can be made in %s", ws->dir);
		free(dump);
		return;
	}
	dump->call = call;
	dump->hostd = ws->hostd;
	snprintf(dump->name, sizeof(dump->name), "%s", ws->name);
	snprintf(dump->stand, sizeof(dump->stand), "%s", ws->stand);
	api_call_on_cancel(call, dump_cancelled, dump);
	vmlink_request(ws, ROLE_VM_DUMP, json_object(), dump->fd, dumped, dump);
}

void evidence_begin(struct workspace *ws, struct api_call *call, bool ram)
{
	if (ws->state != WS_OFF && ws->state != WS_PAUSED)
		api_fail(call, "workspace %s is %s: `holdfast quarantine %s` first, or stop it", ws->name,
			 workspace_state_name(ws), ws->name);
	else if (!ram)
		api_reply(call, without_secrets(ws, ws->stand));
	else if (ws->state == WS_OFF)
		api_fail(call, "workspace %s is off: it has no RAM any more", ws->name);
	else
		begin_dump(ws, call);
}

void evidence_done(struct workspace *ws, struct api_call *call, const char *stand, const char *file, const char *sha256,
		   const char *author)
{
	if ((ws->state != WS_OFF && ws->state != WS_PAUSED) || strcmp(stand, ws->stand) != 0) {
		api_fail(call, "workspace %s ran, was reset or lost its hostd while its evidence was copied: what was copied is "
			 "no one moment's", ws->name);
		return;
	}
	workspace_event(ws, EVENT_EVIDENCE, json_pack("{s:s,s:s,s:s}", "file", file, "sha256", sha256, "author", author));
	api_reply(call, NULL);
}
