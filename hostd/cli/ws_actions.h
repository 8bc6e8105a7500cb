/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Steps that `ws` and `run` share. Each prints its failure and returns an exit code. */
#ifndef HOLDFAST_CLI_WS_ACTIONS_H
#define HOLDFAST_CLI_WS_ACTIONS_H

#include <jansson.h>

#include "lib/err.h"

/* changes (consumed): settings as lists of text. policy: NULL = the shipped default, "none", or a file. */
int ws_create_call(const char *name, json_t *changes, const char *policy, json_t **result);
/* Starts (or finds running) and waits until it takes sessions, showing progress. */
int ws_start_call(const char *name, json_t **result);

#endif
