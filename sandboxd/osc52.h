/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes clipboard queries (OSC 52 with "?") out of a terminal's output, across reads. */
#ifndef SANDBOXD_OSC52_H
#define SANDBOXD_OSC52_H

#include <stddef.h>
#include <stdint.h>

/* Longest prefix that is held back: ESC ] 5 2 ; selection ; ? */
enum { GUEST_OSC52_HELD = 24 };

struct guest_osc52 {
	uint8_t held[GUEST_OSC52_HELD];
	size_t len;
	int swallow;	/* inside a query, up to its terminator */
};

/* Filters n bytes in place behind what was held; out needs room for n + GUEST_OSC52_HELD. Returns how many. */
size_t guest_osc52_filter(struct guest_osc52 *f, const uint8_t *in, size_t n, uint8_t *out);

#endif
