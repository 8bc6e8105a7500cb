/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's side of the Sentry stream against a Sentry that knows the key, and against others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "hostd/sentry/frame.h"
#include "hostd/sentry/session.h"
#include "tests/sentry/fake.h"

static const uint8_t key[32] = "a boot key of thirty-two bytes..";

#define SENT_MAX 65536

struct rig {
	struct session *s;
	struct fake f;
	uint64_t now_ms;
	uint64_t id;	  /* of the connection that the fake uses; 0 none */
	uint64_t next_id;
	bool refuse_send;
	uint64_t cut_up, cut_down; /* the connection breaks after so many bytes; 0 never */
	/* what came out */
	unsigned tampers[SESSION_TAMPER_COUNT];
	char text[SESSION_TAMPER_COUNT][512];
	uint64_t frames, hellos, last_seq;
	bool out_of_order;
	unsigned drops;
	uint64_t quiet_ms;
	unsigned quiets;
	uint8_t sent[SENT_MAX];
	size_t n_sent;
	json_t *state; /* exported with the last frame */
};

static int on_send(void *u, uint64_t id, const void *bytes, size_t len)
{
	struct rig *r = u;

	if (r->refuse_send)
		return -1;
	if (id != r->id)
		return 0;
	assert_true(r->n_sent + len <= SENT_MAX);
	memcpy(r->sent + r->n_sent, bytes, len);
	r->n_sent += len;
	return 0;
}

static void on_frame(void *u, const struct session_frame *frame)
{
	struct rig *r = u;

	if (!strcmp(frame->type, "hello")) {
		r->hellos++;
	} else {
		if (frame->seq != r->last_seq + 1)
			r->out_of_order = true;
		r->last_seq = frame->seq;
		r->frames++;
	}
	json_decref(r->state);
	r->state = session_export(r->s);
	assert_non_null(r->state);
}

static void on_tamper(void *u, enum session_tamper reason, const char *text)
{
	struct rig *r = u;

	r->tampers[reason]++;
	snprintf(r->text[reason], sizeof(r->text[reason]), "%s", text);
}

static void on_quiet(void *u, uint64_t quiet_ms)
{
	struct rig *r = u;

	r->quiet_ms = quiet_ms;
	r->quiets++;
}

static void on_drop(void *u, uint64_t id)
{
	struct rig *r = u;

	r->drops++;
	if (id == r->id)
		r->id = 0;
}

static const struct session_ops ops = {
	.send = on_send, .frame = on_frame, .tamper = on_tamper, .quiet = on_quiet, .drop = on_drop,
};

static struct session *session_of(struct rig *r, bool required, const json_t *state)
{
	struct session_cfg cfg = { .required = required, .state = state };
	struct err err = { "" };
	struct session *s;

	memcpy(cfg.boot_key, key, sizeof(key));
	s = session_new(&cfg, &ops, r, &err);
	if (!s)
		print_message("%s\n", err.text);
	assert_non_null(s);
	return s;
}

static struct rig *rig_new(bool required)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	fake_init(&r->f, key);
	r->now_ms = 1000;
	r->s = session_of(r, required, NULL);
	session_tick(r->s, r->now_ms, true);
	return r;
}

static void rig_free(struct rig *r)
{
	session_free(r->s);
	json_decref(r->state);
	free(r);
}

static void close_link(struct rig *r)
{
	if (r->id)
		session_conn_close(r->s, r->id);
	r->id = 0;
	r->n_sent = 0;
}

/* The host's records reach the fake, up to where the connection is cut. */
static void carry_down(struct rig *r)
{
	size_t n = r->n_sent;

	if (r->cut_down && n >= r->cut_down)
		n = r->cut_down;
	fake_bytes(&r->f, r->sent, n);
	if (r->cut_down) {
		r->cut_down -= n;
		if (!r->cut_down)
			close_link(r);
	}
	memmove(r->sent, r->sent + n, r->n_sent - (r->n_sent ? n : 0));
	r->n_sent -= r->n_sent ? n : 0;
}

static void carry_up(struct rig *r, const uint8_t *bytes, size_t len)
{
	size_t n = len;

	if (!r->id)
		return;
	if (r->cut_up && n >= r->cut_up)
		n = r->cut_up;
	/* In two pieces, since a stream keeps no boundaries. */
	session_conn_bytes(r->s, r->id, bytes, n / 2);
	if (r->id)
		session_conn_bytes(r->s, r->id, bytes + n / 2, n - n / 2);
	if (r->cut_up) {
		r->cut_up -= n;
		if (!r->cut_up)
			close_link(r);
	}
}

static void open_link(struct rig *r)
{
	close_link(r);
	r->id = ++r->next_id;
	assert_int_equal(session_conn_open(r->s, r->id), 0);
}

/* Connects if needed and carries all that either side has to say. */
static void settle(struct rig *r)
{
	const struct fake_frame *frame;

	if (!r->id) {
		open_link(r);
		frame = fake_connect(&r->f);
		carry_up(r, frame->bytes, frame->len);
		carry_down(r);
	}
	while (r->id && (frame = fake_next(&r->f))) {
		carry_up(r, frame->bytes, frame->len);
		carry_down(r);
	}
}

static void pass(struct rig *r, uint64_t ms, bool running)
{
	while (ms) {
		uint64_t step = ms < 250 ? ms : 250;

		r->now_ms += step;
		ms -= step;
		session_tick(r->s, r->now_ms, running);
		carry_down(r);
	}
}

/* n seconds of an honest guest, its frames durable at once. */
static void live(struct rig *r, unsigned seconds)
{
	while (seconds--) {
		fake_beat(&r->f);
		settle(r);
		session_durable(r->s, r->last_seq);
		carry_down(r);
		pass(r, 1000, true);
	}
}

static unsigned all_tampers(const struct rig *r)
{
	unsigned n = 0;

	for (int i = 0; i < SESSION_TAMPER_COUNT; i++) {
		if (r->tampers[i])
			print_message("%s: %s\n", session_tamper_name(i), r->text[i]);
		n += r->tampers[i];
	}
	return n;
}

static bool shown_alone[SESSION_TAMPER_COUNT];

/* This reason once, and no other. */
static void assert_only(const struct rig *r, enum session_tamper reason)
{
	shown_alone[reason] = true;
	for (int i = 0; i < SESSION_TAMPER_COUNT; i++) {
		if (r->tampers[i] != (i == (int)reason ? 1u : 0u))
			print_message("%s %u times: %s\n", session_tamper_name(i), r->tampers[i], r->text[i]);
		assert_int_equal(r->tampers[i], i == (int)reason ? 1 : 0);
	}
}

static void assert_clean(const struct rig *r)
{
	assert_int_equal(all_tampers(r), 0);
	assert_false(r->out_of_order);
	assert_int_equal(r->frames, r->f.seq);
}

static struct rig *living(void)
{
	struct rig *r = rig_new(true);

	live(r, 5);
	assert_clean(r);
	assert_true(r->f.welcomed);
	return r;
}

/* Someone else's bytes on a connection of their own. */
static bool speak(struct rig *r, const uint8_t *bytes, size_t len)
{
	uint64_t own = r->id, id = ++r->next_id;
	unsigned drops = r->drops;

	assert_int_equal(session_conn_open(r->s, id), 0);
	session_conn_bytes(r->s, id, bytes, len);
	r->id = own;
	if (r->drops != drops)
		return true;
	session_conn_close(r->s, id);
	return false;
}

/* ---- the honest guest ---- */

static void honest_guest_raises_nothing(void **state)
{
	struct rig *r = living();
	struct session_status status;

	(void)state;
	for (int i = 0; i < 300; i++) {
		fake_build(&r->f, "exec", ",\"pid\":5,\"path\":\"/bin/true\",\"argv\":[\"true\"]");
		settle(r);
	}
	live(r, 120);
	assert_clean(r);
	session_status(r->s, &status);
	assert_true(status.connected);
	assert_int_equal(status.conn, 0);
	assert_int_equal(status.last_seq, r->f.seq);
	assert_int_equal(status.durable_seq, r->f.seq);
	assert_int_equal(status.phase, 0);
	assert_int_equal(r->f.acked, r->f.seq);
	assert_int_equal(r->f.records_ignored, 0);
	assert_true(r->f.challenges > 100);
	rig_free(r);
}

static void acks_wait_for_durability(void **state)
{
	struct rig *r = living();

	(void)state;
	fake_beat(&r->f);
	settle(r);
	assert_int_equal(r->f.acked, 5);
	session_durable(r->s, 99); /* not more than was received */
	carry_down(r);
	assert_int_equal(r->f.acked, 6);
	r->refuse_send = true;
	fake_beat(&r->f);
	settle(r);
	session_durable(r->s, 7);
	r->refuse_send = false;
	assert_int_equal(r->f.acked, 6);
	pass(r, 250, true);
	assert_int_equal(r->f.acked, 7);
	rig_free(r);
}

/* Cuts one direction after each number of bytes and wants the stream whole afterwards. */
static void cut_everywhere(bool up, bool down)
{
	for (uint64_t at = 1; at < 1500; at++) {
		struct rig *r = rig_new(true);

		r->cut_up = up ? at : 0;
		r->cut_down = down ? at : 0;
		for (int i = 0; i < 4; i++) {
			fake_beat(&r->f);
			settle(r);
			session_durable(r->s, r->last_seq);
			carry_down(r);
			pass(r, 1000, true);
		}
		r->cut_up = r->cut_down = 0;
		live(r, 3);
		if (all_tampers(r) || r->frames != r->f.seq)
			print_message("cut after %llu bytes\n", (unsigned long long)at);
		assert_clean(r);
		rig_free(r);
	}
}

static void hello_and_frames_cut_at_every_byte(void **state)
{
	(void)state;
	cut_everywhere(true, false);
}

static void welcome_challenge_and_ack_cut_at_every_byte(void **state)
{
	(void)state;
	cut_everywhere(false, true);
}

static void both_cut_at_every_byte(void **state)
{
	(void)state;
	cut_everywhere(true, true);
}

static void thousand_reconnects_without_an_alarm(void **state)
{
	struct rig *r = rig_new(true);
	struct session_status status;
	unsigned seed = 1;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		seed = seed * 1103515245 + 12345;
		r->cut_up = (seed >> 16) % 4000;
		r->cut_down = (seed >> 4) % 2000;
		if (r->f.welcomed) /* no heartbeat is built while unconnected */
			fake_beat(&r->f);
		fake_build(&r->f, "exec", ",\"pid\":7");
		assert_true(r->f.seq - r->f.acked < FAKE_STORE);
		settle(r);
		if (seed & 0x10000)
			session_durable(r->s, r->last_seq);
		carry_down(r);
		pass(r, 1000, true);
		if (i % 3 == 0)
			close_link(r);
	}
	r->cut_up = r->cut_down = 0;
	live(r, 2);
	assert_clean(r);
	session_status(r->s, &status);
	assert_true(status.conn >= 400);
	rig_free(r);
}

/* Put away and taken up again, each time with a pause that must not count. */
static void two_hundred_suspends_without_an_alarm(void **state)
{
	struct rig *r = rig_new(true);

	(void)state;
	for (int i = 0; i < 200; i++) {
		json_t *put_away;

		live(r, 2);
		fake_beat(&r->f); /* received, not acknowledged: repeated after the resume */
		settle(r);
		pass(r, 100000, false);
		session_challenge(r->s);
		put_away = session_export(r->s);
		close_link(r);
		session_free(r->s);
		r->s = session_of(r, true, put_away);
		json_decref(put_away);
		r->now_ms += 3600000;
		session_tick(r->s, r->now_ms, true);
	}
	live(r, 70);
	assert_clean(r);
	assert_int_equal(r->f.conn, 201);
	rig_free(r);
}

static void pause_is_no_silence(void **state)
{
	struct rig *r = living();

	(void)state;
	for (int i = 0; i < 200; i++) {
		pass(r, 60000, false);
		live(r, 1);
	}
	/* A loop that was held up for an hour counts as one second. */
	r->now_ms += 3600000;
	session_tick(r->s, r->now_ms, true);
	live(r, 1);
	assert_clean(r);
	assert_int_equal(r->quiets, 0);
	rig_free(r);
}

static void state_holds_no_secret(void **state)
{
	struct rig *r = living();
	json_t *json = session_export(r->s);
	char *text = json_dumps(json, 0);
	char boot_hex[65];

	(void)state;
	hex_encode(boot_hex, key, 32);
	assert_null(strstr(text, FAKE_SECRET));
	assert_null(strstr(text, boot_hex));
	free(text);
	json_decref(json);
	rig_free(r);
}

static void malformed_state_is_refused(void **state)
{
	static const char *const wrong[] = {
		"{}",
		"[]",
		"{\"schema\":2}",
		"{\"schema\":1,\"next_conn\":-1}",
	};
	struct rig *r = living();
	json_t *json = session_export(r->s), *value;
	struct session_cfg cfg = { .state = NULL };
	const char *name;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct err err = { "" };
		json_t *bad = json_loads(wrong[i], 0, NULL);

		cfg.state = bad;
		assert_null(session_new(&cfg, &ops, r, &err));
		assert_non_null(strstr(err.text, "state of the Sentry session"));
		json_decref(bad);
	}
	/* Each member missing, and each of another type. */
	json_object_foreach(json, name, value) {
		json_t *bad = json_copy(json);

		cfg.state = bad;
		json_object_del(bad, name);
		assert_null(session_new(&cfg, &ops, r, NULL));
		json_object_set_new(bad, name, json_real(1.5));
		assert_null(session_new(&cfg, &ops, r, NULL));
		json_decref(bad);
	}
	json_decref(json);
	rig_free(r);
}

/* ---- each reason alone ---- */

static void second_sentry(void **state)
{
	struct rig *r = living();
	struct fake_frame hello;
	char identity[256];

	(void)state;
	fake_identity(identity, 1);
	fake_sign_hello(&r->f, &hello, 1, 1, identity);
	assert_true(speak(r, hello.bytes, hello.len));
	assert_only(r, SESSION_TAMPER_SECOND_SENTRY);
	live(r, 3); /* the live one goes on */
	assert_only(r, SESSION_TAMPER_SECOND_SENTRY);
	assert_int_equal(r->frames, r->f.seq);
	rig_free(r);
}

static void bad_mac_of_a_hello(void **state)
{
	struct rig *r = rig_new(true);
	struct fake impostor;
	uint8_t other[32] = { 1 };
	const struct fake_frame *hello;

	(void)state;
	/* First at the port, without the key: not pinned, and the real one is still taken. */
	fake_init(&impostor, other);
	hello = fake_connect(&impostor);
	assert_true(speak(r, hello->bytes, hello->len));
	assert_only(r, SESSION_TAMPER_BAD_MAC);
	live(r, 3);
	assert_only(r, SESSION_TAMPER_BAD_MAC);
	assert_int_equal(r->frames, 3);
	rig_free(r);
}

static void bad_mac_of_a_frame(void **state)
{
	struct rig *r = living();
	struct fake_frame forged;
	uint8_t other[32] = { 1 };

	(void)state;
	fake_sign(&forged, "{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":6", other);
	carry_up(r, forged.bytes, forged.len);
	assert_only(r, SESSION_TAMPER_BAD_MAC);
	assert_int_equal(r->frames, 5);
	assert_int_equal(r->id, 0);
	live(r, 3);
	assert_only(r, SESSION_TAMPER_BAD_MAC);
	rig_free(r);
}

static void bad_mac_of_any_changed_byte(void **state)
{
	struct rig *r = living();
	struct fake_frame frame;

	(void)state;
	fake_build(&r->f, "exec", ",\"pid\":5,\"path\":\"/bin/true\"");
	frame = r->f.store[r->f.seq % FAKE_STORE];
	for (size_t at = 4; at < frame.len; at++) {
		frame.bytes[at] ^= 1;
		if (!r->id)
			settle(r);
		r->frames = 0;
		r->last_seq = 5;
		/* Whatever it became, it is not accepted as a new frame. */
		if (r->f.sent < r->f.seq && r->id)
			session_conn_bytes(r->s, r->id, frame.bytes, frame.len);
		assert_int_equal(r->frames, r->last_seq > 5 ? 1 : 0);
		frame.bytes[at] ^= 1;
		if (r->last_seq > 5)
			break;
	}
	rig_free(r);
}

static void bad_secret(void **state)
{
	static const char *const identities[] = {
		"\"boot_id\":\"" FAKE_BOOT_ID "\"",
		"\"secret\":\"00\",\"boot_id\":\"" FAKE_BOOT_ID "\"",
		"\"secret\":\"" FAKE_SECRET "\"",
		"\"secret\":\"" FAKE_SECRET "\",\"boot_id\":\"short\"",
		"\"secret\":7,\"boot_id\":\"" FAKE_BOOT_ID "\"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(identities) / sizeof(*identities); i++) {
		struct rig *r = rig_new(true);
		struct fake_frame hello;

		fake_sign_hello(&r->f, &hello, 0, 1, identities[i]);
		assert_true(speak(r, hello.bytes, hello.len));
		assert_only(r, SESSION_TAMPER_BAD_SECRET);
		assert_int_equal(r->hellos, 0);
		rig_free(r);
	}
}

static void bad_secret_brought_again(void **state)
{
	struct rig *r = living();
	struct fake_frame hello;

	(void)state;
	close_link(r);
	fake_sign_hello(&r->f, &hello, 1, 6, "\"secret\":\"" FAKE_SECRET "\",\"boot_id\":\"" FAKE_BOOT_ID "\"");
	assert_true(speak(r, hello.bytes, hello.len));
	assert_only(r, SESSION_TAMPER_BAD_SECRET);
	rig_free(r);
}

static void bad_proof(void **state)
{
	static const char *const other_boot = "ffffffff-1111-2222-3333-444455556666";
	char identity[256], right[256];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct rig *r = living();
		struct fake_frame hello;

		close_link(r);
		if (i == 0) {
			snprintf(identity, sizeof(identity), "\"boot_id\":\"%s\"", FAKE_BOOT_ID);
		} else if (i == 1) { /* the proof of another connection */
			fake_identity(identity, 2);
		} else { /* the right proof and another boot */
			fake_identity(right, 1);
			memcpy(strstr(right, FAKE_BOOT_ID), other_boot, strlen(other_boot));
			snprintf(identity, sizeof(identity), "%s", right);
		}
		fake_sign_hello(&r->f, &hello, 1, 6, identity);
		assert_true(speak(r, hello.bytes, hello.len));
		assert_only(r, SESSION_TAMPER_BAD_PROOF);
		live(r, 2);
		assert_only(r, SESSION_TAMPER_BAD_PROOF);
		rig_free(r);
	}
}

static void conn_reused(void **state)
{
	struct rig *r = rig_new(true);
	struct fake_frame first, changed, ahead;
	char identity[256];

	(void)state;
	first = *fake_connect(&r->f);
	live(r, 3);
	close_link(r);
	/* The first hello, recorded and said again after frames. */
	assert_true(speak(r, first.bytes, first.len));
	assert_only(r, SESSION_TAMPER_CONN_REUSED);
	rig_free(r);

	/* The last number with another hello, although no frame has come. */
	r = rig_new(true);
	settle(r);
	close_link(r);
	fake_identity(identity, 0);
	fake_sign_hello(&r->f, &changed, 0, 2, identity);
	assert_true(speak(r, changed.bytes, changed.len));
	assert_only(r, SESSION_TAMPER_CONN_REUSED);
	rig_free(r);

	/* A number too far ahead. */
	r = living();
	close_link(r);
	fake_identity(identity, 3);
	fake_sign_hello(&r->f, &ahead, 3, 6, identity);
	assert_true(speak(r, ahead.bytes, ahead.len));
	assert_only(r, SESSION_TAMPER_CONN_REUSED);
	rig_free(r);
}

static void seq_gap(void **state)
{
	struct rig *r = living();

	(void)state;
	fake_beat(&r->f);
	fake_beat(&r->f);
	r->f.sent++; /* one is stolen */
	settle(r);
	assert_only(r, SESSION_TAMPER_SEQ_GAP);
	assert_int_equal(r->frames, 6);
	assert_non_null(strstr(r->text[SESSION_TAMPER_SEQ_GAP], "6 to 6"));
	r->out_of_order = false;
	live(r, 5); /* and later events are still seen */
	assert_only(r, SESSION_TAMPER_SEQ_GAP);
	assert_false(r->out_of_order);
	assert_int_equal(r->frames, 11);
	rig_free(r);
}

static void seq_gap_across_a_reconnect(void **state)
{
	struct rig *r = living();
	struct fake_frame hello;
	char identity[256];

	(void)state;
	close_link(r);
	fake_beat(&r->f);
	fake_beat(&r->f);
	open_link(r);
	fake_identity(identity, 1);
	fake_sign_hello(&r->f, &hello, 1, 7, identity);
	carry_up(r, hello.bytes, hello.len);
	assert_int_equal(all_tampers(r), 0);
	carry_up(r, r->f.store[7].bytes, r->f.store[7].len);
	assert_only(r, SESSION_TAMPER_SEQ_GAP);
	rig_free(r);
}

static void seq_replay_in_place(void **state)
{
	struct rig *r = living();

	(void)state;
	carry_up(r, r->f.store[5].bytes, r->f.store[5].len);
	assert_only(r, SESSION_TAMPER_SEQ_REPLAY);
	assert_int_equal(r->id, 0);
	rig_free(r);
}

/* A guest that was rolled back numbers other events as before. */
static void seq_replay_with_other_bytes(bool restored)
{
	struct rig *r = living();

	fake_beat(&r->f); /* received, never acknowledged */
	settle(r);
	if (restored) {
		json_t *put_away = session_export(r->s);

		session_free(r->s);
		r->s = session_of(r, true, put_away);
		json_decref(put_away);
		r->id = 0;
	}
	close_link(r);
	r->f.seq = 5;
	if (restored) { /* no bytes to compare with: the key decides, and this one is not signed with it */
		uint8_t other[32] = { 1 };

		fake_sign(&r->f.store[6], "{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":6", other);
		r->f.seq = 6;
	} else {
		fake_build(&r->f, "exec", ",\"pid\":99");
	}
	settle(r);
	assert_only(r, SESSION_TAMPER_SEQ_REPLAY);
	assert_int_equal(r->frames, 6);
	rig_free(r);
}

static void seq_replay_after_rollback(void **state)
{
	(void)state;
	seq_replay_with_other_bytes(false);
}

static void seq_replay_after_restore(void **state)
{
	(void)state;
	seq_replay_with_other_bytes(true);
}

static void silence(void **state)
{
	struct rig *r = living();

	(void)state;
	pass(r, 3900, true);
	assert_int_equal(r->quiets, 0);
	pass(r, 250, true);
	assert_int_equal(r->quiets, 1);
	assert_true(r->quiet_ms >= 5000);
	pass(r, 9500, true);
	assert_int_equal(all_tampers(r), 0);
	pass(r, 1000, true);
	assert_only(r, SESSION_TAMPER_SILENCE);
	pass(r, 60000, true); /* said once */
	assert_int_equal(r->tampers[SESSION_TAMPER_SILENCE], 1);
	fake_beat(&r->f);
	settle(r);
	assert_int_equal(r->quiets, 2);
	assert_int_equal(r->quiet_ms, 0);
	pass(r, 16000, true); /* and again the next time */
	assert_int_equal(r->tampers[SESSION_TAMPER_SILENCE], 2);
	rig_free(r);
}

static void silence_of_a_closed_connection(void **state)
{
	struct rig *r = living();

	(void)state;
	close_link(r);
	pass(r, 15000, true);
	assert_only(r, SESSION_TAMPER_SILENCE);
	rig_free(r);
}

static void late_beats(void **state)
{
	struct rig *r = living();

	(void)state;
	/* Held for 12 of every 14 s: never silent for 15, and hardly ever there. */
	for (int i = 0; i < 5; i++) {
		pass(r, 12000, true);
		live(r, 2);
	}
	assert_only(r, SESSION_TAMPER_LATE_BEATS);
	rig_free(r);
}

static void probes_disarmed(void **state)
{
	struct rig *r = living();

	(void)state;
	r->f.armed = 48;
	live(r, 3);
	assert_only(r, SESSION_TAMPER_PROBES_DISARMED);
	r->f.armed = 49;
	live(r, 3);
	r->f.armed = 0;
	live(r, 1);
	assert_int_equal(r->tampers[SESSION_TAMPER_PROBES_DISARMED], 2);
	rig_free(r);
}

static void probes_that_do_not_answer(void **state)
{
	struct rig *r = living();

	(void)state;
	r->f.mute = true;
	live(r, 2); /* once or twice may be a crowd */
	r->f.mute = false;
	live(r, 1);
	assert_int_equal(all_tampers(r), 0);
	r->f.mute = true;
	live(r, 10);
	assert_only(r, SESSION_TAMPER_PROBES_DISARMED);
	rig_free(r);
}

static void canary_dead(void **state)
{
	static const char *const dead[] = {
		"{\"ftrace\":false,\"kretprobe\":true,\"int3\":true,\"permanent\":true}",
		"{\"ftrace\":true,\"kretprobe\":false,\"int3\":true,\"permanent\":true}",
		"{\"ftrace\":true,\"kretprobe\":true,\"int3\":false,\"permanent\":true}",
		"{\"ftrace\":true,\"kretprobe\":true,\"int3\":true,\"permanent\":false}",
	};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct rig *r = living();

		r->f.canary = "{\"ftrace\":null,\"kretprobe\":true,\"int3\":true,\"permanent\":true}";
		live(r, 3);
		assert_int_equal(all_tampers(r), 0);
		r->f.canary = dead[i];
		live(r, 3);
		assert_only(r, SESSION_TAMPER_CANARY_DEAD);
		rig_free(r);
	}
}

static void nonce_unanswered(void **state)
{
	struct rig *r = living();
	char stale[65];

	(void)state;
	memcpy(stale, r->f.nonce, sizeof(stale));
	for (int i = 0; i < 20; i++) { /* someone else builds the beats and never hears us */
		memcpy(r->f.nonce, stale, sizeof(stale));
		live(r, 1);
	}
	assert_only(r, SESSION_TAMPER_NONCE_UNANSWERED);
	rig_free(r);
}

static void digest_mismatch(void **state)
{
	struct rig *r = living();
	uint8_t digest[32];
	char hex[65];

	(void)state;
	hash_sha256(digest, FAKE_SECRET, 64);
	hex_encode(hex, digest, sizeof(digest));
	session_guest_digest(r->s, hex);
	assert_int_equal(all_tampers(r), 0);
	hex[0] = hex[0] == '0' ? '1' : '0';
	session_guest_digest(r->s, hex);
	assert_only(r, SESSION_TAMPER_DIGEST_MISMATCH);
	rig_free(r);

	/* Connected, while the guest says that there is none; the status may come first. */
	r = rig_new(true);
	session_guest_digest(r->s, NULL);
	assert_int_equal(all_tampers(r), 0);
	settle(r);
	assert_only(r, SESSION_TAMPER_DIGEST_MISMATCH);
	rig_free(r);
}

static void never_connected(void **state)
{
	struct rig *r = rig_new(true);

	(void)state;
	pass(r, 3600000, false);
	pass(r, 89000, true);
	assert_int_equal(all_tampers(r), 0);
	pass(r, 2000, true);
	assert_only(r, SESSION_TAMPER_NEVER_CONNECTED);
	pass(r, 200000, true);
	assert_only(r, SESSION_TAMPER_NEVER_CONNECTED);
	rig_free(r);

	r = rig_new(false); /* best effort: not an alarm */
	pass(r, 200000, true);
	assert_int_equal(all_tampers(r), 0);
	rig_free(r);
}

static void garbage(void **state)
{
	static const uint8_t cases[][64] = {
		{ 0, 0, 0, 0 },
		{ 0, 0, 0, 20, '{', '}' },
		{ 0, 1, 0, 1 },
		{ 0xff, 0xff, 0xff, 0xff },
		{ 'G', 'E', 'T', ' ', '/' },
	};
	struct rig *r;
	struct fake_frame frame;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		r = living();
		assert_true(speak(r, cases[i], sizeof(cases[i])));
		assert_only(r, SESSION_TAMPER_GARBAGE);
		rig_free(r);
	}
	/* A well-formed frame that is no hello, first on its connection. */
	r = living();
	frame = r->f.store[5];
	assert_true(speak(r, frame.bytes, frame.len));
	assert_only(r, SESSION_TAMPER_GARBAGE);
	rig_free(r);
	/* A hello in the middle. */
	r = living();
	frame = r->f.hello;
	carry_up(r, frame.bytes, frame.len);
	assert_only(r, SESSION_TAMPER_GARBAGE);
	assert_int_equal(r->id, 0);
	rig_free(r);
	/* Connected, and not a word. */
	r = living();
	assert_int_equal(session_conn_open(r->s, 4711), 0);
	live(r, 9);
	assert_int_equal(all_tampers(r), 0);
	live(r, 2);
	assert_only(r, SESSION_TAMPER_GARBAGE);
	rig_free(r);
}

static void connections_are_bounded(void **state)
{
	struct rig *r = living();

	(void)state;
	for (uint64_t i = 0; i < SESSION_CONNS_MAX - 1; i++)
		assert_int_equal(session_conn_open(r->s, 1000 + i), 0);
	assert_int_equal(session_conn_open(r->s, 2000), -1);
	assert_only(r, SESSION_TAMPER_GARBAGE);
	live(r, 2); /* those who fill the table do not end the live one */
	assert_int_equal(r->frames, r->f.seq);
	rig_free(r);
}

static void reports_are_bounded(void **state)
{
	static const uint8_t junk[8] = { 0 };
	struct rig *r = living();
	struct session_status status;

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_true(speak(r, junk, sizeof(junk)));
	assert_int_equal(r->tampers[SESSION_TAMPER_GARBAGE], 1);
	live(r, 2);
	speak(r, junk, sizeof(junk));
	assert_int_equal(r->tampers[SESSION_TAMPER_GARBAGE], 2);
	assert_non_null(strstr(r->text[SESSION_TAMPER_GARBAGE], "999 more"));
	session_status(r->s, &status);
	assert_int_equal(status.tampers[SESSION_TAMPER_GARBAGE], 1001);
	rig_free(r);
}

static void unclean_end(void **state)
{
	struct rig *r = living();

	(void)state;
	session_end(r->s, false);
	assert_only(r, SESSION_TAMPER_UNCLEAN_END);
	session_end(r->s, false);
	assert_only(r, SESSION_TAMPER_UNCLEAN_END);
	rig_free(r);

	r = living(); /* a verb of the host */
	session_end(r->s, true);
	assert_int_equal(all_tampers(r), 0);
	rig_free(r);

	r = living(); /* announced, but in the same breath */
	r->f.phase = 2;
	fake_beat(&r->f);
	settle(r);
	pass(r, 500, true);
	session_end(r->s, false);
	assert_only(r, SESSION_TAMPER_UNCLEAN_END);
	rig_free(r);

	r = living(); /* announced in time */
	r->f.phase = 2;
	live(r, 2);
	session_end(r->s, false);
	assert_int_equal(all_tampers(r), 0);
	rig_free(r);

	r = rig_new(false); /* there was no Sentry */
	session_end(r->s, false);
	assert_int_equal(all_tampers(r), 0);
	rig_free(r);
}

/* ---- what the module really sent ---- */

static size_t load(const char *name, uint8_t **bytes)
{
	const char *root = getenv("HOLDFAST_ROOT");
	char path[512];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/data/sentry/%s", root ? root : ".", name);
	f = fopen(path, "rb");
	assert_non_null(f);
	*bytes = malloc(1 << 20);
	assert_non_null(*bytes);
	n = fread(*bytes, 1, 1 << 20, f);
	fclose(f);
	assert_true(n > 10000 && n < 1 << 20);
	return n;
}

/* Plays a recording. If byte *wrong_at is in a frame, one bit of it is another, and it becomes SIZE_MAX. */
static struct rig *play(const uint8_t *bytes, size_t n, size_t *wrong_at, unsigned *hellos)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct session_cfg cfg = { .required = true };
	size_t at = 0;

	assert_non_null(r);
	for (uint8_t i = 0; i < 32; i++)
		cfg.boot_key[i] = i;
	r->s = session_new(&cfg, &ops, r, NULL);
	assert_non_null(r->s);
	r->now_ms = 1000;
	session_tick(r->s, r->now_ms, true);
	*hellos = 0;
	while (at + 4 <= n) {
		size_t len = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
		uint8_t *frame = malloc(len + 4);

		assert_non_null(frame);
		memcpy(frame, bytes + at, len + 4);
		if (memmem(frame, len + 4, "\"type\":\"hello\"", 14)) {
			++*hellos;
			open_link(r);
		}
		if (*wrong_at >= at + 4 && *wrong_at < at + 4 + len) {
			frame[*wrong_at - at] ^= 1;
			*wrong_at = SIZE_MAX;
		}
		if (r->id)
			session_conn_bytes(r->s, r->id, frame, len + 4);
		session_durable(r->s, r->last_seq);
		r->n_sent = 0;
		r->now_ms += 2;
		session_tick(r->s, r->now_ms, true);
		free(frame);
		at += len + 4;
	}
	assert_int_equal(at, n);
	return r;
}

static void recordings_of_the_module_are_clean(void **state)
{
	static const char *const names[] = { "frames-6.1.bin", "frames-6.12.bin", "frames-reconnect.bin" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		uint8_t *bytes;
		size_t n = load(names[i], &bytes);
		size_t nowhere = SIZE_MAX;
		unsigned hellos;
		struct rig *r = play(bytes, n, &nowhere, &hellos);

		assert_int_equal(all_tampers(r), 0);
		assert_false(r->out_of_order);
		assert_true(r->frames > 100);
		assert_true(i < 2 || hellos > 5);
		rig_free(r);
		/* One changed bit anywhere in a frame is noticed, and no changed frame comes out. */
		for (size_t at = 4; at < n; at += n / 53) {
			size_t wrong_at = at;
			unsigned noticed = 0;

			r = play(bytes, n, &wrong_at, &hellos);
			for (int t = 0; t < SESSION_TAMPER_COUNT; t++)
				noticed += r->tampers[t];
			if (!noticed && wrong_at == SIZE_MAX)
				fail_msg("%s: a changed bit at %zu went unnoticed", names[i], at);
			rig_free(r);
		}
		free(bytes);
	}
}

/* ---- the parser ---- */

static int parse(const char *text, struct err *err)
{
	struct sentry_frame frame;
	int result = sentry_frame_parse(&frame, (const uint8_t *)text, strlen(text), err);

	if (!result)
		sentry_frame_clear(&frame);
	else
		assert_null(frame.json);
	return result;
}

#define MAC ",\"mac\":\"" FAKE_SECRET "\"}"

static void frames_that_parse_and_frames_that_do_not(void **state)
{
	static const char *const wrong[] = {
		"",
		"null",
		"[1]",
		"{}",
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1}",
		"{\"v\":2,\"type\":\"exec\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1.0,\"type\":\"exec\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"Exec\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"a_type_that_is_longer_than_any_name_is\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":-1,\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":0" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":-1" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":9223372036854775808" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":\"1\"" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1" MAC,
		"{\"v\":1,\"type\":\"exec\",\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"hello\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1,\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"mac\":\"0\"" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"x\":{\"y\":0" MAC "}",
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"x\":\"\xff\"" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"x\":\"\\u0000\"" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"x\":NaN" MAC,
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1" MAC " ",
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1, \"mac\":\"" FAKE_SECRET "\"}",
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"mac\":\"" FAKE_SECRET "\",\"x\":1}",
		"{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"x\":[[[[[[[[[[]]]]]]]]]]" MAC,
	};
	struct err err = { "" };

	(void)state;
	assert_int_equal(parse("{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1" MAC, &err), 0);
	assert_int_equal(parse("{\"v\":1,\"type\":\"hello\",\"t\":1" MAC, &err), 0);
	assert_int_equal(parse("{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":9223372036854775807" MAC, &err), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		err.text[0] = '\0';
		if (!parse(wrong[i], &err))
			fail_msg("accepted: %s", wrong[i]);
		assert_true(err.text[0]);
	}
}

static void values_are_bounded_before_they_are_made(void **state)
{
	size_t n = 60000, at;
	char *text = malloc(n + 200);
	struct err err = { "" };

	(void)state;
	assert_non_null(text);
	at = (size_t)sprintf(text, "{\"v\":1,\"type\":\"exec\",\"t\":1,\"seq\":1,\"x\":[0");
	while (at < n)
		at += (size_t)sprintf(text + at, ",0");
	sprintf(text + at, "]" MAC);
	assert_int_equal(parse(text, &err), -1);
	assert_non_null(strstr(err.text, "more than"));
	free(text);
}

static void lengths_are_bounded(void **state)
{
	static const uint8_t longest[4] = { 0, 1, 0, 0 }, longer[4] = { 0, 1, 0, 1 }, none[4] = { 0 };
	size_t len = 0;

	(void)state;
	assert_int_equal(sentry_frame_length(longest, &len, NULL), 0);
	assert_int_equal(len, 65536);
	assert_int_equal(sentry_frame_length(longer, &len, NULL), -1);
	assert_int_equal(sentry_frame_length(none, &len, NULL), -1);
}

static void reasons_have_their_names(void **state)
{
	(void)state;
	for (int i = 0; i < SESSION_TAMPER_COUNT; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(session_tamper_name(i), session_tamper_name(j));
	assert_string_equal(session_tamper_name(SESSION_TAMPER_UNCLEAN_END), "unclean_end");
}

/* Runs last: a reason that is added later needs a test too. */
static void every_reason_was_shown_alone(void **state)
{
	(void)state;
	for (int i = 0; i < SESSION_TAMPER_COUNT; i++) {
		if (!shown_alone[i])
			print_message("no test shows %s alone\n", session_tamper_name(i));
		assert_true(shown_alone[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(honest_guest_raises_nothing),
		cmocka_unit_test(acks_wait_for_durability),
		cmocka_unit_test(hello_and_frames_cut_at_every_byte),
		cmocka_unit_test(welcome_challenge_and_ack_cut_at_every_byte),
		cmocka_unit_test(both_cut_at_every_byte),
		cmocka_unit_test(thousand_reconnects_without_an_alarm),
		cmocka_unit_test(two_hundred_suspends_without_an_alarm),
		cmocka_unit_test(pause_is_no_silence),
		cmocka_unit_test(state_holds_no_secret),
		cmocka_unit_test(malformed_state_is_refused),
		cmocka_unit_test(second_sentry),
		cmocka_unit_test(bad_mac_of_a_hello),
		cmocka_unit_test(bad_mac_of_a_frame),
		cmocka_unit_test(bad_mac_of_any_changed_byte),
		cmocka_unit_test(bad_secret),
		cmocka_unit_test(bad_secret_brought_again),
		cmocka_unit_test(bad_proof),
		cmocka_unit_test(conn_reused),
		cmocka_unit_test(seq_gap),
		cmocka_unit_test(seq_gap_across_a_reconnect),
		cmocka_unit_test(seq_replay_in_place),
		cmocka_unit_test(seq_replay_after_rollback),
		cmocka_unit_test(seq_replay_after_restore),
		cmocka_unit_test(silence),
		cmocka_unit_test(silence_of_a_closed_connection),
		cmocka_unit_test(late_beats),
		cmocka_unit_test(probes_disarmed),
		cmocka_unit_test(probes_that_do_not_answer),
		cmocka_unit_test(canary_dead),
		cmocka_unit_test(nonce_unanswered),
		cmocka_unit_test(digest_mismatch),
		cmocka_unit_test(never_connected),
		cmocka_unit_test(garbage),
		cmocka_unit_test(connections_are_bounded),
		cmocka_unit_test(reports_are_bounded),
		cmocka_unit_test(unclean_end),
		cmocka_unit_test(recordings_of_the_module_are_clean),
		cmocka_unit_test(frames_that_parse_and_frames_that_do_not),
		cmocka_unit_test(values_are_bounded_before_they_are_made),
		cmocka_unit_test(lengths_are_bounded),
		cmocka_unit_test(reasons_have_their_names),
		cmocka_unit_test(every_reason_was_shown_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
