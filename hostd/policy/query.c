/* SPDX-License-Identifier: GPL-2.0-or-later */
/* query.c - query strings, and URLs that a person types. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/request.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool policy_utf8_valid(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned int c = p[i], need = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
		uint32_t v = need == 3 ? c & 7 : need == 2 ? c & 15 : c & 31;

		if (c >= 0x80 && (c < 0xc2 || c > 0xf4 || n - i <= need))
			return false;
		for (unsigned int k = 1; k <= need; k++) {
			if ((p[i + k] & 0xc0) != 0x80)
				return false;
			v = v << 6 | (p[i + k] & 0x3f);
		}
		if ((need == 2 && (v < 0x800 || (v >= 0xd800 && v < 0xe000))) ||
		    (need == 3 && (v < 0x10000 || v > 0x10ffff)))
			return false;
		i += need + 1;
	}
	return true;
}

/* Percent and plus; NUL would end the text early and is refused. */
static char *decode(struct arena *a, const char *s, size_t len, const char **why)
{
	char *out = policy_arena_alloc(a, len + 1);
	size_t n = 0;

	*why = "out of memory";
	for (size_t i = 0; out && i < len; i++) {
		char c = s[i] == '+' ? ' ' : s[i];

		if (c == '%') {
			int hi = i + 2 < len ? hex(s[i + 1]) : -1, lo = i + 2 < len ? hex(s[i + 2]) : -1;

			if (hi < 0 || lo < 0) {
				*why = "a malformed escape in the query";
				return NULL;
			}
			c = (char)(hi << 4 | lo);
			i += 2;
		}
		if (!c) {
			*why = "a NUL in the query";
			return NULL;
		}
		out[n++] = c;
	}
	if (out && !policy_utf8_valid((const uint8_t *)out, n)) {
		*why = "the query is not UTF-8";
		return NULL;
	}
	return out;
}

int policy_query_parse(struct arena *a, const char *text, size_t len, struct policy_query **out, size_t *n,
		       const char **why)
{
	const char *end = text + len;
	struct policy_query *v = NULL;

	*out = NULL;
	*n = 0;
	while (text < end) {
		const char *next = memchr(text, '&', (size_t)(end - text)), *stop = next ? next : end;
		const char *eq = memchr(text, '=', (size_t)(stop - text));
		struct policy_query *q;

		if (stop > text) {
			if (*n == REQUEST_PAIRS_MAX) {
				*why = "too many query parameters";
				return -1;
			}
			q = policy_arena_push(a, &v, n, sizeof(*q));
			if (!q) {
				*why = "out of memory";
				return -1;
			}
			q->key = decode(a, text, (size_t)((eq ? eq : stop) - text), why);
			q->value = !q->key ? NULL : eq ? decode(a, eq + 1, (size_t)(stop - eq - 1), why) : "";
			if (!q->key || !q->value)
				return -1;
		}
		text = next ? next + 1 : end;
	}
	*out = v;
	return 0;
}

void policy_request_text_free(struct policy_request_text *t)
{
	free(t->host);
	free(t->target);
	memset(t, 0, sizeof(*t));
}

int policy_url_parse(const char *url, struct policy_request_text *out, struct err *err)
{
	static const struct {
		const char *scheme;
		uint16_t port;
	} schemes[] = { { "http://", 80 }, { "https://", 443 }, { "ws://", 80 }, { "wss://", 443 } };
	const char *rest = url, *end, *colon = NULL;
	uint16_t port = 0;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (!strncasecmp(url, schemes[i].scheme, strlen(schemes[i].scheme))) {
			rest = url + strlen(schemes[i].scheme);
			port = schemes[i].port;
		}
	if (!port && strstr(url, "://"))
		return err_set(err, "%s: the scheme must be http, https, ws or wss", url);
	end = rest + strcspn(rest, "/?#");
	if (memchr(rest, '@', (size_t)(end - rest)))
		return err_set(err, "%s: a user name in the address", url);
	if (*rest == '[') {
		colon = memchr(rest, ']', (size_t)(end - rest));
		colon = colon && colon[1] == ':' ? colon + 1 : NULL;
	} else {
		colon = memchr(rest, ':', (size_t)(end - rest));
	}
	if (colon) {
		char *stop;
		unsigned long v = strtoul(colon + 1, &stop, 10);

		if (stop != end || stop == colon + 1 || !v || v > 65535)
			return err_set(err, "%s: the port is not a number from 1 to 65535", url);
		port = (uint16_t)v;
	}
	if (!port)
		return err_set(err, "%s: give a scheme or a port", url);
	out->port = port;
	out->host = strndup(rest, (size_t)((colon ? colon : end) - rest));
	if (asprintf(&out->target, "%s%.*s", *end == '?' ? "/" : "", (int)strcspn(end, "#"), end) < 0)
		out->target = NULL;
	out->has_path = *end != '\0';
	if (!out->host || !out->target || !*out->host) {
		policy_request_text_free(out);
		return err_set(err, "%s: no host", url);
	}
	return 0;
}

int policy_explain_url(const struct policy *p, const struct policy_l4_input *l4, const char *method,
		       const struct policy_request_text *t, const char *rpc_method, const char *tool,
		       struct policy_decision *d)
{
	struct policy_param name = { "name", tool };
	struct policy_rpc rpc = { .method = rpc_method, .has_method = true, .tool = tool, .params = &name,
				  .n = tool ? 1 : 0 };
	struct policy_request r = { .l4 = *l4, .method = method, .rpc = rpc_method ? &rpc : NULL };
	struct policy_endpoint_view view;
	struct policy_query *query = NULL;
	struct policy_canon c;
	enum policy_canon_error e;
	struct arena *a = policy_arena_new(1u << 24);
	const char *why = NULL;

	if (!a)
		return -1;
	/* parsed with the most permissive option first, then with that of the endpoint it selects */
	e = policy_canon(t->target, strlen(t->target), true, &c);
	if (e == POLICY_CANON_OK && policy_select_endpoint(p, l4, c.path, &view) && !view.allow_encoded_slash)
		e = policy_canon(t->target, strlen(t->target), false, &c);
	if (e == POLICY_CANON_OK && c.query &&
	    policy_query_parse(a, c.query, c.query_len, &query, &r.n_query, &why) < 0)
		e = POLICY_CANON_MALFORMED;
	if (e != POLICY_CANON_OK) {
		policy_decide_l4(p, l4, d);
		if (d->verdict == POLICY_ALLOW) {
			d->verdict = POLICY_DENY;
			d->layer = POLICY_LAYER_L7;
			d->reason = POLICY_UNPARSEABLE;
			snprintf(d->text, sizeof(d->text), "the request target is refused: %s",
				 why ? why : policy_canon_error_name(e));
		}
	} else {
		r.path = c.path;
		r.query = query;
		policy_decide_request(p, &r, d);
	}
	policy_arena_free(a);
	return 0;
}
