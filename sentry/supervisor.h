/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process whose death is an alarm. */
#ifndef SENTRY_SUPERVISOR_H
#define SENTRY_SUPERVISOR_H

struct pid;

/* Takes over the reference; it is kept for good, so another process with the same number is not taken for it. */
void sentry_supervisor_set(struct pid *pid);
struct pid *sentry_supervisor(void);

#endif
