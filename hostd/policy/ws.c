/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ws.c - client frames of a WebSocket (RFC 6455, RFC 7692), checked one by one. */
#include <string.h>

#include "hostd/policy/request.h"
#include "lib/buf.h"

#define CLOSE_PROTOCOL (-1002)
#define CLOSE_UTF8 (-1007)
#define CLOSE_TOO_BIG (-1009)

static bool close_code_ok(unsigned int code)
{
	return (code >= 1000 && code <= 1014 && !(code >= 1004 && code <= 1006)) ||
	       (code >= 3000 && code <= 4999);
}

static int check_close(const uint8_t *payload, size_t n, const uint8_t mask[4])
{
	uint8_t plain[125];

	if (n == 1)
		return CLOSE_PROTOCOL;
	for (size_t i = 0; i < n; i++)
		plain[i] = payload[i] ^ mask[i & 3];
	if (n && !close_code_ok((unsigned int)plain[0] << 8 | plain[1]))
		return CLOSE_PROTOCOL;
	return n > 2 && !policy_utf8_valid(plain + 2, n - 2) ? CLOSE_UTF8 : 1;
}

/* Order, size and number of the fragments of a message. */
static int check_data(struct policy_ws *s, struct policy_ws_frame *f)
{
	bool first = f->opcode != WS_CONTINUATION;

	if (first == (s->message != 0))
		return CLOSE_PROTOCOL;
	if (f->compressed && (!first || !s->deflate))
		return CLOSE_PROTOCOL;
	if (first) {
		s->message = f->opcode;
		s->compressed = f->compressed;
		s->bytes = 0;
		s->fragments = 0;
	}
	s->bytes += f->payload;
	s->fragments++;
	f->message = s->message;
	f->compressed = s->compressed;
	if (s->message == WS_TEXT ? s->bytes > WS_TEXT_MAX || s->fragments > WS_FRAGMENTS_MAX :
				    f->payload > WS_BINARY_MAX)
		return CLOSE_TOO_BIG;
	if (f->fin)
		s->message = 0;
	return 1;
}

int policy_ws_frame(struct policy_ws *s, const uint8_t *p, size_t n, struct policy_ws_frame *f)
{
	struct rd r;
	uint8_t head = 0, len = 0;
	uint64_t payload;
	uint16_t len16 = 0;
	bool control;

	memset(f, 0, sizeof(*f));
	rd_init(&r, p, n);
	if (rd_u8(&r, &head) < 0 || rd_u8(&r, &len) < 0)
		return 0;
	f->fin = head & 0x80;
	f->compressed = head & 0x40;
	f->opcode = head & 0x0f;
	control = f->opcode >= 8;
	if (head & 0x30 || (f->opcode > WS_BINARY && f->opcode < WS_CLOSE) || f->opcode > WS_PONG ||
	    !(len & 0x80))
		return CLOSE_PROTOCOL;
	payload = len & 0x7f;
	if (control && (!f->fin || f->compressed || payload > 125))
		return CLOSE_PROTOCOL;
	if (payload == 126) {
		if (rd_u16(&r, &len16) < 0)
			return 0;
		payload = len16;
		if (payload < 126)
			return CLOSE_PROTOCOL;
	} else if (payload == 127) {
		if (rd_u64(&r, &payload) < 0)
			return 0;
		if (payload >> 63 || payload < 65536)
			return CLOSE_PROTOCOL;
		if (payload > WS_BINARY_MAX)
			return CLOSE_TOO_BIG;
	}
	if (rd_copy(&r, f->mask, sizeof(f->mask)) < 0)
		return 0;
	f->header = n - r.left;
	f->payload = (size_t)payload;
	if (!control)
		return check_data(s, f);
	if (r.left < f->payload)
		return 0;
	return f->opcode == WS_CLOSE ? check_close(r.p, f->payload, f->mask) : 1;
}
