/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API's client: one blocking connection, hostd started on demand. */
#ifndef HOLDFAST_API_CLIENT_H
#define HOLDFAST_API_CLIENT_H

#include <jansson.h>

#include "hostd/ws/paths.h"
#include "lib/err.h"

struct api_client;

/* Connects; when nobody answers and start is set, runs hostd (under a lock) and waits for it. */
struct api_client *api_client_open(const struct paths *paths, int start, struct err *err);
void api_client_close(struct api_client *client);

/*
 * One call. params is consumed. Pushed events go to on_event (may be NULL); it may return nonzero to
 * stop waiting (the call then returns NULL with an empty err). The result is the caller's.
 */
json_t *api_client_call(struct api_client *client, const char *method, json_t *params,
			int (*on_event)(void *user, const json_t *event), void *user, struct err *err);
/* The same for a method that hands over a descriptor; *fd is the caller's, -1 if none came. */
json_t *api_client_call_fd(struct api_client *client, const char *method, json_t *params, int *fd,
			   struct err *err);

#endif
