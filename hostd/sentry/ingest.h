/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ingest.h - one workspace's way from an event to the store: parse, judge, row, state, in one entry.
 *
 * hostd calls it for live events and the replay tests call it for recorded ones; there is no other way in.
 */
#ifndef HOSTD_SENTRY_INGEST_H
#define HOSTD_SENTRY_INGEST_H

#include "hostd/sentry/judge.h"
#include "hostd/store/store.h"

struct ingest;

struct ingest_alert {
	const char *ws;
	unsigned score, threshold;
	struct judge_part parts[JUDGE_PARTS_MAX];
	unsigned n_parts;
	enum event_kind kind; /* of the deciding event */
	const char *sentence; /* of the deciding event */
	const json_t *chain;  /* of the deciding event, array or NULL */
	int64_t at_ms;	      /* when the deciding event came in */
};

struct ingest_ops {
	void (*trip)(void *u, const struct ingest_alert *alert);
};

/* State "judge" of @ws is taken from the store. @s may be NULL (tests): nothing is stored then. */
struct ingest *ingest_new(struct store *s, const char *ws, const struct judge_config *cfg, const struct ingest_ops *ops,
			  void *u, int64_t now_ms);
void ingest_free(struct ingest *in);
struct judge *ingest_judge(struct ingest *in);
/* Another configuration, from now on; a row says what changed, if anything did. @author may be NULL. */
void ingest_reconfigure(struct ingest *in, int64_t now_ms, const struct judge_config *cfg, const char *author);
/* A new boot begins. */
void ingest_boot(struct ingest *in, const char *boot, uint32_t epoch, int64_t now_ms);
/* A boot goes on: hostd was started again, or the VM was resumed (with a higher epoch). */
void ingest_attach(struct ingest *in, const char *boot, uint32_t epoch);

/*
 * A verified frame of the Sentry: its type, its seq (0 for a hello), its object as the session checked it, its bytes
 * without the length (stored, never parsed), and the session's state after it. Returns enum store_result; STORE_BUSY
 * took nothing and may be called again with the same frame.
 */
int ingest_frame(struct ingest *in, int64_t now_ms, const char *type, uint64_t seq, const json_t *event,
		 const void *raw, size_t raw_len, const char *state, struct err *e);
/* A tamper reason of the session ("seq_gap", …); an unknown reason is stored as garbage, never dropped. */
int ingest_tamper(struct ingest *in, int64_t now_ms, const char *reason, const char *text, struct err *e);
/* An event of another engine. @data is borrowed; @program, pid, chain are read from it where they are there. */
int ingest_event(struct ingest *in, int64_t now_ms, enum event_kind kind, const json_t *data, struct err *e);
void ingest_tick(struct ingest *in, int64_t now_ms);
void ingest_volume(struct ingest *in, int64_t now_ms, uint64_t bytes_up_total);
void ingest_running(struct ingest *in, int64_t now_ms, bool running);
/* An operator's release: clears the window, writes the row. */
int ingest_release(struct ingest *in, int64_t now_ms, const char *author, struct err *e);

#endif
