// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A terminal answers "OSC 52 ; selection ; ?" by typing the user's clipboard into the program. Setting the
 * clipboard passes; asking for it does not. Only a prefix that may still become a query is held back.
 */
#include "sandboxd/osc52.h"

#include <string.h>

/* How far the held bytes are along a query: 0 they can't be one, 1 they may be, 2 they are. */
static int judge(const uint8_t *p, size_t n)
{
	static const uint8_t start[] = { 0x1b, ']', '5', '2', ';' };
	size_t fixed = n < sizeof(start) ? n : sizeof(start);

	if (memcmp(p, start, fixed))
		return 0;
	for (size_t i = sizeof(start); i < n; i++) {
		if (p[i] != ';') {
			if (!strchr("cpqs01234567", p[i]) || !p[i])
				return 0;
			continue;
		}
		if (i + 1 == n)
			return 1;
		return p[i + 1] == '?' ? 2 : 0;
	}
	return 1;
}

size_t guest_osc52_filter(struct guest_osc52 *f, const uint8_t *in, size_t n, uint8_t *out)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t b = in[i];

		if (f->swallow) {
			/* BEL, or the backslash of ESC \; any other control character ends it too. */
			f->swallow = b >= 0x20 && b != '\\' ? 1 : b == 0x1b ? 1 : 0;
			continue;
		}
		if (f->len || b == 0x1b) {
			if (b == 0x1b && f->len) {
				memcpy(out + count, f->held, f->len);
				count += f->len;
				f->len = 0;
			}
			f->held[f->len++] = b;
			switch (judge(f->held, f->len)) {
			case 2:
				f->swallow = 1;
				f->len = 0;
				continue;
			case 1:
				if (f->len < GUEST_OSC52_HELD)
					continue;
				/* fall through */
			default:
				memcpy(out + count, f->held, f->len);
				count += f->len;
				f->len = 0;
				continue;
			}
		}
		out[count++] = b;
	}
	return count;
}
