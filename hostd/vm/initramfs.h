/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The initramfs of one boot: sandboxd as init, early modules, Sentry, boot key, guest spec. */
#ifndef HOLDFAST_HOSTD_VM_INITRAMFS_H
#define HOLDFAST_HOSTD_VM_INITRAMFS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum {
	INITRAMFS_EARLY_MAX = 256,		 /* names in early.list */
	INITRAMFS_BYTES_MAX = 256 * 1024 * 1024, /* of the whole archive */
};

struct initramfs_parts {
	const char *sandboxd;	   /* becomes /init */
	const char *early_dir;	   /* NAME.ko for each NAME in early_list; both "" for none */
	const char *early_list;
	const char *sentry_module; /* "" for none */
	const char *proxy_ca;	   /* PEM; "" for none */
	const uint8_t *boot_key;   /* 32 bytes */
	const char *guest_spec;	   /* JSON text */
};

/*
 * Writes an uncompressed newc archive (Documentation/driver-api/early-userspace/buffer-format.rst)
 * to dir/name, mode 0600, replacing nothing: the name must be free. On failure nothing is left.
 */
int initramfs_build(int dirfd, const char *name, const struct initramfs_parts *parts,
		    struct err *err);

#endif
