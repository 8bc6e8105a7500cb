/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One frame of the Sentry stream, from hostile bytes to checked members; no key is needed for it. */
#ifndef HOSTD_SENTRY_FRAME_H
#define HOSTD_SENTRY_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "lib/err.h"

/* Bounds on what a frame may make jansson allocate; the length has its own in <holdfast/sentry.h>. */
#define SENTRY_FRAME_DEPTH 8
#define SENTRY_FRAME_VALUES 8192
#define SENTRY_FRAME_TYPE_MAX 32

struct sentry_frame {
	json_t *json;	     /* owned; sentry_frame_clear */
	const char *type;    /* in json: 1..SENTRY_FRAME_TYPE_MAX of a-z and _ */
	bool hello;
	uint64_t seq;	     /* 0 for a hello, else >= 1 */
	uint64_t guest_ns;   /* "t" */
	const uint8_t *bytes; /* borrowed: the whole frame */
	size_t len;
	size_t maced;	     /* how many of them the MAC covers */
	uint8_t mac[32];
};

/*
 * The length before a frame. 0 and the length in *len, or -1: no frame may be that long.
 */
int sentry_frame_length(const uint8_t prefix[4], size_t *len, struct err *err);

/*
 * Checks everything that can be checked without a key: UTF-8, JSON with its limits and without
 * duplicate keys, "v", "type", "t", "seq", and "mac" as the last member. Allocates at most in
 * proportion to SENTRY_FRAME_VALUES, whatever the bytes say. -1 with err set and nothing owned.
 */
int sentry_frame_parse(struct sentry_frame *frame, const uint8_t *bytes, size_t len, struct err *err);
void sentry_frame_clear(struct sentry_frame *frame);

#endif
