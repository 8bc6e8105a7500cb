/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sandboxd's status stream: u32 length and one JSON object, both ways. All of it the guest's word. */
#include <stdlib.h>
#include <string.h>

#include <holdfast/guest.h>

#include "hostd/vm/vm.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum { LENGTH_BYTES = 4, OUT_MAX = 256 * 1024, DIGEST_HEX = 64 };

static const struct json_limits limits = { .bytes = HF_CONTROL_MESSAGE_MAX, .depth = 12, .values = 8192 };

struct guest_link {
	struct vm *vm;
	struct vsock_stream *stream; /* NULL: sandboxd is not connected */
	struct buf in, out;
	bool stalled;
};

static void forget(struct guest_link *l)
{
	l->stream = NULL;
	l->stalled = false;
	buf_clear(&l->in);
	buf_clear(&l->out);
}

static void flush(struct guest_link *l)
{
	ssize_t n = vsock_stream_write(l->stream, l->out.data, l->out.len);

	if (n > 0)
		buf_drop(&l->out, (size_t)n);
}

/* What the Sentry's session compares with the module's own words. */
static void tell_session(struct guest_link *l, const json_t *msg)
{
	const json_t *sentry = json_object_get(msg, "sentry");
	const json_t *loaded = json_object_get(sentry, "loaded");
	const char *digest = json_string_value(json_object_get(sentry, "secret_digest"));

	if (!l->vm->sentry || !json_is_boolean(loaded))
		return;
	if (json_is_false(loaded))
		sentry_link_digest(l->vm->sentry, NULL);
	else if (digest && strlen(digest) == DIGEST_HEX)
		sentry_link_digest(l->vm->sentry, digest);
}

/* One message, if it is there whole: 1 taken, 0 more bytes are needed, -1 not what sandboxd says. */
static int take(struct guest_link *l)
{
	struct rd r;
	const uint8_t *text;
	uint32_t n;
	json_t *msg;

	rd_init(&r, l->in.data, l->in.len);
	if (rd_u32(&r, &n))
		return 0;
	if (!n || n > HF_CONTROL_MESSAGE_MAX)
		return -1;
	if (rd_bytes(&r, &text, n))
		return 0;
	msg = json_parse(text, n, &limits, NULL);
	if (!json_is_object(msg)) {
		json_decref(msg);
		return -1;
	}
	buf_drop(&l->in, LENGTH_BYTES + n);
	tell_session(l, msg);
	if (json_is_true(json_object_get(msg, "ready")))
		vm_guest_ready(l->vm);
	vm_up(l->vm, ROLE_VM_GUEST_STATUS, json_pack("{s:o}", "msg", msg));
	return 1;
}

static size_t stream_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	struct guest_link *l = u;
	int rc;

	if (vm_up_crowded(l->vm) || buf_put(&l->in, p, n)) {
		l->stalled = true;
		return 0;
	}
	while ((rc = take(l)) > 0)
		;
	if (rc < 0) {
		vm_alarm(l->vm, "guest_garbage", "sandboxd's stream carried what sandboxd does not say");
		vsock_stream_reset(s);
		forget(l);
	}
	return n;
}

static void stream_open(struct vsock_stream *s, void *u)
{
	struct guest_link *l = u;

	/* sandboxd keeps one stream; whoever comes second while it lives is not sandboxd. */
	if (l->stream) {
		vsock_stream_reset(s);
		vm_alarm(l->vm, "guest_second", "a second program connected to sandboxd's port");
		return;
	}
	forget(l);
	l->stream = s;
	vm_tell_time(l->vm);
}

static void stream_writable(struct vsock_stream *s, void *u)
{
	(void)s;
	flush(u);
}

static void stream_shutdown(struct vsock_stream *s, void *u)
{
	vsock_stream_close(s);
	forget(u);
}

static void stream_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	(void)s;
	(void)reason;
	forget(u);
}

struct guest_link *guest_link_new(struct vm *vm)
{
	static const struct vsock_ops streams = {
		.on_open = stream_open,
		.on_data = stream_data,
		.on_writable = stream_writable,
		.on_shutdown = stream_shutdown,
		.on_close = stream_close,
	};
	struct guest_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->vm = vm;
	/* Room for a message and for one packet beyond it. */
	buf_init(&l->in, LENGTH_BYTES + HF_CONTROL_MESSAGE_MAX + VSOCK_BUF_ALLOC);
	buf_init(&l->out, OUT_MAX);
	if (vsock_listen(vhost_user_vsock(vm->device), HF_PORT_CONTROL, &streams, l)) {
		guest_link_free(l);
		return NULL;
	}
	return l;
}

void guest_link_free(struct guest_link *l)
{
	if (!l)
		return;
	if (l->stream)
		vsock_stream_close(l->stream);
	buf_free(&l->in);
	buf_free(&l->out);
	free(l);
}

void guest_link_tick(struct guest_link *l)
{
	if (l->stream && l->stalled && !vm_up_crowded(l->vm)) {
		l->stalled = false;
		vsock_stream_resume(l->stream);
	}
}

int guest_link_send(struct guest_link *l, const json_t *msg)
{
	_cleanup_free_ char *text = json_text(msg);
	size_t n = text ? strlen(text) : 0;

	if (!l->stream || !n || n > HF_CONTROL_MESSAGE_MAX || l->out.len + n + LENGTH_BYTES > OUT_MAX)
		return -1;
	buf_put_u32(&l->out, (uint32_t)n);
	buf_put(&l->out, text, n);
	flush(l);
	return 0;
}
