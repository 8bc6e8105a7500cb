// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes Java's JKS format: magic, version, entries, and a SHA-1 over the password, a fixed text and all of it
 * (sun.security.provider.JavaKeyStore in OpenJDK). The digest is there since the format has it; it protects
 * nothing, and nothing here relies on it.
 */
#include "sandboxd/keystore.h"

#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

enum { MAGIC = (int)0xfeedfeed, VERSION = 2, TRUSTED = 2, DIGEST = 20, BLOCK = 64, CERTIFICATE_MAX = 64 * 1024 };

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const uint8_t *p)
{
	uint32_t w[80], v[5];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, h, sizeof(v));
	for (unsigned i = 0; i < 80; i++) {
		static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
		uint32_t f = i < 20 ? (v[1] & v[2]) | (~v[1] & v[3]) :
			     i < 40 || i >= 60 ? v[1] ^ v[2] ^ v[3] : (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
		uint32_t next = rotate(v[0], 5) + f + v[4] + w[i] + k[i / 20];

		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate(v[1], 30);
		v[1] = v[0];
		v[0] = next;
	}
	for (unsigned i = 0; i < 5; i++)
		h[i] += v[i];
}

/* RFC 3174. */
static void sha1(const uint8_t *p, size_t n, uint8_t out[DIGEST])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	uint8_t last[2 * BLOCK] = { 0 };
	size_t rest = n % BLOCK, size = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

	for (size_t at = 0; at + BLOCK <= n; at += BLOCK)
		sha1_block(h, p + at);
	memcpy(last, p + n - rest, rest);
	last[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		last[size - 1 - i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
	for (size_t at = 0; at < size; at += BLOCK)
		sha1_block(h, last + at);
	for (unsigned i = 0; i < DIGEST; i++)
		out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* Java's modified UTF-8; these texts are ASCII. */
static int put_text(struct buf *b, const char *text)
{
	return buf_put_u16(b, (uint16_t)strlen(text)) < 0 ? -1 : buf_put_str(b, text);
}

static int put_entry(struct buf *b, int n, const uint8_t *der, size_t len)
{
	char alias[32];

	snprintf(alias, sizeof(alias), "holdfast-%d", n);
	return buf_put_u32(b, TRUSTED) < 0 || put_text(b, alias) < 0 || buf_put_u64(b, 0) < 0 || put_text(b, "X.509") < 0 ||
	       buf_put_u32(b, (uint32_t)len) < 0 ? -1 : buf_put(b, der, len);
}

/* The number of entries, or -1. */
static int put_entries(struct buf *b, const char *pem, size_t len)
{
	static uint8_t der[CERTIFICATE_MAX];
	const char *at = pem, *end;
	int n = 0;

	while ((at = memmem(at, len - (size_t)(at - pem), BEGIN, strlen(BEGIN)))) {
		size_t size;

		at += strlen(BEGIN);
		end = memmem(at, len - (size_t)(at - pem), END, strlen(END));
		if (!end)
			break;
		if (sodium_base642bin(der, sizeof(der), at, (size_t)(end - at), " \r\n\t", &size, NULL,
				      sodium_base64_VARIANT_ORIGINAL) == 0 && size && put_entry(b, n++, der, size) < 0)
			return -1;
		at = end;
	}
	return n;
}

/* The password counts as UTF-16, big-endian. */
static int put_digest(struct buf *b, const struct buf *store)
{
	static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	struct buf all;
	uint8_t digest[DIGEST];
	int r;

	buf_init(&all, sizeof(password) + store->len);
	r = buf_put(&all, password, sizeof(password) - 1) < 0 || buf_put(&all, store->data, store->len) < 0 ? -1 : 0;
	if (r == 0)
		sha1(all.data, all.len, digest);
	buf_free(&all);
	return r < 0 ? -1 : buf_put(b, digest, sizeof(digest));
}

int guest_keystore_put(struct buf *out, const char *pem, size_t len)
{
	struct buf entries, store;
	int n, r = -1;

	buf_init(&entries, 2 * len + BLOCK);
	buf_init(&store, 2 * len + 2 * BLOCK);
	n = put_entries(&entries, pem, len);
	if (n >= 0 && buf_put_u32(&store, (uint32_t)MAGIC) == 0 && buf_put_u32(&store, VERSION) == 0 &&
	    buf_put_u32(&store, (uint32_t)n) == 0 && buf_put(&store, entries.data, entries.len) == 0 &&
	    buf_put(out, store.data, store.len) == 0 && put_digest(out, &store) == 0)
		r = n;
	buf_free(&entries);
	buf_free(&store);
	return r;
}
