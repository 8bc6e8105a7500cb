// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sessions.
 *
 * A session is started by one client; its child says over a close-on-exec pipe whether it was executed or
 * which step failed. Output is read only while the client takes it, so a slow client slows the program and
 * never grows a buffer here. The exit frame follows the last byte that the program itself wrote: once it is
 * reaped, what stands in its pipes is read to the end, while descendants that kept them open are not waited
 * for. The session lives on, in its own cgroup, until that is empty.
 */
#include "sandboxd/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/osc52.h"

enum { HANGUP_MS = 5000, SWEEP_MS = 500, STDIN_HIGH = 128 * 1024, PTY_GROUP = 5 };

struct output {
	struct guest_session *session;
	struct loop_fd *watch;
	int fd;
	uint8_t type;
};

struct guest_session {
	struct guest_sessions *all;
	struct guest_session *next;
	char name[16];
	pid_t pid;		/* 0 once reaped */
	int status;
	bool executed, failed, pty, detach, raw, in_eof, ended;
	int cgroup_fd;
	int error_fd;
	struct loop_fd *error_watch;
	struct guest_child_failure failure;
	size_t failure_len;
	int in_fd;		/* of a terminal: a copy of out[0].fd */
	struct loop_fd *in_watch;
	struct buf in;
	struct output out[2];
	struct osc52 osc52;
	struct buf scrollback;
	struct guest_conn *client;
	struct loop_timer *kill_timer;
	json_t *env_dropped;
};

struct guest_sessions {
	struct loop *loop;
	const struct guest_confine *confine;
	struct guest_session *list;
	struct loop_timer *sweep;
	unsigned next_name;
};

static void advance(struct guest_session *s);

json_t *guest_refusal(const char *step, const char *path, int error_nr, const char *text, int code)
{
	char line[600];

	snprintf(line, sizeof(line), "%s%s%s: %s", step, *path ? " " : "", path, text ? text : strerror(error_nr));
	return json_pack("{s:b, s:s, s:s, s:i, s:s, s:i}", "ok", 0, "step", step, "path", path, "errno", error_nr,
			 "error", line, "code", code);
}

static void close_output(struct output *o)
{
	loop_fd_del(o->watch);
	o->watch = NULL;
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
}

static void close_input(struct guest_session *s)
{
	loop_fd_del(s->in_watch);
	s->in_watch = NULL;
	if (s->in_fd >= 0)
		close(s->in_fd);
	s->in_fd = -1;
	buf_clear(&s->in);
}

static void close_streams(struct guest_session *s)
{
	close_input(s);
	close_output(&s->out[0]);
	close_output(&s->out[1]);
}

static void session_free(struct guest_session *s)
{
	close_streams(s);
	loop_fd_del(s->error_watch);
	if (s->error_fd >= 0)
		close(s->error_fd);
	if (s->cgroup_fd >= 0)
		close(s->cgroup_fd);
	loop_timer_del(s->kill_timer);
	guest_conn_free(s->client);
	buf_free(&s->in);
	buf_free(&s->scrollback);
	json_decref(s->env_dropped);
	free(s);
}

static void unlink_session(struct guest_session *s)
{
	struct guest_session **at = &s->all->list;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
}

static void kill_all(struct guest_session *s)
{
	if (s->cgroup_fd >= 0)
		guest_write_file(s->cgroup_fd, "cgroup.kill", "1");
}

static void on_kill_timer(void *user)
{
	struct guest_session *s = user;

	s->kill_timer = NULL;
	kill_all(s);
}

/* The program's own group; a terminal's foreground group. */
static void signal_foreground(struct guest_session *s, int signal)
{
	pid_t group = 0;

	if (s->pty && s->out[0].fd >= 0 && ioctl(s->out[0].fd, TIOCGPGRP, &group) == 0 && group > 1)
		kill(-group, signal);
	else if (s->pid > 1 && s->executed)
		kill(-s->pid, signal);
}

/* Without a client a session that was not detached is hung up, and killed a little later. */
static void hang_up(struct guest_session *s)
{
	if (s->pid > 1 && s->executed) {
		kill(-s->pid, SIGHUP);
		kill(-s->pid, SIGCONT);
	}
	close_streams(s);
	if (!s->kill_timer)
		s->kill_timer = loop_timer_add(s->all->loop, HANGUP_MS, 0, on_kill_timer, s);
}

static void keep_scrollback(struct guest_session *s, const uint8_t *bytes, size_t n)
{
	if (n > HF_EXEC_SCROLLBACK) {
		bytes += n - HF_EXEC_SCROLLBACK;
		n = HF_EXEC_SCROLLBACK;
	}
	if (s->scrollback.len + n > HF_EXEC_SCROLLBACK)
		buf_drop(&s->scrollback, s->scrollback.len + n - HF_EXEC_SCROLLBACK);
	buf_put(&s->scrollback, bytes, n);
}

static void deliver(struct guest_session *s, uint8_t type, const uint8_t *bytes, size_t n)
{
	if (s->detach)
		keep_scrollback(s, bytes, n);
	if (!s->client || !n)
		return;
	if (s->raw)
		guest_conn_send_raw(s->client, bytes, n);
	else
		guest_conn_send(s->client, type, bytes, n);
}

/* Reads once. 1: there may be more, 0: nothing now, -1: closed for good. */
static int read_output(struct output *o)
{
	static uint8_t raw[HF_EXEC_DATA_MAX - OSC52_HELD], clean[HF_EXEC_DATA_MAX];
	struct guest_session *s = o->session;
	ssize_t n = read(o->fd, raw, sizeof(raw));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	if (s->pty)
		deliver(s, o->type, clean, osc52_filter(&s->osc52, raw, (size_t)n, clean));
	else
		deliver(s, o->type, raw, (size_t)n);
	return 1;
}

static bool may_read(const struct guest_session *s)
{
	return s->executed && (s->client ? guest_conn_waiting(s->client) < GUEST_CONN_HIGH : s->detach);
}

/* A watch exists only while its output is wanted: a hung-up pipe would otherwise wake us for ever. */
static void set_watch(struct output *o, bool on);

static void on_output(void *user, int fd, uint32_t events)
{
	struct output *o = user;

	(void)fd;
	(void)events;
	if (read_output(o) < 0)
		close_output(o);
	advance(o->session);
}

static void set_watch(struct output *o, bool on)
{
	if (o->fd < 0 || on == (o->watch != NULL))
		return;
	if (on) {
		o->watch = loop_fd_add(o->session->all->loop, o->fd, EPOLLIN, on_output, o, NULL);
	} else {
		loop_fd_del(o->watch);
		o->watch = NULL;
	}
}

/* After the program was reaped: reads what it left. False while the client is too slow for that. */
static bool drained(struct guest_session *s)
{
	for (size_t i = 0; i < 2; i++) {
		while (s->out[i].fd >= 0) {
			int r;

			if (!may_read(s))
				return !s->client && !s->detach;
			r = read_output(&s->out[i]);
			if (r < 0)
				close_output(&s->out[i]);
			if (r <= 0)
				break;
		}
	}
	return true;
}

static void send_exit(struct guest_session *s)
{
	uint8_t exit[2] = { HF_EXEC_EXITED, (uint8_t)WEXITSTATUS(s->status) };

	if (WIFSIGNALED(s->status)) {
		exit[0] = HF_EXEC_SIGNALED;
		exit[1] = (uint8_t)WTERMSIG(s->status);
	}
	if (!s->client)
		return;
	if (s->pty && s->osc52.len)
		guest_conn_send(s->client, HF_EXEC_STDOUT, s->osc52.held, s->osc52.len);
	if (!s->raw)
		guest_conn_send(s->client, HF_EXEC_EXIT, exit, sizeof(exit));
	guest_conn_finish(s->client);
}

/* Moves a session on after anything happened to it. */
static void advance(struct guest_session *s)
{
	if (s->ended)
		return;
	if (s->executed && !s->pid && drained(s)) {
		send_exit(s);
		close_streams(s);
		s->ended = true;
		return;
	}
	for (size_t i = 0; i < 2; i++)
		set_watch(&s->out[i], may_read(s));
}

static void write_input(struct guest_session *s)
{
	size_t done = 0;

	while (s->in_fd >= 0 && done < s->in.len) {
		ssize_t n = write(s->in_fd, s->in.data + done, s->in.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			close_input(s);	/* the program does not read any more */
			break;
		}
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	buf_drop(&s->in, done);
	if (!s->in.len && s->in_eof)
		close_input(s);
	if (s->client)
		guest_conn_hold(s->client, s->in.len >= STDIN_HIGH);
}

static void on_input(void *user, int fd, uint32_t events);

static void watch_input(struct guest_session *s)
{
	bool want = s->in_fd >= 0 && s->in.len;

	if (want == (s->in_watch != NULL))
		return;
	if (!want) {
		loop_fd_del(s->in_watch);
		s->in_watch = NULL;
		return;
	}
	s->in_watch = loop_fd_add(s->all->loop, s->in_fd, EPOLLOUT, on_input, s, NULL);
}

static void on_input(void *user, int fd, uint32_t events)
{
	struct guest_session *s = user;

	(void)fd;
	(void)events;
	write_input(s);
	watch_input(s);
}

static void take_input(struct guest_session *s, const uint8_t *bytes, size_t n)
{
	if (s->in_fd < 0 || s->in_eof)
		return;
	buf_put(&s->in, bytes, n);
	write_input(s);
	watch_input(s);
}

static void resize(struct guest_session *s, uint16_t rows, uint16_t cols)
{
	struct winsize size = { .ws_row = rows, .ws_col = cols };

	if (s->pty && s->out[0].fd >= 0)
		ioctl(s->out[0].fd, TIOCSWINSZ, &size);
}

static void on_frame(void *user, struct guest_conn *c, uint8_t type, const uint8_t *payload, size_t len)
{
	struct guest_session *s = user;
	uint16_t rows, cols;
	struct rd r;

	switch (type) {
	case HF_EXEC_STDIN:
		take_input(s, payload, len);
		return;
	case HF_EXEC_EOF:
		s->in_eof = !s->pty;
		write_input(s);
		watch_input(s);
		return;
	case HF_EXEC_RESIZE:
		rd_init(&r, payload, len);
		if (rd_u16(&r, &rows) == 0 && rd_u16(&r, &cols) == 0)
			resize(s, rows, cols);
		return;
	case HF_EXEC_SIGNAL:
		if (len == 1 && payload[0] > 0 && payload[0] < NSIG)
			signal_foreground(s, payload[0]);
		return;
	default:
		guest_conn_refuse(c, "one request a connection");
	}
}

static void on_drained(void *user, struct guest_conn *c)
{
	(void)c;
	advance(user);
}

static void on_closed(void *user, struct guest_conn *c)
{
	struct guest_session *s = user;

	(void)c;
	s->client = NULL;
	if (s->ended || s->failed)
		return;
	if (!s->detach)
		hang_up(s);
	advance(s);
}

static const struct guest_conn_ops client_ops = { on_frame, on_drained, on_closed };

static json_t *started(const struct guest_session *s)
{
	return json_pack("{s:b, s:i, s:s, s:O}", "ok", 1, "pid", (int)s->pid, "session", s->name, "env_dropped",
			 s->env_dropped);
}

/* End of file means that exec closed the pipe. */
static void on_error_pipe(void *user, int fd, uint32_t events)
{
	struct guest_session *s = user;
	ssize_t n = read(fd, (char *)&s->failure + s->failure_len, sizeof(s->failure) - s->failure_len);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		s->failure_len += (size_t)n;
		if (s->failure_len < sizeof(s->failure))
			return;
	}
	loop_fd_del(s->error_watch);
	s->error_watch = NULL;
	if (!s->failure_len) {
		s->executed = true;
		if (s->client && !s->raw)
			guest_conn_reply(s->client, started(s));
		if (s->client)
			guest_conn_hold(s->client, false);
		else if (!s->detach)
			hang_up(s);
		advance(s);
		return;
	}
	s->failed = true;
	s->failure.step[sizeof(s->failure.step) - 1] = '\0';
	s->failure.path[sizeof(s->failure.path) - 1] = '\0';
	if (s->client) {
		guest_conn_reply(s->client, guest_refusal(s->failure.step, s->failure.path, s->failure.error_nr, NULL,
							  HF_EXEC_CODE_REFUSED));
		guest_conn_finish(s->client);
	}
	close_streams(s);
}

static int make_cgroup(struct guest_session *s)
{
	int parent = s->all->confine->guest->sandbox_cgroup_fd;

	if (mkdirat(parent, s->name, 0755) < 0 && errno != EEXIST)
		return -1;
	s->cgroup_fd = openat(parent, s->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->cgroup_fd < 0 ? -1 : 0;
}

/* A pipe whose child's end belongs to the session's user, who may open /dev/stdout anew. */
static int make_pipe(int ours, int fds[2], const struct guest_identity *who)
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	if (fchown(fds[0], who->uid, who->gid) < 0 || io_set_nonblock(fds[ours]) < 0)
		return -1;
	return 0;
}

static int make_terminal(struct guest_session *s, const struct guest_session_request *r, struct guest_child *child)
{
	const struct guest *g = s->all->confine->guest;
	bool own = s->all->confine->level >= GUEST_FILES && !r->unconfined;
	int master = own ? openat(g->pts_fd, "ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) :
			   guest_open_beneath(g->root_fd, "dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK, 0);
	int slave, unlock = 0;

	if (master < 0)
		return -1;
	s->out[0].fd = master;
	s->in_fd = fcntl(master, F_DUPFD_CLOEXEC, 3);	/* epoll takes a descriptor once */
	if (s->in_fd < 0 || ioctl(master, TIOCGPTN, &child->terminal_index) < 0)
		return -1;
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -1;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -1;
	child->in_fd = child->out_fd = child->err_fd = slave;
	child->terminal = true;
	resize(s, r->rows ? r->rows : 24, r->cols ? r->cols : 80);
	return fchown(slave, r->who->uid, PTY_GROUP) < 0 || fchmod(slave, 0620) < 0 ? -1 : 0;
}

static int make_pipes(struct guest_session *s, const struct guest_session_request *r, struct guest_child *child)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
	int failed = make_pipe(1, in, r->who) < 0 || make_pipe(0, out, r->who) < 0 || make_pipe(0, err, r->who) < 0;

	s->in_fd = in[1];
	s->out[0].fd = out[0];
	s->out[1].fd = err[0];
	child->in_fd = in[0];
	child->out_fd = out[1];
	child->err_fd = err[1];
	return failed ? -1 : 0;
}

static void close_child_ends(const struct guest_child *child)
{
	if (child->in_fd >= 0)
		close(child->in_fd);
	if (child->terminal)
		return;
	if (child->out_fd >= 0)
		close(child->out_fd);
	if (child->err_fd >= 0)
		close(child->err_fd);
}

static int launch(struct guest_session *s, const struct guest_session_request *r, const char **step)
{
	struct guest_child child = {
		.confine = s->all->confine, .who = r->who, .unconfined = r->unconfined, .in_fd = -1, .out_fd = -1,
		.err_fd = -1, .argv = r->argv, .env = r->env, .cwd = r->cwd, .login = r->login, .run = r->run,
		.user = r->user,
	};
	int error[2], result;

	*step = "session_cgroup";
	if (make_cgroup(s) < 0)
		return -1;
	child.cgroup_fd = s->cgroup_fd;
	*step = s->pty ? "terminal" : "pipes";
	result = s->pty ? make_terminal(s, r, &child) : make_pipes(s, r, &child);
	if (result == 0)
		result = pipe2(error, O_CLOEXEC);
	if (result < 0) {
		close_child_ends(&child);
		return -1;
	}
	*step = "fork";
	s->pid = fork();
	if (s->pid == 0) {
		child.error_fd = error[1];
		guest_child_run(&child);
	}
	close_child_ends(&child);
	close(error[1]);
	s->error_fd = error[0];
	if (s->pid < 0) {
		s->pid = 0;
		return -1;
	}
	io_set_nonblock(s->error_fd);
	s->error_watch = loop_fd_add(s->all->loop, s->error_fd, EPOLLIN, on_error_pipe, s, NULL);
	return s->error_watch ? 0 : -1;
}

static struct guest_session *session_new(struct guest_sessions *all, const struct guest_session_request *r)
{
	struct guest_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = all;
	s->pty = r->pty;
	s->detach = r->detach && r->pty;
	s->raw = r->run != NULL;
	s->cgroup_fd = s->error_fd = s->in_fd = -1;
	s->out[0] = (struct output){ .session = s, .fd = -1, .type = HF_EXEC_STDOUT };
	s->out[1] = (struct output){ .session = s, .fd = -1, .type = HF_EXEC_STDERR };
	s->env_dropped = r->env_dropped ? json_incref(r->env_dropped) : json_array();
	buf_init(&s->in, STDIN_HIGH + 2 * HF_EXEC_DATA_MAX);
	buf_init(&s->scrollback, 2 * HF_EXEC_SCROLLBACK);
	snprintf(s->name, sizeof(s->name), "s%u", all->next_name++);
	s->next = all->list;
	all->list = s;
	return s;
}

void guest_session_start(struct guest_sessions *all, struct guest_conn *client, const struct guest_session_request *r)
{
	struct guest_session *s = guest_sessions_count(all) < GUEST_SESSIONS_MAX ? session_new(all, r) : NULL;
	const char *step = "sessions";

	if (s && launch(s, r, &step) == 0) {
		s->client = client;
		guest_conn_user(client, &client_ops, s);
		/* Input waits until the program stands. */
		guest_conn_hold(client, true);
		return;
	}
	guest_conn_reply(client, guest_refusal(step, "", s ? errno : EAGAIN, NULL, HF_EXEC_CODE_REFUSED));
	guest_conn_finish(client);
	if (s) {
		s->failed = true;
		close_streams(s);
	}
}

static struct guest_session *find(const struct guest_sessions *all, const char *name)
{
	struct guest_session *s = all->list;

	while (s && strcmp(s->name, name))
		s = s->next;
	return s;
}

int guest_session_attach(struct guest_sessions *all, struct guest_conn *client, const char *name, uint16_t rows,
			 uint16_t cols)
{
	struct guest_session *s = find(all, name);

	if (!s || !s->detach || s->ended || s->failed)
		return -1;
	if (s->client) {
		guest_conn_refuse(s->client, "the terminal was taken over");
		guest_conn_free(s->client);
	}
	s->client = client;
	guest_conn_user(client, &client_ops, s);
	guest_conn_reply(client, started(s));
	for (size_t at = 0; at < s->scrollback.len; at += HF_EXEC_DATA_MAX) {
		size_t left = s->scrollback.len - at;

		guest_conn_send(client, HF_EXEC_STDOUT, s->scrollback.data + at,
				left < HF_EXEC_DATA_MAX ? left : HF_EXEC_DATA_MAX);
	}
	if (rows && cols)
		resize(s, rows, cols);
	advance(s);
	return 0;
}

int guest_session_signal(struct guest_sessions *all, const char *name, int signal)
{
	struct guest_session *s = find(all, name);
	_cleanup_fclose_ FILE *f = NULL;
	int fd, pid;

	if (!s || s->cgroup_fd < 0)
		return -1;
	fd = openat(s->cgroup_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	while (f && fscanf(f, "%d", &pid) == 1)
		if (pid > 1)
			kill(pid, signal);
	return 0;
}

bool guest_sessions_reaped(struct guest_sessions *all, pid_t pid, int status)
{
	for (struct guest_session *s = all->list; s; s = s->next) {
		if (s->pid != pid)
			continue;
		/* Its end of the error pipe is closed: learn first whether it was executed. */
		if (s->error_watch)
			on_error_pipe(s, s->error_fd, EPOLLIN);
		s->pid = 0;
		s->status = status;
		advance(s);
		return true;
	}
	return false;
}

/* Removes sessions whose last process is gone: the cgroup's directory can be removed only then. */
static void on_sweep(void *user)
{
	struct guest_sessions *all = user;
	struct guest_session *s = all->list;
	int parent = all->confine->guest->sandbox_cgroup_fd;

	while (s) {
		struct guest_session *next = s->next;
		bool over = !s->pid && !s->error_watch && (s->ended || s->failed || (!s->client && !s->detach));

		if (over && (s->cgroup_fd < 0 || unlinkat(parent, s->name, AT_REMOVEDIR) == 0 || errno == ENOENT) &&
		    !s->client) {
			unlink_session(s);
			session_free(s);
		}
		s = next;
	}
}

struct guest_sessions *guest_sessions_new(struct loop *loop, const struct guest_confine *confine, struct err *e)
{
	struct guest_sessions *all = calloc(1, sizeof(*all));

	if (!all) {
		err_errno(e, "sessions");
		return NULL;
	}
	all->loop = loop;
	all->confine = confine;
	all->next_name = 1;
	all->sweep = loop_timer_add(loop, SWEEP_MS, SWEEP_MS, on_sweep, all);
	return all;
}

size_t guest_sessions_count(const struct guest_sessions *all)
{
	size_t n = 0;

	for (const struct guest_session *s = all->list; s; s = s->next)
		n++;
	return n;
}

json_t *guest_sessions_json(const struct guest_sessions *all)
{
	json_t *list = json_array();

	for (const struct guest_session *s = all->list; s; s = s->next)
		json_array_append_new(list, json_pack("{s:s, s:i, s:b, s:b, s:b, s:b}", "session", s->name, "pid",
						      (int)s->pid, "pty", s->pty, "detach", s->detach, "attached",
						      s->client != NULL, "ended", s->ended));
	return list;
}
