/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Streams from inside the guest to services of the host, by vsock. See docs/protocol/bridge.md. */
#ifndef SANDBOXD_BRIDGE_H
#define SANDBOXD_BRIDGE_H

#include <jansson.h>

struct guest_bridge;
struct guest_supervisor;

/* Opens the listeners; one that cannot be opened is a degraded step. NULL without memory. */
struct guest_bridge *guest_bridge_new(struct guest_supervisor *v);

/* With the proxy on: listens on the container bridge's address too, once that is there. Called now and then. */
void guest_bridge_containers(struct guest_bridge *b);

/* Closes the listeners; no stream may be open. */
void guest_bridge_free(struct guest_bridge *b);

json_t *guest_bridge_json(const struct guest_bridge *b);

#endif
