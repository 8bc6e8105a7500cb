/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the session share. Nobody else includes it. */
#ifndef HOLDFAST_SENTRY_SESSION_PARTS_H
#define HOLDFAST_SENTRY_SESSION_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <holdfast/sentry.h>

#include "hostd/sentry/frame.h"
#include "hostd/sentry/session.h"
#include "lib/hash.h"

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

/* ---- hostd/sentry/session.c ---- */

__attribute__((format(printf, 3, 4)))
void ss_tamper(struct session *s, enum session_tamper reason, const char *fmt, ...);
/* Key number n of the chain that starts with first_label and goes on with next_label. */
void ss_derive(uint8_t key[HF_SENTRY_KEY_BYTES], const struct session *s, const char *first_label,
	       const char *next_label, uint64_t n);
void ss_frame_key(uint8_t key[HF_SENTRY_KEY_BYTES], const struct session *s, uint64_t seq);
bool ss_mac_fits(const struct sentry_frame *frame, const uint8_t key[HF_SENTRY_KEY_BYTES]);
/* The module's secret is in the exported state, sealed by a pad that only this boot's key gives. */
void ss_seal(uint8_t secret[HF_SENTRY_SECRET_BYTES], const struct session *s);
void ss_drop(struct session *s, struct conn *conn);

/* ---- hostd/sentry/session_records.c ---- */

int ss_send_welcome(struct session *s, const struct conn *conn, uint32_t number);
struct conn *ss_live_conn(struct session *s);
void ss_send_ack(struct session *s);
void ss_send_challenge(struct session *s);
void ss_forget_challenges(struct session *s);

/* ---- hostd/sentry/session_beats.c ---- */

void ss_heard(struct session *s);
void ss_check_silence(struct session *s);
void ss_check_beats(struct session *s);
void ss_check_nonce(struct session *s);
void ss_take_heartbeat(struct session *s, const json_t *beat);

/* ---- hostd/sentry/session_frames.c ---- */

void ss_give_up(struct session *s, const struct sentry_frame *frame, uint32_t number);
void ss_take_frame(struct session *s, struct conn *conn, const struct sentry_frame *frame);

/* ---- hostd/sentry/session_hello.c ---- */

void ss_check_digest(struct session *s);
bool ss_boot_id_well_formed(const char *id);
void ss_take_hello(struct session *s, struct conn *conn, const struct sentry_frame *frame);

#endif
