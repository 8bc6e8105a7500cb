/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hostd/cli/policy_cmd.h"
int policy_cmd_apply(int argc, char **argv) { (void)argc; (void)argv; return 1; }
int policy_cmd_history(int argc, char **argv) { (void)argc; (void)argv; return 1; }
int policy_cmd_rollback(int argc, char **argv) { (void)argc; (void)argv; return 1; }
int policy_cmd_advise(int argc, char **argv) { (void)argc; (void)argv; return 1; }
int policy_cmd_learn(int argc, char **argv) { (void)argc; (void)argv; return 1; }
