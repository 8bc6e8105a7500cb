/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's time: forward by a step, never back. */
#ifndef SANDBOXD_CLOCK_H
#define SANDBOXD_CLOCK_H

#include <stdint.h>

enum { GUEST_CLOCK_SLACK_MS = 100 };

/* By how many ms the clock was stepped (0: it was close enough or ahead); -1 with errno. */
int64_t guest_clock_push(int64_t unix_ns);

/* The step that guest_clock_push() takes when the clock says now_ns. Pure. */
int64_t guest_clock_step_ms(int64_t now_ns, int64_t unix_ns);

#endif
