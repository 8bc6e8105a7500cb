/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ed25519 (RFC 8032) keys in files, signing and verifying, by libsodium. */
#include "lib/ed25519.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/io.h"

struct ed25519_secret {
	uint8_t bytes[ED25519_SECRET];
};

static struct ed25519_secret *secret_alloc(void)
{
	if (sodium_init() < 0)
		return NULL;
	/* Guarded and locked pages; without RLIMIT_MEMLOCK the lock is lost, not the wiping. */
	return sodium_malloc(sizeof(struct ed25519_secret));
}

struct ed25519_secret *ed25519_secret_new(void)
{
	struct ed25519_secret *secret = secret_alloc();
	struct ed25519_public unused;

	if (secret)
		crypto_sign_ed25519_keypair(unused.bytes, secret->bytes);
	return secret;
}

void ed25519_secret_free(struct ed25519_secret *secret)
{
	sodium_free(secret);
}

void ed25519_public_of(struct ed25519_public *out, const struct ed25519_secret *secret)
{
	crypto_sign_ed25519_sk_to_pk(out->bytes, secret->bytes);
}

static int read_hex_line(const char *path, uint8_t *out, size_t n, struct err *err)
{
	struct buf text;
	char *line;
	int rc = -1;

	buf_init(&text, 4096);
	if (io_read_file(path, &text, err))
		goto out;
	line = buf_cstr(&text);
	if (line)
		line[strcspn(line, "\r\n")] = 0;
	if (!line || hex_decode(out, n, line)) {
		err_set(err, "%s: not a key (expected %zu hex digits on one line)", path, 2 * n);
		goto out;
	}
	rc = 0;
out:
	if (text.data)
		sodium_memzero(text.data, text.cap);
	buf_free(&text);
	return rc;
}

static int write_hex_line(const char *path, const uint8_t *in, size_t n, mode_t mode, struct err *err)
{
	char line[2 * ED25519_SECRET + 2];
	_cleanup_free_ char *dir = NULL;
	_cleanup_close_ int dirfd = -1;
	const char *slash = strrchr(path, '/');
	int rc;

	dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!dir)
		return err_set(err, "out of memory");
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_errno(err, "open %s", dir);
	hex_encode(line, in, n);
	strcat(line, "\n");
	rc = io_write_file_atomic(dirfd, slash ? slash + 1 : path, line, strlen(line), mode, err);
	sodium_memzero(line, sizeof(line));
	return rc;
}

struct ed25519_secret *ed25519_secret_load(const char *path, struct err *err)
{
	struct ed25519_secret *secret;
	struct stat st;

	if (stat(path, &st)) {
		err_errno(err, "open %s", path);
		return NULL;
	}
	if (st.st_mode & 077) {
		err_set(err, "%s: others can read this secret key (chmod 600 it)", path);
		return NULL;
	}
	secret = secret_alloc();
	if (!secret) {
		err_set(err, "out of memory");
		return NULL;
	}
	if (read_hex_line(path, secret->bytes, sizeof(secret->bytes), err)) {
		ed25519_secret_free(secret);
		return NULL;
	}
	return secret;
}

int ed25519_secret_save(const struct ed25519_secret *secret, const char *path, struct err *err)
{
	return write_hex_line(path, secret->bytes, sizeof(secret->bytes), 0600, err);
}

int ed25519_public_load(struct ed25519_public *out, const char *path, struct err *err)
{
	return read_hex_line(path, out->bytes, sizeof(out->bytes), err);
}

int ed25519_public_save(const struct ed25519_public *key, const char *path, struct err *err)
{
	return write_hex_line(path, key->bytes, sizeof(key->bytes), 0644, err);
}

struct ed25519_secret *ed25519_secret_ensure(const char *path, struct err *err)
{
	struct ed25519_secret *secret;
	struct ed25519_public pub;
	char pub_path[4096];

	if (!access(path, F_OK))
		return ed25519_secret_load(path, err);
	if (errno != ENOENT) {
		err_errno(err, "open %s", path);
		return NULL;
	}
	secret = ed25519_secret_new();
	if (!secret) {
		err_set(err, "no memory for a key");
		return NULL;
	}
	ed25519_public_of(&pub, secret);
	snprintf(pub_path, sizeof(pub_path), "%s.pub", path);
	if (ed25519_public_save(&pub, pub_path, err) || ed25519_secret_save(secret, path, err)) {
		ed25519_secret_free(secret);
		return NULL;
	}
	return secret;
}

void ed25519_fingerprint(char out[ED25519_FINGERPRINT], const struct ed25519_public *key)
{
	uint8_t digest[HASH_BYTES];

	hash_sha256(digest, key->bytes, sizeof(key->bytes));
	hex_encode(out, digest, (ED25519_FINGERPRINT - 1) / 2);
}

void ed25519_sign(uint8_t sig[ED25519_SIGNATURE], const struct ed25519_secret *secret,
		  const void *p, size_t n)
{
	crypto_sign_ed25519_detached(sig, NULL, p, n, secret->bytes);
}

int ed25519_verify(const uint8_t sig[ED25519_SIGNATURE], const struct ed25519_public *key,
		   const void *p, size_t n)
{
	return crypto_sign_ed25519_verify_detached(sig, p, n, key->bytes);
}
