/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The signed guest image: which base disk and which kernel a start uses. */
#ifndef HOLDFAST_WS_IMAGE_H
#define HOLDFAST_WS_IMAGE_H

#include <stdint.h>

#include "hostd/ws/paths.h"
#include "lib/err.h"
#include "lib/hash.h"

struct image_file {
	char path[PATHS_MAX];
	uint8_t sha256[HASH_BYTES];
	int64_t size;
};

enum { IMAGE_MIRRORS_MAX = 16 };

/* Where a package manager of the image is set to go. */
struct image_mirror {
	char kind[8]; /* "apt", "npm", "pip" */
	char host[256];
	uint16_t port;
};

/* One image and one of its kernels. */
struct image {
	char dir[PATHS_MAX];
	char digest[HASH_HEX]; /* of image.json */
	struct image_file base, vmlinux, modules, early_list;
	char early_dir[PATHS_MAX];
	char release[96]; /* of the kernel */
	struct image_mirror mirrors[IMAGE_MIRRORS_MAX];
	size_t n_mirrors;
};

/*
 * Reads cache/image/NAME ("current" or a digest) and checks the signature of its image.json with the
 * key in config/keys/image.key.pub. kernel: a release, or "default". Kernel and list are hashed here, since
 * they are small; the base is checked by image_check_base before it is first cloned.
 */
int image_open(struct image *image, const struct paths *paths, const char *name, const char *kernel,
	       struct err *err);

/* Hashes the base disk: seconds; not for the event loop's thread. */
int image_check_base(const struct image *image, struct err *err);

#endif
