/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Carries Sentry streams to the session, and its frames to hostd until they are durable. */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <holdfast/sentry.h>

#include "hostd/sentry/session.h"
#include "hostd/vm/vm.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum { OUT_MAX = 4096 };

struct conn {
	LIST_ENTRY(conn) list;
	struct sentry_link *link;
	struct vsock_stream *stream;
	uint64_t id;
	uint8_t out[OUT_MAX]; /* host records that wait for the guest's buffers */
	size_t out_len;
	bool stalled;	      /* left bytes unread because hostd is behind */
};

/* A frame that hostd has not made durable. */
struct held {
	STAILQ_ENTRY(held) list;
	json_t *json;
	uint64_t seq; /* of a hello: that of the frame before it */
	size_t len;
	uint8_t bytes[];
};

struct sentry_link {
	struct vm *vm;
	struct session *session;
	uint64_t next_id;
	LIST_HEAD(, conn) conns;
	STAILQ_HEAD(, held) held;
	size_t held_bytes;
	uint64_t last_seq;
	json_t *durable_state; /* of the last frame that hostd has made durable */
	bool full_told;
};

static struct conn *conn_find(struct sentry_link *l, uint64_t id)
{
	struct conn *c;

	LIST_FOREACH(c, &l->conns, list)
		if (c->id == id)
			return c;
	return NULL;
}

static void conn_free(struct conn *c)
{
	LIST_REMOVE(c, list);
	free(c);
}

/* ---- Session to stream ---- */

static void conn_flush(struct conn *c)
{
	ssize_t n = vsock_stream_write(c->stream, c->out, c->out_len);

	if (n <= 0)
		return;
	memmove(c->out, c->out + n, c->out_len - (size_t)n);
	c->out_len -= (size_t)n;
}

static int session_send(void *u, uint64_t id, const void *bytes, size_t len)
{
	struct conn *c = conn_find(u, id);

	if (!c || len > sizeof(c->out) - c->out_len)
		return -1;
	memcpy(c->out + c->out_len, bytes, len);
	c->out_len += len;
	conn_flush(c);
	return 0;
}

static void session_drop(void *u, uint64_t id)
{
	struct conn *c = conn_find(u, id);

	if (!c)
		return;
	vsock_stream_close(c->stream);
	conn_free(c);
}

/* ---- Session to hostd ---- */

static void session_frame(void *u, const struct session_frame *f)
{
	struct sentry_link *l = u;
	struct held *h = malloc(sizeof(*h) + f->len);
	json_t *state = session_export(l->session);
	json_t *event = json_copy((json_t *)f->json);
	json_t *json = json_pack("{s:s, s:I, s:I, s:I, s:o*, s:o*}", "kind", f->type, "seq",
				 (json_int_t)f->seq, "conn", (json_int_t)f->conn, "host_ms",
				 (json_int_t)(loop_unix_ns() / 1000000), "event", event, "state",
				 state);

	/* Without memory nothing can be kept: the frame stays unacknowledged and the guest says it again. */
	if (!h || !json) {
		free(h);
		json_decref(json);
		return;
	}
	json_object_del(event, "mac");
	if (f->seq)
		l->last_seq = f->seq;
	h->json = json;
	h->seq = l->last_seq;
	h->len = f->len;
	memcpy(h->bytes, f->bytes, f->len);
	STAILQ_INSERT_TAIL(&l->held, h, list);
	l->held_bytes += h->len;
	vm_up_blob(l->vm, ROLE_VM_SENTRY_FRAME, json_incref(json), h->bytes, h->len);
}

static void session_tamper(void *u, enum session_tamper reason, const char *text)
{
	struct sentry_link *l = u;

	vm_up(l->vm, ROLE_VM_TAMPER,
	      json_pack("{s:s, s:s, s:I}", "reason", session_tamper_name(reason), "text", text,
			"host_ms", (json_int_t)(loop_unix_ns() / 1000000)));
}

/* Not tampering yet, and a row all the same; that it is over shows in the rows that follow. */
static void session_quiet(void *u, uint64_t quiet_ms)
{
	struct sentry_link *l = u;

	if (quiet_ms)
		vm_up(l->vm, ROLE_VM_TAMPER,
		      json_pack("{s:s, s:s, s:I}", "reason", "silence_warning", "text", "", "host_ms",
				(json_int_t)(loop_unix_ns() / 1000000)));
}

/* ---- Stream to session ---- */

static void stream_open(struct vsock_stream *s, void *u)
{
	struct sentry_link *l = u;
	struct conn *c = calloc(1, sizeof(*c));

	if (c)
		c->id = l->next_id++;
	if (!c || session_conn_open(l->session, c->id)) {
		free(c);
		vsock_stream_reset(s);
		return;
	}
	c->link = l;
	c->stream = s;
	LIST_INSERT_HEAD(&l->conns, c, list);
	vsock_stream_set_user(s, c);
}

static bool must_wait(struct sentry_link *l)
{
	bool full = l->held_bytes >= ROLE_HELD_FRAMES_MAX;

	if (full && !l->full_told)
		vm_alarm(l->vm, "frames_full", "hostd makes no frames durable; the Sentry has to wait");
	l->full_told = full;
	return full || vm_up_crowded(l->vm);
}

static size_t stream_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	struct conn *c = u;

	(void)s;
	if (must_wait(c->link)) {
		c->stalled = true;
		return 0;
	}
	session_conn_bytes(c->link->session, c->id, p, n); /* c may be gone */
	return n;
}

static void stream_writable(struct vsock_stream *s, void *u)
{
	(void)s;
	conn_flush(u);
}

static void stream_shutdown(struct vsock_stream *s, void *u)
{
	struct conn *c = u;

	session_conn_close(c->link->session, c->id);
	vsock_stream_close(s);
	conn_free(c);
}

static void stream_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	struct conn *c = u;

	(void)s;
	(void)reason;
	session_conn_close(c->link->session, c->id);
	conn_free(c);
}

/* ---- Life ---- */

struct sentry_link *sentry_link_new(struct vm *vm, struct err *err)
{
	static const struct vsock_ops streams = {
		.on_open = stream_open,
		.on_data = stream_data,
		.on_writable = stream_writable,
		.on_shutdown = stream_shutdown,
		.on_close = stream_close,
	};
	static const struct session_ops ops = {
		.send = session_send,
		.frame = session_frame,
		.tamper = session_tamper,
		.quiet = session_quiet,
		.drop = session_drop,
	};
	struct session_cfg cfg = {
		.required = !strcmp(vm->cfg.sentry_mode, "required"),
		.state = json_is_null(vm->cfg.sentry_state) ? NULL : vm->cfg.sentry_state,
	};
	struct sentry_link *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, "out of memory");
		return NULL;
	}
	l->vm = vm;
	l->next_id = 1;
	LIST_INIT(&l->conns);
	STAILQ_INIT(&l->held);
	memcpy(cfg.boot_key, vm->cfg.boot_key, sizeof(cfg.boot_key));
	l->session = session_new(&cfg, &ops, l, err);
	explicit_bzero(cfg.boot_key, sizeof(cfg.boot_key));
	if (l->session && !vsock_listen(vhost_user_vsock(vm->device), HF_SENTRY_PORT, &streams, l))
		return l;
	if (l->session)
		err_set(err, "the Sentry's port is taken");
	sentry_link_free(l);
	return NULL;
}

static void held_drop_first(struct sentry_link *l)
{
	struct held *h = STAILQ_FIRST(&l->held);

	STAILQ_REMOVE_HEAD(&l->held, list);
	l->held_bytes -= h->len;
	json_decref(l->durable_state);
	l->durable_state = json_incref(json_object_get(h->json, "state"));
	json_decref(h->json);
	free(h);
}

void sentry_link_free(struct sentry_link *l)
{
	struct conn *c;

	if (!l)
		return;
	while ((c = LIST_FIRST(&l->conns))) {
		vsock_stream_close(c->stream);
		conn_free(c);
	}
	while (!STAILQ_EMPTY(&l->held))
		held_drop_first(l);
	json_decref(l->durable_state);
	session_free(l->session);
	free(l);
}

void sentry_link_tick(struct sentry_link *l)
{
	struct conn *c;

	/* A guest that is not listened to is not silent: hostd makes nothing durable, or is gone. */
	bool wait = must_wait(l);

	session_tick(l->session, loop_now_ms(), l->vm->running && !wait);
	if (wait)
		return;
	/* Resuming may end a connection, so begin anew after each. */
again:
	LIST_FOREACH(c, &l->conns, list) {
		if (!c->stalled)
			continue;
		c->stalled = false;
		vsock_stream_resume(c->stream);
		goto again;
	}
}

void sentry_link_durable(struct sentry_link *l, uint64_t seq)
{
	while (!STAILQ_EMPTY(&l->held) && STAILQ_FIRST(&l->held)->seq <= seq)
		held_drop_first(l);
	session_durable(l->session, seq);
}

void sentry_link_challenge(struct sentry_link *l)
{
	session_challenge(l->session);
}

void sentry_link_digest(struct sentry_link *l, const char *hex)
{
	session_guest_digest(l->session, hex);
}

void sentry_link_resend(struct sentry_link *l, uint64_t durable_seq)
{
	struct held *h;

	sentry_link_durable(l, durable_seq);
	STAILQ_FOREACH(h, &l->held, list)
		vm_up_blob(l->vm, ROLE_VM_SENTRY_FRAME, json_incref(h->json), h->bytes, h->len);
}

size_t sentry_link_held(const struct sentry_link *l)
{
	const struct held *h;
	size_t n = 0;

	STAILQ_FOREACH(h, &l->held, list)
		n++;
	return n;
}

void sentry_link_end(struct sentry_link *l, bool by_host)
{
	session_end(l->session, by_host);
}

const json_t *sentry_link_durable_state(const struct sentry_link *l)
{
	return l->durable_state;
}

json_t *sentry_link_status(const struct sentry_link *l)
{
	struct session_status st;

	session_status(l->session, &st);
	return json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:i}", "connected", st.connected,
			 "ever_connected", st.ever_connected, "last_seq", (json_int_t)st.last_seq,
			 "durable_seq", (json_int_t)st.durable_seq, "running_ms",
			 (json_int_t)st.running_ms, "quiet_ms", (json_int_t)st.quiet_ms, "phase",
			 st.phase);
}
