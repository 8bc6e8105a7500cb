/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as one frame of the Sentry stream. */
#include <stdlib.h>
#include <string.h>

#include <holdfast/sentry.h>

#include "hostd/sentry/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sentry_frame frame;
	struct err err = { "" };
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	/* A copy of its own, so that a read past the end is seen. */
	memcpy(copy, data, size);
	if (sentry_frame_parse(&frame, copy, size, &err)) {
		if (!err.text[0] || frame.json)
			abort();
	} else {
		if (frame.hello != !frame.seq || frame.maced + HF_SENTRY_MAC_TAIL_BYTES != size ||
		    strlen(frame.type) > SENTRY_FRAME_TYPE_MAX)
			abort();
		sentry_frame_clear(&frame);
	}
	free(copy);
	return 0;
}
