/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unsigned records of builds: read, checked against the files, turned into catalog entries. */
#include "catalog/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/catalog/entries.h"
#include "lib/catalog/internal.h"
#include "lib/catalog/modinfo.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

enum { RECORD_MAX = 256 * 1024 };

static const struct json_limits limits = {.bytes = RECORD_MAX, .depth = 8, .values = 20000};

struct candidate {
	char release[CATALOG_RELEASE_MAX];
	struct timespec written;
	json_t *record;
};

struct candidates {
	struct candidate *items;
	size_t n;
};

static json_t *read_json_at(int dirfd, const char *path, struct err *err)
{
	json_t *json = NULL;
	struct buf text;

	buf_init(&text, RECORD_MAX);
	if (!io_read_file_at(dirfd, path, &text, err))
		json = json_parse(text.data, text.len, &limits, err);
	buf_free(&text);
	return json;
}

static int add_candidate(struct candidates *all, int dirfd, const char *release, struct err *err)
{
	char path[CATALOG_PATH_MAX + 64];
	struct candidate *grown;
	struct stat st;
	json_t *record;

	snprintf(path, sizeof(path), "%s/record.json", release);
	if (strlen(release) >= CATALOG_RELEASE_MAX || fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	record = read_json_at(dirfd, path, err);
	if (!record)
		return -1;
	grown = realloc(all->items, (all->n + 1) * sizeof(*grown));
	if (!grown) {
		json_decref(record);
		return err_set(err, "out of memory");
	}
	all->items = grown;
	grown[all->n].record = record;
	grown[all->n].written = st.st_mtim;
	snprintf(grown[all->n].release, sizeof(grown->release), "%s", release);
	all->n++;
	return 0;
}

static int by_release(const void *a, const void *b)
{
	return strcmp(((const struct candidate *)a)->release, ((const struct candidate *)b)->release);
}

static int find_candidates(struct candidates *all, int dirfd, struct err *err)
{
	DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *item;
	int rc = 0;

	if (!dir)
		return err_errno(err, "folder of modules");
	while (!rc && (item = readdir(dir)))
		if (item->d_name[0] != '.' && !catalog_path_check(item->d_name, NULL))
			rc = add_candidate(all, dirfd, item->d_name, err);
	closedir(dir);
	if (all->n)
		qsort(all->items, all->n, sizeof(*all->items), by_release);
	return rc;
}

static const struct candidate *newest(const struct candidates *all)
{
	const struct candidate *found = all->items;

	for (size_t i = 1; i < all->n; i++)
		if (all->items[i].written.tv_sec > found->written.tv_sec ||
		    (all->items[i].written.tv_sec == found->written.tv_sec &&
		     all->items[i].written.tv_nsec > found->written.tv_nsec))
			found = &all->items[i];
	return found;
}

/* The two-hash rule: at least two builds, each with the hash of the module, under unlike conditions. */
static int check_builds(const json_t *record, const char *sha256, struct err *err)
{
	json_t *builds, *build;
	const char *hash;
	size_t i;

	if (json_get_array(record, "builds", &builds, err))
		return -1;
	if (json_array_size(builds) < 2)
		return err_set(err, "built %zu times, twice is needed", json_array_size(builds));
	json_array_foreach(builds, i, build) {
		if (json_get_str(build, "sha256", &hash, err))
			return -1;
		if (strcmp(hash, sha256))
			return err_set(err, "build %zu gave %.16s, the module is %.16s", i, hash, sha256);
		if (i && json_equal(json_object_get(build, "conditions"),
				    json_object_get(json_array_get(builds, 0), "conditions")))
			return err_set(err, "build %zu was made under the same conditions as the first", i);
	}
	return 0;
}

static int check_static(const json_t *record, struct err *err)
{
	json_t *checks, *value;
	const char *key;

	if (json_get_object(record, "checks", &checks, err))
		return -1;
	if (!json_object_size(checks))
		return err_set(err, "no static check was made");
	json_object_foreach(checks, key, value)
		if (!json_is_string(value) || strcmp(json_string_value(value), "ok"))
			return err_set(err, "check %s: %.200s", key,
				       json_is_string(value) ? json_string_value(value) : "no text");
	return 0;
}

static json_t *builds_of(const json_t *record)
{
	json_t *list = json_array(), *build;
	size_t i;

	json_array_foreach(json_object_get(record, "builds"), i, build)
		json_array_append_new(list, json_pack("{sO sO sO sO sO}", "builder",
						      json_object_get(build, "builder"), "name",
						      json_object_get(build, "name"), "conditions",
						      json_object_get(build, "conditions"), "sha256",
						      json_object_get(build, "sha256"), "raw_sha256",
						      json_object_get(build, "raw_sha256")));
	return list;
}

/* DIR/RELEASE/loadtest.json, when it is about this very module. */
static json_t *load_test_of(int dirfd, const char *release, const char *sha256)
{
	char path[CATALOG_PATH_MAX + 64];
	_cleanup_json_ json_t *test = NULL;
	const char *about;
	json_t *copy;

	snprintf(path, sizeof(path), "%s/loadtest.json", release);
	test = read_json_at(dirfd, path, NULL);
	if (!test || json_get_str(test, "sha256", &about, NULL) || strcmp(about, sha256))
		return json_null();
	copy = json_copy(test);
	json_object_del(copy, "sha256");
	return copy;
}

static json_t *entry_of(const struct candidate *one, int dirfd, struct err *err)
{
	char path[CATALOG_PATH_MAX + 64];
	json_t *module, *copy, *entry;
	const char *release, *sha256;

	if (json_get_str(one->record, "release", &release, err) ||
	    json_get_object(one->record, "module", &module, err) ||
	    json_get_str(module, "sha256", &sha256, err) || check_builds(one->record, sha256, err) ||
	    check_static(one->record, err))
		return NULL;
	if (strcmp(release, one->release)) {
		err_set(err, "its record is about %.64s", release);
		return NULL;
	}
	snprintf(path, sizeof(path), "%s/sentry.ko", release);
	copy = json_copy(module);
	json_object_set_new(copy, "path", json_string(path));
	entry = json_pack("{sO sO sO so sO sO sO so so}", "release", json_object_get(one->record, "release"),
			  "flavour", json_object_get(one->record, "flavour"), "suite",
			  json_object_get(one->record, "suite"), "module", copy, "headers",
			  json_object_get(one->record, "headers"), "inrelease_sha256",
			  json_object_get(one->record, "inrelease_sha256"), "toolchain",
			  json_object_get(one->record, "toolchain"), "builds", builds_of(one->record),
			  "load_tested", load_test_of(dirfd, release, sha256));
	if (!entry)
		err_set(err, "its record lacks a member");
	return entry;
}

int records_module(const json_t *entry, int dirfd, struct buf *out, struct err *err)
{
	const json_t *module = json_object_get(entry, "module");
	const char *path = json_string_value(json_object_get(module, "path"));
	char have[HASH_HEX];
	uint8_t hash[HASH_BYTES];
	int64_t size;
	_cleanup_close_ int fd = -1;
	struct stat st;
	uint8_t *to;

	if (!path || json_get_int(module, "size", &size, err))
		return -1;
	fd = catalog_open_beneath(dirfd, path, err);
	if (fd < 0 || fstat(fd, &st))
		return -1;
	if (!S_ISREG(st.st_mode) || st.st_size != size || size > CATALOG_MODULE_BYTES_MAX)
		return err_set(err, "%s has not the size that its record says", path);
	buf_init(out, CATALOG_MODULE_BYTES_MAX + 1);
	to = buf_room(out, (size_t)size);
	if (!to || io_read_all(fd, to, (size_t)size)) {
		buf_free(out);
		return err_set(err, "%s cannot be read", path);
	}
	out->len = (size_t)size;
	hash_sha256(hash, out->data, out->len);
	hex_encode(have, hash, sizeof(hash));
	if (!strcmp(have, json_string_value(json_object_get(module, "sha256"))))
		return 0;
	buf_free(out);
	return err_set(err, "%s is not the file that was built", path);
}

static int check_file(const json_t *entry, int dirfd, const char *release, struct err *err)
{
	struct buf data;
	int rc;

	if (records_module(entry, dirfd, &data, err))
		return -1;
	rc = modinfo_check(data.data, data.len, release, err);
	buf_free(&data);
	return rc;
}

static int add_entry(struct records *out, const struct candidate *one, int dirfd, struct err *err)
{
	json_t *entry = entry_of(one, dirfd, err);

	if (!entry)
		return -1;
	json_array_append_new(out->entries, entry);
	return check_file(entry, dirfd, one->release, err);
}

static int fill(struct records *out, const struct candidates *all, int dirfd, struct err *err)
{
	const struct candidate *last = newest(all);
	json_t *source, *recipe = json_object_get(last->record, "recipe_sha256");
	const char *text;

	if (json_get_object(last->record, "source", &source, err) ||
	    json_get_str(last->record, "recipe_sha256", &text, err))
		return err_prefix(err, "%s", last->release);
	out->source = json_incref(source);
	snprintf(out->recipe_sha256, sizeof(out->recipe_sha256), "%s", text);
	for (size_t i = 0; i < all->n; i++) {
		const json_t *record = all->items[i].record;
		const json_t *tree = json_object_get(json_object_get(record, "source"), "tree_sha256");

		if (!json_equal(tree, json_object_get(source, "tree_sha256")) ||
		    !json_equal(json_object_get(record, "recipe_sha256"), recipe))
			out->left_out++;
		else if (add_entry(out, &all->items[i], dirfd, err))
			return err_prefix(err, "%s", all->items[i].release);
	}
	return 0;
}

int records_read(struct records *out, int dirfd, struct err *err)
{
	struct candidates all = {0};
	int rc;

	memset(out, 0, sizeof(*out));
	out->entries = json_array();
	rc = find_candidates(&all, dirfd, err);
	if (!rc)
		rc = all.n ? fill(out, &all, dirfd, err) : err_set(err, "no record of a build");
	for (size_t i = 0; i < all.n; i++)
		json_decref(all.items[i].record);
	free(all.items);
	if (rc)
		records_free(out);
	return rc;
}

void records_free(struct records *records)
{
	json_decref(records->entries);
	json_decref(records->source);
	memset(records, 0, sizeof(*records));
}
