/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The disks of a workspace: overlay, home, their checkpoints, and the lock that owns them. */
#ifndef HOLDFAST_HOSTD_VM_DISK_H
#define HOLDFAST_HOSTD_VM_DISK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"

#define DISK_ROOT "disk.qcow2" /* overlay of the signed base */
#define DISK_HOME "home.qcow2" /* ext4 on /home */
#define DISK_STATE "vm.state"  /* RAM of a suspended VM */
#define DISK_STATE_INFO "vm.state.json" /* its boot, key and configuration; secret */
#define DISK_LOCK "vm.lock"

enum {
	DISK_CHECKPOINTS_MAX = 64,
	DISK_NAME_MAX = 64,
	DISK_KEEP_BOOTS = 3,
	DISK_KEEP_DAYS = 7,
	DISK_KEEP_WEEKS = 4,
};

/* A VM of this workspace runs, or a disk verb works on it, while the fd is open anywhere. fd or -1. */
int disk_lock(const char *dir, struct err *err);

/* Makes what is missing. home_bytes is the apparent size of a new home. Needs the lock. */
int disk_prepare(const char *dir, const char *base, uint64_t home_bytes, struct err *err);

/*
 * Checkpoints are internal qcow2 snapshots of both disks under one name: [A-Za-z0-9._-], made at once,
 * holding only what changes later. All need the lock; no VM runs.
 */
bool disk_name_ok(const char *name);
int disk_checkpoint(const char *dir, const char *name, struct err *err);
/* Both disks go back to it; the RAM snapshot goes away first, it must not outlive its disk. */
int disk_rollback(const char *dir, const char *name, struct err *err);
int disk_drop(const char *dir, const char *name, struct err *err);
/* Array of {name, time}, oldest first, of what both disks have. */
json_t *disk_list(const char *dir, struct err *err);

/*
 * Drops the "boot-" checkpoints that are neither among the last DISK_KEEP_BOOTS nor the newest of one
 * of the last DISK_KEEP_DAYS days or DISK_KEEP_WEEKS weeks. Others are the user's and stay.
 */
int disk_thin(const char *dir, int64_t now_s, struct err *err);
/* The pure part: sets drop[i] for n times (seconds, oldest first). */
void disk_thin_pick(const int64_t *time_s, size_t n, int64_t now_s, bool *drop);

/* Drops the RAM of a suspended VM, if there is one: it must not outlive its disk. */
int disk_state_drop(const char *dir, struct err *err);

/* The system disk is made anew from the base at the next start; home stays. */
int disk_reset(const char *dir, struct err *err);

/* Bytes that both disks take on the host. */
int disk_usage(const char *dir, uint64_t *root_bytes, uint64_t *home_bytes, struct err *err);

#endif
