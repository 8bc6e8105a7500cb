/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Error text: what failed, on what, and why, in one line. */
#include "lib/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void one_line(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++)
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
}

int err_set(struct err *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	one_line(err->text);
	return -1;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	int len;

	if (!err)
		return -1;
	va_start(ap, fmt);
	len = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (len >= 0 && (size_t)len < sizeof(err->text))
		snprintf(err->text + len, sizeof(err->text) - (size_t)len, ": %s", strerror(saved));
	one_line(err->text);
	errno = saved;
	return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char old[sizeof(err->text)];
	va_list ap;
	int len;

	if (!err)
		return -1;
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	len = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (len >= 0 && (size_t)len < sizeof(err->text))
		snprintf(err->text + len, sizeof(err->text) - (size_t)len, ": %s", old);
	one_line(err->text);
	return -1;
}

void die(const char *fmt, ...)
{
	va_list ap;

	fputs("holdfast: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}
