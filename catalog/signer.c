/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From unsigned records of builds to a signed catalog. */
/*
 * Theory of operation. What was signed last is kept beside the keys (KEYS/current), not read back
 * from the folder of modules: that folder belongs to the builder, who is not trusted with versions,
 * the list of revoked hashes or the log. A new set is written beside the keys first, which is the
 * moment it exists, and then to the folder of modules; a run that is killed in between is completed
 * by the next one. Both places exchange a symlink, so no reader sees half a set.
 */
#include "catalog/signer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog/keyfile.h"
#include "catalog/provenance.h"
#include "catalog/records.h"
#include "catalog/roots.h"
#include "lib/catalog/canon.h"
#include "lib/catalog/history.h"
#include "lib/catalog/internal.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

enum { PATH_BYTES = 4096, KEEP_SETS = 3 };

/* What stands in one set of metadata, besides the root documents. */
struct set {
	char *catalog, *catalog_sig, *timestamp, *timestamp_sig;
	struct buf log;
};

struct signing {
	const struct signer_options *options;
	int64_t now_s;
	int dirfd, keysfd;
	struct catalog_root root;
	struct keyfile *catalog_key, *timestamp_key;
	json_t *last; /* the catalog signed last, or NULL */
	uint64_t last_timestamp;
	int64_t last_timestamp_expires_s;
	char last_sha256[HASH_HEX];
	struct set set; /* of the last one at first, of the new one afterwards */
};

static void set_free(struct set *set)
{
	free(set->catalog);
	free(set->catalog_sig);
	free(set->timestamp);
	free(set->timestamp_sig);
	buf_free(&set->log);
}

static void sha256_text(char out[HASH_HEX], const char *text)
{
	uint8_t hash[HASH_BYTES];

	hash_sha256(hash, text, strlen(text));
	hex_encode(out, hash, sizeof(hash));
}

static void replace(char **to, char *text)
{
	free(*to);
	*to = text;
}

static char *read_text(int dirfd, const char *name, size_t max, struct err *err)
{
	struct buf text;
	char *copy = NULL;

	buf_init(&text, max + 1);
	if (!io_read_file_at(dirfd, name, &text, err) && buf_cstr(&text))
		copy = strdup((const char *)text.data);
	buf_free(&text);
	return copy;
}

static int read_last_timestamp(struct signing *s, struct err *err)
{
	_cleanup_json_ json_t *json = canon_parse(s->set.timestamp, strlen(s->set.timestamp), err);
	const char *expires;
	int64_t version;

	if (!json || json_get_int(json, "version", &version, err) ||
	    json_get_str(json, "expires", &expires, err) || canon_time(expires, &s->last_timestamp_expires_s))
		return err_prefix(err, "last timestamp");
	s->last_timestamp = (uint64_t)version;
	return 0;
}

static int read_last(struct signing *s, struct err *err)
{
	_cleanup_close_ int fd = openat(s->keysfd, "current", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct set *set = &s->set;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "last catalog");
	set->catalog = read_text(fd, "catalog.json", CANON_DOCUMENT_MAX, err);
	set->catalog_sig = read_text(fd, "catalog.json.minisig", MINISIG_FILE_MAX, err);
	set->timestamp = read_text(fd, "timestamp.json", CATALOG_ROOT_BYTES_MAX, err);
	set->timestamp_sig = read_text(fd, "timestamp.json.minisig", MINISIG_FILE_MAX, err);
	if (!set->catalog || !set->catalog_sig || !set->timestamp || !set->timestamp_sig ||
	    io_read_file_at(fd, "log.jsonl", &set->log, err))
		return err_prefix(err, "last catalog");
	sha256_text(s->last_sha256, set->catalog);
	s->last = canon_parse(set->catalog, strlen(set->catalog), err);
	return s->last ? read_last_timestamp(s, err) : err_prefix(err, "last catalog");
}

static struct keyfile *load_key(const char *keys, const char *name, struct err *err)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s.key", keys, name);
	return keyfile_load(path, err);
}

static int has_role(const struct signing *s, const struct keyfile *key, enum catalog_role role,
		    struct err *err)
{
	struct minisig_key public;

	keyfile_public(&public, key);
	for (size_t i = 0; i < s->root.n_keys; i++)
		if (s->root.roles[role].may[i] && !memcmp(&s->root.keys[i], &public, sizeof(public)))
			return 0;
	return err_set(err, "%s.key is not the key of root document %" PRIu64, catalog_role_names[role],
		       s->root.version);
}

static int open_all(struct signing *s, struct err *err)
{
	const struct signer_options *o = s->options;

	s->now_s = (int64_t)time(NULL);
	s->dirfd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dirfd < 0)
		return err_errno(err, "%s", o->dir);
	s->keysfd = open(o->keys, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->keysfd < 0)
		return err_errno(err, "%s", o->keys);
	if (flock(s->keysfd, LOCK_EX))
		return err_errno(err, "lock %s", o->keys);
	if (roots_newest(o->keys, &s->root, err))
		return -1;
	s->timestamp_key = load_key(o->keys, "timestamp", err);
	if (!s->timestamp_key || has_role(s, s->timestamp_key, CATALOG_ROLE_TIMESTAMP, err))
		return -1;
	if (!o->timestamp_only) {
		s->catalog_key = load_key(o->keys, "catalog", err);
		if (!s->catalog_key || has_role(s, s->catalog_key, CATALOG_ROLE_CATALOG, err))
			return -1;
	}
	return read_last(s, err);
}

/* ---- modules ---- */

/* Leaves a signature alone that is good already, so that a second run writes nothing. */
static int sign_module(struct signing *s, const json_t *entry, struct err *err)
{
	const json_t *module = json_object_get(entry, "module");
	const char *release = json_string_value(json_object_get(entry, "release"));
	char comment[MINISIG_COMMENT_MAX], name[CATALOG_PATH_MAX];
	_cleanup_free_ char *text = NULL, *old = NULL;
	_cleanup_close_ int fd = openat(s->dirfd, release, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct minisig sig;
	struct buf data;
	int rc = -1;

	if (fd < 0)
		return err_errno(err, "%s", release);
	snprintf(name, sizeof(name), "sentry.ko.minisig");
	snprintf(comment, sizeof(comment), "holdfast module release:%s sha256:%s", release,
		 json_string_value(json_object_get(module, "sha256")));
	if (records_module(entry, s->dirfd, &data, err))
		return -1;
	old = read_text(fd, name, MINISIG_FILE_MAX, NULL);
	if (old && !minisig_parse(&sig, old, strlen(old), NULL) && !strcmp(sig.comment, comment) &&
	    !catalog_root_check(&s->root, CATALOG_ROLE_CATALOG, &sig, data.data, data.len, NULL)) {
		rc = 0;
	} else {
		text = keyfile_sign(s->catalog_key, data.data, data.len, comment, err);
		if (text)
			rc = io_write_file_atomic(fd, name, text, strlen(text), 0644, err);
	}
	buf_free(&data);
	return rc;
}

static int write_provenance(struct signing *s, const json_t *entry, const struct records *records,
			    struct err *err)
{
	const char *release = json_string_value(json_object_get(entry, "release"));
	_cleanup_close_ int fd = openat(s->dirfd, release, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_free_ char *text = NULL, *old = NULL;

	if (fd < 0)
		return err_errno(err, "%s", release);
	text = provenance_make(entry, records->source, records->recipe_sha256, s->catalog_key, err);
	if (!text)
		return -1;
	old = read_text(fd, PROVENANCE_FILE, 1 << 20, NULL);
	if (old && !strcmp(old, text))
		return 0;
	return io_write_file_atomic(fd, PROVENANCE_FILE, text, strlen(text), 0644, err);
}

/* ---- the catalog ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Those of the last catalog and the new ones, sorted, each once. */
static json_t *revoked_list(const struct signing *s)
{
	const json_t *old = json_object_get(s->last, "revoked");
	size_t n = json_array_size(old), total = n + s->options->n_revoke;
	const char **all = calloc(total + 1, sizeof(*all));
	json_t *list = json_array();

	if (!all)
		return list;
	for (size_t i = 0; i < total; i++)
		all[i] = i < n ? json_string_value(json_array_get(old, i)) : s->options->revoke[i - n];
	qsort(all, total, sizeof(*all), by_text);
	for (size_t i = 0; i < total; i++)
		if (!i || strcmp(all[i - 1], all[i]))
			json_array_append_new(list, json_string(all[i]));
	free(all);
	return list;
}

static int log_head(const struct buf *log, char out[HASH_HEX], struct err *err)
{
	struct catalog_history history;

	if (catalog_history_parse(&history, log->data, log->len, 0, err))
		return -1;
	memcpy(out, history.head, HASH_HEX);
	return 0;
}

static bool same_but_for_dates(const json_t *a, const json_t *b)
{
	static const char *const members[] = {"entries", "recipe_sha256", "revoked", "root_version", NULL};
	const json_t *tree_a = json_object_get(json_object_get(a, "source"), "tree_sha256");
	const json_t *tree_b = json_object_get(json_object_get(b, "source"), "tree_sha256");

	for (size_t i = 0; members[i]; i++)
		if (!json_equal(json_object_get(a, members[i]), json_object_get(b, members[i])))
			return false;
	/* Another commit of the same files is the same source. */
	return json_equal(tree_a, tree_b);
}

/* Half its life is left, so it need not be signed again for its date alone. */
static bool fresh(const json_t *document, int64_t now_s, int64_t life_days)
{
	const char *expires = json_string_value(json_object_get(document, "expires"));
	int64_t expires_s;

	return expires && !canon_time(expires, &expires_s) && expires_s - now_s > life_days * 43200;
}

static int append_log(struct signing *s, uint64_t version, const char *head, const char *issued,
		      const char *sha256, struct err *err)
{
	_cleanup_json_ json_t *line = json_pack("{ss ss ss sI sI}", "catalog_sha256", sha256, "issued", issued,
						"previous", head, "root_version",
						(json_int_t)s->root.version, "version", (json_int_t)version);
	_cleanup_free_ char *text = line ? json_text(line) : NULL;

	if (!text || buf_put(&s->set.log, text, strlen(text)) || buf_put(&s->set.log, "\n", 1))
		return err_set(err, "the log is full");
	return 0;
}

static int put_catalog(struct signing *s, json_t *document, uint64_t version, const char *head,
		       const char *issued, struct err *err)
{
	char comment[MINISIG_COMMENT_MAX], sha256[HASH_HEX];
	struct catalog_document parsed;
	char *text = canon_text(document);
	int rc;

	if (!text)
		return err_set(err, "the catalog is too long");
	replace(&s->set.catalog, text);
	/* What is signed must be what the reader accepts. */
	rc = catalog_document_parse(&parsed, text, strlen(text), err);
	catalog_document_free(&parsed);
	if (rc)
		return -1;
	sha256_text(sha256, text);
	catalog_comment(comment, "catalog", version, sha256);
	replace(&s->set.catalog_sig, keyfile_sign(s->catalog_key, text, strlen(text), comment, err));
	snprintf(s->last_sha256, sizeof(s->last_sha256), "%s", sha256);
	return s->set.catalog_sig ? append_log(s, version, head, issued, sha256, err) : -1;
}

/* 1 when the last catalog says the same and is fresh; 0 when a new one was made. */
static int make_catalog(struct signing *s, const struct records *records, uint64_t *version,
			struct err *err)
{
	char issued[21], expires[21], head[HASH_HEX];
	int64_t life = s->options->catalog_life_days, last_version = 0;
	_cleanup_json_ json_t *document = NULL;

	if (s->last && json_get_int(s->last, "version", &last_version, err))
		return -1;
	if (log_head(&s->set.log, head, err))
		return -1;
	canon_time_text(issued, s->now_s);
	canon_time_text(expires, s->now_s + life * 86400);
	document = json_pack("{si ss sI sI ss ss ss so sO sO ss}", "schema", 1, "type", "holdfast-catalog",
			     "version", (json_int_t)last_version + 1, "root_version",
			     (json_int_t)s->root.version, "issued", issued, "expires", expires, "log_head", head,
			     "revoked", revoked_list(s), "entries", records->entries, "source",
			     records->source, "recipe_sha256", records->recipe_sha256);
	if (!document)
		return err_set(err, "out of memory");
	*version = (uint64_t)last_version;
	if (s->last && same_but_for_dates(s->last, document) && fresh(s->last, s->now_s, life))
		return 1;
	*version = (uint64_t)last_version + 1;
	return put_catalog(s, document, *version, head, issued, err);
}

static int make_timestamp(struct signing *s, uint64_t catalog_version, struct err *err)
{
	char issued[21], expires[21], comment[MINISIG_COMMENT_MAX], sha256[HASH_HEX];
	uint64_t version = s->last_timestamp + 1;
	_cleanup_json_ json_t *document = NULL;
	char *text;

	canon_time_text(issued, s->now_s);
	canon_time_text(expires, s->now_s + s->options->timestamp_life_days * 86400);
	document = json_pack("{si ss sI ss ss s{ss sI sI}}", "schema", 1, "type", "holdfast-timestamp",
			     "version", (json_int_t)version, "issued", issued, "expires", expires, "catalog",
			     "sha256", s->last_sha256, "size", (json_int_t)strlen(s->set.catalog), "version",
			     (json_int_t)catalog_version);
	text = document ? canon_text(document) : NULL;
	if (!text)
		return err_set(err, "out of memory");
	replace(&s->set.timestamp, text);
	sha256_text(sha256, text);
	catalog_comment(comment, "timestamp", version, sha256);
	replace(&s->set.timestamp_sig, keyfile_sign(s->timestamp_key, text, strlen(text), comment, err));
	s->last_timestamp = version;
	return s->set.timestamp_sig ? 0 : -1;
}

/* ---- writing a set ---- */

static int write_set(const struct signing *s, int fd, struct err *err)
{
	const struct set *set = &s->set;
	const struct {
		const char *name, *text;
	} files[] = {{"catalog.json", set->catalog},
		     {"catalog.json.minisig", set->catalog_sig},
		     {"timestamp.json", set->timestamp},
		     {"timestamp.json.minisig", set->timestamp_sig}};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (io_write_file_atomic(fd, files[i].name, files[i].text, strlen(files[i].text), 0644, err))
			return -1;
	return roots_copy(s->options->keys, fd, err) ||
			       io_write_file_atomic(fd, "log.jsonl", set->log.data, set->log.len, 0644, err)
		       ? -1
		       : 0;
}

static void prune(int basefd, uint64_t newest)
{
	DIR *dir = fdopendir(openat(basefd, "meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *item;
	char path[300];

	while (dir && (item = readdir(dir))) {
		if (item->d_name[0] == '.' || strtoull(item->d_name, NULL, 10) + KEEP_SETS > newest)
			continue;
		snprintf(path, sizeof(path), "meta/%s", item->d_name);
		io_remove_tree(basefd, path, NULL);
	}
	if (dir)
		closedir(dir);
}

/* Puts the set at BASE/meta/N, whole, and lets BASE/current name it. */
static int publish(const struct signing *s, int basefd, struct err *err)
{
	char final[64];
	_cleanup_close_ int fd = -1;

	snprintf(final, sizeof(final), "meta/%" PRIu64, s->last_timestamp);
	if (mkdirat(basefd, "meta", 0755) && errno != EEXIST)
		return err_errno(err, "meta");
	if (io_remove_tree(basefd, "meta/.new", err) || mkdirat(basefd, "meta/.new", 0755))
		return err_prefix(err, "meta/.new");
	fd = openat(basefd, "meta/.new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || write_set(s, fd, err))
		return err_prefix(err, "meta/.new");
	if (io_remove_tree(basefd, final, err))
		return -1;
	unlinkat(basefd, "current.new", 0);
	if (renameat(basefd, "meta/.new", basefd, final) || symlinkat(final, basefd, "current.new") ||
	    renameat(basefd, "current.new", basefd, "current") || fsync(basefd))
		return err_errno(err, "%s", final);
	prune(basefd, s->last_timestamp);
	return 0;
}

/* The folder of modules shows the set that was signed last. */
static bool published(const struct signing *s)
{
	_cleanup_free_ char *text = NULL;

	text = read_text(s->dirfd, "current/timestamp.json", CATALOG_ROOT_BYTES_MAX, NULL);
	return text && s->set.timestamp && !strcmp(text, s->set.timestamp);
}

static int run(struct signing *s, struct records *records, struct signer_result *result,
	       struct err *err)
{
	const struct signer_options *o = s->options;
	int64_t version_last = 0;
	uint64_t version = 0;
	json_t *entry;
	size_t i;
	int same = 1;

	if (o->timestamp_only) {
		if (!s->last || json_get_int(s->last, "version", &version_last, err))
			return err_set(err, "no catalog was signed yet");
		version = (uint64_t)version_last;
		result->modules = json_array_size(json_object_get(s->last, "entries"));
	} else {
		if (records_read(records, s->dirfd, err))
			return -1;
		json_array_foreach(records->entries, i, entry)
			if (sign_module(s, entry, err) || write_provenance(s, entry, records, err))
				return -1;
		same = make_catalog(s, records, &version, err);
		if (same < 0)
			return -1;
		result->modules = json_array_size(records->entries);
		result->left_out = records->left_out;
	}
	result->version = version;
	result->unchanged = same && !o->timestamp_only &&
			    s->last_timestamp_expires_s - s->now_s > o->timestamp_life_days * 43200;
	if (!result->unchanged && (make_timestamp(s, version, err) || publish(s, s->keysfd, err)))
		return -1;
	return published(s) ? 0 : publish(s, s->dirfd, err);
}

int signer_run(const struct signer_options *options, struct signer_result *result, struct err *err)
{
	struct signing s = {.options = options, .dirfd = -1, .keysfd = -1};
	struct records records = {0};
	int rc;

	memset(result, 0, sizeof(*result));
	buf_init(&s.set.log, CATALOG_LOG_BYTES_MAX);
	rc = open_all(&s, err);
	if (!rc)
		rc = run(&s, &records, result, err);
	records_free(&records);
	json_decref(s.last);
	set_free(&s.set);
	keyfile_free(s.catalog_key);
	keyfile_free(s.timestamp_key);
	if (s.dirfd >= 0)
		close(s.dirfd);
	if (s.keysfd >= 0)
		close(s.keysfd);
	return rc;
}
