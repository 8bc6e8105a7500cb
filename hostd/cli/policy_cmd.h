/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_cmd.h - `holdfast policy ...`: the verbs, and how the ones that change something reach hostd. */
#ifndef HOLDFAST_CLI_POLICY_CMD_H
#define HOLDFAST_CLI_POLICY_CMD_H

#include <jansson.h>

#include "lib/err.h"

/* The entry point; argv[0] is "policy".  Returns the exit status. */
int cmd_policy(int argc, char **argv);

/*
 * One call to the daemon.  @body may be NULL.  0 with *@reply (new reference, may be NULL for no content),
 * or -1 with what the daemon or the connection said.  The CLI's main sets it before cmd_policy(); without
 * it the verbs that need the daemon say so.
 */
typedef int (*policy_api_call)(const char *method, const char *path, const json_t *body, json_t **reply,
			       struct err *err);
extern policy_api_call policy_api;

/* policy_eval.c */
int policy_cmd_eval(int argc, char **argv);

#endif
