/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API's client: one blocking connection, hostd started on demand. */
#include "hostd/api/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostd/api/api.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

enum { START_WAIT_MS = 15000, START_STEP_MS = 20, LOG_KEEP_BYTES = 4 * 1024 * 1024 };

static const struct json_limits limits = { .bytes = API_FRAME_MAX, .depth = 24, .values = 2000000 };

struct api_client {
	int fd;
	json_int_t next_id;
	int passed; /* a descriptor that came along */
};

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* Where hostd's own log goes; the one before is kept as hostd.log.1. */
static int open_log(const struct paths *paths)
{
	char path[PATHS_MAX + 16], old[PATHS_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/hostd.log", paths->data);
	snprintf(old, sizeof(old), "%s/hostd.log.1", paths->data);
	if (!stat(path, &st) && st.st_size > LOG_KEEP_BYTES)
		rename(path, old);
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void exec_hostd(const struct paths *paths)
{
	char program[PATHS_MAX + 16];
	int log = open_log(paths), null = open("/dev/null", O_RDWR | O_CLOEXEC);

	snprintf(program, sizeof(program), "%s/hostd", paths->bin);
	if (log < 0 || null < 0)
		_exit(126);
	dup2(null, 0);
	dup2(null, 1);
	dup2(log, 2);
	setsid();
	if (chdir("/"))
		_exit(126);
	execl(program, "hostd", (char *)NULL);
	dprintf(2, "exec %s: %s\n", program, strerror(errno));
	_exit(126);
}

static int wait_for_socket(const struct paths *paths, pid_t pid, struct err *err)
{
	for (int waited = 0; waited < START_WAIT_MS; waited += START_STEP_MS) {
		int fd = io_unix_connect(paths->api, SOCK_STREAM, NULL), status;

		if (fd >= 0)
			return fd;
		if (waitpid(pid, &status, WNOHANG) == pid)
			return err_set(err, "hostd ended at its start (its log: %s/hostd.log)", paths->data);
		sleep_ms(START_STEP_MS);
	}
	return err_set(err, "hostd did not answer within %d s (its log: %s/hostd.log)", START_WAIT_MS / 1000,
		       paths->data);
}

static int start_hostd(const struct paths *paths, struct err *err)
{
	char path[PATHS_MAX + 16];
	_cleanup_close_ int lock = -1;
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "%s/start.lock", paths->run);
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX))
		return err_errno(err, "lock %s", path);
	/* Someone may have started it while this one waited for the lock. */
	fd = io_unix_connect(paths->api, SOCK_STREAM, NULL);
	if (fd >= 0)
		return fd;
	pid = fork();
	if (pid < 0)
		return err_errno(err, "fork");
	if (!pid)
		exec_hostd(paths);
	return wait_for_socket(paths, pid, err);
}

/* One frame into *out; takes a descriptor that comes along. */
static int read_frame(struct api_client *client, json_t **out, struct err *err)
{
	uint8_t head[4];
	int fds[1];
	size_t n_fds = 1, at = 0;
	uint32_t n;
	struct rd r;
	_cleanup_free_ char *text = NULL;

	while (at < sizeof(head)) {
		ssize_t got;

		n_fds = 1;
		got = io_recv_fds(client->fd, head + at, sizeof(head) - at, fds, &n_fds);
		if (got < 0)
			return err_errno(err, "read from hostd");
		if (got == 0)
			return err_set(err, "hostd ended the connection");
		if (n_fds) {
			if (client->passed >= 0)
				close(client->passed);
			client->passed = fds[0];
		}
		at += (size_t)got;
	}
	rd_init(&r, head, sizeof(head));
	rd_u32(&r, &n);
	if (n > API_FRAME_MAX)
		return err_set(err, "hostd sent a frame of %u bytes", n);
	text = malloc(n ? n : 1);
	if (!text)
		return err_set(err, "out of memory");
	if (io_read_all(client->fd, text, n))
		return err_errno(err, "read from hostd");
	*out = json_parse(text, n, &limits, err);
	return *out ? 0 : -1;
}

static int check_hello(struct api_client *client, struct err *err)
{
	_cleanup_json_ json_t *frame = NULL;
	json_t *hello;
	int64_t version;

	if (read_frame(client, &frame, err) || json_get_object(frame, "hello", &hello, err) ||
	    json_get_int(hello, "version", &version, err))
		return err_prefix(err, "the API's hello");
	if (version != API_VERSION)
		return err_set(err, "the hostd that runs speaks API version %lld, this program %d: "
				    "stop it (holdfast daemon stop) and try again",
			       (long long)version, API_VERSION);
	return 0;
}

struct api_client *api_client_open(const struct paths *paths, int start, struct err *err)
{
	struct api_client *client = calloc(1, sizeof(*client));

	if (!client) {
		err_set(err, "out of memory");
		return NULL;
	}
	client->passed = -1;
	client->fd = io_unix_connect(paths->api, SOCK_STREAM, err);
	if (client->fd < 0 && start)
		client->fd = start_hostd(paths, err);
	if (client->fd < 0 || check_hello(client, err)) {
		api_client_close(client);
		return NULL;
	}
	return client;
}

void api_client_close(struct api_client *client)
{
	if (!client)
		return;
	if (client->fd >= 0)
		close(client->fd);
	if (client->passed >= 0)
		close(client->passed);
	free(client);
}

static int send_request(struct api_client *client, const char *method, json_t *params, struct err *err)
{
	_cleanup_json_ json_t *frame = json_pack("{s:I,s:s,s:o}", "id", ++client->next_id, "method", method,
						 "params", params ? params : json_object());
	_cleanup_free_ char *text = frame ? json_text(frame) : NULL;
	struct buf b;
	int rc;

	if (!text)
		return err_set(err, "the request is not valid UTF-8");
	buf_init(&b, API_FRAME_MAX + 4);
	rc = buf_put_u32(&b, (uint32_t)strlen(text)) || buf_put_str(&b, text);
	if (rc)
		err_set(err, "the request is too long");
	else if (io_write_all(client->fd, b.data, b.len))
		rc = err_errno(err, "write to hostd");
	buf_free(&b);
	return rc ? -1 : 0;
}

json_t *api_client_call(struct api_client *client, const char *method, json_t *params,
			int (*on_event)(void *user, const json_t *event), void *user, struct err *err)
{
	if (send_request(client, method, params, err))
		return NULL;
	for (;;) {
		_cleanup_json_ json_t *frame = NULL;
		const json_t *event;
		const char *why;
		bool ok;

		if (read_frame(client, &frame, err))
			return NULL;
		event = json_object_get(frame, "event");
		if (event) {
			if (on_event && on_event(user, event)) {
				err_set(err, "%s", "");
				return NULL;
			}
			continue;
		}
		if (json_get_bool(frame, "ok", &ok, err))
			return NULL;
		if (ok)
			return json_incref(json_object_get(frame, "result"));
		if (!json_get_str(frame, "error", &why, err))
			err_set(err, "%s", why);
		return NULL;
	}
}

json_t *api_client_call_fd(struct api_client *client, const char *method, json_t *params, int *fd,
			   struct err *err)
{
	json_t *result = api_client_call(client, method, params, NULL, NULL, err);

	*fd = result ? steal_fd(&client->passed) : -1;
	return result;
}
