/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strict: sudo, privileged groups and console logins are taken away for this boot, never on disk. */
#ifndef SANDBOXD_REVOKE_H
#define SANDBOXD_REVOKE_H

#include <jansson.h>

#include "sandboxd/spec.h"
#include "sandboxd/step.h"

/*
 * Bind mounts files of /run over those of the root mounted at `root`, before its init runs. Each revocation
 * is a step; the first that fails ends the launch. Without such a file there is nothing to revoke.
 */
int guest_revoke(const struct guest_spec *spec, const char *root, struct guest_steps *steps);

/* Covers root/target with the file or directory `from` of /run, read-only, and checks that it does. */
int guest_cover(const char *from, const char *root, const char *target);

/* Whether this group leads to root (sudo, docker, disk, ...). */
int guest_group_privileged(const char *name);

/* Rewrites one line of group(5) or gshadow(5): the user is taken out of a privileged group. In place. */
void guest_group_strip(char *line, const char *user);

#endif
