/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folding of rows.
 *
 * Theory of operation. Rows that read the same (kind, verdict and sentence; a sentence names no process id) within the
 * window of their kind are one thing to a reader: the first is written at once and opens a window, the others are
 * counted, and a timer closes the window with one row that holds their number, the number of processes, the sum of
 * their points and of their byte counts. Counts of rows add up to the number of events. The table is bounded: a
 * workspace that has FOLD_PER_WS windows open gets one window for each kind that takes whatever comes, so a guest
 * that makes up a new name each time costs at most FOLD_PER_WS rows a window and no memory beyond.
 */
#include "hostd/store/fold.h"

#include <stdlib.h>
#include <string.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/json.h"

#define BUCKETS 4096

const char *const fold_sums[] = { "bytes_up", "bytes_down", "growth", NULL };
enum { SUMS = 3 };

struct window {
	struct window *next_in_bucket;
	struct window *older, *newer; /* by when they end */
	struct tenant *tenant;
	uint8_t key[STORE_HASH_BYTES];
	int64_t due_ms;
	bool dirty, overflow;
	/* the closing row */
	char *subject, *data;
	enum event_kind kind;
	enum event_verdict verdict;
	uint32_t epoch, count, procs;
	unsigned weight;
	uint64_t seen[FOLD_PROCS];
	int64_t sum[SUMS];
};

/* Open windows of a workspace. Kept when it has none: there are as many as workspaces. */
struct tenant {
	struct tenant *next;
	char *ws;
	size_t open;
};

struct fold {
	struct tenant *tenants;
	struct window *buckets[BUCKETS];
	struct window *oldest, *newest;
	size_t total;
};

struct fold *fold_new(void)
{
	return calloc(1, sizeof(struct fold));
}

static void window_free(struct window *w)
{
	w->tenant->open--;
	free(w->subject);
	free(w->data);
	free(w);
}

void fold_free(struct fold *f)
{
	if (!f)
		return;
	for (struct window *w = f->oldest, *next; w; w = next) {
		next = w->newer;
		window_free(w);
	}
	for (struct tenant *t = f->tenants, *next; t; t = next) {
		next = t->next;
		free(t->ws);
		free(t);
	}
	free(f);
}

static struct tenant *tenant_get(struct fold *f, const char *ws)
{
	struct tenant *t = f->tenants;

	while (t && strcmp(t->ws, ws) != 0)
		t = t->next;
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t || !(t->ws = strdup(ws))) {
		free(t);
		return NULL;
	}
	t->next = f->tenants;
	f->tenants = t;
	return t;
}

static void key_of(const struct store_row *row, const char *sentence, uint8_t key[STORE_HASH_BYTES])
{
	struct buf b;

	buf_init(&b, 1 << 16);
	buf_put_str(&b, row->ws);
	buf_put_u8(&b, 0);
	buf_put_u32(&b, row->kind);
	buf_put_u32(&b, row->verdict);
	buf_put_str(&b, sentence);
	hash_sha256(key, b.data, b.len);
	buf_free(&b);
}

static struct window **slot(struct fold *f, const uint8_t key[STORE_HASH_BYTES])
{
	struct window **w = &f->buckets[(key[0] << 8 | key[1]) % BUCKETS];

	while (*w && memcmp((*w)->key, key, STORE_HASH_BYTES) != 0)
		w = &(*w)->next_in_bucket;
	return w;
}

/* Windows have few different lengths, so an insert from the end finds its place at once. */
static void list_add(struct fold *f, struct window *w)
{
	struct window *before = f->newest;

	while (before && before->due_ms > w->due_ms)
		before = before->older;
	w->older = before;
	w->newer = before ? before->newer : f->oldest;
	if (w->newer)
		w->newer->older = w;
	else
		f->newest = w;
	if (before)
		before->newer = w;
	else
		f->oldest = w;
	f->total++;
}

static void remove_window(struct fold *f, struct window *w)
{
	struct window **s = slot(f, w->key);

	*s = w->next_in_bucket;
	if (w->older)
		w->older->newer = w->newer;
	else
		f->oldest = w->newer;
	if (w->newer)
		w->newer->older = w->older;
	else
		f->newest = w->older;
	f->total--;
	window_free(w);
}

static struct window *open_window(struct fold *f, struct tenant *tenant, const struct store_row *row, const uint8_t key[STORE_HASH_BYTES],
				  int64_t due_ms, bool overflow)
{
	struct window *w = calloc(1, sizeof(*w)), **s;

	if (!w)
		return NULL;
	memcpy(w->key, key, STORE_HASH_BYTES);
	w->due_ms = due_ms;
	w->overflow = overflow;
	w->kind = row->kind;
	w->verdict = row->verdict;
	w->epoch = row->epoch;
	w->tenant = tenant;
	tenant->open++;
	w->subject = strdup(overflow ? "" : row->subject ? row->subject : "");
	w->data = strdup(overflow ? "{\"folded\":\"too many different ones to list\"}" : row->data ? row->data : "{}");
	if (!w->subject || !w->data) {
		window_free(w);
		return NULL;
	}
	s = slot(f, key);
	w->next_in_bucket = *s;
	*s = w;
	list_add(f, w);
	return w;
}

static void count_process(struct window *w, uint64_t proc)
{
	if (!proc || w->procs == FOLD_PROCS)
		return;
	for (uint32_t i = 0; i < w->procs; i++)
		if (w->seen[i] == proc)
			return;
	w->seen[w->procs++] = proc;
}

/* Adds @row's own numbers; data is searched as text, since only few kinds have any of these members. */
static void add_sums(struct window *w, const struct store_row *row)
{
	_cleanup_json_ json_t *data = NULL;

	if (!row->data || (!strstr(row->data, "bytes_") && !strstr(row->data, "growth")))
		return;
	data = json_loads(row->data, 0, NULL);
	for (int i = 0; i < SUMS; i++)
		w->sum[i] += json_integer_value(json_object_get(data, fold_sums[i]));
}

static void absorb(struct window *w, const struct store_row *row)
{
	w->count += row->count ? row->count : 1;
	w->weight += row->weight;
	count_process(w, row->proc);
	add_sums(w, row);
	w->dirty = true;
}

bool fold_take(struct fold *f, const struct store_row *row, const char *sentence, int64_t now_ms)
{
	unsigned window_s = event_defs[row->kind].fold_s;
	uint8_t key[STORE_HASH_BYTES];
	struct tenant *tenant;
	struct window *w;

	if (!window_s)
		return false;
	key_of(row, sentence, key);
	w = *slot(f, key);
	if (w) { /* also when it is over and its timer comes with the next turn */
		absorb(w, row);
		return true;
	}
	tenant = tenant_get(f, row->ws);
	if (!tenant)
		return false;
	if (f->total >= FOLD_TOTAL || tenant->open >= FOLD_PER_WS) {
		key_of(row, "\x01" "overflow", key);
		w = *slot(f, key);
		if (!w)
			w = open_window(f, tenant, row, key, now_ms + window_s * 1000, true);
		if (!w)
			return false;
		absorb(w, row);
		return true;
	}
	w = open_window(f, tenant, row, key, now_ms + window_s * 1000, false);
	if (w)
		count_process(w, row->proc);
	return false;
}

static char *closing_data(const struct window *w)
{
	_cleanup_json_ json_t *data = NULL;
	bool any = false;

	for (int i = 0; i < SUMS; i++)
		any = any || w->sum[i];
	if (!any)
		return NULL;
	data = json_loads(w->data, 0, NULL);
	if (!data)
		return NULL;
	for (int i = 0; i < SUMS; i++)
		if (w->sum[i])
			json_object_set_new(data, fold_sums[i], json_integer(w->sum[i]));
	return json_text(data);
}

void fold_close(struct fold *f, int64_t now_ms, fold_row_fn fn, void *u)
{
	while (f->oldest && f->oldest->due_ms <= now_ms) {
		struct window *w = f->oldest;

		if (w->count) {
			_cleanup_free_ char *data = closing_data(w);
			struct store_row row = {
				.ws = w->tenant->ws,
				.epoch = w->epoch,
				.kind = w->kind,
				.verdict = w->verdict,
				.weight = w->weight,
				.count = w->count,
				.procs = w->procs,
				.subject = w->subject,
				.data = data ? data : w->data,
				.fold = true,
			};

			fn(u, &row, w->key);
		}
		remove_window(f, w);
	}
}

int64_t fold_next(const struct fold *f)
{
	return f->oldest ? f->oldest->due_ms : INT64_MAX;
}

void fold_save(struct fold *f, fold_save_fn fn, void *u)
{
	for (struct window *w = f->newest; w; w = w->older) {
		_cleanup_json_ json_t *obj = NULL;
		_cleanup_free_ char *text = NULL;

		if (!w->dirty)
			continue;
		w->dirty = false;
		obj = json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:s,s:s,s:[I,I,I]}", "ws", w->tenant->ws, "kind",
				event_defs[w->kind].name, "verdict", event_verdict_name(w->verdict), "epoch",
				(int)w->epoch, "count", (int)w->count, "procs", (int)w->procs, "weight", (int)w->weight,
				"subject", w->subject, "data", w->data, "sums", (json_int_t)w->sum[0],
				(json_int_t)w->sum[1], (json_int_t)w->sum[2]);
		text = obj ? json_text(obj) : NULL;
		if (text)
			fn(u, w->key, text);
	}
}

int fold_load(struct fold *f, const uint8_t key[STORE_HASH_BYTES], const char *json)
{
	_cleanup_json_ json_t *obj = json_loads(json, 0, NULL);
	struct store_row row = { 0 };
	json_int_t sum[SUMS] = { 0 };
	const char *kind, *verdict;
	int epoch, count, procs, weight, k, v;
	struct tenant *tenant;
	struct window *w;

	if (!obj ||
	    json_unpack(obj, "{s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:s,s:s,s:[I,I,I]}", "ws", &row.ws, "kind", &kind, "verdict",
			&verdict, "epoch", &epoch, "count", &count, "procs", &procs, "weight", &weight, "subject",
			&row.subject, "data", &row.data, "sums", &sum[0], &sum[1], &sum[2]) ||
	    (k = event_find(kind)) < 0 || (v = event_verdict_find(verdict)) < 0)
		return -1;
	row.kind = (enum event_kind)k;
	row.verdict = (enum event_verdict)v;
	row.epoch = (uint32_t)epoch;
	tenant = tenant_get(f, row.ws);
	w = tenant ? open_window(f, tenant, &row, key, INT64_MIN, false) : NULL;
	if (!w)
		return -1;
	w->count = (uint32_t)count;
	w->procs = (uint32_t)procs;
	w->weight = (unsigned)weight;
	for (int i = 0; i < SUMS; i++)
		w->sum[i] = sum[i];
	return 0;
}
