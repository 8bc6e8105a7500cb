/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104), by libsodium. */
#include "lib/hash.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "lib/cleanup.h"

void hash_sha256(uint8_t out[HASH_BYTES], const void *p, size_t n)
{
	crypto_hash_sha256(out, p, n);
}

void hash_sha256_label(uint8_t out[HASH_BYTES], const char *label, const void *p, size_t n)
{
	crypto_hash_sha256_state state;

	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, (const uint8_t *)label, strlen(label));
	crypto_hash_sha256_update(&state, p, n);
	crypto_hash_sha256_final(&state, out);
}

void hash_hmac_sha256(uint8_t out[HASH_BYTES], const uint8_t key[HASH_BYTES], const void *p, size_t n)
{
	crypto_auth_hmacsha256(out, p, n, key);
}

int hash_sha256_fd(uint8_t out[HASH_BYTES], int fd, struct err *err)
{
	crypto_hash_sha256_state state;
	static _Thread_local uint8_t chunk[65536];
	off_t at = 0;

	crypto_hash_sha256_init(&state);
	for (;;) {
		ssize_t got = pread(fd, chunk, sizeof(chunk), at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "read");
		if (got == 0)
			break;
		crypto_hash_sha256_update(&state, chunk, (size_t)got);
		at += got;
	}
	crypto_hash_sha256_final(&state, out);
	return 0;
}

int hash_sha256_file(uint8_t out[HASH_BYTES], const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "open %s", path);
	if (hash_sha256_fd(out, fd, err))
		return err_prefix(err, "%s", path);
	return 0;
}

int hash_equal(const uint8_t a[HASH_BYTES], const uint8_t b[HASH_BYTES])
{
	return !sodium_memcmp(a, b, HASH_BYTES);
}
