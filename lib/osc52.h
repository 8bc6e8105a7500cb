/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes clipboard queries (OSC 52 with "?") out of a terminal's output, across reads. */
#ifndef LIB_OSC52_H
#define LIB_OSC52_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a possible query that are held back; what goes on longer before it says what it is, is taken for one. */
enum { OSC52_HELD = 24 };

struct osc52 {
	uint8_t held[OSC52_HELD];
	size_t len;
	uint8_t state;
};

/* Filters n bytes behind what was held; out needs room for n + OSC52_HELD. Returns how many it has. At the end of
 * the output what is held belongs to it. */
size_t osc52_filter(struct osc52 *f, const uint8_t *in, size_t n, uint8_t *out);

#endif
