/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One workspace's way from an event to the store: parse, judge, row, state, in one entry. */
#include "hostd/sentry/ingest.h"

#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cleanup.h"
#include "lib/json.h"

#define DERIVED_MAX 32
#define STATE_KEY "judge"
#define STATE_EVERY_MS 5000 /* the judge's clock, when nothing else changed */
#define ROOM_BYTES (192 * 1024) /* for the rows and the state that come with a frame */

struct derived {
	enum event_kind kind;
	unsigned points;
	json_t *data;
};

struct ingest {
	struct store *store;
	char ws[STORE_WS_MAX];
	struct judge *judge;
	struct ingest_ops ops;
	void *u;
	char boot[STORE_BOOT_MAX];
	uint32_t epoch;
	int64_t saved_ms;
	struct derived derived[DERIVED_MAX];
	unsigned n_derived;
	bool tripped;
	uint64_t lost;
	/* of the last event that had points, for the alert of a trip that comes from a timer */
	enum event_kind last_kind;
	char last_sentence[512];
};

/* The judge speaks while it judges; what it says is written after the row of the event. */
static void on_derived(void *u, enum event_kind kind, unsigned points, const json_t *data)
{
	struct ingest *in = u;

	if (kind == EVENT_SCORE_TRIP)
		in->tripped = true;
	if (in->n_derived == DERIVED_MAX)
		return;
	in->derived[in->n_derived++] = (struct derived){ .kind = kind, .points = points,
							 .data = json_incref((json_t *)data) };
}

struct ingest *ingest_new(struct store *s, const char *ws, const struct judge_config *cfg, const struct ingest_ops *ops,
			  void *u, int64_t now_ms)
{
	struct ingest *in = calloc(1, sizeof(*in));
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *state = NULL;

	if (!in)
		return NULL;
	snprintf(in->ws, sizeof(in->ws), "%s", ws);
	in->store = s;
	if (ops)
		in->ops = *ops;
	in->u = u;
	in->judge = judge_new(cfg, on_derived, in);
	if (!in->judge) {
		free(in);
		return NULL;
	}
	text = s ? store_get_state(s, ws, STATE_KEY) : NULL;
	state = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (state)
		judge_import(in->judge, now_ms, state, NULL); /* of another version: a fresh window */
	in->saved_ms = now_ms;
	return in;
}

static void drop_derived(struct ingest *in)
{
	for (unsigned i = 0; i < in->n_derived; i++)
		json_decref(in->derived[i].data);
	in->n_derived = 0;
	in->tripped = false;
}

void ingest_free(struct ingest *in)
{
	if (!in)
		return;
	drop_derived(in);
	judge_free(in->judge);
	free(in);
}

struct judge *ingest_judge(struct ingest *in)
{
	return in->judge;
}

static void add_row(struct ingest *in, struct store_row *r, const json_t *data)
{
	_cleanup_free_ char *text = json_text(data);
	char subject[STORE_SUBJECT_MAX];

	event_subject(r->kind, data, subject, sizeof(subject));
	r->ws = in->ws;
	r->epoch = in->epoch;
	r->subject = subject;
	r->data = text;
	if (in->store)
		store_row(in->store, r);
}

static void add_derived(struct ingest *in, uint64_t seq)
{
	for (unsigned i = 0; i < in->n_derived; i++) {
		struct store_row r = { .kind = in->derived[i].kind,
				       .verdict = event_defs[in->derived[i].kind].verdict,
				       .weight = in->derived[i].points,
				       .boot = in->boot,
				       .seq = seq };

		add_row(in, &r, in->derived[i].data);
	}
}

/* Rows that found no room: their number is a row as soon as there is some. */
static void add_lost(struct ingest *in)
{
	_cleanup_json_ json_t *data = NULL;
	struct store_row r = { .kind = EVENT_ROWS_LOST, .verdict = event_defs[EVENT_ROWS_LOST].verdict };

	if (!in->lost)
		return;
	data = json_pack("{s:I}", "growth", (json_int_t)in->lost);
	add_row(in, &r, data);
}

static void add_state(struct ingest *in, int64_t now_ms)
{
	_cleanup_json_ json_t *state = NULL;
	_cleanup_free_ char *text = NULL;

	if (!in->store || (!judge_dirty(in->judge) && now_ms - in->saved_ms < STATE_EVERY_MS))
		return;
	state = judge_export(in->judge, now_ms);
	text = state ? json_text(state) : NULL;
	if (text)
		store_state(in->store, STATE_KEY, text);
	in->saved_ms = now_ms;
}

static void begin(struct ingest *in)
{
	if (in->store)
		store_begin(in->store, in->ws);
}

/* Ends the entry, then tells of a trip: the alert speaks of rows that are on their way. */
static int end(struct ingest *in, int64_t now_ms, const json_t *chain, struct err *e)
{
	struct ingest_alert alert = { .ws = in->ws, .kind = in->last_kind, .sentence = in->last_sentence,
				      .chain = chain, .at_ms = now_ms };
	bool tripped = in->tripped;
	int rc;

	add_lost(in);
	add_state(in, now_ms);
	rc = in->store ? store_end(in->store, e) : STORE_OK;
	in->lost = rc == STORE_BUSY ? in->lost + 1 : rc == STORE_OK ? 0 : in->lost;
	if (tripped) {
		alert.score = judge_score(in->judge, now_ms);
		alert.n_parts = judge_parts(in->judge, now_ms, alert.parts);
		for (unsigned i = 0; i < in->n_derived; i++)
			if (in->derived[i].kind == EVENT_SCORE_TRIP)
				alert.threshold = (unsigned)json_integer_value(
					json_object_get(in->derived[i].data, "threshold"));
	}
	drop_derived(in);
	if (tripped && in->ops.trip)
		in->ops.trip(in->u, &alert);
	return rc;
}

static void remember(struct ingest *in, enum event_kind kind, unsigned points, const json_t *data)
{
	char subject[STORE_SUBJECT_MAX];

	if (!points && in->last_sentence[0] && !in->tripped)
		return;
	event_subject(kind, data, subject, sizeof(subject));
	in->last_kind = kind;
	event_sentence(kind, subject, data, in->last_sentence, sizeof(in->last_sentence));
}

static void mark(json_t *data, const struct judge_result *res)
{
	if (res->exempt)
		json_object_set_new(data, "exempt", json_true());
	if (res->muted)
		json_object_set_new(data, "muted", json_true());
}

/* An alarm by its kind that is none in fact (a signed module, sandboxd raising lockdown) is a note. */
static enum event_verdict verdict_of(const struct judge_event *ev, const struct judge_result *res)
{
	enum event_verdict v = event_defs[ev->kind].verdict;

	if (v >= VERDICT_WARNING && !res->points && (ev->free || res->exempt || res->muted))
		return VERDICT_NOTE;
	if (res->points >= 10)
		return VERDICT_ALARM;
	return v;
}

/* What of a frame a row needs; the whole frame, with its chain, is stored beside it. */
static json_t *frame_data(enum event_kind kind, const json_t *frame)
{
	static const char *const left_out[] = { "v", "type", "seq", "t", "mac", "chain", "secret", "proof", "probes" };
	json_t *data = json_copy((json_t *)frame);
	char *call;

	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		json_object_del(data, left_out[i]);
	if (kind == EVENT_SECCOMP_DENIED) {
		call = seccomp_syscall_resolve_num_arch((uint32_t)json_integer_value(json_object_get(frame, "arch")),
							(int)json_integer_value(json_object_get(frame, "syscall")));
		if (call)
			json_object_set_new(data, "call", json_string(call));
		free(call);
	}
	return data;
}

int ingest_frame(struct ingest *in, int64_t now_ms, const char *type, uint64_t seq, const json_t *event,
		 const void *raw, size_t raw_len, const char *state, struct err *e)
{
	struct store_frame f = { .boot = in->boot, .epoch = in->epoch, .seq = seq, .raw = raw, .raw_len = raw_len,
				 .event = event, .state = state };
	struct judge_event ev;
	struct judge_result res;
	_cleanup_json_ json_t *data = NULL;

	if (in->store && seq && store_last_seq(in->store, in->ws, in->boot, in->epoch) >= seq)
		return store_append_frame(in->store, in->ws, &f, e); /* STORE_SEEN: told again, not judged again */
	if (in->store && !store_has_room(in->store, in->ws, raw_len + ROOM_BYTES)) {
		err_set(e, "timeline: the queue of %s is full", in->ws);
		return STORE_BUSY;
	}
	if (judge_frame(in->judge, now_ms, type, event, &ev, &res))
		return ingest_tamper(in, now_ms, "garbage", type, e);
	begin(in);
	if (seq && in->store)
		store_frame(in->store, &f);
	else if (state && in->store)
		store_state(in->store, "session", state);
	data = frame_data(ev.kind, event);
	if (!(event_defs[ev.kind].flags & EVENT_NO_ROW)) {
		struct store_row r = { .kind = ev.kind,
				       .verdict = verdict_of(&ev, &res),
				       .weight = res.points,
				       .count = ev.count,
				       .boot = seq ? in->boot : NULL,
				       .seq = seq,
				       .guest_ns = json_integer_value(json_object_get(event, "t")),
				       .proc = ev.pid ? store_proc((uint64_t)ev.pid, ev.start_ns) : 0 };

		mark(data, &res);
		add_row(in, &r, data);
		remember(in, ev.kind, res.points, data);
	}
	add_derived(in, seq);
	return end(in, now_ms, json_object_get(event, "chain"), e);
}

static const char *text_of(const json_t *data, const char *key)
{
	return json_string_value(json_object_get(data, key));
}

int ingest_event(struct ingest *in, int64_t now_ms, enum event_kind kind, const json_t *data, struct err *e)
{
	struct judge_event ev = { .kind = kind, .syscall = -1 };
	struct judge_result res;
	_cleanup_json_ json_t *copy = data ? json_copy((json_t *)data) : json_object();
	struct store_row r = { .kind = kind };

	ev.program = text_of(copy, "program");
	ev.pid = json_integer_value(json_object_get(copy, "pid"));
	ev.start_ns = (uint64_t)json_integer_value(json_object_get(copy, "start_ns"));
	ev.count = json_integer_value(json_object_get(copy, "count")) > 0 ?
			   (uint32_t)json_integer_value(json_object_get(copy, "count")) : 1;
	ev.sandboxed = json_is_true(json_object_get(copy, "sandbox"));
	ev.subtree = text_of(copy, "tool_call");
	if (kind == EVENT_FLOW_ALLOWED || kind == EVENT_REQUEST_ALLOWED) {
		ev.dest = text_of(copy, kind == EVENT_REQUEST_ALLOWED ? "host" : "name");
		if (!ev.dest || !*ev.dest)
			ev.dest = text_of(copy, "dst");
	}
	judge_event(in->judge, now_ms, &ev, &res);
	begin(in);
	mark(copy, &res);
	r.verdict = verdict_of(&ev, &res);
	r.weight = res.points;
	r.count = ev.count;
	r.proc = ev.pid ? store_proc((uint64_t)ev.pid, ev.start_ns) : 0;
	add_row(in, &r, copy);
	remember(in, kind, res.points, copy);
	add_derived(in, 0);
	return end(in, now_ms, json_object_get(copy, "chain"), e);
}

int ingest_tamper(struct ingest *in, int64_t now_ms, const char *reason, const char *text, struct err *e)
{
	int kind = event_find(reason);
	_cleanup_json_ json_t *data = json_pack("{s:s*}", "text", text && *text ? text : NULL);

	if (kind < 0 || event_defs[kind].engine != ENGINE_SENTRY) {
		json_object_set_new(data, "reason", json_string(reason));
		kind = EVENT_GARBAGE;
	}
	if (!data) /* text of the guest that is no UTF-8 */
		data = json_object();
	return ingest_event(in, now_ms, (enum event_kind)kind, data, e);
}

/* Rows of the judge alone: a timer, the volume, a phase. */
static void flush(struct ingest *in, int64_t now_ms)
{
	if (!in->n_derived && !judge_dirty(in->judge))
		return;
	if (in->n_derived) {
		for (unsigned i = 0; i < in->n_derived; i++)
			if (in->derived[i].kind != EVENT_SCORE_TRIP)
				remember(in, in->derived[i].kind, in->derived[i].points, in->derived[i].data);
	}
	begin(in);
	add_derived(in, 0);
	end(in, now_ms, NULL, NULL);
}

void ingest_reconfigure(struct ingest *in, int64_t now_ms, const struct judge_config *cfg, const char *author)
{
	_cleanup_json_ json_t *data = NULL;
	char text[1024];

	if (!judge_config_diff(judge_config(in->judge), cfg, text, sizeof(text)))
		return;
	data = json_pack("{s:s*,s:s}", "author", author, "text", text);
	ingest_event(in, now_ms, EVENT_JUDGE_CONFIGURED, data, NULL);
	judge_reconfigure(in->judge, now_ms, cfg);
	flush(in, now_ms);
}

void ingest_tick(struct ingest *in, int64_t now_ms)
{
	judge_tick(in->judge, now_ms);
	flush(in, now_ms);
}

void ingest_volume(struct ingest *in, int64_t now_ms, uint64_t bytes_up_total)
{
	judge_volume(in->judge, now_ms, bytes_up_total);
	flush(in, now_ms);
}

void ingest_running(struct ingest *in, int64_t now_ms, bool running)
{
	judge_running(in->judge, now_ms, running);
	flush(in, now_ms);
}

void ingest_attach(struct ingest *in, const char *boot, uint32_t epoch)
{
	snprintf(in->boot, sizeof(in->boot), "%s", boot);
	in->epoch = epoch;
}

void ingest_boot(struct ingest *in, const char *boot, uint32_t epoch, int64_t now_ms)
{
	ingest_attach(in, boot, epoch);
	judge_boot(in->judge, now_ms);
	flush(in, now_ms);
}

int ingest_release(struct ingest *in, int64_t now_ms, const char *author, struct err *e)
{
	_cleanup_json_ json_t *data = json_pack("{s:s*}", "author", author);

	judge_release(in->judge, now_ms);
	return ingest_event(in, now_ms, EVENT_RELEASED, data, e);
}
