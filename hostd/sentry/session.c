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
#include "hostd/sentry/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include <holdfast/sentry.h>

#include "hostd/sentry/frame.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/json.h"

#define SESSION_CONN_AHEAD 16
#define SESSION_GAP_MAX 65536
#define SESSION_CHALLENGES 32
#define SESSION_BEATS 128
#define SESSION_MUTE_BEATS 3
#define SESSION_REPORT_MS 1000	       /* one report of a reason in so long; the rest are counted */
#define SESSION_RECORD_SKIP (1u << 20) /* host records that may have been sent after an export */
#define SESSION_LABEL_STATE "holdfast-session-state"
#define SECRET_HEX (2 * HF_SENTRY_SECRET_BYTES)

struct conn {
	bool used;
	bool live; /* welcomed */
	uint64_t id;
	uint64_t opened_ms; /* running time */
	uint64_t expect;    /* seq of the next frame, on a live connection */
	uint64_t skip_to;   /* before the first frame: expect may go up to here */
	size_t have;
	uint8_t *bytes; /* the length and one frame of the greatest size */
};

struct challenge {
	uint64_t sent_ms; /* running time */
	uint8_t nonce[HF_SENTRY_NONCE_BYTES];
};

struct report {
	bool made;
	uint64_t made_ms;
	uint64_t held_back;
};

struct session {
	struct session_ops ops;
	void *u;
	bool required;
	void (*random)(void *into, size_t len);
	uint8_t boot_key[HF_SENTRY_KEY_BYTES];
	uint8_t host_key[HF_SENTRY_KEY_BYTES];

	/* The stream. */
	uint8_t frame_key[HF_SENTRY_KEY_BYTES]; /* K(last_seq + 1) */
	uint64_t last_seq, durable_seq;
	uint8_t digests[SESSION_UNACKED_MAX][HASH_BYTES]; /* of frames received here, by seq */
	uint64_t digests_from;				  /* the first seq that has one */
	bool ack_due;
	uint64_t record_seq;

	/* Who speaks. */
	uint32_t next_conn;
	bool framed; /* a frame came on the last connection number */
	uint8_t hello_digest[HASH_BYTES];
	char secret[SECRET_HEX + 1]; /* of hello 0; empty before it */
	char boot_id[HF_SENTRY_BOOT_ID_CHARS + 1];
	struct conn conns[SESSION_CONNS_MAX];

	/* Time. */
	bool ticked;
	uint64_t now_ms;
	uint64_t running_ms;
	uint64_t last_frame_ms; /* running time */
	bool quiet_said, silence_said, absence_said;

	/* What heartbeats say. */
	int phase;
	uint64_t shutdown_ms; /* running time at which phase 2 was first seen */
	bool disarmed, canary_dead;
	unsigned mute_beats; /* in a row, with a hook that did not answer */
	uint64_t beats[SESSION_BEATS]; /* running time of each, newest at (n_beats - 1) % SESSION_BEATS */
	uint64_t n_beats;
	uint64_t beat_window_ms; /* running time from which late beats are looked for; 0: not yet */
	struct challenge challenges[SESSION_CHALLENGES]; /* number n at n % SESSION_CHALLENGES */
	uint64_t challenged, answered;			 /* how many were sent, and answered of them */
	uint64_t beats_since_answer;

	/* What sandboxd says. */
	bool guest_absent;
	char guest_digest[2 * HASH_BYTES + 1];

	bool ended;
	struct report reports[SESSION_TAMPER_COUNT];
	uint64_t tampers[SESSION_TAMPER_COUNT];
};

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

static void __attribute__((format(printf, 3, 4)))
tamper(struct session *s, enum session_tamper reason, const char *fmt, ...)
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
static void derive(uint8_t key[HF_SENTRY_KEY_BYTES], const struct session *s, const char *first_label,
		   const char *next_label, uint64_t n)
{
	hash_sha256_label(key, first_label, s->boot_key, sizeof(s->boot_key));
	for (uint64_t i = 0; i < n; i++)
		hash_sha256_label(key, next_label, key, HF_SENTRY_KEY_BYTES);
}

static void frame_key(uint8_t key[HF_SENTRY_KEY_BYTES], const struct session *s, uint64_t seq)
{
	if (seq <= s->last_seq) {
		derive(key, s, HF_SENTRY_LABEL_FRAME_0, HF_SENTRY_LABEL_FRAME, seq);
		return;
	}
	memcpy(key, s->frame_key, HF_SENTRY_KEY_BYTES);
	for (uint64_t at = s->last_seq + 1; at < seq; at++)
		hash_sha256_label(key, HF_SENTRY_LABEL_FRAME, key, HF_SENTRY_KEY_BYTES);
}

static bool mac_fits(const struct sentry_frame *frame, const uint8_t key[HF_SENTRY_KEY_BYTES])
{
	uint8_t mac[HASH_BYTES];

	hash_hmac_sha256(mac, key, frame->bytes, frame->maced);
	return hash_equal(mac, frame->mac);
}

/* The module's secret is in the exported state, sealed by a pad that only this boot's key gives. */
static void seal(uint8_t secret[HF_SENTRY_SECRET_BYTES], const struct session *s)
{
	uint8_t pad[HASH_BYTES];

	hash_sha256_label(pad, SESSION_LABEL_STATE, s->boot_key, sizeof(s->boot_key));
	for (size_t i = 0; i < HF_SENTRY_SECRET_BYTES; i++)
		secret[i] ^= pad[i];
	sodium_memzero(pad, sizeof(pad));
}

/* ---- to the module ---- */

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

static int send_welcome(struct session *s, const struct conn *conn, uint32_t number)
{
	uint8_t value[32] = { 0 };

	put_be(value + HF_SENTRY_WELCOME_CONN, number, 4);
	put_be(value + HF_SENTRY_WELCOME_SEQ, s->durable_seq, 8);
	return send_record(s, conn, HF_SENTRY_WELCOME, value);
}

static struct conn *live_conn(struct session *s)
{
	for (size_t i = 0; i < SESSION_CONNS_MAX; i++)
		if (s->conns[i].used && s->conns[i].live)
			return &s->conns[i];
	return NULL;
}

static void send_ack(struct session *s)
{
	struct conn *conn = live_conn(s);
	uint8_t value[32] = { 0 };

	if (!conn || !s->ack_due)
		return;
	put_be(value + HF_SENTRY_ACK_SEQ, s->durable_seq, 8);
	if (!send_record(s, conn, HF_SENTRY_ACK, value))
		s->ack_due = false;
}

static void send_challenge(struct session *s)
{
	struct conn *conn = live_conn(s);
	struct challenge *challenge = &s->challenges[s->challenged % SESSION_CHALLENGES];

	/* The oldest open one is never overwritten, since it is the one that runs out of time. */
	if (!conn || s->challenged - s->answered == SESSION_CHALLENGES)
		return;
	s->random(challenge->nonce, sizeof(challenge->nonce));
	challenge->sent_ms = s->running_ms;
	if (!send_record(s, conn, HF_SENTRY_CHALLENGE, challenge->nonce))
		s->challenged++;
}

static void forget_challenges(struct session *s)
{
	s->answered = s->challenged;
	s->beats_since_answer = 0;
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
		forget_challenges(s);
	free(conn->bytes);
	*conn = (struct conn){ 0 };
}

static void drop(struct session *s, struct conn *conn)
{
	uint64_t id = conn->id;

	forget_conn(s, conn);
	s->ops.drop(s->u, id);
}

/* ---- silence ---- */

static void heard(struct session *s)
{
	s->last_frame_ms = s->running_ms;
	if (s->quiet_said && s->ops.quiet)
		s->ops.quiet(s->u, 0);
	s->quiet_said = s->silence_said = false;
}

static void check_silence(struct session *s)
{
	uint64_t quiet_ms = s->running_ms - s->last_frame_ms;

	if (!s->next_conn) {
		if (s->required && !s->absence_said && s->running_ms >= SESSION_NEVER_CONNECTED_MS) {
			s->absence_said = true;
			tamper(s, SESSION_TAMPER_NEVER_CONNECTED,
			       "no Sentry has connected in %u s of running time",
			       SESSION_NEVER_CONNECTED_MS / 1000);
		}
		return;
	}
	if (quiet_ms >= SESSION_SILENCE_WARN_MS && !s->quiet_said) {
		s->quiet_said = true;
		if (s->ops.quiet)
			s->ops.quiet(s->u, quiet_ms);
	}
	if (quiet_ms >= SESSION_SILENCE_MS && !s->silence_said) {
		s->silence_said = true;
		tamper(s, SESSION_TAMPER_SILENCE, "no frame for %u s of running time, the last was %llu",
		       SESSION_SILENCE_MS / 1000, (unsigned long long)s->last_seq);
	}
}

static void check_beats(struct session *s)
{
	uint64_t held = s->n_beats < SESSION_BEATS ? s->n_beats : SESSION_BEATS;
	unsigned in_window = 0;

	if (!s->beat_window_ms || s->running_ms - s->beat_window_ms < SESSION_BEAT_WINDOW_MS)
		return;
	for (uint64_t i = 0; i < held; i++)
		if (s->beats[i] + SESSION_BEAT_WINDOW_MS > s->running_ms)
			in_window++;
	if (in_window >= SESSION_BEAT_WINDOW_MIN)
		return;
	s->beat_window_ms = s->running_ms;
	tamper(s, SESSION_TAMPER_LATE_BEATS, "%u heartbeats in %u s of running time", in_window,
	       SESSION_BEAT_WINDOW_MS / 1000);
}

static void check_nonce(struct session *s)
{
	uint64_t sent_ms = s->challenges[s->answered % SESSION_CHALLENGES].sent_ms;

	/* No beats at all is silence, and said there. */
	if (s->answered == s->challenged || s->running_ms - sent_ms < SESSION_NONCE_MS ||
	    s->beats_since_answer < 3)
		return;
	tamper(s, SESSION_TAMPER_NONCE_UNANSWERED, "%llu heartbeats without the challenge of %u s before",
	       (unsigned long long)s->beats_since_answer, SESSION_NONCE_MS / 1000);
	forget_challenges(s);
	send_challenge(s);
}

/* ---- heartbeats ---- */

/* The module keeps the newest challenge only, so the earlier ones are answered with it. */
static void take_nonce(struct session *s, const json_t *beat)
{
	const char *hex = json_string_value(json_object_get(beat, "nonce"));
	uint8_t nonce[HF_SENTRY_NONCE_BYTES];

	s->beats_since_answer++;
	if (!hex || hex_decode(nonce, sizeof(nonce), hex))
		return;
	for (uint64_t n = s->answered; n < s->challenged; n++) {
		if (memcmp(s->challenges[n % SESSION_CHALLENGES].nonce, nonce, sizeof(nonce)))
			continue;
		s->answered = n + 1;
		s->beats_since_answer = 0;
		return;
	}
}

static void take_probes(struct session *s, const json_t *beat)
{
	const json_t *probes = json_object_get(beat, "probes");
	int64_t total, armed;
	bool disarmed;

	disarmed = json_get_int(probes, "total", &total, NULL) || json_get_int(probes, "armed", &armed, NULL) ||
		   total <= 0 || armed < total;
	if (disarmed && !s->disarmed) {
		if (json_is_object(probes) && json_is_integer(json_object_get(probes, "total")) &&
		    json_is_integer(json_object_get(probes, "armed")))
			tamper(s, SESSION_TAMPER_PROBES_DISARMED, "%lld of %lld probes are armed",
			       (long long)armed, (long long)total);
		else
			tamper(s, SESSION_TAMPER_PROBES_DISARMED, "a heartbeat that counts no probes");
	}
	s->disarmed = disarmed;
}

/* Only false is a dead one; a canary that this module does not have says nothing. */
static void take_canary(struct session *s, const json_t *beat)
{
	json_t *canary = json_object_get(beat, "canary"), *value;
	const char *name, *dead = NULL;

	json_object_foreach(canary, name, value)
		if (json_is_false(value))
			dead = name;
	if (dead && !s->canary_dead)
		tamper(s, SESSION_TAMPER_CANARY_DEAD, "the %s canary no longer fires", dead);
	s->canary_dead = dead != NULL;
}

/* Real hooks that the thread exercises each second; one missed answer may be a crowded kretprobe. */
static void take_selftest(struct session *s, const json_t *beat)
{
	json_t *selftest = json_object_get(beat, "selftest"), *value;
	const char *name, *mute = NULL;

	json_object_foreach(selftest, name, value)
		if (json_is_false(value))
			mute = name;
	s->mute_beats = mute ? s->mute_beats + 1 : 0;
	if (s->mute_beats == SESSION_MUTE_BEATS)
		tamper(s, SESSION_TAMPER_PROBES_DISARMED, "the hook on %s has not answered for %u heartbeats",
		       mute, SESSION_MUTE_BEATS);
}

static void take_phase(struct session *s, const json_t *beat)
{
	int64_t phase;

	if (json_get_int(beat, "phase", &phase, NULL) || phase < 0 || phase > HF_SENTRY_PHASE_SHUTDOWN)
		return;
	if (phase == HF_SENTRY_PHASE_SHUTDOWN && s->phase != HF_SENTRY_PHASE_SHUTDOWN)
		s->shutdown_ms = s->running_ms;
	s->phase = (int)phase;
}

static void take_heartbeat(struct session *s, const json_t *beat)
{
	s->beats[s->n_beats++ % SESSION_BEATS] = s->running_ms;
	if (!s->beat_window_ms)
		s->beat_window_ms = s->running_ms ? s->running_ms : 1;
	take_probes(s, beat);
	take_canary(s, beat);
	take_selftest(s, beat);
	take_phase(s, beat);
	take_nonce(s, beat);
	check_nonce(s);
	send_challenge(s);
}

/* ---- frames ---- */

static void give_up(struct session *s, const struct sentry_frame *frame, uint32_t number)
{
	struct session_frame out = {
		.type = frame->type,
		.seq = frame->seq,
		.conn = number,
		.guest_ns = frame->guest_ns,
		.json = frame->json,
		.bytes = frame->bytes,
		.len = frame->len,
	};

	s->ops.frame(s->u, &out);
}

/* A frame that was here before: the same bytes are a repeat after a lost ack, others a forgery. */
static void take_repeat(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	uint8_t digest[HASH_BYTES], key[HF_SENTRY_KEY_BYTES];
	bool known = frame->seq >= s->digests_from && frame->seq + SESSION_UNACKED_MAX > s->last_seq;

	if (known) {
		hash_sha256(digest, frame->bytes, frame->len);
		if (hash_equal(digest, s->digests[frame->seq % SESSION_UNACKED_MAX])) {
			heard(s);
			return;
		}
	} else {
		/* From before this session was restored: what the module signed then. */
		frame_key(key, s, frame->seq);
		if (mac_fits(frame, key)) {
			heard(s);
			return;
		}
	}
	tamper(s, SESSION_TAMPER_SEQ_REPLAY, "frame %llu again, with other bytes",
	       (unsigned long long)frame->seq);
	drop(s, conn);
}

static void take_new(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	uint8_t key[HF_SENTRY_KEY_BYTES];
	uint64_t missing = frame->seq - s->last_seq - 1;

	if (missing > SESSION_GAP_MAX) {
		tamper(s, SESSION_TAMPER_BAD_MAC, "frame %llu after %llu", (unsigned long long)frame->seq,
		       (unsigned long long)s->last_seq);
		drop(s, conn);
		return;
	}
	frame_key(key, s, frame->seq);
	if (!mac_fits(frame, key)) {
		tamper(s, SESSION_TAMPER_BAD_MAC, "frame %llu is not signed by the Sentry",
		       (unsigned long long)frame->seq);
		drop(s, conn);
		return;
	}
	if (missing) {
		tamper(s, SESSION_TAMPER_SEQ_GAP, "frames %llu to %llu are missing",
		       (unsigned long long)s->last_seq + 1, (unsigned long long)frame->seq - 1);
		s->digests_from = frame->seq;
	}
	hash_sha256(s->digests[frame->seq % SESSION_UNACKED_MAX], frame->bytes, frame->len);
	hash_sha256_label(s->frame_key, HF_SENTRY_LABEL_FRAME, key, sizeof(key));
	s->last_seq = frame->seq;
	heard(s);
	give_up(s, frame, s->next_conn - 1);
	if (!strcmp(frame->type, HF_SENTRY_TYPE_HEARTBEAT))
		take_heartbeat(s, frame->json);
}

static void take_frame(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	if (frame->hello) {
		tamper(s, SESSION_TAMPER_GARBAGE, "a hello in the middle of a connection");
		drop(s, conn);
		return;
	}
	if (frame->seq < conn->expect) {
		tamper(s, SESSION_TAMPER_SEQ_REPLAY, "frame %llu where %llu was next",
		       (unsigned long long)frame->seq, (unsigned long long)conn->expect);
		drop(s, conn);
		return;
	}
	/* What the welcome named as durable may be left out, once, at the start. */
	if (frame->seq <= s->last_seq && frame->seq != conn->expect && frame->seq > conn->skip_to) {
		tamper(s, SESSION_TAMPER_SEQ_GAP, "frame %llu where %llu was next",
		       (unsigned long long)frame->seq, (unsigned long long)conn->expect);
		drop(s, conn);
		return;
	}
	conn->expect = frame->seq + 1;
	conn->skip_to = 0;
	s->framed = true;
	if (frame->seq <= s->last_seq)
		take_repeat(s, conn, frame);
	else
		take_new(s, conn, frame);
}

/* ---- hello ---- */

static void proof_of(char hex[2 * HASH_BYTES + 1], const struct session *s, uint32_t number)
{
	char text[SECRET_HEX + HF_SENTRY_BOOT_ID_CHARS + 16];
	uint8_t digest[HASH_BYTES];
	int n = snprintf(text, sizeof(text), "%s%s%u", s->secret, s->boot_id, number);

	hash_sha256(digest, text, (size_t)n);
	hex_encode(hex, digest, sizeof(digest));
	sodium_memzero(text, sizeof(text));
}

static void check_digest(struct session *s)
{
	uint8_t digest[HASH_BYTES];
	char hex[2 * HASH_BYTES + 1];

	if (!s->secret[0])
		return;
	if (s->guest_absent) {
		tamper(s, SESSION_TAMPER_DIGEST_MISMATCH, "a Sentry speaks and the guest says there is none");
		return;
	}
	if (!s->guest_digest[0])
		return;
	hash_sha256(digest, s->secret, SECRET_HEX);
	hex_encode(hex, digest, sizeof(digest));
	if (strcmp(hex, s->guest_digest))
		tamper(s, SESSION_TAMPER_DIGEST_MISMATCH, "the guest's module has another secret");
}

static bool boot_id_well_formed(const char *id)
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

	if (!secret || hex_decode(raw, sizeof(raw), secret) || !boot_id_well_formed(boot_id)) {
		tamper(s, SESSION_TAMPER_BAD_SECRET, "the first hello brings no secret or no boot id");
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
		tamper(s, SESSION_TAMPER_BAD_SECRET, "hello %u brings a secret again", number);
		return -1;
	}
	proof_of(want, s, number);
	if (!proof || strlen(proof) != sizeof(want) - 1 || sodium_memcmp(proof, want, sizeof(want) - 1)) {
		tamper(s, SESSION_TAMPER_BAD_PROOF, "hello %u does not know the secret", number);
		return -1;
	}
	if (!boot_id || strcmp(boot_id, s->boot_id)) {
		tamper(s, SESSION_TAMPER_BAD_PROOF, "hello %u is of another boot", number);
		return -1;
	}
	return 0;
}

/* The hello's place: 0 a new connection, 1 the last hello again, -1 neither (reported). */
static int place_hello(struct session *s, const struct sentry_frame *frame, int64_t number)
{
	uint8_t key[HF_SENTRY_KEY_BYTES], digest[HASH_BYTES];

	if (number < 0 || number > (int64_t)s->next_conn + SESSION_CONN_AHEAD) {
		tamper(s, SESSION_TAMPER_CONN_REUSED, "connection %lld, %u is next", (long long)number,
		       s->next_conn);
		return -1;
	}
	derive(key, s, HF_SENTRY_LABEL_HELLO_0, HF_SENTRY_LABEL_HELLO, (uint64_t)number);
	if (!mac_fits(frame, key)) {
		tamper(s, SESSION_TAMPER_BAD_MAC, "hello %lld is not signed by the Sentry", (long long)number);
		return -1;
	}
	if (live_conn(s)) {
		tamper(s, SESSION_TAMPER_SECOND_SENTRY, "hello %lld while a connection is live",
		       (long long)number);
		return -1;
	}
	if (number == s->next_conn)
		return 0;
	hash_sha256(digest, frame->bytes, frame->len);
	if (number + 1 == s->next_conn && !s->framed && hash_equal(digest, s->hello_digest))
		return 1;
	tamper(s, SESSION_TAMPER_CONN_REUSED, "connection %lld, %u is next", (long long)number, s->next_conn);
	return -1;
}

static int take_resume(struct session *s, struct conn *conn, int64_t resume)
{
	if (resume < 1 || (resume > (int64_t)s->last_seq && (uint64_t)resume - s->last_seq > SESSION_GAP_MAX)) {
		tamper(s, SESSION_TAMPER_GARBAGE, "a hello that goes on at %lld", (long long)resume);
		return -1;
	}
	conn->expect = (uint64_t)resume;
	conn->skip_to = s->durable_seq + 1;
	return 0;
}

static void take_hello(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	int64_t number, resume;
	int place;

	if (!frame->hello || json_get_int(frame->json, "conn", &number, NULL) ||
	    json_get_int(frame->json, "resume_seq", &resume, NULL)) {
		tamper(s, SESSION_TAMPER_GARBAGE, "a connection that begins with no hello");
		drop(s, conn);
		return;
	}
	place = place_hello(s, frame, number);
	if (place < 0 || take_resume(s, conn, resume) ||
	    (place == 0 && (number ? check_proof(s, frame->json, (uint32_t)number) : pin(s, frame->json)))) {
		drop(s, conn);
		return;
	}
	conn->live = true;
	if (place == 0) {
		s->next_conn = (uint32_t)number + 1;
		s->framed = false;
		hash_sha256(s->hello_digest, frame->bytes, frame->len);
	}
	forget_challenges(s);
	heard(s);
	if (place == 0)
		give_up(s, frame, (uint32_t)number);
	if (place == 0 && number == 0)
		check_digest(s);
	if (send_welcome(s, conn, (uint32_t)number)) {
		drop(s, conn);
		return;
	}
	send_challenge(s);
}

/* ---- bytes ---- */

/* One whole frame is in conn->bytes; false when the connection was dropped. */
static bool take_one(struct session *s, struct conn *conn, size_t len)
{
	uint64_t id = conn->id;
	struct sentry_frame frame;
	struct err err = { "" };

	if (sentry_frame_parse(&frame, conn->bytes + HF_SENTRY_LENGTH_BYTES, len, &err)) {
		tamper(s, SESSION_TAMPER_GARBAGE, "%s", err.text);
		drop(s, conn);
		return false;
	}
	if (conn->live)
		take_frame(s, conn, &frame);
	else
		take_hello(s, conn, &frame);
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
				tamper(s, SESSION_TAMPER_GARBAGE, "%s", err.text);
				drop(s, conn);
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
	tamper(s, SESSION_TAMPER_GARBAGE, "more than %d connections at once", SESSION_CONNS_MAX);
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
		tamper(s, SESSION_TAMPER_GARBAGE, "a connection that says no hello");
		drop(s, conn);
	}
}

void session_tick(struct session *s, uint64_t now_ms, bool vm_running)
{
	uint64_t passed = s->ticked && now_ms > s->now_ms ? now_ms - s->now_ms : 0;

	s->ticked = true;
	s->now_ms = now_ms;
	send_ack(s);
	if (!vm_running || s->ended)
		return;
	s->running_ms += passed < SESSION_TICK_MAX_MS ? passed : SESSION_TICK_MAX_MS;
	drop_mute(s);
	check_silence(s);
	check_beats(s);
	check_nonce(s);
}

void session_durable(struct session *s, uint64_t seq)
{
	if (seq > s->last_seq)
		seq = s->last_seq;
	if (seq <= s->durable_seq)
		return;
	s->durable_seq = seq;
	s->ack_due = true;
	send_ack(s);
}

void session_challenge(struct session *s)
{
	send_challenge(s);
}

void session_guest_digest(struct session *s, const char *hex)
{
	s->guest_absent = !hex;
	s->guest_digest[0] = '\0';
	if (hex)
		snprintf(s->guest_digest, sizeof(s->guest_digest), "%s", hex);
	check_digest(s);
}

void session_end(struct session *s, bool by_host)
{
	bool announced = s->phase == HF_SENTRY_PHASE_SHUTDOWN &&
			 s->running_ms - s->shutdown_ms >= SESSION_SHUTDOWN_MIN_MS;

	if (s->ended)
		return;
	s->ended = true;
	if (s->next_conn && !by_host && !announced)
		tamper(s, SESSION_TAMPER_UNCLEAN_END, "the VM ended and nobody had shut it down");
}

/* ---- state ---- */

json_t *session_export(const struct session *s)
{
	uint8_t secret[HF_SENTRY_SECRET_BYTES];
	char sealed[SECRET_HEX + 1] = "", hello[2 * HASH_BYTES + 1];

	if (s->secret[0] && !hex_decode(secret, sizeof(secret), s->secret)) {
		seal(secret, s);
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
	if (hex_decode(secret, sizeof(secret), sealed) || !boot_id_well_formed(boot_id))
		return err_set(err, "\"secret_sealed\" or \"boot_id\" is malformed");
	seal(secret, s);
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
	derive(s->frame_key, s, HF_SENTRY_LABEL_FRAME_0, HF_SENTRY_LABEL_FRAME, s->last_seq + 1);
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
		.connected = live_conn((struct session *)s) != NULL,
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
