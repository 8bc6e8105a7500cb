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

#endif
