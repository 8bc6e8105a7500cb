/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frames that the host has not acknowledged yet: a byte ring of frames as they go over the wire. Thread only. */
#ifndef SENTRY_STORE_H
#define SENTRY_STORE_H

#include <linux/types.h>
#include <holdfast/sentry.h>

int sentry_store_init(void);

/* Whether a frame of the greatest size still fits; heartbeats may use the part that is kept for them. */
bool sentry_store_has_room(bool heartbeat);

/* Put JSON of len bytes as the next frame; the store writes the length before it. Returns false if it does not fit. */
bool sentry_store_put(const char *json, size_t len, bool heartbeat);

u64 sentry_store_next_seq(void);  /* seq of the next frame to be put */
u64 sentry_store_first_seq(void); /* first frame that is kept, else the next seq */

/* Frames up to seq are durable on the host. Returns false for a seq that was never sent. */
bool sentry_store_ack(u64 seq);

/* Start over at the first kept frame, for a new connection. */
void sentry_store_rewind(void);

/* The next unsent bytes that lie together (0: none), and how many of them went out. */
size_t sentry_store_unsent(const void **bytes);
void sentry_store_sent(size_t len);

#endif
