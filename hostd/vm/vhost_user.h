/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The vhost-user control socket of one vhost-user-vsock device, as QEMU speaks it. */
#ifndef HOLDFAST_HOSTD_VM_VHOST_USER_H
#define HOLDFAST_HOSTD_VM_VHOST_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "hostd/vm/vsock.h"
#include "lib/err.h"
#include "lib/loop.h"

struct vhost_user;

struct vhost_user_ops {
	/* The guest's driver broke a ring: no stream until it is reset. */
	void (*broken)(void *u, const char *why);
	/* QEMU has closed the control socket, or broke its protocol. Attach a new one after replug. */
	void (*detached)(void *u, const char *why);
};

struct vhost_user *vhost_user_new(struct loop *loop, uint64_t guest_cid,
				  const struct vhost_user_ops *ops, void *u);
void vhost_user_free(struct vhost_user *d);

/* The streams; listeners stay over attach, detach and reset. */
struct vsock *vhost_user_vsock(struct vhost_user *d);

/* Serves the device on this connected socket, which is ours from here. Replaces an earlier one. */
int vhost_user_attach(struct vhost_user *d, int fd, struct err *err);
void vhost_user_detach(struct vhost_user *d);
bool vhost_user_attached(const struct vhost_user *d);

/* QMP said RESET: the guest starts anew, so all its streams are gone. */
void vhost_user_guest_reset(struct vhost_user *d);

#endif
