/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Log lines to stderr: one line each, with a fixed class that one can grep. */
#ifndef HOLDFAST_LIB_LOG_H
#define HOLDFAST_LIB_LOG_H

/* Names the process in every line ("hostd", "vm:demo"); the string is copied. */
void log_name(const char *name);

/* Control and non-ASCII bytes in the text are shown as \xNN, since some of it is a guest's. */
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
