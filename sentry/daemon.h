/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that turns records into frames and talks to the host. */
#ifndef SENTRY_DAEMON_H
#define SENTRY_DAEMON_H

/* Make the thread; it runs once it is started, and can be discarded only before that. */
int sentry_daemon_create(void);
void sentry_daemon_start(void);
void sentry_daemon_discard(void);

#endif
