/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hash chain over rows and over frames, and the checkpoints that sign both; docs/protocol/timeline.md. */
#ifndef HOSTD_STORE_CHAIN_H
#define HOSTD_STORE_CHAIN_H

#include "hostd/store/store.h"
#include "lib/ed25519.h"

/* A row as it is hashed: names, not numbers, so that a later table of kinds does not change old rows. */
struct chain_row {
	uint64_t id;
	const char *ws, *boot, *engine, *kind, *verdict, *subject, *data;
	uint32_t epoch;
	uint64_t seq;
	int64_t host_ns, guest_ns;
	uint32_t weight, count, procs;
	bool fold;
};

struct chain_frame {
	uint64_t id;
	const char *ws, *boot;
	uint32_t epoch;
	uint64_t seq;
	int64_t host_ns;
	const uint8_t *raw_sha; /* of the bytes as received */
	const void *text;	/* as stored: the same bytes, or redacted */
	size_t text_len;
};

void chain_row_digest(const struct chain_row *row, uint8_t out[STORE_HASH_BYTES]);
void chain_frame_digest(const struct chain_frame *frame, uint8_t out[STORE_HASH_BYTES]);
/* head = SHA256("holdfast-chain-1" || head || digest) */
void chain_step(uint8_t head[STORE_HASH_BYTES], const uint8_t digest[STORE_HASH_BYTES]);
/* Where both chains of a store begin: 32 random bytes of the store and its key. */
void chain_genesis(const uint8_t store_id[32], const struct ed25519_public *key, uint8_t out[STORE_HASH_BYTES]);

struct checkpoint {
	uint64_t n; /* from 1; 0: genesis, unsigned */
	uint64_t row_id, frame_id; /* last of each that it covers */
	int64_t host_ns;
	uint8_t row_head[STORE_HASH_BYTES], frame_head[STORE_HASH_BYTES];
	uint8_t store_id[32];
	uint8_t sig[ED25519_SIGNATURE];
};

void checkpoint_sign(struct checkpoint *c, const struct ed25519_secret *key);
int checkpoint_verify(const struct checkpoint *c, const struct ed25519_public *key);
json_t *checkpoint_json(const struct checkpoint *c);
int checkpoint_from_json(const json_t *obj, struct checkpoint *c, struct err *e);

/* The last checkpoint, kept outside the database so that a cut tail is seen. */
int checkpoint_anchor_write(const char *path, const struct checkpoint *c, struct err *e);
/* 1: there is none. */
int checkpoint_anchor_read(const char *path, struct checkpoint *c, struct err *e);

/* "hf1:" and 64 hex digits. */
void chain_fingerprint(const struct ed25519_public *key, char out[STORE_FINGERPRINT_SIZE]);

#endif
