/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_cmd.h - `holdfast policy ...`: the verbs and what they share. */
#ifndef HOLDFAST_CLI_POLICY_CMD_H
#define HOLDFAST_CLI_POLICY_CMD_H

#include <jansson.h>

/* What a verb returns when it was called wrongly; cmd_policy() then says how. */
enum { POLICY_CMD_USAGE = -1 };

/* The entry point; argv[0] is "policy".  Returns the exit status. */
int cmd_policy(int argc, char **argv);

struct policy;
struct policy_diags;

/* policy_cmd.c: a file's text (malloc'd, NUL at its end), "-" is standard input; NULL after a message */
char *policy_cmd_read(const char *path, size_t *len);
/* A policy of a file, strict or lenient; NULL after its errors were printed (as JSON with @json). */
struct policy *policy_cmd_load(const char *path, int lenient, int json);
void policy_cmd_print_diags(const char *path, const struct policy_diags *d);
void policy_cmd_print_json(json_t *json); /* takes the reference */

/* policy_eval.c */
int policy_cmd_eval(int argc, char **argv);
/* policy_local.c: no daemon needed */
int policy_cmd_check(int argc, char **argv);
int policy_cmd_show(int argc, char **argv);
int policy_cmd_explain(int argc, char **argv);
int policy_cmd_diff(int argc, char **argv);
int policy_cmd_prove(int argc, char **argv);
/* policy_daemon.c */
int policy_cmd_apply(int argc, char **argv);
int policy_cmd_history(int argc, char **argv);
int policy_cmd_rollback(int argc, char **argv);
int policy_cmd_advise(int argc, char **argv);
int policy_cmd_learn(int argc, char **argv);

#endif
