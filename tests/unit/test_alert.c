/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each channel of alerts against a receiver of its own: journal, syslog, desktop bus, webhook, command, and the role. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "hostd/alert/alert.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define SECRET "0123456789abcdef-secret"

struct fixture {
	char dir[64];
	struct alert_config cfg;
	json_t *alert;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ingest_alert trip = { .ws = "demo", .score = 20, .threshold = 20, .n_parts = 1, .kind = EVENT_SEQ_GAP,
				     .sentence = "Frames are <b>missing</b> & more", .parts = { { SIGNAL_TAMPER, 20, 1 } } };

	strcpy(f->dir, "/tmp/hf-alert-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->alert = alert_new(&trip, 1764000000000000000LL, "quarantined");
	assert_non_null(f->alert);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct err e;

	alert_config_free(&f->cfg);
	json_decref(f->alert);
	io_remove_tree(AT_FDCWD, f->dir, &e);
	free(f);
	return 0;
}

/* ---- journal and syslog ---- */

static int datagram_server(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void the_journal_gets_it(void **state)
{
	struct fixture *f = *state;
	char got[65536];
	struct err e;
	ssize_t n;
	int fd;

	f->cfg.on[ALERT_JOURNAL] = true;
	snprintf(f->cfg.journal_socket, sizeof(f->cfg.journal_socket), "%s/journal", f->dir);
	snprintf(f->cfg.syslog_socket, sizeof(f->cfg.syslog_socket), "%s/log", f->dir);
	assert_int_equal(alert_deliver(&f->cfg, ALERT_JOURNAL, f->alert, &e), -1);
	assert_non_null(strstr(e.text, "neither"));
	fd = datagram_server(f->cfg.syslog_socket);
	assert_int_equal(alert_deliver(&f->cfg, ALERT_JOURNAL, f->alert, &e), 0);
	n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
	assert_true(n > 0);
	got[n] = '\0';
	assert_non_null(strstr(got, "<9>holdfast"));
	assert_non_null(strstr(got, "Score 20 of 20"));
	assert_null(strchr(got, '\n'));
	close(fd);
	fd = datagram_server(f->cfg.journal_socket);
	assert_int_equal(alert_deliver(&f->cfg, ALERT_JOURNAL, f->alert, &e), 0);
	n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
	assert_true(n > 0);
	assert_memory_equal(got, "MESSAGE\n", 8);
	assert_non_null(memmem(got, (size_t)n, "\nPRIORITY=1\n", 12));
	assert_non_null(memmem(got, (size_t)n, "\nHOLDFAST_WORKSPACE=demo\n", 25));
	close(fd);
}

/* ---- webhook ---- */

struct server {
	int fd, status;
	unsigned requests;
	char request[65536];
};

static void *serve(void *u)
{
	struct server *s = u;
	int c = accept(s->fd, NULL, NULL);
	char answer[128];
	size_t len = 0;
	const char *body;

	while (c >= 0 && len < sizeof(s->request) - 1) {
		ssize_t n = read(c, s->request + len, sizeof(s->request) - 1 - len);
		const char *length;

		if (n <= 0)
			break;
		len += (size_t)n;
		s->request[len] = '\0';
		body = strstr(s->request, "\r\n\r\n");
		length = strstr(s->request, "Content-Length: ");
		if (body && length && len >= (size_t)(body + 4 - s->request) + strtoul(length + 16, NULL, 10))
			break;
	}
	s->requests++;
	snprintf(answer, sizeof(answer), "HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
		 s->status);
	if (c >= 0 && write(c, answer, strlen(answer)) < 0)
		perror("write");
	close(c);
	return NULL;
}

static void listen_on(struct fixture *f, struct server *s)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(addr);

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(s->fd, 4), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&addr, &n), 0);
	snprintf(f->cfg.url, sizeof(f->cfg.url), "http://127.0.0.1:%d/hook", ntohs(addr.sin_port));
}

static void header(const char *request, const char *name, char *out, size_t size)
{
	const char *at = strstr(request, name);
	size_t n;

	assert_non_null(at);
	at += strlen(name);
	n = strcspn(at, "\r");
	assert_true(n < size);
	memcpy(out, at, n);
	out[n] = '\0';
}

static void the_webhook_is_signed(void **state)
{
	struct fixture *f = *state;
	struct server s = { .status = 204 };
	char stamp[32], signature[96], want[65], id[64];
	crypto_auth_hmacsha256_state st;
	_cleanup_json_ json_t *got = NULL;
	uint8_t mac[32];
	const char *body;
	pthread_t thread;
	struct err e;
	FILE *secret;

	f->cfg.on[ALERT_WEBHOOK] = true;
	snprintf(f->cfg.secret_file, sizeof(f->cfg.secret_file), "%s/secret", f->dir);
	listen_on(f, &s);
	assert_int_equal(alert_deliver(&f->cfg, ALERT_WEBHOOK, f->alert, &e), -1); /* no secret, nothing is sent */
	secret = fopen(f->cfg.secret_file, "w");
	fputs(SECRET "\n", secret);
	fclose(secret);
	pthread_create(&thread, NULL, serve, &s);
	if (alert_deliver(&f->cfg, ALERT_WEBHOOK, f->alert, &e))
		fail_msg("%s", e.text);
	pthread_join(thread, NULL);
	assert_int_equal(s.requests, 1);
	assert_memory_equal(s.request, "POST /hook HTTP/1.1\r\n", 21);
	header(s.request, "X-Holdfast-Timestamp: ", stamp, sizeof(stamp));
	header(s.request, "X-Holdfast-Signature: sha256=", signature, sizeof(signature));
	header(s.request, "X-Holdfast-Delivery: ", id, sizeof(id));
	assert_string_equal(id, json_string_value(json_object_get(f->alert, "id")));
	body = strstr(s.request, "\r\n\r\n") + 4;
	crypto_auth_hmacsha256_init(&st, (const unsigned char *)SECRET, strlen(SECRET));
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)stamp, strlen(stamp));
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)".", 1);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)body, strlen(body));
	crypto_auth_hmacsha256_final(&st, mac);
	hex_encode(want, mac, sizeof(mac));
	assert_string_equal(signature, want);
	got = json_loads(body, 0, NULL);
	assert_true(json_equal(got, f->alert));
	assert_null(strstr(s.request, SECRET));
	/* an error of the receiver, and a redirect, are failures to be tried again */
	for (s.status = 302; s.status <= 503; s.status += 201) {
		pthread_create(&thread, NULL, serve, &s);
		assert_int_equal(alert_deliver(&f->cfg, ALERT_WEBHOOK, f->alert, &e), -1);
		pthread_join(thread, NULL);
	}
	close(s.fd);
	assert_int_equal(alert_deliver(&f->cfg, ALERT_WEBHOOK, f->alert, &e), -1); /* nobody there */
}

/* ---- command ---- */

static void the_command_gets_it(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *got = NULL;
	char out[96], script[256];
	struct err e;

	f->cfg.on[ALERT_COMMAND] = true;
	snprintf(out, sizeof(out), "%s/got", f->dir);
	snprintf(script, sizeof(script), "cat > %s", out);
	f->cfg.command[0] = strdup("/bin/sh");
	f->cfg.command[1] = strdup("-c");
	f->cfg.command[2] = strdup(script);
	if (alert_deliver(&f->cfg, ALERT_COMMAND, f->alert, &e))
		fail_msg("%s", e.text);
	got = json_load_file(out, 0, NULL);
	assert_true(json_equal(got, f->alert));
	free(f->cfg.command[2]);
	f->cfg.command[2] = strdup("exit 3"); /* reads nothing, fails */
	assert_int_equal(alert_deliver(&f->cfg, ALERT_COMMAND, f->alert, &e), -1);
	assert_non_null(strstr(e.text, "ended with 3"));
	free(f->cfg.command[0]);
	f->cfg.command[0] = strdup("/nonexistent/program");
	assert_int_equal(alert_deliver(&f->cfg, ALERT_COMMAND, f->alert, &e), -1);
	assert_non_null(strstr(e.text, "can't be run"));
}

/* ---- desktop ---- */

struct desktop {
	char title[128], body[4096];
	int calls;
};

static int on_notify(sd_bus_message *m, void *u, sd_bus_error *error)
{
	struct desktop *d = u;
	const char *app, *icon, *title, *body;
	uint32_t replaces;

	(void)error;
	if (sd_bus_message_read(m, "susss", &app, &replaces, &icon, &title, &body) >= 0) {
		snprintf(d->title, sizeof(d->title), "%s", title);
		snprintf(d->body, sizeof(d->body), "%s", body);
		d->calls++;
	}
	return sd_bus_reply_method_return(m, "u", 1u);
}

static const sd_bus_vtable desktop_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("Notify", "susssasa{sv}i", "u", on_notify, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END,
};

struct bus_thread {
	struct desktop d;
	const char *address;
	_Atomic int ready;
};

static void *desktop_thread(void *u)
{
	struct bus_thread *t = u;
	sd_bus *bus = NULL;

	if (sd_bus_new(&bus) >= 0 && sd_bus_set_address(bus, t->address) >= 0 && sd_bus_set_bus_client(bus, 1) >= 0 &&
	    sd_bus_start(bus) >= 0 &&
	    sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/Notifications", "org.freedesktop.Notifications",
				     desktop_vtable, &t->d) >= 0 &&
	    sd_bus_request_name(bus, "org.freedesktop.Notifications", 0) >= 0) {
		t->ready = 1;
		for (int i = 0; i < 100 && !t->d.calls; i++) {
			while (sd_bus_process(bus, NULL) > 0)
				;
			sd_bus_wait(bus, 100000);
		}
		sd_bus_flush(bus);
	} else {
		t->ready = -1;
	}
	sd_bus_flush_close_unref(bus);
	return NULL;
}

static void the_desktop_gets_it_as_text(void **state)
{
	struct fixture *f = *state;
	char socket_path[96], address[128];
	struct bus_thread t = { .address = address };
	pthread_t thread;
	struct err e;
	pid_t bus;

	f->cfg.on[ALERT_DESKTOP] = true;
	setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	assert_int_equal(alert_deliver(&f->cfg, ALERT_DESKTOP, f->alert, &e), -1);
	snprintf(socket_path, sizeof(socket_path), "%s/bus", f->dir);
	snprintf(address, sizeof(address), "unix:path=%s", socket_path);
	bus = fork();
	if (!bus) {
		char arg[160];

		snprintf(arg, sizeof(arg), "--address=%s", address);
		execlp("dbus-daemon", "dbus-daemon", "--session", "--nofork", "--nosyslog", arg, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 100 && access(socket_path, F_OK); i++)
		usleep(50000);
	setenv("DBUS_SESSION_BUS_ADDRESS", address, 1);
	pthread_create(&thread, NULL, desktop_thread, &t);
	for (int i = 0; i < 200 && !t.ready; i++)
		usleep(50000);
	assert_int_equal(t.ready, 1);
	if (alert_deliver(&f->cfg, ALERT_DESKTOP, f->alert, &e))
		fail_msg("%s", e.text);
	pthread_join(thread, NULL);
	assert_int_equal(t.d.calls, 1);
	assert_non_null(strstr(t.d.title, "demo"));
	assert_non_null(strstr(t.d.body, "&lt;b&gt;missing&lt;/b&gt; &amp; more"));
	assert_null(strstr(t.d.body, "<b>"));
	kill(bus, SIGTERM);
	waitpid(bus, NULL, 0);
}

/* ---- the process that delivers ---- */

static void the_role_does_one_job_and_answers(void **state)
{
	struct fixture *f = *state;
	char config[96], out[128], answer[2048];
	_cleanup_json_ json_t *job = NULL, *got = NULL;
	_cleanup_free_ char *text = NULL;
	int pair[2];
	ssize_t n;
	FILE *file;

	snprintf(config, sizeof(config), "%s/alerts.json", f->dir);
	snprintf(out, sizeof(out), "%s/out", f->dir);
	file = fopen(config, "w");
	fprintf(file, "{\"journal\":false,\"desktop\":false,\"command\":[\"/bin/sh\",\"-c\",\"cat >%s\"]}", out);
	fclose(file);
	job = json_pack("{s:s,s:s,s:O}", "config", config, "channel", "command", "alert", f->alert);
	text = json_text(job);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_true(send(pair[0], text, strlen(text), 0) > 0);
	assert_int_equal(alert_role_main(pair[1]), 0);
	n = recv(pair[0], answer, sizeof(answer), MSG_DONTWAIT);
	assert_true(n > 0);
	got = json_loadb(answer, (size_t)n, 0, NULL);
	assert_true(json_is_true(json_object_get(got, "ok")));
	assert_int_equal(access(out, F_OK), 0);
	assert_true(send(pair[0], "{\"x\":1}", 7, 0) > 0);
	assert_int_equal(alert_role_main(pair[1]), 1);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(the_journal_gets_it),		T(the_webhook_is_signed),	  T(the_command_gets_it),
		T(the_desktop_gets_it_as_text), T(the_role_does_one_job_and_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
