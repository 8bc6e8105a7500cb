/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The writer thread: batches, transactions, checkpoints, pruning. */
#include "hostd/store/store.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hostd/store/store_parts.h"

#define BATCH_UNITS 4096
#define BATCH_BYTES (4u << 20)
#define RETRY_MS 1000
#define CLOSE_PATIENCE_MS 5000
#define PRUNE_ROWS 2000

static void set_health(struct store *s, enum store_health health, const char *why)
{
	pthread_mutex_lock(&s->lock);
	if (s->health != health || strcmp(s->why, why) != 0) {
		s->health = health;
		snprintf(s->why, sizeof(s->why), "%s", why);
		s->health_news = true;
		st_wake_caller(s);
	}
	pthread_cond_broadcast(&s->done);
	pthread_mutex_unlock(&s->lock);
}

static void batch_add_closing(void *u, const struct store_row *row, const uint8_t key[STORE_HASH_BYTES])
{
	struct store *s = u;
	struct item_row *item = st_row_copy(row, row->ws, row->subject, row->data);

	if (!item)
		return;
	item->r.host_ns = st_wall_ns(s);
	memcpy(item->fold_key, key, STORE_HASH_BYTES);
	if (s->batch.last_closing)
		s->batch.last_closing->next = item;
	else
		s->batch.closings = item;
	s->batch.last_closing = item;
}

static void batch_add_fold(void *u, const uint8_t key[STORE_HASH_BYTES], const char *json)
{
	struct store *s = u;
	struct fold_upsert *f = calloc(1, sizeof(*f));

	if (!f || !(f->json = strdup(json))) {
		free(f);
		return;
	}
	memcpy(f->key, key, STORE_HASH_BYTES);
	f->next = s->batch.folds;
	s->batch.folds = f;
}

void st_drop_folds(struct batch *b)
{
	for (struct fold_upsert *f = b->folds, *next; f; f = next) {
		next = f->next;
		free(f->json);
		free(f);
	}
	b->folds = NULL;
}

/* Takes a share of the queue (under the lock). */
static struct unit *take_units(struct store *s)
{
	struct unit *first = s->queue, *last = NULL;
	size_t bytes = 0, n = 0;

	for (struct unit *u = first; u && n < BATCH_UNITS && bytes < BATCH_BYTES; u = u->next) {
		bytes += u->bytes;
		last = u;
		n++;
	}
	if (!last)
		return NULL;
	s->queue = last->next;
	if (!s->queue)
		s->queue_tail = NULL;
	last->next = NULL;
	return first;
}

/* Folds the entries: what is absorbed is no row. Done once, whatever happens to the transaction. */
static void prepare(struct store *s, int64_t now_ms, bool drained, bool closing)
{
	for (struct unit *u = s->batch.units; u; u = u->next)
		for (struct item_row *r = u->rows; r; r = r->next) {
			fold_close(s->fold, r->at_ms, batch_add_closing, s);
			r->absorbed = r->sentence && fold_take(s->fold, &r->r, r->sentence, r->at_ms);
		}
	if (drained)
		fold_close(s->fold, closing ? INT64_MAX : now_ms, batch_add_closing, s);
	fold_save(s->fold, batch_add_fold, s);
	s->batch_ready = true;
}

static void count_written(struct store *s)
{
	s->stats.commits++;
	for (const struct item_row *r = s->batch.closings; r; r = r->next)
		s->stats.rows++;
	for (const struct unit *u = s->batch.units; u; u = u->next) {
		for (const struct item_frame *f = u->frames; f; f = f->next)
			s->stats.frames++;
		for (const struct item_row *r = u->rows; r; r = r->next)
			*(r->absorbed ? &s->stats.folded : &s->stats.rows) += 1;
	}
}

/* The batch is durable: hand it to the caller's thread. */
static void finish(struct store *s)
{
	pthread_mutex_lock(&s->lock);
	count_written(s);
	if (s->batch.closings) {
		if (s->closings_tail)
			s->closings_tail->next = s->batch.closings;
		else
			s->closings = s->batch.closings;
		s->closings_tail = s->batch.last_closing;
	}
	if (s->batch.units) {
		struct unit *last = s->batch.units;

		for (s->durable++; last->next; last = last->next)
			s->durable++;
		if (s->finished_tail)
			s->finished_tail->next = s->batch.units;
		else
			s->finished = s->batch.units;
		s->finished_tail = last;
	}
	pthread_cond_broadcast(&s->done);
	st_wake_caller(s);
	pthread_mutex_unlock(&s->lock);
	st_drop_folds(&s->batch);
	s->batch = (struct batch){ 0 };
	s->batch_ready = false;
}

static enum db_result write_batch(struct store *s)
{
	int64_t start = st_real_mono_ns(), took;
	uint64_t before = db_last_checkpoint(s->db)->n;
	struct err e = { "" };
	enum db_result rc = db_apply(s->db, &s->batch, st_wall_ns(s), &e);

	if (rc == DB_OK) {
		took = st_real_mono_ns() - start;
		if (took > s->stats.commit_ns_max)
			s->stats.commit_ns_max = took;
		if (db_last_checkpoint(s->db)->n != before) {
			struct err ignored;

			s->stats.checkpoints += db_last_checkpoint(s->db)->n - before;
			/* an old anchor only shows less; the next checkpoint writes it again */
			checkpoint_anchor_write(s->anchor_path, db_last_checkpoint(s->db), &ignored);
		}
		set_health(s, STORE_HEALTHY, "");
		return rc;
	}
	set_health(s, rc == DB_DAMAGED ? STORE_DAMAGED : STORE_UNAVAILABLE, e.text);
	return rc;
}

/* The wall clock against the one that only goes forward. */
static bool clock_jumped(struct store *s, int64_t wall)
{
	int64_t last = db_heads(s->db)->last_row_ns;

	return last && (wall - last > PRUNE_JUMP_DAYS * DAY_NS);
}

static void prune_row(struct store *s, enum event_kind kind, uint64_t rows, unsigned days)
{
	char data[256];
	struct store_row row = { .ws = HOSTD_WS, .kind = kind, .verdict = event_defs[kind].verdict, .count = 1,
				 .host_ns = st_wall_ns(s), .subject = "", .data = data };
	struct item_row *item;

	if (kind == EVENT_PRUNED)
		snprintf(data, sizeof(data), "{\"rows\":%llu,\"days\":%u,\"last\":%llu}", (unsigned long long)rows, days,
			 (unsigned long long)(db_heads(s->db)->row_id));
	else
		snprintf(data, sizeof(data), "{\"text\":\"the last row is over %d days old\"}", PRUNE_JUMP_DAYS);
	item = st_row_copy(&row, HOSTD_WS, "", data);
	if (!item)
		return;
	item->next = s->batch.closings;
	s->batch.closings = item;
	if (!s->batch.last_closing)
		s->batch.last_closing = item;
}

/* Slice by slice, so that writers wait for one slice at most. */
static void prune(struct store *s, unsigned days)
{
	int64_t wall = st_wall_ns(s);
	uint64_t removed, total = 0;
	bool more = true, held = s->prune_held;
	struct err e;

	if (days == UINT_MAX) { /* the operator said so in spite of the clock */
		held = false;
		days = s->cfg.keep_days;
	} else if (clock_jumped(s, wall)) {
		s->prune_held = held = true;
	}
	if (held) {
		prune_row(s, EVENT_PRUNE_HELD, 0, days);
		return;
	}
	while (more) {
		if (db_prune(s->db, wall - (int64_t)days * DAY_NS, PRUNE_ROWS, &removed, &more, &e) != DB_OK) {
			set_health(s, STORE_UNAVAILABLE, e.text);
			break;
		}
		total += removed;
		if (!removed)
			break;
	}
	if (total)
		prune_row(s, EVENT_PRUNED, total, days);
}

void st_wait_until(struct store *s, pthread_cond_t *cond, int64_t ms)
{
	struct timespec ts;

	if (ms <= 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(cond, &s->lock, &ts);
}

static bool checkpoint_due(struct store *s, int64_t now_ms)
{
	const struct db_heads *h = db_heads(s->db);

	if (!h->rows_since && !h->frames_since) {
		s->unsigned_since_ms = 0;
		return false;
	}
	if (!s->unsigned_since_ms)
		s->unsigned_since_ms = now_ms;
	return now_ms - s->unsigned_since_ms >= (int64_t)s->cfg.checkpoint_s * 1000;
}

/* Is there anything to do now? Else sets how long the writer may sleep. */
static bool work_due(struct store *s, int64_t now, int64_t *sleep_ms)
{
	int64_t window = fold_next(s->fold);

	*sleep_ms = 1000;
	if (s->stop)
		return true;
	if (s->health == STORE_DAMAGED)
		return false;
	if (s->batch_ready)
		return true;
	if (s->checkpoint_asked != s->checkpoint_done || s->prune_asked != s->prune_done || checkpoint_due(s, now) ||
	    window <= now)
		return true;
	if (s->queue) {
		/* by the real clock, whatever clock rows have */
		int64_t gather = s->last_commit_ms + s->cfg.commit_ms - st_real_mono_ns() / 1000000;

		if (gather <= 0 || gather > s->cfg.commit_ms || s->queued_bytes >= BATCH_BYTES)
			return true;
		*sleep_ms = gather;
	} else if (window != INT64_MAX && window - now < *sleep_ms) {
		*sleep_ms = window - now;
	}
	return false;
}

/* One turn without the lock; false: it has to be tried again. */
static bool turn(struct store *s, int64_t now, bool checkpoint, bool prune_now, bool drained, bool closing)
{
	if (!s->batch_ready) {
		if (prune_now)
			prune(s, s->prune_days);
		prepare(s, now, drained, closing);
	}
	s->batch.checkpoint = checkpoint || checkpoint_due(s, now);
	if (write_batch(s) != DB_OK)
		return false;
	s->last_commit_ms = st_real_mono_ns() / 1000000;
	finish(s);
	return true;
}

void *st_writer(void *u)
{
	struct store *s = u;
	int64_t failing_since = -1;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		int64_t now = st_mono_ms(s), sleep_ms;
		uint64_t checkpoint_asked = s->checkpoint_asked, prune_asked = s->prune_asked;
		bool drained, closing, done;

		if (!work_due(s, now, &sleep_ms)) {
			st_wait_until(s, &s->work, sleep_ms);
			continue;
		}
		if (s->health == STORE_DAMAGED)
			break;
		if (!s->batch_ready)
			s->batch.units = take_units(s);
		drained = !s->queue;
		closing = s->stop && drained;
		pthread_mutex_unlock(&s->lock);
		done = turn(s, now, closing || checkpoint_asked != s->checkpoint_done, prune_asked != s->prune_done, drained,
			    closing);
		pthread_mutex_lock(&s->lock);
		if (done) {
			failing_since = -1;
			s->checkpoint_done = checkpoint_asked;
			s->prune_done = prune_asked;
			pthread_cond_broadcast(&s->done);
			if (closing)
				break;
			continue;
		}
		if (failing_since < 0)
			failing_since = st_real_mono_ns() / 1000000;
		if (s->stop && st_real_mono_ns() / 1000000 - failing_since > CLOSE_PATIENCE_MS)
			break;
		st_wait_until(s, &s->work, RETRY_MS);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
