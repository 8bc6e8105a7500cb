/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's machine protocol: asynchronous commands by id, events, descriptors. */
#ifndef HOLDFAST_HOSTD_VM_QMP_H
#define HOLDFAST_HOSTD_VM_QMP_H

#include <jansson.h>

#include "lib/err.h"
#include "lib/loop.h"

enum {
	QMP_LINE_MAX = 1024 * 1024, /* of one message from QEMU */
	QMP_PENDING_MAX = 64,	    /* commands without an answer */
};

struct qmp;

/* Exactly one of result and error is not NULL; both are borrowed. */
typedef void (*qmp_done)(void *u, const json_t *result, const char *error);

struct qmp_ops {
	/* data may be NULL. */
	void (*event)(void *u, const char *name, const json_t *data);
	/* QEMU closed it or said what no QEMU says. Every pending command was answered with an error. */
	void (*closed)(void *u, const char *why);
};

/* Takes the connected socket. Waits for the greeting and leaves negotiation mode by itself. */
struct qmp *qmp_new(struct loop *loop, int fd, const struct qmp_ops *ops, void *u, struct err *err);
/* Answers nothing any more. Safe inside callbacks. NULL is fine. */
void qmp_free(struct qmp *q);

/*
 * Queues a command; args is consumed and may be NULL, fd (or -1) is borrowed and goes with it, done
 * may be NULL. Commands go out in order, from the greeting on. -1 if there are too many or it is
 * closed; done is then not called.
 */
int qmp_command(struct qmp *q, const char *name, json_t *args, int fd, qmp_done done, void *u);

/* "7.2.22", or "" before the greeting. */
const char *qmp_version(const struct qmp *q);
int qmp_version_major(const struct qmp *q);

#endif
