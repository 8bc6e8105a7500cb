/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One single-threaded event loop over epoll: descriptors, timers, deferred calls. */
#include "lib/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "lib/cleanup.h"

enum { EVENTS_PER_TURN = 64 };

struct loop_fd {
	struct loop *loop;
	int fd;
	uint32_t events;
	loop_fd_fn fn;
	void *user;
	bool dead;
	struct loop_fd *next_dead;
};

struct loop_timer {
	struct loop *loop;
	uint64_t due_ms;
	uint64_t period_ms;
	loop_timer_fn fn;
	void *user;
	bool dead;
	struct loop_timer *next;
};

/* Deleted watches and timers are freed at the end of the turn, since the turn may still hold them. */
struct loop {
	int epoll;
	bool stopped;
	int code;
	struct loop_timer *timers;
	struct loop_fd *dead_fds;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t loop_now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000u;
}

uint64_t loop_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t loop_unix_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

struct loop *loop_new(struct err *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop) {
		err_set(err, "out of memory");
		return NULL;
	}
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0) {
		err_errno(err, "epoll_create1");
		free(loop);
		return NULL;
	}
	return loop;
}

static void free_dead(struct loop *loop)
{
	struct loop_timer **at = &loop->timers;

	while (loop->dead_fds) {
		struct loop_fd *watch = loop->dead_fds;

		loop->dead_fds = watch->next_dead;
		free(watch);
	}
	while (*at) {
		struct loop_timer *timer = *at;

		if (!timer->dead) {
			at = &timer->next;
			continue;
		}
		*at = timer->next;
		free(timer);
	}
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	for (struct loop_timer *t = loop->timers; t; t = t->next)
		t->dead = true;
	free_dead(loop);
	close(loop->epoll);
	free(loop);
}

struct loop_fd *loop_fd_add(struct loop *loop, int fd, uint32_t events, loop_fd_fn fn, void *user,
			    struct err *err)
{
	struct loop_fd *watch = calloc(1, sizeof(*watch));
	struct epoll_event ev = { .events = events, .data.ptr = watch };

	if (!watch) {
		err_set(err, "out of memory");
		return NULL;
	}
	*watch = (struct loop_fd){ .loop = loop, .fd = fd, .events = events, .fn = fn, .user = user };
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		err_errno(err, "epoll_ctl");
		free(watch);
		return NULL;
	}
	return watch;
}

void loop_fd_mod(struct loop_fd *watch, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = watch };

	if (watch->dead || watch->events == events)
		return;
	watch->events = events;
	epoll_ctl(watch->loop->epoll, EPOLL_CTL_MOD, watch->fd, &ev);
}

void loop_fd_del(struct loop_fd *watch)
{
	if (!watch || watch->dead)
		return;
	epoll_ctl(watch->loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->dead = true;
	watch->next_dead = watch->loop->dead_fds;
	watch->loop->dead_fds = watch;
}

struct loop_timer *loop_timer_add(struct loop *loop, uint64_t delay_ms, uint64_t period_ms,
				  loop_timer_fn fn, void *user)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));

	if (!timer)
		return NULL;
	*timer = (struct loop_timer){ .loop = loop, .due_ms = loop_now_ms() + delay_ms,
				      .period_ms = period_ms, .fn = fn, .user = user,
				      .next = loop->timers };
	loop->timers = timer;
	return timer;
}

void loop_timer_del(struct loop_timer *timer)
{
	if (timer)
		timer->dead = true;
}

static int next_wait(const struct loop *loop, int timeout_ms)
{
	uint64_t now = loop_now_ms();

	for (const struct loop_timer *t = loop->timers; t; t = t->next) {
		uint64_t left = t->due_ms > now ? t->due_ms - now : 0;

		if (!t->dead && (timeout_ms < 0 || left < (uint64_t)timeout_ms))
			timeout_ms = left > 3600000 ? 3600000 : (int)left;
	}
	return timeout_ms;
}

static void run_timers(struct loop *loop)
{
	uint64_t now = loop_now_ms();

	/* Timers added by a callback stand before this point of the list and wait for the next turn. */
	for (struct loop_timer *t = loop->timers; t && !loop->stopped; t = t->next) {
		if (t->dead || t->due_ms > now)
			continue;
		if (t->period_ms)
			t->due_ms = now + t->period_ms;
		else
			t->dead = true;
		t->fn(t->user);
	}
}

int loop_turn(struct loop *loop, int timeout_ms, struct err *err)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(loop->epoll, events, EVENTS_PER_TURN, next_wait(loop, timeout_ms));

	if (n < 0 && errno != EINTR)
		return err_errno(err, "epoll_wait");
	for (int i = 0; i < n && !loop->stopped; i++) {
		struct loop_fd *watch = events[i].data.ptr;

		if (!watch->dead)
			watch->fn(watch->user, watch->fd, events[i].events);
	}
	run_timers(loop);
	free_dead(loop);
	return 0;
}

int loop_run(struct loop *loop, struct err *err)
{
	while (!loop->stopped)
		if (loop_turn(loop, -1, err))
			return -1;
	loop->stopped = false;
	return loop->code;
}

void loop_stop(struct loop *loop, int code)
{
	loop->stopped = true;
	loop->code = code;
}
