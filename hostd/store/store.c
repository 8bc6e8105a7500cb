/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The store: a bounded queue into one writer thread, and what it made durable back out.
 *
 * Theory of operation. The caller's thread builds one entry (struct unit) at a time: text is redacted as it is copied
 * in, and this is the only way into the store. store_end() queues it, unless the workspace or the store as a whole has
 * its share of the queue filled: then the caller must stop reading whoever it got this from, and nobody else waits.
 * The thread takes what is there, folds it, and writes one transaction; with a steady stream it commits every
 * commit_ms, with single entries at once. A transaction that fails for want of a working disk is kept as it is and
 * tried again each second while the queue fills up; nothing is acknowledged meanwhile. Damage to the database is
 * final: no more writes, health says why.
 * State (JSON by workspace and key) and the last seq of each boot are mirrored in memory, so reading them back never
 * waits for the disk.
 */
#include "hostd/store/store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/store_parts.h"
#include "lib/json.h"

#define COMMIT_MS_MAX 100
#define COMMIT_MS_DEFAULT 20
#define QUEUE_DEFAULT (64u << 20)
#define WS_QUEUE_DEFAULT (8u << 20)
#define CLOCK_STEP_NS 2000000000LL

static int64_t real_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Goes on while the machine sleeps, so that a sleep is no step of the clock. */
int64_t st_real_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

int64_t st_wall_ns(struct store *s)
{
	return s->cfg.wall_ns();
}

int64_t st_mono_ms(struct store *s)
{
	return s->cfg.mono_ns() / 1000000;
}

/* ---- back on the caller's thread ---- */

/* A step of the wall clock is worth a row, since rows are read by it. */
static void watch_clock(struct store *s)
{
	int64_t offset = s->cfg.wall_ns() - s->cfg.mono_ns(), step = offset - s->clock_offset_ns;
	char data[128];
	struct store_row row = { .kind = EVENT_CLOCK_STEP, .verdict = VERDICT_WARNING, .data = data };

	if (step > -CLOCK_STEP_NS && step < CLOCK_STEP_NS)
		return;
	s->clock_offset_ns = offset;
	snprintf(data, sizeof(data), "{\"direction\":\"%s\",\"step_s\":%lld}", step > 0 ? "forward" : "back",
		 (long long)((step > 0 ? step : -step) / 1000000000));
	store_append_row(s, &row, NULL);
	if (step > PRUNE_JUMP_DAYS * DAY_NS)
		s->prune_held = true;
}

/* How long nothing could be written is said as soon as something can. */
static void note_outage(struct store *s, enum store_health health, const char *why)
{
	json_t *data;
	char *text;

	if (health != STORE_HEALTHY) {
		if (!s->outage_since_ns)
			s->outage_since_ns = s->cfg.mono_ns();
		snprintf(s->outage_why, sizeof(s->outage_why), "%s", why);
		return;
	}
	if (!s->outage_since_ns)
		return;
	data = json_pack("{s:I,s:s}", "seconds", (json_int_t)((s->cfg.mono_ns() - s->outage_since_ns) / 1000000000), "text",
			 s->outage_why);
	text = data ? json_text(data) : NULL;
	if (text) {
		struct store_row row = { .kind = EVENT_STORE_UNAVAILABLE, .verdict = VERDICT_WARNING, .data = text };

		store_append_row(s, &row, NULL);
	}
	json_decref(data);
	free(text);
	s->outage_since_ns = 0;
}

static void note_durable(struct store *s, const struct unit *u)
{
	struct wsinfo *w = st_ws_find(s, u->ws);

	for (const struct item_frame *f = u->frames; f; f = f->next) {
		struct boot *b = st_boot_find(w, f->boot, f->epoch);

		if (b) {
			b->durable = f->seq;
			b->notify = true;
		}
	}
}

static void tell_durable(struct store *s)
{
	for (struct wsinfo *w = s->workspaces; w; w = w->next)
		for (struct boot *b = w->boots; b; b = b->next) {
			if (!b->notify)
				continue;
			b->notify = false;
			if (s->ops.durable && b->durable)
				s->ops.durable(s->user, w->name, b->boot, b->epoch, b->durable);
		}
}

static void tell_rows(struct store *s, struct unit *units, struct item_row *closings)
{
	for (struct item_row *r = closings; r; r = r->next)
		if (s->ops.row)
			s->ops.row(s->user, &r->r);
	for (struct unit *u = units; u; u = u->next)
		for (struct item_row *r = u->rows; r; r = r->next)
			if (s->ops.row && !r->absorbed)
				s->ops.row(s->user, &r->r);
}

/* Gives back the room of what was told, and says so to whom it was refused. */
static void give_back(struct store *s, struct unit *units)
{
	pthread_mutex_lock(&s->lock);
	for (struct unit *u = units; u; u = u->next) {
		struct wsinfo *w = st_ws_find(s, u->ws);

		s->queued_bytes -= u->bytes;
		if (w)
			w->queued -= u->bytes;
	}
	pthread_mutex_unlock(&s->lock);
	for (struct wsinfo *w = s->workspaces; w; w = w->next) {
		if (!w->busy || w->queued > s->cfg.ws_queue_bytes / 2 || s->queued_bytes > s->cfg.queue_bytes / 2)
			continue;
		w->busy = false;
		if (s->ops.writable)
			s->ops.writable(s->user, w->name);
	}
}

int store_fd(const struct store *s)
{
	return s->fd;
}

void store_dispatch(struct store *s)
{
	struct unit *units;
	struct item_row *closings;
	enum store_health health;
	char why[sizeof(s->why)];
	uint64_t value;
	bool news;

	if (read(s->fd, &value, sizeof(value)) < 0 && errno != EAGAIN)
		abort();
	pthread_mutex_lock(&s->lock);
	units = s->finished;
	closings = s->closings;
	s->finished = s->finished_tail = NULL;
	s->closings = s->closings_tail = NULL;
	news = s->health_news;
	health = s->health;
	memcpy(why, s->why, sizeof(why));
	s->health_news = false;
	pthread_mutex_unlock(&s->lock);

	if (news) {
		note_outage(s, health, why);
		if (s->ops.health)
			s->ops.health(s->user, health, why);
	}
	for (const struct unit *u = units; u; u = u->next)
		note_durable(s, u);
	tell_durable(s);
	tell_rows(s, units, closings);
	give_back(s, units);
	for (struct unit *next; units; units = next) {
		next = units->next;
		st_unit_free(units);
	}
	st_rows_free(closings);
	watch_clock(s);
}

/* Waits until *counter reaches @goal. */
static int await(struct store *s, const uint64_t *counter, uint64_t goal, unsigned timeout_ms, struct err *e)
{
	struct timespec start, now;
	int64_t left;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	pthread_mutex_lock(&s->lock);
	pthread_cond_signal(&s->work);
	while (*counter < goal && !rc) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = timeout_ms - ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000);
		if (s->health == STORE_DAMAGED)
			rc = err_set(e, "timeline: %s", s->why);
		else if (left <= 0)
			rc = err_set(e, "timeline: not written within %u ms%s%s", timeout_ms, *s->why ? ": " : "", s->why);
		else
			st_wait_until(s, &s->done, left);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int store_sync(struct store *s, unsigned timeout_ms, struct err *e)
{
	return await(s, &s->durable, s->appended, timeout_ms, e);
}

int store_checkpoint(struct store *s, unsigned timeout_ms, struct err *e)
{
	uint64_t goal;

	if (store_sync(s, timeout_ms, e))
		return -1;
	pthread_mutex_lock(&s->lock);
	goal = ++s->checkpoint_asked;
	pthread_mutex_unlock(&s->lock);
	return await(s, &s->checkpoint_done, goal, timeout_ms, e);
}

int store_prune(struct store *s, unsigned keep_days, unsigned timeout_ms, struct err *e)
{
	uint64_t goal;

	pthread_mutex_lock(&s->lock);
	s->prune_days = keep_days ? keep_days : s->cfg.keep_days;
	goal = ++s->prune_asked;
	pthread_mutex_unlock(&s->lock);
	return timeout_ms ? await(s, &s->prune_done, goal, timeout_ms, e) : 0;
}

enum store_health store_health(struct store *s, char *why, size_t size)
{
	enum store_health health;

	pthread_mutex_lock(&s->lock);
	health = s->health;
	if (why && size)
		snprintf(why, size, "%s", s->why);
	pthread_mutex_unlock(&s->lock);
	return health;
}

void store_stats(struct store *s, struct store_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	out->queued_bytes = s->queued_bytes;
	pthread_mutex_unlock(&s->lock);
}

/* ---- opening and closing ---- */

static void load_state(void *u, const char *ws, const char *key, const char *json)
{
	struct wsinfo *w = st_ws_get(u, ws);

	if (w)
		st_state_set(w, key, json);
}

static void load_boot(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	struct wsinfo *w = st_ws_get(u, ws);
	struct boot *b = w ? st_boot_get(w, boot, epoch) : NULL;

	if (b)
		b->taken = b->durable = seq;
}

/* The checkpoint kept outside must be one that the database has, or an older one. */
static int check_anchor(struct store *s, struct err *e)
{
	const struct db_heads *h = db_heads(s->db);
	struct checkpoint anchor;
	int rc = checkpoint_anchor_read(s->anchor_path, &anchor, e);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (checkpoint_verify(&anchor, &s->public))
		return err_set(e, "timeline: %s is not signed by this store's key", s->anchor_path);
	if (memcmp(anchor.store_id, db_last_checkpoint(s->db)->store_id, sizeof(anchor.store_id)) != 0)
		return err_set(e, "timeline: %s belongs to another timeline", s->anchor_path);
	if (anchor.row_id > h->row_id || anchor.frame_id > h->frame_id)
		return err_set(e, "timeline: rows after %llu are missing, %llu had been signed (cut tail or old copy)",
			       (unsigned long long)h->row_id, (unsigned long long)anchor.row_id);
	return 0;
}

static char *path_with(const char *path, const char *suffix)
{
	char *out = NULL;

	return asprintf(&out, "%s%s", path, suffix) < 0 ? NULL : out;
}

static int fill_config(struct store *s, const struct store_config *cfg, struct err *e)
{
	s->cfg = *cfg;
	if (!cfg->path)
		return err_set(e, "timeline: no path");
	s->path = strdup(cfg->path);
	s->key_path = cfg->key_path ? strdup(cfg->key_path) : path_with(cfg->path, ".key");
	s->anchor_path = cfg->anchor_path ? strdup(cfg->anchor_path) : path_with(cfg->path, ".anchor");
	if (!s->path || !s->key_path || !s->anchor_path)
		return err_set(e, "timeline: out of memory");
	s->cfg.path = s->path;
	if (!s->cfg.commit_ms)
		s->cfg.commit_ms = COMMIT_MS_DEFAULT;
	if (s->cfg.commit_ms > COMMIT_MS_MAX)
		return err_set(e, "timeline: commit_ms is %u, at most %d", s->cfg.commit_ms, COMMIT_MS_MAX);
	if (!s->cfg.checkpoint_rows)
		s->cfg.checkpoint_rows = 1000;
	if (!s->cfg.checkpoint_s)
		s->cfg.checkpoint_s = 60;
	if (!s->cfg.keep_days)
		s->cfg.keep_days = 90;
	if (!s->cfg.queue_bytes)
		s->cfg.queue_bytes = QUEUE_DEFAULT;
	if (!s->cfg.ws_queue_bytes)
		s->cfg.ws_queue_bytes = WS_QUEUE_DEFAULT;
	if (!s->cfg.wall_ns)
		s->cfg.wall_ns = real_wall_ns;
	if (!s->cfg.mono_ns)
		s->cfg.mono_ns = st_real_mono_ns;
	return 0;
}

static int load(struct store *s, struct err *e)
{
	struct db_config dc = { .path = s->path, .vfs = s->cfg.vfs, .no_sync = s->cfg.no_sync,
				.checkpoint_rows = s->cfg.checkpoint_rows };

	s->key = ed25519_secret_ensure(s->key_path, e);
	if (!s->key)
		return -1;
	ed25519_public_of(&s->public, s->key);
	dc.key = s->key;
	dc.public = s->public;
	if (db_open(&dc, &s->db, e) || check_anchor(s, e))
		return -1;
	s->fold = fold_new();
	if (!s->fold)
		return err_set(e, "timeline: out of memory");
	return db_load_states(s->db, load_state, s, e) || db_load_boots(s->db, load_boot, s, e) ||
	       db_load_folds(s->db, s->fold, e) ? -1 : 0;
}

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* Signals are for the thread that runs the loop. */
static int start_thread(struct store *s, struct err *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->thread, NULL, st_writer, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_set(e, "timeline: cannot start its st_writer: %s", strerror(rc));
	s->thread_runs = true;
	return 0;
}

int store_open(const struct store_config *cfg, const struct store_ops *ops, void *u, struct store **out, struct err *e)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(e, "timeline: out of memory");
	pthread_mutex_init(&s->lock, NULL);
	cond_init(&s->work);
	cond_init(&s->done);
	s->user = u;
	if (ops)
		s->ops = *ops;
	s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->fd < 0)
		err_errno(e, "timeline: eventfd");
	else if (!fill_config(s, cfg, e) && !load(s, e)) {
		s->clock_offset_ns = s->cfg.wall_ns() - s->cfg.mono_ns();
		s->last_commit_ms = INT64_MIN / 2;
		if (!start_thread(s, e)) {
			*out = s;
			return 0;
		}
	}
	store_close(s);
	return -1;
}

static void workspaces_free(struct wsinfo *w)
{
	for (struct wsinfo *next; w; w = next) {
		next = w->next;
		for (struct boot *b = w->boots, *nb; b; b = nb) {
			nb = b->next;
			free(b);
		}
		while (w->states)
			st_state_set(w, w->states->key, NULL);
		free(w);
	}
}

static void units_free(struct unit *u)
{
	for (struct unit *next; u; u = next) {
		next = u->next;
		st_unit_free(u);
	}
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->thread_runs) {
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_cond_signal(&s->work);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
		store_dispatch(s); /* what became durable at last is told */
	}
	db_close(s->db);
	fold_free(s->fold);
	units_free(s->queue);
	units_free(s->finished);
	units_free(s->batch.units);
	st_unit_free(s->current);
	st_rows_free(s->batch.closings);
	st_rows_free(s->closings);
	st_drop_folds(&s->batch);
	workspaces_free(s->workspaces);
	free(s->broken);
	ed25519_secret_free(s->key);
	free(s->path);
	free(s->key_path);
	free(s->anchor_path);
	if (s->fd >= 0)
		close(s->fd);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->done);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int store_key_fingerprint(const char *key_path, char out[STORE_FINGERPRINT_SIZE], struct err *e)
{
	struct ed25519_secret *key = ed25519_secret_ensure(key_path, e);
	struct ed25519_public public;

	if (!key)
		return -1;
	ed25519_public_of(&public, key);
	ed25519_secret_free(key);
	chain_fingerprint(&public, out);
	return 0;
}
