/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's serial console, written to a log of bounded size. */
#ifndef HOLDFAST_HOSTD_VM_CONSOLE_H
#define HOLDFAST_HOSTD_VM_CONSOLE_H

#include <stdbool.h>

#include "lib/err.h"
#include "lib/loop.h"

#define CONSOLE_LOG "console.log"
#define CONSOLE_LOG_OLD "console.log.1"

enum {
	CONSOLE_LOG_BYTES = 1024 * 1024, /* then the log becomes console.log.1 */
	CONSOLE_TAIL = 4096,
};

struct console;

/* Takes fd; logs to dir/console.log from empty. The bytes are the guest's: never print them raw. */
struct console *console_new(struct loop *loop, int fd, const char *dir, struct err *err);
void console_free(struct console *c);
/* True if the last CONSOLE_TAIL bytes hold this text. Reads what is still there first. */
bool console_tail_has(struct console *c, const char *text);

#endif
