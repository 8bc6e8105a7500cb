// SPDX-License-Identifier: GPL-2.0-or-later
/* What must hold before the module may load: the MAC against a published vector, the writer, and the bucket. */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "json.h"
#include "key.h"
#include "limit.h"
#include "selftest/selftest.h"

/* RFC 4231, test case 2. */
static bool __init mac_is_right(void)
{
	static const u8 expected[HF_SENTRY_MAC_BYTES] __initconst = {
		0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
		0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43,
	};
	static const char data[] __initconst = "what do ya want for nothing?";
	u8 mac[HF_SENTRY_MAC_BYTES];

	sentry_key_hmac("Jefe", 4, data, sizeof(data) - 1, mac);
	return !memcmp(mac, expected, sizeof(mac));
}

static bool __init json_is_right(void)
{
	static const char expected[] __initconst =
		"{\"a\":\"\\\"\\\\\\u000a\\u007f\xc3\xa9\",\"b_b64\":\"/w==\",\"c\":[\"x\",\"\"],\"d\":-5}";
	struct sentry_json j;
	char buffer[96];

	sentry_json_init(&j, buffer, sizeof(buffer));
	sentry_json_open(&j, NULL, '{');
	sentry_json_text(&j, "a", "\"\\\n\x7f\xc3\xa9", 6);
	sentry_json_text(&j, "b", "\xff", 1);
	sentry_json_texts(&j, "c", "x\0", 3);
	sentry_json_s64(&j, "d", -5);
	sentry_json_close(&j, '}');
	return !j.full && j.len == sizeof(expected) - 1 && !memcmp(buffer, expected, j.len);
}

static bool __init limit_is_right(void)
{
	struct sentry_limit limit = { 0 };
	unsigned int i, taken = 0;

	for (i = 0; i < 10; i++)
		taken += sentry_limit_take(&limit, 1, 2, 4);
	return taken == 4 && sentry_limit_take(&limit, 500000001, 2, 4) && !sentry_limit_take(&limit, 500000002, 2, 4);
}

int __init sentry_selftest(void)
{
	if (mac_is_right() && json_is_right() && limit_is_right())
		return 0;
	pr_err("sentry: self-test failed\n");
	return -EILSEQ;
}
