/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frames: the JSON of a record, a heartbeat or a hello, with its MAC. Thread only. docs/protocol/sentry.md has the members. */
#ifndef SENTRY_FRAME_H
#define SENTRY_FRAME_H

#include "record.h"

int sentry_frame_init(void);

/* Build the next frame and put it into the store, which has room. */
void sentry_frame_event(const struct sentry_record *record);
void sentry_frame_heartbeat(void);

/* Build the hello of connection conn; the bytes, length first, stay valid until the next call. */
const void *sentry_frame_hello(u32 conn, size_t *len);

/* The host's latest challenge, for the heartbeats' "nonce". */
void sentry_frame_set_nonce(const u8 nonce[HF_SENTRY_NONCE_BYTES]);

extern const char *const sentry_kind_names[HF_SENTRY_KIND_COUNT];

#endif
