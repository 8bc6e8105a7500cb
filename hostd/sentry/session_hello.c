/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Sentry's session: who may speak: the hello. The theory is in session.c. */
#include "hostd/sentry/session_parts.h"

#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "lib/hex.h"
#include "lib/json.h"

static void proof_of(char hex[2 * HASH_BYTES + 1], const struct session *s, uint32_t number)
{
	char text[SECRET_HEX + HF_SENTRY_BOOT_ID_CHARS + 16];
	uint8_t digest[HASH_BYTES];
	int n = snprintf(text, sizeof(text), "%s%s%u", s->secret, s->boot_id, number);

	hash_sha256(digest, text, (size_t)n);
	hex_encode(hex, digest, sizeof(digest));
	sodium_memzero(text, sizeof(text));
}

void ss_check_digest(struct session *s)
{
	uint8_t digest[HASH_BYTES];
	char hex[2 * HASH_BYTES + 1];

	if (!s->secret[0])
		return;
	if (s->guest_absent) {
		ss_tamper(s, SESSION_TAMPER_DIGEST_MISMATCH, "a Sentry speaks and the guest says there is none");
		return;
	}
	if (!s->guest_digest[0])
		return;
	hash_sha256(digest, s->secret, SECRET_HEX);
	hex_encode(hex, digest, sizeof(digest));
	if (strcmp(hex, s->guest_digest))
		ss_tamper(s, SESSION_TAMPER_DIGEST_MISMATCH, "the guest's module has another secret");
}

bool ss_boot_id_well_formed(const char *id)
{
	return id && strlen(id) == HF_SENTRY_BOOT_ID_CHARS &&
	       strspn(id, "0123456789abcdef-") == HF_SENTRY_BOOT_ID_CHARS;
}

/* First connection of the boot: pins the secret and the guest's boot id. */
static int pin(struct session *s, const json_t *hello)
{
	const char *secret = json_string_value(json_object_get(hello, "secret"));
	const char *boot_id = json_string_value(json_object_get(hello, "boot_id"));
	uint8_t raw[HF_SENTRY_SECRET_BYTES];

	if (!secret || hex_decode(raw, sizeof(raw), secret) || !ss_boot_id_well_formed(boot_id)) {
		ss_tamper(s, SESSION_TAMPER_BAD_SECRET, "the first hello brings no secret or no boot id");
		return -1;
	}
	memcpy(s->secret, secret, sizeof(s->secret));
	memcpy(s->boot_id, boot_id, sizeof(s->boot_id));
	return 0;
}

static int check_proof(struct session *s, const json_t *hello, uint32_t number)
{
	const char *proof = json_string_value(json_object_get(hello, "proof"));
	const char *boot_id = json_string_value(json_object_get(hello, "boot_id"));
	char want[2 * HASH_BYTES + 1];

	if (json_object_get(hello, "secret")) {
		ss_tamper(s, SESSION_TAMPER_BAD_SECRET, "hello %u brings a secret again", number);
		return -1;
	}
	proof_of(want, s, number);
	if (!proof || strlen(proof) != sizeof(want) - 1 || sodium_memcmp(proof, want, sizeof(want) - 1)) {
		ss_tamper(s, SESSION_TAMPER_BAD_PROOF, "hello %u does not know the secret", number);
		return -1;
	}
	if (!boot_id || strcmp(boot_id, s->boot_id)) {
		ss_tamper(s, SESSION_TAMPER_BAD_PROOF, "hello %u is of another boot", number);
		return -1;
	}
	return 0;
}

/* The hello's place: 0 a new connection, 1 the last hello again, -1 neither (reported). */
static int place_hello(struct session *s, const struct sentry_frame *frame, int64_t number)
{
	uint8_t key[HF_SENTRY_KEY_BYTES], digest[HASH_BYTES];

	if (number < 0 || number > (int64_t)s->next_conn + SESSION_CONN_AHEAD) {
		ss_tamper(s, SESSION_TAMPER_CONN_REUSED, "connection %lld, %u is next", (long long)number,
		       s->next_conn);
		return -1;
	}
	ss_derive(key, s, HF_SENTRY_LABEL_HELLO_0, HF_SENTRY_LABEL_HELLO, (uint64_t)number);
	if (!ss_mac_fits(frame, key)) {
		ss_tamper(s, SESSION_TAMPER_BAD_MAC, "hello %lld is not signed by the Sentry", (long long)number);
		return -1;
	}
	if (ss_live_conn(s)) {
		ss_tamper(s, SESSION_TAMPER_SECOND_SENTRY, "hello %lld while a connection is live",
		       (long long)number);
		return -1;
	}
	if (number == s->next_conn)
		return 0;
	hash_sha256(digest, frame->bytes, frame->len);
	if (number + 1 == s->next_conn && !s->framed && hash_equal(digest, s->hello_digest))
		return 1;
	ss_tamper(s, SESSION_TAMPER_CONN_REUSED, "connection %lld, %u is next", (long long)number, s->next_conn);
	return -1;
}

static int take_resume(struct session *s, struct conn *conn, int64_t resume)
{
	if (resume < 1 || (resume > (int64_t)s->last_seq && (uint64_t)resume - s->last_seq > SESSION_GAP_MAX)) {
		ss_tamper(s, SESSION_TAMPER_GARBAGE, "a hello that goes on at %lld", (long long)resume);
		return -1;
	}
	conn->expect = (uint64_t)resume;
	conn->skip_to = s->durable_seq + 1;
	return 0;
}

void ss_take_hello(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	int64_t number, resume;
	int place;

	if (!frame->hello || json_get_int(frame->json, "conn", &number, NULL) ||
	    json_get_int(frame->json, "resume_seq", &resume, NULL)) {
		ss_tamper(s, SESSION_TAMPER_GARBAGE, "a connection that begins with no hello");
		ss_drop(s, conn);
		return;
	}
	place = place_hello(s, frame, number);
	if (place < 0 || take_resume(s, conn, resume) ||
	    (place == 0 && (number ? check_proof(s, frame->json, (uint32_t)number) : pin(s, frame->json)))) {
		ss_drop(s, conn);
		return;
	}
	conn->live = true;
	if (place == 0) {
		s->next_conn = (uint32_t)number + 1;
		s->framed = false;
		hash_sha256(s->hello_digest, frame->bytes, frame->len);
	}
	ss_forget_challenges(s);
	ss_heard(s);
	if (place == 0)
		ss_give_up(s, frame, (uint32_t)number);
	if (place == 0 && number == 0)
		ss_check_digest(s);
	if (ss_send_welcome(s, conn, (uint32_t)number)) {
		ss_drop(s, conn);
		return;
	}
	ss_send_challenge(s);
}
