/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every session of this boot is confined by: prepared once as root, entered by each child. */
#ifndef SANDBOXD_CONFINE_H
#define SANDBOXD_CONFINE_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/sandbox/sandbox.h"
#include "sandboxd/guest.h"
#include "sandboxd/identity.h"

enum { GUEST_MASKS = 16 };

struct guest_confine {
	const struct guest *guest;
	enum guest_level level;
	struct guest_identity session;	/* who a session runs as */
	struct guest_identity owner;	/* whose home it is (spec.session_user) */
	struct sandbox_profile profile;
	struct sandbox_path *paths;
	struct sandbox_report report;
	struct sandbox_filters *filters;	/* NULL below strict */
	int ruleset_fd;			/* < 0: none */
	int idmap_fd;			/* user namespace for the home's mount; -1: none */
	char idmap_reason[160];		/* why there is none, where one was wanted */
	bool masked[GUEST_MASKS];	/* existed when the gate opened, and the probe's child masked it */
	bool probed;			/* a child went through all of it and saw refusals */
	bool setuid0_refused, bounding_empty;
};

/* What can be judged before init has run: users, contradictory paths, what the kernel lacks. So that a boot
 * that will take no work says so at once. 0, or -1 with g->steps.failed set. */
int guest_confine_preflight(struct guest *g);

/* Prepares; failures are steps. 0, or -1 with g->steps.failed set. */
int guest_confine_prepare(struct guest_confine *c, struct guest *g);

/* Paths of the ways to an unconfined root that are covered in a session's mount namespace. */
extern const char *const guest_masks[GUEST_MASKS];

/* In the child, after chroot and unshare(CLONE_NEWNS): covers what exists. On failure *path says where. */
int guest_masks_apply(const char **path);

json_t *guest_confine_landlock_json(const struct guest_confine *c);
json_t *guest_confine_seccomp_json(const struct guest_confine *c);
json_t *guest_confine_identity_json(const struct guest_confine *c);
json_t *guest_confine_masks_json(const struct guest_confine *c);

#endif
