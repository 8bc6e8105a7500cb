/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ed25519 (RFC 8032) keys in files, signing and verifying, by libsodium. */
#ifndef HOLDFAST_LIB_ED25519_H
#define HOLDFAST_LIB_ED25519_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum { ED25519_PUBLIC = 32, ED25519_SECRET = 64, ED25519_SIGNATURE = 64, ED25519_FINGERPRINT = 17 };

struct ed25519_public {
	uint8_t bytes[ED25519_PUBLIC];
};

/* Locked memory, wiped by ed25519_secret_free; never printed. */
struct ed25519_secret;

struct ed25519_secret *ed25519_secret_new(void);
void ed25519_secret_free(struct ed25519_secret *secret);
void ed25519_public_of(struct ed25519_public *out, const struct ed25519_secret *secret);

/* Key files: one line of hex; the secret one is made 0600 and refused when others can read it. */
struct ed25519_secret *ed25519_secret_load(const char *path, struct err *err);
int ed25519_secret_save(const struct ed25519_secret *secret, const char *path, struct err *err);
int ed25519_public_load(struct ed25519_public *out, const char *path, struct err *err);
int ed25519_public_save(const struct ed25519_public *key, const char *path, struct err *err);
/* Loads PATH, or makes a new key there (and PATH.pub) when there is none. */
struct ed25519_secret *ed25519_secret_ensure(const char *path, struct err *err);

/* The first 8 bytes of SHA-256 of the public key, in hex, with NUL. */
void ed25519_fingerprint(char out[ED25519_FINGERPRINT], const struct ed25519_public *key);

void ed25519_sign(uint8_t sig[ED25519_SIGNATURE], const struct ed25519_secret *secret,
		  const void *p, size_t n);
/* 0 when the signature is this key's over these bytes, else -1. */
int ed25519_verify(const uint8_t sig[ED25519_SIGNATURE], const struct ed25519_public *key,
		   const void *p, size_t n);

#endif
