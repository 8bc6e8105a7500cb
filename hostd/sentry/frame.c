/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One frame of the Sentry stream, from hostile bytes to checked members; no key is needed for it. */
#include "hostd/sentry/frame.h"

#include <string.h>

#include <holdfast/sentry.h>

#include "lib/hex.h"
#include "lib/json.h"

int sentry_frame_length(const uint8_t prefix[4], size_t *len, struct err *err)
{
	size_t n = (size_t)prefix[0] << 24 | (size_t)prefix[1] << 16 | (size_t)prefix[2] << 8 | prefix[3];

	if (n <= HF_SENTRY_MAC_TAIL_BYTES || n > HF_SENTRY_FRAME_HOST_MAX)
		return err_set(err, "a frame of %zu bytes", n);
	*len = n;
	return 0;
}

/* The MAC covers bytes, not values: it must be the last member, written in the one way. */
static int read_mac(struct sentry_frame *frame, struct err *err)
{
	static const char member[] = HF_SENTRY_MAC_MEMBER;
	const char *tail, *text;
	char hex[2 * HF_SENTRY_MAC_BYTES + 1];

	if (frame->len <= HF_SENTRY_MAC_TAIL_BYTES)
		return err_set(err, "no room for a mac");
	frame->maced = frame->len - HF_SENTRY_MAC_TAIL_BYTES;
	tail = (const char *)frame->bytes + frame->maced;
	if (memcmp(tail, member, sizeof(member) - 1) || memcmp(frame->bytes + frame->len - 2, "\"}", 2))
		return err_set(err, "\"mac\" is not the last member");
	memcpy(hex, tail + sizeof(member) - 1, sizeof(hex) - 1);
	hex[sizeof(hex) - 1] = '\0';
	if (hex_decode(frame->mac, sizeof(frame->mac), hex))
		return err_set(err, "\"mac\" is not 64 hex digits");
	if (json_get_str(frame->json, "mac", &text, err))
		return -1;
	if (strcmp(text, hex))
		return err_set(err, "two readings of \"mac\"");
	return 0;
}

static bool type_well_formed(const char *type)
{
	size_t n = strspn(type, "abcdefghijklmnopqrstuvwxyz_");

	return n && n <= SENTRY_FRAME_TYPE_MAX && !type[n];
}

static int read_members(struct sentry_frame *frame, struct err *err)
{
	int64_t version, t, seq = 0;

	if (json_get_int(frame->json, "v", &version, err))
		return -1;
	if (version != HF_SENTRY_VERSION)
		return err_set(err, "version %lld, %d is spoken here", (long long)version, HF_SENTRY_VERSION);
	if (json_get_str(frame->json, "type", &frame->type, err) ||
	    json_get_int(frame->json, "t", &t, err))
		return -1;
	if (!type_well_formed(frame->type))
		return err_set(err, "a malformed \"type\"");
	if (t < 0)
		return err_set(err, "a negative \"t\"");
	frame->guest_ns = (uint64_t)t;
	frame->hello = !strcmp(frame->type, HF_SENTRY_TYPE_HELLO);
	if (frame->hello) {
		if (json_object_get(frame->json, "seq"))
			return err_set(err, "a hello with \"seq\"");
	} else if (json_get_int(frame->json, "seq", &seq, err)) {
		return -1;
	} else if (seq < 1) {
		return err_set(err, "a \"seq\" below 1");
	}
	frame->seq = (uint64_t)seq;
	return 0;
}

int sentry_frame_parse(struct sentry_frame *frame, const uint8_t *bytes, size_t len, struct err *err)
{
	static const struct json_limits limits = {
		.bytes = HF_SENTRY_FRAME_HOST_MAX,
		.depth = SENTRY_FRAME_DEPTH,
		.values = SENTRY_FRAME_VALUES,
	};

	*frame = (struct sentry_frame){ .bytes = bytes, .len = len };
	frame->json = json_parse(bytes, len, &limits, err);
	if (!frame->json)
		return -1;
	if (!json_is_object(frame->json))
		err_set(err, "not an object");
	else if (!read_mac(frame, err) && !read_members(frame, err))
		return 0;
	sentry_frame_clear(frame);
	return -1;
}

void sentry_frame_clear(struct sentry_frame *frame)
{
	json_decref(frame->json);
	*frame = (struct sentry_frame){ 0 };
}
