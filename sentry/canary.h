/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Four canaries, whose pattern tells attacks on the probes apart, and the self-test of real hooks. */
#ifndef SENTRY_CANARY_H
#define SENTRY_CANARY_H

#include <linux/types.h>

enum sentry_canary { SENTRY_CANARY_FTRACE, SENTRY_CANARY_KRETPROBE, SENTRY_CANARY_INT3, SENTRY_CANARY_PERMANENT, SENTRY_CANARIES };

/* Real hooks that the thread exercises; their handlers report here when they meet the thread. */
enum sentry_selftest { SENTRY_SELFTEST_CRED, SENTRY_SELFTEST_UDP, SENTRY_SELFTEST_OPEN, SENTRY_SELFTESTS };

int sentry_canary_init(void);
void sentry_canary_exit(void); /* only for a load that fails */

/* Thread only. Bits of enum sentry_canary: those whose probe fired just now. */
unsigned int sentry_canary_check(void);

/* Thread only. Bits of enum sentry_selftest that answered just now. */
unsigned int sentry_selftest_run(void);
/* Bits of those that are expected to answer at all. */
unsigned int sentry_selftest_expected(void);

/* From a handler that met one of our own threads. */
void sentry_selftest_answer(enum sentry_selftest which);

#endif
