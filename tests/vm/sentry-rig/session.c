// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The host's own session (hostd/sentry/session.c) in the guest, as the other end of the real module, over vsock loopback.
 *
 *   session BOOT_KEY_HEX PORT CONTROL_FIFO [WORD...]
 *
 * What the session calls tampering is printed; a run in which the host only breaks connections must have none. Words and
 * commands, of which one is done at a time; /run/idle is there when it is:
 *   first-hello       the hello of connection 0 breaks after each number of its bytes, then is let through
 *   hello MORE STEP   later hellos break after each STEP-th number of their bytes, and of MORE bytes after them
 *   records N         what the host says (welcome, challenge, acks) breaks after each number of bytes below N
 *   reconnect N       N connections end after a heartbeat
 *   restart N         the same, and the session is put away and made again from its state, as when hostd dies
 *   report            print what came of it, as checks
 * After each break a connection is let live for BEATS heartbeats, since without them silence and late beats are true.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/sentry.h>

#include "hostd/sentry/session.h"
#include "lib/hex.h"
#include "other_end.h"

enum { BEATS = 2, TICK_MS = 200 };

enum mode { LIVE, FIRST_HELLO, HELLO, RECORDS, RECONNECT, RESTART };

static struct session *session;
static struct session_cfg cfg;
static int listener, connection = -1, control;
static uint64_t id;

static enum mode mode;
static long cut, last, step;	    /* where this connection breaks; where the sweep ends */
static long left;		    /* connections to break at a heartbeat */
static long hello_bytes;	    /* of the last hello that was new */
static bool breaking;		    /* this connection is one that breaks */
static bool broken;
static long up_bytes, down_bytes;
static unsigned beats_here;

static unsigned long tampers, breaks, frames, hellos, connections, out_of_order;
static uint64_t last_seq;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ULL + t.tv_nsec / 1000000;
}

static void check(const char *name, bool good, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("check %s\t%d %s\n", name, good, text);
}

/* ---- what the session asks for ---- */

static int on_send(void *u, uint64_t to, const void *bytes, size_t len)
{
	(void)u;
	if (to != id || connection < 0 || broken)
		return -1;
	if (breaking && mode == RECORDS && down_bytes + (long)len > cut) {
		len = cut - down_bytes;
		broken = true;
	}
	if (len && send(connection, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		return -1;
	down_bytes += len;
	return 0;
}

static void on_frame(void *u, const struct session_frame *frame)
{
	(void)u;
	if (!frame->seq) {
		hellos++;
		hello_bytes = up_bytes; /* nothing follows a hello before its welcome */
		return;
	}
	if (frame->seq != last_seq + 1)
		out_of_order++;
	last_seq = frame->seq;
	frames++;
	if (!strcmp(frame->type, HF_SENTRY_TYPE_HEARTBEAT))
		beats_here++;
}

static void on_tamper(void *u, enum session_tamper reason, const char *text)
{
	(void)u;
	tampers++;
	printf("session: tamper %s: %s (connection %lu, cut %ld)\n", session_tamper_name(reason), text, connections, cut);
}

static void on_drop(void *u, uint64_t which)
{
	(void)u;
	if (which == id)
		broken = true;
}

static const struct session_ops ops = { .send = on_send, .frame = on_frame, .tamper = on_tamper, .drop = on_drop };

/* ---- what is done to connections ---- */

static void idle(void)
{
	mode = LIVE;
	breaking = false;
	close(open("/run/idle", O_CREAT | O_WRONLY, 0600));
}

static void restart(void)
{
	json_t *state = session_export(session);

	session_free(session);
	cfg.state = state;
	session = session_new(&cfg, &ops, NULL, NULL);
	json_decref(state);
	if (!session)
		exit(1);
}

/* The connection is over; the next one breaks when this one lived. */
static void over(void)
{
	bool lived = !breaking;

	if (connection >= 0) {
		close(connection);
		session_conn_close(session, id);
	}
	connection = -1;
	if (breaking) {
		breaks++;
		cut += step;
		if (mode != FIRST_HELLO && cut > last)
			idle();
	}
	if (mode == RECONNECT || mode == RESTART) {
		breaks++;
		if (mode == RESTART)
			restart();
		if (!--left)
			idle();
	}
	breaking = mode == FIRST_HELLO || ((mode == HELLO || mode == RECORDS) && lived);
}

static void take_connection(void)
{
	connection = accept(listener, NULL, NULL);
	if (connection < 0)
		return;
	connections++;
	id++;
	up_bytes = down_bytes = 0;
	beats_here = 0;
	broken = false;
	if (session_conn_open(session, id))
		broken = true;
}

static void take_bytes(void)
{
	static uint8_t in[65536];
	size_t want = sizeof(in);
	ssize_t n = 0;

	if (breaking && mode != RECORDS && (long)want > cut - up_bytes)
		want = cut - up_bytes;
	if (want)
		n = recv(connection, in, want, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0) {
		up_bytes += n;
		session_conn_bytes(session, id, in, n);
	}
	if (n <= 0 || broken || (breaking && mode != RECORDS && up_bytes >= cut))
		over();
}

/* A hello that came through ends the sweep of the first; a connection that lived long enough is over. */
static void look(void)
{
	if (mode == FIRST_HELLO && hellos)
		idle();
	if (connection >= 0 && mode != LIVE && !breaking && beats_here >= (mode == RECONNECT || mode == RESTART ? 1 : BEATS))
		over();
}

static void report(void)
{
	struct session_status status;

	session_status(session, &status);
	printf("session: %lu connections, %lu broken on purpose, %lu hellos, %lu frames\n", connections, breaks, hellos, frames);
	check("TRN no false alarm, whatever broke", !tampers, "%lu", tampers);
	check("TRN every frame came once and in its order", !out_of_order && frames == last_seq, "%lu of %llu", frames,
	      (unsigned long long)last_seq);
	check("TRN the connection lives", status.connected, " ");
	close(open("/run/idle", O_CREAT | O_WRONLY, 0600));
}

static void sweep(enum mode what, long end, long by)
{
	mode = what;
	cut = 0;
	last = end;
	step = by;
	breaking = what == FIRST_HELLO;
}

static void end_some(enum mode what, long count)
{
	mode = what;
	left = count;
	breaking = false;
}

static void on_command(char *line)
{
	long number, by;

	unlink("/run/idle");
	printf("session: %s\n", line);
	if (!strcmp(line, "first-hello"))
		sweep(FIRST_HELLO, 0, 1);
	else if (sscanf(line, "hello %ld %ld", &number, &by) == 2)
		sweep(HELLO, hello_bytes + number, by);
	else if (sscanf(line, "records %ld", &number) == 1)
		sweep(RECORDS, number - 1, 1);
	else if (sscanf(line, "reconnect %ld", &number) == 1)
		end_some(RECONNECT, number);
	else if (sscanf(line, "restart %ld", &number) == 1)
		end_some(RESTART, number);
	else if (!strcmp(line, "report"))
		report();
}

int main(int argc, char **argv)
{
	uint64_t next_tick = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 4 || hex_decode(cfg.boot_key, sizeof(cfg.boot_key), argv[1]))
		return 2;
	session = session_new(&cfg, &ops, NULL, NULL);
	control = open(argv[3], O_RDWR | O_NONBLOCK);
	if (!session || control < 0)
		return 1;
	for (int i = 4; i < argc; i++)
		on_command(argv[i]);
	listener = listen_for_sentry();
	for (;;) {
		struct pollfd p[2] = {
			{ .fd = control, .events = POLLIN },
			{ .fd = connection < 0 ? listener : connection, .events = POLLIN },
		};
		uint64_t now = now_ms();

		poll(p, 2, next_tick > now ? next_tick - now : 0);
		if (p[0].revents)
			read_commands(control, on_command);
		if (p[1].revents && connection < 0)
			take_connection();
		else if (p[1].revents)
			take_bytes();
		if (connection >= 0 && ((breaking && mode != RECORDS && up_bytes >= cut) || broken))
			over();
		now = now_ms();
		if (now >= next_tick) {
			session_durable(session, last_seq);
			session_tick(session, now, true);
			next_tick = now + TICK_MS;
		}
		look();
	}
}
