/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Secret keys in minisign's file format, and signatures made with them. */
#include "catalog/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"

enum {
	SALT_BYTES = 32,
	PART_BYTES = MINISIG_ID_BYTES + crypto_sign_SECRETKEYBYTES + 32, /* id, secret key, check */
	HEAD_BYTES = 2 + 2 + 2 + SALT_BYTES + 8 + 8,
	FILE_BYTES = HEAD_BYTES + PART_BYTES,
	PASSPHRASE_MAX = 1024,
};

struct keyfile {
	uint8_t id[MINISIG_ID_BYTES];
	uint8_t secret[crypto_sign_SECRETKEYBYTES];
};

struct keyfile *keyfile_new(struct err *err)
{
	uint8_t public[crypto_sign_PUBLICKEYBYTES];
	struct keyfile *key;

	key = sodium_init() < 0 ? NULL : sodium_malloc(sizeof(*key));
	if (!key) {
		err_set(err, "no memory for a key");
		return NULL;
	}
	crypto_sign_keypair(public, key->secret);
	randombytes_buf(key->id, sizeof(key->id));
	return key;
}

void keyfile_free(struct keyfile *key)
{
	sodium_free(key);
}

void keyfile_public(struct minisig_key *out, const struct keyfile *key)
{
	memcpy(out->id, key->id, sizeof(out->id));
	crypto_sign_ed25519_sk_to_pk(out->public, key->secret);
}

static uint64_t le64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

static void checksum(uint8_t out[32], const uint8_t *part)
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, NULL, 0, 32);
	crypto_generichash_update(&state, (const uint8_t *)"Ed", 2);
	crypto_generichash_update(&state, part, MINISIG_ID_BYTES + crypto_sign_SECRETKEYBYTES);
	crypto_generichash_final(&state, out, 32);
}

static int read_line(FILE *in, char *out, struct err *err)
{
	if (!fgets(out, PASSPHRASE_MAX, in))
		return err_set(err, "no passphrase given");
	out[strcspn(out, "\n")] = '\0';
	return 0;
}

static int ask_passphrase(const char *path, char *out, struct err *err)
{
	const char *file = getenv("HOLDFAST_PASSPHRASE_FILE");
	_cleanup_fclose_ FILE *in = fopen(file ? file : "/dev/tty", file ? "r" : "r+");
	struct termios old, quiet;
	int rc;

	if (!in)
		return err_errno(err, "passphrase of %s: %s", path, file ? file : "/dev/tty");
	if (file)
		return read_line(in, out, err);
	fprintf(in, "Passphrase of %s: ", path);
	fflush(in);
	if (tcgetattr(fileno(in), &old))
		return err_errno(err, "/dev/tty");
	quiet = old;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	tcsetattr(fileno(in), TCSAFLUSH, &quiet);
	rc = read_line(in, out, err);
	tcsetattr(fileno(in), TCSAFLUSH, &old);
	fputc('\n', in);
	return rc;
}

static int decrypt(uint8_t *raw, const char *path, struct err *err)
{
	uint8_t *part = raw + HEAD_BYTES, *stream = sodium_malloc(PART_BYTES);
	char *passphrase = sodium_malloc(PASSPHRASE_MAX);
	int rc = -1;

	if (!stream || !passphrase)
		err_set(err, "no memory for a key");
	else if (ask_passphrase(path, passphrase, err))
		rc = -1;
	else if (crypto_pwhash_scryptsalsa208sha256(stream, PART_BYTES, passphrase, strlen(passphrase),
						    raw + 6, le64(raw + 6 + SALT_BYTES),
						    (size_t)le64(raw + 14 + SALT_BYTES)))
		err_set(err, "%s: no memory for its scrypt parameters", path);
	else
		rc = 0;
	for (int i = 0; !rc && i < PART_BYTES; i++)
		part[i] ^= stream[i];
	sodium_free(stream);
	sodium_free(passphrase);
	return rc;
}

static int decode(uint8_t *raw, const char *text, const char *path, struct err *err)
{
	const char *line = strchr(text, '\n');
	size_t got = 0;

	if (!line || sodium_base642bin(raw, FILE_BYTES, line + 1, strcspn(line + 1, "\n"), NULL, &got, NULL,
				       sodium_base64_VARIANT_ORIGINAL) ||
	    got != FILE_BYTES || memcmp(raw, "Ed", 2) || memcmp(raw + 4, "B2", 2))
		return err_set(err, "%s: not a minisign secret key", path);
	if (!memcmp(raw + 2, "Sc", 2))
		return decrypt(raw, path, err);
	return raw[2] || raw[3] ? err_set(err, "%s: unknown key derivation", path) : 0;
}

static struct keyfile *from_text(const char *text, const char *path, struct err *err)
{
	uint8_t *raw = sodium_malloc(FILE_BYTES), sum[32];
	struct keyfile *key = sodium_malloc(sizeof(*key));
	int ok = raw && key && !decode(raw, text, path, err);

	if (ok) {
		checksum(sum, raw + HEAD_BYTES);
		ok = !sodium_memcmp(sum, raw + FILE_BYTES - sizeof(sum), sizeof(sum));
		if (!ok)
			err_set(err, "%s: wrong passphrase or damaged key", path);
	}
	if (ok) {
		memcpy(key->id, raw + HEAD_BYTES, sizeof(key->id));
		memcpy(key->secret, raw + HEAD_BYTES + MINISIG_ID_BYTES, sizeof(key->secret));
	} else {
		sodium_free(key);
		key = NULL;
	}
	sodium_free(raw);
	return key;
}

struct keyfile *keyfile_load(const char *path, struct err *err)
{
	struct keyfile *key = NULL;
	struct buf text;
	struct stat st;

	if (sodium_init() < 0 || stat(path, &st)) {
		err_errno(err, "key %s", path);
		return NULL;
	}
	if (st.st_mode & 077) {
		err_set(err, "key %s can be read by others (mode %03o); make it 0600", path, st.st_mode & 0777);
		return NULL;
	}
	buf_init(&text, 4096);
	if (!io_read_file(path, &text, err) && buf_cstr(&text))
		key = from_text((const char *)text.data, path, err);
	if (text.data)
		sodium_memzero(text.data, text.len);
	buf_free(&text);
	return key;
}

static int write_new(const char *path, mode_t mode, const char *comment, const char *base64,
		     struct err *err)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd < 0 || dprintf(fd, "untrusted comment: %s\n%s\n", comment, base64) < 0 || fsync(fd))
		return err_errno(err, "%s", path);
	return 0;
}

static int save_public(const struct keyfile *key, const char *path, struct err *err)
{
	char public_path[4096], comment[64], text[MINISIG_KEY_TEXT], id[MINISIG_ID_TEXT];
	size_t stem = strlen(path) - (strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".key") ? 4 : 0);
	struct minisig_key public;

	keyfile_public(&public, key);
	minisig_id_text(id, public.id);
	minisig_key_text(text, &public);
	snprintf(public_path, sizeof(public_path), "%.*s.pub", (int)stem, path);
	snprintf(comment, sizeof(comment), "minisign public key %s", id);
	return write_new(public_path, 0644, comment, text, err);
}

int keyfile_save(const struct keyfile *key, const char *path, struct err *err)
{
	char base64[sodium_base64_ENCODED_LEN(FILE_BYTES, sodium_base64_VARIANT_ORIGINAL)];
	uint8_t *raw = sodium_malloc(FILE_BYTES);
	int rc;

	if (!raw)
		return err_set(err, "no memory for a key");
	memset(raw, 0, FILE_BYTES);
	memcpy(raw, "Ed\0\0B2", 6);
	memcpy(raw + HEAD_BYTES, key->id, sizeof(key->id));
	memcpy(raw + HEAD_BYTES + MINISIG_ID_BYTES, key->secret, sizeof(key->secret));
	checksum(raw + FILE_BYTES - 32, raw + HEAD_BYTES);
	sodium_bin2base64(base64, sizeof(base64), raw, FILE_BYTES, sodium_base64_VARIANT_ORIGINAL);
	rc = write_new(path, 0600, "minisign secret key, not encrypted", base64, err);
	sodium_memzero(base64, sizeof(base64));
	sodium_free(raw);
	return rc || save_public(key, path, err) ? -1 : 0;
}

void keyfile_sign_raw(unsigned char out[64], const struct keyfile *key, const void *data, size_t n)
{
	crypto_sign_detached(out, NULL, data, n, key->secret);
}

char *keyfile_sign(const struct keyfile *key, const void *data, size_t n, const char *comment,
		   struct err *err)
{
	uint8_t raw[2 + MINISIG_ID_BYTES + 64] = "ED", hash[64], again[64 + MINISIG_COMMENT_MAX], global[64];
	char first[sodium_base64_ENCODED_LEN(sizeof(raw), sodium_base64_VARIANT_ORIGINAL)];
	char second[sodium_base64_ENCODED_LEN(sizeof(global), sodium_base64_VARIANT_ORIGINAL)];
	size_t length = strlen(comment);
	char *text;

	if (length >= MINISIG_COMMENT_MAX) {
		err_set(err, "trusted comment is too long");
		return NULL;
	}
	crypto_generichash(hash, sizeof(hash), data, n, NULL, 0);
	memcpy(raw + 2, key->id, sizeof(key->id));
	crypto_sign_detached(raw + 2 + MINISIG_ID_BYTES, NULL, hash, sizeof(hash), key->secret);
	memcpy(again, raw + 2 + MINISIG_ID_BYTES, 64);
	memcpy(again + 64, comment, length);
	crypto_sign_detached(global, NULL, again, 64 + length, key->secret);
	sodium_bin2base64(first, sizeof(first), raw, sizeof(raw), sodium_base64_VARIANT_ORIGINAL);
	sodium_bin2base64(second, sizeof(second), global, sizeof(global), sodium_base64_VARIANT_ORIGINAL);
	if (asprintf(&text, "untrusted comment: signature of Holdfast\n%s\ntrusted comment: %s\n%s\n", first,
		     comment, second) < 0) {
		err_set(err, "out of memory");
		return NULL;
	}
	return text;
}
