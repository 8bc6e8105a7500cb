/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The catalog's reader (DIS-03): every refusal, each after the same world was accepted. */
#include "tests/unit/catalog_world.h"

#include <sodium.h>
#include <sys/mman.h>

static struct world w;

static int make(void **state)
{
	(void)state;
	world_make(&w);
	return 0;
}

static int drop(void **state)
{
	(void)state;
	world_drop(&w);
	return 0;
}

static void flip(const char *name, size_t at)
{
	size_t n;
	char *text = world_read(&w, name, &n);

	text[at < n ? at : n / 2] ^= 1;
	world_write(&w, name, text, n);
	free(text);
}

static void accepts_what_was_signed(void **state)
{
	const struct catalog_info *info;
	struct catalog *catalog;
	struct err err;

	(void)state;
	world_stages(&w, RELEASE_A);
	world_stages(&w, RELEASE_B);
	catalog = catalog_open(&w.config, &err);
	assert_non_null(catalog);
	info = catalog_about(catalog);
	assert_int_equal(info->modules, 2);
	assert_int_equal(info->version, 1);
	assert_false(info->expired);
	assert_false(info->local);
	assert_int_equal(catalog_module_at(catalog, 0)->builds, 2);
	assert_null(catalog_module_at(catalog, 2));
	catalog_free(catalog);
}

static void has_no_module_for_another_release(void **state)
{
	struct err err;
	int fd = -1;

	(void)state;
	world_stages(&w, RELEASE_A);
	assert_int_equal(catalog_stage_release(&w.config, "6.1.0-58-cloud-amd64", &fd, NULL, &err), 1);
	assert_int_equal(catalog_stage_release(&w.config, "6.1.0-57-cloud-amd6", &fd, NULL, &err), 1);
	assert_int_equal(catalog_stage_release(&w.config, "", &fd, NULL, &err), 1);
}

static void refuses_a_flipped_bit_in_the_module(void **state)
{
	(void)state;
	world_stages(&w, RELEASE_A);
	flip(RELEASE_A "/sentry.ko", 3000);
	world_refuses_module(&w, RELEASE_A, "bad_hash");
	world_stages(&w, RELEASE_B);
}

static void refuses_a_flipped_bit_in_the_catalog(void **state)
{
	size_t n;
	char *text;

	(void)state;
	world_opens(&w);
	text = world_read(&w, "current/catalog.json", &n);
	for (size_t at = 0; at < n; at += 97) {
		flip("current/catalog.json", at);
		world_refuses(&w, "bad_signature");
		flip("current/catalog.json", at);
	}
	free(text);
	world_opens(&w);
}

/* Each bit of the lines that count, in both files, alone. */
static void refuses_a_flipped_bit_in_a_signature(void **state)
{
	static const char *const files[] = {"current/catalog.json.minisig", "current/timestamp.json.minisig",
					    RELEASE_A "/sentry.ko.minisig"};

	(void)state;
	world_stages(&w, RELEASE_A);
	for (size_t i = 0; i < 3; i++) {
		size_t n;
		char *text = world_read(&w, files[i], &n);
		size_t first = (size_t)(strchr(text, '\n') - text) + 1;

		for (size_t at = first; at < n; at++) {
			struct err err = {""};
			int fd = -1;

			flip(files[i], at);
			if (catalog_stage_release(&w.config, RELEASE_A, &fd, NULL, &err) != -1)
				fail_msg("%s: byte %zu may change", files[i], at);
			assert_true(!strncmp(err.text, "bad_signature:", 14) || !strncmp(err.text, "malformed:", 10));
			flip(files[i], at);
		}
		free(text);
	}
	world_stages(&w, RELEASE_A);
}

static void refuses_a_changed_trusted_comment(void **state)
{
	size_t n;
	char *text, *at;

	(void)state;
	world_opens(&w);
	text = world_read(&w, "current/catalog.json.minisig", &n);
	at = strstr(text, "version:1");
	assert_non_null(at);
	at[8] = '2';
	world_write(&w, "current/catalog.json.minisig", text, n);
	world_refuses(&w, "bad_signature");
	free(text);
}

/* Signed by the right key, over the right bytes, but as something else: domain separation. */
static void refuses_a_signature_made_for_another_purpose(void **state)
{
	char hex[HASH_HEX], comment[MINISIG_COMMENT_MAX];
	struct keyfile *key;
	char *module, *sig;
	size_t n;

	(void)state;
	world_stages(&w, RELEASE_A);
	module = world_read(&w, RELEASE_A "/sentry.ko", &n);
	hex_of(hex, module, n);
	key = world_key(&w, "catalog");
	for (int i = 0; i < 2; i++) {
		if (i)
			catalog_comment(comment, "catalog", 1, hex);
		else
			snprintf(comment, sizeof(comment), "holdfast module release:%s sha256:%s", RELEASE_B, hex);
		sig = keyfile_sign(key, module, n, comment, NULL);
		world_write(&w, RELEASE_A "/sentry.ko.minisig", sig, strlen(sig));
		world_refuses_module(&w, RELEASE_A, "bad_signature");
		free(sig);
	}
	keyfile_free(key);
	free(module);
}

static void refuses_swapped_signatures(void **state)
{
	char a[512], b[512], c[512];

	(void)state;
	world_stages(&w, RELEASE_A);
	world_path(a, &w, RELEASE_A "/sentry.ko.minisig");
	world_path(b, &w, RELEASE_B "/sentry.ko.minisig");
	world_path(c, &w, "swap");
	assert_int_equal(rename(a, c) | rename(b, a) | rename(c, b), 0);
	world_refuses_module(&w, RELEASE_A, "bad_signature");
	world_refuses_module(&w, RELEASE_B, "bad_signature");
}

/* A foreign key, also one that claims the id of the right key. */
static void refuses_a_foreign_key(void **state)
{
	char comment[MINISIG_COMMENT_MAX], hex[HASH_HEX], *text, *sig;
	uint8_t raw[74];
	struct keyfile *key;
	struct minisig_key real;
	struct minisig parsed;
	size_t n;

	(void)state;
	world_opens(&w);
	text = world_read(&w, "current/catalog.json", &n);
	hex_of(hex, text, n);
	catalog_comment(comment, "catalog", 1, hex);
	key = keyfile_new(NULL);
	sig = keyfile_sign(key, text, n, comment, NULL);
	world_write(&w, "current/catalog.json.minisig", sig, strlen(sig));
	world_refuses(&w, "bad_signature");
	keyfile_free(key);

	key = world_key(&w, "catalog");
	keyfile_public(&real, key);
	keyfile_free(key);
	assert_int_equal(minisig_parse(&parsed, sig, strlen(sig), NULL), 0);
	memcpy(raw, "ED", 2);
	memcpy(raw + 2, real.id, 8);
	memcpy(raw + 10, parsed.signature, 64);
	sodium_bin2base64(strchr(sig, '\n') + 1, 101, raw, sizeof(raw), sodium_base64_VARIANT_ORIGINAL);
	strchr(strchr(sig, '\n') + 1, 0)[0] = '\n';
	world_write(&w, "current/catalog.json.minisig", sig, strlen(sig));
	world_refuses(&w, "bad_signature");
	free(sig);
	free(text);
}

static void refuses_a_key_of_another_role(void **state)
{
	json_t *stamp;
	char *text;

	(void)state;
	world_opens(&w);
	stamp = world_document(&w, "current/timestamp.json");
	text = canon_text(stamp);
	world_put_signed(&w, "current/timestamp.json", "catalog", "timestamp", 1, text);
	world_refuses(&w, "bad_signature");
	world_put_signed(&w, "current/timestamp.json", "timestamp", "timestamp", 1, text);
	world_opens(&w);
	free(text);
	json_decref(stamp);
}

static void point_current_at(const char *where)
{
	char path[512];

	world_path(path, &w, "current");
	unlink(path);
	assert_int_equal(symlink(where, path), 0);
}

static void refuses_an_older_catalog(void **state)
{
	(void)state;
	world_opens(&w);
	world_add(&w, "6.1.0-58-cloud-amd64", NULL);
	world_must_sign(&w);
	point_current_at("meta/1");
	world_opens(&w); /* not seen the newer one yet */
	point_current_at("meta/2");
	world_stages(&w, "6.1.0-58-cloud-amd64");
	point_current_at("meta/1");
	world_refuses(&w, "rollback");
	point_current_at("meta/2");
	world_opens(&w);
}

static void refuses_another_catalog_of_the_same_version(void **state)
{
	json_t *document;

	(void)state;
	world_opens(&w);
	document = world_document(&w, "current/catalog.json");
	json_object_set_new(document, "issued", json_string("2026-01-01T00:00:00Z"));
	world_resign_json(&w, document);
	world_refuses(&w, "rollback");
	json_decref(document);
}

static void when_expired_keeps_what_was_verified(void **state)
{
	(void)state;
	world_stages(&w, RELEASE_A);
	w.config.now_s = time(NULL) + 8 * 86400; /* past the timestamp's seven days */
	world_opens(&w);
	world_stages(&w, RELEASE_A);
	world_refuses_module(&w, RELEASE_B, "expired");
	w.config.now_s = 0;
	world_stages(&w, RELEASE_B);
	w.config.now_s = time(NULL) + 31 * 86400;
	world_stages(&w, RELEASE_B);
}

static void refuses_paths_that_leave_the_folder(void **state)
{
	static const char *const paths[] = {"../sentry.ko", "/etc/passwd", "a/../../b", "..", ".", "a//b", "/",
					    "a/", "./a", "a/./b", ".hidden", "a b", "a\\b", "a%2e", ""};
	json_t *document;

	(void)state;
	document = world_document(&w, "current/catalog.json");
	world_resign_json(&w, document);
	world_opens(&w);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		json_object_set_new(json_object_get(entry_at(document, 0), "module"), "path",
				    json_string(paths[i]));
		world_resign_json(&w, document);
		world_refuses(&w, "bad_path");
	}
	json_decref(document);
}

static void refuses_a_file_of_another_size(void **state)
{
	char *module;
	size_t n;

	(void)state;
	world_stages(&w, RELEASE_A);
	module = world_read(&w, RELEASE_A "/sentry.ko", &n);
	world_write(&w, RELEASE_A "/sentry.ko", module, n - 1);
	world_refuses_module(&w, RELEASE_A, "bad_size");
	world_write(&w, RELEASE_A "/sentry.ko", module, 0);
	world_refuses_module(&w, RELEASE_A, "bad_size");
	module[n] = 'x';
	world_write(&w, RELEASE_A "/sentry.ko", module, n + 1);
	world_refuses_module(&w, RELEASE_A, "bad_size");
	world_write(&w, RELEASE_A "/sentry.ko", module, n);
	world_stages(&w, RELEASE_A);
	free(module);
}

static void refuses_truncated_downloads(void **state)
{
	static const char *const files[] = {"current/catalog.json", "current/catalog.json.minisig",
					    "current/timestamp.json", "current/timestamp.json.minisig",
					    "current/log.jsonl", RELEASE_A "/sentry.ko.minisig"};

	(void)state;
	world_stages(&w, RELEASE_A);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		size_t n;
		char *text = world_read(&w, files[i], &n);
		size_t step = n / 40 + 1;

		for (size_t keep = 0; keep < n; keep += step) {
			struct err err;
			int fd;

			world_write(&w, files[i], text, keep);
			if (catalog_stage_release(&w.config, RELEASE_A, &fd, NULL, &err) != -1)
				fail_msg("%s may end after %zu bytes", files[i], keep);
		}
		world_write(&w, files[i], text, n);
		free(text);
	}
	world_stages(&w, RELEASE_A);
}

static void refuses_missing_files(void **state)
{
	static const char *const files[] = {"current/catalog.json", "current/catalog.json.minisig",
					    "current/timestamp.json", "current/log.jsonl"};
	char path[512], aside[512];

	(void)state;
	world_opens(&w);
	world_path(aside, &w, "aside");
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		world_path(path, &w, files[i]);
		assert_int_equal(rename(path, aside), 0);
		world_refuses(&w, "no_catalog");
		assert_int_equal(rename(aside, path), 0);
	}
	world_path(path, &w, RELEASE_A "/sentry.ko");
	unlink(path);
	world_refuses_module(&w, RELEASE_A, "no_catalog");
	assert_int_equal(unlink(w.root), 0);
	world_opens(&w); /* it has its own copy by now */
	io_remove_tree(AT_FDCWD, w.state, NULL);
	world_refuses(&w, "no_root");
}

static void refuses_a_revoked_module(void **state)
{
	json_t *document;
	const char *hash;

	(void)state;
	world_stages(&w, RELEASE_A); /* verified before: revocation wins all the same */
	document = world_document(&w, "current/catalog.json");
	hash = json_string_value(json_object_get(json_object_get(entry_at(document, 0), "module"), "sha256"));
	{
		struct signer_options options = {.dir = w.dir, .keys = w.keys, .catalog_life_days = 30,
						 .timestamp_life_days = 7, .revoke = &hash, .n_revoke = 1};
		struct signer_result result;
		struct err err;

		assert_int_equal(signer_run(&options, &result, &err), 0);
	}
	world_refuses_module(&w, RELEASE_A, "revoked");
	world_stages(&w, RELEASE_B);
	world_add(&w, "6.1.0-58-cloud-amd64", NULL);
	world_must_sign(&w); /* stays revoked in every later catalog */
	world_refuses_module(&w, RELEASE_A, "revoked");
	json_decref(document);
}

static void refuses_a_test_build(void **state)
{
	char module[4096], hex[HASH_HEX], comment[MINISIG_COMMENT_MAX], *sig;
	struct keyfile *key;
	json_t *document, *inner;
	size_t n;

	(void)state;
	world_stages(&w, RELEASE_A);
	n = world_module(module, RELEASE_A, "testable=Y");
	hex_of(hex, module, n);
	document = world_document(&w, "current/catalog.json");
	json_object_set_new(document, "version", json_integer(2));
	inner = json_object_get(entry_at(document, 0), "module");
	json_object_set_new(inner, "sha256", json_string(hex));
	json_object_set_new(inner, "size", json_integer((json_int_t)n));
	for (size_t i = 0; i < 2; i++)
		json_object_set_new(json_array_get(json_object_get(entry_at(document, 0), "builds"), i), "sha256",
				    json_string(hex));
	world_resign_json(&w, document);
	io_remove_tree(AT_FDCWD, w.state, NULL);
	world_write(&w, RELEASE_A "/sentry.ko", module, n);
	key = world_key(&w, "catalog");
	snprintf(comment, sizeof(comment), "holdfast module release:%s sha256:%s", RELEASE_A, hex);
	sig = keyfile_sign(key, module, n, comment, NULL);
	world_write(&w, RELEASE_A "/sentry.ko.minisig", sig, strlen(sig));
	world_refuses_module(&w, RELEASE_A, "test_build");
	free(sig);
	keyfile_free(key);
	json_decref(document);
}

static void refuses_symlinks(void **state)
{
	char path[512], aside[512];

	(void)state;
	world_stages(&w, RELEASE_A);
	world_path(path, &w, RELEASE_A "/sentry.ko");
	world_path(aside, &w, RELEASE_A "/real.ko");
	assert_int_equal(rename(path, aside) | symlink("real.ko", path), 0);
	world_refuses_module(&w, RELEASE_A, "bad_path"); /* the bytes are right all the same */
	assert_int_equal(unlink(path) | rename(aside, path), 0);
	world_stages(&w, RELEASE_A);
	world_path(path, &w, RELEASE_A);
	world_path(aside, &w, "elsewhere");
	assert_int_equal(rename(path, aside) | symlink("elsewhere", path), 0);
	world_refuses_module(&w, RELEASE_A, "bad_path");
	assert_int_equal(unlink(path) | rename(aside, path), 0);
	world_stages(&w, RELEASE_A);
	world_path(path, &w, "meta");
	snprintf(aside, sizeof(aside), "%s/outside", w.top);
	assert_int_equal(rename(path, aside), 0);
	point_current_at("../outside/1");
	world_refuses(&w, "bad_path");
	world_path(path, &w, "current");
	unlink(path);
	assert_int_equal(symlink(aside, path), 0);
	world_refuses(&w, "bad_path");
}

static void refuses_a_fifo_and_a_folder(void **state)
{
	char path[512];

	(void)state;
	world_stages(&w, RELEASE_A);
	world_path(path, &w, RELEASE_A "/sentry.ko");
	assert_int_equal(unlink(path) | mkfifo(path, 0644), 0);
	world_refuses_module(&w, RELEASE_A, "bad_path");
	assert_int_equal(unlink(path) | mkdir(path, 0755), 0);
	world_refuses_module(&w, RELEASE_A, "bad_path");
}

/* What is staged is what was verified, whatever happens to the file before or after. */
static void replacing_the_file_changes_nothing(void **state)
{
	const struct catalog_module *module;
	char *original, copy[4096];
	struct catalog *catalog;
	struct err err;
	size_t n;
	int fd;

	(void)state;
	original = world_read(&w, RELEASE_A "/sentry.ko", &n);
	catalog = catalog_open(&w.config, &err);
	assert_non_null(catalog);
	assert_int_equal(catalog_pick(catalog, RELEASE_A, &module, &err), 0);
	fd = catalog_stage(catalog, module, &err);
	assert_true(fd >= 0);
	flip(RELEASE_A "/sentry.ko", 100);
	assert_int_equal(pread(fd, copy, sizeof(copy), 0), n);
	assert_memory_equal(copy, original, n);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ptr_equal(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
	/* Between the pick and the next staging: looked at again, and refused. */
	assert_int_equal(catalog_stage(catalog, module, &err), -1);
	assert_word(&err, "bad_hash");
	catalog_free(catalog);
	free(original);
}

static void refuses_a_module_for_another_kernel(void **state)
{
	char module[4096], hex[HASH_HEX], comment[MINISIG_COMMENT_MAX], *sig;
	struct keyfile *key = world_key(&w, "catalog");
	size_t n = world_module(module, "6.1.0-5", NULL);
	json_t *document, *inner;

	(void)state;
	world_stages(&w, RELEASE_A);
	io_remove_tree(AT_FDCWD, w.state, NULL);
	hex_of(hex, module, n);
	document = world_document(&w, "current/catalog.json");
	inner = json_object_get(entry_at(document, 0), "module");
	json_object_set_new(inner, "sha256", json_string(hex));
	json_object_set_new(inner, "size", json_integer((json_int_t)n));
	for (size_t i = 0; i < 2; i++)
		json_object_set_new(json_array_get(json_object_get(entry_at(document, 0), "builds"), i), "sha256",
				    json_string(hex));
	world_resign_json(&w, document);
	world_write(&w, RELEASE_A "/sentry.ko", module, n);
	snprintf(comment, sizeof(comment), "holdfast module release:%s sha256:%s", RELEASE_A, hex);
	sig = keyfile_sign(key, module, n, comment, NULL);
	world_write(&w, RELEASE_A "/sentry.ko.minisig", sig, strlen(sig));
	world_refuses_module(&w, RELEASE_A, "wrong_release");
	free(sig);
	keyfile_free(key);
	json_decref(document);
}

static void refuses_a_rewritten_log(void **state)
{
	char *text;
	size_t n;

	(void)state;
	world_add(&w, "6.1.0-58-cloud-amd64", NULL);
	world_must_sign(&w);
	world_opens(&w);
	text = world_read(&w, "current/log.jsonl", &n);
	/* The first line goes: the rest no longer starts at zero. */
	world_write(&w, "current/log.jsonl", strchr(text, '\n') + 1, n - (size_t)(strchr(text, '\n') + 1 - text));
	world_refuses(&w, "bad_log");
	flip("current/log.jsonl", 30);
	world_refuses(&w, "bad_log");
	world_write(&w, "current/log.jsonl", text, n);
	world_opens(&w);
	free(text);
}

/* A log that is whole in itself and ends in this catalog, but not the one that this user knows. */
static void refuses_a_log_that_forgets(void **state)
{
	json_t *document;

	(void)state;
	world_add(&w, "6.1.0-58-cloud-amd64", NULL);
	world_must_sign(&w);
	world_opens(&w);
	document = world_document(&w, "current/catalog.json");
	json_object_set_new(document, "version", json_integer(3));
	json_object_set_new(document, "log_head", json_string(ZEROS));
	world_resign_json(&w, document);
	world_refuses(&w, "bad_log");
	io_remove_tree(AT_FDCWD, w.state, NULL);
	world_opens(&w);
	json_decref(document);
}

static void refuses_a_broken_memory(void **state)
{
	char path[512];
	FILE *f;

	(void)state;
	world_stages(&w, RELEASE_A);
	snprintf(path, sizeof(path), "%s/state.json", w.state);
	f = fopen(path, "w");
	fputs("{}", f);
	fclose(f);
	world_refuses(&w, "malformed");
	unlink(path);
	world_opens(&w);
	snprintf(path, sizeof(path), "%s/root.json", w.state);
	unlink(path);
	world_refuses(&w, "no_root");
}

static void refuses_other_forms_of_the_same_document(void **state)
{
	static const struct {
		const char *find, *put;
	} edits[] = {{"\"schema\":1", "\"schema\": 1"},
		     {"\"schema\":1", "\"schema\":1.0"},
		     {"\"schema\":1", "\"schema\":2"},
		     {"\"schema\":1", "\"Schema\":1"},
		     {"\"schema\":1,", "\"schema\":1,\n\"schemb\":1,"},
		     {"\"schema\":1,", "\"schema\":1,\n\"schema\":1,"},
		     {"\"flavour\":\"cloud\"", "\"flavour\":\"\\u0063loud\""},
		     {"\"flavour\":\"cloud\"", "\"flavour\":\"clo\\u0000d\""},
		     {"\"root_version\":1", "\"root_version\":99"},
		     {"\"root_version\":1", "\"root_version\":-1"},
		     {"\"size\":", "\"size\":-"},
		     {"\"version\":1\n}", "\"version\":1\n}\n"},
		     {"\"version\":1\n}", "\"version\":1}"},
		     {"T", "t"}};
	char *text;
	size_t n;

	(void)state;
	world_opens(&w);
	w.config.state_dir = NULL; /* only the form is asked for here */
	text = world_read(&w, "current/catalog.json", &n);
	for (size_t i = 0; i < sizeof(edits) / sizeof(*edits); i++) {
		char *at = strstr(i + 1 < sizeof(edits) / sizeof(*edits) ? text : strstr(text, "expires"),
				  edits[i].find);
		char *bent = malloc(n + 64);

		assert_non_null(at);
		snprintf(bent, n + 64, "%.*s%s%s", (int)(at - text), text, edits[i].put, at + strlen(edits[i].find));
		world_resign(&w, bent, 1);
		world_refuses(&w, "malformed");
		free(bent);
	}
	free(text);
}

static void counts_builds_itself(void **state)
{
	json_t *document = world_document(&w, "current/catalog.json"), *builds;

	(void)state;
	world_opens(&w);
	io_remove_tree(AT_FDCWD, w.state, NULL);
	builds = json_object_get(entry_at(document, 0), "builds");
	json_object_set_new(json_array_get(builds, 1), "sha256", json_string(ZEROS));
	world_resign_json(&w, document);
	world_refuses(&w, "malformed");
	json_array_remove(builds, 1);
	world_resign_json(&w, document);
	world_refuses(&w, "malformed");
	json_decref(document);
}

static void says_when_a_build_is_pending(void **state)
{
	struct catalog_pending pending;
	struct timespec old[2] = {{.tv_sec = time(NULL) - 120}, {.tv_sec = time(NULL) - 120}};
	char path[512];

	(void)state;
	assert_int_equal(catalog_pending(&w.config, RELEASE_A, &pending), 0);
	world_path(path, &w, "pending");
	mkdir(path, 0755);
	world_write(&w, "pending/" RELEASE_A, "2 5 build A\n", 12);
	assert_int_equal(catalog_pending(&w.config, RELEASE_A, &pending), 1);
	assert_int_equal(pending.done, 2);
	assert_int_equal(pending.total, 5);
	assert_string_equal(pending.step, "build A");
	assert_int_equal(catalog_pending(&w.config, "../" RELEASE_A, &pending), 0);
	world_path(path, &w, "pending/" RELEASE_A);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(catalog_pending(&w.config, RELEASE_A, &pending), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(accepts_what_was_signed),
		TEST(has_no_module_for_another_release),
		TEST(refuses_a_flipped_bit_in_the_module),
		TEST(refuses_a_flipped_bit_in_the_catalog),
		TEST(refuses_a_flipped_bit_in_a_signature),
		TEST(refuses_a_changed_trusted_comment),
		TEST(refuses_a_signature_made_for_another_purpose),
		TEST(refuses_swapped_signatures),
		TEST(refuses_a_foreign_key),
		TEST(refuses_a_key_of_another_role),
		TEST(refuses_an_older_catalog),
		TEST(refuses_another_catalog_of_the_same_version),
		TEST(when_expired_keeps_what_was_verified),
		TEST(refuses_paths_that_leave_the_folder),
		TEST(refuses_a_file_of_another_size),
		TEST(refuses_truncated_downloads),
		TEST(refuses_missing_files),
		TEST(refuses_a_revoked_module),
		TEST(refuses_a_test_build),
		TEST(refuses_symlinks),
		TEST(refuses_a_fifo_and_a_folder),
		TEST(replacing_the_file_changes_nothing),
		TEST(refuses_a_module_for_another_kernel),
		TEST(refuses_a_rewritten_log),
		TEST(refuses_a_log_that_forgets),
		TEST(refuses_a_broken_memory),
		TEST(refuses_other_forms_of_the_same_document),
		TEST(counts_builds_itself),
		TEST(says_when_a_build_is_pending),
	};

	return cmocka_run_group_tests_name("catalog: reading", tests, NULL, NULL);
}
