/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of events, the judge's configuration, quarantine's order, alerts, and how rows are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <holdfast/sentry.h>

#include "hostd/alert/alert.h"
#include "hostd/cli/timeline_print.h"
#include "hostd/sentry/judge.h"
#include "hostd/sentry/quarantine.h"
#include "hostd/sentry/session.h"
#include "hostd/store/export.h"
#include "hostd/store/ocsf.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

/* ---- the table ---- */

static void every_kind_of_the_sentry_has_a_row(void **state)
{
#define NAME(constant, name) name,
	static const char *const kinds[] = { HF_SENTRY_KINDS(NAME) HF_SENTRY_TYPE_HELLO, HF_SENTRY_TYPE_HEARTBEAT };
	static const char *const tampers[] = { SESSION_TAMPERS(NAME) };
#undef NAME

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int k = event_find(kinds[i]);

		if (k < 0 || event_defs[k].engine != ENGINE_SENTRY)
			fail_msg("the Sentry's kind %s has no row", kinds[i]);
	}
	for (size_t i = 0; i < sizeof(tampers) / sizeof(tampers[0]); i++) {
		int k = event_find(tampers[i]);

		if (k < 0 || event_defs[k].verdict != VERDICT_ALARM)
			fail_msg("the tamper reason %s has no row", tampers[i]);
		if (strcmp(tampers[i], "garbage") && strcmp(tampers[i], "unclean_end") &&
		    (!(event_defs[k].flags & EVENT_TAMPER) || signal_defs[event_defs[k].signal].weight != 20))
			fail_msg("the tamper reason %s does not weigh 20", tampers[i]);
	}
}

static void the_document_shows_the_table(void **state)
{
	struct buf doc;
	struct err e;

	(void)state;
	buf_init(&doc, 1 << 20);
	if (io_read_file("docs/protocol/timeline.md", &doc, &e))
		fail_msg("%s", e.text);
	assert_non_null(buf_cstr(&doc));
	for (int k = 0; k < EVENT_COUNT; k++) {
		char line[256];

		snprintf(line, sizeof(line), "| `%s` | %s | %s | %u |", event_defs[k].name,
			 event_engine_name(event_defs[k].engine), event_verdict_name(event_defs[k].verdict),
			 signal_defs[event_defs[k].signal].weight);
		if (!strstr((char *)doc.data, line))
			fail_msg("docs/protocol/timeline.md lacks: %s", line);
		assert_int_equal(event_find(event_defs[k].name), k);
	}
	for (int s = 1; s < SIGNAL_COUNT; s++) {
		char line[128];

		snprintf(line, sizeof(line), "| `%s` | %u |", signal_defs[s].name, signal_defs[s].weight);
		if (!strstr((char *)doc.data, line))
			fail_msg("docs/protocol/timeline.md lacks: %s", line);
	}
	buf_free(&doc);
}

static void sentences_read_well(void **state)
{
	static const struct {
		enum event_kind kind;
		const char *data, *says;
	} cases[] = {
		{ EVENT_EXEC, "{\"path\":\"/bin/sh\",\"argv\":[\"sh\",\"-c\",\"echo 'a b'\"]}",
		  "/bin/sh started as: sh -c 'echo '\\''a b'\\'''" },
		{ EVENT_SANDBOX_DENIED, "{\"exe\":\"/usr/bin/npm\",\"op\":\"open_read\",\"path\":\"/root/k\"}",
		  "/usr/bin/npm was refused open_read on /root/k" },
		{ EVENT_FLOW_DENIED, "{\"name\":\"x.example\",\"dst\":\"192.0.2.1\",\"dport\":443,\"reason\":\"no rule\"}",
		  "may not connect to x.example (192.0.2.1) port 443: no rule" },
		{ EVENT_FLOW_DENIED, "{\"program\":\"/bin/nc\",\"dst\":\"192.0.2.1\"}",
		  "/bin/nc may not connect to 192.0.2.1 (192.0.2.1)" },
		{ EVENT_CRED_GAIN, "{\"comm\":\"sudo\",\"via\":\"exec\"}", "sudo gained privilege through exec" },
		{ EVENT_SEQ_GAP, "{}", "Frames of the Sentry are missing" },
		{ EVENT_PTRACE, "{\"exe\":\"/usr/bin/gdb\",\"target_pid\":7,\"target_comm\":\"sh\"}",
		  "/usr/bin/gdb attached to sh, process 7" },
	};
	char out[256], tiny[16];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_json_ json_t *data = json_loads(cases[i].data, 0, NULL);

		assert_non_null(data);
		event_sentence(cases[i].kind, "", data, out, sizeof(out));
		assert_string_equal(out, cases[i].says);
	}
	for (int k = 0; k < EVENT_COUNT; k++) { /* no template leaves anything open, whatever is missing */
		_cleanup_json_ json_t *none = json_object();

		event_sentence((enum event_kind)k, "", none, out, sizeof(out));
		assert_true(strlen(out) > 5);
		assert_null(strpbrk(out, "{}[]|"));
		event_sentence((enum event_kind)k, "", none, tiny, sizeof(tiny));
		assert_true(strlen(tiny) < sizeof(tiny));
	}
}

/* ---- configuration ---- */

static void configuration_is_validated(void **state)
{
	static const char *const bad[] = { "[]", "{\"weights\":{\"nothing_like_it\":1}}", "{\"weights\":{\"ptrace\":101}}",
					   "{\"weights\":{\"ptrace\":-1}}", "{\"weights\":{\"tamper\":0}}",
					   "{\"threshold\":0}", "{\"window_ms\":10}", "{\"unknown\":1}",
					   "{\"mutes\":[{\"signal\":\"tamper\",\"program\":\"*\"}]}",
					   "{\"mutes\":[{\"signal\":\"ptrace\",\"program\":\"gdb\"}]}",
					   "{\"mutes\":[{\"signal\":\"ptrace\"}]}", "{\"threshold\":\"20\"}" };
	struct judge_config cfg;
	struct err e;

	(void)state;
	judge_config_default(&cfg);
	assert_int_equal(cfg.threshold, 20);
	assert_int_equal(cfg.window_ms, 60000);
	assert_int_equal(cfg.weight[SIGNAL_TAMPER], 20);
	assert_int_equal(cfg.weight[SIGNAL_SANDBOX_DENIED], 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		_cleanup_json_ json_t *obj = json_loads(bad[i], 0, NULL);

		assert_non_null(obj);
		judge_config_default(&cfg);
		if (judge_config_parse(obj, &cfg, &e) != -1)
			fail_msg("%s was taken", bad[i]);
	}
}

static void state_survives_export_and_import(void **state)
{
	struct judge_config cfg;
	struct judge *a, *b;
	struct judge_event ev = { .kind = EVENT_KEXEC, .program = "/x" };
	struct judge_result res;
	_cleanup_json_ json_t *one = NULL, *two = NULL;
	struct err e;

	(void)state;
	judge_config_default(&cfg);
	a = judge_new(&cfg, NULL, NULL);
	b = judge_new(&cfg, NULL, NULL);
	judge_boot(a, 1000);
	judge_event(a, 5000, &ev, &res);
	for (int i = 0; i < 2000; i++) {
		char dest[32];
		struct judge_event flow = { .kind = EVENT_FLOW_ALLOWED, .dest = dest };

		snprintf(dest, sizeof(dest), "h%d", i);
		judge_event(a, 6000, &flow, &res);
	}
	one = judge_export(a, 7000);
	assert_int_equal(judge_import(b, 907000, one, &e), 0);
	two = judge_export(b, 907000);
	assert_true(json_equal(one, two));
	assert_int_equal(judge_score(b, 907000), 10);
	assert_int_equal(judge_score(b, 907000 + 57999), 10);
	assert_int_equal(judge_score(b, 907000 + 58000), 0);
	judge_free(a);
	judge_free(b);
}

struct said {
	unsigned trips;
	char parts[128];
};

static void on_judge_row(void *u, enum event_kind kind, unsigned points, const json_t *data)
{
	struct said *said = u;

	(void)points;
	if (kind != EVENT_SCORE_TRIP)
		return;
	said->trips++;
	snprintf(said->parts, sizeof(said->parts), "%s", json_string_value(json_object_get(data, "parts")));
}

static void another_configuration_keeps_what_was_scored(void **state)
{
	struct judge_event ev = { .kind = EVENT_PTRACE, .program = "/usr/bin/gdb" };
	struct judge_config cfg, next;
	struct said said = { 0 };
	struct judge_result res;
	char text[1024];
	struct judge *j;

	(void)state;
	judge_config_default(&cfg);
	next = cfg;
	assert_int_equal(judge_config_diff(&cfg, &next, text, sizeof(text)), 0);
	j = judge_new(&cfg, on_judge_row, &said);
	judge_boot(j, 0);
	for (int i = 0; i < 3; i++)
		judge_event(j, 1000 + i, &ev, &res);
	assert_int_equal(judge_score(j, 2000), 9);
	/* a mute: of what comes, not of what was */
	next.mutes[next.n_mutes++] = (struct judge_mute){ SIGNAL_PTRACE, "/usr/bin/gdb" };
	next.weight[SIGNAL_KEXEC] = 4;
	assert_true(judge_config_diff(&cfg, &next, text, sizeof(text)) > 0);
	assert_string_equal(text, "kexec weighs 10 to 4, mutes ptrace for /usr/bin/gdb");
	judge_reconfigure(j, 2000, &next);
	judge_event(j, 3000, &ev, &res);
	assert_true(res.muted);
	assert_int_equal(judge_score(j, 3000), 9);
	ev = (struct judge_event){ .kind = EVENT_KEXEC, .program = "/x" };
	judge_event(j, 3000, &ev, &res);
	assert_int_equal(res.points, 4);
	assert_int_equal(said.trips, 0);
	/* a threshold that is reached already trips, once */
	next.threshold = 13;
	judge_reconfigure(j, 4000, &next);
	assert_int_equal(said.trips, 1);
	assert_string_equal(said.parts, "9 for one process taking over another ×3, 4 for an attempt to start another kernel");
	judge_reconfigure(j, 4000, &next);
	assert_int_equal(said.trips, 1);
	/* the phase is what it was: a mount is exempt until the boot is over */
	ev = (struct judge_event){ .kind = EVENT_MOUNT, .program = "/x", .pid = 7 };
	judge_event(j, 5000, &ev, &res);
	assert_true(res.exempt);
	judge_config_diff(&next, &cfg, text, sizeof(text));
	assert_string_equal(text, "threshold 13 to 20, kexec weighs 4 to 10, no longer mutes ptrace for /usr/bin/gdb");
	assert_int_equal(judge_config_diff(&next, &cfg, text, 30), strlen("threshold 13 to 20")); /* whole parts */
	judge_free(j);
}

static unsigned points_of_frame(struct judge *j, const char *type, json_t *frame)
{
	static int64_t now_ms = 1000;
	struct judge_result res;
	struct judge_event ev;

	assert_non_null(frame);
	assert_int_equal(judge_frame(j, now_ms += 100, type, frame, &ev, &res), 0);
	json_decref(frame);
	return res.points;
}

static json_t *mount_by(int pid)
{
	return json_pack("{s:i,s:i,s:i,s:s}", "pid", pid, "start_ns", pid, "ppid", 1, "exe", "/init");
}

static json_t *session_begun_by(int pid)
{
	return json_pack("{s:i,s:{s:i,s:s}}", "phase", 1, "phase_set_by", "pid", pid, "comm", "sandboxd");
}

static void only_a_living_supervisor_mounts_for_nothing(void **state)
{
	struct judge_config cfg;
	struct judge *j;

	(void)state;
	judge_config_default(&cfg);
	j = judge_new(&cfg, NULL, NULL);
	judge_boot(j, 0);
	points_of_frame(j, "heartbeat", session_begun_by(50));
	assert_int_equal(points_of_frame(j, "mount", mount_by(50)), 0);
	assert_int_equal(points_of_frame(j, "mount", mount_by(60)), cfg.weight[SIGNAL_MOUNT]);
	/* an attempt leaves it alive */
	points_of_frame(j, "supervisor_lost", json_pack("{s:i,s:s}", "pid", 70, "op", "signal"));
	assert_int_equal(points_of_frame(j, "mount", mount_by(50)), 0);
	points_of_frame(j, "supervisor_lost", json_pack("{s:i,s:s}", "pid", 50, "op", "exit"));
	assert_int_equal(points_of_frame(j, "mount", mount_by(50)), cfg.weight[SIGNAL_MOUNT]);
	judge_free(j);
	/* a program of the disk that begins the session is no supervisor */
	j = judge_new(&cfg, NULL, NULL);
	judge_boot(j, 0);
	points_of_frame(j, "exec", json_pack("{s:i,s:i,s:i,s:s}", "pid", 50, "start_ns", 9, "ppid", 1, "path", "/bin/sh"));
	points_of_frame(j, "heartbeat", session_begun_by(50));
	assert_int_equal(points_of_frame(j, "mount", mount_by(50)), cfg.weight[SIGNAL_MOUNT]);
	judge_free(j);
}

/* Two attempts, @apart_ms by the host's clock, with the times that a guest says: is it a trip? */
static bool trips(int64_t apart_ms, int64_t first_t, int64_t second_t)
{
	struct judge_config cfg;
	struct judge_result res;
	struct judge_event ev;
	struct judge *j;
	bool trip;

	judge_config_default(&cfg);
	j = judge_new(&cfg, NULL, NULL);
	judge_boot(j, 0);
	for (int i = 0; i < 2; i++) {
		json_t *frame = json_pack("{s:i,s:i,s:I}", "pid", 50, "start_ns", 9, "t", (json_int_t)(i ? second_t : first_t));

		assert_int_equal(judge_frame(j, 1000 + i * apart_ms, "kexec", frame, &ev, &res), 0);
		assert_int_equal(res.points, 10);
		json_decref(frame);
	}
	trip = res.trip;
	judge_free(j);
	return trip;
}

static void the_guests_clock_moves_no_window(void **state)
{
	static const int64_t day_ns = 86400LL * 1000000000;
	const int64_t says[] = { 0, 1, day_ns, 365 * day_ns, INT64_MAX, -day_ns, INT64_MIN };

	(void)state;
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
		for (size_t k = 0; k < sizeof(says) / sizeof(says[0]); k++) {
			assert_true(trips(59000, says[i], says[k]));
			assert_false(trips(61000, says[i], says[k]));
		}
}

/* ---- quarantine ---- */

struct effects {
	char order[64];
	unsigned saves, held, failed;
	bool hang_proxy, no_vm, answer_inside;
	struct quarantine *q;
	json_t *state;
};

static int effect(void *u, enum quarantine_step step)
{
	struct effects *f = u;

	snprintf(f->order + strlen(f->order), sizeof(f->order) - strlen(f->order), "%d", (int)step);
	if (f->no_vm)
		return -1;
	if (f->answer_inside)
		quarantine_done(f->q, 0, step, true);
	return 0;
}

static void saved(void *u, json_t *s)
{
	struct effects *f = u;

	f->saves++;
	json_decref(f->state);
	f->state = json_incref(s);
}

static void is_held(void *u, int64_t cut_ns, int64_t total_ns, unsigned failed)
{
	struct effects *f = u;

	assert_true(cut_ns >= 0 && total_ns >= cut_ns);
	f->held++;
	f->failed = failed;
}

static const struct quarantine_ops q_ops = { effect, saved, is_held };

static void quarantine_cuts_in_order(void **state)
{
	struct effects f = { .saves = 0 };
	struct quarantine *q = quarantine_new(QUARANTINE_CUT, &q_ops, &f), *again;
	struct err e;

	(void)state;
	f.q = q;
	assert_int_equal(quarantine_may_run(q, &e), 0);
	quarantine_trip(q, 100, 50, "score 20", false);
	assert_int_equal(quarantine_state(q), QUARANTINE_CUTTING);
	assert_int_equal(f.saves, 1); /* before any effect is answered */
	assert_string_equal(f.order, "0");
	quarantine_trip(q, 100, 50, "again", false); /* already */
	quarantine_done(q, 200, QUARANTINE_STOP_VM, true); /* out of turn */
	assert_string_equal(f.order, "0");
	quarantine_done(q, 200, QUARANTINE_CLOSE_SWITCH, true);
	assert_string_equal(f.order, "01");
	quarantine_tick(q, 200 + QUARANTINE_STEP_MS * 1000000LL); /* the proxy hangs */
	assert_string_equal(f.order, "012");
	quarantine_done(q, 300, QUARANTINE_CUT_PROXY, true); /* too late */
	assert_string_equal(f.order, "012");
	quarantine_done(q, 3000000000LL, QUARANTINE_CLOSE_VSOCK, true);
	quarantine_done(q, 3000000000LL, QUARANTINE_STOP_VM, true);
	assert_int_equal(quarantine_state(q), QUARANTINE_HELD);
	assert_int_equal(f.held, 1);
	assert_int_equal(f.failed, 1u << QUARANTINE_CUT_PROXY);
	assert_int_equal(quarantine_may_run(q, &e), -1);
	assert_non_null(strstr(e.text, "holdfast release"));

	/* hostd starts again: the state alone makes it cut once more */
	f.order[0] = '\0';
	f.no_vm = true;
	again = quarantine_new(QUARANTINE_OFF, &q_ops, &f);
	f.q = again;
	assert_int_equal(quarantine_restore(again, 5, f.state, &e), 0);
	assert_string_equal(f.order, "0123");
	assert_int_equal(quarantine_state(again), QUARANTINE_HELD);
	assert_int_equal(f.held, 1); /* it was told before */
	quarantine_release(again, "release", "me");
	assert_int_equal(quarantine_may_run(again, &e), 0);
	quarantine_free(again);
	again = quarantine_new(QUARANTINE_CUT, &q_ops, &f);
	assert_int_equal(quarantine_restore(again, 5, f.state, &e), 0);
	assert_int_equal(quarantine_state(again), QUARANTINE_FREE);
	quarantine_free(again);
	quarantine_free(q);
	json_decref(f.state);
}

static void modes_decide_what_a_trip_does(void **state)
{
	struct effects f = { .answer_inside = true };
	struct quarantine *q = quarantine_new(QUARANTINE_ALERT, &q_ops, &f);

	(void)state;
	f.q = q;
	quarantine_trip(q, 1, 1, "x", false);
	assert_int_equal(quarantine_state(q), QUARANTINE_FREE);
	quarantine_trip(q, 1, 1, "an operator asked", true);
	assert_int_equal(quarantine_state(q), QUARANTINE_HELD);
	assert_string_equal(f.order, "0123");
	quarantine_free(q);
	json_decref(f.state);
}

/* ---- alerts ---- */

struct sent {
	unsigned started, over, gave_up;
	uint64_t job[16];
	bool refuse;
	json_t *state;
	char error[64];
};

static int start_delivery(void *u, uint64_t job, enum alert_channel channel, const json_t *alert)
{
	struct sent *s = u;

	(void)channel;
	assert_true(json_is_object(alert));
	if (s->refuse)
		return -1;
	s->job[s->started++ % 16] = job;
	return 0;
}

static void save_queue(void *u, json_t *state)
{
	struct sent *s = u;

	json_decref(s->state);
	s->state = state ? json_incref(state) : NULL;
}

static void delivery_over(void *u, enum alert_channel channel, const json_t *alert, unsigned tries, const char *error)
{
	struct sent *s = u;

	(void)channel;
	(void)alert;
	(void)tries;
	s->over++;
	s->gave_up += error != NULL;
}

static void alerts_are_tried_until_they_arrive(void **state)
{
	static const struct alert_queue_ops ops = { start_delivery, save_queue, delivery_over };
	struct alert_config cfg = { .on = { [ALERT_WEBHOOK] = true } };
	_cleanup_json_ json_t *alert = alert_test_new("me", 0);
	struct sent s = { 0 }, t = { 0 };
	struct alert_queue *q = alert_queue_new(&ops, &s), *r;
	struct err e;

	(void)state;
	assert_int_equal(alert_queue_add(q, 0, &cfg, alert), 1);
	assert_int_equal(s.started, 1);
	assert_int_equal(json_array_size(s.state), 1); /* stored before it is known to have arrived */
	alert_queue_done(q, 100, s.job[0], false, "refused");
	alert_queue_tick(q, 5000);
	assert_int_equal(s.started, 1);
	alert_queue_tick(q, 5100);
	assert_int_equal(s.started, 2);
	/* hostd dies with it in flight: the next one sends it again */
	r = alert_queue_new(&ops, &t);
	assert_int_equal(alert_queue_restore(r, 0, s.state, &e), 0);
	assert_int_equal(t.started, 1);
	alert_queue_done(r, 10, t.job[0], true, NULL);
	assert_int_equal(t.over, 1);
	assert_int_equal(alert_queue_waiting(r), 0);
	assert_null(t.state);
	alert_queue_free(r);
	/* a day of failures is the end of it */
	for (int64_t now = 6000; now < ALERT_GIVE_UP_MS + 4000000; now += 1000000) {
		alert_queue_done(q, now, s.job[(s.started - 1) % 16], false, "refused");
		alert_queue_tick(q, now + 999999);
	}
	assert_int_equal(s.over, 1);
	assert_int_equal(s.gave_up, 1);
	assert_true(s.started > 20);
	/* never more than it holds */
	s.refuse = true;
	for (int i = 0; i < 3 * ALERT_QUEUE_MAX; i++)
		alert_queue_add(q, ALERT_GIVE_UP_MS * 2, &cfg, alert);
	assert_true(alert_queue_waiting(q) <= ALERT_QUEUE_MAX);
	alert_queue_free(q);
	json_decref(s.state);
}

static void an_alert_says_what_is_needed_and_no_secret(void **state)
{
	_cleanup_json_ json_t *chain = json_loads("[{\"pid\":9,\"path\":\"/bin/sh\",\"args\":\"sh -c 'TOKEN=hunter2hunter2 x'\"},"
						  "{\"pid\":1,\"comm\":\"init\"}]", 0, NULL);
	struct ingest_alert trip = { .ws = "demo", .score = 25, .threshold = 20, .n_parts = 2, .kind = EVENT_PROBING,
				     .sentence = "evil\x1b[2J \xe2\x80\xae tried --password=hunter2hunter2", .chain = chain,
				     .parts = { { SIGNAL_TAMPER, 20, 1 }, { SIGNAL_SANDBOX_DENIED, 5, 5 } } };
	_cleanup_json_ json_t *alert = alert_new(&trip, 1764000000000000000LL, "quarantined");
	_cleanup_free_ char *text = alert_text(alert), *whole = json_dumps(alert, 0);

	(void)state;
	assert_non_null(strstr(text, "Score 25 of 20: 20 for tampering with the Sentry, 5 for a refused file or socket operation ×5"));
	assert_non_null(strstr(text, "init → /bin/sh"));
	assert_non_null(strstr(text, "holdfast release demo"));
	assert_non_null(strstr(text, "holdfast timeline demo"));
	assert_null(strstr(text, "hunter2"));
	assert_null(strstr(whole, "hunter2"));
	assert_null(strchr(text, '\x1b'));
	assert_null(strstr(text, "\xe2\x80\xae"));
}

static void channels_are_validated(void **state)
{
	static const char *const bad[] = { "{\"webhook\":{\"url\":\"http://x.example/\",\"secret_file\":\"/s\"}}",
					   "{\"webhook\":{\"url\":\"https://u:p@x.example/\",\"secret_file\":\"/s\"}}",
					   "{\"webhook\":{\"url\":\"https://x.example/\"}}", "{\"command\":[]}",
					   "{\"command\":[\"relative\"]}", "{\"command\":\"x\"}", "{\"sms\":true}" };
	struct alert_config cfg;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		_cleanup_json_ json_t *obj = json_loads(bad[i], 0, NULL);

		if (alert_config_parse(obj, &cfg, &e) != -1)
			fail_msg("%s was taken", bad[i]);
	}
	assert_int_equal(alert_config_load("/nonexistent/alerts.json", &cfg, &e), 0);
	assert_true(cfg.on[ALERT_JOURNAL] && cfg.on[ALERT_DESKTOP] && !cfg.on[ALERT_WEBHOOK] && !cfg.on[ALERT_COMMAND]);
}

/* ---- how rows are shown ---- */

static char *printed(const char *text)
{
	char *out = NULL;
	size_t n;
	FILE *f = open_memstream(&out, &n);

	timeline_escape(f, text);
	fclose(f);
	return out;
}

static void a_guest_does_not_write_to_the_terminal(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain ünï → ok", "plain ünï → ok" },
		{ "\x1b[31mred\a", "\\x1b[31mred\\x07" },
		{ "a\nb\tc\rd", "a\\nb\\tc\\rd" },
		{ "c1 \xc2\x9b" "31m", "c1 \\xc2\\x9b31m" },
		{ "bidi \xe2\x80\xae" "txt", "bidi \\xe2\\x80\\xaetxt" },
		{ "isolate \xe2\x81\xa6", "isolate \\xe2\\x81\\xa6" },
		{ "del \x7f", "del \\x7f" },
		{ "bad \xff\xfe utf8 \xe2\x28", "bad \\xff\\xfe utf8 \\xe2(" },
		{ "cut \xe2\x80", "cut \\xe2\\x80" },
		{ "tag \xf3\xa0\x81\x81", "tag \\xf3\\xa0\\x81\\x81" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *out = printed(cases[i].in);

		assert_string_equal(out, cases[i].out);
	}
}

static struct store_row sample(enum event_kind kind, const char *subject, const char *data)
{
	return (struct store_row){ .id = 7, .ws = "demo", .boot = "", .host_ns = 1764000000123000000LL, .kind = kind,
				   .verdict = event_defs[kind].verdict, .weight = signal_defs[event_defs[kind].signal].weight,
				   .count = 3, .procs = 2, .subject = subject, .data = data };
}

static char *exported(enum export_format format, const struct store_row *row)
{
	char *out = NULL;
	size_t n;
	FILE *f = open_memstream(&out, &n);

	assert_int_equal(export_row(f, format, row), 0);
	fclose(f);
	return out;
}

static void csv_cells_are_no_formulas(void **state)
{
	static const char *const starts[] = { "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "|x", "a\"b,c" };

	(void)state;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct store_row row = sample(EVENT_EXEC, starts[i], "{\"path\":\"x\"}");
		_cleanup_free_ char *out = exported(EXPORT_CSV, &row);
		const char *cell = strstr(out, ",3,2,\"");

		assert_non_null(cell);
		assert_int_equal(cell[6] == '\'', i != 6);
		if (i == 6)
			assert_non_null(strstr(out, "\"a\"\"b,c\""));
	}
}

static void rows_are_aligned_and_coloured(void **state)
{
	struct store_row row = sample(EVENT_SANDBOX_DENIED, "/usr/bin/npm",
				      "{\"exe\":\"/usr/bin/npm\",\"op\":\"open_read\",\"path\":\"/x\\u001b\"}");
	_cleanup_json_ json_t *obj = NULL;
	struct timeline_style style = { .relative = true, .now_ns = 1764000065123000000LL, .ws_width = 6 };
	char *out = NULL;
	size_t n;
	FILE *f;

	(void)state;
	row.fold = true;
	obj = query_row_json(&row);
	f = open_memstream(&out, &n);
	timeline_print_row(f, &style, obj);
	fclose(f);
	assert_string_equal(out, "     7   1m05s ago  demo    denied    +1  sentry    /usr/bin/npm was refused open_read on /x\\x1b"
				 "  ×3 more from 2 processes\n");
	free(out);
	style.color = true;
	f = open_memstream(&out, &n);
	timeline_print_row(f, &style, obj);
	fclose(f);
	assert_non_null(strstr(out, "\033[33mdenied"));
	free(out);
}

static void times_parse(void **state)
{
	int64_t now = 1764000000LL * 1000000000;

	(void)state;
	assert_int_equal(timeline_parse_time("10m", now), now - 600LL * 1000000000);
	assert_int_equal(timeline_parse_time("2d", now), now - 172800LL * 1000000000);
	assert_int_equal(timeline_parse_time("2025-11-24T16:00:00Z", now), 1764000000LL * 1000000000);
	assert_int_equal(timeline_parse_time("yesterday", now), -1);
	assert_int_equal(timeline_parse_time("10", now), -1);
	assert_int_equal(timeline_parse_time("-5m", now), -1);
}

static void rows_survive_json(void **state)
{
	struct store_row row = sample(EVENT_FLOW_DENIED, "x.example", "{\"name\":\"x.example\"}"), back;
	_cleanup_json_ json_t *obj = query_row_json(&row);
	_cleanup_free_ char *data = NULL;
	struct err e;

	(void)state;
	assert_string_equal(json_string_value(json_object_get(obj, "time")), "2025-11-24T16:00:00.123Z");
	assert_int_equal(query_row_from_json(obj, &back, &data, &e), 0);
	assert_int_equal(back.kind, EVENT_FLOW_DENIED);
	assert_string_equal(back.data, row.data);
	json_object_set_new(obj, "kind", json_string("none_such"));
	free(data);
	assert_int_equal(query_row_from_json(obj, &back, &data, &e), -1);
}

/* ---- OCSF, against the published schema ---- */

static unsigned ocsf_wrong;

static void ocsf_bad(const char *path, const char *what)
{
	print_error("%s: %s\n", path, what);
	ocsf_wrong++;
}

static bool type_fits(const char *type, const json_t *v)
{
	return (!strcmp(type, "object") && json_is_object(v)) || (!strcmp(type, "string") && json_is_string(v)) ||
	       (!strcmp(type, "integer") && json_is_integer(v)) || (!strcmp(type, "number") && json_is_number(v)) ||
	       (!strcmp(type, "boolean") && json_is_boolean(v)) || (!strcmp(type, "array") && json_is_array(v));
}

static bool has_all(const json_t *required, const json_t *v)
{
	const json_t *name;
	size_t i;

	json_array_foreach (required, i, name)
		if (!json_object_get(v, json_string_value(name)))
			return false;
	return true;
}

/* The part of JSON Schema that those files use. */
static void validate(const json_t *root, const json_t *schema, const json_t *v, const char *path)
{
	const char *ref = json_string_value(json_object_get(schema, "$ref")), *key;
	const json_t *list, *one, *props;
	json_t *member;
	char below[256];
	bool found;
	size_t i;

	if (ref) {
		validate(root, json_object_get(json_object_get(root, "$defs"), ref + strlen("#/$defs/")), v, path);
		return;
	}
	one = json_object_get(schema, "type");
	if (json_is_string(one) && !type_fits(json_string_value(one), v))
		ocsf_bad(path, "is of another type");
	if ((one = json_object_get(schema, "const")) && !json_equal((json_t *)one, (json_t *)v))
		ocsf_bad(path, "is another constant");
	if ((list = json_object_get(schema, "enum"))) {
		found = false;
		json_array_foreach (list, i, one)
			found = found || json_equal((json_t *)one, (json_t *)v);
		if (!found)
			ocsf_bad(path, "is no value of the enumeration");
	}
	if ((list = json_object_get(schema, "required")) && !has_all(list, v))
		ocsf_bad(path, "lacks a required attribute");
	if ((list = json_object_get(schema, "anyOf"))) {
		found = false;
		json_array_foreach (list, i, one)
			found = found || has_all(json_object_get(one, "required"), v);
		if (!found)
			ocsf_bad(path, "has none of the attributes of which one is required");
	}
	props = json_object_get(schema, "properties");
	if (json_is_object(v))
		json_object_foreach ((json_t *)v, key, member) {
			const json_t *sub = json_object_get(props, key);

			snprintf(below, sizeof(below), "%s.%s", path, key);
			if (sub)
				validate(root, sub, member, below);
			else if (json_is_false(json_object_get(schema, "additionalProperties")))
				ocsf_bad(below, "is no attribute of the schema");
		}
	if (json_is_array(v))
		json_array_foreach ((json_t *)v, i, member)
			validate(root, json_object_get(schema, "items"), member, path);
}

static void every_kind_validates_as_ocsf(void **state)
{
	static const struct {
		enum event_ocsf class;
		const char *file;
	} classes[] = { { OCSF_PROCESS_ACTIVITY, "process_activity" }, { OCSF_FILE_ACTIVITY, "file_activity" },
			{ OCSF_NETWORK_ACTIVITY, "network_activity" }, { OCSF_DETECTION_FINDING, "detection_finding" } };
	static const char *const datas[] = {
		"{\"pid\":7,\"ppid\":1,\"start_ns\":5,\"uid\":1000,\"exe\":\"/usr/bin/npm\",\"path\":\"/x\",\"op\":\"unlink\",\"argv\":[\"a\",\"b c\"],"
		"\"name\":\"x.example\",\"dst\":\"192.0.2.1\",\"dport\":443,\"proto\":\"tcp\",\"bytes_up\":1,\"bytes_down\":2,\"host\":\"x.example\"}",
		"{}",
		"{\"dst\":\"2001:db8::1\",\"dport\":99999,\"argv\":[],\"comm\":\"sh\",\"program\":\"sh\"}",
	};
	unsigned n = 0;

	(void)state;
	for (size_t c = 0; c < sizeof(classes) / sizeof(classes[0]); c++) {
		_cleanup_json_ json_t *schema = NULL;
		char path[128];

		snprintf(path, sizeof(path), "tests/data/ocsf/%s.json", classes[c].file);
		schema = json_load_file(path, 0, NULL);
		assert_non_null(schema);
		for (int k = 0; k < EVENT_COUNT; k++)
			for (size_t d = 0; event_defs[k].ocsf == classes[c].class && d < 3; d++) {
				struct store_row row = sample((enum event_kind)k, "s", datas[d]);
				_cleanup_json_ json_t *ev = ocsf_event(&row);

				assert_non_null(ev);
				validate(schema, schema, ev, event_defs[k].name);
				n++;
			}
	}
	assert_int_equal(ocsf_wrong, 0);
	assert_true(n > 150);
	/* the control: what is wrong is seen */
	{
		_cleanup_json_ json_t *schema = json_load_file("tests/data/ocsf/file_activity.json", 0, NULL);
		struct store_row row = sample(EVENT_SANDBOX_DENIED, "s", datas[0]);
		_cleanup_json_ json_t *ev = ocsf_event(&row);

		json_object_del(ev, "device");
		json_object_set_new(ev, "activity_id", json_integer(55));
		json_object_set_new(ev, "nonsense", json_integer(1));
		print_message("three complaints must follow:\n");
		validate(schema, schema, ev, "control");
		assert_int_equal(ocsf_wrong, 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_the_sentry_has_a_row),
		cmocka_unit_test(the_document_shows_the_table),
		cmocka_unit_test(sentences_read_well),
		cmocka_unit_test(configuration_is_validated),
		cmocka_unit_test(state_survives_export_and_import),
		cmocka_unit_test(another_configuration_keeps_what_was_scored),
		cmocka_unit_test(only_a_living_supervisor_mounts_for_nothing),
		cmocka_unit_test(the_guests_clock_moves_no_window),
		cmocka_unit_test(quarantine_cuts_in_order),
		cmocka_unit_test(modes_decide_what_a_trip_does),
		cmocka_unit_test(alerts_are_tried_until_they_arrive),
		cmocka_unit_test(an_alert_says_what_is_needed_and_no_secret),
		cmocka_unit_test(channels_are_validated),
		cmocka_unit_test(a_guest_does_not_write_to_the_terminal),
		cmocka_unit_test(csv_cells_are_no_formulas),
		cmocka_unit_test(rows_are_aligned_and_coloured),
		cmocka_unit_test(times_parse),
		cmocka_unit_test(rows_survive_json),
		cmocka_unit_test(every_kind_validates_as_ocsf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
