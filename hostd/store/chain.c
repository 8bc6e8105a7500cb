/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hash chain: what of a row and of a frame is hashed, in which order, and how heads follow one another. */
#include "hostd/store/chain.h"

#include <sodium.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/hex.h"

#define LABEL_ROW "holdfast-row-1"
#define LABEL_FRAME "holdfast-frame-row-1"
#define LABEL_CHAIN "holdfast-chain-1"
#define LABEL_GENESIS "holdfast-genesis-1"

struct sum {
	crypto_hash_sha256_state sha;
};

static void sum_start(struct sum *s, const char *label)
{
	crypto_hash_sha256_init(&s->sha);
	crypto_hash_sha256_update(&s->sha, (const unsigned char *)label, strlen(label));
}

static void sum_bytes(struct sum *s, const void *p, size_t n)
{
	crypto_hash_sha256_update(&s->sha, p, n);
}

static void sum_int(struct sum *s, uint64_t v, unsigned bytes)
{
	uint8_t be[8];

	for (unsigned i = 0; i < bytes; i++)
		be[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	sum_bytes(s, be, bytes);
}

static void sum_str(struct sum *s, const char *str)
{
	size_t n = str ? strlen(str) : 0;

	sum_int(s, n, 4);
	sum_bytes(s, str ? str : "", n);
}

static void sum_end(struct sum *s, uint8_t out[STORE_HASH_BYTES])
{
	crypto_hash_sha256_final(&s->sha, out);
}

void chain_row_digest(const struct chain_row *row, uint8_t out[STORE_HASH_BYTES])
{
	struct sum s;

	sum_start(&s, LABEL_ROW);
	sum_int(&s, row->id, 8);
	sum_str(&s, row->ws);
	sum_str(&s, row->boot);
	sum_int(&s, row->epoch, 4);
	sum_int(&s, row->seq, 8);
	sum_int(&s, (uint64_t)row->host_ns, 8);
	sum_int(&s, (uint64_t)row->guest_ns, 8);
	sum_str(&s, row->engine);
	sum_str(&s, row->kind);
	sum_str(&s, row->verdict);
	sum_int(&s, row->weight, 4);
	sum_int(&s, row->count, 4);
	sum_int(&s, row->procs, 4);
	sum_int(&s, row->fold, 1);
	sum_str(&s, row->subject);
	sum_str(&s, row->data);
	sum_end(&s, out);
}

void chain_frame_digest(const struct chain_frame *frame, uint8_t out[STORE_HASH_BYTES])
{
	uint8_t text_sha[STORE_HASH_BYTES];
	struct sum s;

	hash_sha256(text_sha, frame->text, frame->text_len);
	sum_start(&s, LABEL_FRAME);
	sum_int(&s, frame->id, 8);
	sum_str(&s, frame->ws);
	sum_str(&s, frame->boot);
	sum_int(&s, frame->epoch, 4);
	sum_int(&s, frame->seq, 8);
	sum_int(&s, (uint64_t)frame->host_ns, 8);
	sum_bytes(&s, frame->raw_sha, STORE_HASH_BYTES);
	sum_bytes(&s, text_sha, STORE_HASH_BYTES);
	sum_end(&s, out);
}

void chain_step(uint8_t head[STORE_HASH_BYTES], const uint8_t digest[STORE_HASH_BYTES])
{
	struct sum s;

	sum_start(&s, LABEL_CHAIN);
	sum_bytes(&s, head, STORE_HASH_BYTES);
	sum_bytes(&s, digest, STORE_HASH_BYTES);
	sum_end(&s, head);
}

void chain_genesis(const uint8_t store_id[32], const struct ed25519_public *key, uint8_t out[STORE_HASH_BYTES])
{
	struct sum s;

	sum_start(&s, LABEL_GENESIS);
	sum_bytes(&s, store_id, 32);
	sum_bytes(&s, key->bytes, ED25519_PUBLIC);
	sum_end(&s, out);
}

void chain_fingerprint(const struct ed25519_public *key, char out[STORE_FINGERPRINT_SIZE])
{
	uint8_t sha[HASH_BYTES];

	hash_sha256(sha, key->bytes, ED25519_PUBLIC);
	memcpy(out, "hf1:", 4);
	hex_encode(out + 4, sha, HASH_BYTES);
}
