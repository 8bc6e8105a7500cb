/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one user of catalogs has seen: highest versions, where the log ended, which modules were good. */
#include "lib/catalog/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/catalog/canon.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define STATE_FILE "state.json"
enum { STATE_BYTES_MAX = 1 << 20 };

static int get_hash(const json_t *json, const char *key, char out[HASH_HEX], struct err *err)
{
	uint8_t raw[HASH_BYTES];
	const char *text;

	if (json_get_str(json, key, &text, err))
		return -1;
	if (*text && hex_decode(raw, sizeof(raw), text))
		return err_set(err, "\"%s\" must be a SHA-256", key);
	snprintf(out, HASH_HEX, "%s", text);
	return 0;
}

static int get_version(const json_t *json, const char *key, uint64_t *out, struct err *err)
{
	int64_t value;

	if (json_get_int(json, key, &value, err))
		return -1;
	if (value < 0)
		return err_set(err, "\"%s\" must not be negative", key);
	*out = (uint64_t)value;
	return 0;
}

static int parse(struct catalog_state *state, const json_t *json, struct err *err)
{
	static const char *const known[] = {
		"catalog_sha256", "catalog_version", "log_head", "log_lines", "root_sha256",
		"root_version",	  "schema",	     "timestamp_version", "verified", NULL};
	uint8_t raw[HASH_BYTES];
	int64_t schema;
	json_t *verified, *item;
	size_t i;

	if (json_only_keys(json, known, err) || json_get_int(json, "schema", &schema, err) ||
	    get_version(json, "root_version", &state->root_version, err) ||
	    get_version(json, "catalog_version", &state->catalog_version, err) ||
	    get_version(json, "timestamp_version", &state->timestamp_version, err) ||
	    get_version(json, "log_lines", &state->log_lines, err) ||
	    get_hash(json, "root_sha256", state->root_sha256, err) ||
	    get_hash(json, "catalog_sha256", state->catalog_sha256, err) ||
	    get_hash(json, "log_head", state->log_head, err) ||
	    json_get_array(json, "verified", &verified, err))
		return -1;
	if (schema != 1 || json_array_size(verified) > CATALOG_VERIFIED_MAX)
		return err_set(err, "not a state of schema 1");
	json_array_foreach(verified, i, item) {
		if (!json_is_string(item) || hex_decode(raw, sizeof(raw), json_string_value(item)))
			return err_set(err, "\"verified\" must hold hashes");
		if (catalog_state_add_verified(state, json_string_value(item)))
			return err_set(err, "out of memory");
	}
	return 0;
}

int catalog_state_load(struct catalog_state *state, int dirfd, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	struct buf text;
	int rc = -1;

	memset(state, 0, sizeof(*state));
	if (faccessat(dirfd, STATE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
		return 0;
	buf_init(&text, STATE_BYTES_MAX);
	if (!io_read_file_at(dirfd, STATE_FILE, &text, err)) {
		json = canon_parse(text.data, text.len, err);
		if (json)
			rc = parse(state, json, err);
	}
	buf_free(&text);
	if (rc) {
		catalog_state_free(state);
		err_prefix(err, "malformed: state of the catalog");
	}
	return rc;
}

int catalog_state_save(const struct catalog_state *state, int dirfd, struct err *err)
{
	_cleanup_json_ json_t *verified = json_array();
	_cleanup_json_ json_t *json = NULL;
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < state->n_verified; i++)
		json_array_append_new(verified, json_string(state->verified[i]));
	json = json_pack("{si sI sI sI sI ss ss ss sO}", "schema", 1, "root_version",
			 (json_int_t)state->root_version, "catalog_version",
			 (json_int_t)state->catalog_version, "timestamp_version",
			 (json_int_t)state->timestamp_version, "log_lines", (json_int_t)state->log_lines,
			 "root_sha256", state->root_sha256, "catalog_sha256", state->catalog_sha256,
			 "log_head", state->log_head, "verified", verified);
	text = json ? canon_text(json) : NULL;
	if (!text)
		return err_set(err, "no_catalog: state: out of memory");
	if (io_write_file_atomic(dirfd, STATE_FILE, text, strlen(text), 0600, err))
		return err_prefix(err, "no_catalog: state");
	return 0;
}

void catalog_state_free(struct catalog_state *state)
{
	free(state->verified);
	memset(state, 0, sizeof(*state));
}

bool catalog_state_verified(const struct catalog_state *state, const char *sha256_hex)
{
	for (size_t i = 0; i < state->n_verified; i++)
		if (!strcmp(state->verified[i], sha256_hex))
			return true;
	return false;
}

int catalog_state_add_verified(struct catalog_state *state, const char *sha256_hex)
{
	void *grown;

	if (catalog_state_verified(state, sha256_hex))
		return 0;
	if (state->n_verified == CATALOG_VERIFIED_MAX) {
		memmove(state->verified, state->verified + 1,
			(CATALOG_VERIFIED_MAX - 1) * sizeof(*state->verified));
		state->n_verified--;
	}
	grown = realloc(state->verified, (state->n_verified + 1) * sizeof(*state->verified));
	if (!grown)
		return -1;
	state->verified = grown;
	memcpy(state->verified[state->n_verified], sha256_hex, HASH_HEX);
	state->n_verified++;
	return 0;
}
