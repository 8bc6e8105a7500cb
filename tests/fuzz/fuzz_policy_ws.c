/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_policy_ws.c - a client's WebSocket stream, frame by frame; the same in pieces gives the same frames. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hostd/policy/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy_ws s = { .deflate = size && data[0] & 1 };
	struct policy_ws_frame f;

	while (size) {
		struct policy_ws before = s;
		int rc = policy_ws_frame(&s, data, size, &f);

		if (rc != 1)
			break;
		for (size_t n = 0; n < f.header && n < 16; n++) { /* a shorter header is no frame yet */
			struct policy_ws again = before;
			struct policy_ws_frame g;

			if (policy_ws_frame(&again, data, n, &g) == 1)
				abort();
		}
		if (f.header > 14 || (f.opcode >= 8 && f.payload > 125))
			abort();
		if (f.payload > size - f.header)
			break;
		data += f.header + f.payload;
		size -= f.header + f.payload;
	}
	return 0;
}
