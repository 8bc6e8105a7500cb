/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `holdfast alerts` and `holdfast evidence` take from `holdfast timeline`. */
#ifndef HOLDFAST_CLI_TIMELINE_CMD_H
#define HOLDFAST_CLI_TIMELINE_CMD_H

#include <stdbool.h>

#include "hostd/store/export.h"

/* Prints the rows with verdict alarm; an exit code. */
int timeline_list_alarms(const char *ws, const char *since, bool json);

/* The self-contained file at @path: written beside its place and moved there when it is whole. */
int timeline_export_to(const char *path, const struct query *q, bool frames, struct export_totals *totals, struct err *e);

#endif
