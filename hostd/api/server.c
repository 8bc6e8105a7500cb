/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API's server: requests of the same user over a unix socket, answered at once or later. */
#include "hostd/api/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/api/api.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/log.h"

/*
 * Theory of operation. A connection carries frames of u32 length and one JSON object, both ways. The
 * server speaks first with {"hello":{"version":N}}. Each request has an id of the client's choice that
 * is not in use on the connection; the answer, and pushes before it, carry that id. Output is queued
 * up to twice a frame, pushes up to half of that, so that whoever lets a slow client go can tell it; a client that does
 * not read its answers either is dropped. Descriptors travel with
 * the first byte of the frame they belong to, so frames with one are sent only when the queue is empty
 * or wait in it with a mark.
 */
enum { OUT_MAX = 2 * API_FRAME_MAX, PUSHES_MAX = API_FRAME_MAX, READ_CHUNK = 65536 };

static const struct json_limits limits = { .bytes = API_FRAME_MAX, .depth = 16, .values = 200000 };

struct api_call {
	struct connection *connection;
	struct api_call *next;
	json_int_t id;
	void (*on_cancel)(void *user);
	void *cancel_user;
};

struct connection {
	struct api_server *server;
	struct connection *next;
	struct loop_fd *watch;
	struct api_call *calls;
	struct buf in, out;
	int fd, pid;
	int pass_fd;	   /* descriptor that goes with byte pass_at of out; -1 = none */
	size_t pass_at;
	unsigned int busy; /* handlers on the stack */
	bool dead;
};

struct api_server {
	struct loop *loop;
	struct loop_fd *watch;
	const struct api_method *methods;
	bool (*refuses)(void *user, int pid);
	void *user;
	struct connection *connections;
	char *path;
	int fd;
};

static void call_free(struct api_call *call)
{
	struct api_call **at = &call->connection->calls;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	free(call);
}

static void connection_free(struct connection *c)
{
	struct connection **at = &c->server->connections;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	buf_free(&c->in);
	buf_free(&c->out);
	free(c);
}

/* Ends the connection; frees it once no handler of it is on the stack. */
static void drop(struct connection *c)
{
	if (c->dead)
		return;
	c->dead = true;
	loop_fd_del(c->watch);
	close(c->fd);
	if (c->pass_fd >= 0)
		close(c->pass_fd);
	c->busy++;
	while (c->calls) {
		struct api_call *call = c->calls;

		if (call->on_cancel)
			call->on_cancel(call->cancel_user);
		call_free(call);
	}
	if (!--c->busy)
		connection_free(c);
}

static void flush(struct connection *c)
{
	while (c->out.len && !c->dead) {
		bool passing = c->pass_fd >= 0 && c->pass_at == 0;
		size_t n = c->pass_fd >= 0 && !passing ? c->pass_at : c->out.len;
		ssize_t sent = io_send_fds(c->fd, c->out.data, n, &c->pass_fd, passing ? 1 : 0);

		if (sent < 0) {
			if (errno != EAGAIN && errno != EWOULDBLOCK)
				drop(c);
			else
				loop_fd_mod(c->watch, EPOLLIN | EPOLLOUT);
			return;
		}
		if (passing)
			close(steal_fd(&c->pass_fd));
		else if (c->pass_fd >= 0)
			c->pass_at -= (size_t)sent;
		buf_drop(&c->out, (size_t)sent);
	}
	if (!c->dead)
		loop_fd_mod(c->watch, EPOLLIN);
}

static int queue(struct connection *c, json_t *frame, int fd)
{
	_cleanup_free_ char *text = frame ? json_text(frame) : NULL;
	size_t n = text ? strlen(text) : 0;

	json_decref(frame);
	if (!text || n > API_FRAME_MAX || c->dead || (fd >= 0 && c->pass_fd >= 0))
		return -1;
	if (c->out.len + 4 + n > c->out.max)
		return -1;
	if (fd >= 0) {
		c->pass_fd = dup(fd);
		c->pass_at = c->out.len;
		io_set_cloexec(c->pass_fd);
	}
	buf_put_u32(&c->out, (uint32_t)n);
	return buf_put(&c->out, text, n);
}

/* Sends outside of the caller's stack frames that still hold the connection. */
static void send_soon(struct connection *c)
{
	if (!c->dead)
		loop_fd_mod(c->watch, EPOLLIN | EPOLLOUT);
}

static void answer(struct api_call *call, json_t *frame, int fd)
{
	struct connection *c = call->connection;
	int rc = queue(c, frame, fd);

	call_free(call);
	if (!rc) {
		send_soon(c);
		return;
	}
	/* without it the client would wait for ever */
	log_warn("api: an answer to pid %d was too long or not read: it is let go", c->pid);
	drop(c);
}

void api_reply(struct api_call *call, json_t *result)
{
	api_reply_fd(call, result, -1);
}

void api_reply_fd(struct api_call *call, json_t *result, int fd)
{
	answer(call, json_pack("{s:I,s:b,s:o}", "id", call->id, "ok", 1, "result",
			       result ? result : json_object()), fd);
}

void api_fail(struct api_call *call, const char *fmt, ...)
{
	struct err err;
	va_list ap;
	char text[sizeof(err.text)];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&err, "%s", text);
	api_fail_err(call, &err);
}

void api_fail_err(struct api_call *call, const struct err *err)
{
	json_t *frame = json_pack("{s:I,s:b,s:s}", "id", call->id, "ok", 0, "error", err->text);

	if (!frame)
		frame = json_pack("{s:I,s:b,s:s}", "id", call->id, "ok", 0, "error",
				  "failed, with a reason that is not text");
	answer(call, frame, -1);
}

int api_push(struct api_call *call, json_t *event)
{
	struct connection *c = call->connection;
	int rc = -1;

	if (c->out.len < PUSHES_MAX)
		rc = queue(c, json_pack("{s:I,s:o}", "id", call->id, "event", event), -1);
	else
		json_decref(event);
	send_soon(c);
	return rc;
}

void api_call_on_cancel(struct api_call *call, void (*fn)(void *user), void *user)
{
	call->on_cancel = fn;
	call->cancel_user = user;
}

int api_call_pid(const struct api_call *call)
{
	return call->connection->pid;
}

static const struct api_method *method_named(const struct api_server *server, const char *name)
{
	const struct api_method *m = server->methods;

	while (m->name && strcmp(m->name, name))
		m++;
	return m->name ? m : NULL;
}

static struct api_call *call_new(struct connection *c, json_int_t id)
{
	struct api_call *call;
	size_t open = 0;

	for (call = c->calls; call; call = call->next, open++)
		if (call->id == id)
			return NULL;
	call = open < API_CALLS_MAX ? calloc(1, sizeof(*call)) : NULL;
	if (!call)
		return NULL;
	*call = (struct api_call){ .connection = c, .next = c->calls, .id = id };
	c->calls = call;
	return call;
}

static void dispatch(struct connection *c, const json_t *request)
{
	static const char *const keys[] = { "id", "method", "params", NULL };
	const struct api_method *method;
	struct api_call *call;
	json_t *params = json_object_get(request, "params");
	const char *name;
	struct err err;
	int64_t id;

	if (!json_is_object(request) || json_get_int(request, "id", &id, &err) ||
	    !(call = call_new(c, id))) {
		drop(c);
		return;
	}
	if (json_only_keys(request, keys, &err) || json_get_str(request, "method", &name, &err)) {
		api_fail_err(call, &err);
		return;
	}
	method = method_named(c->server, name);
	if (!method) {
		api_fail(call, "unknown method \"%s\" (this hostd speaks API version %d)", name, API_VERSION);
		return;
	}
	if (params && !json_is_object(params)) {
		api_fail(call, "\"params\" must be an object");
		return;
	}
	if (params && json_only_keys(params, method->params, &err)) {
		api_fail(call, "%s: %s", name, err.text);
		return;
	}
	method->fn(c->server->user, call, params);
}

/* Handles every whole frame in the input. */
static void take_frames(struct connection *c)
{
	while (!c->dead && c->in.len >= 4) {
		struct rd r;
		uint32_t n;
		struct err err;
		json_t *request;

		rd_init(&r, c->in.data, c->in.len);
		rd_u32(&r, &n);
		if (n > API_FRAME_MAX) {
			drop(c);
			return;
		}
		if (r.left < n)
			return;
		request = json_parse(r.p, n, &limits, &err);
		buf_drop(&c->in, 4 + (size_t)n);
		if (!request) {
			log_warn("api: pid %d sent no JSON: %s", c->pid, err.text);
			drop(c);
			return;
		}
		dispatch(c, request);
		json_decref(request);
	}
}

static void receive(struct connection *c)
{
	uint8_t *to = buf_room(&c->in, READ_CHUNK);
	ssize_t got;

	if (!to) {
		drop(c);
		return;
	}
	got = recv(c->fd, to, READ_CHUNK, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		drop(c);
		return;
	}
	c->in.len += (size_t)got;
	take_frames(c);
}

static void on_connection(void *user, int fd, uint32_t events)
{
	struct connection *c = user;

	(void)fd;
	c->busy++;
	if (events & EPOLLOUT)
		flush(c);
	if (!c->dead && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
	if (!c->dead)
		flush(c);
	if (!--c->busy && c->dead)
		connection_free(c);
}

static bool is_welcome(const struct api_server *server, int fd, int *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	*pid = cred.pid;
	return cred.uid == geteuid() && !(server->refuses && server->refuses(server->user, cred.pid));
}

static void on_accept(void *user, int listener, uint32_t events)
{
	struct api_server *server = user;
	struct connection *c;
	size_t open = 0;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), pid;

	(void)events;
	if (fd < 0)
		return;
	for (c = server->connections; c; c = c->next)
		open++;
	c = open < API_CONNECTIONS_MAX && is_welcome(server, fd, &pid) ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	*c = (struct connection){ .server = server, .next = server->connections, .fd = fd, .pid = pid,
				  .pass_fd = -1 };
	buf_init(&c->in, API_FRAME_MAX + 4 + READ_CHUNK);
	buf_init(&c->out, OUT_MAX);
	c->watch = loop_fd_add(server->loop, fd, EPOLLIN, on_connection, c, NULL);
	if (!c->watch) {
		close(fd);
		free(c);
		return;
	}
	server->connections = c;
	queue(c, json_pack("{s:{s:i}}", "hello", "version", API_VERSION), -1);
	send_soon(c);
}

struct api_server *api_server_new(struct loop *loop, const char *path, const struct api_method *methods,
				  bool (*refuses)(void *user, int pid), void *user, struct err *err)
{
	struct api_server *server = calloc(1, sizeof(*server));

	if (!server) {
		err_set(err, "out of memory");
		return NULL;
	}
	*server = (struct api_server){ .loop = loop, .methods = methods,
				       .refuses = refuses, .user = user, .path = strdup(path), .fd = -1 };
	server->fd = io_unix_listen(path, SOCK_STREAM, err);
	if (server->fd >= 0)
		server->watch = loop_fd_add(loop, server->fd, EPOLLIN, on_accept, server, err);
	if (!server->watch) {
		api_server_free(server);
		return NULL;
	}
	return server;
}

void api_server_free(struct api_server *server)
{
	if (!server)
		return;
	while (server->connections)
		drop(server->connections);
	loop_fd_del(server->watch);
	if (server->fd >= 0) {
		close(server->fd);
		unlink(server->path);
	}
	free(server->path);
	free(server);
}
