/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's machine protocol: asynchronous commands by id, events, descriptors. */
#include "hostd/vm/qmp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

struct command {
	TAILQ_ENTRY(command) list;
	json_int_t id;
	char *text; /* NULL once it was sent */
	size_t off;
	int fd;
	qmp_done done;
	void *u;
};

struct qmp {
	struct loop *loop;
	struct loop_fd *watch;
	int fd;
	const struct qmp_ops *ops;
	void *u;
	bool greeted, closed, freed;
	unsigned busy; /* callbacks on the stack */
	char version[32];
	int major;
	json_int_t next_id;
	size_t n;
	TAILQ_HEAD(, command) commands; /* sent ones first, then those that wait */
	struct buf in;
};

static const struct json_limits limits = { .bytes = QMP_LINE_MAX, .depth = 32, .values = 65536 };

static void command_free(struct qmp *q, struct command *c)
{
	TAILQ_REMOVE(&q->commands, c, list);
	q->n--;
	if (c->fd >= 0)
		close(c->fd);
	free(c->text);
	free(c);
}

static void reap(struct qmp *q)
{
	if (q->busy || !q->freed)
		return;
	while (!TAILQ_EMPTY(&q->commands))
		command_free(q, TAILQ_FIRST(&q->commands));
	buf_free(&q->in);
	free(q);
}

static void answer(struct qmp *q, struct command *c, const json_t *result, const char *error)
{
	qmp_done done = c->done;
	void *u = c->u;

	command_free(q, c);
	if (done && !q->freed)
		done(u, result, error);
}

static void shut(struct qmp *q, const char *why)
{
	if (q->closed)
		return;
	q->closed = true;
	loop_fd_del(q->watch);
	close(q->fd);
	q->busy++;
	while (!TAILQ_EMPTY(&q->commands) && !q->freed)
		answer(q, TAILQ_FIRST(&q->commands), NULL, why);
	if (!q->freed)
		q->ops->closed(q->u, why);
	q->busy--;
}

static int send_some(struct qmp *q, struct command *c)
{
	size_t left = strlen(c->text) - c->off;
	ssize_t n = io_send_fds(q->fd, c->text + c->off, left, &c->fd, c->fd >= 0 ? 1 : 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->off += (size_t)n;
	if ((size_t)n == left) {
		free(c->text);
		c->text = NULL;
	}
	return 0;
}

static void flush(struct qmp *q)
{
	struct command *c;

	if (q->closed || !q->greeted)
		return;
	TAILQ_FOREACH(c, &q->commands, list) {
		/* On failure the read side hears of the end, from a stack of its own. */
		if (c->text && send_some(q, c))
			return;
		if (c->text)
			break;
	}
	loop_fd_mod(q->watch, c ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int greet(struct qmp *q, const json_t *qmp)
{
	const json_t *v = json_object_get(json_object_get(qmp, "version"), "qemu");
	json_int_t major = json_integer_value(json_object_get(v, "major"));

	if (q->greeted || !v)
		return -1;
	q->greeted = true;
	q->major = (int)major;
	snprintf(q->version, sizeof(q->version), "%d.%d.%d", q->major,
		 (int)json_integer_value(json_object_get(v, "minor")),
		 (int)json_integer_value(json_object_get(v, "micro")));
	flush(q);
	return 0;
}

static int message(struct qmp *q, const json_t *m)
{
	const json_t *greeting = json_object_get(m, "QMP");
	const char *event = json_string_value(json_object_get(m, "event"));
	const json_t *error = json_object_get(m, "error");
	const json_t *id = json_object_get(m, "id");
	struct command *c;

	if (greeting)
		return greet(q, greeting);
	if (event) {
		q->ops->event(q->u, event, json_object_get(m, "data"));
		return 0;
	}
	if (!json_is_integer(id))
		return -1;
	TAILQ_FOREACH(c, &q->commands, list) {
		const char *text = json_string_value(json_object_get(error, "desc"));

		if (c->id != json_integer_value(id) || c->text)
			continue;
		if (error)
			answer(q, c, NULL, text ? text : "error without a text");
		else
			answer(q, c, json_object_get(m, "return"), NULL);
		return 0;
	}
	return -1;
}

static int line(struct qmp *q, const uint8_t *p, size_t n)
{
	_cleanup_json_ json_t *m = NULL;

	while (n && (p[n - 1] == '\r' || p[n - 1] == '\n'))
		n--;
	if (!n)
		return 0;
	m = json_parse(p, n, &limits, NULL);
	return m && json_is_object(m) ? message(q, m) : -1;
}

static void take_lines(struct qmp *q)
{
	size_t at = 0;

	while (!q->closed && !q->freed && at < q->in.len) {
		const uint8_t *from = q->in.data + at;
		const uint8_t *nl = memchr(from, '\n', q->in.len - at);

		if (!nl)
			break;
		at += (size_t)(nl - from) + 1;
		if (line(q, from, (size_t)(nl - from)))
			shut(q, "QEMU sent what is no QMP");
	}
	buf_drop(&q->in, at);
}

static void ready(void *u, int fd, uint32_t events)
{
	struct qmp *q = u;
	uint8_t *room;
	ssize_t n = 0;

	q->busy++;
	if (events & EPOLLOUT)
		flush(q);
	if (!q->closed && (events & ~(uint32_t)EPOLLOUT)) {
		room = buf_room(&q->in, 16384);
		n = room ? read(fd, room, 16384) : -1;
		if (n > 0) {
			q->in.len += (size_t)n;
			take_lines(q);
		} else if (!room) {
			shut(q, "QEMU sent an endless line");
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			shut(q, "QEMU closed its monitor");
		}
	}
	q->busy--;
	reap(q);
}

struct qmp *qmp_new(struct loop *loop, int fd, const struct qmp_ops *ops, void *u, struct err *err)
{
	struct qmp *q = calloc(1, sizeof(*q));

	if (!q) {
		close(fd);
		err_set(err, "out of memory");
		return NULL;
	}
	*q = (struct qmp){ .loop = loop, .fd = fd, .ops = ops, .u = u };
	TAILQ_INIT(&q->commands);
	buf_init(&q->in, QMP_LINE_MAX + 16384);
	if (io_set_nonblock(fd) || !(q->watch = loop_fd_add(loop, fd, EPOLLIN, ready, q, err))) {
		close(fd);
		free(q);
		return NULL;
	}
	qmp_command(q, "qmp_capabilities", NULL, -1, NULL, NULL);
	return q;
}

void qmp_free(struct qmp *q)
{
	if (!q)
		return;
	if (!q->closed) {
		loop_fd_del(q->watch);
		close(q->fd);
	}
	q->closed = q->freed = true;
	reap(q);
}

int qmp_command(struct qmp *q, const char *name, json_t *args, int fd, qmp_done done, void *u)
{
	_cleanup_json_ json_t *m = json_pack("{s:s, s:I, s:o*}", "execute", name, "id", q->next_id,
					     "arguments", args);
	_cleanup_free_ char *text = m ? json_dumps(m, JSON_COMPACT) : NULL;
	struct command *c;

	if (!text || q->closed || q->n == QMP_PENDING_MAX || !(c = calloc(1, sizeof(*c))))
		return -1;
	c->id = q->next_id++;
	c->done = done;
	c->u = u;
	c->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	c->text = steal_ptr(&text);
	TAILQ_INSERT_TAIL(&q->commands, c, list);
	q->n++;
	flush(q);
	return 0;
}

const char *qmp_version(const struct qmp *q)
{
	return q->version;
}

int qmp_version_major(const struct qmp *q)
{
	return q->major;
}
