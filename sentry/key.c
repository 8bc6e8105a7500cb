// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Keys of the stream (holdfast/sentry.h has the definitions).
 *
 * A frame key exists only while its frame is built: whoever reads this module's memory later can say new things,
 * but cannot rewrite what was said. Only the thread uses the ratchets after the load, so they need no lock.
 */
#include <linux/kernel.h>
#include <linux/random.h>
#include <linux/string.h>
#include <crypto/algapi.h>
#include <crypto/sha2.h>

#include "compat/compat.h"
#include "key.h"

static u8 frame_key[HF_SENTRY_KEY_BYTES];
static u8 hello_key[HF_SENTRY_KEY_BYTES];
static u8 host_key[HF_SENTRY_KEY_BYTES];
static char secret_hex[SENTRY_HEX_BYTES + 1];
static char digest_hex[SENTRY_HEX_BYTES + 1];
static char own_boot_id[HF_SENTRY_BOOT_ID_CHARS];

/* out = SHA256(label || data), data may be out. */
static void labelled(const char *label, const void *data, size_t len, u8 out[HF_SENTRY_KEY_BYTES])
{
	struct sentry_sha256_state state;

	sha256_init(&state);
	sha256_update(&state, (const u8 *)label, strlen(label));
	sha256_update(&state, data, len);
	sha256_final(&state, out);
	memzero_explicit(&state, sizeof(state));
}

/* RFC 2104; the kernel exports no HMAC over its SHA-256 library before 6.16. */
void sentry_key_hmac(const u8 *key, size_t key_len, const void *data, size_t len, u8 mac[HF_SENTRY_MAC_BYTES])
{
	struct sentry_sha256_state state;
	u8 pad[SHA256_BLOCK_SIZE] = { 0 };
	size_t i;

	memcpy(pad, key, min_t(size_t, key_len, sizeof(pad)));
	for (i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36;
	sha256_init(&state);
	sha256_update(&state, pad, sizeof(pad));
	sha256_update(&state, data, len);
	sha256_final(&state, mac);

	for (i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36 ^ 0x5c;
	sha256_init(&state);
	sha256_update(&state, pad, sizeof(pad));
	sha256_update(&state, mac, HF_SENTRY_MAC_BYTES);
	sha256_final(&state, mac);

	memzero_explicit(&state, sizeof(state));
	memzero_explicit(pad, sizeof(pad));
}

int sentry_key_init(u8 boot_key[HF_SENTRY_KEY_BYTES], const char boot_id[HF_SENTRY_BOOT_ID_CHARS])
{
	u8 secret[HF_SENTRY_SECRET_BYTES], digest[SHA256_DIGEST_SIZE];
	int err;

	err = wait_for_random_bytes();
	if (err)
		return err;
	get_random_bytes(secret, sizeof(secret));
	bin2hex(secret_hex, secret, sizeof(secret));
	memzero_explicit(secret, sizeof(secret));
	sha256((const u8 *)secret_hex, SENTRY_HEX_BYTES, digest);
	bin2hex(digest_hex, digest, sizeof(digest));
	memcpy(own_boot_id, boot_id, sizeof(own_boot_id));

	labelled(HF_SENTRY_LABEL_FRAME_0, boot_key, HF_SENTRY_KEY_BYTES, frame_key);
	labelled(HF_SENTRY_LABEL_HELLO_0, boot_key, HF_SENTRY_KEY_BYTES, hello_key);
	labelled(HF_SENTRY_LABEL_HOST_0, boot_key, HF_SENTRY_KEY_BYTES, host_key);
	memzero_explicit(boot_key, HF_SENTRY_KEY_BYTES);

	/* The first frame is seq 1: K(0) is never a MAC key. */
	labelled(HF_SENTRY_LABEL_FRAME, frame_key, sizeof(frame_key), frame_key);
	return 0;
}

static void mac_and_ratchet(u8 key[HF_SENTRY_KEY_BYTES], const char *label, const void *data, size_t len,
			    u8 mac[HF_SENTRY_MAC_BYTES])
{
	sentry_key_hmac(key, HF_SENTRY_KEY_BYTES, data, len, mac);
	labelled(label, key, HF_SENTRY_KEY_BYTES, key);
}

void sentry_key_mac_frame(const void *data, size_t len, u8 mac[HF_SENTRY_MAC_BYTES])
{
	mac_and_ratchet(frame_key, HF_SENTRY_LABEL_FRAME, data, len, mac);
}

void sentry_key_mac_hello(const void *data, size_t len, u8 mac[HF_SENTRY_MAC_BYTES])
{
	mac_and_ratchet(hello_key, HF_SENTRY_LABEL_HELLO, data, len, mac);
}

bool sentry_key_check_host(const struct hf_sentry_record *record)
{
	u8 mac[HF_SENTRY_MAC_BYTES];

	sentry_key_hmac(host_key, sizeof(host_key), record, HF_SENTRY_RECORD_MACED_BYTES, mac);
	return crypto_memneq(mac, record->mac, sizeof(mac)) == 0;
}

const char *sentry_key_secret(void)
{
	return secret_hex;
}

const char *sentry_key_secret_digest(void)
{
	return digest_hex;
}

void sentry_key_proof(u32 conn, u8 proof[HF_SENTRY_MAC_BYTES])
{
	struct sentry_sha256_state state;
	char decimal[12];
	int len = scnprintf(decimal, sizeof(decimal), "%u", conn);

	sha256_init(&state);
	sha256_update(&state, (const u8 *)secret_hex, SENTRY_HEX_BYTES);
	sha256_update(&state, (const u8 *)own_boot_id, sizeof(own_boot_id));
	sha256_update(&state, (const u8 *)decimal, len);
	sha256_final(&state, proof);
}
