/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one place where secrets leave text before it enters the store. */
#ifndef HOSTD_STORE_REDACT_H
#define HOSTD_STORE_REDACT_H

#include <jansson.h>
#include <stddef.h>

#define REDACT_MARK "[redacted]"

/*
 * Replaces what looks like a secret in @text by REDACT_MARK. Returns a new string (the caller frees it), or NULL if
 * nothing had to go. *count is raised by what was replaced.
 */
char *redact_text(const char *text, size_t len, unsigned *count);

/*
 * The same for everything in @value: strings, argument vectors (an array of strings: "--password", "x" is seen as
 * what it is), members whose name says that they hold a secret, and *_b64 members. Returns a new value with one
 * reference, or NULL if nothing had to go; @value is left alone.
 */
json_t *redact_json(const json_t *value, unsigned *count);

#endif
