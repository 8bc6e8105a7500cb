/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Sentry's session: frames, new and repeated. The theory is in session.c. */
#include "hostd/sentry/session_parts.h"

#include <string.h>

void ss_give_up(struct session *s, const struct sentry_frame *frame, uint32_t number)
{
	struct session_frame out = {
		.type = frame->type,
		.seq = frame->seq,
		.conn = number,
		.guest_ns = frame->guest_ns,
		.json = frame->json,
		.bytes = frame->bytes,
		.len = frame->len,
	};

	s->ops.frame(s->u, &out);
}

/* A frame that was here before: the same bytes are a repeat after a lost ack, others a forgery. */
static void take_repeat(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	uint8_t digest[HASH_BYTES], key[HF_SENTRY_KEY_BYTES];
	bool known = frame->seq >= s->digests_from && frame->seq + SESSION_UNACKED_MAX > s->last_seq;

	if (known) {
		hash_sha256(digest, frame->bytes, frame->len);
		if (hash_equal(digest, s->digests[frame->seq % SESSION_UNACKED_MAX])) {
			ss_heard(s);
			return;
		}
	} else {
		/* From before this session was restored: what the module signed then. */
		ss_frame_key(key, s, frame->seq);
		if (ss_mac_fits(frame, key)) {
			ss_heard(s);
			return;
		}
	}
	ss_tamper(s, SESSION_TAMPER_SEQ_REPLAY, "frame %llu again, with other bytes",
	       (unsigned long long)frame->seq);
	ss_drop(s, conn);
}

static void take_new(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	uint8_t key[HF_SENTRY_KEY_BYTES];
	uint64_t missing = frame->seq - s->last_seq - 1;

	if (missing > SESSION_GAP_MAX) {
		ss_tamper(s, SESSION_TAMPER_BAD_MAC, "frame %llu after %llu", (unsigned long long)frame->seq,
		       (unsigned long long)s->last_seq);
		ss_drop(s, conn);
		return;
	}
	ss_frame_key(key, s, frame->seq);
	if (!ss_mac_fits(frame, key)) {
		ss_tamper(s, SESSION_TAMPER_BAD_MAC, "frame %llu is not signed by the Sentry",
		       (unsigned long long)frame->seq);
		ss_drop(s, conn);
		return;
	}
	if (missing) {
		ss_tamper(s, SESSION_TAMPER_SEQ_GAP, "frames %llu to %llu are missing",
		       (unsigned long long)s->last_seq + 1, (unsigned long long)frame->seq - 1);
		s->digests_from = frame->seq;
	}
	hash_sha256(s->digests[frame->seq % SESSION_UNACKED_MAX], frame->bytes, frame->len);
	hash_sha256_label(s->frame_key, HF_SENTRY_LABEL_FRAME, key, sizeof(key));
	s->last_seq = frame->seq;
	ss_heard(s);
	ss_give_up(s, frame, s->next_conn - 1);
	if (!strcmp(frame->type, HF_SENTRY_TYPE_HEARTBEAT))
		ss_take_heartbeat(s, frame->json);
}

void ss_take_frame(struct session *s, struct conn *conn, const struct sentry_frame *frame)
{
	if (frame->hello) {
		ss_tamper(s, SESSION_TAMPER_GARBAGE, "a hello in the middle of a connection");
		ss_drop(s, conn);
		return;
	}
	if (frame->seq < conn->expect) {
		ss_tamper(s, SESSION_TAMPER_SEQ_REPLAY, "frame %llu where %llu was next",
		       (unsigned long long)frame->seq, (unsigned long long)conn->expect);
		ss_drop(s, conn);
		return;
	}
	/* What the welcome named as durable may be left out, once, at the start. */
	if (frame->seq <= s->last_seq && frame->seq != conn->expect && frame->seq > conn->skip_to) {
		ss_tamper(s, SESSION_TAMPER_SEQ_GAP, "frame %llu where %llu was next",
		       (unsigned long long)frame->seq, (unsigned long long)conn->expect);
		ss_drop(s, conn);
		return;
	}
	conn->expect = frame->seq + 1;
	conn->skip_to = 0;
	s->framed = true;
	if (frame->seq <= s->last_seq)
		take_repeat(s, conn, frame);
	else
		take_new(s, conn, frame);
}
