/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Error text: what failed, on what, and why, in one line. */
#ifndef HOLDFAST_LIB_ERR_H
#define HOLDFAST_LIB_ERR_H

/*
 * Contract. A function that can fail takes a `struct err *` last and returns -1
 * (or NULL) after setting it once; on success it leaves it alone. The text is one
 * line without a newline. A NULL err is allowed: the failure is then silent.
 */
struct err {
	char text[512];
};

/* Sets the text; control characters in the result become '?'. Always returns -1. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Like err_set, followed by ": " and strerror of the errno at the call. Returns -1. */
int err_errno(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "TEXT: " before what is there. Always returns -1. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints to stderr and exits with 1. Only before an event loop runs, or in a child before exec. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
