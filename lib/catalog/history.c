/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The append-only log of catalogs: one line each, chained by hash. */
#include "lib/catalog/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/json.h"

static const struct json_limits limits = {.bytes = CATALOG_LOG_LINE_MAX, .depth = 1, .values = 16};

static int parse_line(struct catalog_history *out, uint64_t *root_version, const char *line, size_t n,
		      struct err *err)
{
	static const char *const known[] = {"catalog_sha256", "issued", "previous", "root_version",
					    "version", NULL};
	_cleanup_json_ json_t *json = json_parse(line, n, &limits, err);
	_cleanup_free_ char *again = NULL;
	const char *catalog, *issued, *previous;
	int64_t version, root;
	uint8_t raw[HASH_BYTES];

	if (!json || json_only_keys(json, known, err) ||
	    json_get_str(json, "catalog_sha256", &catalog, err) ||
	    json_get_str(json, "issued", &issued, err) || json_get_str(json, "previous", &previous, err) ||
	    json_get_int(json, "root_version", &root, err) || json_get_int(json, "version", &version, err))
		return -1;
	again = json_text(json);
	if (!again || strlen(again) != n || memcmp(again, line, n))
		return err_set(err, "not in canonical form");
	if (hex_decode(raw, sizeof(raw), catalog) || version < 1 || root < 1)
		return err_set(err, "value out of range");
	if (strcmp(previous, out->head))
		return err_set(err, "does not follow the line before it");
	/* Versions only rise, but a rotation of keys may start again lower. */
	if ((uint64_t)root < *root_version || ((uint64_t)root == *root_version && (uint64_t)version <= out->version))
		return err_set(err, "version %" PRId64 " after %" PRIu64, version, out->version);
	*root_version = (uint64_t)root;
	out->version = (uint64_t)version;
	snprintf(out->catalog, sizeof(out->catalog), "%s", catalog);
	return 0;
}

int catalog_history_parse(struct catalog_history *out, const void *text, size_t n, uint64_t seen,
			  struct err *err)
{
	const char *at = text;
	uint64_t root_version = 0;
	uint8_t hash[HASH_BYTES];

	memset(out, 0, sizeof(*out));
	memset(out->head, '0', HASH_HEX - 1);
	while (n) {
		const char *end = memchr(at, '\n', n);
		size_t length = end ? (size_t)(end - at) : n;

		if (!end || parse_line(out, &root_version, at, length, err))
			return end ? err_prefix(err, "bad_log: line %" PRIu64, out->lines + 1)
				   : err_set(err, "bad_log: its last line is not whole");
		memcpy(out->before, out->head, HASH_HEX);
		hash_sha256(hash, at, length);
		hex_encode(out->head, hash, sizeof(hash));
		out->lines++;
		if (out->lines == seen)
			memcpy(out->at_seen, out->head, HASH_HEX);
		n -= length + 1;
		at = end + 1;
	}
	return 0;
}
