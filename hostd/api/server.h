/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API's server: requests of the same user over a unix socket, answered at once or later. */
#ifndef HOLDFAST_API_SERVER_H
#define HOLDFAST_API_SERVER_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/err.h"
#include "lib/loop.h"

struct api_server;
/* One request that waits for its answer. Valid until api_reply, api_fail or its cancelled callback. */
struct api_call;

/* Must answer the call, now or later. params is the caller's until the handler returns. */
typedef void (*api_method_fn)(void *user, struct api_call *call, const json_t *params);

struct api_method {
	const char *name;
	const char *const *params; /* allowed keys, NULL-terminated; others are refused by name */
	api_method_fn fn;
};

/*
 * Listens at path (0600). Methods end with a NULL name. refuses (may be NULL) says which processes of the
 * same user are closed all the same. NULL with err on failure.
 */
struct api_server *api_server_new(struct loop *loop, const char *path, const struct api_method *methods,
				  bool (*refuses)(void *user, int pid), void *user, struct err *err);
void api_server_free(struct api_server *server);

/* Ends the call. result is consumed; NULL is {}. */
void api_reply(struct api_call *call, json_t *result);
/* Like api_reply, handing over one descriptor (which stays the caller's). */
void api_reply_fd(struct api_call *call, json_t *result, int fd);
/* Ends the call with one line why. */
void api_fail(struct api_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void api_fail_err(struct api_call *call, const struct err *err);
/* One object before the answer (progress, --follow). Consumed. -1: the reader does not keep up. */
int api_push(struct api_call *call, json_t *event);

/* Called when the client went away before the answer; the call is invalid afterwards. */
void api_call_on_cancel(struct api_call *call, void (*fn)(void *user), void *user);
/* pid of the client (SO_PEERCRED at connect). */
int api_call_pid(const struct api_call *call);

#endif
