// SPDX-License-Identifier: GPL-2.0-or-later
/* The control stream: u32 length and JSON, both ways, one connection kept up for ever. */
#include "sandboxd/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include <holdfast/guest.h>

#include "lib/buf.h"
#include "lib/json.h"
#include "sandboxd/attest.h"
#include "sandboxd/supervisor.h"

enum { OUT_MAX = 1024 * 1024, READ_CHUNK = 4096, CHANGE_MS = 20 };

struct guest_control {
	struct guest_supervisor *v;
	int fd;
	struct loop_fd *watch;
	bool connected, change_due;
	struct buf in, out;
	unsigned connects, ignored;
};

static void disconnect(struct guest_control *c);

static void watch(struct guest_control *c)
{
	loop_fd_mod(c->watch, EPOLLIN | (c->out.len || !c->connected ? EPOLLOUT : 0));
}

static int flush(struct guest_control *c)
{
	while (c->out.len) {
		ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		buf_drop(&c->out, (size_t)n);
	}
	return 0;
}

/* Takes the reference. What the host does not read is dropped whole, never grown without bound. */
static void send_json(struct guest_control *c, json_t *json)
{
	char *text = json ? json_text(json) : NULL;
	size_t n = text ? strlen(text) : 0;

	if (text && n <= HF_CONTROL_MESSAGE_MAX && c->out.len + n + 4 <= OUT_MAX) {
		buf_put_u32(&c->out, (uint32_t)n);
		buf_put(&c->out, text, n);
	}
	free(text);
	json_decref(json);
}

static void send_status(struct guest_control *c)
{
	json_t *status = guest_status_json(c->v);
	char *text = json_text(status);

	/* Whatever the steps say, a status goes out. */
	if (text && strlen(text) > HF_CONTROL_MESSAGE_MAX)
		json_object_del(status, "steps");
	free(text);
	send_json(c, status);
}

static void answer_who(struct guest_control *c, const json_t *o)
{
	struct guest_flow flow = { .udp = false };
	const char *proto, *dst;
	int64_t id, sport, dport;
	struct in_addr address;
	json_t *answer;

	if (json_get_int(o, "id", &id, NULL) < 0 || json_get_str(o, "proto", &proto, NULL) < 0 ||
	    json_get_str(o, "dst", &dst, NULL) < 0 || json_get_int(o, "sport", &sport, NULL) < 0 ||
	    json_get_int(o, "dport", &dport, NULL) < 0 || inet_pton(AF_INET, dst, &address) != 1 || sport < 1 ||
	    sport > 65535 || dport < 0 || dport > 65535) {
		c->ignored++;
		return;
	}
	flow.udp = !strcmp(proto, "udp");
	flow.sport = (uint16_t)sport;
	flow.dport = (uint16_t)dport;
	flow.dst = address.s_addr;
	answer = guest_attest_who(c->v->guest, &flow);
	json_object_set_new(answer, "id", json_integer(id));
	send_json(c, answer);
}

static void answer_time(struct guest_control *c, const json_t *o)
{
	int64_t id, unix_ns, step_ms;

	if (json_opt_int(o, "id", &id, 0, NULL) < 0 || json_get_int(o, "unix_ns", &unix_ns, NULL) < 0) {
		c->ignored++;
		return;
	}
	step_ms = guest_supervisor_time(c->v, unix_ns);
	send_json(c, json_pack("{s:s, s:I, s:I}", "type", "time", "id", (json_int_t)id, "stepped_ms",
			       (json_int_t)step_ms));
}

/* The policy changed, and with it the programs that the Sentry has to hash. */
static void take_programs(struct guest_control *c, const json_t *o)
{
	char list[HF_SENTRY_HASH_LIST_MAX + 1];

	if (!json_is_array(json_object_get(o, "programs")) || guest_hash_list(json_object_get(o, "programs"), list, NULL) < 0)
		c->ignored++;
	else
		guest_supervisor_hash_programs(c->v->guest, list);
}

static void take_message(struct guest_control *c, const uint8_t *text, size_t n)
{
	static const struct json_limits limits = { .bytes = HF_CONTROL_MESSAGE_MAX, .depth = 4, .values = 4096 };
	_cleanup_json_ json_t *o = json_parse(text, n, &limits, NULL);
	const char *type;

	if (!o || json_get_str(o, "type", &type, NULL) < 0)
		c->ignored++;
	else if (!strcmp(type, "who"))
		answer_who(c, o);
	else if (!strcmp(type, "time"))
		answer_time(c, o);
	else if (!strcmp(type, "status"))
		send_status(c);
	else if (!strcmp(type, "hash_programs"))
		take_programs(c, o);
	else
		c->ignored++;
}

/* -1 when the stream makes no sense any more. */
static int take_messages(struct guest_control *c)
{
	for (;;) {
		const uint8_t *text;
		uint32_t n;
		struct rd r;

		rd_init(&r, c->in.data, c->in.len);
		if (rd_u32(&r, &n) < 0)
			return 0;
		if (n > HF_CONTROL_MESSAGE_MAX)
			return -1;
		if (rd_bytes(&r, &text, n) < 0)
			return 0;
		take_message(c, text, n);
		buf_drop(&c->in, 4 + (size_t)n);
	}
}

static int fill(struct guest_control *c)
{
	uint8_t *room = buf_room(&c->in, READ_CHUNK);
	ssize_t n = room ? recv(c->fd, room, READ_CHUNK, MSG_DONTWAIT) : -1;

	if (n > 0)
		c->in.len += (size_t)n;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : -1;
}

static int finish_connect(struct guest_control *c)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
		return -1;
	c->connected = true;
	c->connects++;
	send_status(c);
	return 0;
}

static void on_event(void *user, int fd, uint32_t events)
{
	struct guest_control *c = user;
	int r = 0;

	(void)fd;
	if (!c->connected)
		r = events & (EPOLLERR | EPOLLHUP) ? -1 : events & EPOLLOUT ? finish_connect(c) : 0;
	else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = fill(c) < 0 ? -1 : take_messages(c);
	if (r == 0 && c->connected)
		r = flush(c);
	if (r < 0)
		disconnect(c);
	else
		watch(c);
}

static void connect_host(struct guest_control *c)
{
	struct sockaddr_vm host = { .svm_family = AF_VSOCK, .svm_cid = HF_HOST_CID, .svm_port = HF_PORT_CONTROL };

	c->fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return;
	if (connect(c->fd, (struct sockaddr *)&host, sizeof(host)) < 0 && errno != EINPROGRESS) {
		disconnect(c);
		return;
	}
	c->watch = loop_fd_add(c->v->loop, c->fd, EPOLLIN | EPOLLOUT, on_event, c, NULL);
	if (!c->watch)
		disconnect(c);
}

static void disconnect(struct guest_control *c)
{
	loop_fd_del(c->watch);
	c->watch = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->connected = false;
	buf_clear(&c->in);
	buf_clear(&c->out);
}

static void on_retry(void *user)
{
	struct guest_control *c = user;

	if (c->fd < 0)
		connect_host(c);
}

static void push(struct guest_control *c)
{
	if (!c->connected)
		return;
	send_status(c);
	if (flush(c) < 0)
		disconnect(c);
	else
		watch(c);
}

static void on_period(void *user)
{
	push(user);
}

static void on_change(void *user)
{
	struct guest_control *c = user;

	c->change_due = false;
	push(c);
}

/* Changes come in bursts; one status tells them all. */
void guest_control_changed(struct guest_control *c)
{
	if (!c || c->change_due)
		return;
	c->change_due = loop_timer_add(c->v->loop, CHANGE_MS, 0, on_change, c) != NULL;
}

struct guest_control *guest_control_new(struct guest_supervisor *v)
{
	struct guest_control *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->v = v;
	c->fd = -1;
	buf_init(&c->in, HF_CONTROL_MESSAGE_MAX + 4 + READ_CHUNK);
	buf_init(&c->out, OUT_MAX);
	connect_host(c);
	loop_timer_add(v->loop, HF_CONTROL_RETRY_MS, HF_CONTROL_RETRY_MS, on_retry, c);
	loop_timer_add(v->loop, HF_CONTROL_STATUS_MS, HF_CONTROL_STATUS_MS, on_period, c);
	return c;
}

json_t *guest_control_json(const struct guest_control *c)
{
	return json_pack("{s:i, s:i}", "connects", c ? (int)c->connects : 0, "ignored", c ? (int)c->ignored : 0);
}
