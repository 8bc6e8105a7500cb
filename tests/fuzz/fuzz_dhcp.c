/* SPDX-License-Identifier: GPL-2.0-or-later */
/* DHCP messages of the guest. */
#include <stdio.h>

#include "tests/fuzz/net_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame f;

	fuzz_start();
	f = fuzz_frame(data, size, 68, 67);
	dhcp_input(fuzz_switch, &f);
	return 0;
}
