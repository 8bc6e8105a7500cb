/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one text that a document of the catalog has: sorted keys, one member and one list entry a line. */
#include "lib/catalog/canon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

static const struct json_limits limits = {
	.bytes = CANON_DOCUMENT_MAX,
	.depth = 8,
	.values = 400000,
};

enum { MEMBERS_MAX = 32 };

static int put_compact(struct buf *out, const json_t *value)
{
	_cleanup_free_ char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII |
							      JSON_ENCODE_ANY);

	return text ? buf_put(out, text, strlen(text)) : -1;
}

static int put_value(struct buf *out, const json_t *value)
{
	size_t n = json_array_size(value);

	if (!n || !json_is_object(json_array_get(value, 0)))
		return put_compact(out, value);
	for (size_t i = 0; i < n; i++)
		if (buf_put(out, i ? ",\n" : "[\n", 2) || put_compact(out, json_array_get(value, i)))
			return -1;
	return buf_put(out, "\n]", 2);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int put_document(struct buf *out, const json_t *document)
{
	const char *names[MEMBERS_MAX];
	size_t n = 0;
	void *at;

	if (json_object_size(document) > MEMBERS_MAX)
		return -1;
	for (at = json_object_iter((json_t *)document); at;
	     at = json_object_iter_next((json_t *)document, at))
		names[n++] = json_object_iter_key(at);
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		_cleanup_json_ json_t *name = json_string(names[i]);

		if (!name || buf_put(out, i ? ",\n" : "{\n", 2) || put_compact(out, name) ||
		    buf_put(out, ":", 1) || put_value(out, json_object_get(document, names[i])))
			return -1;
	}
	return buf_put(out, "\n}\n", 4); /* with its NUL */
}

char *canon_text(const json_t *document)
{
	struct buf out;
	char *text = NULL;

	buf_init(&out, CANON_DOCUMENT_MAX + 1);
	if (json_object_size(document) && !put_document(&out, document))
		text = strdup((const char *)out.data);
	buf_free(&out);
	return text;
}

json_t *canon_parse(const void *text, size_t n, struct err *err)
{
	_cleanup_json_ json_t *document = json_parse(text, n, &limits, err);
	_cleanup_free_ char *again = NULL;

	if (!document) {
		err_prefix(err, "malformed");
		return NULL;
	}
	if (!json_is_object(document)) {
		err_set(err, "malformed: not an object");
		return NULL;
	}
	again = canon_text(document);
	if (!again || strlen(again) != n || memcmp(again, text, n)) {
		err_set(err, "malformed: not in canonical form");
		return NULL;
	}
	return steal_ptr(&document);
}

int canon_time(const char *text, int64_t *out_s)
{
	struct tm tm = {0};
	char again[21];
	int end = 0;

	if (strlen(text) != 20 ||
	    sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
		   &tm.tm_min, &tm.tm_sec, &end) != 6 ||
	    end != 20)
		return -1;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*out_s = timegm(&tm);
	/* Refuses 31 February and the like, which timegm would turn into another day. */
	canon_time_text(again, *out_s);
	return strcmp(again, text) ? -1 : 0;
}

void canon_time_text(char out[21], int64_t s)
{
	time_t at = (time_t)s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || tm.tm_year + 1900 > 9999 || tm.tm_year + 1900 < 0 ||
	    !strftime(out, 21, "%Y-%m-%dT%H:%M:%SZ", &tm))
		out[0] = '\0';
}
