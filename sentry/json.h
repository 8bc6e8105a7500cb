/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A JSON writer into a fixed buffer. Pure: it allocates nothing and takes text of any bytes.
 *
 * Once a value does not fit, the writer is "full" and writes nothing more; the caller looks once, at the end.
 * A name of NULL writes an array element.
 */
#ifndef SENTRY_JSON_H
#define SENTRY_JSON_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#include <stddef.h>
#endif

struct sentry_json {
	char *at;
	size_t len, size;
	bool full, comma;
};

void sentry_json_init(struct sentry_json *j, char *buffer, size_t size);
void sentry_json_raw(struct sentry_json *j, const char *bytes, size_t len);

void sentry_json_open(struct sentry_json *j, const char *name, char bracket);
void sentry_json_close(struct sentry_json *j, char bracket);

void sentry_json_u64(struct sentry_json *j, const char *name, __u64 value);
void sentry_json_s64(struct sentry_json *j, const char *name, __s64 value);
void sentry_json_bool(struct sentry_json *j, const char *name, bool value);
void sentry_json_hex(struct sentry_json *j, const char *name, const __u8 *bytes, size_t len); /* as a string */
void sentry_json_hex64(struct sentry_json *j, const char *name, __u64 value);		       /* 16 digits */

/* Text that we wrote ourselves: printable ASCII without '"' and '\'. */
void sentry_json_word(struct sentry_json *j, const char *name, const char *word);

/* Text of any bytes: escaped where it is UTF-8, else base64 in "<name>_b64". */
void sentry_json_text(struct sentry_json *j, const char *name, const __u8 *text, size_t len);

/* Pieces of text separated by NUL: an array of strings, or of base64 in "<name>_b64" if any piece is not UTF-8. */
void sentry_json_texts(struct sentry_json *j, const char *name, const __u8 *text, size_t len);

/* Whether the bytes are UTF-8: shortest form, no surrogates, up to U+10FFFF. */
bool sentry_json_is_utf8(const __u8 *text, size_t len);

#endif
