/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libslirp's descriptors and timers on our loop. */
#ifndef HOLDFAST_NET_SLIRP_POLL_H
#define HOLDFAST_NET_SLIRP_POLL_H

#include <libslirp.h>

#include "hostd/net/ctx.h"

struct slirp_poll;

/* run(u) is called when something is ready or due: it calls slirp_poll_dispatch() and, at its
 * end, slirp_poll_arm(). NULL with err. */
struct slirp_poll *slirp_poll_new(struct switch_ctx *c, void (*run)(void *u), void *u,
				  struct err *err);
void slirp_poll_free(struct slirp_poll *p);

/* Asks libslirp what it waits for and watches that; its timers only while it is active. */
void slirp_poll_arm(struct slirp_poll *p, Slirp *slirp, bool active);
/* Lets libslirp handle what was found ready. */
void slirp_poll_dispatch(struct slirp_poll *p, Slirp *slirp);
/* The descriptor is about to be closed or replaced. */
void slirp_poll_forget(struct slirp_poll *p, int fd);

#endif
