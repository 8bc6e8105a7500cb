/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one child of hostd that may exec: it starts the fixed roles and nothing else. */
#ifndef HOLDFAST_DAEMON_SPAWNER_H
#define HOLDFAST_DAEMON_SPAWNER_H

#include "lib/err.h"

enum spawner_role { SPAWNER_VM = 1, SPAWNER_PROXY = 2, SPAWNER_ALERT = 3 };

/*
 * Forks the spawner; before threads, before the loop, before confinement. Returns hostd's end of its
 * socket; the spawner ends when that is closed. -1 with err on failure.
 */
int spawner_start(struct err *err);

/*
 * Starts a role with `fd` as its descriptor 3 (ROLE_FD_HOSTD); fd stays the caller's. Blocks for the fork
 * only. 0, or -1 with err; that the role lives is said by its socket.
 */
int spawner_run(int spawner, enum spawner_role role, int fd, struct err *err);

#endif
