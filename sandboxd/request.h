/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One request of a connection: parsed, judged by where it came from, and carried out. */
#ifndef SANDBOXD_REQUEST_H
#define SANDBOXD_REQUEST_H

#include "sandboxd/conn.h"
#include "sandboxd/supervisor.h"

/* Answers the request that fills this frame. The connection is taken over or finished. */
void guest_request_handle(struct guest_supervisor *v, struct guest_conn *c, const uint8_t *text, size_t n);

#endif
