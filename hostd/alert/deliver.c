/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delivering one alert by one channel; blocks, so it runs in a process of its own.
 *
 * The webhook's signature: X-Holdfast-Signature is the hex HMAC-SHA256 of "TIMESTAMP.BODY" under the secret of the
 * secret file, X-Holdfast-Timestamp the seconds since 1970 and X-Holdfast-Delivery the alert's id, the same for every
 * try, so a receiver can check who sent it, that it is new, and whether it had it already.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "hostd/alert/alert.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define WEBHOOK_TIMEOUT_MS 15000L
#define COMMAND_TIMEOUT_MS 30000
#define DESKTOP_MS 0 /* stays until it is closed */

static const char *text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

/* ---- journald and syslog ---- */

static int send_datagram(const char *path, const void *p, size_t n, struct err *e)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_errno(e, "socket");
	if (strlen(path) >= sizeof(addr.sun_path))
		return err_set(e, "%s: the path is too long", path);
	strcpy(addr.sun_path, path);
	if (sendto(fd, p, n, MSG_NOSIGNAL, (struct sockaddr *)&addr, sizeof(addr)) != (ssize_t)n)
		return err_errno(e, "%s", path);
	return 0;
}

/* journald's native protocol: NAME=value, or NAME, length (64 bit, little-endian) and bytes where it has newlines. */
static void put_field(struct buf *b, const char *name, const char *value)
{
	size_t n = strlen(value);
	uint8_t le[8];

	if (!strchr(value, '\n')) {
		buf_putf(b, "%s=%s\n", name, value);
		return;
	}
	for (int i = 0; i < 8; i++)
		le[i] = (uint8_t)(n >> (8 * i));
	buf_putf(b, "%s\n", name);
	buf_put(b, le, sizeof(le));
	buf_put(b, value, n);
	buf_put_str(b, "\n");
}

static int to_journal(const struct alert_config *cfg, const json_t *alert, struct err *e)
{
	_cleanup_free_ char *message = alert_text(alert), *whole = json_text(alert);
	struct buf b;
	int rc;

	if (!message || !whole)
		return err_set(e, "out of memory");
	buf_init(&b, 131072);
	if (access(cfg->journal_socket, F_OK) == 0) {
		put_field(&b, "MESSAGE", message);
		put_field(&b, "PRIORITY", "1");
		put_field(&b, "SYSLOG_IDENTIFIER", "holdfast");
		put_field(&b, "HOLDFAST_WORKSPACE", text(alert, "workspace"));
		put_field(&b, "HOLDFAST_ALERT", whole);
		rc = send_datagram(cfg->journal_socket, b.data, b.len, e);
	} else if (access(cfg->syslog_socket, F_OK) == 0) {
		for (char *c = message; *c; c++)
			if (*c == '\n')
				*c = ' ';
		buf_putf(&b, "<%d>holdfast[%d]: %s", LOG_USER | LOG_ALERT, (int)getpid(), message);
		rc = send_datagram(cfg->syslog_socket, b.data, b.len, e);
	} else {
		rc = err_set(e, "neither journald nor syslog listens on this machine");
	}
	buf_free(&b);
	return rc;
}

/* ---- desktop ---- */

/* The body of a notification is markup. */
static void put_markup(struct buf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '&')
			buf_put_str(b, "&amp;");
		else if (*s == '<')
			buf_put_str(b, "&lt;");
		else if (*s == '>')
			buf_put_str(b, "&gt;");
		else
			buf_put_u8(b, (uint8_t)*s);
	}
}

static int to_desktop(const json_t *alert, struct err *e)
{
	_cleanup_free_ char *body = alert_text(alert);
	char title[128];
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus *bus = NULL;
	struct buf b;
	int rc;

	if (!body)
		return err_set(e, "out of memory");
	buf_init(&b, 65536);
	put_markup(&b, body);
	snprintf(title, sizeof(title), "Holdfast: workspace %.80s", text(alert, "workspace"));
	rc = sd_bus_open_user(&bus);
	if (rc >= 0 && buf_cstr(&b))
		rc = sd_bus_call_method(bus, "org.freedesktop.Notifications", "/org/freedesktop/Notifications",
					"org.freedesktop.Notifications", "Notify", &error, NULL, "susssasa{sv}i", "Holdfast",
					0u, "security-high", title, (char *)b.data, 0, 1, "urgency", "y", 2, DESKTOP_MS);
	if (rc < 0)
		err_set(e, "no desktop took it: %s", error.message ? error.message : strerror(-rc));
	buf_free(&b);
	sd_bus_error_free(&error);
	sd_bus_flush_close_unref(bus);
	return rc < 0 ? -1 : 0;
}

/* ---- webhook ---- */

/* The secret: what the file holds, without a final newline; nobody else may read it. */
static int load_secret(const char *path, uint8_t secret[ALERT_SECRET_MAX], size_t *len, struct err *e)
{
	struct buf b;
	int rc = 0;

	buf_init(&b, ALERT_SECRET_MAX);
	if (io_read_file(path, &b, e))
		rc = -1;
	while (!rc && b.len && (b.data[b.len - 1] == '\n' || b.data[b.len - 1] == '\r'))
		b.len--;
	if (!rc && b.len < ALERT_SECRET_MIN)
		rc = err_set(e, "%s: a secret has at least %d bytes", path, ALERT_SECRET_MIN);
	if (!rc) {
		memcpy(secret, b.data, b.len);
		*len = b.len;
	}
	if (b.data)
		sodium_memzero(b.data, b.len);
	buf_free(&b);
	return rc;
}

static size_t discard(char *p, size_t size, size_t n, void *u)
{
	(void)p;
	(void)u;
	return size * n;
}

static void sign(const uint8_t *secret, size_t secret_len, const char *stamp, const char *body, char out[65])
{
	crypto_auth_hmacsha256_state st;
	uint8_t mac[32];

	crypto_auth_hmacsha256_init(&st, secret, secret_len);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)stamp, strlen(stamp));
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)".", 1);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)body, strlen(body));
	crypto_auth_hmacsha256_final(&st, mac);
	hex_encode(out, mac, sizeof(mac));
}

static struct curl_slist *headers_for(const json_t *alert, const char *stamp, const char *signature)
{
	struct curl_slist *list = NULL;
	char line[256];

	list = curl_slist_append(list, "Content-Type: application/json");
	list = curl_slist_append(list, "Expect:");
	snprintf(line, sizeof(line), "X-Holdfast-Delivery: %.64s", text(alert, "id"));
	list = curl_slist_append(list, line);
	snprintf(line, sizeof(line), "X-Holdfast-Timestamp: %s", stamp);
	list = curl_slist_append(list, line);
	snprintf(line, sizeof(line), "X-Holdfast-Signature: sha256=%s", signature);
	return curl_slist_append(list, line);
}

static int post(const struct alert_config *cfg, const char *body, struct curl_slist *headers, struct err *e)
{
	CURL *c = curl_easy_init();
	char why[CURL_ERROR_SIZE] = "";
	long status = 0;
	CURLcode rc;

	if (!c)
		return err_set(e, "out of memory");
	curl_easy_setopt(c, CURLOPT_URL, cfg->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, WEBHOOK_TIMEOUT_MS);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "holdfast");
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, discard);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
	if (*cfg->ca_file)
		curl_easy_setopt(c, CURLOPT_CAINFO, cfg->ca_file);
	rc = curl_easy_perform(c);
	if (rc == CURLE_OK)
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(c);
	if (rc != CURLE_OK)
		return err_set(e, "webhook: %s", *why ? why : curl_easy_strerror(rc));
	return status >= 200 && status < 300 ? 0 : err_set(e, "webhook: it answered %ld", status);
}

static int to_webhook(const struct alert_config *cfg, const json_t *alert, struct err *e)
{
	_cleanup_free_ char *body = json_text(alert);
	uint8_t secret[ALERT_SECRET_MAX];
	char stamp[24], signature[65];
	struct curl_slist *headers;
	size_t len = 0;
	int rc;

	if (!body)
		return err_set(e, "out of memory");
	if (load_secret(cfg->secret_file, secret, &len, e))
		return -1;
	snprintf(stamp, sizeof(stamp), "%lld", (long long)time(NULL));
	sign(secret, len, stamp, body, signature);
	sodium_memzero(secret, sizeof(secret));
	headers = headers_for(alert, stamp, signature);
	rc = headers ? post(cfg, body, headers, e) : err_set(e, "out of memory");
	curl_slist_free_all(headers);
	return rc;
}

/* ---- command ---- */

static void exec_command(const struct alert_config *cfg, int in)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, STDIN_FILENO) < 0 || close_range(3, ~0u, 0))
		_exit(126);
	execv(cfg->command[0], cfg->command);
	_exit(127);
}

static int await_command(const struct alert_config *cfg, pid_t pid, struct err *e)
{
	_cleanup_close_ int fd = pidfd_open(pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int status, n = fd < 0 ? 1 : poll(&p, 1, COMMAND_TIMEOUT_MS);

	if (n == 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n == 0)
		return err_set(e, "%s did not end within %d s", cfg->command[0], COMMAND_TIMEOUT_MS / 1000);
	if (WIFSIGNALED(status))
		return err_set(e, "%s ended with signal %d", cfg->command[0], WTERMSIG(status));
	if (WEXITSTATUS(status) == 127)
		return err_set(e, "%s can't be run", cfg->command[0]);
	return WEXITSTATUS(status) ? err_set(e, "%s ended with %d", cfg->command[0], WEXITSTATUS(status)) : 0;
}

/* An alert is smaller than a pipe's buffer: writing it does not wait for the program to read. */
static int to_command(const struct alert_config *cfg, const json_t *alert, struct err *e)
{
	_cleanup_free_ char *body = json_text(alert);
	_cleanup_close_ int in = -1, out = -1;
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	int pair[2];
	pid_t pid;

	if (!body)
		return err_set(e, "out of memory");
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(e, "pipe");
	in = pair[0];
	out = pair[1];
	pid = fork();
	if (pid < 0)
		return err_errno(e, "fork");
	if (!pid)
		exec_command(cfg, in);
	close(steal_fd(&in));
	sigaction(SIGPIPE, &ignore, &old);
	if (io_write_all(out, body, strlen(body)) == 0)
		io_write_all(out, "\n", 1);
	sigaction(SIGPIPE, &old, NULL);
	close(steal_fd(&out));
	return await_command(cfg, pid, e);
}

int alert_deliver(const struct alert_config *cfg, enum alert_channel channel, const json_t *alert, struct err *e)
{
	if (!cfg->on[channel])
		return err_set(e, "%s is not configured", alert_channel_name(channel));
	switch (channel) {
	case ALERT_JOURNAL:
		return to_journal(cfg, alert, e);
	case ALERT_DESKTOP:
		return to_desktop(alert, e);
	case ALERT_WEBHOOK:
		return to_webhook(cfg, alert, e);
	case ALERT_COMMAND:
		return to_command(cfg, alert, e);
	default:
		return err_set(e, "no such channel");
	}
}
