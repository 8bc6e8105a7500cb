/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A connection that carries frames (u8 type, u32 length, payload) on an event loop. */
#ifndef SANDBOXD_CONN_H
#define SANDBOXD_CONN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/loop.h"

struct guest_conn;

struct guest_conn_ops {
	/* One whole frame. May close the connection. */
	void (*frame)(void *user, struct guest_conn *c, uint8_t type, const uint8_t *payload, size_t len);
	/* What was waiting has shrunk below GUEST_CONN_LOW. */
	void (*drained)(void *user, struct guest_conn *c);
	/* The peer is gone or broke the protocol. The connection is freed right after. */
	void (*closed)(void *user, struct guest_conn *c);
};

/* A producer stops above HIGH and goes on below LOW. */
enum { GUEST_CONN_HIGH = 256 * 1024, GUEST_CONN_LOW = 64 * 1024 };

/* Takes the fd (non-blocking). NULL without memory, the fd is then closed. */
struct guest_conn *guest_conn_new(struct loop *loop, int fd, const struct guest_conn_ops *ops, void *user);

/* Frees at once, without the closed callback; inside a frame callback, when that returns. */
void guest_conn_free(struct guest_conn *c);

/* Ends when everything written so far is out; no more frames are taken. */
void guest_conn_finish(struct guest_conn *c);

void guest_conn_send(struct guest_conn *c, uint8_t type, const void *payload, size_t len);
void guest_conn_send_raw(struct guest_conn *c, const void *bytes, size_t len);
/* Takes the reference to json. */
void guest_conn_reply(struct guest_conn *c, json_t *json);
/* An error frame, then the end. */
void guest_conn_refuse(struct guest_conn *c, const char *text);

size_t guest_conn_waiting(const struct guest_conn *c);

/* Stops or goes on taking frames. */
void guest_conn_hold(struct guest_conn *c, bool hold);

/* Who gets the callbacks from now on. */
void guest_conn_user(struct guest_conn *c, const struct guest_conn_ops *ops, void *user);

#endif
