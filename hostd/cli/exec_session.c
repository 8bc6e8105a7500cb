/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program or shell in the guest, over an exec stream: bytes exact, window and signals carried. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "hostd/cli/cli.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/osc52.h"

/*
 * Theory of operation. One poll loop over four descriptors: the stream, stdin, signals, and (while the
 * stream does not take more) nothing of stdin, so that a fast producer waits instead of filling memory.
 * Output is written blocking: a slow reader of ours holds up the guest's program by credit, as it would
 * with a pipe. The terminal is raw while a pty session runs and is put back on every way out. What goes to a
 * terminal is filtered here as well as in the guest, where root can take the supervisor's place.
 */
enum { IN_MAX = HF_EXEC_MESSAGE_MAX + HF_EXEC_HEADER_BYTES, OUT_HIGH = 256 * 1024, CHUNK = 65536 };

static const struct json_limits limits = { .bytes = HF_EXEC_MESSAGE_MAX, .depth = 8, .values = 100000 };

static struct termios saved_terminal;
static bool terminal_is_raw;

struct session {
	int fd, signals, in_fd, out_fd;
	struct buf in, out;
	struct osc52 osc52[2]; /* of the program's output and errors */
	bool pty, replied, stdin_open, over;
	int code;
	struct err *err;
};

static void restore_terminal(void)
{
	if (terminal_is_raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_terminal);
	terminal_is_raw = false;
}

static void make_raw(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &saved_terminal))
		return;
	raw = saved_terminal;
	cfmakeraw(&raw);
	if (!tcsetattr(STDIN_FILENO, TCSADRAIN, &raw)) {
		terminal_is_raw = true;
		atexit(restore_terminal);
	}
}

static int put_frame(struct session *s, uint8_t type, const void *p, size_t n)
{
	if (buf_put_u8(&s->out, type) || buf_put_u32(&s->out, (uint32_t)n) || buf_put(&s->out, p, n))
		return err_set(s->err, "too much to send at once");
	return 0;
}

static int put_size(struct session *s)
{
	struct winsize size;
	uint8_t bytes[4];

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size))
		return 0;
	bytes[0] = (uint8_t)(size.ws_row >> 8);
	bytes[1] = (uint8_t)size.ws_row;
	bytes[2] = (uint8_t)(size.ws_col >> 8);
	bytes[3] = (uint8_t)size.ws_col;
	return put_frame(s, HF_EXEC_RESIZE, bytes, sizeof(bytes));
}

static json_t *request_json(const struct exec_request *r)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	json_t *argv = json_array(), *json;

	for (char **arg = r->argv; arg && *arg; arg++)
		json_array_append_new(argv, json_string(*arg));
	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	json = json_pack("{s:s,s:o,s:b,s:b,s:i,s:i}", "op", "exec", "argv", argv, "pty", r->pty, "detach",
			 r->detach, "rows", size.ws_row, "cols", size.ws_col);
	if (json && r->cwd)
		json_object_set_new(json, "cwd", json_string(r->cwd));
	if (json && r->user)
		json_object_set_new(json, "user", json_string(r->user));
	if (json && r->env)
		json_object_set(json, "env", (json_t *)r->env);
	return json;
}

static int put_request(struct session *s, const struct exec_request *r)
{
	_cleanup_json_ json_t *json = request_json(r);
	_cleanup_free_ char *text = json ? json_text(json) : NULL;

	if (!text || (size_t)json_array_size(json_object_get(json, "argv")) > HF_EXEC_ARGV_MAX)
		return err_set(s->err, "the command is not valid UTF-8 text, or has more than %d arguments",
			       HF_EXEC_ARGV_MAX);
	return put_frame(s, HF_EXEC_REQUEST, text, strlen(text));
}

static int take_reply(struct session *s, const uint8_t *p, size_t n)
{
	_cleanup_json_ json_t *reply = json_parse(p, n, &limits, s->err);
	json_t *dropped, *name;
	const char *error, *step;
	int64_t code;
	size_t i;
	bool ok;

	if (!reply || json_get_bool(reply, "ok", &ok, s->err))
		return err_prefix(s->err, "the guest's answer");
	s->replied = true;
	if (!ok) {
		if (json_get_int(reply, "code", &code, s->err) || json_get_str(reply, "error", &error, s->err) ||
		    json_opt_str(reply, "step", &step, "?", s->err))
			return err_prefix(s->err, "the guest's answer");
		err_set(s->err, "%s: %s", step, error);
		s->code = (int)code;
		s->over = true;
		return 0;
	}
	json_array_foreach(json_object_get(reply, "env_dropped"), i, name) {
		dropped = name;
		fprintf(stderr, "holdfast: the variable ");
		cli_put_text(stderr, json_string_value(dropped) ? : "?");
		fprintf(stderr, " is not passed into the guest\n");
	}
	return 0;
}

static int take_exit(struct session *s, const uint8_t *p, size_t n)
{
	if (n != 2)
		return err_set(s->err, "a malformed exit status");
	io_write_all(s->out_fd, s->osc52[0].held, s->osc52[0].len);
	io_write_all(STDERR_FILENO, s->osc52[1].held, s->osc52[1].len);
	s->code = p[0] == HF_EXEC_SIGNALED ? 128 + p[1] : p[1];
	s->over = true;
	return 0;
}

static int put_output(struct session *s, int fd, struct osc52 *osc52, const uint8_t *p, size_t n)
{
	static uint8_t clean[HF_EXEC_DATA_MAX + OSC52_HELD];
	bool terminal = isatty(fd);

	while (n) {
		size_t piece = terminal && n > HF_EXEC_DATA_MAX ? HF_EXEC_DATA_MAX : n;
		size_t passes = terminal ? osc52_filter(osc52, p, piece, clean) : piece;

		if (io_write_all(fd, terminal ? clean : p, passes))
			return err_errno(s->err, "write the program's output");
		p += piece;
		n -= piece;
	}
	return 0;
}

static int take_frame(struct session *s, uint8_t type, const uint8_t *p, size_t n)
{
	switch (type) {
	case HF_EXEC_REPLY:
		return take_reply(s, p, n);
	case HF_EXEC_STDOUT:
		return put_output(s, s->out_fd, &s->osc52[0], p, n);
	case HF_EXEC_STDERR:
		return put_output(s, STDERR_FILENO, &s->osc52[1], p, n);
	case HF_EXEC_EXIT:
		return take_exit(s, p, n);
	case HF_EXEC_EOF:
		return 0;
	case HF_EXEC_ERROR:
		return err_set(s->err, "the guest: %.*s", (int)(n < 300 ? n : 300), (const char *)p);
	default:
		return err_set(s->err, "the guest sent an unknown frame (%u)", type);
	}
}

static int take_frames(struct session *s)
{
	while (!s->over) {
		struct rd r;
		const uint8_t *p;
		uint8_t type;
		uint32_t n;

		rd_init(&r, s->in.data, s->in.len);
		if (rd_u8(&r, &type) || rd_u32(&r, &n))
			return 0;
		if (n > HF_EXEC_MESSAGE_MAX)
			return err_set(s->err, "the guest sent a frame of %u bytes", n);
		if (rd_bytes(&r, &p, n))
			return 0;
		if (take_frame(s, type, p, n))
			return -1;
		buf_drop(&s->in, HF_EXEC_HEADER_BYTES + (size_t)n);
	}
	return 0;
}

static int read_stream(struct session *s)
{
	uint8_t *to = buf_room(&s->in, CHUNK);
	ssize_t got;

	if (!to)
		return err_set(s->err, "out of memory");
	got = read(s->fd, to, CHUNK);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < 0)
		return err_errno(s->err, "read from the guest");
	if (got == 0)
		return err_set(s->err, "the connection to the guest was cut%s", s->replied ? "" : " before it answered");
	s->in.len += (size_t)got;
	return take_frames(s);
}

static int write_stream(struct session *s)
{
	ssize_t put = write(s->fd, s->out.data, s->out.len);

	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* The guest's last words may still be on their way; reading says what happened. */
	if (put < 0) {
		buf_clear(&s->out);
		s->stdin_open = false;
		return 0;
	}
	buf_drop(&s->out, (size_t)put);
	return 0;
}

static int read_stdin(struct session *s)
{
	static uint8_t chunk[HF_EXEC_DATA_MAX];
	ssize_t got = s->in_fd < 0 ? 0 : read(s->in_fd, chunk, sizeof(chunk));

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got > 0)
		return put_frame(s, HF_EXEC_STDIN, chunk, (size_t)got);
	s->stdin_open = false;
	return put_frame(s, HF_EXEC_EOF, NULL, 0);
}

static int read_signal(struct session *s)
{
	struct signalfd_siginfo info;
	uint8_t number;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo == SIGWINCH)
		return s->pty ? put_size(s) : 0;
	number = (uint8_t)info.ssi_signo;
	return put_frame(s, HF_EXEC_SIGNAL, &number, 1);
}

static int watch_signals(struct session *s)
{
	static const int carried[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(carried) / sizeof(carried[0]); i++)
		sigaddset(&set, carried[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? err_errno(s->err, "signalfd") : 0;
}

static int turn(struct session *s)
{
	struct pollfd fds[3] = {
		{ .fd = s->fd, .events = (short)(POLLIN | (s->out.len ? POLLOUT : 0)) },
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = s->stdin_open && s->replied && s->out.len < OUT_HIGH ? s->in_fd : -1, .events = POLLIN },
	};

	if (s->in_fd < 0 && s->stdin_open && s->replied)
		return read_stdin(s);
	if (poll(fds, 3, -1) < 0)
		return errno == EINTR ? 0 : err_errno(s->err, "poll");
	if (fds[0].revents & POLLOUT && write_stream(s))
		return -1;
	if (fds[0].revents & (POLLIN | POLLHUP | POLLERR) && read_stream(s))
		return -1;
	if (fds[1].revents && read_signal(s))
		return -1;
	if (fds[2].revents && !s->over)
		return read_stdin(s);
	return 0;
}

int exec_session(int fd, const struct exec_request *request, struct err *err)
{
	struct session s = { .fd = fd, .signals = -1, .in_fd = request->in_fd, .out_fd = request->out_fd,
			     .pty = request->pty, .stdin_open = true, .code = CLI_FAILED, .err = err };
	int rc = 0;

	err->text[0] = 0;
	buf_init(&s.in, IN_MAX + CHUNK);
	buf_init(&s.out, IN_MAX);
	io_set_nonblock(fd);
	if (watch_signals(&s) || put_request(&s, request))
		rc = -1;
	if (!rc && s.pty)
		make_raw();
	while (!rc && !s.over)
		rc = turn(&s);
	restore_terminal();
	close(fd);
	if (s.signals >= 0)
		close(s.signals);
	buf_free(&s.in);
	buf_free(&s.out);
	return rc ? CLI_FAILED : s.code;
}
