/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libslirp's descriptors and timers on our loop.
 *
 * libslirp is made for poll(): before each wait it says which descriptors it wants and for how
 * long (fill), afterwards it handles what is ready (poll). Here the descriptors sit in an epoll
 * of their own, whose descriptor is on the loop, and only what changes from round to round is
 * told to it. While the guest does not take its frames, nothing is read for it.
 */
#include "hostd/net/slirp_poll.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { READY_MAX = 128 };

struct wanted {
	int fd;
	int events; /* SLIRP_POLL_* */
	int ready;
};

/* What epoll knows of a descriptor number. */
struct known {
	uint32_t registered; /* epoll mask, 0 = not in the set */
	unsigned round;
	size_t at; /* in wanted, of this round */
};

struct slirp_poll {
	struct switch_ctx *c;
	void (*run)(void *u);
	void *u;
	int epoll;
	struct loop_fd *watch;
	struct loop_timer *timer;
	uint64_t timer_due_ms;
	unsigned round;
	struct wanted wanted[SWITCH_FLOWS_MAX];
	size_t wanted_n;
	int last_fds[SWITCH_FLOWS_MAX]; /* of the round before */
	size_t last_n;
	struct known *known; /* by descriptor */
	size_t known_n;
};

/* NULL when out of memory; the descriptor is then not watched in this round. */
static struct known *known_at(struct slirp_poll *p, int fd)
{
	size_t want = (size_t)fd + 1;
	struct known *k;

	if (want <= p->known_n)
		return &p->known[fd];
	want = (want + 255) & ~(size_t)255;
	k = realloc(p->known, want * sizeof(*k));
	if (!k)
		return NULL;
	memset(k + p->known_n, 0, (want - p->known_n) * sizeof(*k));
	p->known = k;
	p->known_n = want;
	return &p->known[fd];
}

void slirp_poll_forget(struct slirp_poll *p, int fd)
{
	struct known *k = known_at(p, fd);

	if (!k || !k->registered)
		return;
	epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL);
	k->registered = 0;
}

static uint32_t to_epoll(int events)
{
	return (events & SLIRP_POLL_IN ? (uint32_t)EPOLLIN : 0) |
	       (events & SLIRP_POLL_OUT ? (uint32_t)EPOLLOUT : 0) |
	       (events & SLIRP_POLL_PRI ? (uint32_t)EPOLLPRI : 0);
}

static int from_epoll(uint32_t events)
{
	return (events & EPOLLIN ? SLIRP_POLL_IN : 0) | (events & EPOLLOUT ? SLIRP_POLL_OUT : 0) |
	       (events & EPOLLPRI ? SLIRP_POLL_PRI : 0) |
	       (events & EPOLLERR ? SLIRP_POLL_ERR : 0) | (events & EPOLLHUP ? SLIRP_POLL_HUP : 0);
}

static int on_add_poll(int fd, int events, void *u)
{
	struct slirp_poll *p = u;

	if (switch_congested(p->c))
		events &= ~(SLIRP_POLL_IN | SLIRP_POLL_PRI | SLIRP_POLL_HUP);
	if (!(events & ~SLIRP_POLL_ERR) || p->wanted_n == SWITCH_FLOWS_MAX)
		return -1;
	p->wanted[p->wanted_n] = (struct wanted){ fd, events, 0 };
	return (int)p->wanted_n++;
}

/* Never more than what was asked for: libslirp reads on a hang-up, also into a full buffer. */
static int on_get_revents(int idx, void *u)
{
	struct slirp_poll *p = u;

	if (idx < 0 || (size_t)idx >= p->wanted_n)
		return 0;
	return p->wanted[idx].ready & p->wanted[idx].events;
}

/* Makes the epoll set what fill asked for. */
static void sync_epoll(struct slirp_poll *p)
{
	p->round++;
	for (size_t i = 0; i < p->wanted_n; i++) {
		int fd = p->wanted[i].fd;
		struct epoll_event ev = { .events = to_epoll(p->wanted[i].events), .data.fd = fd };
		struct known *k = known_at(p, fd);

		if (!k)
			continue;
		k->round = p->round;
		k->at = i;
		if (k->registered != ev.events &&
		    !epoll_ctl(p->epoll, k->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev))
			k->registered = ev.events;
	}
	for (size_t i = 0; i < p->last_n; i++) {
		struct known *k = known_at(p, p->last_fds[i]);

		if (k && k->round != p->round)
			slirp_poll_forget(p, p->last_fds[i]);
	}
	p->last_n = p->wanted_n;
	for (size_t i = 0; i < p->wanted_n; i++)
		p->last_fds[i] = p->wanted[i].fd;
}

static void clear_ready(struct slirp_poll *p)
{
	for (size_t i = 0; i < p->wanted_n; i++)
		p->wanted[i].ready = 0;
}

static void on_timer(void *u)
{
	struct slirp_poll *p = u;

	p->timer = NULL;
	clear_ready(p);
	p->run(p->u);
}

static void on_ready(void *u, int fd, uint32_t events)
{
	struct epoll_event ready[READY_MAX];
	struct slirp_poll *p = u;
	int n = epoll_wait(fd, ready, READY_MAX, 0);

	(void)events;
	clear_ready(p);
	for (int i = 0; i < n; i++) {
		struct known *k = known_at(p, ready[i].data.fd);

		if (k && k->round == p->round)
			p->wanted[k->at].ready = from_epoll(ready[i].events);
	}
	p->run(p->u);
}

static void arm_timer(struct slirp_poll *p, uint32_t timeout_ms, bool active)
{
	uint64_t due_ms = loop_now_ms() + timeout_ms;

	if (p->timer && p->timer_due_ms <= due_ms)
		return; /* an early look costs less than a new timer */
	loop_timer_del(p->timer);
	p->timer = active ? loop_timer_add(p->c->loop, timeout_ms, 0, on_timer, p) : NULL;
	p->timer_due_ms = due_ms;
}

void slirp_poll_arm(struct slirp_poll *p, Slirp *slirp, bool active)
{
	uint32_t timeout_ms = UINT32_MAX;

	p->wanted_n = 0;
	slirp_pollfds_fill(slirp, &timeout_ms, on_add_poll, p);
	sync_epoll(p);
	arm_timer(p, timeout_ms, active);
}

void slirp_poll_dispatch(struct slirp_poll *p, Slirp *slirp)
{
	slirp_pollfds_poll(slirp, 0, on_get_revents, p);
}

struct slirp_poll *slirp_poll_new(struct switch_ctx *c, void (*run)(void *u), void *u,
				  struct err *err)
{
	struct slirp_poll *p = calloc(1, sizeof(*p));

	if (!p) {
		err_set(err, "no memory for the NAT");
		return NULL;
	}
	*p = (struct slirp_poll){ .c = c, .run = run, .u = u };
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		err_errno(err, "epoll_create1");
	else
		p->watch = loop_fd_add(c->loop, p->epoll, EPOLLIN, on_ready, p, err);
	if (!p->watch) {
		slirp_poll_free(p);
		return NULL;
	}
	return p;
}

void slirp_poll_free(struct slirp_poll *p)
{
	if (!p)
		return;
	loop_timer_del(p->timer);
	loop_fd_del(p->watch);
	if (p->epoll >= 0)
		close(p->epoll);
	free(p->known);
	free(p);
}
