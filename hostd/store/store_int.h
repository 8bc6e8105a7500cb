/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What store.c (queue, thread, callbacks) and db.c (SQLite) share. */
#ifndef HOSTD_STORE_STORE_INT_H
#define HOSTD_STORE_STORE_INT_H

#include <sqlite3.h>

#include "hostd/store/chain.h"
#include "hostd/store/fold.h"
#include "hostd/store/store.h"

/* Owned copies of what was appended. The strings of a row follow it in the same allocation. */
struct item_row {
	struct item_row *next;
	struct store_row r;
	size_t bytes;
	char *sentence; /* of kinds that fold */
	int64_t at_ms;	/* when it was appended: windows go by this, not by when the thread came to it */
	bool absorbed;
	uint8_t fold_key[STORE_HASH_BYTES]; /* closing rows: the window that is over */
};

struct item_frame {
	struct item_frame *next;
	char boot[STORE_BOOT_MAX];
	uint32_t epoch;
	uint64_t seq;
	int64_t host_ns;
	uint8_t raw_sha[STORE_HASH_BYTES];
	bool redacted;
	size_t len;
	uint8_t text[];
};

struct item_state {
	struct item_state *next;
	char *key, *json; /* json NULL: remove */
};

/* One entry: durable as a whole or not at all. */
struct unit {
	struct unit *next;
	char ws[STORE_WS_MAX];
	size_t bytes;
	struct item_frame *frames, *last_frame;
	struct item_row *rows, *last_row;
	struct item_state *states, *last_state;
	bool seen;
};

struct fold_upsert {
	struct fold_upsert *next;
	uint8_t key[STORE_HASH_BYTES];
	char *json;
};

/* What one transaction writes. Made once; tried until it is written. */
struct batch {
	struct unit *units;
	struct item_row *closings, *last_closing; /* rows of windows that ended */
	struct fold_upsert *folds;
	bool checkpoint; /* close one after the last row */
};

/* ---- db.c ---- */

struct db;

struct db_heads {
	uint64_t row_id, frame_id, checkpoint_n;
	uint8_t row_head[STORE_HASH_BYTES], frame_head[STORE_HASH_BYTES];
	uint64_t rows_since, frames_since; /* since the last checkpoint */
	int64_t last_row_ns;
};

struct db_config {
	const char *path, *vfs;
	bool no_sync;
	unsigned checkpoint_rows;
	const struct ed25519_secret *key;
	struct ed25519_public public;
};

int db_open(const struct db_config *cfg, struct db **out, struct err *e);
void db_close(struct db *db);
const struct db_heads *db_heads(const struct db *db);
/* The newest checkpoint; n is 0 if there is none. */
const struct checkpoint *db_last_checkpoint(const struct db *db);

enum db_result { DB_OK, DB_RETRY, DB_DAMAGED };
/* One transaction. On anything but DB_OK nothing changed. */
enum db_result db_apply(struct db *db, const struct batch *batch, int64_t now_ns, struct err *e);
/* Removes what checkpoints before @cutoff_ns closed, @max rows at most; *more: there is more to do. */
enum db_result db_prune(struct db *db, int64_t cutoff_ns, unsigned max, uint64_t *removed, bool *more, struct err *e);

int db_load_states(struct db *db, void (*fn)(void *u, const char *ws, const char *key, const char *json), void *u,
		   struct err *e);
int db_load_boots(struct db *db, void (*fn)(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq),
		  void *u,
		  struct err *e);
int db_load_folds(struct db *db, struct fold *f, struct err *e);

/* Text of a row for the full-text index: subject and the string values of data. */
void db_words(const char *subject, const char *data, char *out, size_t size);

#endif
