/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A Sentry without a kernel: speaks the module's side of the stream as docs/protocol/sentry.md says,
 * for tests and fuzzers of the host's side. It knows the boot key, builds each frame once, keeps it
 * until it is acknowledged, and takes only host records that the key vouches for.
 */
#ifndef TESTS_SENTRY_FAKE_H
#define TESTS_SENTRY_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/sentry.h>

#include "lib/hash.h"
#include "lib/hex.h"

#define FAKE_STORE 512
#define FAKE_FRAME 1024
#define FAKE_BOOT_ID "0b6f3a52-1111-2222-3333-444455556666"
#define FAKE_SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct fake_frame {
	uint64_t seq;
	size_t len;
	uint8_t bytes[FAKE_FRAME]; /* with the length before it */
};

struct fake {
	uint8_t boot_key[32];
	uint8_t host_key[32];
	uint32_t conn;	 /* number of the next hello */
	bool hello_kept; /* said, and not welcomed yet */
	bool welcomed;	 /* on the connection that is open now */
	struct fake_frame hello;
	uint64_t seq;	/* of the last frame built */
	uint64_t acked; /* by the host */
	uint64_t sent;	/* on this connection */
	uint64_t record_seq;
	uint64_t challenges, records_ignored;
	char nonce[65];
	int phase;
	int armed, total;
	const char *canary; /* JSON of the member, or NULL for a healthy one */
	bool mute;	    /* a hook of the self-test does not answer */
	struct fake_frame store[FAKE_STORE];
	size_t have; /* of a host record */
	uint8_t record[HF_SENTRY_RECORD_BYTES];
};

static inline void fake_init(struct fake *f, const uint8_t boot_key[32])
{
	memset(f, 0, sizeof(*f));
	memcpy(f->boot_key, boot_key, 32);
	hash_sha256_label(f->host_key, HF_SENTRY_LABEL_HOST_0, boot_key, 32);
	f->armed = f->total = 49;
}

static inline void fake_key(uint8_t key[32], const struct fake *f, const char *first, const char *next, uint64_t n)
{
	hash_sha256_label(key, first, f->boot_key, 32);
	while (n--)
		hash_sha256_label(key, next, key, 32);
}

/* Puts the MAC and the length to JSON text that ends before its closing brace. */
static inline void fake_sign(struct fake_frame *out, const char *text, const uint8_t key[32])
{
	uint8_t mac[32];
	char hex[65];
	size_t n = strlen(text);

	hash_hmac_sha256(mac, key, text, n);
	hex_encode(hex, mac, sizeof(mac));
	out->len = 4 + (size_t)snprintf((char *)out->bytes + 4, sizeof(out->bytes) - 4, "%s,\"mac\":\"%s\"}", text, hex);
	n = out->len - 4;
	out->bytes[0] = out->bytes[1] = 0;
	out->bytes[2] = (uint8_t)(n >> 8);
	out->bytes[3] = (uint8_t)n;
}

static inline void fake_sign_frame(struct fake *f, struct fake_frame *out, const char *text, uint64_t seq)
{
	uint8_t key[32];

	fake_key(key, f, HF_SENTRY_LABEL_FRAME_0, HF_SENTRY_LABEL_FRAME, seq);
	fake_sign(out, text, key);
	out->seq = seq;
}

static inline void fake_build(struct fake *f, const char *type, const char *members)
{
	char text[FAKE_FRAME - 128];
	uint64_t seq = ++f->seq;

	snprintf(text, sizeof(text), "{\"v\":%d,\"type\":\"%s\",\"t\":%llu,\"seq\":%llu%s", HF_SENTRY_VERSION, type,
		 (unsigned long long)seq * 1000000, (unsigned long long)seq, members);
	fake_sign_frame(f, &f->store[seq % FAKE_STORE], text, seq);
}

static inline void fake_beat(struct fake *f)
{
	char members[512];

	snprintf(members, sizeof(members),
		 ",\"dropped\":0,\"probes\":{\"total\":%d,\"armed\":%d,\"missed\":0,\"ftrace\":1},"
		 "\"canary\":%s,\"selftest\":{\"udp_sendmsg\":%s,\"commit_creds\":true},\"nonce\":\"%s\",\"phase\":%d",
		 f->total, f->armed,
		 f->canary ? f->canary : "{\"ftrace\":true,\"kretprobe\":true,\"int3\":true,\"permanent\":true}",
		 f->mute ? "false" : "true", f->nonce,
		 f->phase);
	fake_build(f, HF_SENTRY_TYPE_HEARTBEAT, members);
}

/* The hello of this connection number with these members instead of the right ones, signed. */
static inline void fake_sign_hello(struct fake *f, struct fake_frame *out, uint32_t conn, uint64_t resume,
				   const char *identity)
{
	char text[FAKE_FRAME - 128];
	uint8_t key[32];

	snprintf(text, sizeof(text),
		 "{\"v\":%d,\"type\":\"hello\",\"t\":5,\"conn\":%u,\"resume_seq\":%llu,%s,\"kernel\":\"6.12\",\"abi\":1,"
		 "\"probes\":[]",
		 HF_SENTRY_VERSION, conn, (unsigned long long)resume, identity);
	fake_key(key, f, HF_SENTRY_LABEL_HELLO_0, HF_SENTRY_LABEL_HELLO, conn);
	fake_sign(out, text, key);
}

static inline void fake_identity(char out[256], uint32_t conn)
{
	char text[160], hex[65];
	uint8_t digest[32];

	if (conn == 0) {
		snprintf(out, 256, "\"secret\":\"%s\",\"boot_id\":\"%s\"", FAKE_SECRET, FAKE_BOOT_ID);
		return;
	}
	snprintf(text, sizeof(text), "%s%s%u", FAKE_SECRET, FAKE_BOOT_ID, conn);
	hash_sha256(digest, text, strlen(text));
	hex_encode(hex, digest, sizeof(digest));
	snprintf(out, 256, "\"proof\":\"%s\",\"boot_id\":\"%s\"", hex, FAKE_BOOT_ID);
}

/* A new connection: its hello, built once for each number. */
static inline const struct fake_frame *fake_connect(struct fake *f)
{
	char identity[256];

	f->welcomed = false;
	f->have = 0;
	if (!f->hello_kept) {
		fake_identity(identity, f->conn);
		fake_sign_hello(f, &f->hello, f->conn, f->acked + 1, identity);
		f->hello_kept = true;
	}
	return &f->hello;
}

/* The next stored frame that this connection has not carried, or NULL. */
static inline const struct fake_frame *fake_next(struct fake *f)
{
	if (!f->welcomed || f->sent >= f->seq)
		return NULL;
	f->sent++;
	return &f->store[f->sent % FAKE_STORE];
}

static inline uint64_t fake_be(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static inline void fake_take_record(struct fake *f)
{
	uint8_t mac[32];

	hash_hmac_sha256(mac, f->host_key, f->record, HF_SENTRY_RECORD_MACED_BYTES);
	if (fake_be(f->record, 4) != HF_SENTRY_RECORD_MAGIC || memcmp(mac, f->record + 64, 32) ||
	    fake_be(f->record + 40, 8) <= f->record_seq) {
		f->records_ignored++;
		return;
	}
	f->record_seq = fake_be(f->record + 40, 8);
	switch (fake_be(f->record + 4, 4)) {
	case HF_SENTRY_WELCOME:
		if (fake_be(f->record + 8, 4) != f->conn || !f->hello_kept)
			return;
		f->welcomed = true;
		f->hello_kept = false;
		f->conn++;
		/* The hello named the first frame that follows; what the welcome says is durable need
		 * not be said again, and may be. */
		f->sent = f->acked;
		if (fake_be(f->record + 12, 8) > f->acked)
			f->acked = fake_be(f->record + 12, 8);
		if (f->conn & 1)
			f->sent = f->acked;
		return;
	case HF_SENTRY_CHALLENGE:
		hex_encode(f->nonce, f->record + 8, 32);
		f->challenges++;
		return;
	case HF_SENTRY_ACK:
		if (fake_be(f->record + 8, 8) > f->acked)
			f->acked = fake_be(f->record + 8, 8);
		return;
	}
}

static inline void fake_bytes(struct fake *f, const uint8_t *bytes, size_t len)
{
	while (len--) {
		f->record[f->have++] = *bytes++;
		if (f->have == sizeof(f->record)) {
			f->have = 0;
			fake_take_record(f);
		}
	}
}

#endif
