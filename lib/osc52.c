// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A terminal answers "OSC 52 ; selection ; ?" by typing the user's clipboard into the program. Setting the
 * clipboard passes; asking for it does not. Only a prefix that may still become a query is held back.
 *
 * Terminals read it generously, and so does this: OSC is ESC ], or the C1 control 0x9d, alone or as UTF-8 (c2 9d);
 * the number may have leading zeros; the selection may be anything (xterm skips letters that it does not know); and
 * C0 controls in the midst of a sequence are carried out or ignored, without ending it (ECMA-48; xterm, VTE).
 */
#include "lib/osc52.h"

#include <stdbool.h>
#include <string.h>

enum state { GROUND, ESCAPE, C1_LEAD, NUMBER, NUMBER_5, NUMBER_52, SELECTION, DATA, QUERY, QUERY_ESCAPE };

enum { BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b, DEL = 0x7f, C1_UTF8 = 0xc2, C1_OSC = 0x9d };

static bool ends_string(uint8_t b)
{
	return b == BEL || b == CAN || b == SUB;
}

static bool is_control(uint8_t b)
{
	return b < 0x20 || b == DEL;
}

/* The state after a byte that is no control. GROUND: this is no query. */
static enum state next(enum state s, uint8_t b)
{
	switch (s) {
	case GROUND:
		return b == C1_UTF8 ? C1_LEAD : b == C1_OSC ? NUMBER : GROUND;
	case ESCAPE:
		return b == ']' ? NUMBER : GROUND;
	case C1_LEAD:
		return b == C1_OSC ? NUMBER : GROUND;
	case NUMBER:
		return b == '0' ? NUMBER : b == '5' ? NUMBER_5 : GROUND;
	case NUMBER_5:
		return b == '2' ? NUMBER_52 : GROUND;
	case NUMBER_52:
		return b == ';' ? SELECTION : GROUND;
	case SELECTION:
		return b == ';' ? DATA : SELECTION;
	case DATA:
		return b == '?' ? QUERY : GROUND;
	default:
		return GROUND;
	}
}

static size_t release(struct osc52 *f, uint8_t *out)
{
	size_t n = f->len;

	memcpy(out, f->held, n);
	f->len = 0;
	f->state = GROUND;
	return n;
}

/* Inside a query nothing passes, up to what ends it. */
static void swallow(struct osc52 *f, uint8_t b)
{
	if (ends_string(b) || (f->state == QUERY_ESCAPE && b == '\\'))
		f->state = GROUND;
	else
		f->state = b == ESC ? QUERY_ESCAPE : QUERY;
}

static void hold(struct osc52 *f, uint8_t b, enum state s)
{
	f->held[f->len++] = b;
	f->state = (uint8_t)s;
	if (s != QUERY && f->len < OSC52_HELD)
		return;
	f->state = QUERY;
	f->len = 0;
}

size_t osc52_filter(struct osc52 *f, const uint8_t *in, size_t n, uint8_t *out)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t b = in[i];
		enum state s;

		if (f->state >= QUERY) {
			swallow(f, b);
			continue;
		}
		if (b == ESC) {
			count += release(f, out + count);
			hold(f, b, ESCAPE);
			continue;
		}
		if (is_control(b) && !ends_string(b)) {
			out[count++] = b;
			continue;
		}
		s = ends_string(b) ? GROUND : next(f->state, b);
		if (s == GROUND && f->len) {
			count += release(f, out + count);
			s = ends_string(b) ? GROUND : next(GROUND, b);
		}
		if (s == GROUND)
			out[count++] = b;
		else
			hold(f, b, s);
	}
	return count;
}
