/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which Sentry module a start stages: from the signed catalog, for exactly the kernel that boots. */
#ifndef HOLDFAST_DAEMON_SENTRY_MODULE_H
#define HOLDFAST_DAEMON_SENTRY_MODULE_H

#include "hostd/daemon/workspace.h"
#include "lib/hash.h"

struct sentry_module {
	char path[PATHS_MAX + 128]; /* a private copy of the verified bytes; empty: the VM runs without */
	char sha256_hex[HASH_HEX];
};

/*
 * Verifies the module for this release and copies the verified bytes into the workspace's run folder. A
 * workspace that does not want a Sentry gets an empty path; best_effort without a module too, with a row
 * that says why; required without one fails.
 */
int sentry_module_pick(struct sentry_module *module, struct workspace *ws, const char *release,
		       struct err *err);

/*
 * True while the catalog has no module for this release and a build of one says that it is under way;
 * `step` is then one line for people. Never for a workspace that wants no Sentry.
 */
bool sentry_module_waiting(const struct workspace *ws, const char *release, char *step, size_t room);

#endif
