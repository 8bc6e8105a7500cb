/* SPDX-License-Identifier: GPL-2.0-or-later */
/* template.c - a policy template and the mirrors of an image give the policy of a new workspace. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "hostd/policy/policy.h"
#include "lib/buf.h"

#define NAME_MAX_LEN 32

/* "${kind.field}" at @p: its length, or 0. */
static size_t placeholder(const char *p, const char *end, char *kind, char *field)
{
	const char *s = p + 2;
	size_t n = 0;

	if (end - p < 4 || p[0] != '$' || p[1] != '{')
		return 0;
	while (s < end && islower((unsigned char)*s) && n < NAME_MAX_LEN - 1)
		kind[n++] = *s++;
	kind[n] = '\0';
	if (!n || s == end || *s++ != '.')
		return 0;
	for (n = 0; s < end && islower((unsigned char)*s) && n < NAME_MAX_LEN - 1;)
		field[n++] = *s++;
	field[n] = '\0';
	return n && s < end && *s == '}' ? (size_t)(s + 1 - p) : 0;
}

/* Host names only: what is filled in must not be able to write policy. */
static bool good_host(const char *h)
{
	size_t n = strspn(h, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");

	return n && n < 254 && !h[n];
}

static int put_line(struct buf *out, const char *p, const char *end, const struct policy_mirror *m,
		    struct err *err)
{
	char kind[NAME_MAX_LEN], field[NAME_MAX_LEN];

	while (p < end) {
		size_t n = *p == '$' ? placeholder(p, end, kind, field) : 0;
		int rc;

		if (!n) {
			rc = buf_put_u8(out, (uint8_t)*p++);
		} else if (!m || strcmp(kind, m->kind)) {
			return err_set(err, "a line may name mirrors of one kind only: ${%s.%s}", kind, field);
		} else if (!strcmp(field, "host")) {
			rc = buf_put_str(out, m->host);
			p += n;
		} else if (!strcmp(field, "port")) {
			rc = buf_putf(out, "%u", m->port);
			p += n;
		} else {
			return err_set(err, "unknown placeholder ${%s.%s}", kind, field);
		}
		if (rc < 0)
			return err_set(err, "the filled policy is too long");
	}
	return 0;
}

char *policy_template_fill(const char *text, const struct policy_mirror *mirrors, size_t n, struct err *err)
{
	char kind[NAME_MAX_LEN], field[NAME_MAX_LEN];
	struct buf out;
	const char *p = text;

	for (size_t i = 0; i < n; i++)
		if (!good_host(mirrors[i].host) || !mirrors[i].port) {
			err_set(err, "\"%s\" is not a host and port", mirrors[i].host);
			return NULL;
		}
	buf_init(&out, POLICY_BYTES_MAX);
	while (*p) {
		const char *end = strchrnul(p, '\n'), *at = p;
		const char *next = *end ? end + 1 : end;
		bool comment;

		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		comment = at < end && *at == '#';
		for (at = p; at < end && !(*at == '$' && placeholder(at, end, kind, field));)
			at++;
		if (comment || at == end) {
			if (buf_put(&out, p, (size_t)(next - p)) < 0)
				goto too_long;
			p = next;
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			bool again = strcmp(mirrors[i].kind, kind) != 0;

			for (size_t k = 0; !again && k < i; k++) /* a mirror may be configured twice */
				again = !strcmp(mirrors[k].kind, kind) &&
					!strcmp(mirrors[k].host, mirrors[i].host) &&
					mirrors[k].port == mirrors[i].port;
			if (again)
				continue;
			if (put_line(&out, p, next, &mirrors[i], err) < 0) {
				buf_free(&out);
				return NULL;
			}
		}
		p = next;
	}
	if (buf_put_u8(&out, 0) < 0)
		goto too_long;
	return (char *)out.data;
too_long:
	buf_free(&out);
	err_set(err, "the filled policy is too long");
	return NULL;
}
