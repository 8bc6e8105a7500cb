/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the store share: its state, and the functions that go from one to another. */
#ifndef HOSTD_STORE_STORE_PARTS_H
#define HOSTD_STORE_STORE_PARTS_H

#include <pthread.h>

#include "hostd/store/store_int.h"

#define PRUNE_JUMP_DAYS 30
#define DAY_NS 86400000000000LL
#define HOSTD_WS "-" /* rows of hostd itself */

struct boot {
	struct boot *next;
	char boot[STORE_BOOT_MAX];
	uint32_t epoch;
	uint64_t taken, durable;
	bool notify;
};

struct state {
	struct state *next;
	char *key, *json;
};

struct wsinfo {
	struct wsinfo *next;
	char name[STORE_WS_MAX];
	size_t queued;
	bool busy; /* was told STORE_BUSY */
	struct boot *boots;
	struct state *states;
};

struct store {
	struct store_config cfg;
	struct store_ops ops;
	void *user;
	char *path, *key_path, *anchor_path;
	struct ed25519_secret *key;
	struct ed25519_public public;
	int fd;

	/* the caller's thread */
	struct unit *current;
	char *broken; /* why the current entry can't be taken */
	struct wsinfo *workspaces;
	int64_t clock_offset_ns, outage_since_ns;
	char outage_why[256];

	/* the writer's own */
	struct db *db;
	struct fold *fold;
	struct batch batch;
	bool batch_ready;
	int64_t unsigned_since_ms, last_commit_ms;
	_Atomic bool prune_held;

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	/* under the lock */
	struct unit *queue, *queue_tail;
	struct unit *finished, *finished_tail; /* durable, to be told */
	struct item_row *closings, *closings_tail;
	size_t queued_bytes;
	uint64_t appended, durable, checkpoint_asked, checkpoint_done, prune_asked, prune_done;
	unsigned prune_days;
	bool stop, thread_runs, health_news;
	enum store_health health;
	char why[256];
	struct store_stats stats;
};

/* ---- store.c ---- */

/* Goes on while the machine sleeps, so that a sleep is no step of the clock. */
int64_t st_real_mono_ns(void);
int64_t st_wall_ns(struct store *s);
int64_t st_mono_ms(struct store *s);

/* ---- store_items.c ---- */

void st_rows_free(struct item_row *r);
void st_unit_free(struct unit *u);
/* One allocation for a row and its strings. */
struct item_row *st_row_copy(const struct store_row *r, const char *ws, const char *subject, const char *data);
struct wsinfo *st_ws_find(struct store *s, const char *name);
struct wsinfo *st_ws_get(struct store *s, const char *name);
struct boot *st_boot_find(struct wsinfo *w, const char *boot, uint32_t epoch);
struct boot *st_boot_get(struct wsinfo *w, const char *boot, uint32_t epoch);
void st_state_set(struct wsinfo *w, const char *key, const char *json);

/* ---- store_append.c ---- */

void st_wake_caller(struct store *s);

/* ---- store_writer.c ---- */

void st_drop_folds(struct batch *b);
void st_wait_until(struct store *s, pthread_cond_t *cond, int64_t ms);
void *st_writer(void *u);

#endif
