/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strict: sudo, privileged groups and console logins are taken away for this boot, never on disk. */
#ifndef SANDBOXD_REVOKE_H
#define SANDBOXD_REVOKE_H

#include <jansson.h>
#include <stdbool.h>

#include "sandboxd/spec.h"
#include "sandboxd/step.h"

/*
 * Bind mounts files of /run over those of the root behind root_fd, before its init runs. Each revocation
 * is a step; the first that fails ends the launch. Without such a file there is nothing to revoke.
 */
int guest_revoke(const struct guest_spec *spec, int root_fd, struct guest_steps *steps);

/* At files and strict: PID 1 starts no manager of a user for this boot. A step, as above. */
int guest_revoke_managers(struct guest_steps *steps);

/*
 * Covers the target with the file or directory `from` of /run, read-only, and checks that it does. A link that the
 * disk has at the target, or on the way to it, means what it will mean once that root is /.
 */
int guest_cover(const char *from, int root_fd, const char *target);
/* Nothing is there, inside the root. */
bool guest_is_absent(int root_fd, const char *target);

/* Whether this group leads to root (sudo, docker, disk, ...). */
int guest_group_privileged(const char *name);

/* Rewrites one line of group(5) or gshadow(5): the user is taken out of a privileged group. In place. */
void guest_group_strip(char *line, const char *user);

#endif
