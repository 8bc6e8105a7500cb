/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A token bucket. Pure: the caller brings the clock and the lock. */
#ifndef SENTRY_LIMIT_H
#define SENTRY_LIMIT_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#endif

struct sentry_limit {
	__u64 last_ns;
	__u64 credit_ns; /* time saved up; one event costs 1 s / rate */
};

/* Whether one more event fits; an empty struct is a full bucket. The time may not go backwards. */
bool sentry_limit_take(struct sentry_limit *limit, __u64 now_ns, __u32 rate, __u32 burst);

#endif
