/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Carries bytes between a vsock stream and a host socket, with half closes both ways. */
#ifndef HOLDFAST_HOSTD_VM_BRIDGE_H
#define HOLDFAST_HOSTD_VM_BRIDGE_H

#include <stdint.h>

#include "hostd/vm/vsock.h"
#include "lib/loop.h"

enum { BRIDGE_CHUNK = 64 * 1024 };

/* NULL reason: the guest accepted. Not called from inside bridge_connect. */
typedef void (*bridge_opened)(void *u, uint64_t id, const char *reason);

struct bridge_set;

/* All bridges of one VM; at most `max` at once. */
struct bridge_set *bridge_set_new(struct loop *loop, struct vsock *v, size_t max);
/* Resets every stream and closes every socket. */
void bridge_set_free(struct bridge_set *set);
size_t bridge_set_count(const struct bridge_set *set);

/* Opens a stream to a guest port and carries it to fd, which is consumed also on failure (-1). */
int bridge_connect(struct bridge_set *set, uint32_t port, int fd, uint64_t id, bridge_opened opened,
		   void *u);

/* Each stream that the guest opens to this host port is carried to the unix socket at path. */
int bridge_listen(struct bridge_set *set, uint32_t port, const char *path);

#endif
