/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes the vsock device out of a running guest and puts a new one in. */
#ifndef HOLDFAST_HOSTD_VM_PLUG_H
#define HOLDFAST_HOSTD_VM_PLUG_H

#include "hostd/vm/vm.h"

enum { PLUG_UNPLUG_MS = 5000 };

/* cause NULL: done. Called once, never from inside plug_out or plug_in. */
typedef void (*plug_done)(struct vm *vm, uint64_t id, const char *cause);

/* Unplugs while the guest runs; its streams end. -1: another plug or unplug is under way. */
int plug_out(struct vm *vm, uint64_t id, plug_done done);
/* Plugs a new device into the free slot, served by vm->device. */
int plug_in(struct vm *vm, uint64_t id, plug_done done);

/* QMP's DEVICE_DELETED. */
void plug_device_deleted(struct vm *vm, const char *device);
void plug_free(struct vm *vm);

#endif
