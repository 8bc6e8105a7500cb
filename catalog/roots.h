/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A folder of keys: made at set-up or for releases, and root documents that hand over to new keys. */
#ifndef HOLDFAST_CATALOG_ROOTS_H
#define HOLDFAST_CATALOG_ROOTS_H

#include "lib/catalog/root.h"

/*
 * KEYS/root-1.key, root-2.key, root-3.key (2 of 3 sign root documents), catalog.key, timestamp.key, each
 * with its .pub; KEYS/roots/ holds the root documents, which are public. For releases the root keys
 * are kept elsewhere and brought for a rotation only.
 */

/* The folder of this machine's own keys. */
int roots_local_folder(char *out, size_t room, struct err *err);

/* Makes the folder with new keys and the first root document, whole or not at all. */
int roots_init(const char *keys, const char *channel, struct err *err);

/* The newest root document, after the chain up to it was verified. */
int roots_newest(const char *keys, struct catalog_root *out, struct err *err);

/*
 * Gives `name` (root-1 ... root-3, catalog, timestamp) a new key: root document N+1, signed by the keys
 * of N and of N+1. Needs two root keys of N in the folder. The old key is kept as NAME.N.old.
 */
int roots_rotate(const char *keys, const char *name, struct err *err);

/* Copies every root document and signature into a folder of metadata. */
int roots_copy(const char *keys, int to_dirfd, struct err *err);

#endif
