/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signatures in minisign's format: ed25519 over BLAKE2b-512 of the file, and a signed trusted comment. */
#ifndef HOLDFAST_LIB_CATALOG_MINISIG_H
#define HOLDFAST_LIB_CATALOG_MINISIG_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

/* Format: https://jedisct1.github.io/minisign/#signature-format. Only the prehashed kind ("ED"). */
enum {
	MINISIG_ID_BYTES = 8,
	MINISIG_ID_TEXT = 17,
	MINISIG_KEY_TEXT = 57,
	MINISIG_COMMENT_MAX = 256,
	MINISIG_FILE_MAX = 1024,
};

struct minisig_key {
	uint8_t id[MINISIG_ID_BYTES];
	uint8_t public[32];
};

struct minisig {
	uint8_t id[MINISIG_ID_BYTES];
	uint8_t signature[64];
	uint8_t global[64]; /* over signature || comment */
	char comment[MINISIG_COMMENT_MAX];
};

/* The base64 line of a public key file, as it stands in a root document. */
int minisig_key_parse(struct minisig_key *key, const char *text, struct err *err);
void minisig_key_text(char out[MINISIG_KEY_TEXT], const struct minisig_key *key);
/* The id as the minisign program prints it. */
void minisig_id_text(char out[MINISIG_ID_TEXT], const uint8_t id[MINISIG_ID_BYTES]);

/* A whole .minisig file: four lines, nothing after them. */
int minisig_parse(struct minisig *sig, const void *text, size_t n, struct err *err);

/* 0 when this key signed these bytes and the comment; the id is only a hint and must match too. */
int minisig_verify(const struct minisig *sig, const struct minisig_key *key, const void *data, size_t n);

#endif
