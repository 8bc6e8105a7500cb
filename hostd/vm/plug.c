/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes the vsock device out of a running guest and puts a new one in. */

/*
 * Theory of operation
 *
 * A vhost-user device whose backend has gone never comes back by itself, and QEMU saves no RAM
 * while one is plugged (measured with 7.2 and 10.0). So: device_del, wait for DEVICE_DELETED (the
 * guest must agree, 5 s), chardev-remove; later getfd, chardev-add with a fresh socketpair,
 * device_add. A chardev can't be used twice, so each plug has a number. DEVICE_DELETED comes twice,
 * only the one that names the device counts.
 */
#include "hostd/vm/plug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/vm/qemu.h"
#include "lib/cleanup.h"

enum { NAME_BYTES = 32 };

struct plug {
	struct vm *vm;
	uint64_t id;
	plug_done done;
	struct loop_timer *timer;
	int qemu_fd;
	bool out, deleted;
	char chardev[NAME_BYTES];
};

static void chardev_name(char out[NAME_BYTES], unsigned count)
{
	if (count)
		snprintf(out, NAME_BYTES, "vsock-%u", count);
	else
		snprintf(out, NAME_BYTES, "vsock-a"); /* that of the command line */
}

static struct plug *plug_new(struct vm *vm, uint64_t id, plug_done done)
{
	struct plug *p;

	if (vm->plug || !vm->qmp)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct plug){ .vm = vm, .id = id, .done = done, .qemu_fd = -1 };
	vm->plug = p;
	return p;
}

void plug_free(struct vm *vm)
{
	struct plug *p = vm->plug;

	if (!p)
		return;
	vm->plug = NULL;
	loop_timer_del(p->timer);
	if (p->qemu_fd >= 0)
		close(p->qemu_fd);
	free(p);
}

static void finish(struct plug *p, const char *cause)
{
	struct vm *vm = p->vm;
	plug_done done = p->done;
	uint64_t id = p->id;

	plug_free(vm);
	if (done)
		done(vm, id, cause);
}

/* A QMP answer may come after the plug it belongs to has timed out. */
static struct plug *plug_of(void *u)
{
	return ((struct vm *)u)->plug;
}

static void removed(void *u, const json_t *result, const char *error)
{
	struct plug *p = plug_of(u);

	(void)result;
	(void)error; /* a chardev that QEMU has dropped already */
	if (p)
		finish(p, NULL);
}

static void chardev_remove(struct plug *p)
{
	chardev_name(p->chardev, p->vm->plug_count);
	vhost_user_detach(p->vm->device);
	if (qmp_command(p->vm->qmp, "chardev-remove", json_pack("{s:s}", "id", p->chardev), -1, removed,
			p->vm))
		finish(p, "QEMU takes no commands");
}

static void unplug_late(void *u)
{
	struct plug *p = u;

	p->timer = NULL;
	finish(p, "the guest did not let go of the vsock device within 5 s");
}

static void deleting(void *u, const json_t *result, const char *error)
{
	struct plug *p = plug_of(u);

	(void)result;
	if (!p || !error)
		return;
	/* QEMU has no such device: it is out already. */
	if (strstr(error, "not found"))
		chardev_remove(p);
	else
		finish(p, error);
}

int plug_out(struct vm *vm, uint64_t id, plug_done done)
{
	struct plug *p = plug_new(vm, id, done);

	if (!p)
		return -1;
	p->out = true;
	p->timer = loop_timer_add(vm->loop, PLUG_UNPLUG_MS, 0, unplug_late, p);
	if (qmp_command(vm->qmp, "device_del", json_pack("{s:s}", "id", QEMU_VSOCK_ID), -1, deleting,
			vm)) {
		plug_free(vm);
		return -1;
	}
	return 0;
}

void plug_device_deleted(struct vm *vm, const char *device)
{
	struct plug *p = vm->plug;

	if (!p || !p->out || p->deleted || !device || strcmp(device, QEMU_VSOCK_ID))
		return;
	p->deleted = true;
	loop_timer_del(p->timer);
	p->timer = NULL;
	chardev_remove(p);
}

static void added(void *u, const json_t *result, const char *error)
{
	struct plug *p = plug_of(u);

	(void)result;
	if (p)
		finish(p, error);
}

static void chardev_added(void *u, const json_t *result, const char *error)
{
	struct plug *p = plug_of(u);

	(void)result;
	if (!p)
		return;
	if (error)
		finish(p, error);
	else if (qmp_command(p->vm->qmp, "device_add",
			     json_pack("{s:s, s:s, s:s, s:s}", "driver", "vhost-user-vsock-pci", "chardev",
				       p->chardev, "id", QEMU_VSOCK_ID, "bus", QEMU_VSOCK_BUS),
			     -1, added, p->vm))
		finish(p, "QEMU takes no commands");
}

static void got_fd(void *u, const json_t *result, const char *error)
{
	struct plug *p = plug_of(u);

	(void)result;
	if (!p)
		return;
	if (error)
		finish(p, error);
	else if (qmp_command(p->vm->qmp, "chardev-add",
			     json_pack("{s:s, s:{s:s, s:{s:{s:s, s:{s:s}}, s:b}}}", "id", p->chardev,
				       "backend", "type", "socket", "data", "addr", "type", "fd", "data",
				       "str", p->chardev, "server", 0),
			     -1, chardev_added, p->vm))
		finish(p, "QEMU takes no commands");
}

int plug_in(struct vm *vm, uint64_t id, plug_done done)
{
	struct plug *p = plug_new(vm, id, done);
	int pair[2];

	if (!p)
		return -1;
	chardev_name(p->chardev, ++vm->plug_count);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		plug_free(vm);
		return -1;
	}
	p->qemu_fd = pair[1];
	if (vhost_user_attach(vm->device, pair[0], NULL) ||
	    qmp_command(vm->qmp, "getfd", json_pack("{s:s}", "fdname", p->chardev), p->qemu_fd, got_fd,
			vm)) {
		plug_free(vm);
		return -1;
	}
	return 0;
}
