/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Log lines to stderr: one line each, with a fixed class that one can grep. */
#include "lib/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

static char process[48] = "holdfast";

void log_name(const char *name)
{
	snprintf(process, sizeof(process), "%s", name);
}

static size_t escape(char *out, size_t max, const char *in)
{
	size_t n = 0;

	for (; *in && n + 5 < max; in++) {
		unsigned char c = (unsigned char)*in;

		if (c >= 0x20 && c < 0x7f)
			out[n++] = (char)c;
		else
			n += (size_t)snprintf(out + n, max - n, "\\x%02x", c);
	}
	out[n] = 0;
	return n;
}

static void emit(const char *class, const char *fmt, va_list ap)
{
	int saved = errno;
	char text[LINE_MAX_BYTES], line[2 * LINE_MAX_BYTES];
	struct timespec now;
	struct tm tm;
	size_t n;

	vsnprintf(text, sizeof(text), fmt, ap);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03ldZ %s %s: ",
			      now.tv_nsec / 1000000, class, process);
	n += escape(line + n, sizeof(line) - n - 1, text);
	line[n++] = '\n';
	/* One write, so that lines of several processes do not mix. */
	if (write(STDERR_FILENO, line, n) < 0)
		errno = saved;
	errno = saved;
}

#define LOG_FUNCTION(name, class)                 \
	void name(const char *fmt, ...)           \
	{                                         \
		va_list ap;                       \
		va_start(ap, fmt);                \
		emit(class, fmt, ap);             \
		va_end(ap);                       \
	}

LOG_FUNCTION(log_info, "INFO")
LOG_FUNCTION(log_warn, "WARN")
LOG_FUNCTION(log_fault, "FAULT")
