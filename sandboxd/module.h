/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loading kernel modules from the initramfs, and the Sentry with its key. */
#ifndef SANDBOXD_MODULE_H
#define SANDBOXD_MODULE_H

#include <stddef.h>

#include "lib/err.h"

/* Loads dir/NAME.ko for each line of the list file. Stops at the first that fails, named in path. */
int guest_modules_load(const char *list, const char *dir, char *path, size_t size, struct err *e);

/* 0 when the file has this SHA-256 (64 lower-case hex digits). */
int guest_module_check(const char *file, const char *sha256, struct err *e);

/* Loads the Sentry with the 32-byte key from key_file as its parameter; every copy of ours is wiped. */
int guest_sentry_insert(const char *file, const char *key_file, struct err *e);

/* Overwrites, syncs and unlinks. An absent file is fine. */
int guest_key_wipe(const char *key_file, struct err *e);

#endif
