/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Self-tests that refuse the load. */
#ifndef SENTRY_SELFTEST_H
#define SENTRY_SELFTEST_H

int sentry_selftest(void);

#endif
