/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whatever is in a file that claims to be an export: verify says yes or no, and nothing else happens. */
#include <stdio.h>
#include <string.h>

#include "hostd/store/verify.h"
#include "lib/hex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct verify_pins pins;
	struct verify_report report;
	struct ed25519_public key;
	FILE *in;

	/* trust the key that the corpus was signed with, so that the walk goes beyond the first line */
	if (!pins.n) {
		static const char hex[] =
			"52fdc25b4be94be9263da216a6130447e1fbd031998ab2ea4ff3cc6f52fa3f6e";

		if (hex_decode(key.bytes, ED25519_PUBLIC, hex))
			__builtin_trap();
		chain_fingerprint(&key, pins.fingerprint[0]);
		pins.n = 1;
	}
	if (!size || !(in = fmemopen((void *)data, size, "r")))
		return 0;
	if (verify_export(in, &pins, &report) && !report.text[0])
		__builtin_trap(); /* a no without a reason */
	fclose(in);
	return 0;
}
