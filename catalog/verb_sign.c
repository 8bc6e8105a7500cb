/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Verbs of the signing side: init, sign, rotate, revoke. */
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/roots.h"
#include "catalog/signer.h"
#include "catalog/verbs.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

enum { DAYS = 30, TIMESTAMP_DAYS = 7, LOCAL_DAYS = 365 };

int verb_init(const struct verb_options *o)
{
	struct err err;

	if (roots_init(o->keys, o->local ? "local" : "release", &err))
		return verb_refused(&err);
	printf("made %s: root-1, root-2, root-3 (2 of 3), catalog, timestamp; keep the root keys elsewhere\n",
	       o->keys);
	return VERB_OK;
}

/* What this tree trusts: the first root document of the local keys, beside the folder of modules. */
static int trust_local(const struct verb_options *o, const char *dir, struct err *err)
{
	_cleanup_free_ char *real = realpath(dir, NULL);
	char from[4200], to[4200];
	_cleanup_close_ int dirfd = -1;
	struct buf text, old;
	int rc = -1;

	if (!real)
		return err_errno(err, "%s", dir);
	snprintf(from, sizeof(from), "%s/roots/root.1.json", o->keys);
	snprintf(to, sizeof(to), "%s/trust", dirname(real));
	buf_init(&text, CATALOG_ROOT_BYTES_MAX);
	buf_init(&old, CATALOG_ROOT_BYTES_MAX);
	if (!io_mkdir_p(to, 0755, err) && !io_read_file(from, &text, err)) {
		dirfd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = 0;
		if (io_read_file_at(dirfd, "root.json", &old, NULL) || old.len != text.len ||
		    memcmp(old.data, text.data, text.len))
			rc = io_write_file_atomic(dirfd, "root.json", text.data, text.len, 0644, err);
	}
	buf_free(&text);
	buf_free(&old);
	return rc;
}

static int run_signer(const struct verb_options *o, const char *const *revoke, size_t n_revoke)
{
	struct signer_options options = {
		.dir = o->argv[0],
		.keys = o->keys,
		.catalog_life_days = o->days ? o->days : o->local ? LOCAL_DAYS : DAYS,
		.timestamp_life_days = o->timestamp_days ? o->timestamp_days
				       : o->local	 ? LOCAL_DAYS
							 : TIMESTAMP_DAYS,
		.timestamp_only = o->timestamp_only,
		.revoke = revoke,
		.n_revoke = n_revoke,
	};
	struct signer_result result;
	struct err err;

	if (signer_run(&options, &result, &err))
		return verb_refused(&err);
	if (o->local && trust_local(o, o->argv[0], &err))
		return verb_refused(&err);
	if (o->json) {
		printf("{\"version\":%" PRIu64 ",\"modules\":%zu,\"left_out\":%zu,\"unchanged\":%s}\n",
		       result.version, result.modules, result.left_out, result.unchanged ? "true" : "false");
		return VERB_OK;
	}
	printf("catalog %" PRIu64 ": %zu modules%s%s\n", result.version, result.modules,
	       result.unchanged ? ", unchanged" : ", signed",
	       o->local ? " with the key made on this machine" : "");
	if (result.left_out)
		printf("%zu modules of another source or recipe were left out\n", result.left_out);
	return VERB_OK;
}

int verb_sign(const struct verb_options *o)
{
	struct err err;

	if (o->local && access(o->keys, F_OK)) {
		if (roots_init(o->keys, "local", &err))
			return verb_refused(&err);
		printf("made keys on this machine: %s\n", o->keys);
	}
	return run_signer(o, NULL, 0);
}

int verb_rotate(const struct verb_options *o)
{
	struct catalog_root root;
	struct err err;

	if (roots_rotate(o->keys, o->argv[0], &err) || roots_newest(o->keys, &root, &err))
		return verb_refused(&err);
	printf("root document %" PRIu64 " gives %s a new key; sign again to use it\n", root.version, o->argv[0]);
	return VERB_OK;
}

/* A hash as it is, or the hash of the record that DIR has for a release. */
static char *hash_of(const char *dir, const char *what, struct err *err)
{
	static const struct json_limits limits = {.bytes = 256 * 1024, .depth = 8, .values = 20000};
	_cleanup_json_ json_t *json = NULL;
	uint8_t raw[HASH_BYTES];
	const char *hash = what;
	char path[4200];
	struct buf text;

	if (!hex_decode(raw, sizeof(raw), what))
		return strdup(what);
	snprintf(path, sizeof(path), "%s/%s/record.json", dir, what);
	buf_init(&text, limits.bytes);
	if (!io_read_file(path, &text, err))
		json = json_parse(text.data, text.len, &limits, err);
	buf_free(&text);
	if (!json || json_get_str(json_object_get(json, "module"), "sha256", &hash, err))
		return NULL;
	return strdup(hash);
}

int verb_revoke(const struct verb_options *o)
{
	char *hashes[64] = {0};
	struct err err;
	size_t n = 0;
	int rc = VERB_OK;

	for (int i = 1; i < o->argc && rc == VERB_OK; i++) {
		hashes[n] = hash_of(o->argv[0], o->argv[i], &err);
		rc = hashes[n++] ? VERB_OK : verb_refused(&err);
	}
	if (rc == VERB_OK)
		rc = run_signer(o, (const char *const *)hashes, n);
	for (size_t i = 0; i < n; i++)
		free(hashes[i]);
	return rc;
}
