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
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/redact.h"
#include "hostd/store/store_int.h"
#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/json.h"

#define COMMIT_MS_MAX 100
#define COMMIT_MS_DEFAULT 20
#define QUEUE_DEFAULT (64u << 20)
#define WS_QUEUE_DEFAULT (8u << 20)
#define BATCH_UNITS 4096
#define BATCH_BYTES (4u << 20)
#define RETRY_MS 1000
#define CLOSE_PATIENCE_MS 5000
#define CLOCK_STEP_NS 2000000000LL
#define PRUNE_ROWS 2000
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

static int64_t real_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Goes on while the machine sleeps, so that a sleep is no step of the clock. */
static int64_t real_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static int64_t wall_ns(struct store *s)
{
	return s->cfg.wall_ns();
}

static int64_t mono_ms(struct store *s)
{
	return s->cfg.mono_ns() / 1000000;
}

/* ---- items ---- */

static void row_free(struct item_row *r)
{
	free(r->sentence);
	free(r);
}

static void rows_free(struct item_row *r)
{
	for (struct item_row *next; r; r = next) {
		next = r->next;
		row_free(r);
	}
}

static void unit_free(struct unit *u)
{
	if (!u)
		return;
	rows_free(u->rows);
	for (struct item_frame *f = u->frames, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	for (struct item_state *s = u->states, *next; s; s = next) {
		next = s->next;
		free(s->key);
		free(s->json);
		free(s);
	}
	free(u);
}

/* One allocation for a row and its strings. */
static struct item_row *row_copy(const struct store_row *r, const char *ws, const char *subject, const char *data)
{
	const char *from[4] = { ws, r->boot ? r->boot : "", subject, data };
	size_t len[4], total = sizeof(struct item_row);
	struct item_row *item;
	char *at;

	for (int i = 0; i < 4; i++)
		total += len[i] = strlen(from[i]) + 1;
	item = calloc(1, total);
	if (!item)
		return NULL;
	item->r = *r;
	item->bytes = total;
	at = (char *)(item + 1);
	for (int i = 0; i < 4; i++) {
		memcpy(at, from[i], len[i]);
		*(const char **[]){ &item->r.ws, &item->r.boot, &item->r.subject, &item->r.data }[i] = at;
		at += len[i];
	}
	return item;
}

static struct wsinfo *ws_find(struct store *s, const char *name)
{
	for (struct wsinfo *w = s->workspaces; w; w = w->next)
		if (!strcmp(w->name, name))
			return w;
	return NULL;
}

static struct wsinfo *ws_get(struct store *s, const char *name)
{
	struct wsinfo *w = ws_find(s, name);

	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->next = s->workspaces;
	s->workspaces = w;
	return w;
}

static struct boot *boot_find(struct wsinfo *w, const char *boot, uint32_t epoch)
{
	for (struct boot *b = w ? w->boots : NULL; b; b = b->next)
		if (b->epoch == epoch && !strcmp(b->boot, boot))
			return b;
	return NULL;
}

static struct boot *boot_get(struct wsinfo *w, const char *boot, uint32_t epoch)
{
	struct boot *b = boot_find(w, boot, epoch);

	if (b)
		return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	snprintf(b->boot, sizeof(b->boot), "%s", boot);
	b->epoch = epoch;
	b->next = w->boots;
	w->boots = b;
	return b;
}

static void state_set(struct wsinfo *w, const char *key, const char *json)
{
	struct state **p = &w->states, *s;

	while (*p && strcmp((*p)->key, key) != 0)
		p = &(*p)->next;
	s = *p;
	if (!json) {
		if (s) {
			*p = s->next;
			free(s->key);
			free(s->json);
			free(s);
		}
		return;
	}
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return;
		s->key = strdup(key);
		*p = s;
	}
	free(s->json);
	s->json = strdup(json);
}

/* ---- appending ---- */

static void broken(struct store *s, const char *why)
{
	if (!s->broken)
		s->broken = strdup(why);
}

void store_begin(struct store *s, const char *ws)
{
	unit_free(s->current);
	free(s->broken);
	s->broken = NULL;
	s->current = calloc(1, sizeof(*s->current));
	if (!s->current)
		return;
	if (!ws || !*ws)
		ws = HOSTD_WS;
	if (strlen(ws) >= STORE_WS_MAX)
		broken(s, "name of the workspace is too long");
	snprintf(s->current->ws, STORE_WS_MAX, "%s", ws);
	s->current->bytes = sizeof(*s->current);
}

void store_state(struct store *s, const char *key, const char *json)
{
	struct unit *u = s->current;
	struct item_state *item;

	if (!u)
		return;
	item = calloc(1, sizeof(*item));
	if (!item || !(item->key = strdup(key)) || (json && !(item->json = strdup(json)))) {
		if (item)
			free(item->key);
		free(item);
		broken(s, "out of memory");
		return;
	}
	u->bytes += sizeof(*item) + strlen(key) + (json ? strlen(json) : 0);
	if (u->last_state)
		u->last_state->next = item;
	else
		u->states = item;
	u->last_state = item;
}

/* The frame's text without its secrets; NULL: it holds none. The MAC goes with them, as it would confirm a guess. */
static char *redacted_frame(const struct store_frame *f, uint64_t *redacted)
{
	_cleanup_json_ json_t *clean = NULL;
	unsigned count = 0;

	if (!f->event)
		return redact_text(f->raw, f->raw_len, &count);
	clean = redact_json(f->event, &count);
	if (!clean)
		return NULL;
	*redacted += count;
	json_object_del(clean, "mac");
	return json_text(clean);
}

void store_frame(struct store *s, const struct store_frame *f)
{
	struct unit *u = s->current;
	struct wsinfo *w = u ? ws_find(s, u->ws) : NULL;
	struct boot *b = boot_find(w, f->boot, f->epoch);
	_cleanup_free_ char *clean = NULL;
	struct item_frame *item;
	size_t len;

	if (!u)
		return;
	if (f->raw_len > STORE_FRAME_MAX || strlen(f->boot) >= STORE_BOOT_MAX) {
		broken(s, "frame or boot id is too long");
		return;
	}
	if (b && f->seq <= b->taken) {
		u->seen = true;
		b->notify = true;
		return;
	}
	clean = redacted_frame(f, &s->stats.redacted);
	len = clean ? strlen(clean) : f->raw_len;
	item = calloc(1, sizeof(*item) + len);
	if (!item) {
		broken(s, "out of memory");
		return;
	}
	snprintf(item->boot, sizeof(item->boot), "%s", f->boot);
	item->epoch = f->epoch;
	item->seq = f->seq;
	item->host_ns = f->host_ns ? f->host_ns : wall_ns(s);
	item->redacted = clean != NULL;
	item->len = len;
	hash_sha256(item->raw_sha, f->raw, f->raw_len);
	memcpy(item->text, clean ? clean : f->raw, len);
	u->bytes += sizeof(*item) + len;
	if (u->last_frame)
		u->last_frame->next = item;
	else
		u->frames = item;
	u->last_frame = item;
	if (f->state)
		store_state(s, "session", f->state);
}

/* data as it is stored: an object, redacted, of bounded length; anything else becomes {"text": …}. */
static char *stored_data(const char *data, json_t **parsed, uint64_t *redacted)
{
	json_t *obj = json_loads(data ? data : "{}", JSON_REJECT_DUPLICATES, NULL), *clean;
	unsigned count = 0;
	char *text;

	if (!json_is_object(obj)) {
		json_decref(obj);
		obj = json_pack("{s:s}", "text", "data that was no JSON object");
	}
	clean = obj ? redact_json(obj, &count) : NULL;
	if (clean) {
		*redacted += count;
		json_decref(obj);
		obj = clean;
	}
	text = obj ? json_text(obj) : NULL;
	if (text && strlen(text) > STORE_DATA_MAX) {
		json_t *small = json_object(), *value;
		const char *key;

		/* what is long goes, what a reader needs first stays */
		json_object_foreach (obj, key, value) {
			if (json_is_integer(value) || json_is_boolean(value) ||
			    (json_is_string(value) && json_string_length(value) <= 1024))
				json_object_set(small, key, value);
		}
		json_object_set_new(small, "shortened", json_true());
		free(text);
		json_decref(obj);
		obj = small;
		text = json_text(obj);
		if (text && strlen(text) > STORE_DATA_MAX) {
			json_object_clear(obj);
			json_object_set_new(obj, "shortened", json_true());
			free(text);
			text = json_text(obj);
		}
	}
	*parsed = obj;
	return text;
}

/* Text of a caller that may be no UTF-8: bytes that are none become '?'. */
static char *stored_subject(const char *subject, uint64_t *redacted)
{
	_cleanup_json_ json_t *check = json_string(subject ? subject : "");
	unsigned count = 0;
	char *clean, *copy = strdup(subject ? subject : "");

	if (!copy)
		return NULL;
	if (!check)
		for (char *c = copy; *c; c++)
			if ((unsigned char)*c >= 0x80)
				*c = '?';
	clean = redact_text(copy, strlen(copy), &count);
	if (clean) {
		*redacted += count;
		free(copy);
		copy = clean;
	}
	if (strlen(copy) >= STORE_SUBJECT_MAX) {
		size_t n = STORE_SUBJECT_MAX - 1;

		while (n && ((unsigned char)copy[n] & 0xc0) == 0x80)
			n--;
		copy[n] = '\0';
	}
	return copy;
}

void store_row(struct store *s, const struct store_row *r)
{
	struct unit *u = s->current;
	_cleanup_json_ json_t *parsed = NULL;
	_cleanup_free_ char *data = NULL, *subject = NULL;
	struct item_row *item;

	if (!u)
		return;
	data = stored_data(r->data, &parsed, &s->stats.redacted);
	subject = stored_subject(r->subject, &s->stats.redacted);
	if (!data || !subject || !(item = row_copy(r, r->ws && *r->ws ? r->ws : u->ws, subject, data))) {
		broken(s, "out of memory");
		return;
	}
	if (!item->r.host_ns)
		item->r.host_ns = wall_ns(s);
	if (!item->r.count)
		item->r.count = 1;
	item->at_ms = mono_ms(s);
	if (event_defs[r->kind].fold_s) {
		char sentence[1024];

		/* what a window adds up does not make rows different */
		for (const char *const *sum = fold_sums; *sum; sum++)
			json_object_del(parsed, *sum);
		event_sentence(r->kind, subject, parsed, sentence, sizeof(sentence));
		item->sentence = strdup(sentence);
	}
	u->bytes += item->bytes + (item->sentence ? strlen(item->sentence) : 0);
	if (u->last_row)
		u->last_row->next = item;
	else
		u->rows = item;
	u->last_row = item;
}

static void wake_caller(struct store *s)
{
	uint64_t one = 1;

	if (write(s->fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

/* What the mirrors must say once the entry is taken. */
static int mirror(struct store *s, struct wsinfo *w, const struct unit *u)
{
	for (const struct item_frame *f = u->frames; f; f = f->next) {
		struct boot *b = boot_get(w, f->boot, f->epoch);

		if (!b)
			return -1;
		b->taken = f->seq;
	}
	for (const struct item_state *st = u->states; st; st = st->next)
		state_set(w, st->key, st->json);
	(void)s;
	return 0;
}

static bool has_room(const struct store *s, const struct wsinfo *w, size_t bytes)
{
	return w->queued + bytes <= s->cfg.ws_queue_bytes && s->queued_bytes + bytes <= s->cfg.queue_bytes;
}

bool store_has_room(struct store *s, const char *ws, size_t bytes)
{
	struct wsinfo *w = ws_get(s, ws && *ws ? ws : HOSTD_WS);
	bool room;

	if (!w)
		return false;
	pthread_mutex_lock(&s->lock);
	room = has_room(s, w, bytes);
	if (!room) {
		w->busy = true;
		s->stats.busy++;
	}
	pthread_mutex_unlock(&s->lock);
	return room;
}

static void enqueue(struct store *s, struct unit *u)
{
	if (s->queue_tail)
		s->queue_tail->next = u;
	else
		s->queue = u;
	s->queue_tail = u;
	s->queued_bytes += u->bytes;
	if (s->queued_bytes > s->stats.queued_max)
		s->stats.queued_max = s->queued_bytes;
	s->appended++;
	pthread_cond_signal(&s->work);
}

int store_end(struct store *s, struct err *e)
{
	struct unit *u = s->current;
	struct wsinfo *w;
	int result = STORE_OK;

	s->current = NULL;
	if (!u)
		return err_set(e, "timeline: out of memory");
	if (s->broken) {
		unit_free(u);
		return err_set(e, "timeline: %s", s->broken);
	}
	if (u->seen) {
		unit_free(u);
		wake_caller(s);
		return STORE_SEEN;
	}
	w = ws_get(s, u->ws);
	if (!w) {
		unit_free(u);
		return err_set(e, "timeline: out of memory");
	}
	pthread_mutex_lock(&s->lock);
	if (s->health == STORE_DAMAGED)
		result = err_set(e, "timeline: %s", s->why);
	else if (!has_room(s, w, u->bytes))
		result = STORE_BUSY;
	else if (mirror(s, w, u))
		result = err_set(e, "timeline: out of memory");
	if (result == STORE_OK) {
		w->queued += u->bytes;
		enqueue(s, u);
		u = NULL;
	} else if (result == STORE_BUSY) {
		w->busy = true;
		s->stats.busy++;
		err_set(e, "timeline: the queue of %s is full", w->name);
	}
	pthread_mutex_unlock(&s->lock);
	unit_free(u);
	return result;
}

int store_append_frame(struct store *s, const char *ws, const struct store_frame *f, struct err *e)
{
	store_begin(s, ws);
	store_frame(s, f);
	return store_end(s, e);
}

int store_append_row(struct store *s, const struct store_row *r, struct err *e)
{
	store_begin(s, r->ws);
	store_row(s, r);
	return store_end(s, e);
}

int store_put_state(struct store *s, const char *ws, const char *key, const char *json, struct err *e)
{
	store_begin(s, ws);
	store_state(s, key, json);
	return store_end(s, e);
}

char *store_get_state(struct store *s, const char *ws, const char *key)
{
	struct wsinfo *w = ws_find(s, ws && *ws ? ws : HOSTD_WS);

	for (struct state *st = w ? w->states : NULL; st; st = st->next)
		if (!strcmp(st->key, key))
			return strdup(st->json);
	return NULL;
}

uint64_t store_last_seq(struct store *s, const char *ws, const char *boot, uint32_t epoch)
{
	const struct boot *b = boot_find(ws_find(s, ws), boot, epoch);

	return b ? b->taken : 0;
}

uint64_t store_durable_seq(struct store *s, const char *ws, const char *boot, uint32_t epoch)
{
	const struct boot *b = boot_find(ws_find(s, ws), boot, epoch);

	return b ? b->durable : 0;
}

/* ---- the writer ---- */

static void set_health(struct store *s, enum store_health health, const char *why)
{
	pthread_mutex_lock(&s->lock);
	if (s->health != health || strcmp(s->why, why) != 0) {
		s->health = health;
		snprintf(s->why, sizeof(s->why), "%s", why);
		s->health_news = true;
		wake_caller(s);
	}
	pthread_cond_broadcast(&s->done);
	pthread_mutex_unlock(&s->lock);
}

static void batch_add_closing(void *u, const struct store_row *row, const uint8_t key[STORE_HASH_BYTES])
{
	struct store *s = u;
	struct item_row *item = row_copy(row, row->ws, row->subject, row->data);

	if (!item)
		return;
	item->r.host_ns = wall_ns(s);
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

static void drop_folds(struct batch *b)
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
	wake_caller(s);
	pthread_mutex_unlock(&s->lock);
	drop_folds(&s->batch);
	s->batch = (struct batch){ 0 };
	s->batch_ready = false;
}

static enum db_result write_batch(struct store *s)
{
	int64_t start = real_mono_ns(), took;
	uint64_t before = db_last_checkpoint(s->db)->n;
	struct err e = { "" };
	enum db_result rc = db_apply(s->db, &s->batch, wall_ns(s), &e);

	if (rc == DB_OK) {
		took = real_mono_ns() - start;
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
				 .host_ns = wall_ns(s), .subject = "", .data = data };
	struct item_row *item;

	if (kind == EVENT_PRUNED)
		snprintf(data, sizeof(data), "{\"rows\":%llu,\"days\":%u,\"last\":%llu}", (unsigned long long)rows, days,
			 (unsigned long long)(db_heads(s->db)->row_id));
	else
		snprintf(data, sizeof(data), "{\"text\":\"the last row is over %d days old\"}", PRUNE_JUMP_DAYS);
	item = row_copy(&row, HOSTD_WS, "", data);
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
	int64_t wall = wall_ns(s);
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

static void wait_until(struct store *s, pthread_cond_t *cond, int64_t ms)
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
		int64_t gather = s->last_commit_ms + s->cfg.commit_ms - real_mono_ns() / 1000000;

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
	s->last_commit_ms = real_mono_ns() / 1000000;
	finish(s);
	return true;
}

static void *writer(void *u)
{
	struct store *s = u;
	int64_t failing_since = -1;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		int64_t now = mono_ms(s), sleep_ms;
		uint64_t checkpoint_asked = s->checkpoint_asked, prune_asked = s->prune_asked;
		bool drained, closing, done;

		if (!work_due(s, now, &sleep_ms)) {
			wait_until(s, &s->work, sleep_ms);
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
			failing_since = real_mono_ns() / 1000000;
		if (s->stop && real_mono_ns() / 1000000 - failing_since > CLOSE_PATIENCE_MS)
			break;
		wait_until(s, &s->work, RETRY_MS);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
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
	struct wsinfo *w = ws_find(s, u->ws);

	for (const struct item_frame *f = u->frames; f; f = f->next) {
		struct boot *b = boot_find(w, f->boot, f->epoch);

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
		struct wsinfo *w = ws_find(s, u->ws);

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
		unit_free(units);
	}
	rows_free(closings);
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
			wait_until(s, &s->done, left);
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
	struct wsinfo *w = ws_get(u, ws);

	if (w)
		state_set(w, key, json);
}

static void load_boot(void *u, const char *ws, const char *boot, uint32_t epoch, uint64_t seq)
{
	struct wsinfo *w = ws_get(u, ws);
	struct boot *b = w ? boot_get(w, boot, epoch) : NULL;

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
		s->cfg.mono_ns = real_mono_ns;
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
	rc = pthread_create(&s->thread, NULL, writer, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_set(e, "timeline: cannot start its writer: %s", strerror(rc));
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
			state_set(w, w->states->key, NULL);
		free(w);
	}
}

static void units_free(struct unit *u)
{
	for (struct unit *next; u; u = next) {
		next = u->next;
		unit_free(u);
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
	unit_free(s->current);
	rows_free(s->batch.closings);
	rows_free(s->closings);
	drop_folds(&s->batch);
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
