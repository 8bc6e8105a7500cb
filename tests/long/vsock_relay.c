/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs the kernel's vsock_test in one guest, client and server, with our device between them. */

/*
 * The client connects to the host (cid 2); each of its streams is carried to the same port of the
 * same guest, where the server listens. So guest-initiated and host-initiated streams take part in
 * every test. What one side does to its stream (half close either way, close, reset, refusal) is
 * done to the other.
 *
 * vsock_relay KERNEL INIT EARLY_DIR EARLY_LIST VSOCK_TEST [--pick-skips N,N...]
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/vm/console.h"
#include "hostd/vm/initramfs.h"
#include "hostd/vm/qemu.h"
#include "hostd/vm/qmp.h"
#include "hostd/vm/vhost_user.h"
#include "lib/io.h"

enum { COMMANDS = 5800, PEER = 1234, RETRY_MS = 200 };

/* Half of a relayed pair. */
struct half {
	struct vsock_stream *s;
	struct half *other;
	bool open, guest_ended;
};

static struct loop *loop;
static struct vhost_user *device;
static struct vsock *v;
static const char *tool_path;

/* ---- the relay ---- */

static void half_end(struct half *h, bool reset)
{
	struct half *o = h->other;

	if (o->s && (reset || !o->open))
		vsock_stream_reset(o->s);
	else if (o->s)
		vsock_stream_close(o->s);
	free(o);
	free(h);
}

static void server_open(struct vsock_stream *s, void *u)
{
	struct half *h = u;

	(void)s;
	h->open = true;
	vsock_stream_accept(h->other->s);
	vsock_stream_resume(h->other->s);
}

static size_t half_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	struct half *h = u;
	ssize_t done = vsock_stream_write(h->other->s, p, n);

	(void)s;
	/* The other side reads no more: on_writable has passed that on. */
	return done < 0 ? n : (size_t)done;
}

static void half_writable(struct vsock_stream *s, void *u)
{
	struct half *h = u;

	if (vsock_stream_write(s, NULL, 0) < 0 && !h->other->guest_ended)
		vsock_stream_shutdown_read(h->other->s);
	vsock_stream_resume(h->other->s);
}

static void half_shutdown(struct vsock_stream *s, void *u)
{
	struct half *h = u;

	(void)s;
	h->guest_ended = true;
	vsock_stream_shutdown(h->other->s);
}

static void half_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	(void)s;
	half_end(u, reason != VSOCK_CLOSED);
}

static const struct vsock_ops server_ops = { server_open, half_data, half_writable, half_shutdown, half_close };

static void client_open(struct vsock_stream *s, void *u)
{
	struct half *c = calloc(1, sizeof(*c)), *h = calloc(1, sizeof(*h));

	(void)u;
	*c = (struct half){ .s = s, .other = h, .open = true };
	h->other = c;
	vsock_stream_set_user(s, c);
	vsock_stream_defer(s);
	h->s = vsock_connect(v, vsock_stream_host_port(s), &server_ops, h);
}

static const struct vsock_ops client_ops = { client_open, half_data, half_writable, half_shutdown, half_close };

/* ---- commands to the test's init ---- */

struct job {
	const char *name;
	char line[512];
	const uint8_t *body;
	size_t body_len, body_off;
	char said[65536];
	size_t n;
	bool done;
};

static struct job upload = { .name = "upload" };
static struct job server = { .name = "server" };
static struct job client = { .name = "client" };

static void job_start(struct job *j);

static void job_push(struct vsock_stream *s, void *u)
{
	struct job *j = u;
	ssize_t n = vsock_stream_write(s, j->body + j->body_off, j->body_len - j->body_off);

	if (n > 0)
		j->body_off += (size_t)n;
	if (j->body_off == j->body_len)
		vsock_stream_shutdown(s);
}

static void job_open(struct vsock_stream *s, void *u)
{
	struct job *j = u;

	vsock_stream_write(s, j->line, strlen(j->line));
	if (j->body)
		job_push(s, j);
}

static size_t job_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	struct job *j = u;
	size_t room = sizeof(j->said) - 1 - j->n;

	(void)s;
	memcpy(j->said + j->n, p, n < room ? n : room);
	j->n += n < room ? n : room;
	if (j == &server && strstr(j->said, "listening") && !client.n && !client.done && !client.body_off) {
		client.body_off = 1; /* once */
		job_start(&client);
	}
	return n;
}

static void job_close(struct vsock_stream *s, void *u, enum vsock_reason reason);

static const struct vsock_ops job_ops = { job_open, job_data, job_push, NULL, job_close };

static void job_retry(void *u)
{
	job_start(u);
}

static void job_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	struct job *j = u;

	(void)s;
	if (reason == VSOCK_REFUSED || reason == VSOCK_TIMEOUT) {
		loop_timer_add(loop, RETRY_MS, 0, job_retry, j);
		return;
	}
	j->done = true;
	if (j == &upload)
		job_start(&server);
	if (server.done && client.done)
		loop_stop(loop, 0);
}

static void job_start(struct job *j)
{
	if (!vsock_connect(v, COMMANDS, &job_ops, j))
		loop_timer_add(loop, RETRY_MS, 0, job_retry, j);
}

/* ---- the VM ---- */

static void on_event(void *u, const char *name, const json_t *data)
{
	(void)u;
	(void)data;
	if (!strcmp(name, "SHUTDOWN"))
		loop_stop(loop, 1);
}

static void on_closed(void *u, const char *why)
{
	(void)u;
	fprintf(stderr, "QEMU is gone: %s\n", why);
	loop_stop(loop, 1);
}

static void on_broken(void *u, const char *why)
{
	(void)u;
	fprintf(stderr, "device: %s\n", why);
	loop_stop(loop, 1);
}

static const struct vhost_user_ops device_ops = { .broken = on_broken, .detached = on_broken };
static const struct qmp_ops qmp_ops = { .event = on_event, .closed = on_closed };

static void pair(int fd[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		die("socketpair");
}

static pid_t boot(char **argv, const char *tmp, struct qmp **qmp)
{
	static uint8_t key[32];
	struct initramfs_parts parts = { .sandboxd = argv[2], .early_dir = argv[3], .early_list = argv[4],
					 .sentry_module = "", .proxy_ca = "", .boot_key = key,
					 .guest_spec = "{}" };
	struct qemu_config q = { .name = "vsock-test", .cpus = 1, .memory_mib = 512, .kernel = argv[1],
				 .cmdline = QEMU_CMDLINE " mitigations=off", .root = "", .home = "",
				 .modules = "", .base = "", .fd_net = -1, .fd_words = 2, .dir = tmp,
				 .run_dir = tmp };
	int m[2], c[2], d[2], pidfd, dirfd = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char initrd[512];
	struct err err;
	pid_t pid;

	snprintf(initrd, sizeof(initrd), "%s/initramfs", tmp);
	q.initrd = initrd;
	pair(m);
	pair(c);
	pair(d);
	q.fd_qmp = m[1];
	q.fd_console = c[1];
	q.fd_vsock = d[1];
	q.fd_lock = dirfd;
	if (initramfs_build(dirfd, "initramfs", &parts, &err) || vhost_user_attach(device, d[0], &err) ||
	    !console_new(loop, c[0], tmp, &err) || !(*qmp = qmp_new(loop, m[0], &qmp_ops, NULL, &err)) ||
	    qemu_spawn(&q, &pid, &pidfd, &err))
		die("%s", err.text);
	close(m[1]);
	close(c[1]);
	close(d[1]);
	qmp_command(*qmp, "cont", NULL, -1, NULL, NULL);
	return pid;
}

static void too_late(void *u)
{
	(void)u;
	fprintf(stderr, "out of time\n");
	loop_stop(loop, 1);
}

int main(int argc, char **argv)
{
	char tmp[] = "/tmp/hf-vsock-test-XXXXXX";
	const char *skips = argc > 6 ? argv[6] : "";
	struct qmp *qmp = NULL;
	struct buf tool;
	struct err err;
	pid_t pid;
	int rc;

	if (argc < 6 || !mkdtemp(tmp))
		die("usage: vsock_relay KERNEL INIT EARLY_DIR EARLY_LIST VSOCK_TEST [SKIP ARGUMENTS]");
	signal(SIGPIPE, SIG_IGN);
	tool_path = argv[5];
	buf_init(&tool, 64 * 1024 * 1024);
	loop = loop_new(&err);
	if (!loop || io_read_file(tool_path, &tool, &err))
		die("%s", err.text);
	device = vhost_user_new(loop, 3, &device_ops, NULL);
	v = vhost_user_vsock(device);
	vsock_listen(v, PEER, &client_ops, NULL);
	vsock_listen(v, PEER + 1, &client_ops, NULL);
	snprintf(upload.line, sizeof(upload.line), "put vsock_test\n");
	upload.body = tool.data;
	upload.body_len = tool.len;
	snprintf(server.line, sizeof(server.line),
		 "run /vsock_test --mode=server --control-port=1234 --peer-cid=2 %s\n", skips);
	snprintf(client.line, sizeof(client.line),
		 "run /vsock_test --mode=client --control-host=127.0.0.1 --control-port=1234 --peer-cid=2 %s\n",
		 skips);
	pid = boot(argv, tmp, &qmp);
	job_start(&upload);
	loop_timer_add(loop, 280000, 0, too_late, NULL);
	rc = loop_run(loop, &err);
	printf("---- server\n%s\n---- client\n%s\n", server.said, client.said);
	kill(pid, SIGKILL);
	return rc;
}
