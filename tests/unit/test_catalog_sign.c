/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The catalog's signer: what it refuses to sign, rotation of keys, thresholds, recovery. */
#include "tests/unit/catalog_world.h"

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

static uint64_t version_seen(void)
{
	struct err err;
	struct catalog *catalog = catalog_open(&w.config, &err);
	uint64_t version;

	if (!catalog)
		fail_msg("%s", err.text);
	version = catalog_about(catalog)->version;
	catalog_free(catalog);
	return version;
}

static json_t *record_of(const char *release)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/record.json", release);
	return world_document(&w, name);
}

static void must_not_sign(const char *part)
{
	struct err err = {""};

	assert_int_equal(world_sign(&w, &err), -1);
	if (!strstr(err.text, part))
		fail_msg("refused with \"%s\", expected %s", err.text, part);
	assert_int_equal(version_seen(), 1); /* nothing was published */
}

static void signs_once_for_one_content(void **state)
{
	(void)state;
	world_must_sign(&w);
	world_must_sign(&w);
	assert_int_equal(version_seen(), 1);
	world_add(&w, "6.1.0-58-cloud-amd64", NULL);
	world_must_sign(&w);
	assert_int_equal(version_seen(), 2);
}

/* The two-hash rule, before any key is used. */
static void refuses_builds_that_differ(void **state)
{
	json_t *record = record_of(RELEASE_A);

	(void)state;
	json_object_set_new(json_array_get(json_object_get(record, "builds"), 1), "sha256",
			    json_string(ZEROS));
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("build 1 gave");
	json_decref(record);
}

static void refuses_a_single_build(void **state)
{
	json_t *record = record_of(RELEASE_A);

	(void)state;
	json_array_remove(json_object_get(record, "builds"), 1);
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("twice is needed");
	json_decref(record);
}

static void refuses_the_same_conditions_twice(void **state)
{
	json_t *record = record_of(RELEASE_A), *builds = json_object_get(record, "builds");

	(void)state;
	json_object_set(json_array_get(builds, 1), "conditions",
			json_object_get(json_array_get(builds, 0), "conditions"));
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("same conditions");
	json_decref(record);
}

static void refuses_a_failed_check(void **state)
{
	json_t *record = record_of(RELEASE_A);

	(void)state;
	json_object_set_new(json_object_get(record, "checks"), "paths", json_string("contains /build/"));
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("check paths");
	json_object_clear(json_object_get(record, "checks"));
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("no static check");
	json_decref(record);
}

static void refuses_a_file_that_was_not_built(void **state)
{
	char *module;
	size_t n;

	(void)state;
	module = world_read(&w, RELEASE_A "/sentry.ko", &n);
	module[n / 2] ^= 1;
	world_write(&w, RELEASE_A "/sentry.ko", module, n);
	must_not_sign("not the file that was built");
	free(module);
}

/* DIS-05: a module with test-only switches, whose record is perfect otherwise. */
static void refuses_a_test_build(void **state)
{
	(void)state;
	world_add(&w, RELEASE_A, "testable=Y");
	must_not_sign("test_build");
}

static void refuses_a_record_about_another_release(void **state)
{
	json_t *record = record_of(RELEASE_B);

	(void)state;
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("its record is about");
	json_decref(record);
}

static void refuses_a_module_for_another_kernel(void **state)
{
	char module[4096];
	size_t n = world_module(module, RELEASE_B, NULL);
	json_t *record = world_record(RELEASE_A, module, n);

	(void)state;
	world_write(&w, RELEASE_A "/sentry.ko", module, n);
	world_put_record(&w, RELEASE_A, record);
	must_not_sign("wrong_release");
	json_decref(record);
}

static void refuses_a_key_that_others_can_read(void **state)
{
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s/catalog.key", w.keys);
	assert_int_equal(chmod(path, 0644), 0);
	must_not_sign("can be read by others");
}

static void refuses_a_key_without_the_role(void **state)
{
	char catalog[512], timestamp[512];

	(void)state;
	snprintf(catalog, sizeof(catalog), "%s/catalog.key", w.keys);
	snprintf(timestamp, sizeof(timestamp), "%s/timestamp.key", w.keys);
	assert_int_equal(unlink(catalog) | rename(timestamp, catalog), 0);
	must_not_sign("timestamp.key");
}

static void leaves_out_records_of_another_source(void **state)
{
	struct signer_options options = {
		.dir = w.dir, .keys = w.keys, .catalog_life_days = 30, .timestamp_life_days = 7};
	struct signer_result result;
	json_t *record = record_of(RELEASE_B);
	struct err err;

	(void)state;
	json_object_set_new(json_object_get(record, "source"), "tree_sha256",
			    json_string("1111111111111111111111111111111111111111111111111111111111111111"));
	usleep(20000);
	world_put_record(&w, RELEASE_B, record); /* the newest record: its source is the one */
	assert_int_equal(signer_run(&options, &result, &err), 0);
	assert_int_equal(result.modules, 1);
	assert_int_equal(result.left_out, 1);
	json_decref(record);
}

/* The builder's folder is not where versions and revocations are kept. */
static void loses_nothing_when_the_folder_is_emptied(void **state)
{
	char path[512];

	(void)state;
	assert_int_equal(version_seen(), 1);
	io_remove_tree(AT_FDCWD, w.dir, NULL);
	world_path(path, &w, "");
	mkdir(path, 0755);
	world_add(&w, RELEASE_A, NULL);
	world_must_sign(&w);
	assert_int_equal(version_seen(), 2);
}

static void completes_a_run_that_was_killed(void **state)
{
	char path[512];

	(void)state;
	/* Signed and kept beside the keys, killed before the folder of modules showed it. */
	world_path(path, &w, "current");
	unlink(path);
	world_path(path, &w, "meta");
	io_remove_tree(AT_FDCWD, path, NULL);
	world_refuses(&w, "no_catalog");
	world_path(path, &w, "meta");
	mkdir(path, 0755);
	world_path(path, &w, "meta/.new");
	mkdir(path, 0755);
	world_write(&w, "meta/.new/catalog.json", "half", 4);
	world_must_sign(&w);
	assert_int_equal(version_seen(), 1);
}

static void rotate(const char *name)
{
	struct err err;

	if (roots_rotate(w.keys, name, &err))
		fail_msg("%s", err.text);
}

static void follows_rotations(void **state)
{
	static const char *const names[] = {"catalog", "root-2", "timestamp", "root-1", "root-3"};

	(void)state;
	world_stages(&w, RELEASE_A);
	for (size_t i = 0; i < 5; i++) {
		rotate(names[i]);
		world_must_sign(&w);
		world_stages(&w, RELEASE_B);
	}
	/* A user who was away all the time follows the whole chain from the first root. */
	io_remove_tree(AT_FDCWD, w.state, NULL);
	world_stages(&w, RELEASE_A);
}

static void refuses_the_old_key_after_a_rotation(void **state)
{
	char *text, *sig;
	size_t n, sig_n;

	(void)state;
	world_opens(&w);
	text = world_read(&w, "current/catalog.json", &n);
	sig = world_read(&w, "current/catalog.json.minisig", &sig_n);
	rotate("catalog");
	world_must_sign(&w);
	world_opens(&w);
	world_write(&w, "current/catalog.json", text, n);
	world_write(&w, "current/catalog.json.minisig", sig, sig_n);
	world_refuses(&w, "bad_signature");
	free(text);
	free(sig);
}

/* Deletes the signatures of root document 2 but for `keep` of the keys that name it. */
static void keep_signatures(size_t keep)
{
	char path[512], key_path[512], id[MINISIG_ID_TEXT];
	static const char *const keys[] = {"root-1", "root-2", "root-3"};
	struct minisig_key public;

	for (size_t i = keep; i < 3; i++) {
		struct keyfile *key;

		snprintf(key_path, sizeof(key_path), "%s/%s.key", w.keys, keys[i]);
		key = keyfile_load(key_path, NULL);
		assert_non_null(key);
		keyfile_public(&public, key);
		keyfile_free(key);
		minisig_id_text(id, public.id);
		snprintf(path, sizeof(path), "%s/current/root.2.json.%s.minisig", w.dir, id);
		unlink(path);
	}
}

static void refuses_a_root_with_too_few_signatures(void **state)
{
	(void)state;
	world_opens(&w);
	rotate("catalog");
	world_must_sign(&w);
	keep_signatures(2); /* two of three is the threshold */
	world_opens(&w);
	io_remove_tree(AT_FDCWD, w.state, NULL);
	world_opens(&w);
	io_remove_tree(AT_FDCWD, w.state, NULL);
	keep_signatures(1);
	world_refuses(&w, "few_signatures");
}

/* One signature under several names is still one: the file's name is only where it is looked for. */
static void counts_each_key_once(void **state)
{
	char id[3][MINISIG_ID_TEXT], name[256], *sig;
	size_t n;

	(void)state;
	rotate("catalog");
	world_must_sign(&w);
	for (int i = 0; i < 3; i++) {
		char key_name[16];
		struct keyfile *key;
		struct minisig_key public;

		snprintf(key_name, sizeof(key_name), "root-%d", i + 1);
		key = world_key(&w, key_name);
		keyfile_public(&public, key);
		keyfile_free(key);
		minisig_id_text(id[i], public.id);
	}
	snprintf(name, sizeof(name), "current/root.2.json.%s.minisig", id[0]);
	sig = world_read(&w, name, &n);
	for (int i = 1; i < 3; i++) {
		snprintf(name, sizeof(name), "current/root.2.json.%s.minisig", id[i]);
		world_write(&w, name, sig, n);
	}
	world_refuses(&w, "few_signatures");
	free(sig);
}

/* A root document of strangers, well signed by themselves. */
static void refuses_a_root_that_only_its_own_keys_signed(void **state)
{
	char other[160], from[512];
	struct err err;
	int fd;

	(void)state;
	world_opens(&w);
	snprintf(other, sizeof(other), "%s/strangers", w.top);
	assert_int_equal(roots_init(other, "release", &err), 0);
	assert_int_equal(roots_rotate(other, "catalog", &err), 0);
	snprintf(from, sizeof(from), "%s/current", w.dir);
	fd = open(from, O_RDONLY | O_DIRECTORY);
	assert_int_equal(roots_copy(other, fd, &err), 0);
	close(fd);
	world_refuses(&w, "few_signatures");
}

static void refuses_a_root_that_skips_a_version(void **state)
{
	char from[512], to[512];

	(void)state;
	rotate("catalog");
	rotate("timestamp");
	world_must_sign(&w);
	snprintf(from, sizeof(from), "%s/current/root.3.json", w.dir);
	snprintf(to, sizeof(to), "%s/current/root.2.json", w.dir);
	assert_int_equal(rename(from, to), 0);
	world_refuses(&w, "malformed");
}

/* Whoever held the catalog key pushed the version out of reach; a rotation takes it back. */
static void recovers_from_a_fast_forward(void **state)
{
	json_t *document = world_document(&w, "current/catalog.json");

	(void)state;
	json_object_set_new(document, "version", json_integer(1LL << 60));
	world_resign_json(&w, document);
	assert_true(version_seen() == 1ULL << 60);
	world_add(&w, "6.1.0-58-cloud-amd64", NULL);
	world_must_sign(&w);
	world_refuses(&w, "rollback");
	rotate("catalog");
	world_must_sign(&w);
	assert_int_equal(version_seen(), 3);
	json_decref(document);
}

static void names_its_channel(void **state)
{
	char keys[160];
	struct catalog_root root;
	struct err err;

	(void)state;
	snprintf(keys, sizeof(keys), "%s/local", w.top);
	assert_int_equal(roots_init(keys, "local", &err), 0);
	assert_int_equal(roots_newest(keys, &root, &err), 0);
	assert_true(root.local);
	assert_int_equal(roots_init(keys, "local", &err), -1); /* keys are never replaced */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(signs_once_for_one_content),
		TEST(refuses_builds_that_differ),
		TEST(refuses_a_single_build),
		TEST(refuses_the_same_conditions_twice),
		TEST(refuses_a_failed_check),
		TEST(refuses_a_file_that_was_not_built),
		TEST(refuses_a_test_build),
		TEST(refuses_a_record_about_another_release),
		TEST(refuses_a_module_for_another_kernel),
		TEST(refuses_a_key_that_others_can_read),
		TEST(refuses_a_key_without_the_role),
		TEST(leaves_out_records_of_another_source),
		TEST(loses_nothing_when_the_folder_is_emptied),
		TEST(completes_a_run_that_was_killed),
		TEST(follows_rotations),
		TEST(refuses_the_old_key_after_a_rotation),
		TEST(refuses_a_root_with_too_few_signatures),
		TEST(counts_each_key_once),
		TEST(refuses_a_root_that_only_its_own_keys_signed),
		TEST(refuses_a_root_that_skips_a_version),
		TEST(recovers_from_a_fast_forward),
		TEST(names_its_channel),
	};

	return cmocka_run_group_tests_name("catalog: signing", tests, NULL, NULL);
}
