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
	if (reason >= SESSION_TAMPER_COUNT || !text[0])
		abort();
}

static void on_drop(void *u, uint64_t id)
{
	struct world *w = u;

	if (id == w->link)
		w->link = 0;
}

static const struct session_ops ops = { .send = on_send, .frame = on_frame, .tamper = on_tamper, .drop = on_drop };

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

static size_t step(struct world *w, const uint8_t *data, size_t size)
{
	size_t len = size > 1 ? data[1] : 0;
	const struct fake_frame *frame;
	json_t *state;

	if (len > size - (size > 1 ? 2 : 1))
		len = size - (size > 1 ? 2 : 1);
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
