/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A folder of keys: made at set-up or for releases, and root documents that hand over to new keys. */
#include "catalog/roots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog/keyfile.h"
#include "lib/catalog/canon.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

enum { ROOT_LIFE_DAYS = 730, PATH_BYTES = 4096, NAMES = 5, ROOT_NAMES = 3 };

static const char *const names[NAMES] = {"root-1", "root-2", "root-3", "catalog", "timestamp"};

static int key_path(char *out, const char *keys, const char *name, const char *suffix)
{
	return snprintf(out, PATH_BYTES, "%s/%s%s", keys, name, suffix) >= PATH_BYTES ? -1 : 0;
}

int roots_local_folder(char *out, size_t room, struct err *err)
{
	const char *given = getenv("HOLDFAST_CATALOG_KEYS"), *config = getenv("XDG_CONFIG_HOME"),
		   *home = getenv("HOME");

	if (given && *given)
		snprintf(out, room, "%s", given);
	else if (config && *config == '/')
		snprintf(out, room, "%s/holdfast/keys/catalog", config);
	else if (home && *home == '/')
		snprintf(out, room, "%s/.config/holdfast/keys/catalog", home);
	else
		return err_set(err, "neither XDG_CONFIG_HOME nor HOME is set");
	return 0;
}

/* Ids in order, since a document has one text only. */
static json_t *id_list(char ids[][MINISIG_ID_TEXT], size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(ids[i]));
	return list;
}

static json_t *role_object(char ids[][MINISIG_ID_TEXT], size_t n, int threshold)
{
	return json_pack("{so si}", "keys", id_list(ids, n), "threshold", threshold);
}

/* The text of root document `version` for these five keys. */
static char *root_text(const struct minisig_key keys[NAMES], const char *channel, uint64_t version)
{
	char ids[NAMES][MINISIG_ID_TEXT], public[MINISIG_KEY_TEXT], issued[21], expires[21];
	_cleanup_json_ json_t *document = NULL;
	json_t *list = json_array();
	int64_t now_s = (int64_t)time(NULL);

	canon_time_text(issued, now_s);
	canon_time_text(expires, now_s + ROOT_LIFE_DAYS * 86400LL);
	for (size_t i = 0; i < NAMES; i++) {
		minisig_id_text(ids[i], keys[i].id);
		minisig_key_text(public, &keys[i]);
		json_array_append_new(list, json_pack("{ss ss}", "id", ids[i], "public", public));
	}
	document = json_pack("{si ss sI ss ss ss so s{so so so}}", "schema", 1, "type", "holdfast-root",
			     "version", (json_int_t)version, "channel", channel, "issued", issued, "expires",
			     expires, "keys", list, "roles", "root", role_object(ids, ROOT_NAMES, 2),
			     "catalog", role_object(ids + ROOT_NAMES, 1, 1), "timestamp",
			     role_object(ids + ROOT_NAMES + 1, 1, 1));
	return document ? canon_text(document) : NULL;
}

static int sign_root(int dirfd, const struct catalog_root *root, const char *text,
		     const struct keyfile *key, struct err *err)
{
	char file[128], comment[MINISIG_COMMENT_MAX], id[MINISIG_ID_TEXT];
	_cleanup_free_ char *sig = NULL;
	struct minisig_key public;

	keyfile_public(&public, key);
	minisig_id_text(id, public.id);
	catalog_comment(comment, "root", root->version, root->sha256_hex);
	snprintf(file, sizeof(file), "root.%" PRIu64 ".json.%s.minisig", root->version, id);
	sig = keyfile_sign(key, text, strlen(text), comment, err);
	return sig ? io_write_file_atomic(dirfd, file, sig, strlen(sig), 0644, err) : -1;
}

static int make_keys(const char *folder, struct minisig_key keys[NAMES], struct err *err)
{
	char path[PATH_BYTES];

	for (size_t i = 0; i < NAMES; i++) {
		struct keyfile *key = keyfile_new(err);
		int rc;

		if (!key)
			return -1;
		keyfile_public(&keys[i], key);
		rc = key_path(path, folder, names[i], ".key") ? -1 : keyfile_save(key, path, err);
		keyfile_free(key);
		if (rc)
			return -1;
	}
	return 0;
}

static int sign_with(const char *keys, const char *file, int dirfd, const struct catalog_root *root,
		     const char *text, struct err *err)
{
	char path[PATH_BYTES];
	struct keyfile *key;
	int rc;

	key_path(path, keys, file, "");
	key = keyfile_load(path, err);
	if (!key)
		return -1;
	rc = sign_root(dirfd, root, text, key, err);
	keyfile_free(key);
	return rc;
}

static int fill_folder(const char *folder, const char *channel, struct err *err)
{
	struct minisig_key keys[NAMES];
	_cleanup_close_ int dirfd = -1;
	_cleanup_free_ char *text = NULL;
	struct catalog_root root;
	char path[PATH_BYTES];

	key_path(path, folder, "roots", "");
	if (make_keys(folder, keys, err) || mkdir(path, 0755))
		return err_prefix(err, "%s", folder);
	dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	text = root_text(keys, channel, 1);
	if (dirfd < 0 || !text || catalog_root_parse(&root, text, strlen(text), err))
		return err_prefix(err, "%s", path);
	if (sign_with(folder, "root-1.key", dirfd, &root, text, err) ||
	    sign_with(folder, "root-2.key", dirfd, &root, text, err))
		return -1;
	return io_write_file_atomic(dirfd, "root.1.json", text, strlen(text), 0644, err);
}

int roots_init(const char *keys, const char *channel, struct err *err)
{
	char folder[PATH_BYTES], parent[PATH_BYTES];
	char *slash;

	if (!access(keys, F_OK))
		return err_set(err, "%s is there already; keys are never replaced", keys);
	snprintf(parent, sizeof(parent), "%s", keys);
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		if (io_mkdir_p(parent, 0700, err))
			return -1;
	}
	snprintf(folder, sizeof(folder), "%s.XXXXXX", keys);
	if (!mkdtemp(folder))
		return err_errno(err, "%s", folder);
	if (!fill_folder(folder, channel, err) && !rename(folder, keys))
		return 0;
	io_remove_tree(AT_FDCWD, folder, NULL);
	return err_prefix(err, "keys not made");
}

static int open_roots(const char *keys, struct err *err)
{
	char path[PATH_BYTES];
	int fd;

	key_path(path, keys, "roots", "");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "%s", path) : fd;
}

int roots_newest(const char *keys, struct catalog_root *out, struct err *err)
{
	_cleanup_close_ int dirfd = open_roots(keys, err);
	bool changed[CATALOG_ROLES] = {false};
	struct buf text;
	int rc = -1;

	if (dirfd < 0)
		return -1;
	buf_init(&text, CATALOG_ROOT_BYTES_MAX);
	if (!io_read_file_at(dirfd, "root.1.json", &text, err) &&
	    !catalog_root_parse(out, text.data, text.len, err))
		rc = catalog_root_walk(out, &text, dirfd, changed, err);
	buf_free(&text);
	return rc;
}

/* The five public keys of the folder, with NAME.key.new in place of NAME.key where it is there. */
static int current_keys(const char *keys, const char *renewed, struct minisig_key out[NAMES],
			struct err *err)
{
	char path[PATH_BYTES];

	for (size_t i = 0; i < NAMES; i++) {
		struct buf text;
		char *line;
		int rc = -1;

		key_path(path, keys, names[i], !strcmp(names[i], renewed) ? ".new.pub" : ".pub");
		buf_init(&text, 4096);
		if (!io_read_file(path, &text, err)) {
			line = buf_cstr(&text) ? strchr((char *)text.data, '\n') : NULL;
			if (line) {
				line[1 + strcspn(line + 1, "\n")] = '\0';
				rc = minisig_key_parse(&out[i], line + 1, err);
			}
		}
		buf_free(&text);
		if (rc)
			return err_prefix(err, "%s", path);
	}
	return 0;
}

/* Signs with every root key of the folder, old and new; who counts is judged by the chain. */
static int sign_by_all(const char *keys, const char *renewed, int dirfd, const struct catalog_root *root,
		       const char *text, struct err *err)
{
	char file[64], path[PATH_BYTES];

	for (size_t i = 0; i < ROOT_NAMES; i++) {
		for (int new = 0; new < 2; new++) {
			snprintf(file, sizeof(file), "%s%s", names[i], new ? ".new.key" : ".key");
			key_path(path, keys, file, "");
			if ((new && strcmp(renewed, names[i])) || access(path, F_OK))
				continue;
			if (sign_with(keys, file, dirfd, root, text, err))
				return -1;
		}
	}
	return 0;
}

static int exchange(const char *keys, const char *name, uint64_t version, struct err *err)
{
	static const char *const kinds[] = {".key", ".pub"};
	char from[PATH_BYTES], to[PATH_BYTES], suffix[64];

	for (size_t i = 0; i < 2; i++) {
		snprintf(suffix, sizeof(suffix), ".%" PRIu64 ".old%s", version, i ? ".pub" : "");
		key_path(from, keys, name, kinds[i]);
		key_path(to, keys, name, suffix);
		if (rename(from, to))
			return err_errno(err, "%s", from);
		snprintf(suffix, sizeof(suffix), ".new%s", kinds[i]);
		key_path(to, keys, name, suffix);
		if (rename(to, from))
			return err_errno(err, "%s", to);
	}
	return 0;
}

static int new_key(const char *keys, const char *name, struct err *err)
{
	char path[PATH_BYTES];
	struct keyfile *key;
	int rc;

	/* Left by a rotation that was interrupted before its root document was there. */
	key_path(path, keys, name, ".new.pub");
	unlink(path);
	key_path(path, keys, name, ".new.key");
	unlink(path);
	key = keyfile_new(err);
	if (!key)
		return -1;
	rc = keyfile_save(key, path, err);
	keyfile_free(key);
	return rc;
}

int roots_rotate(const char *keys, const char *name, struct err *err)
{
	_cleanup_close_ int dirfd = open_roots(keys, err);
	_cleanup_free_ char *text = NULL;
	struct minisig_key public[NAMES];
	struct catalog_root old, next;
	char file[64];
	size_t i;

	for (i = 0; i < NAMES && strcmp(names[i], name); i++)
		;
	if (i == NAMES)
		return err_set(err, "no key is called %s", name);
	if (dirfd < 0 || roots_newest(keys, &old, err) || new_key(keys, name, err) ||
	    current_keys(keys, name, public, err))
		return -1;
	text = root_text(public, old.local ? "local" : "release", old.version + 1);
	if (!text || catalog_root_parse(&next, text, strlen(text), err) ||
	    sign_by_all(keys, name, dirfd, &next, text, err))
		return -1;
	snprintf(file, sizeof(file), "root.%" PRIu64 ".json", next.version);
	if (io_write_file_atomic(dirfd, file, text, strlen(text), 0644, err))
		return -1;
	if (roots_newest(keys, &next, err)) {
		unlinkat(dirfd, file, 0);
		return -1;
	}
	return exchange(keys, name, old.version, err);
}

int roots_copy(const char *keys, int to_dirfd, struct err *err)
{
	_cleanup_close_ int dirfd = open_roots(keys, err);
	struct dirent *item;
	DIR *dir;
	int rc = 0;

	dir = dirfd < 0 ? NULL : fdopendir(dup(dirfd));
	if (!dir)
		return -1;
	while (!rc && (item = readdir(dir))) {
		struct buf text;

		if (strncmp(item->d_name, "root.", 5))
			continue;
		buf_init(&text, CATALOG_ROOT_BYTES_MAX);
		rc = io_read_file_at(dirfd, item->d_name, &text, err) ||
		     io_write_file_atomic(to_dirfd, item->d_name, text.data, text.len, 0644, err);
		buf_free(&text);
	}
	closedir(dir);
	return rc ? -1 : 0;
}
