/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The connection to the host: an AF_VSOCK socket that belongs to no process. Thread only. */
#ifndef SENTRY_LINK_H
#define SENTRY_LINK_H

#include <linux/types.h>

/* Connect if it is time, take what the host sent, send what can be sent without waiting. May sleep up to 2 s in connect. */
void sentry_link_step(void);

/* Whether the host has welcomed this connection. */
bool sentry_link_is_up(void);
/* True once after each welcome: a heartbeat is due at once. */
bool sentry_link_take_welcome(void);
/* Whether bytes wait that the socket did not take. */
bool sentry_link_is_behind(void);

#endif
