/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One entry at a time from the caller, redacted as it is copied in, to the queue. */
#include "hostd/store/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/store/redact.h"
#include "hostd/store/store_parts.h"
#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/json.h"

static void broken(struct store *s, const char *why)
{
	if (!s->broken)
		s->broken = strdup(why);
}

void store_begin(struct store *s, const char *ws)
{
	st_unit_free(s->current);
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
	struct wsinfo *w = u ? st_ws_find(s, u->ws) : NULL;
	struct boot *b = st_boot_find(w, f->boot, f->epoch);
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
	item->host_ns = f->host_ns ? f->host_ns : st_wall_ns(s);
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
	if (!data || !subject || !(item = st_row_copy(r, r->ws && *r->ws ? r->ws : u->ws, subject, data))) {
		broken(s, "out of memory");
		return;
	}
	if (!item->r.host_ns)
		item->r.host_ns = st_wall_ns(s);
	if (!item->r.count)
		item->r.count = 1;
	item->at_ms = st_mono_ms(s);
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

void st_wake_caller(struct store *s)
{
	uint64_t one = 1;

	if (write(s->fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

/* What the mirrors must say once the entry is taken. */
static int mirror(struct store *s, struct wsinfo *w, const struct unit *u)
{
	for (const struct item_frame *f = u->frames; f; f = f->next) {
		struct boot *b = st_boot_get(w, f->boot, f->epoch);

		if (!b)
			return -1;
		b->taken = f->seq;
	}
	for (const struct item_state *st = u->states; st; st = st->next)
		st_state_set(w, st->key, st->json);
	(void)s;
	return 0;
}

static bool has_room(const struct store *s, const struct wsinfo *w, size_t bytes)
{
	return w->queued + bytes <= s->cfg.ws_queue_bytes && s->queued_bytes + bytes <= s->cfg.queue_bytes;
}

bool store_has_room(struct store *s, const char *ws, size_t bytes)
{
	struct wsinfo *w = st_ws_get(s, ws && *ws ? ws : HOSTD_WS);
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
		st_unit_free(u);
		return err_set(e, "timeline: %s", s->broken);
	}
	if (u->seen) {
		st_unit_free(u);
		st_wake_caller(s);
		return STORE_SEEN;
	}
	w = st_ws_get(s, u->ws);
	if (!w) {
		st_unit_free(u);
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
	st_unit_free(u);
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
	struct wsinfo *w = st_ws_find(s, ws && *ws ? ws : HOSTD_WS);

	for (struct state *st = w ? w->states : NULL; st; st = st->next)
		if (!strcmp(st->key, key))
			return strdup(st->json);
	return NULL;
}

uint64_t store_last_seq(struct store *s, const char *ws, const char *boot, uint32_t epoch)
{
	const struct boot *b = st_boot_find(st_ws_find(s, ws), boot, epoch);

	return b ? b->taken : 0;
}

uint64_t store_durable_seq(struct store *s, const char *ws, const char *boot, uint32_t epoch)
{
	const struct boot *b = st_boot_find(st_ws_find(s, ws), boot, epoch);

	return b ? b->durable : 0;
}
