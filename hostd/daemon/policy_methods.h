/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_methods.h - the API's methods that change a workspace's policy. */
#ifndef HOLDFAST_DAEMON_POLICY_METHODS_H
#define HOLDFAST_DAEMON_POLICY_METHODS_H

#include "hostd/daemon/workspace.h"

/* name, policy, author?, dry_run? -> {outcome, text, version, diff{added, removed}, diagnostics, digest} */
void policy_apply_method(void *user, struct api_call *call, const json_t *params);
/* name, version, author? -> as above */
void policy_rollback_method(void *user, struct api_call *call, const json_t *params);
/* name -> {versions: [{version, time_ns, author, digest, note, diff, in_force}]} */
void policy_history_method(void *user, struct api_call *call, const json_t *params);

enum policy_apply {
	POLICY_APPLY,	   /* and written to policy.yaml */
	POLICY_APPLY_FILE, /* it came from there */
	POLICY_APPLY_DRY,  /* only said what it would do */
};

/*
 * Checks @text within the boundary, keeps it as a version, swaps, and has open connections judged again.  0 with
 * *@reply (the caller's) as policy.apply gives it, also for what is refused; -1 with @err when files fail.
 */
int policy_apply_text(struct workspace *ws, const char *text, size_t len, const char *author, const char *note,
		      enum policy_apply how, json_t **reply, struct err *err);

/*
 * policy_file.c: looks whether policy.yaml was edited, twice a second at most, and applies what stayed as it is
 * between two looks; with @now at once.  What is refused leaves the policy in force and sets policy_error.
 */
void policy_file_look(struct workspace *ws, bool now);

#endif
