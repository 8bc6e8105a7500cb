/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store.h - the timeline store: raw frames, hash-chained rows, state, all durable before anybody is told.
 *
 * One SQLite database (WAL, synchronous=FULL) with one writer thread. hostd's loop appends to a bounded queue, which
 * never blocks; the thread redacts, folds, chains and commits, at most 100 ms after the first entry of a batch. Then
 * store_fd() becomes readable and store_dispatch() calls back, on the caller's thread, with what is durable now.
 *
 *	store_open(&cfg, &ops, u, &s, &err);
 *	loop_fd_add(loop, store_fd(s), EPOLLIN, call store_dispatch(s));
 *	store_begin(s, "ws");                 everything up to store_end() becomes durable together or not at all
 *	store_frame(s, &frame); store_row(s, &row); store_state(s, "judge", json);
 *	store_end(s, &err);
 *
 * docs/protocol/timeline.md defines the rows, the chain, the checkpoints and the export.
 */
#ifndef HOSTD_STORE_STORE_H
#define HOSTD_STORE_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hostd/sentry/events.h"
#include "lib/err.h"

#define STORE_WS_MAX 64		  /* bytes of a workspace's name with its NUL */
#define STORE_HASH_BYTES 32
#define STORE_FRAME_MAX 65536
#define STORE_DATA_MAX 65536	  /* bytes of a row's data as JSON; more is cut and marked */
#define STORE_SUBJECT_MAX 512
#define STORE_BOOT_MAX 40	  /* bytes of a boot id with its NUL */

struct store;

enum store_result {
	STORE_ERR = -1, /* see the error; nothing was taken */
	STORE_OK = 0,
	STORE_SEEN = 1, /* this frame was taken before: the whole entry is left out, durable() is called for it */
	STORE_BUSY = 2, /* this workspace's (or the whole) queue is full: stop reading it until writable() */
};

enum store_health {
	STORE_HEALTHY,
	STORE_UNAVAILABLE, /* disk full, read-only, I/O error: nothing is lost, it is tried again each second */
	STORE_DAMAGED,	   /* the database is corrupt: no further write; see store_rotate() */
};

/* NULL or 0 in a field that has a default means the default. */
struct store_config {
	const char *path;	 /* database file, made 0600 */
	const char *key_path;	 /* ed25519 signing key, made 0600 at first use; NULL: path + ".key" */
	const char *anchor_path; /* last signed checkpoint outside the database; NULL: path + ".anchor" */
	const char *vfs;	 /* SQLite VFS, for tests */
	unsigned commit_ms;	 /* 100 at most, default 20: wait for more before a commit */
	unsigned checkpoint_rows; /* 1000 */
	unsigned checkpoint_s;	  /* 60 */
	unsigned keep_days;	  /* 90 */
	size_t queue_bytes;	  /* 64 MiB */
	size_t ws_queue_bytes;	  /* 8 MiB */
	bool no_sync;		  /* synchronous=OFF: only the control of a test may set it */
	int64_t (*wall_ns)(void); /* clocks, for tests */
	int64_t (*mono_ns)(void);
};

/* A row as it is appended and as it is read back. Strings belong to whoever filled the struct in. */
struct store_row {
	uint64_t id; /* set by the store: position in the chain, from 1 */
	const char *ws;
	uint32_t epoch;
	const char *boot; /* boot id of the frame behind it, NULL: none */
	uint64_t seq;	  /* of that frame, 0: none */
	int64_t host_ns;  /* wall clock; 0: the store takes its own */
	int64_t guest_ns; /* 0: none */
	enum event_kind kind;
	enum event_verdict verdict;
	unsigned weight; /* points that the judge gave, all of count */
	uint32_t count;	 /* events folded into this row, 0 counts as 1 */
	uint32_t procs;	 /* from so many processes */
	uint64_t proc;	 /* identity of the process for counting, 0: none (see store_proc()) */
	const char *subject;
	const char *data; /* JSON object */
	bool fold;	  /* read back: closes a window whose first row came before */
	uint8_t hash[STORE_HASH_BYTES]; /* read back: chain value after this row */
};

struct store_frame {
	const char *boot; /* boot id: seq counts within it */
	uint32_t epoch;
	uint64_t seq;
	int64_t host_ns; /* 0: the store takes its own clock */
	const void *raw; /* as received; SHA-256 of these bytes is chained */
	size_t raw_len;
	const json_t *event; /* the same, parsed: where it holds a secret, its redacted text is stored instead of raw */
	const char *state; /* session state after this frame, JSON, kept as state "session" */
};

/* All called from store_dispatch(), on the caller's thread. Any may be NULL. */
struct store_ops {
	/* Every frame of @boot and @epoch up to @seq is durable: ack it. */
	void (*durable)(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq);
	/* A row became durable, in order of id (--follow, alerts, the web). */
	void (*row)(void *u, const struct store_row *row);
	void (*health)(void *u, enum store_health health, const char *why);
	/* After STORE_BUSY: there is room for @ws again. */
	void (*writable)(void *u, const char *ws);
};

int store_open(const struct store_config *cfg, const struct store_ops *ops, void *u, struct store **out, struct err *e);
/* Commits what is queued (giving up after 5 s if the disk refuses), closes open fold windows with their counts. */
void store_close(struct store *s);
int store_fd(const struct store *s);
void store_dispatch(struct store *s);

/*
 * An entry: all that is appended between begin and end. One at a time. store_end() returns enum store_result;
 * with a workspace of NULL the entry belongs to hostd itself.
 */
void store_begin(struct store *s, const char *ws);
void store_frame(struct store *s, const struct store_frame *f);
void store_row(struct store *s, const struct store_row *r); /* ws of the row NULL: that of the entry */
void store_state(struct store *s, const char *key, const char *json); /* NULL json: removed */
int store_end(struct store *s, struct err *e);

/* Would an entry of @bytes be taken now? If not, writable() comes when it would. */
bool store_has_room(struct store *s, const char *ws, size_t bytes);

/* The same for one thing alone. @state_json is kept as in struct store_frame. */
int store_append_frame(struct store *s, const char *ws, const struct store_frame *f, struct err *e);
int store_append_row(struct store *s, const struct store_row *r, struct err *e);
int store_put_state(struct store *s, const char *ws, const char *key, const char *json, struct err *e);

/* The last durable or queued state; the caller frees. NULL: none. */
char *store_get_state(struct store *s, const char *ws, const char *key);
/* Last frame taken of @boot and @epoch (durable or queued), 0: none; and last durable one. */
uint64_t store_last_seq(struct store *s, const char *ws, const char *boot, uint32_t epoch);
uint64_t store_durable_seq(struct store *s, const char *ws, const char *boot, uint32_t epoch);

/* Waits until all that was appended is durable (or @timeout_ms is over: -1). Callbacks still come by store_dispatch(). */
int store_sync(struct store *s, unsigned timeout_ms, struct err *e);
/* Closes the running checkpoint now, so that all durable rows are signed. */
int store_checkpoint(struct store *s, unsigned timeout_ms, struct err *e);
enum store_health store_health(struct store *s, char *why, size_t size);

struct store_stats {
	uint64_t rows, frames, folded, redacted, commits, checkpoints, queued_bytes, queued_max, busy;
	int64_t commit_ns_max;
};
void store_stats(struct store *s, struct store_stats *out);

/* Removes whole checkpoints that ended before now - keep_days; a jump of the clock holds it back. */
int store_prune(struct store *s, unsigned keep_days, unsigned timeout_ms, struct err *e);
/*
 * rotate.c: sets the timeline aside (a damaged one, or to begin anew) and begins a new one that names it, in its first row
 * with @why. No store of @cfg may be open. What is kept of workspaces (quarantine, scores, runs) is taken over; if it
 * cannot be read, *lost is true and the new one begins with @if_lost, an array of [workspace, key, text] or NULL. With
 * @new_key the key stays with what it signed. @moved: the old database's path. On failure the old timeline is put back.
 */
int store_rotate(const struct store_config *cfg, const char *why, bool new_key, const json_t *if_lost, char *moved,
		 size_t size, bool *lost, struct err *e);

static inline uint64_t store_proc(uint64_t pid, uint64_t start_ns)
{
	return start_ns * 4194304u + pid + 1;
}

/* The public key of the store at @key_path, made if there is none; fingerprint = "hf1:" + hex SHA-256 of the key. */
#define STORE_FINGERPRINT_SIZE (4 + 64 + 1)
int store_key_fingerprint(const char *key_path, char out[STORE_FINGERPRINT_SIZE], struct err *e);

#endif
