/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Sentry's session: its state, out and in again. The theory is in session.c. */
#include "hostd/sentry/session_parts.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "lib/hex.h"
#include "lib/json.h"

json_t *session_export(const struct session *s)
{
	uint8_t secret[HF_SENTRY_SECRET_BYTES];
	char sealed[SECRET_HEX + 1] = "", hello[2 * HASH_BYTES + 1];

	if (s->secret[0] && !hex_decode(secret, sizeof(secret), s->secret)) {
		ss_seal(secret, s);
		hex_encode(sealed, secret, sizeof(secret));
	}
	hex_encode(hello, s->hello_digest, sizeof(s->hello_digest));
	return json_pack("{s:i, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:s, s:i}", "schema", 1, "next_conn",
			 (json_int_t)s->next_conn, "last_seq", (json_int_t)s->last_seq, "durable_seq",
			 (json_int_t)s->durable_seq, "record_seq", (json_int_t)s->record_seq, "framed",
			 s->framed, "hello", hello, "secret_sealed", sealed, "boot_id", s->boot_id, "phase",
			 s->phase);
}

static int import_secret(struct session *s, const char *sealed, const char *boot_id, struct err *err)
{
	uint8_t secret[HF_SENTRY_SECRET_BYTES];

	if (!s->next_conn)
		return 0;
	if (hex_decode(secret, sizeof(secret), sealed) || !ss_boot_id_well_formed(boot_id))
		return err_set(err, "\"secret_sealed\" or \"boot_id\" is malformed");
	ss_seal(secret, s);
	hex_encode(s->secret, secret, sizeof(secret));
	sodium_memzero(secret, sizeof(secret));
	memcpy(s->boot_id, boot_id, sizeof(s->boot_id));
	return 0;
}

static int import(struct session *s, const json_t *state, struct err *err)
{
	static const char *const keys[] = { "schema",  "next_conn", "last_seq",	     "durable_seq", "record_seq",
					    "framed",  "hello",	    "secret_sealed", "boot_id",	    "phase",
					    NULL };
	int64_t schema, conn, last, durable, record, phase;
	const char *hello, *sealed, *boot_id;

	if (json_only_keys(state, keys, err) || json_get_int(state, "schema", &schema, err) ||
	    json_get_int(state, "next_conn", &conn, err) || json_get_int(state, "last_seq", &last, err) ||
	    json_get_int(state, "durable_seq", &durable, err) ||
	    json_get_int(state, "record_seq", &record, err) || json_get_int(state, "phase", &phase, err) ||
	    json_get_bool(state, "framed", &s->framed, err) || json_get_str(state, "hello", &hello, err) ||
	    json_get_str(state, "secret_sealed", &sealed, err) || json_get_str(state, "boot_id", &boot_id, err))
		return -1;
	if (schema != 1)
		return err_set(err, "schema %lld, 1 is known here", (long long)schema);
	if (conn < 0 || conn > UINT32_MAX || last < 0 || durable < 0 || durable > last || record < 0 ||
	    record > INT64_MAX - SESSION_RECORD_SKIP || phase < -1 || phase > HF_SENTRY_PHASE_SHUTDOWN ||
	    hex_decode(s->hello_digest, sizeof(s->hello_digest), hello))
		return err_set(err, "a number or digest is out of range");
	s->next_conn = (uint32_t)conn;
	s->last_seq = (uint64_t)last;
	s->durable_seq = (uint64_t)durable;
	s->record_seq = (uint64_t)record + SESSION_RECORD_SKIP;
	s->phase = (int)phase;
	return import_secret(s, sealed, boot_id, err);
}

struct session *session_new(const struct session_cfg *cfg, const struct session_ops *ops, void *u,
			    struct err *err)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s || sodium_init() < 0) {
		free(s);
		err_set(err, "no memory for a Sentry session");
		return NULL;
	}
	s->ops = *ops;
	s->u = u;
	s->required = cfg->required;
	s->random = cfg->random ? cfg->random : randombytes_buf;
	memcpy(s->boot_key, cfg->boot_key, sizeof(s->boot_key));
	s->phase = -1;
	if (cfg->state && import(s, cfg->state, err)) {
		err_prefix(err, "state of the Sentry session");
		session_free(s);
		return NULL;
	}
	hash_sha256_label(s->host_key, HF_SENTRY_LABEL_HOST_0, s->boot_key, sizeof(s->boot_key));
	ss_derive(s->frame_key, s, HF_SENTRY_LABEL_FRAME_0, HF_SENTRY_LABEL_FRAME, s->last_seq + 1);
	s->digests_from = s->last_seq + 1;
	return s;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < SESSION_CONNS_MAX; i++)
		free(s->conns[i].bytes);
	sodium_memzero(s, sizeof(*s));
	free(s);
}

void session_status(const struct session *s, struct session_status *status)
{
	*status = (struct session_status){
		.connected = ss_live_conn((struct session *)s) != NULL,
		.ever_connected = s->next_conn > 0,
		.conn = s->next_conn ? s->next_conn - 1 : 0,
		.last_seq = s->last_seq,
		.durable_seq = s->durable_seq,
		.running_ms = s->running_ms,
		.quiet_ms = s->running_ms - s->last_frame_ms,
		.phase = s->phase,
	};
	memcpy(status->tampers, s->tampers, sizeof(status->tampers));
}
