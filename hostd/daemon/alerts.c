/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd's alerts: each delivery is a child of the spawner, told over its socket what to send and where. */
#include "hostd/daemon/alerts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/daemon/spawner.h"
#include "lib/cleanup.h"
#include "lib/json.h"
#include "lib/log.h"

#define STATE_KEY "alerts"
#define DELIVERY_MS 60000
#define ANSWER_MAX 2048

struct alerts_test {
	struct api_call *call; /* NULL: the client left */
	json_t *channels;
	unsigned open;
};

struct delivery {
	struct delivery *next;
	struct alerts *alerts;
	uint64_t job;		  /* of the queue; 0: of a test */
	struct alerts_test *test;
	enum alert_channel channel;
	int fd;
	struct loop_fd *watch;
	struct loop_timer *timer;
};

struct alerts {
	struct hostd *hostd;
	struct alert_queue *queue;
	struct alert_config cfg;
	char config_path[PATHS_MAX + 16];
	struct delivery *deliveries;
};

static void test_result(struct alerts_test *test, enum alert_channel channel, bool on, bool ok, const char *error)
{
	json_array_set_new(test->channels, channel,
			   json_pack("{s:s,s:b,s:b,s:s}", "channel", alert_channel_name(channel), "on", on, "ok", ok, "error",
				     error));
}

static void test_over(struct alerts_test *test)
{
	if (test->open)
		return;
	if (test->call) {
		api_call_on_cancel(test->call, NULL, NULL);
		api_reply(test->call, json_pack("{s:o}", "channels", test->channels));
	} else {
		json_decref(test->channels);
	}
	free(test);
}

static void test_cancelled(void *user)
{
	((struct alerts_test *)user)->call = NULL;
}

/* Ends a delivery, whatever its child said or did not say. */
static void finish(struct delivery *d, bool ok, const char *error)
{
	struct alerts *alerts = d->alerts;
	struct delivery **at = &alerts->deliveries;
	struct alerts_test *test = d->test;
	uint64_t job = d->job;
	enum alert_channel channel = d->channel;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	loop_fd_del(d->watch);
	loop_timer_del(d->timer);
	close(d->fd);
	free(d);
	if (test) {
		test_result(test, channel, true, ok, ok ? "" : error);
		test->open--;
		test_over(test);
	} else {
		alert_queue_done(alerts->queue, (int64_t)loop_now_ms(), job, ok, error);
	}
}

static void on_answer(void *user, int fd, uint32_t events)
{
	static const struct json_limits limits = { .bytes = ANSWER_MAX, .depth = 2, .values = 16 };
	_cleanup_json_ json_t *answer = NULL;
	char text[ANSWER_MAX];
	ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
	const char *error = "the delivering process died";
	bool ok = false;

	(void)events;
	answer = n > 0 ? json_parse(text, (size_t)n, &limits, NULL) : NULL;
	if (answer && (json_get_bool(answer, "ok", &ok, NULL) || json_get_str(answer, "error", &error, NULL)))
		ok = false;
	finish(user, ok, error);
}

static void on_timeout(void *user)
{
	struct delivery *d = user;

	d->timer = NULL;
	finish(d, false, "no answer within 60 s");
}

static int begin(struct alerts *alerts, uint64_t job, struct alerts_test *test, enum alert_channel channel,
		 const json_t *alert)
{
	_cleanup_json_ json_t *order = json_pack("{s:s,s:s,s:O}", "config", alerts->config_path, "channel",
						 alert_channel_name(channel), "alert", alert);
	_cleanup_free_ char *text = order ? json_text(order) : NULL;
	_cleanup_close_ int ours = -1, theirs = -1;
	struct delivery *d = calloc(1, sizeof(*d));
	struct err err = { "out of memory" };
	int pair[2];

	if (!text || !d || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(d);
		return -1;
	}
	ours = pair[0];
	theirs = pair[1];
	*d = (struct delivery){ .alerts = alerts, .job = job, .test = test, .channel = channel };
	if (send(ours, text, strlen(text), MSG_NOSIGNAL) < 0 ||
	    spawner_run(alerts->hostd->spawner, SPAWNER_ALERT, theirs, &err) ||
	    !(d->watch = loop_fd_add(alerts->hostd->loop, ours, EPOLLIN, on_answer, d, &err))) {
		log_warn("alert by %s: %s", alert_channel_name(channel), err.text);
		free(d);
		return -1;
	}
	d->fd = steal_fd(&ours);
	d->timer = loop_timer_add(alerts->hostd->loop, DELIVERY_MS, 0, on_timeout, d);
	d->next = alerts->deliveries;
	alerts->deliveries = d;
	return 0;
}

static int start(void *u, uint64_t job, enum alert_channel channel, const json_t *alert)
{
	return begin(u, job, NULL, channel, alert);
}

static void save(void *u, json_t *state)
{
	struct alerts *alerts = u;
	_cleanup_free_ char *text = state ? json_text(state) : NULL;
	struct err err;

	if (store_put_state(alerts->hostd->store, NULL, STATE_KEY, text, &err) < 0)
		log_warn("alerts that wait were not stored: %s", err.text);
}

static void over(void *u, enum alert_channel channel, const json_t *alert, unsigned tries, const char *error)
{
	struct alerts *alerts = u;
	const char *ws = json_string_value(json_object_get(alert, "workspace"));

	if (error)
		log_warn("alert by %s: %s", alert_channel_name(channel), error);
	daemon_note(alerts->hostd, ws, error ? EVENT_ALERT_FAILED : EVENT_ALERT_SENT,
		    json_pack("{s:s,s:i,s:s*,s:O*}", "channel", alert_channel_name(channel), "tries", (int)tries, "text",
			      error, "alert", json_object_get(alert, "id")));
}

struct alerts *alerts_new(struct hostd *hostd)
{
	static const struct alert_queue_ops ops = { .start = start, .save = save, .over = over };
	_cleanup_json_ json_t *state = NULL, *empty = json_object();
	_cleanup_free_ char *text = NULL;
	struct alerts *alerts = calloc(1, sizeof(*alerts));
	struct err err;

	if (!alerts || !(alerts->queue = alert_queue_new(&ops, alerts))) {
		free(alerts);
		return NULL;
	}
	alerts->hostd = hostd;
	snprintf(alerts->config_path, sizeof(alerts->config_path), "%s/alerts.json", hostd->paths.config);
	if (alert_config_load(alerts->config_path, &alerts->cfg, &err)) {
		log_fault("%s; alerts go to the journal and the desktop", err.text);
		alert_config_parse(empty, &alerts->cfg, &err);
	}
	text = store_get_state(hostd->store, NULL, STATE_KEY);
	state = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (state && alert_queue_restore(alerts->queue, (int64_t)loop_now_ms(), state, &err))
		log_warn("%s", err.text);
	return alerts;
}

void alerts_free(struct alerts *alerts)
{
	if (!alerts)
		return;
	for (struct delivery *d = alerts->deliveries, *next; d; d = next) {
		next = d->next;
		loop_fd_del(d->watch);
		loop_timer_del(d->timer);
		close(d->fd);
		free(d);
	}
	alert_queue_free(alerts->queue);
	alert_config_free(&alerts->cfg);
	free(alerts);
}

void alerts_tick(struct alerts *alerts)
{
	alert_queue_tick(alerts->queue, (int64_t)loop_now_ms());
}

void alerts_send(struct alerts *alerts, const struct ingest_alert *trip, const char *state)
{
	_cleanup_json_ json_t *alert = alert_new(trip, (int64_t)loop_unix_ns(), state);

	if (alert)
		alert_queue_add(alerts->queue, (int64_t)loop_now_ms(), &alerts->cfg, alert);
}

void alerts_test(struct alerts *alerts, struct api_call *call, const char *author)
{
	_cleanup_json_ json_t *alert = alert_test_new(author, (int64_t)loop_unix_ns());
	struct alerts_test *test = calloc(1, sizeof(*test));
	struct err err;

	/* what is written there now is what is tested */
	alert_config_free(&alerts->cfg);
	if (!alert || !test || alert_config_load(alerts->config_path, &alerts->cfg, &err)) {
		api_fail(call, "%s", alert && test ? err.text : "out of memory");
		free(test);
		return;
	}
	test->call = call;
	test->channels = json_array();
	for (int c = 0; c < ALERT_CHANNELS; c++)
		json_array_append_new(test->channels, json_null());
	test->open = 1;
	api_call_on_cancel(call, test_cancelled, test);
	daemon_note(alerts->hostd, NULL, EVENT_ALERT_TEST, json_pack("{s:s}", "author", author));
	for (int c = 0; c < ALERT_CHANNELS; c++) {
		if (!alerts->cfg.on[c])
			test_result(test, (enum alert_channel)c, false, false, "not configured");
		else if (begin(alerts, 0, test, (enum alert_channel)c, alert))
			test_result(test, (enum alert_channel)c, true, false, "the delivering process could not be started");
		else
			test->open++;
	}
	test->open--;
	test_over(test);
}
