/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The keys of the stream: two ratchets and the host's key, made from the boot key and then independent of it. */
#ifndef SENTRY_KEY_H
#define SENTRY_KEY_H

#include <linux/types.h>
#include <holdfast/sentry.h>

#define SENTRY_HEX_BYTES (2 * HF_SENTRY_KEY_BYTES)

/* Derive all keys and the secret of this load, then wipe boot_key. May sleep until the kernel has entropy. */
int sentry_key_init(u8 boot_key[HF_SENTRY_KEY_BYTES], const char boot_id[HF_SENTRY_BOOT_ID_CHARS]);

/* MAC of the next frame (its seq is the number of calls so far) and of the next hello; each key is wiped after use. */
void sentry_key_mac_frame(const void *data, size_t len, u8 mac[HF_SENTRY_MAC_BYTES]);
void sentry_key_mac_hello(const void *data, size_t len, u8 mac[HF_SENTRY_MAC_BYTES]);

/* Whether a host record carries the host's MAC. */
bool sentry_key_check_host(const struct hf_sentry_record *record);

/* The secret as 64 hex digits with a NUL; the proof for connection conn; the digest that a reader of sysfs sees. */
const char *sentry_key_secret(void);
void sentry_key_proof(u32 conn, u8 proof[HF_SENTRY_MAC_BYTES]);
const char *sentry_key_secret_digest(void);

void sentry_key_hmac(const u8 *key, size_t key_len, const void *data, size_t len, u8 mac[HF_SENTRY_MAC_BYTES]);

#endif
