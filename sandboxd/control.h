/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The control stream to the host (vsock 5840): status out, questions in. */
#ifndef SANDBOXD_CONTROL_H
#define SANDBOXD_CONTROL_H

#include <jansson.h>

struct guest_control;
struct guest_supervisor;

/* Connects, and again each second, for ever. */
struct guest_control *guest_control_new(struct guest_supervisor *v);

/* Something in the status changed: sent at once when connected. */
void guest_control_changed(struct guest_control *c);

json_t *guest_control_json(const struct guest_control *c);

#endif
