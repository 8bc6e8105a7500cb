// SPDX-License-Identifier: GPL-2.0-or-later
/* A token bucket that counts in nanoseconds, so that it needs no division in a handler. */
#include "limit.h"

#define SECOND_NS 1000000000u

bool sentry_limit_take(struct sentry_limit *limit, __u64 now_ns, __u32 rate, __u32 burst)
{
	__u32 cost_ns = SECOND_NS / rate;
	__u64 full_ns = (__u64)cost_ns * burst;

	if (!limit->last_ns)
		limit->credit_ns = full_ns;
	else if (now_ns > limit->last_ns)
		limit->credit_ns += now_ns - limit->last_ns;
	if (limit->credit_ns > full_ns)
		limit->credit_ns = full_ns;
	limit->last_ns = now_ns;

	if (limit->credit_ns < cost_ns)
		return false;
	limit->credit_ns -= cost_ns;
	return true;
}
