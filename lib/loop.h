/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One single-threaded event loop over epoll: descriptors, timers, deferred calls. */
#ifndef HOLDFAST_LIB_LOOP_H
#define HOLDFAST_LIB_LOOP_H

#include <stdint.h>

#include "lib/err.h"

struct loop;
struct loop_fd;
struct loop_timer;

/* events is a mask of EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR. */
typedef void (*loop_fd_fn)(void *user, int fd, uint32_t events);
typedef void (*loop_timer_fn)(void *user);

struct loop *loop_new(struct err *err);
void loop_free(struct loop *loop);

/* Watches fd (which stays the caller's) until loop_fd_del. NULL on failure. */
struct loop_fd *loop_fd_add(struct loop *loop, int fd, uint32_t events, loop_fd_fn fn, void *user,
			    struct err *err);
/* Changes the mask; the same mask again costs nothing. */
void loop_fd_mod(struct loop_fd *watch, uint32_t events);
/* Safe inside any callback, also its own; NULL is fine. No callback of it runs afterwards. */
void loop_fd_del(struct loop_fd *watch);

/* Runs fn once after delay_ms, then every period_ms when that is not 0. NULL when out of memory. */
struct loop_timer *loop_timer_add(struct loop *loop, uint64_t delay_ms, uint64_t period_ms,
				  loop_timer_fn fn, void *user);
void loop_timer_del(struct loop_timer *timer);

/* Runs until loop_stop; returns the code given there, or -1 with err when epoll fails. */
int loop_run(struct loop *loop, struct err *err);
void loop_stop(struct loop *loop, int code);
/* One turn, waiting at most timeout_ms (-1 = as long as needed). For tests and foreign loops. */
int loop_turn(struct loop *loop, int timeout_ms, struct err *err);

/* CLOCK_MONOTONIC, and CLOCK_REALTIME in ns since 1970. */
uint64_t loop_now_ms(void);
uint64_t loop_now_ns(void);
uint64_t loop_unix_ns(void);

#endif
