// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the host's time after a suspend and once a minute. */
#include "sandboxd/clock.h"

#include <errno.h>
#include <time.h>

#include "lib/loop.h"

int64_t guest_clock_step_ms(int64_t now_ns, int64_t unix_ns)
{
	int64_t behind_ms;

	if (unix_ns <= now_ns)
		return 0;
	behind_ms = (unix_ns - now_ns) / 1000000;
	return behind_ms > GUEST_CLOCK_SLACK_MS ? behind_ms : 0;
}

int64_t guest_clock_push(int64_t unix_ns)
{
	struct timespec t = { .tv_sec = unix_ns / 1000000000, .tv_nsec = unix_ns % 1000000000 };
	int64_t step_ms;

	if (unix_ns <= 0) {
		errno = EINVAL;
		return -1;
	}
	step_ms = guest_clock_step_ms((int64_t)loop_unix_ns(), unix_ns);
	if (step_ms && clock_settime(CLOCK_REALTIME, &t) < 0)
		return -1;
	return step_ms;
}
