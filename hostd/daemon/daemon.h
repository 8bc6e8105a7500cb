/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd's own state: the loop, the store, the API, the workspaces. One per user. */
#ifndef HOLDFAST_DAEMON_DAEMON_H
#define HOLDFAST_DAEMON_DAEMON_H

#include "hostd/api/server.h"
#include "hostd/store/store.h"
#include "hostd/ws/paths.h"
#include "lib/loop.h"

struct alerts;
struct workspace;
struct follow;

struct hostd {
	struct loop *loop;
	struct paths paths;
	struct store *store;
	struct api_server *api;
	struct alerts *alerts;
	struct workspace *workspaces; /* sorted by name */
	struct follow *follows;	      /* open `timeline --follow` calls */
	int spawner;
	char db_path[PATHS_MAX + 16];
	uint64_t started_ms;
};

/* `hostd` without arguments: runs until it is told to stop. Returns the exit code. */
int daemon_main(void);

/* The timeline of @hostd (its paths and loop are set), its events on the loop: acknowledgements, --follow, flow control. */
int daemon_open_store(struct hostd *hostd, struct err *err);

/* Appends a row of hostd's own or a workspace's life; data is consumed. */
void daemon_note(struct hostd *hostd, const char *ws, enum event_kind kind, json_t *data);

extern const struct api_method daemon_methods[];

/* `timeline --follow`: pushes every new row that fits until the client leaves. */
void follow_add(struct hostd *hostd, struct api_call *call, const json_t *params);
unsigned follow_count(const struct hostd *hostd);
void follow_row(struct hostd *hostd, const struct store_row *row);

#endif
