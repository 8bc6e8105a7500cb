/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Secret keys in minisign's file format, and signatures made with them. */
#ifndef HOLDFAST_CATALOG_KEYFILE_H
#define HOLDFAST_CATALOG_KEYFILE_H

#include <stddef.h>

#include "lib/catalog/minisig.h"
#include "lib/err.h"

/* In locked memory, wiped when freed; cannot be formatted. */
struct keyfile;

struct keyfile *keyfile_new(struct err *err);
void keyfile_free(struct keyfile *key);

/*
 * Reads a secret key as `minisign -G` (asks for the passphrase, on the terminal or from the file that
 * $HOLDFAST_PASSPHRASE_FILE names) or `minisign -G -W` writes it. Refused when others can read it.
 */
struct keyfile *keyfile_load(const char *path, struct err *err);
/* Writes PATH (0600, without a passphrase) and PATH with .pub in place of .key; never replaces one. */
int keyfile_save(const struct keyfile *key, const char *path, struct err *err);

void keyfile_public(struct minisig_key *out, const struct keyfile *key);

/* A whole .minisig file over these bytes, with this trusted comment; the caller frees it. */
char *keyfile_sign(const struct keyfile *key, const void *data, size_t n, const char *comment,
		   struct err *err);
/* A bare ed25519 signature, for DSSE. */
void keyfile_sign_raw(unsigned char out[64], const struct keyfile *key, const void *data, size_t n);

#endif
