/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session.h - the host's side of one VM's Sentry stream.
 *
 * A pure state machine: it is given what arrives on the connections to HF_SENTRY_PORT, the time, and
 * what became durable; through its callbacks it gives back what to send, the verified frames in
 * order, and tampering by name.  It opens nothing, sleeps never and knows neither vsock nor store.
 *
 *   session_new -> session_conn_open, session_conn_bytes, session_conn_close   per connection
 *               -> session_tick                                                every 250 ms or sooner
 *               -> session_durable                                             after each commit
 *               -> session_end                                                 when the VM is over
 *
 * A callback must not call back into the session.
 */
#ifndef HOSTD_SENTRY_SESSION_H
#define HOSTD_SENTRY_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "lib/err.h"

/* Every reason is one alarm; the names are those of docs/protocol/sentry.md. */
#define SESSION_TAMPERS(X)                                                                         \
	X(SECOND_SENTRY, "second_sentry")	/* a valid hello while another connection lives */ \
	X(BAD_MAC, "bad_mac")			/* a hello or a frame that the keys do not vouch for */ \
	X(BAD_SECRET, "bad_secret")		/* the first hello brings none, or a later one brings one */ \
	X(BAD_PROOF, "bad_proof")		/* a later hello proves another secret or boot id */ \
	X(CONN_REUSED, "conn_reused")		/* a connection number that is not the next one */ \
	X(SEQ_GAP, "seq_gap")			/* a frame is missing */ \
	X(SEQ_REPLAY, "seq_replay")		/* a number again, with other bytes or out of place */ \
	X(SILENCE, "silence")			/* 15 s of VM running time without a frame */ \
	X(LATE_BEATS, "late_beats")		/* fewer than a third of the heartbeats in a minute */ \
	X(PROBES_DISARMED, "probes_disarmed")	/* fewer armed than there were */ \
	X(CANARY_DEAD, "canary_dead")		/* a probe on our own function did not fire */ \
	X(NONCE_UNANSWERED, "nonce_unanswered") /* heartbeats that do not know the last challenge */ \
	X(DIGEST_MISMATCH, "digest_mismatch")	/* the guest's status names another secret, or none */ \
	X(NEVER_CONNECTED, "never_connected")	/* required, and no hello within 90 s */ \
	X(GARBAGE, "garbage")			/* what no Sentry says */ \
	X(UNCLEAN_END, "unclean_end")		/* the VM is over and nobody shut it down */

enum session_tamper {
#define SESSION_TAMPER_ENUM(constant, name) SESSION_TAMPER_##constant,
	SESSION_TAMPERS(SESSION_TAMPER_ENUM)
#undef SESSION_TAMPER_ENUM
	SESSION_TAMPER_COUNT
};

/* The name as it stands in messages and rows. */
const char *session_tamper_name(enum session_tamper reason);

#define SESSION_SILENCE_WARN_MS 5000
#define SESSION_SILENCE_MS 15000
#define SESSION_NEVER_CONNECTED_MS 90000
#define SESSION_HELLO_MS 10000	      /* a connection that says no hello for so long is closed */
#define SESSION_NONCE_MS 15000	      /* a challenge unanswered for so long, while beats come */
#define SESSION_BEAT_WINDOW_MS 60000  /* late_beats looks at so much running time ... */
#define SESSION_BEAT_WINDOW_MIN 20    /* ... and wants so many heartbeats in it */
#define SESSION_TICK_MAX_MS 1000      /* a longer step is the host's own delay and counts as this */
#define SESSION_SHUTDOWN_MIN_MS 1000  /* phase 2 must have been seen for so long at the end */
#define SESSION_CONNS_MAX 8
#define SESSION_UNACKED_MAX 4096      /* frames whose digest is kept to compare a repeat with */

/* A verified frame that is new. The JSON and the bytes are borrowed for the call. */
struct session_frame {
	const char *type;     /* "hello", "heartbeat", "exec", ... */
	uint64_t seq;	      /* 0 for a hello */
	uint32_t conn;	      /* number of the connection that it came on */
	uint64_t guest_ns;    /* CLOCK_BOOTTIME of the guest */
	const json_t *json;
	const uint8_t *bytes; /* as received, without the length */
	size_t len;
};

struct session_ops {
	/* Queue len bytes on a connection; 0, or -1 if that connection cannot take them now. */
	int (*send)(void *u, uint64_t id, const void *bytes, size_t len);
	/* A verified frame, each seq once and in order. session_export() is already past it. */
	void (*frame)(void *u, const struct session_frame *frame);
	void (*tamper)(void *u, enum session_tamper reason, const char *text);
	/* SESSION_SILENCE_WARN_MS without a frame, or the end of that (quiet_ms 0). May be NULL. */
	void (*quiet)(void *u, uint64_t quiet_ms);
	/* Close the connection; session_conn_close must not be called for it any more. */
	void (*drop)(void *u, uint64_t id);
};

struct session_cfg {
	uint8_t boot_key[32];
	bool required;	       /* a Sentry that never connects is tampering */
	const json_t *state;   /* what session_export() gave, or NULL for a fresh boot */
	void (*random)(void *into, size_t len); /* NULL: the system's */
};

struct session;

/* NULL with err set: the state does not parse. The session keeps its own copy of cfg's key. */
struct session *session_new(const struct session_cfg *cfg, const struct session_ops *ops, void *u,
			    struct err *err);
void session_free(struct session *s);

/* A connection to HF_SENTRY_PORT; id is the caller's own and not used twice. -1: it is not wanted
 * (too many) and drop was not called: close it. */
int session_conn_open(struct session *s, uint64_t id);
/* Bytes as they come, in any pieces. May call drop for this id: then the rest is ignored. */
void session_conn_bytes(struct session *s, uint64_t id, const uint8_t *bytes, size_t len);
/* The peer closed it, or it broke. */
void session_conn_close(struct session *s, uint64_t id);

/* now_ms: any monotonic clock. vm_running: the VM's CPUs ran since the last tick. */
void session_tick(struct session *s, uint64_t now_ms, bool vm_running);

/* Frames up to seq are durable: acknowledges them to the module. */
void session_durable(struct session *s, uint64_t seq);

/* Send a new challenge now (the host suspended, resumed or did something else to the VM). */
void session_challenge(struct session *s);

/* What sandboxd says of the module: its secret's digest as 64 hex digits, or NULL for "there is no
 * Sentry". "Not known yet" is not a call. */
void session_guest_digest(struct session *s, const char *hex);

/* The VM is over. by_host: a verb of the host ended it. */
void session_end(struct session *s, bool by_host);

/* {"schema":1, ...} for the row that is committed with a frame; holds no key (the module's secret
 * is sealed under the boot key). A new reference; NULL when out of memory. */
json_t *session_export(const struct session *s);

struct session_status {
	bool connected;	      /* a connection that was welcomed lives */
	bool ever_connected;
	uint32_t conn;	      /* its number, or the last one's */
	uint64_t last_seq;    /* last verified */
	uint64_t durable_seq; /* last acknowledged */
	uint64_t running_ms;  /* VM running time since session_new */
	uint64_t quiet_ms;    /* of it, since the last frame */
	int phase;	      /* of the last heartbeat, -1 before one */
	uint64_t tampers[SESSION_TAMPER_COUNT]; /* how often each was seen, reported or not */
};
void session_status(const struct session *s, struct session_status *status);

#endif
