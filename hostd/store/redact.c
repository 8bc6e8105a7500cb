/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Redaction: which shapes of text are secrets, and how they leave.
 *
 * Theory of operation. Text is scanned once from the left. At the beginning of each word the matchers are tried in
 * turn; each says how many bytes the secret with its surroundings spans and how many at its front may stay ("--token="
 * stays, what follows goes). A token that the guest cut off at the end of its buffer is still a token, so at the end
 * of a text the shortest beginning counts. Wrongly redacted text costs a reader something, a secret kept costs
 * everything: in doubt it goes. What no shape gives away (a password as a bare word) cannot be found; the docs say so.
 */
#include "hostd/store/redact.h"

#include <ctype.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/buf.h"
#include "lib/cleanup.h"

#define TEXT_MAX (1 << 20)

/* Tokens that say what they are: prefix, the characters that follow, how many there are at least. */
#define P(prefix, min) { prefix, sizeof(prefix) - 1, min }
static const struct {
	const char *prefix;
	size_t len;
	unsigned min;
} token_prefixes[] = {
	P("sk-ant-", 6), P("sk-proj-", 6), P("sk-svcacct-", 6), P("sk-or-", 6), P("sk-", 16), P("sk_live_", 6),
	P("sk_test_", 6), P("rk_live_", 6), P("rk_test_", 6), P("whsec_", 6), P("ghp_", 6), P("gho_", 6),
	P("ghu_", 6), P("ghs_", 6), P("ghr_", 6), P("github_pat_", 6), P("glpat-", 6), P("glrt-", 6), P("gldt-", 6),
	P("glsa_", 6), P("xoxb-", 6), P("xoxp-", 6), P("xoxa-", 6), P("xoxs-", 6), P("xapp-", 6), P("AKIA", 12),
	P("ASIA", 12), P("AIza", 20), P("ya29.", 6), P("GOCSPX-", 6), P("npm_", 12), P("pypi-", 12), P("hf_", 12),
	P("SG.", 12), P("dop_v1_", 6), P("shpat_", 6), P("dckr_pat_", 6), P("tskey-", 6), P("hvs.", 6), P("hvb.", 6),
	P("ATATT", 12), P("ATCTT", 12), P("AGE-SECRET-KEY-", 6), P("lin_api_", 6), P("secret_", 20), P("xai-", 12),
	P("gsk_", 12), P("r8_", 12), P("pat_", 20), P("nvapi-", 6), P("figd_", 6), P("PMAK-", 6), P("rubygems_", 6),
	P("sntrys_", 6), P("phc_", 12), P("eyJ", 12), P("ABSK", 12), P("pplx-", 12), P("fw_", 16), P("dapi", 28),
};

/* Parts of a name that say that its value is a secret. Compared without case, "-" and "_". */
static const char *const secret_parts[] = {
	"password", "passwd",	 "passphrase", "secret",  "token",	"apikey",     "accesskey",  "privatekey",
	"authkey",  "signingkey", "authorization", "credential", "cookie",	"sessionid", "sessionkey", "encryptionkey",
	"masterkey", "servicekey", "accountkey", "sharedkey", "xauthkey", "connectionstring", "bearer", "sas",
};
/* Whole names (too short or too common as a part of one). */
static const char *const secret_names[] = { "pass", "pw", "pwd", "auth", "pin", "otp", "key", "sig", "jwt", "psk",
					    "dbpass", "pgpass", "mysqlpwd", "redisauth", "sshpass", "userpass" };
/* Endings that make it a place where a secret is, or a count, and not the secret. */
static const char *const harmless_endings[] = { "stdin", "file",  "path",    "dir",   "fd",   "url",	 "env",
						"name",	 "count", "limit",   "type",  "id",   "length", "tokens",
						"size",	 "ttl",	  "policy",  "expiry", "helper", "command", "max",
						"tokenizer", "tokenize", "only", "usage", "budget", "manager", "scope" };

static bool token_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/' || c == '=' ||
	       c == '~' || c == '%';
}

static bool name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool lower_char(char c)
{
	return c >= 'a' && c <= 'z';
}

static size_t span(const char *p, const char *end, bool (*in)(char))
{
	const char *start = p;

	while (p < end && in(*p))
		p++;
	return (size_t)(p - start);
}

static bool ends_with(const char *s, size_t n, const char *ending)
{
	size_t m = strlen(ending);

	return n >= m && !memcmp(s + n - m, ending, m);
}

/* A name as words without their separators: "X-Api_Key" is "xapikey". Returns its length, 0 if too long. */
static size_t squeeze(const char *name, size_t n, char out[80])
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (name[i] == '-' || name[i] == '_' || name[i] == '.')
			continue;
		if (len == 79)
			return 0;
		out[len++] = (char)tolower((unsigned char)name[i]);
	}
	out[len] = '\0';
	return len;
}

static bool judge_name(const char *name, size_t n)
{
	char s[80];
	size_t len = squeeze(name, n, s);

	if (len < 2)
		return false;
	if ((n == 3 && !memcmp(name, "PWD", 3)) || (n == 6 && !memcmp(name, "OLDPWD", 6)))
		return false;
	for (size_t i = 0; i < sizeof(harmless_endings) / sizeof(harmless_endings[0]); i++)
		if (ends_with(s, len, harmless_endings[i]) && !ends_with(s, len, "sessionid"))
			return false;
	for (size_t i = 0; i < sizeof(secret_names) / sizeof(secret_names[0]); i++)
		if (!strcmp(s, secret_names[i]))
			return true;
	/* SOMETHING_KEY, something_pass: a last word of its own */
	for (size_t i = 1; i + 1 < n; i++)
		if (name[i] == '_' || name[i] == '-') {
			const char *w = name + i + 1;
			size_t left = n - i - 1;

			if ((left == 3 && !strncasecmp(w, "key", 3)) || (left == 4 && !strncasecmp(w, "pass", 4)) ||
			    (left == 3 && !strncasecmp(w, "pwd", 3)) || (left == 3 && !strncasecmp(w, "pat", 3)) ||
			    (left == 4 && !strncasecmp(w, "auth", 4)))
				return true;
		}
	for (size_t i = 0; i < sizeof(secret_parts) / sizeof(secret_parts[0]); i++) {
		const char *part = secret_parts[i];

		if (!strcmp(part, "sas") ? !strcmp(s, part) : strstr(s, part) != NULL)
			return true;
	}
	return false;
}

/* The same few names come again and again: members of events, options of commands. */
static bool secret_name(const char *name, size_t n)
{
	static _Thread_local struct {
		char name[32];
		uint8_t len;
		bool secret;
	} cache[256];
	uint32_t h = 2166136261u;
	bool secret;

	if (n < 2)
		return false;
	if (n > sizeof(cache[0].name))
		return judge_name(name, n);
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	h = (h ^ h >> 16) & 255;
	if (cache[h].len == n && !memcmp(cache[h].name, name, n))
		return cache[h].secret;
	secret = judge_name(name, n);
	memcpy(cache[h].name, name, n);
	cache[h].len = (uint8_t)n;
	cache[h].secret = secret;
	return secret;
}

/* Values that hold no secret: references to variables, and what was redacted already. */
static bool harmless_value(const char *v, size_t n)
{
	static const char mark[] = REDACT_MARK;
	static const char *const words[] = { "true", "false", "null", "none", "yes", "no", "on", "off", "required" };

	if (!n)
		return true;
	/* without its last bracket, at which a value ends */
	if (n >= sizeof(mark) - 2 && !memcmp(v, mark, sizeof(mark) - 2))
		return true;
	if (v[0] == '$' && (n == 1 || v[1] == '{' || v[1] == '(' || isalpha((unsigned char)v[1]) || v[1] == '_'))
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (n == strlen(words[i]) && !strncasecmp(v, words[i], n))
			return true;
	return false;
}

/* A match: @keep bytes stay, the rest of @len goes. */
struct match {
	size_t keep, len;
};

static bool match_prefix(const char *p, const char *end, struct match *m)
{
	for (size_t i = 0; i < sizeof(token_prefixes) / sizeof(token_prefixes[0]); i++) {
		size_t n = token_prefixes[i].len, tail;

		if (*p != token_prefixes[i].prefix[0] || (size_t)(end - p) < n ||
		    memcmp(p, token_prefixes[i].prefix, n) != 0)
			continue;
		tail = span(p + n, end, token_char);
		/* cut off at the end of the text: the beginning of a token is enough, if it is one and no short word */
		if (tail < token_prefixes[i].min && !(p + n + tail == end && tail >= 1 && (n >= 4 || n + tail >= 8)))
			continue;
		*m = (struct match){ .keep = 0, .len = n + tail };
		return true;
	}
	return false;
}

static const char *find(const char *p, const char *end, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(end - p) < n ? NULL : memmem(p, (size_t)(end - p), what, n);
}

static bool match_pem(const char *p, const char *end, struct match *m)
{
	static const char begin[] = "-----BEGIN ";
	const char *stop, *key;

	if ((size_t)(end - p) < sizeof(begin) - 1 || memcmp(p, begin, sizeof(begin) - 1) != 0)
		return false;
	key = find(p, end, "PRIVATE KEY");
	if (!key || key - p > 64)
		return false;
	stop = find(key, end, "-----END ");
	if (stop && (key = find(stop + 9, end, "-----")))
		stop = key + 5;
	else
		stop = end;
	*m = (struct match){ .keep = 0, .len = (size_t)(stop - p) };
	return true;
}

/* "://user:password@" loses the password, "://token@" the token. */
static bool match_userinfo(const char *p, const char *end, struct match *m)
{
	const char *start, *at = NULL, *colon = NULL;

	if (end - p < 3 || memcmp(p, "://", 3) != 0)
		return false;
	start = p + 3;
	for (const char *q = start; q < end && !isspace((unsigned char)*q) && *q != '/' && *q != '"' && *q != '\'' &&
				    *q != '?' && *q != '#';
	     q++) {
		if (*q == '@')
			at = q;
		else if (*q == ':' && !colon && !at)
			colon = q;
	}
	if (!at || at == start)
		return false;
	if (colon) {
		if (at - colon <= 1 || harmless_value(colon + 1, (size_t)(at - colon - 1)))
			return false;
		*m = (struct match){ .keep = (size_t)(colon + 1 - p), .len = (size_t)(at - p) };
		return true;
	}
	/* git@, root@: a user's name; anything long is a token */
	if (at - start < 16)
		return false;
	*m = (struct match){ .keep = 3, .len = (size_t)(at - p) };
	return true;
}

static bool value_stop(char c)
{
	return isspace((unsigned char)c) || c == '&' || c == ';' || c == ',' || c == '"' || c == '\'' || c == ')' ||
	       c == '}' || c == ']' || c == '|' || c == '<' || c == '>' || c == '`' || c == '\\';
}

/* The value at @p: quoted, or up to a stop. Sets where it begins; returns its length. */
static size_t value_span(const char *p, const char *end, const char **value)
{
	const char *q;

	if (p < end && *p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\''))
		p++; /* a quote inside a quoted text */
	if (p < end && (*p == '"' || *p == '\'')) {
		char quote = *p++;

		for (q = p; q < end && *q != quote; q++)
			if (*q == '\\' && q + 1 < end && q[1] != quote)
				q++;
		if (q < end && q > p && q[-1] == '\\')
			q--;
		*value = p;
		return (size_t)(q - p);
	}
	for (q = p; q < end && !value_stop(*q); q++)
		;
	*value = p;
	return (size_t)(q - p);
}

/* "Authorization: …" and "Cookie: …" go to the end of the line or of the quoted text they are in. */
static size_t header_span(const char *p, const char *end)
{
	const char *q = p;

	while (q < end && *q != '\n' && *q != '\r' && *q != '"' && *q != '\'')
		q++;
	return (size_t)(q - p);
}

static bool header_name(const char *name, size_t n)
{
	static const char *const headers[] = { "authorization", "proxyauthorization", "cookie", "setcookie" };
	char s[80];

	squeeze(name, n, s);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (!strcmp(s, headers[i]))
			return true;
	return false;
}

/* NAME=value, "name": "value", --name value, ?name=value. */
static bool match_named(const char *p, const char *start, const char *end, struct match *m)
{
	const char *name = p, *q, *value;
	size_t n, len;

	while (name < end && *name == '-' && name - p < 2)
		name++;
	n = span(name, end, name_char);
	q = name + n;
	if (n < 2 || n > 79 || q == end || !strchr("=:\"'\\% \t", *q) || !secret_name(name, n))
		return false;
	if (q < end && *q == '\\' && q + 1 < end)
		q++;
	if (q < end && (*q == '"' || *q == '\''))
		q++;
	if (q < end && *q == '=') {
		q++;
		if (q < end && *q == '=') /* a comparison */
			return false;
	} else if (q < end && *q == '%' && end - q > 3 && !strncasecmp(q, "%3d", 3)) {
		q += 3;
	} else {
		const char *blank = q;

		while (q < end && (*q == ' ' || *q == '\t'))
			q++;
		if (q < end && (*q == ':' || *q == '=')) {
			q++;
			while (q < end && (*q == ' ' || *q == '\t'))
				q++;
			if (header_name(name, n)) {
				if (q < end && (*q == '"' || *q == '\''))
					q++;
				len = header_span(q, end);
				if (harmless_value(q, len))
					return false;
				*m = (struct match){ .keep = (size_t)(q - p), .len = (size_t)(q - p) + len };
				return true;
			}
		} else if (name > p && q > blank && q < end && *q != '-') {
			; /* --password value */
		} else {
			return false;
		}
	}
	(void)start;
	len = value_span(q, end, &value);
	if (harmless_value(value, len))
		return false;
	*m = (struct match){ .keep = (size_t)(value - p), .len = (size_t)(value - p) + len };
	return true;
}

/* "Bearer x", "Basic eDp5", "token x" after a scheme word. */
static bool match_scheme(const char *p, const char *end, struct match *m)
{
	static const struct {
		const char *word;
		size_t min;
	} schemes[] = { { "bearer", 8 }, { "basic", 8 }, { "negotiate", 16 }, { "digest", 1 } };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t n = strlen(schemes[i].word), tail;
		const char *q = p + n;

		if ((size_t)(end - p) <= n || strncasecmp(p, schemes[i].word, n) != 0)
			continue;
		if (*q == '%' && end - q > 3 && !memcmp(q, "%20", 3))
			q += 3;
		else if (*q == ' ')
			while (q < end && *q == ' ')
				q++;
		else
			continue;
		if (i == 3) { /* Digest username="…": only with parameters */
			tail = header_span(q, end);
			if (!find(q, q + tail, "="))
				continue;
		} else {
			tail = span(q, end, token_char);
			if (tail < schemes[i].min && q + tail != end)
				continue;
			/* a sentence: "basic knowledge", "bearer certificate" */
			if (span(q, q + tail, lower_char) == tail && q + tail != end)
				continue;
		}
		if (!tail || harmless_value(q, tail))
			continue;
		*m = (struct match){ .keep = (size_t)(q - p), .len = (size_t)(q - p) + tail };
		return true;
	}
	return false;
}

static bool digits(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)p[i]) && p[i] != ':')
			return false;
	return true;
}

/* user:password as curl's -u takes it; a uid:gid is none. */
static bool match_user_colon(const char *q, const char *end, const char *p, struct match *m)
{
	const char *value;
	size_t len = value_span(q, end, &value);
	const char *colon = memchr(value, ':', len);

	if (!colon || digits(value, len) || memchr(value, '/', (size_t)(colon - value)) ||
	    harmless_value(colon + 1, len - (size_t)(colon + 1 - value)))
		return false;
	*m = (struct match){ .keep = (size_t)(colon + 1 - p), .len = (size_t)(value - p) + len };
	return true;
}

/* -u user:pass, --user=user:pass, sshpass -p x, mysql -px. @p is at the beginning of a word. */
static bool match_flag(const char *p, const char *start, const char *end, struct match *m)
{
	static const char *const users[] = { "-u", "--user", "-U", "--proxy-user", "--http-user" };
	static const char *const glued[] = { "mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass", "mysqlsh" };
	const char *q;

	if (*p != '-')
		return false;
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		size_t n = strlen(users[i]);

		if ((size_t)(end - p) <= n || memcmp(p, users[i], n) != 0)
			continue;
		q = p + n;
		if (*q != ' ' && *q != '=' && !(n == 2 && p[1] == 'u'))
			continue;
		while (q < end && (*q == ' ' || *q == '='))
			q++;
		if (match_user_colon(q, end, p, m))
			return true;
	}
	if ((size_t)(end - p) > 2 && p[1] == 'p' && p > start) {
		const char *value;
		size_t len;
		bool mine = false;

		for (size_t i = 0; i < sizeof(glued) / sizeof(glued[0]) && !mine; i++) {
			const char *word = find(start, p, glued[i]);

			mine = word && p - word < 200;
		}
		if (!mine)
			return false;
		q = p + 2;
		if (*q == ' ') {
			if (!find(start, p, "sshpass"))
				return false;
			q++;
		}
		len = value_span(q, end, &value);
		if (harmless_value(value, len))
			return false;
		*m = (struct match){ .keep = (size_t)(value - p), .len = (size_t)(value - p) + len };
		return true;
	}
	return false;
}

static bool word_begins(const char *start, const char *p)
{
	return p == start || !isalnum((unsigned char)p[-1]) || *p == ':';
}

static bool match_any(const char *p, const char *start, const char *end, struct match *m)
{
	if (*p == ':')
		return match_userinfo(p, end, m);
	if (p > start && (p[-1] == '_' || p[-1] == '-') && isalnum((unsigned char)*p))
		return match_prefix(p, end, m); /* "x-ghp_…": only what says itself what it is */
	return match_pem(p, end, m) || match_prefix(p, end, m) || match_scheme(p, end, m) ||
	       match_flag(p, start, end, m) || match_named(p, start, end, m);
}

char *redact_text(const char *text, size_t len, unsigned *count)
{
	const char *end = text + len, *p = text, *copied = text;
	struct match m;
	struct buf out;
	char *result = NULL;

	buf_init(&out, TEXT_MAX);
	while (p < end) {
		if (!(isalnum((unsigned char)*p) || *p == '-' || *p == ':') || !word_begins(text, p) ||
		    !match_any(p, text, end, &m)) {
			p++;
			continue;
		}
		buf_put(&out, copied, (size_t)(p - copied) + m.keep);
		buf_put(&out, REDACT_MARK, sizeof(REDACT_MARK) - 1);
		p += m.len;
		copied = p;
		(*count)++;
	}
	if (copied != text && !buf_put(&out, copied, (size_t)(end - copied)) && buf_cstr(&out))
		result = strndup((char *)out.data, out.len);
	buf_free(&out);
	return result;
}

/* ---- JSON ---- */

static json_t *redact_string(const json_t *value, unsigned *count)
{
	_cleanup_free_ char *text = redact_text(json_string_value(value), json_string_length(value), count);

	return text ? json_string(text) : NULL;
}

static json_t *redact_b64(const json_t *value, unsigned *count)
{
	const char *b64 = json_string_value(value);
	size_t n = json_string_length(value), len;
	_cleanup_free_ uint8_t *raw = malloc(n + 1);
	_cleanup_free_ char *text = NULL;

	if (!raw || sodium_base642bin(raw, n, b64, n, NULL, &len, NULL, sodium_base64_VARIANT_ORIGINAL))
		return NULL;
	text = redact_text((char *)raw, len, count);
	/* what is left may not be UTF-8, and no reader needs it */
	return text ? json_string(REDACT_MARK) : NULL;
}

/* Does the argument @prev announce that the next one is a secret? 2: user:password. */
static int announces(const char *prog, const char *prev)
{
	const char *name = prev;
	const char *base = prog ? strrchr(prog, '/') : NULL;

	base = base ? base + 1 : prog;
	if (*prev != '-')
		return 0;
	while (*name == '-')
		name++;
	if (!strcmp(prev, "-u") || !strcmp(prev, "--user") || !strcmp(prev, "-U") || !strcmp(prev, "--proxy-user"))
		return 2;
	if (base && (!strcmp(base, "sshpass") || !strcmp(base, "docker") || !strcmp(base, "podman")) &&
	    !strcmp(prev, "-p"))
		return !strcmp(base, "sshpass") ? 1 : 3;
	if (strlen(name) < 2 || strchr(name, '='))
		return 0;
	return secret_name(name, strlen(name)) ? 1 : 0;
}

static bool argv_has(const json_t *argv, const char *word)
{
	size_t i;
	const json_t *arg;

	json_array_foreach (argv, i, arg)
		if (json_is_string(arg) && !strcmp(json_string_value(arg), word))
			return true;
	return false;
}

static json_t *redact_value(const json_t *value, unsigned *count);

static json_t *redact_argv(const json_t *argv, unsigned *count)
{
	const char *prog = json_string_value(json_array_get(argv, 0)), *prev = NULL;
	json_t *out = json_array();
	bool changed = false;
	size_t i;
	json_t *arg;

	json_array_foreach ((json_t *)argv, i, arg) {
		const char *s = json_string_value(arg), *base = prog ? strrchr(prog, '/') : NULL;
		json_t *new = NULL;
		int how = prev && s ? announces(prog, prev) : 0;

		base = base ? base + 1 : prog;
		if (how == 3 && !argv_has(argv, "login"))
			how = 0; /* docker run -p 80:80 */
		if (how == 2) {
			struct match m;

			if (match_user_colon(s, s + strlen(s), s, &m)) {
				struct buf b;

				buf_init(&b, TEXT_MAX);
				buf_put(&b, s, m.keep);
				buf_put_str(&b, REDACT_MARK);
				new = json_stringn((char *)b.data, b.len);
				buf_free(&b);
				(*count)++;
			}
		} else if (how && strncmp(s, "--", 2) != 0 && !harmless_value(s, strlen(s))) {
			new = json_string(REDACT_MARK);
			(*count)++;
		} else if (s && i && base && !strncmp(s, "-p", 2) && s[2] &&
			   (!strncmp(base, "mysql", 5) || !strcmp(base, "mariadb") || !strcmp(base, "sshpass"))) {
			new = json_string("-p" REDACT_MARK);
			(*count)++;
		}
		if (!new)
			new = redact_value(arg, count);
		if (new)
			changed = true;
		json_array_append_new(out, new ? new : json_incref(arg));
		prev = s;
	}
	if (changed)
		return out;
	json_decref(out);
	return NULL;
}

static json_t *redact_object(const json_t *object, unsigned *count)
{
	json_t *out = NULL, *value;
	const char *key;

	json_object_foreach ((json_t *)object, key, value) {
		size_t n = strlen(key);
		json_t *new = NULL;

		if (json_is_string(value) && n > 4 && !strcmp(key + n - 4, "_b64")) {
			new = redact_b64(value, count);
		} else if (json_is_string(value) && secret_name(key, n) &&
			   !harmless_value(json_string_value(value), json_string_length(value))) {
			/* our own members name credentials, they don't hold them: they are called otherwise */
			if (strcmp(key, "credential") != 0) {
				new = json_string(REDACT_MARK);
				(*count)++;
			} else {
				new = redact_string(value, count);
			}
		} else {
			new = redact_value(value, count);
		}
		if (!new)
			continue;
		if (!out)
			out = json_copy((json_t *)object);
		json_object_set_new(out, key, new);
	}
	return out;
}

static json_t *redact_value(const json_t *value, unsigned *count)
{
	switch (json_typeof(value)) {
	case JSON_STRING:
		return redact_string(value, count);
	case JSON_ARRAY:
		return redact_argv(value, count);
	case JSON_OBJECT:
		return redact_object(value, count);
	default:
		return NULL;
	}
}

json_t *redact_json(const json_t *value, unsigned *count)
{
	return redact_value(value, count);
}
