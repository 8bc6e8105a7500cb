/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * canon.c - the one spelling of a request's path.
 *
 * The rewritten path is both what the policy sees and what goes upstream, so the two cannot disagree.
 * Everything is decoded once, before segments are looked at; what decoding would hide (an encoded slash,
 * a control byte) is refused instead.
 */
#include <string.h>

#include "hostd/policy/policy.h"

#define SLASH '\x01' /* an encoded slash that is kept; a control byte cannot occur otherwise */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static enum policy_canon_error decode(const char *s, size_t len, bool allow_slash, char *out, size_t *n)
{
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '%') {
			int hi = i + 2 < len ? hex(s[i + 1]) : -1, lo = i + 2 < len ? hex(s[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return POLICY_CANON_PERCENT;
			c = (unsigned char)(hi << 4 | lo);
			i += 2;
			if (c < 0x20 || c == 0x7f)
				return POLICY_CANON_CONTROL;
			if (c == '/') {
				if (!allow_slash)
					return POLICY_CANON_ENCODED_SLASH;
				c = (unsigned char)SLASH;
			}
		}
		out[at++] = (char)c;
	}
	*n = at;
	return POLICY_CANON_OK;
}

static bool is_dots(const char *s, size_t n)
{
	return (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.');
}

/*
 * Between two kept slashes a dot would be resolved by whoever decodes them.  Looked for in what is left of
 * the path: a segment that a later `..` took away harms nobody.
 */
static bool residual_dots(const char *path)
{
	const char *part = path;

	for (const char *p = path;; p++) {
		bool kept = !strncmp(p, "%2F", 3);

		if (*p && *p != '/' && !kept)
			continue;
		if (is_dots(part, (size_t)(p - part)))
			return true;
		if (!*p)
			return false;
		p += kept ? 2 : 0;
		part = p + 1;
	}
}

static void encode(struct policy_canon *out, const char *s, size_t n)
{
	static const char digits[] = "0123456789ABCDEF";
	char *p = out->path + out->path_len;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    (c >= 0x20 && strchr("-._~!$&'()*+,;=:@", c))) {
			*p++ = (char)c;
			continue;
		}
		if (c == (unsigned char)SLASH)
			c = '/';
		*p++ = '%';
		*p++ = digits[c >> 4];
		*p++ = digits[c & 15];
	}
	out->path_len = (size_t)(p - out->path);
}

/* Segments of decoded text, without its leading slash, into out->path. */
static enum policy_canon_error resolve(const char *s, size_t len, struct policy_canon *out)
{
	const char *end = s + len;
	bool trailing = false;

	out->path_len = 0;
	for (;;) {
		const char *next = memchr(s, '/', (size_t)(end - s)), *cut;
		size_t n = (size_t)((next ? next : end) - s);

		cut = memchr(s, ';', n);
		if (cut)
			n = (size_t)(cut - s);
		trailing = !next && (n == 0 || is_dots(s, n));
		if (n == 2 && is_dots(s, n)) {
			if (out->path_len == 0)
				return POLICY_CANON_TRAVERSAL;
			while (out->path[--out->path_len] != '/')
				;
		} else if (n && !is_dots(s, n)) {
			out->path[out->path_len++] = '/';
			encode(out, s, n);
		}
		if (!next)
			break;
		s = next + 1;
	}
	if (trailing || out->path_len == 0)
		out->path[out->path_len++] = '/';
	out->path[out->path_len] = '\0';
	return residual_dots(out->path) ? POLICY_CANON_RESIDUAL_DOT : POLICY_CANON_OK;
}

enum policy_canon_error policy_canon(const char *target, size_t len, bool allow_encoded_slash,
				     struct policy_canon *out)
{
	const char *end = target + len, *query, *path = target, *scheme;
	char decoded[POLICY_PATH_MAX + 1];
	enum policy_canon_error e;
	size_t n = 0, path_len;

	out->path[0] = '\0';
	out->path_len = out->query_len = 0;
	out->query = NULL;
	out->rewritten = false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)target[i];

		if (c < 0x20 || c == 0x7f)
			return POLICY_CANON_CONTROL;
		if (c >= 0x80)
			return POLICY_CANON_NON_ASCII;
	}
	if (memchr(target, '#', len))
		return POLICY_CANON_FRAGMENT;
	query = memchr(target, '?', len);
	if (query) {
		out->query = query + 1;
		out->query_len = (size_t)(end - query - 1);
		end = query;
	}
	if (target < end && *target != '/') { /* absolute-form: behind the authority */
		scheme = memmem(target, (size_t)(end - target), "://", 3);
		if (!scheme)
			return POLICY_CANON_MALFORMED;
		path = memchr(scheme + 3, '/', (size_t)(end - scheme - 3));
		if (!path)
			path = end;
	}
	path_len = (size_t)(end - path);
	if (!path_len) {
		path = "/";
		path_len = 1;
	}
	if (path_len > POLICY_PATH_MAX)
		return POLICY_CANON_TOO_LONG;
	e = decode(path, path_len, allow_encoded_slash, decoded, &n);
	if (e == POLICY_CANON_OK)
		e = resolve(decoded + 1, n - 1, out);
	if (e != POLICY_CANON_OK)
		return e;
	out->rewritten = out->path_len != path_len || memcmp(out->path, path, path_len);
	return POLICY_CANON_OK;
}

const char *policy_canon_error_name(enum policy_canon_error e)
{
	static const char *const names[] = {
		[POLICY_CANON_OK] = "",
		[POLICY_CANON_TRAVERSAL] = "TraversalAboveRoot",
		[POLICY_CANON_CONTROL] = "NullOrControlByte",
		[POLICY_CANON_ENCODED_SLASH] = "EncodedSlashNotAllowed",
		[POLICY_CANON_PERCENT] = "InvalidPercentEncoding",
		[POLICY_CANON_MALFORMED] = "MalformedTarget",
		[POLICY_CANON_FRAGMENT] = "FragmentInRequestTarget",
		[POLICY_CANON_RESIDUAL_DOT] = "ResidualDotSegment",
		[POLICY_CANON_TOO_LONG] = "PathTooLong",
		[POLICY_CANON_NON_ASCII] = "NonAscii",
	};

	return names[e];
}
