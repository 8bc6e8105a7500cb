/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signatures in minisign's format: ed25519 over BLAKE2b-512 of the file, and a signed trusted comment. */
#include "lib/catalog/minisig.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define UNTRUSTED "untrusted comment: "
#define TRUSTED "trusted comment: "

enum { ALGORITHM_BYTES = 2, PREHASH_BYTES = 64, BASE64_MAX = 128 };

/* libsodium 1.0.18 takes some bytes above 127 for digits, so the text must also come out again. */
static int from_base64(uint8_t *out, size_t want, const char *text, size_t n)
{
	char again[BASE64_MAX];
	size_t got;

	if (n >= sizeof(again) || sodium_base64_encoded_len(want, sodium_base64_VARIANT_ORIGINAL) != n + 1 ||
	    sodium_base642bin(out, want, text, n, NULL, &got, NULL, sodium_base64_VARIANT_ORIGINAL) ||
	    got != want)
		return -1;
	sodium_bin2base64(again, sizeof(again), out, want, sodium_base64_VARIANT_ORIGINAL);
	return memcmp(again, text, n) ? -1 : 0;
}

int minisig_key_parse(struct minisig_key *key, const char *text, struct err *err)
{
	uint8_t raw[ALGORITHM_BYTES + MINISIG_ID_BYTES + sizeof(key->public)];

	if (from_base64(raw, sizeof(raw), text, strlen(text)) || memcmp(raw, "Ed", ALGORITHM_BYTES))
		return err_set(err, "malformed: not a minisign public key");
	memcpy(key->id, raw + ALGORITHM_BYTES, sizeof(key->id));
	memcpy(key->public, raw + ALGORITHM_BYTES + MINISIG_ID_BYTES, sizeof(key->public));
	return 0;
}

void minisig_key_text(char out[MINISIG_KEY_TEXT], const struct minisig_key *key)
{
	uint8_t raw[ALGORITHM_BYTES + MINISIG_ID_BYTES + sizeof(key->public)] = "Ed";

	memcpy(raw + ALGORITHM_BYTES, key->id, sizeof(key->id));
	memcpy(raw + ALGORITHM_BYTES + MINISIG_ID_BYTES, key->public, sizeof(key->public));
	sodium_bin2base64(out, MINISIG_KEY_TEXT, raw, sizeof(raw), sodium_base64_VARIANT_ORIGINAL);
}

void minisig_id_text(char out[MINISIG_ID_TEXT], const uint8_t id[MINISIG_ID_BYTES])
{
	for (size_t i = 0; i < MINISIG_ID_BYTES; i++)
		snprintf(out + 2 * i, 3, "%02X", id[MINISIG_ID_BYTES - 1 - i]);
}

/* Takes one line off the text: its start and length, without the newline. */
static const char *next_line(const char **text, size_t *n, size_t *length)
{
	const char *line = *text;
	const char *end = memchr(line, '\n', *n);

	if (!end)
		return NULL;
	*length = (size_t)(end - line);
	*n -= *length + 1;
	*text = end + 1;
	return line;
}

static int printable(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < ' ' || p[i] > '~')
			return 0;
	return 1;
}

int minisig_parse(struct minisig *sig, const void *text, size_t n, struct err *err)
{
	const char *at = text, *line;
	uint8_t raw[ALGORITHM_BYTES + MINISIG_ID_BYTES + sizeof(sig->signature)];
	size_t length;

	if (n > MINISIG_FILE_MAX)
		return err_set(err, "malformed: signature file of %zu bytes", n);
	line = next_line(&at, &n, &length);
	if (!line || length < strlen(UNTRUSTED) || memcmp(line, UNTRUSTED, strlen(UNTRUSTED)))
		return err_set(err, "malformed: signature file without its untrusted comment");
	line = next_line(&at, &n, &length);
	if (!line || from_base64(raw, sizeof(raw), line, length))
		return err_set(err, "malformed: signature line");
	if (memcmp(raw, "ED", ALGORITHM_BYTES))
		return err_set(err, "malformed: signature is not of the prehashed kind");
	line = next_line(&at, &n, &length);
	if (!line || length < strlen(TRUSTED) || memcmp(line, TRUSTED, strlen(TRUSTED)))
		return err_set(err, "malformed: signature file without its trusted comment");
	line += strlen(TRUSTED);
	length -= strlen(TRUSTED);
	if (length >= sizeof(sig->comment) || !printable(line, length))
		return err_set(err, "malformed: trusted comment");
	memcpy(sig->comment, line, length);
	sig->comment[length] = '\0';
	line = next_line(&at, &n, &length);
	if (!line || from_base64(sig->global, sizeof(sig->global), line, length) || n)
		return err_set(err, "malformed: signature of the trusted comment");
	memcpy(sig->id, raw + ALGORITHM_BYTES, sizeof(sig->id));
	memcpy(sig->signature, raw + ALGORITHM_BYTES + MINISIG_ID_BYTES, sizeof(sig->signature));
	return 0;
}

int minisig_verify(const struct minisig *sig, const struct minisig_key *key, const void *data, size_t n)
{
	uint8_t hash[PREHASH_BYTES], global[sizeof(sig->signature) + MINISIG_COMMENT_MAX];
	size_t comment = strlen(sig->comment);

	if (memcmp(sig->id, key->id, sizeof(key->id)))
		return -1;
	if (crypto_generichash(hash, sizeof(hash), data, n, NULL, 0) ||
	    crypto_sign_verify_detached(sig->signature, hash, sizeof(hash), key->public))
		return -1;
	memcpy(global, sig->signature, sizeof(sig->signature));
	memcpy(global + sizeof(sig->signature), sig->comment, comment);
	return crypto_sign_verify_detached(sig->global, global, sizeof(sig->signature) + comment,
					   key->public);
}
