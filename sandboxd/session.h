/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions: one started program each, its streams or terminal, its cgroup, and at most one client. */
#ifndef SANDBOXD_SESSION_H
#define SANDBOXD_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandboxd/child.h"
#include "sandboxd/conn.h"

enum { GUEST_SESSIONS_MAX = 512 };

struct guest_sessions;

struct guest_session_request {
	const struct guest_identity *who;
	char *const *argv;	/* at least one */
	char *const *env;
	const char *cwd;
	bool login;
	bool pty;
	uint16_t rows, cols;
	bool unconfined;
	bool detach;
	json_t *env_dropped;	/* goes into the reply; borrowed */
	int (*run)(void *user);	/* a files operation: its output is frames, relayed as they are */
	void *user;
};

struct guest_sessions *guest_sessions_new(struct loop *loop, const struct guest_confine *confine, struct err *e);

/* Starts a session for this client and takes the connection over. On failure replies and ends it. */
void guest_session_start(struct guest_sessions *all, struct guest_conn *client, const struct guest_session_request *r);

/* Takes up a detached session: 0, or -1 when there is none of this name. */
int guest_session_attach(struct guest_sessions *all, struct guest_conn *client, const char *name, uint16_t rows,
			 uint16_t cols);

/* Sends a signal to every process of the session's cgroup. */
int guest_session_signal(struct guest_sessions *all, const char *name, int signal);

/* A child of ours has ended. Returns whether it was a session's. */
bool guest_sessions_reaped(struct guest_sessions *all, pid_t pid, int status);

size_t guest_sessions_count(const struct guest_sessions *all);
json_t *guest_sessions_json(const struct guest_sessions *all);

/* {"ok":false,...} with code 126 or 75. */
json_t *guest_refusal(const char *step, const char *path, int error_nr, const char *text, int code);

#endif
