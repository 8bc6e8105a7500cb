/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Sentry's session: what the host says to the module: welcome, challenge, ack. The theory is in session.c. */
#include "hostd/sentry/session_parts.h"

#include <string.h>

static void put_be(uint8_t *at, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static int send_record(struct session *s, const struct conn *conn, enum hf_sentry_record_kind kind,
		       const uint8_t value[32])
{
	uint8_t record[HF_SENTRY_RECORD_BYTES] = { 0 };

	put_be(record, HF_SENTRY_RECORD_MAGIC, 4);
	put_be(record + 4, kind, 4);
	memcpy(record + offsetof(struct hf_sentry_record, value), value, 32);
	put_be(record + offsetof(struct hf_sentry_record, seq), ++s->record_seq, 8);
	hash_hmac_sha256(record + HF_SENTRY_RECORD_MACED_BYTES, s->host_key, record,
			 HF_SENTRY_RECORD_MACED_BYTES);
	return s->ops.send(s->u, conn->id, record, sizeof(record));
}

int ss_send_welcome(struct session *s, const struct conn *conn, uint32_t number)
{
	uint8_t value[32] = { 0 };

	put_be(value + HF_SENTRY_WELCOME_CONN, number, 4);
	put_be(value + HF_SENTRY_WELCOME_SEQ, s->durable_seq, 8);
	return send_record(s, conn, HF_SENTRY_WELCOME, value);
}

struct conn *ss_live_conn(struct session *s)
{
	for (size_t i = 0; i < SESSION_CONNS_MAX; i++)
		if (s->conns[i].used && s->conns[i].live)
			return &s->conns[i];
	return NULL;
}

void ss_send_ack(struct session *s)
{
	struct conn *conn = ss_live_conn(s);
	uint8_t value[32] = { 0 };

	if (!conn || !s->ack_due)
		return;
	put_be(value + HF_SENTRY_ACK_SEQ, s->durable_seq, 8);
	if (!send_record(s, conn, HF_SENTRY_ACK, value))
		s->ack_due = false;
}

void ss_send_challenge(struct session *s)
{
	struct conn *conn = ss_live_conn(s);
	struct challenge *challenge = &s->challenges[s->challenged % SESSION_CHALLENGES];

	/* The oldest open one is never overwritten, since it is the one that runs out of time. */
	if (!conn || s->challenged - s->answered == SESSION_CHALLENGES)
		return;
	s->random(challenge->nonce, sizeof(challenge->nonce));
	challenge->sent_ms = s->running_ms;
	if (!send_record(s, conn, HF_SENTRY_CHALLENGE, challenge->nonce))
		s->challenged++;
}

void ss_forget_challenges(struct session *s)
{
	s->answered = s->challenged;
	s->beats_since_answer = 0;
}
