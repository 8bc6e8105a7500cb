/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The signed catalog as its users see it: open with every check, pick by exact kernel release. */
/*
 * Theory of operation. DIR/current is a symlink to one complete set of metadata, exchanged as a
 * whole, so a reader that opened it never sees two versions mixed. In it:
 *   root.N.json + root.N.json.KEYID.minisig   every root document since the first
 *   timestamp.json + .minisig                 short-lived: which catalog is the current one
 *   catalog.json + .minisig                   the modules
 *   log.jsonl                                 one line for each catalog there ever was
 * The reader walks from the root it trusts to the newest one, then checks timestamp, catalog and
 * log against it and against what it has seen (state.json). Only then does it remember the new
 * versions. The folder is written by whoever builds modules and is not trusted for anything.
 */
#include "lib/catalog/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/catalog/canon.h"
#include "lib/catalog/history.h"
#include "lib/catalog/internal.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

struct timestamp {
	uint64_t version;
	int64_t expires_s;
	char expires[24];
	uint64_t catalog_version;
	uint64_t catalog_size;
	char catalog_sha256[HASH_HEX];
};

static int open_how(int dirfd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};

	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

int catalog_open_beneath(int dirfd, const char *path, struct err *err)
{
	int fd;

	if (catalog_path_check(path, err))
		return -1;
	fd = open_how(dirfd, path, O_RDONLY | O_NONBLOCK, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0 && (errno == ELOOP || errno == EXDEV))
		return err_set(err, "bad_path: \"%s\" goes through a symlink", path);
	return fd < 0 ? err_errno(err, "no_catalog: %s", path) : fd;
}

int catalog_read_file(int metafd, const char *name, size_t max, struct buf *out, struct err *err)
{
	buf_init(out, max);
	if (!io_read_file_at(metafd, name, out, err))
		return 0;
	buf_free(out);
	return err_prefix(err, "no_catalog");
}

int catalog_state_lock(int statefd, struct err *err)
{
	int fd = openat(statefd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX)) {
		if (fd >= 0)
			close(fd);
		return err_errno(err, "no_catalog: lock of the state");
	}
	return fd;
}

/* The root this user trusts: the one in its state, or the one it was installed with. */
static int trusted_root(struct catalog *catalog, const char *installed, struct err *err)
{
	struct buf *text = &catalog->root_text;
	char name[64];

	buf_init(text, CATALOG_ROOT_BYTES_MAX);
	if (!catalog->state.root_version) {
		if (!installed || io_read_file(installed, text, err))
			return installed ? err_prefix(err, "no_root")
					 : err_set(err, "no_root: no trusted root document is given");
		return catalog_root_parse(&catalog->root, text->data, text->len, err);
	}
	snprintf(name, sizeof(name), "root.json");
	if (io_read_file_at(catalog->statefd, name, text, err))
		return err_prefix(err, "no_root");
	if (catalog_root_parse(&catalog->root, text->data, text->len, err))
		return -1;
	if (strcmp(catalog->root.sha256_hex, catalog->state.root_sha256))
		return err_set(err, "no_root: the root document of the state was changed");
	return 0;
}

/*
 * Reads NAME and NAME.minisig and verifies the signature by the role before anything parses the
 * text. On 0 *out is the caller's to free and *sig holds the comment that was signed with it.
 */
static int read_signed(const struct catalog *catalog, int metafd, const char *name, size_t max,
		       enum catalog_role role, struct buf *out, struct minisig *sig, struct err *err)
{
	char sig_name[64];
	struct buf text;
	int rc;

	snprintf(sig_name, sizeof(sig_name), "%s.minisig", name);
	if (catalog_read_file(metafd, sig_name, MINISIG_FILE_MAX, &text, err))
		return -1;
	rc = minisig_parse(sig, text.data, text.len, err);
	buf_free(&text);
	if (rc)
		return err_prefix(err, "malformed: %s", sig_name);
	if (catalog_read_file(metafd, name, max, out, err))
		return -1;
	if (!catalog_root_check(&catalog->root, role, sig, out->data, out->len, err))
		return 0;
	buf_free(out);
	return -1;
}

static void hash_text(char out[HASH_HEX], const struct buf *text)
{
	uint8_t hash[HASH_BYTES];

	hash_sha256(hash, text->data, text->len);
	hex_encode(out, hash, sizeof(hash));
}

static int parse_timestamp(struct timestamp *out, const struct buf *text, struct err *err)
{
	static const char *const known[] = {"catalog", "expires", "issued", "schema",
					    "type",    "version", NULL};
	static const char *const catalog_known[] = {"sha256", "size", "version", NULL};
	_cleanup_json_ json_t *json = canon_parse(text->data, text->len, err);
	int64_t schema, version, size, catalog_version, issued_s;
	const char *expires, *issued, *sha256, *type;
	uint8_t raw[HASH_BYTES];
	json_t *inner;

	if (!json || json_only_keys(json, known, err) || json_get_str(json, "type", &type, err) ||
	    json_get_int(json, "schema", &schema, err) || json_get_int(json, "version", &version, err) ||
	    json_get_str(json, "expires", &expires, err) || json_get_str(json, "issued", &issued, err) ||
	    json_get_object(json, "catalog", &inner, err) || json_only_keys(inner, catalog_known, err) ||
	    json_get_str(inner, "sha256", &sha256, err) || json_get_int(inner, "size", &size, err) ||
	    json_get_int(inner, "version", &catalog_version, err))
		return -1;
	if (strcmp(type, "holdfast-timestamp") || schema != 1 || version < 1 || catalog_version < 1 ||
	    size < 1 || hex_decode(raw, sizeof(raw), sha256) || canon_time(issued, &issued_s) ||
	    canon_time(expires, &out->expires_s))
		return err_set(err, "not a timestamp of schema 1");
	out->version = (uint64_t)version;
	out->catalog_version = (uint64_t)catalog_version;
	out->catalog_size = (uint64_t)size;
	snprintf(out->expires, sizeof(out->expires), "%s", expires);
	snprintf(out->catalog_sha256, sizeof(out->catalog_sha256), "%s", sha256);
	return 0;
}

static int read_timestamp(struct catalog *catalog, int metafd, struct timestamp *out, struct err *err)
{
	char comment[MINISIG_COMMENT_MAX], sha256_hex[HASH_HEX];
	struct minisig sig;
	struct buf text;
	int rc;

	if (read_signed(catalog, metafd, "timestamp.json", CATALOG_ROOT_BYTES_MAX,
			CATALOG_ROLE_TIMESTAMP, &text, &sig, err))
		return -1;
	hash_text(sha256_hex, &text);
	rc = parse_timestamp(out, &text, err);
	buf_free(&text);
	if (rc)
		return err_prefix(err, "malformed: timestamp");
	catalog_comment(comment, "timestamp", out->version, sha256_hex);
	if (catalog_comment_check(&sig, comment, err))
		return -1;
	if (out->version < catalog->state.timestamp_version)
		return err_set(err, "rollback: timestamp %" PRIu64 " is older than %" PRIu64 ", seen before",
			       out->version, catalog->state.timestamp_version);
	catalog->state.timestamp_version = out->version;
	return 0;
}

static int check_version(struct catalog *catalog, struct err *err)
{
	struct catalog_state *state = &catalog->state;
	const struct catalog_info *info = &catalog->doc.info;

	if (info->version < state->catalog_version)
		return err_set(err, "rollback: catalog %" PRIu64 " is older than %" PRIu64 ", seen before",
			       info->version, state->catalog_version);
	if (info->version == state->catalog_version && strcmp(info->sha256_hex, state->catalog_sha256))
		return err_set(err, "rollback: catalog %" PRIu64 " was seen before with another content",
			       info->version);
	if (info->root_version > catalog->root.version)
		return err_set(err, "malformed: catalog is for root %" PRIu64 ", the newest is %" PRIu64,
			       info->root_version, catalog->root.version);
	state->catalog_version = info->version;
	snprintf(state->catalog_sha256, sizeof(state->catalog_sha256), "%s", info->sha256_hex);
	return 0;
}

static int read_catalog(struct catalog *catalog, int metafd, const struct timestamp *timestamp,
			struct err *err)
{
	char comment[MINISIG_COMMENT_MAX], sha256_hex[HASH_HEX];
	struct minisig sig;
	struct buf text;
	int rc = -1;

	if (read_signed(catalog, metafd, "catalog.json", CANON_DOCUMENT_MAX, CATALOG_ROLE_CATALOG, &text,
			&sig, err))
		return -1;
	hash_text(sha256_hex, &text);
	if (text.len != timestamp->catalog_size)
		err_set(err, "bad_size: catalog of %zu bytes, the timestamp says %" PRIu64, text.len,
			timestamp->catalog_size);
	else if (strcmp(sha256_hex, timestamp->catalog_sha256))
		err_set(err, "bad_hash: the catalog is not the one that the timestamp names");
	else
		rc = catalog_document_parse(&catalog->doc, text.data, text.len, err);
	buf_free(&text);
	if (rc)
		return -1;
	catalog_comment(comment, "catalog", catalog->doc.info.version, sha256_hex);
	if (catalog_comment_check(&sig, comment, err))
		return -1;
	if (catalog->doc.info.version != timestamp->catalog_version)
		return err_set(err, "malformed: the timestamp names catalog %" PRIu64,
			       timestamp->catalog_version);
	return check_version(catalog, err);
}

static int read_history(struct catalog *catalog, int metafd, struct err *err)
{
	struct catalog_state *state = &catalog->state;
	struct catalog_history history;
	struct buf text;
	int rc;

	if (catalog_read_file(metafd, "log.jsonl", CATALOG_LOG_BYTES_MAX, &text, err))
		return -1;
	rc = catalog_history_parse(&history, text.data, text.len, state->log_lines, err);
	buf_free(&text);
	if (rc)
		return -1;
	if (strcmp(history.catalog, catalog->doc.info.sha256_hex) ||
	    strcmp(history.before, catalog->doc.log_head))
		return err_set(err, "bad_log: it does not end in this catalog");
	if (state->log_lines && strcmp(history.at_seen, state->log_head))
		return err_set(err, "bad_log: line %" PRIu64 " is not the one seen before", state->log_lines);
	state->log_lines = history.lines;
	snprintf(state->log_head, sizeof(state->log_head), "%s", history.head);
	return 0;
}

/*
 * New keys of a role end what the old ones said: an attacker who held them may have pushed the
 * version so far up that no honest one could follow (fast-forward).
 */
static void forget_versions(struct catalog_state *state, const bool changed[CATALOG_ROLES])
{
	if (changed[CATALOG_ROLE_TIMESTAMP])
		state->timestamp_version = 0;
	if (changed[CATALOG_ROLE_CATALOG]) {
		state->timestamp_version = 0;
		state->catalog_version = 0;
		state->log_lines = 0;
	}
}

static void judge_expiry(struct catalog *catalog, const struct timestamp *timestamp)
{
	struct catalog_info *info = &catalog->doc.info;
	int64_t ends_s = catalog->doc.expires_s;

	if (timestamp->expires_s < ends_s)
		ends_s = timestamp->expires_s;
	if (catalog->root.expires_s < ends_s)
		ends_s = catalog->root.expires_s;
	canon_time_text(info->expires, ends_s);
	info->expired = catalog->now_s >= ends_s;
	info->local = catalog->root.local;
	info->root_version = catalog->root.version;
}

static int remember(struct catalog *catalog, struct err *err)
{
	struct catalog_state *state = &catalog->state;

	state->root_version = catalog->root.version;
	snprintf(state->root_sha256, sizeof(state->root_sha256), "%s", catalog->root.sha256_hex);
	if (catalog->statefd < 0)
		return 0;
	/* The root first: a state that names a root which is not there yet would not open again. */
	if (io_write_file_atomic(catalog->statefd, "root.json", catalog->root_text.data,
				 catalog->root_text.len, 0600, err))
		return err_prefix(err, "no_catalog: state");
	return catalog_state_save(state, catalog->statefd, err);
}

static int open_state(struct catalog *catalog, const char *state_dir, struct err *err)
{
	catalog->statefd = -1;
	if (!state_dir)
		return 0;
	if (io_mkdir_p(state_dir, 0700, err))
		return err_prefix(err, "no_catalog: state");
	catalog->statefd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return catalog->statefd < 0 ? err_errno(err, "no_catalog: %s", state_dir) : 0;
}

/* `current` is the one symlink that is followed, and it may not leave the folder. */
static int open_folders(struct catalog *catalog, const char *dir, struct err *err)
{
	int metafd;

	catalog->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (catalog->dirfd < 0)
		return err_errno(err, "no_catalog: %s", dir);
	metafd = open_how(catalog->dirfd, "current", O_RDONLY | O_DIRECTORY, RESOLVE_BENEATH);
	if (metafd < 0 && errno == EXDEV)
		return err_set(err, "bad_path: %s/current leaves the folder of modules", dir);
	return metafd < 0 ? err_errno(err, "no_catalog: %s/current", dir) : metafd;
}

static int open_all(struct catalog *catalog, const struct catalog_config *config, struct err *err)
{
	_cleanup_close_ int lock = -1, metafd = -1;
	bool changed[CATALOG_ROLES] = {false};
	struct timestamp timestamp;

	metafd = open_folders(catalog, config->dir, err);
	if (metafd < 0 || open_state(catalog, config->state_dir, err))
		return -1;
	if (catalog->statefd >= 0) {
		lock = catalog_state_lock(catalog->statefd, err);
		if (lock < 0 || catalog_state_load(&catalog->state, catalog->statefd, err))
			return -1;
	}
	if (trusted_root(catalog, config->root, err) ||
	    catalog_root_walk(&catalog->root, &catalog->root_text, metafd, changed, err))
		return -1;
	forget_versions(&catalog->state, changed);
	if (read_timestamp(catalog, metafd, &timestamp, err) ||
	    read_catalog(catalog, metafd, &timestamp, err) || read_history(catalog, metafd, err))
		return -1;
	judge_expiry(catalog, &timestamp);
	return remember(catalog, err);
}

struct catalog *catalog_open(const struct catalog_config *config, struct err *err)
{
	struct catalog *catalog = calloc(1, sizeof(*catalog));

	if (!catalog || sodium_init() < 0) {
		free(catalog);
		err_set(err, "no_catalog: out of memory");
		return NULL;
	}
	catalog->dirfd = -1;
	catalog->statefd = -1;
	catalog->now_s = config->now_s ? config->now_s : (int64_t)time(NULL);
	if (!open_all(catalog, config, err))
		return catalog;
	catalog_free(catalog);
	return NULL;
}

void catalog_free(struct catalog *catalog)
{
	if (!catalog)
		return;
	if (catalog->dirfd >= 0)
		close(catalog->dirfd);
	if (catalog->statefd >= 0)
		close(catalog->statefd);
	buf_free(&catalog->root_text);
	catalog_document_free(&catalog->doc);
	catalog_state_free(&catalog->state);
	free(catalog);
}

const struct catalog_info *catalog_about(const struct catalog *catalog)
{
	return &catalog->doc.info;
}

const struct catalog_module *catalog_module_at(const struct catalog *catalog, size_t index)
{
	return index < catalog->doc.info.modules ? &catalog->doc.modules[index] : NULL;
}

static int by_release(const void *release, const void *module)
{
	return strcmp(release, ((const struct catalog_module *)module)->release);
}

int catalog_pick(const struct catalog *catalog, const char *release,
		 const struct catalog_module **out, struct err *err)
{
	const struct catalog_module *module = bsearch(release, catalog->doc.modules, catalog->doc.info.modules,
						      sizeof(*module), by_release);

	if (!module)
		return 1;
	if (module->revoked)
		return err_set(err, "revoked: the module for %s (%.16s) was revoked", release,
			       module->sha256_hex);
	if (catalog->doc.info.expired && !catalog_state_verified(&catalog->state, module->sha256_hex))
		return err_set(err, "expired: the catalog ended on %s and the module for %s is new here",
			       catalog->doc.info.expires, release);
	*out = module;
	return 0;
}
