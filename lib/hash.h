/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104), by libsodium. */
#ifndef HOLDFAST_LIB_HASH_H
#define HOLDFAST_LIB_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum { HASH_BYTES = 32, HASH_HEX = 65 };

void hash_sha256(uint8_t out[HASH_BYTES], const void *p, size_t n);
/* SHA-256 of a NUL-terminated label (without its NUL) followed by n bytes. */
void hash_sha256_label(uint8_t out[HASH_BYTES], const char *label, const void *p, size_t n);
void hash_hmac_sha256(uint8_t out[HASH_BYTES], const uint8_t key[HASH_BYTES], const void *p, size_t n);
/* Reads from the start of the file, whatever the offset of fd, and leaves that offset alone. */
int hash_sha256_fd(uint8_t out[HASH_BYTES], int fd, struct err *err);
int hash_sha256_file(uint8_t out[HASH_BYTES], const char *path, struct err *err);
/* Constant time; nonzero when equal. */
int hash_equal(const uint8_t a[HASH_BYTES], const uint8_t b[HASH_BYTES]);

#endif
