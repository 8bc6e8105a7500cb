/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The vhost-user control socket of one vhost-user-vsock device, as QEMU speaks it. */

/*
 * Theory of operation
 *
 * QEMU (docs/interop/vhost-user.rst) sends requests with descriptors: guest memory as a memfd, an
 * eventfd that the guest kicks and one that interrupts it, per queue.  Queue 0 is rx, 1 is tx; the
 * event queue stays with QEMU.  A queue runs while it has memory, size, addresses, a kick
 * descriptor and VRING_ENABLE; GET_VRING_BASE stops it and tells where it was.
 *
 * Stop and start look the same for a pause, a reboot and a new driver.  A pause restores the index;
 * a new driver starts at 0 on both queues, and its streams are new: see vring_start().  What a
 * reboot cannot tell (index 0 before) comes as QMP's RESET through vhost_user_guest_reset().
 *
 * QEMU is trusted more than the guest, and still it is the guest's first prey: counts of
 * descriptors, sizes, seals of the memfd (a shrunk file would be a SIGBUS here) and overlaps are
 * checked. A request that is wrong ends the connection, never the process.
 *
 * A request is read in two steps, header and body, never further: descriptors belong to the
 * message with whose first byte they came.
 */
#include "hostd/vm/vhost_user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/io.h"

enum {
	REQ_GET_FEATURES = 1,
	REQ_SET_FEATURES = 2,
	REQ_SET_OWNER = 3,
	REQ_RESET_OWNER = 4,
	REQ_SET_MEM_TABLE = 5,
	REQ_SET_VRING_NUM = 8,
	REQ_SET_VRING_ADDR = 9,
	REQ_SET_VRING_BASE = 10,
	REQ_GET_VRING_BASE = 11,
	REQ_SET_VRING_KICK = 12,
	REQ_SET_VRING_CALL = 13,
	REQ_SET_VRING_ERR = 14,
	REQ_GET_PROTOCOL_FEATURES = 15,
	REQ_SET_PROTOCOL_FEATURES = 16,
	REQ_GET_QUEUE_NUM = 17,
	REQ_SET_VRING_ENABLE = 18,
	REQ_GET_CONFIG = 24,

	FLAG_VERSION = 1,
	FLAG_REPLY = 4,
	FLAG_NEED_REPLY = 8,

	HEADER_BYTES = 12,
	BODY_MAX = 512,
	REGION_BYTES = 32,
	CONFIG_BYTES = 8, /* guest_cid */
	VRING_NOFD = 0x100,
	VRING_INDEX = 0xff,
	DRAIN_TURNS = 64,
};

#define F_PROTOCOL_FEATURES (1ull << 30)
#define FEATURES_OFFERED                                                                           \
	(1ull << VIRTIO_F_VERSION_1 | F_PROTOCOL_FEATURES | 1ull << VIRTIO_RING_F_INDIRECT_DESC | \
	 1ull << VIRTIO_RING_F_EVENT_IDX)
#define PROTOCOL_REPLY_ACK (1ull << 3)
#define PROTOCOL_CONFIG (1ull << 9)
#define PROTOCOL_OFFERED (PROTOCOL_REPLY_ACK | PROTOCOL_CONFIG)

struct queue {
	uint16_t num;
	bool addressed, enabled;
	uint64_t desc, avail, used; /* QEMU addresses */
	uint16_t base;
	uint16_t stopped_at; /* index when it was last stopped */
	int kick_fd, call_fd;
	struct loop_fd *watch;
};

struct vhost_user {
	struct loop *loop;
	struct vsock *vsock;
	const struct vhost_user_ops *ops;
	void *u;
	uint64_t guest_cid;
	int fd;
	struct loop_fd *watch;
	uint64_t features, protocol;
	struct gpa_map map;
	struct { /* what map.region[i] was mapped from */
		void *at;
		size_t size;
	} mapped[GPA_REGIONS_MAX];
	struct queue vring[VSOCK_QUEUES];
	struct loop_timer *again, *clock, *broken_timer;
	const char *broken_why;
	/* The request that is being read. */
	uint8_t msg[HEADER_BYTES + BODY_MAX];
	size_t msg_len, msg_want;
	int fds[IO_FDS_MAX];
	size_t n_fds;
};

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void fds_close(struct vhost_user *d)
{
	for (size_t i = 0; i < d->n_fds; i++)
		if (d->fds[i] >= 0)
			close(d->fds[i]);
	d->n_fds = 0;
}

/* ---- Queues ---- */

static void again_run(void *u);

static void kicked(struct vhost_user *d, enum vsock_queue q)
{
	/* More work than one turn may do: the rest of the loop goes first. */
	if (vsock_kick(d->vsock, q) && !d->again)
		d->again = loop_timer_add(d->loop, 0, 0, again_run, d);
}

static void again_run(void *u)
{
	struct vhost_user *d = u;

	d->again = NULL;
	kicked(d, VSOCK_TX);
}

static void kick_ready(void *u, int fd, uint32_t events)
{
	struct vhost_user *d = u;
	enum vsock_queue q = fd == d->vring[VSOCK_RX].kick_fd ? VSOCK_RX : VSOCK_TX;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) <= 0 && errno != EAGAIN && errno != EINTR) {
		loop_fd_del(d->vring[q].watch);
		d->vring[q].watch = NULL;
		return;
	}
	(void)events;
	kicked(d, q);
}

static void device_call(void *u, enum vsock_queue q)
{
	struct vhost_user *d = u;
	uint64_t one = 1;

	/* A full counter has already woken the guest. */
	if (d->vring[q].call_fd >= 0 && write(d->vring[q].call_fd, &one, sizeof(one)) < 0)
		return;
}

static void broken_run(void *u)
{
	struct vhost_user *d = u;

	d->broken_timer = NULL;
	vsock_reset(d->vsock);
	d->ops->broken(d->u, d->broken_why);
}

/* Comes from deep inside a user's call; streams are ended from a stack of our own. */
static void device_broken(void *u, const char *why)
{
	struct vhost_user *d = u;

	d->broken_why = why;
	if (!d->broken_timer)
		d->broken_timer = loop_timer_add(d->loop, 0, 0, broken_run, d);
}

static void kick_drop(struct queue *r)
{
	loop_fd_del(r->watch);
	r->watch = NULL;
	if (r->kick_fd >= 0)
		close(r->kick_fd);
	r->kick_fd = -1;
}

/*
 * What the guest sent before its queues stop was sent: the last words of a guest that powers off
 * would be lost otherwise. Bounded, since it may go on sending.
 */
static void drain(struct vhost_user *d)
{
	for (int i = 0; i < DRAIN_TURNS && vsock_kick(d->vsock, VSOCK_TX); i++)
		;
}

static void vring_stop(struct vhost_user *d, enum vsock_queue q)
{
	struct ring *ring = vsock_ring(d->vsock, q);
	struct queue *r = &d->vring[q];

	if (ring->ready) {
		drain(d);
		r->base = r->stopped_at = ring->avail_next;
		ring_stop(ring);
	}
}

static int vring_start(struct vhost_user *d, enum vsock_queue q, struct err *err)
{
	struct ring *ring = vsock_ring(d->vsock, q);
	struct queue *r = &d->vring[q];
	struct queue *other = &d->vring[!q];

	if (ring->ready || !r->addressed || !r->enabled || r->kick_fd < 0 || !d->map.n)
		return 0;
	/* Both queues from 0 again: a new driver, which knows nothing of the old streams. */
	if (!r->base && !other->base && (r->stopped_at || other->stopped_at)) {
		r->stopped_at = other->stopped_at = 0;
		vsock_reset(d->vsock);
	}
	if (ring_init(ring, &d->map, r->num, r->desc, r->avail, r->used, r->base,
		      d->features & (1ull << VIRTIO_RING_F_EVENT_IDX), err))
		return err_prefix(err, "queue %d", q);
	if (!r->watch)
		r->watch = loop_fd_add(d->loop, r->kick_fd, EPOLLIN, kick_ready, d, err);
	if (!r->watch)
		return -1;
	kicked(d, q);
	return 0;
}

static int vrings_start(struct vhost_user *d, struct err *err)
{
	return vring_start(d, VSOCK_RX, err) || vring_start(d, VSOCK_TX, err) ? -1 : 0;
}

/* ---- Memory ---- */

static void memory_drop(struct vhost_user *d)
{
	for (size_t i = 0; i < d->map.n; i++)
		munmap(d->mapped[i].at, d->mapped[i].size);
	d->map.n = 0;
}

static int memory_map(struct vhost_user *d, const uint8_t *entry, int fd, struct err *err)
{
	struct gpa_region r = { .gpa = get64(entry), .size = get64(entry + 8), .uva = get64(entry + 16) };
	uint64_t off = get64(entry + 24);
	size_t i = d->map.n;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return err_set(err, "guest memory is not a memfd sealed against shrinking");
	if (fstat(fd, &st) || off + r.size < off || off + r.size > (uint64_t)st.st_size ||
	    off % 4096 || r.size % 4096)
		return err_set(err, "memory region does not fit its file");
	at = mmap(NULL, r.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)off);
	if (at == MAP_FAILED)
		return err_errno(err, "map guest memory");
	/* The guest's bytes have no place in a core file of ours. */
	madvise(at, r.size, MADV_DONTDUMP);
	r.host = at;
	if (gpa_add(&d->map, &r, err)) {
		munmap(at, r.size);
		return -1;
	}
	d->mapped[i].at = at;
	d->mapped[i].size = r.size;
	return 0;
}

static int set_mem_table(struct vhost_user *d, const uint8_t *p, size_t n, struct err *err)
{
	uint32_t count = n >= 8 ? get32(p) : 0;

	if (!count || count > GPA_REGIONS_MAX || count != d->n_fds || n != 8 + count * REGION_BYTES)
		return err_set(err, "memory table of %u regions and %zu descriptors", count, d->n_fds);
	for (int q = 0; q < VSOCK_QUEUES; q++)
		vring_stop(d, (enum vsock_queue)q);
	memory_drop(d);
	for (uint32_t i = 0; i < count; i++)
		if (memory_map(d, p + 8 + (size_t)i * REGION_BYTES, d->fds[i], err))
			return -1;
	return vrings_start(d, err);
}

/* ---- Requests ---- */

static int reply(struct vhost_user *d, const void *body, uint32_t n, struct err *err)
{
	uint8_t out[HEADER_BYTES + BODY_MAX];
	uint32_t head[3] = { get32(d->msg), FLAG_VERSION | FLAG_REPLY, n };

	memcpy(out, head, HEADER_BYTES);
	memcpy(out + HEADER_BYTES, body, n);
	/* QEMU waits for this: a full socket means that it does not speak the protocol. */
	if (send(d->fd, out, HEADER_BYTES + n, MSG_NOSIGNAL) != (ssize_t)(HEADER_BYTES + n))
		return err_errno(err, "answer request %u", get32(d->msg));
	return 0;
}

static int reply_u64(struct vhost_user *d, uint64_t v, struct err *err)
{
	return reply(d, &v, sizeof(v), err);
}

static struct queue *vring_of(struct vhost_user *d, uint32_t i, struct err *err)
{
	if (i < VSOCK_QUEUES)
		return &d->vring[i];
	err_set(err, "queue %u of a device with %d", i, VSOCK_QUEUES);
	return NULL;
}

static int set_vring_state(struct vhost_user *d, uint32_t req, const uint8_t *p, struct err *err)
{
	struct queue *r = vring_of(d, get32(p), err);
	uint32_t v = get32(p + 4);

	if (!r)
		return -1;
	if (v > UINT16_MAX)
		return err_set(err, "queue value %u", v);
	if (req == REQ_SET_VRING_NUM) {
		r->num = (uint16_t)v;
		return 0;
	}
	if (req == REQ_SET_VRING_BASE) {
		r->base = (uint16_t)v;
		return 0;
	}
	r->enabled = v;
	if (!v)
		vring_stop(d, (enum vsock_queue)(r - d->vring));
	return vrings_start(d, err);
}

static int set_vring_addr(struct vhost_user *d, const uint8_t *p, struct err *err)
{
	struct queue *r = vring_of(d, get32(p), err);

	if (!r)
		return -1;
	r->desc = get64(p + 8);
	r->used = get64(p + 16);
	r->avail = get64(p + 24);
	r->addressed = true;
	return vrings_start(d, err);
}

static int get_vring_base(struct vhost_user *d, const uint8_t *p, struct err *err)
{
	struct queue *r = vring_of(d, get32(p), err);
	uint32_t out[2];

	if (!r)
		return -1;
	vring_stop(d, (enum vsock_queue)(r - d->vring));
	kick_drop(r);
	out[0] = get32(p);
	out[1] = r->base;
	return reply(d, out, sizeof(out), err);
}

static int set_vring_fd(struct vhost_user *d, uint32_t req, const uint8_t *p, struct err *err)
{
	uint64_t v = get64(p);
	struct queue *r = vring_of(d, v & VRING_INDEX, err);
	int fd = -1;

	if (!r)
		return -1;
	if (d->n_fds != (v & VRING_NOFD ? 0u : 1u))
		return err_set(err, "request %u with %zu descriptors", req, d->n_fds);
	if (d->n_fds) {
		fd = steal_fd(&d->fds[0]);
		if (io_set_nonblock(fd)) {
			close(fd);
			return err_errno(err, "request %u", req);
		}
	}
	if (req == REQ_SET_VRING_CALL) {
		if (r->call_fd >= 0)
			close(r->call_fd);
		r->call_fd = fd;
		return 0;
	}
	if (req == REQ_SET_VRING_ERR) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	if (fd < 0)
		return err_set(err, "queue without a kick descriptor");
	kick_drop(r);
	r->kick_fd = fd;
	return vrings_start(d, err);
}

static int get_config(struct vhost_user *d, uint8_t *p, size_t n, struct err *err)
{
	uint8_t config[CONFIG_BYTES];
	uint32_t off = get32(p);
	uint32_t size = get32(p + 4);

	if (size != n - 12 || off > CONFIG_BYTES || size > CONFIG_BYTES - off)
		return err_set(err, "configuration at %u of %u bytes", off, size);
	memcpy(config, &d->guest_cid, CONFIG_BYTES);
	memcpy(p + 12, config + off, size);
	return reply(d, p, (uint32_t)n, err);
}

/* Shortest body of each request; REQ_SET_MEM_TABLE checks its own. */
static const uint16_t body_min[] = {
	[REQ_SET_FEATURES] = 8,	      [REQ_SET_MEM_TABLE] = 8,	   [REQ_SET_VRING_NUM] = 8,
	[REQ_SET_VRING_ADDR] = 40,    [REQ_SET_VRING_BASE] = 8,	   [REQ_GET_VRING_BASE] = 8,
	[REQ_SET_VRING_KICK] = 8,     [REQ_SET_VRING_CALL] = 8,	   [REQ_SET_VRING_ERR] = 8,
	[REQ_SET_PROTOCOL_FEATURES] = 8, [REQ_SET_VRING_ENABLE] = 8, [REQ_GET_CONFIG] = 12,
};

static int set_features(struct vhost_user *d, uint64_t v, struct err *err)
{
	if (v & ~FEATURES_OFFERED)
		return err_set(err, "features %#llx were not offered", (unsigned long long)v);
	d->features = v;
	return 0;
}

/* 0 done, 1 done and answered, -1 wrong. */
static int request(struct vhost_user *d, uint32_t req, uint8_t *p, size_t n, struct err *err)
{
	if (req < sizeof(body_min) / sizeof(body_min[0]) && n < body_min[req])
		return err_set(err, "request %u is too short", req);
	switch (req) {
	case REQ_GET_FEATURES:
		return reply_u64(d, FEATURES_OFFERED, err) ? -1 : 1;
	case REQ_SET_FEATURES:
		return set_features(d, get64(p), err);
	case REQ_SET_OWNER:
		return 0;
	case REQ_RESET_OWNER:
		vring_stop(d, VSOCK_RX);
		vring_stop(d, VSOCK_TX);
		return 0;
	case REQ_SET_MEM_TABLE:
		return set_mem_table(d, p, n, err);
	case REQ_SET_VRING_NUM:
	case REQ_SET_VRING_BASE:
	case REQ_SET_VRING_ENABLE:
		return set_vring_state(d, req, p, err);
	case REQ_SET_VRING_ADDR:
		return set_vring_addr(d, p, err);
	case REQ_GET_VRING_BASE:
		return get_vring_base(d, p, err) ? -1 : 1;
	case REQ_SET_VRING_KICK:
	case REQ_SET_VRING_CALL:
	case REQ_SET_VRING_ERR:
		return set_vring_fd(d, req, p, err);
	case REQ_GET_PROTOCOL_FEATURES:
		return reply_u64(d, PROTOCOL_OFFERED, err) ? -1 : 1;
	case REQ_SET_PROTOCOL_FEATURES:
		d->protocol = get64(p) & PROTOCOL_OFFERED;
		return 0;
	case REQ_GET_QUEUE_NUM:
		return reply_u64(d, VSOCK_QUEUES, err) ? -1 : 1;
	case REQ_GET_CONFIG:
		return get_config(d, p, n, err) ? -1 : 1;
	default:
		return err_set(err, "unknown request %u", req);
	}
}

static int request_done(struct vhost_user *d, struct err *err)
{
	uint32_t req = get32(d->msg);
	bool ack = (get32(d->msg + 4) & FLAG_NEED_REPLY) && (d->protocol & PROTOCOL_REPLY_ACK);
	int rc = request(d, req, d->msg + HEADER_BYTES, d->msg_len - HEADER_BYTES, err);

	fds_close(d);
	d->msg_len = 0;
	d->msg_want = HEADER_BYTES;
	if (rc < 0)
		return -1;
	return rc == 0 && ack ? reply_u64(d, 0, err) : 0;
}

/* Reads what is missing of the request: 1 something came, 0 nothing there, -1 it is over. */
static int request_read(struct vhost_user *d, struct err *err)
{
	int fds[IO_FDS_MAX];
	size_t n_fds = IO_FDS_MAX;
	ssize_t n = io_recv_fds(d->fd, d->msg + d->msg_len, d->msg_want - d->msg_len, fds, &n_fds);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return err_errno(err, "read");
	for (size_t i = 0; i < n_fds; i++) {
		if (d->n_fds == IO_FDS_MAX)
			close(fds[i]);
		else
			d->fds[d->n_fds++] = fds[i];
	}
	if (!n)
		return err_set(err, "QEMU closed the device");
	d->msg_len += (size_t)n;
	return 1;
}

static int control_step(struct vhost_user *d, struct err *err)
{
	int rc = request_read(d, err);

	if (rc <= 0 || d->msg_len < d->msg_want)
		return rc;
	if (d->msg_len == HEADER_BYTES) {
		uint32_t size = get32(d->msg + 8);

		if (size > BODY_MAX)
			return err_set(err, "request of %u bytes", size);
		d->msg_want = HEADER_BYTES + size;
	}
	if (d->msg_len == d->msg_want && request_done(d, err))
		return -1;
	return 1;
}

static void control_ready(void *u, int fd, uint32_t events)
{
	struct vhost_user *d = u;
	struct err err;
	int rc;

	(void)events;
	do {
		rc = control_step(d, &err);
	} while (rc > 0 && d->fd == fd);
	if (rc < 0) {
		vhost_user_detach(d);
		d->ops->detached(d->u, err.text);
	}
}

/* ---- Life ---- */

enum { TICK_MS = 500 };

static void clock_tick(void *u)
{
	struct vhost_user *d = u;

	/* A paused guest answers nothing, so no time passes for it: QEMU has stopped the queues. */
	if (vsock_ring(d->vsock, VSOCK_TX)->ready)
		vsock_tick(d->vsock, TICK_MS);
}

struct vhost_user *vhost_user_new(struct loop *loop, uint64_t guest_cid,
				  const struct vhost_user_ops *ops, void *u)
{
	static const struct vsock_device_ops device = { .call = device_call, .broken = device_broken };
	struct vhost_user *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->loop = loop;
	d->guest_cid = guest_cid;
	d->ops = ops;
	d->u = u;
	d->fd = -1;
	for (int q = 0; q < VSOCK_QUEUES; q++)
		d->vring[q].kick_fd = d->vring[q].call_fd = -1;
	d->vsock = vsock_new(guest_cid, &device, d);
	d->clock = loop_timer_add(loop, TICK_MS, TICK_MS, clock_tick, d);
	if (!d->vsock || !d->clock) {
		vhost_user_free(d);
		return NULL;
	}
	return d;
}

void vhost_user_free(struct vhost_user *d)
{
	if (!d)
		return;
	vhost_user_detach(d);
	loop_timer_del(d->clock);
	loop_timer_del(d->again);
	loop_timer_del(d->broken_timer);
	vsock_free(d->vsock);
	free(d);
}

struct vsock *vhost_user_vsock(struct vhost_user *d)
{
	return d->vsock;
}

int vhost_user_attach(struct vhost_user *d, int fd, struct err *err)
{
	vhost_user_detach(d);
	d->fd = fd;
	d->msg_len = 0;
	d->msg_want = HEADER_BYTES;
	if (io_set_nonblock(fd)) {
		err_errno(err, "device socket");
		vhost_user_detach(d);
		return -1;
	}
	d->watch = loop_fd_add(d->loop, fd, EPOLLIN, control_ready, d, err);
	if (!d->watch)
		vhost_user_detach(d);
	return d->watch ? 0 : -1;
}

void vhost_user_detach(struct vhost_user *d)
{
	if (d->fd < 0)
		return;
	loop_fd_del(d->watch);
	d->watch = NULL;
	close(d->fd);
	d->fd = -1;
	fds_close(d);
	for (int q = 0; q < VSOCK_QUEUES; q++) {
		struct queue *r = &d->vring[q];

		vring_stop(d, (enum vsock_queue)q);
		kick_drop(r);
		if (r->call_fd >= 0)
			close(r->call_fd);
		*r = (struct queue){ .kick_fd = -1, .call_fd = -1 };
	}
	vsock_reset(d->vsock);
	memory_drop(d);
	d->features = d->protocol = 0;
}

bool vhost_user_attached(const struct vhost_user *d)
{
	return d->fd >= 0;
}

void vhost_user_guest_reset(struct vhost_user *d)
{
	vsock_reset(d->vsock);
}
