/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole session: the input is a list of steps, each one byte and what it needs. An honest Sentry,
 * strangers with any bytes, a holder of the key who says anything, time, pauses and restores.
 * Whatever comes, a frame is given up only if the key vouches for it, once, and in order.
 */
#include <stdlib.h>
#include <string.h>

#include "hostd/sentry/session.h"
#include "tests/sentry/fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HARMED = 210 };

static const uint8_t key[32] = "a boot key of thirty-two bytes..";

struct world {
	struct session *s;
	struct fake f;
	uint64_t now_ms, link, next_id, last_seq;
	uint32_t record_byte;
	uint8_t sent[4096];
	size_t n_sent;
};

static int on_send(void *u, uint64_t id, const void *bytes, size_t len)
{
	struct world *w = u;

	if (id != w->link)
		return 0;
	if (w->n_sent + len > sizeof(w->sent))
		return -1;
	memcpy(w->sent + w->n_sent, bytes, len);
	w->n_sent += len;
	return 0;
}

static void on_frame(void *u, const struct session_frame *frame)
{
	struct world *w = u;
	size_t maced = frame->len - HF_SENTRY_MAC_TAIL_BYTES;
	uint8_t k[32], mac[32];
	char hex[65];

	if (frame->seq) {
		if (frame->seq <= w->last_seq)
			abort();
		w->last_seq = frame->seq;
		fake_key(k, &w->f, HF_SENTRY_LABEL_FRAME_0, HF_SENTRY_LABEL_FRAME, frame->seq);
	} else {
		fake_key(k, &w->f, HF_SENTRY_LABEL_HELLO_0, HF_SENTRY_LABEL_HELLO, frame->conn);
	}
	hash_hmac_sha256(mac, k, frame->bytes, maced);
	hex_encode(hex, mac, sizeof(mac));
	if (memcmp(hex, frame->bytes + maced + 8, 64))
		abort();
}

static void on_tamper(void *u, enum session_tamper reason, const char *text)
{
	(void)u;
	if (reason >= SESSION_TAMPER_COUNT || !text[0] || !session_tamper_name(reason)[0])
		abort();
}

static void on_quiet(void *u, uint64_t quiet_ms)
{
	(void)u;
	if (quiet_ms && quiet_ms < SESSION_SILENCE_WARN_MS)
		abort();
}

static void on_drop(void *u, uint64_t id)
{
	struct world *w = u;

	if (id == w->link)
		w->link = 0;
}

static const struct session_ops ops = { .send = on_send, .frame = on_frame, .tamper = on_tamper, .quiet = on_quiet,
					    .drop = on_drop };

static void renew(struct world *w, const json_t *state)
{
	struct session_cfg cfg = { .required = true, .state = state };

	memcpy(cfg.boot_key, key, sizeof(key));
	w->s = session_new(&cfg, &ops, w, NULL);
	if (!w->s)
		abort();
	session_tick(w->s, w->now_ms, true);
	w->link = 0;
	w->n_sent = 0;
}

static void connect_honest(struct world *w)
{
	const struct fake_frame *hello = fake_connect(&w->f);

	if (w->link)
		session_conn_close(w->s, w->link);
	w->n_sent = 0;
	w->link = ++w->next_id;
	if (session_conn_open(w->s, w->link)) {
		w->link = 0;
		return;
	}
	session_conn_bytes(w->s, w->link, hello->bytes, hello->len);
}

/* Bytes of the input, signed with a key of the boot. */
static void say_signed(struct world *w, const uint8_t *text, size_t len, uint64_t seq, bool hello)
{
	struct fake_frame frame;
	char copy[512];
	uint8_t k[32];

	if (len >= sizeof(copy))
		return;
	memcpy(copy, text, len);
	copy[len] = '\0';
	fake_key(k, &w->f, hello ? HF_SENTRY_LABEL_HELLO_0 : HF_SENTRY_LABEL_FRAME_0,
		 hello ? HF_SENTRY_LABEL_HELLO : HF_SENTRY_LABEL_FRAME, seq);
	fake_sign(&frame, copy, k);
	if (w->link)
		session_conn_bytes(w->s, w->link, frame.bytes, frame.len);
}

/* A healthy Sentry becomes one that something was done to. */
static void bend(struct fake *f, uint8_t how)
{
	static const char *const canaries[] = { NULL, "{\"int3\":false}", "{\"ftrace\":1}", "[]" };

	f->armed = how & 1 ? f->total - 1 : f->total;
	f->total = how & 2 ? -1 : 49;
	f->mute = how & 4;
	f->canary = canaries[how >> 3 & 3];
	f->phase = how >> 5 & 3;
	if (how & 0x80)
		memset(f->nonce, 'f', sizeof(f->nonce) - 1);
}

/* A hello that the key vouches for, of any number and identity, on a connection of its own. */
static void hello_signed(struct world *w, uint8_t how, const uint8_t *text, size_t len)
{
	uint32_t conn = w->f.conn + (how & 3) - (w->f.conn ? 1 : 0);
	struct fake_frame hello;
	char identity[256];

	fake_identity(identity, how & 8 ? 0 : how & 16 ? conn + 1 : conn);
	if (how & 32 && len && len < sizeof(identity)) {
		memcpy(identity, text, len);
		identity[len] = '\0';
	}
	fake_sign_hello(&w->f, &hello, conn, how & 64 ? (uint64_t)how << 12 : w->last_seq + (how & 4), identity);
	if (how & 128 && w->link)
		session_conn_bytes(w->s, w->link, hello.bytes, hello.len);
	else if (!session_conn_open(w->s, ++w->next_id))
		session_conn_bytes(w->s, w->next_id, hello.bytes, hello.len);
}

/* A frame that the key vouches for, at any place of the sequence. */
static void frame_signed(struct world *w, uint8_t how)
{
	uint64_t seq = w->last_seq + 1 + (how & 7) - (w->last_seq > 3 ? 4 : 0);
	struct fake_frame frame;
	char text[128];

	if (how & 32)
		snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"hello\",\"t\":5,\"conn\":0");
	else
		snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"exec\",\"t\":%d,\"seq\":%llu", how & 16 ? -1 : 5,
			 how & 8 ? 0ULL : (unsigned long long)seq);
	fake_sign_frame(&w->f, &frame, text, seq);
	if (w->link)
		session_conn_bytes(w->s, w->link, frame.bytes, frame.len);
}

/* A number further ahead than a gap may be; no key is derived for it. */
static void frame_far_ahead(struct world *w)
{
	struct fake_frame frame;
	char text[128];

	snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"exec\",\"t\":5,\"seq\":%llu", (unsigned long long)w->last_seq + 70000);
	fake_sign(&frame, text, key);
	if (w->link)
		session_conn_bytes(w->s, w->link, frame.bytes, frame.len);
}

/* The VM runs on for some seconds and nothing comes. */
static void quiet_seconds(struct world *w, size_t seconds)
{
	while (seconds--)
		session_tick(w->s, w->now_ms += SESSION_TICK_MAX_MS, true);
}

/* Steps that a byte from HARMED on begins. */
static size_t harmed_step(struct world *w, const uint8_t *data, size_t size, size_t len)
{
	struct session_status status;
	uint8_t how = size > 1 ? data[1] : 0;

	switch (data[0] % 6) {
	case 0:
		bend(&w->f, how);
		return 2;
	case 1:
		hello_signed(w, how, data + (size > 2 ? 2 : size), len);
		return 2 + (how & 32 ? len : 0);
	case 2:
		if (how & 64)
			frame_far_ahead(w);
		else
			frame_signed(w, how);
		return 2;
	case 3:
		quiet_seconds(w, how);
		return 2;
	case 4:
		while (how-- & 15)
			session_conn_open(w->s, ++w->next_id);
		return 2;
	default:
		session_status(w->s, &status);
		if (status.durable_seq > status.last_seq || status.quiet_ms > status.running_ms)
			abort();
		session_durable(w->s, w->last_seq + how);
		return 2;
	}
}

static size_t step(struct world *w, const uint8_t *data, size_t size)
{
	size_t len = size > 1 ? data[1] : 0;
	const struct fake_frame *frame;
	json_t *state;

	if (len > size - (size > 1 ? 2 : 1))
		len = size - (size > 1 ? 2 : 1);
	if (data[0] >= HARMED)
		return harmed_step(w, data, size, len);
	switch (data[0] % 14) {
	case 0:
		connect_honest(w);
		return 1;
	case 1:
		if (w->f.seq - w->f.acked < FAKE_STORE - 1)
			fake_beat(&w->f);
		return 1;
	case 2:
		while (w->link && (frame = fake_next(&w->f)))
			session_conn_bytes(w->s, w->link, frame->bytes, frame->len);
		return 1;
	case 3:
		fake_bytes(&w->f, w->sent, w->n_sent);
		w->n_sent = 0;
		return 1;
	case 4:
		session_durable(w->s, w->last_seq);
		return 1;
	case 5: /* time, and whether the VM runs */
		w->now_ms += len * 64;
		session_tick(w->s, w->now_ms, !(len & 1));
		return 2;
	case 6: /* a stranger on a connection of their own */
		if (!session_conn_open(w->s, ++w->next_id) && size > 2)
			session_conn_bytes(w->s, w->next_id, data + 2, len);
		return 2 + len;
	case 7: /* bytes in the middle of the honest connection */
		if (w->link && size > 2)
			session_conn_bytes(w->s, w->link, data + 2, len);
		return 2 + len;
	case 8:
		say_signed(w, data + (size > 2 ? 2 : size), len, w->last_seq + 1, false);
		return 2 + len;
	case 9:
		say_signed(w, data + (size > 2 ? 2 : size), len, w->f.conn, true);
		return 2 + len;
	case 10: /* put away and restored */
		state = session_export(w->s);
		session_free(w->s);
		renew(w, state);
		json_decref(state);
		return 1;
	case 11:
		if (w->link)
			session_conn_close(w->s, w->link);
		w->link = 0;
		return 1;
	case 12: /* a frame is lost, or the guest goes back */
		if (len & 1)
			w->f.sent++;
		else if (w->f.sent > w->f.acked)
			w->f.sent--;
		return 2;
	default:
		session_challenge(w->s);
		session_guest_digest(w->s, len & 1 ? NULL : "00");
		return 2;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	size_t at = 0;

	if (!w)
		return 0;
	fake_init(&w->f, key);
	renew(w, NULL);
	while (at < size)
		at += step(w, data + at, size - at);
	session_end(w->s, false);
	session_free(w->s);
	free(w);
	return 0;
}
