/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs a small program (qemu-img, mke2fs) to its end and keeps what it said. */
#ifndef HOLDFAST_HOSTD_VM_TOOL_H
#define HOLDFAST_HOSTD_VM_TOOL_H

#include "lib/buf.h"
#include "lib/err.h"

enum { TOOL_TIMEOUT_MS = 120000, TOOL_OUTPUT_MAX = 1024 * 1024 };

/*
 * Runs argv (argv[0] looked up in PATH and the sbin directories) with /dev/null as input. 0 when it
 * exits with 0. -1 with its last words otherwise, also after TOOL_TIMEOUT_MS. `out` (may be NULL)
 * gets its standard output. Blocks: only before the event loop matters.
 */
int tool_run(const char *const argv[], struct buf *out, struct err *err);

#endif
