// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON writer; everything that user space can choose passes through escaped() or base64(). */
#include "json.h"

#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <string.h>
#endif

static const char digits[] = "0123456789abcdef";

void sentry_json_init(struct sentry_json *j, char *buffer, size_t size)
{
	*j = (struct sentry_json){ .at = buffer, .size = size };
}

void sentry_json_raw(struct sentry_json *j, const char *bytes, size_t len)
{
	if (j->full || len > j->size - j->len) {
		j->full = true;
		return;
	}
	memcpy(j->at + j->len, bytes, len);
	j->len += len;
}

static void put(struct sentry_json *j, char c)
{
	sentry_json_raw(j, &c, 1);
}

static void begin(struct sentry_json *j, const char *name, const char *suffix)
{
	if (j->comma)
		put(j, ',');
	j->comma = true;
	if (!name)
		return;
	put(j, '"');
	sentry_json_raw(j, name, strlen(name));
	sentry_json_raw(j, suffix, strlen(suffix));
	sentry_json_raw(j, "\":", 2);
}

void sentry_json_open(struct sentry_json *j, const char *name, char bracket)
{
	begin(j, name, "");
	put(j, bracket);
	j->comma = false;
}

void sentry_json_close(struct sentry_json *j, char bracket)
{
	put(j, bracket);
	j->comma = true;
}

static void number(struct sentry_json *j, __u64 value)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = '0' + value % 10;
		value /= 10;
	} while (value);
	sentry_json_raw(j, text + at, sizeof(text) - at);
}

void sentry_json_u64(struct sentry_json *j, const char *name, __u64 value)
{
	begin(j, name, "");
	number(j, value);
}

void sentry_json_s64(struct sentry_json *j, const char *name, __s64 value)
{
	begin(j, name, "");
	if (value < 0)
		put(j, '-');
	number(j, value < 0 ? -(__u64)value : (__u64)value);
}

void sentry_json_bool(struct sentry_json *j, const char *name, bool value)
{
	begin(j, name, "");
	sentry_json_raw(j, value ? "true" : "false", value ? 4 : 5);
}

void sentry_json_hex(struct sentry_json *j, const char *name, const __u8 *bytes, size_t len)
{
	size_t i;

	begin(j, name, "");
	put(j, '"');
	for (i = 0; i < len; i++) {
		put(j, digits[bytes[i] >> 4]);
		put(j, digits[bytes[i] & 15]);
	}
	put(j, '"');
}

void sentry_json_hex64(struct sentry_json *j, const char *name, __u64 value)
{
	__u8 bytes[8];
	unsigned int i;

	for (i = 0; i < 8; i++)
		bytes[i] = value >> (56 - 8 * i);
	sentry_json_hex(j, name, bytes, sizeof(bytes));
}

void sentry_json_word(struct sentry_json *j, const char *name, const char *word)
{
	begin(j, name, "");
	put(j, '"');
	sentry_json_raw(j, word, strlen(word));
	put(j, '"');
}

/* Length of the UTF-8 sequence at text, or 0 (RFC 3629, section 4). */
static size_t utf8_sequence(const __u8 *text, size_t len)
{
	__u8 low = 0x80, high = 0xbf;
	size_t need, i;

	if (text[0] < 0x80)
		return 1;
	if (text[0] >= 0xc2 && text[0] <= 0xdf) {
		need = 2;
	} else if ((text[0] & 0xf0) == 0xe0) {
		need = 3;
		low = text[0] == 0xe0 ? 0xa0 : 0x80;
		high = text[0] == 0xed ? 0x9f : 0xbf;
	} else if (text[0] >= 0xf0 && text[0] <= 0xf4) {
		need = 4;
		low = text[0] == 0xf0 ? 0x90 : 0x80;
		high = text[0] == 0xf4 ? 0x8f : 0xbf;
	} else {
		return 0;
	}
	if (need > len || text[1] < low || text[1] > high)
		return 0;
	for (i = 2; i < need; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return need;
}

bool sentry_json_is_utf8(const __u8 *text, size_t len)
{
	size_t step;

	for (; len; text += step, len -= step) {
		step = utf8_sequence(text, len);
		if (!step)
			return false;
	}
	return true;
}

static void escaped(struct sentry_json *j, const __u8 *text, size_t len)
{
	char escape[6] = { '\\', 'u', '0', '0', 0, 0 };
	size_t i;

	put(j, '"');
	for (i = 0; i < len; i++) {
		if (text[i] == '"' || text[i] == '\\') {
			put(j, '\\');
			put(j, text[i]);
		} else if (text[i] < 0x20 || text[i] == 0x7f) {
			escape[4] = digits[text[i] >> 4];
			escape[5] = digits[text[i] & 15];
			sentry_json_raw(j, escape, sizeof(escape));
		} else {
			put(j, text[i]);
		}
	}
	put(j, '"');
}

static void base64(struct sentry_json *j, const __u8 *text, size_t len)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t i;

	put(j, '"');
	for (i = 0; i < len; i += 3) {
		__u32 group = text[i] << 16;

		if (i + 1 < len)
			group |= text[i + 1] << 8;
		if (i + 2 < len)
			group |= text[i + 2];
		put(j, alphabet[group >> 18]);
		put(j, alphabet[(group >> 12) & 63]);
		put(j, i + 1 < len ? alphabet[(group >> 6) & 63] : '=');
		put(j, i + 2 < len ? alphabet[group & 63] : '=');
	}
	put(j, '"');
}

void sentry_json_text(struct sentry_json *j, const char *name, const __u8 *text, size_t len)
{
	if (sentry_json_is_utf8(text, len)) {
		begin(j, name, "");
		escaped(j, text, len);
	} else {
		begin(j, name, "_b64");
		base64(j, text, len);
	}
}

void sentry_json_texts(struct sentry_json *j, const char *name, const __u8 *text, size_t len)
{
	bool utf8 = sentry_json_is_utf8(text, len);
	size_t start = 0, end;

	begin(j, name, utf8 ? "" : "_b64");
	put(j, '[');
	j->comma = false;
	while (start < len) {
		for (end = start; end < len && text[end]; end++)
			;
		begin(j, NULL, "");
		if (utf8)
			escaped(j, text + start, end - start);
		else
			base64(j, text + start, end - start);
		start = end + 1;
	}
	sentry_json_close(j, ']');
}
