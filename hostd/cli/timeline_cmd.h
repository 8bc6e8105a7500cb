/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `holdfast alerts` takes from `holdfast timeline`. */
#ifndef HOLDFAST_CLI_TIMELINE_CMD_H
#define HOLDFAST_CLI_TIMELINE_CMD_H

#include <stdbool.h>

/* Prints the rows with verdict alarm; an exit code. */
int timeline_list_alarms(const char *ws, const char *since, bool json);

#endif
