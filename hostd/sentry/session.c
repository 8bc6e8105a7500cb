/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's side of one VM's Sentry stream: who speaks, in which order, and what is missing.
 *
 * Theory of operation.  The guest's root may open the port, write what it likes, replay what it
 * saw, and stop, starve or kill the module.  It does not know the boot key.  So:
 *
 *  - A connection is nobody's until its first frame is a hello whose MAC fits H(conn).  Only the
 *    next connection number is taken, or the last one again, byte for byte, while no frame has come
 *    on it: its welcome may have been lost, and then the module cannot tell.
 *  - One connection is live.  Frames count up by one; each has its MAC under K(seq), and the key
 *    goes forward with it.  After a reconnect the module repeats what was not acknowledged: those
 *    frames are compared with what came before, and dropped when equal.
 *  - A missing number is a gap, and the stream goes on after it: one alarm, and later events are
 *    still seen.  Anything that the keys do not vouch for ends the connection.
 *  - Time is the VM's own: session_tick adds what passed while its CPUs ran, at most
 *    SESSION_TICK_MAX_MS at once, so a pause, a suspended host or a slow loop here is no silence.
 *
 * The boot key is kept, so that any K or H can be derived again; ratcheting forward protects what
 * the guest's memory held, and the host has no such reader.  Derivations that a guest asks for
 * with a number are bounded: a hello by SESSION_CONN_AHEAD, a frame only on a live connection and
 * by SESSION_GAP_MAX.
 */
#include "hostd/sentry/session_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

const char *session_tamper_name(enum session_tamper reason)
{
	static const char *const names[] = {
#define SESSION_TAMPER_NAME(constant, name) [SESSION_TAMPER_##constant] = name,
		SESSION_TAMPERS(SESSION_TAMPER_NAME)
#undef SESSION_TAMPER_NAME
	};

	return names[reason];
}

/* ---- reporting ---- */

void ss_tamper(struct session *s, enum session_tamper reason, const char *fmt, ...)
{
	struct report *report = &s->reports[reason];
	struct err text = { "" };
	char said[400];
	va_list args;

	s->tampers[reason]++;
	if (report->made && s->now_ms - report->made_ms < SESSION_REPORT_MS) {
		report->held_back++;
		return;
	}
	va_start(args, fmt);
	vsnprintf(said, sizeof(said), fmt, args);
	va_end(args);
	if (report->held_back)
		err_set(&text, "%s (and %llu more like it before)", said,
			(unsigned long long)report->held_back);
	else
		err_set(&text, "%s", said);
	*report = (struct report){ .made = true, .made_ms = s->now_ms };
	s->ops.tamper(s->u, reason, text.text);
}

/* ---- keys ---- */

/* Key number n of the chain that starts with first_label and goes on with next_label. */
void ss_derive(uint8_t key[HF_SENTRY_KEY_BYTES], const struct session *s, const char *first_label,
	       const char *next_label, uint64_t n)
{
	hash_sha256_label(key, first_label, s->boot_key, sizeof(s->boot_key));
	for (uint64_t i = 0; i < n; i++)
		hash_sha256_label(key, next_label, key, HF_SENTRY_KEY_BYTES);
}

void ss_frame_key(uint8_t key[HF_SENTRY_KEY_BYTES], const struct session *s, uint64_t seq)
{
	if (seq <= s->last_seq) {
		ss_derive(key, s, HF_SENTRY_LABEL_FRAME_0, HF_SENTRY_LABEL_FRAME, seq);
		return;
	}
	memcpy(key, s->frame_key, HF_SENTRY_KEY_BYTES);
	for (uint64_t at = s->last_seq + 1; at < seq; at++)
		hash_sha256_label(key, HF_SENTRY_LABEL_FRAME, key, HF_SENTRY_KEY_BYTES);
}

bool ss_mac_fits(const struct sentry_frame *frame, const uint8_t key[HF_SENTRY_KEY_BYTES])
{
	uint8_t mac[HASH_BYTES];

	hash_hmac_sha256(mac, key, frame->bytes, frame->maced);
	return hash_equal(mac, frame->mac);
}

/* The module's secret is in the exported state, sealed by a pad that only this boot's key gives. */
void ss_seal(uint8_t secret[HF_SENTRY_SECRET_BYTES], const struct session *s)
{
	uint8_t pad[HASH_BYTES];

	hash_sha256_label(pad, SESSION_LABEL_STATE, s->boot_key, sizeof(s->boot_key));
	for (size_t i = 0; i < HF_SENTRY_SECRET_BYTES; i++)
		secret[i] ^= pad[i];
	sodium_memzero(pad, sizeof(pad));
}

/* ---- connections ---- */

static struct conn *find_conn(struct session *s, uint64_t id)
{
	for (size_t i = 0; i < SESSION_CONNS_MAX; i++)
		if (s->conns[i].used && s->conns[i].id == id)
			return &s->conns[i];
	return NULL;
}

static void forget_conn(struct session *s, struct conn *conn)
{
	if (conn->live)
		ss_forget_challenges(s);
	free(conn->bytes);
	*conn = (struct conn){ 0 };
}

void ss_drop(struct session *s, struct conn *conn)
{
	uint64_t id = conn->id;

	forget_conn(s, conn);
	s->ops.drop(s->u, id);
}

/* ---- bytes ---- */

/* One whole frame is in conn->bytes; false when the connection was dropped. */
static bool take_one(struct session *s, struct conn *conn, size_t len)
{
	uint64_t id = conn->id;
	struct sentry_frame frame;
	struct err err = { "" };

	if (sentry_frame_parse(&frame, conn->bytes + HF_SENTRY_LENGTH_BYTES, len, &err)) {
		ss_tamper(s, SESSION_TAMPER_GARBAGE, "%s", err.text);
		ss_drop(s, conn);
		return false;
	}
	if (conn->live)
		ss_take_frame(s, conn, &frame);
	else
		ss_take_hello(s, conn, &frame);
	sentry_frame_clear(&frame);
	return find_conn(s, id) != NULL;
}

void session_conn_bytes(struct session *s, uint64_t id, const uint8_t *bytes, size_t len)
{
	struct conn *conn = find_conn(s, id);
	struct err err = { "" };

	while (conn && len) {
		size_t want = HF_SENTRY_LENGTH_BYTES, body = 0, take;

		if (conn->have >= HF_SENTRY_LENGTH_BYTES) {
			if (sentry_frame_length(conn->bytes, &body, &err)) {
				ss_tamper(s, SESSION_TAMPER_GARBAGE, "%s", err.text);
				ss_drop(s, conn);
				return;
			}
			want += body;
		}
		take = want - conn->have < len ? want - conn->have : len;
		memcpy(conn->bytes + conn->have, bytes, take);
		conn->have += take;
		bytes += take;
		len -= take;
		if (!body || conn->have < want)
			continue;
		conn->have = 0;
		if (!take_one(s, conn, body))
			return;
	}
}

int session_conn_open(struct session *s, uint64_t id)
{
	for (size_t i = 0; i < SESSION_CONNS_MAX; i++) {
		struct conn *conn = &s->conns[i];

		if (conn->used)
			continue;
		conn->bytes = malloc(HF_SENTRY_LENGTH_BYTES + HF_SENTRY_FRAME_HOST_MAX);
		if (!conn->bytes)
			return -1;
		conn->used = true;
		conn->id = id;
		conn->opened_ms = s->running_ms;
		return 0;
	}
	ss_tamper(s, SESSION_TAMPER_GARBAGE, "more than %d connections at once", SESSION_CONNS_MAX);
	return -1;
}

void session_conn_close(struct session *s, uint64_t id)
{
	struct conn *conn = find_conn(s, id);

	if (conn)
		forget_conn(s, conn);
}

/* ---- time ---- */

static void drop_mute(struct session *s)
{
	for (size_t i = 0; i < SESSION_CONNS_MAX; i++) {
		struct conn *conn = &s->conns[i];

		if (!conn->used || conn->live || s->running_ms - conn->opened_ms < SESSION_HELLO_MS)
			continue;
		ss_tamper(s, SESSION_TAMPER_GARBAGE, "a connection that says no hello");
		ss_drop(s, conn);
	}
}

void session_tick(struct session *s, uint64_t now_ms, bool vm_running)
{
	uint64_t passed = s->ticked && now_ms > s->now_ms ? now_ms - s->now_ms : 0;

	s->ticked = true;
	s->now_ms = now_ms;
	ss_send_ack(s);
	if (!vm_running || s->ended)
		return;
	s->running_ms += passed < SESSION_TICK_MAX_MS ? passed : SESSION_TICK_MAX_MS;
	drop_mute(s);
	ss_check_silence(s);
	ss_check_beats(s);
	ss_check_nonce(s);
}

void session_durable(struct session *s, uint64_t seq)
{
	if (seq > s->last_seq)
		seq = s->last_seq;
	if (seq <= s->durable_seq)
		return;
	s->durable_seq = seq;
	s->ack_due = true;
	ss_send_ack(s);
}

void session_challenge(struct session *s)
{
	ss_send_challenge(s);
}

void session_guest_digest(struct session *s, const char *hex)
{
	s->guest_absent = !hex;
	s->guest_digest[0] = '\0';
	if (hex)
		snprintf(s->guest_digest, sizeof(s->guest_digest), "%s", hex);
	ss_check_digest(s);
}

void session_end(struct session *s, bool by_host)
{
	bool announced = s->phase == HF_SENTRY_PHASE_SHUTDOWN &&
			 s->running_ms - s->shutdown_ms >= SESSION_SHUTDOWN_MIN_MS;

	if (s->ended)
		return;
	s->ended = true;
	if (s->next_conn && !by_host && !announced)
		ss_tamper(s, SESSION_TAMPER_UNCLEAN_END, "the VM ended and nobody had shut it down");
}
