/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A folder of modules, keys and a user's memory for the catalog's tests: made, signed, bent, removed. */
#ifndef HOLDFAST_TESTS_CATALOG_WORLD_H
#define HOLDFAST_TESTS_CATALOG_WORLD_H

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalog/keyfile.h"
#include "catalog/roots.h"
#include "catalog/signer.h"
#include "lib/catalog/canon.h"
#include "lib/catalog/catalog.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define RELEASE_A "6.1.0-57-cloud-amd64"
#define RELEASE_B "6.12.117+deb12-cloud-amd64"
#define UNUSED __attribute__((unused))
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

struct world {
	char top[64], dir[128], keys[128], state[128], root[160];
	struct catalog_config config;
};

static UNUSED void world_path(char out[512], const struct world *w, const char *name)
{
	snprintf(out, 512, "%s/%s", w->dir, name);
}

static UNUSED void world_write(const struct world *w, const char *name, const void *p, size_t n)
{
	char path[512];
	FILE *f;

	world_path(path, w, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static UNUSED char *world_read(const struct world *w, const char *name, size_t *n)
{
	char path[512];
	struct buf text;
	struct err err;

	world_path(path, w, name);
	buf_init(&text, 8 << 20);
	if (io_read_file(path, &text, &err))
		fail_msg("%s", err.text);
	assert_non_null(buf_cstr(&text));
	if (n)
		*n = text.len;
	return (char *)text.data;
}

/* The smallest file with a .modinfo section: header, section names, modinfo, three section headers. */
static UNUSED size_t world_module(char out[4096], const char *release, const char *more)
{
	static const char names[] = "\0.shstrtab\0.modinfo";
	char info[1024];
	Elf64_Shdr sections[3] = {0};
	Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}};
	size_t info_n = (size_t)snprintf(info, sizeof(info), "license=GPL%cvermagic=%s SMP mod_unload%c%s", 0,
					 release, 0, more ? more : "") + 1;

	head.e_shoff = sizeof(head);
	head.e_shentsize = sizeof(*sections);
	head.e_shnum = 3;
	head.e_shstrndx = 1;
	sections[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_STRTAB, .sh_size = sizeof(names),
				   .sh_offset = sizeof(head) + sizeof(sections)};
	sections[2] = (Elf64_Shdr){.sh_name = 11, .sh_type = SHT_PROGBITS, .sh_size = info_n,
				   .sh_offset = sections[1].sh_offset + sizeof(names)};
	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), sections, sizeof(sections));
	memcpy(out + sections[1].sh_offset, names, sizeof(names));
	memcpy(out + sections[2].sh_offset, info, info_n);
	return sections[2].sh_offset + info_n;
}

static UNUSED json_t *world_build(const char *name, const char *sha256)
{
	return json_pack("{ss ss ss ss s{ss}}", "builder", "local", "name", name, "sha256", sha256,
			 "raw_sha256", sha256, "conditions", "path", name);
}

static UNUSED json_t *world_record(const char *release, const void *module, size_t n)
{
	uint8_t hash[HASH_BYTES];
	char hex[HASH_HEX];

	hash_sha256(hash, module, n);
	hex_encode(hex, hash, sizeof(hash));
	return json_pack("{si ss ss ss s{sI ss ss ss ss ss} s[{ss ss ss}] ss s{ss ss ss} s[oo] s{ss} s{ss ss} ss}",
			 "schema", 1, "release", release, "flavour", "cloud", "suite", "bookworm", "module",
			 "size", (json_int_t)n, "sha256", hex, "srcversion", "A1", "vermagic", release,
			 "build_id", "", "undef_syms_sha256", ZEROS, "headers", "package", "linux-headers",
			 "version", "1", "sha256", ZEROS, "inrelease_sha256", ZEROS, "toolchain",
			 "root_sha256", ZEROS, "gcc", "gcc-12", "binutils", "2.40", "builds",
			 world_build("A", hex), world_build("B", hex), "checks", "vermagic", "ok", "source",
			 "commit", "c0ffee", "tree_sha256", ZEROS, "recipe_sha256", ZEROS);
}

static UNUSED void world_put_record(const struct world *w, const char *release, json_t *record)
{
	char name[256], *text = json_dumps(record, 0);

	snprintf(name, sizeof(name), "%s/record.json", release);
	world_write(w, name, text, strlen(text));
	free(text);
}

static UNUSED void world_add(const struct world *w, const char *release, const char *more)
{
	char path[512], name[256], module[4096];
	size_t n = world_module(module, release, more);
	json_t *record = world_record(release, module, n);

	world_path(path, w, release);
	mkdir(path, 0755);
	snprintf(name, sizeof(name), "%s/sentry.ko", release);
	world_write(w, name, module, n);
	world_put_record(w, release, record);
	json_decref(record);
}

static UNUSED int world_sign(const struct world *w, struct err *err)
{
	struct signer_options options = {
		.dir = w->dir, .keys = w->keys, .catalog_life_days = 30, .timestamp_life_days = 7};
	struct signer_result result;

	return signer_run(&options, &result, err);
}

static UNUSED void world_must_sign(const struct world *w)
{
	struct err err;

	if (world_sign(w, &err))
		fail_msg("sign: %s", err.text);
}

static UNUSED void world_make(struct world *w)
{
	struct err err;

	snprintf(w->top, sizeof(w->top), "/tmp/holdfast-catalog-XXXXXX");
	assert_non_null(mkdtemp(w->top));
	snprintf(w->dir, sizeof(w->dir), "%s/modules", w->top);
	snprintf(w->keys, sizeof(w->keys), "%s/keys", w->top);
	snprintf(w->state, sizeof(w->state), "%s/state", w->top);
	snprintf(w->root, sizeof(w->root), "%s/root.json", w->top);
	mkdir(w->dir, 0755);
	if (roots_init(w->keys, "release", &err))
		fail_msg("init: %s", err.text);
	world_add(w, RELEASE_A, NULL);
	world_add(w, RELEASE_B, NULL);
	world_must_sign(w);
	w->config = (struct catalog_config){.dir = w->dir, .root = w->root, .state_dir = w->state};
	/* What an installation ships: the first root document. */
	{
		char from[512];
		struct buf text;
		int top = open(w->top, O_RDONLY | O_DIRECTORY);

		snprintf(from, sizeof(from), "%s/roots/root.1.json", w->keys);
		buf_init(&text, 1 << 16);
		assert_int_equal(io_read_file(from, &text, &err), 0);
		assert_int_equal(io_write_file_atomic(top, "root.json", text.data, text.len, 0644, &err), 0);
		buf_free(&text);
		close(top);
	}
}

static UNUSED void world_drop(struct world *w)
{
	io_remove_tree(AT_FDCWD, w->top, NULL);
}

/* ---- expectations ---- */

static UNUSED void assert_word(const struct err *err, const char *word)
{
	if (strncmp(err->text, word, strlen(word)) || err->text[strlen(word)] != ':')
		fail_msg("refused with \"%s\", expected %s", err->text, word);
}

static UNUSED void world_opens(const struct world *w)
{
	struct err err;
	struct catalog *catalog = catalog_open(&w->config, &err);

	if (!catalog)
		fail_msg("open: %s", err.text);
	catalog_free(catalog);
}

static UNUSED void world_refuses(const struct world *w, const char *word)
{
	struct err err = {""};
	struct catalog *catalog = catalog_open(&w->config, &err);

	assert_null(catalog);
	assert_word(&err, word);
}

static UNUSED void world_stages(const struct world *w, const char *release)
{
	struct catalog_module module;
	struct err err = {""};
	int fd = -1, rc = catalog_stage_release(&w->config, release, &fd, &module, &err);

	if (rc)
		fail_msg("stage %s: %d %s", release, rc, err.text);
	assert_string_equal(module.release, release);
	close(fd);
}

static UNUSED void world_refuses_module(const struct world *w, const char *release, const char *word)
{
	struct err err = {""};
	int fd = -1;

	assert_int_equal(catalog_stage_release(&w->config, release, &fd, NULL, &err), -1);
	assert_word(&err, word);
}

/* ---- what only a holder of keys can do ---- */

static UNUSED struct keyfile *world_key(const struct world *w, const char *name)
{
	char path[512];
	struct err err;
	struct keyfile *key;

	snprintf(path, sizeof(path), "%s/%s.key", w->keys, name);
	key = keyfile_load(path, &err);
	if (!key)
		fail_msg("%s", err.text);
	return key;
}

static UNUSED void hex_of(char out[HASH_HEX], const void *p, size_t n)
{
	uint8_t hash[HASH_BYTES];

	hash_sha256(hash, p, n);
	hex_encode(out, hash, sizeof(hash));
}

static UNUSED void world_put_signed(const struct world *w, const char *name, const char *key_name,
			     const char *what, json_int_t version, const char *text)
{
	char comment[MINISIG_COMMENT_MAX], hex[HASH_HEX], file[256];
	struct keyfile *key = world_key(w, key_name);
	char *sig;

	hex_of(hex, text, strlen(text));
	catalog_comment(comment, what, (uint64_t)version, hex);
	sig = keyfile_sign(key, text, strlen(text), comment, NULL);
	world_write(w, name, text, strlen(text));
	snprintf(file, sizeof(file), "%s.minisig", name);
	world_write(w, file, sig, strlen(sig));
	free(sig);
	keyfile_free(key);
}

static UNUSED json_t *world_document(const struct world *w, const char *name)
{
	size_t n;
	char *text = world_read(w, name, &n);
	json_t *json = json_loadb(text, n, 0, NULL);

	assert_non_null(json);
	free(text);
	return json;
}

/* Puts this text in as the catalog, with signature, timestamp and log that fit it. */
static UNUSED void world_resign(const struct world *w, const char *text, json_int_t version)
{
	json_t *timestamp = world_document(w, "current/timestamp.json"), *line;
	json_t *inner = json_object_get(timestamp, "catalog");
	char hex[HASH_HEX], *stamp, *log;

	hex_of(hex, text, strlen(text));
	world_put_signed(w, "current/catalog.json", "catalog", "catalog", version, text);
	json_object_set_new(inner, "sha256", json_string(hex));
	json_object_set_new(inner, "size", json_integer((json_int_t)strlen(text)));
	json_object_set_new(inner, "version", json_integer(version));
	stamp = canon_text(timestamp);
	world_put_signed(w, "current/timestamp.json", "timestamp", "timestamp",
			 json_integer_value(json_object_get(timestamp, "version")), stamp);
	line = json_pack("{ss ss ss si sI}", "catalog_sha256", hex, "issued", "2026-01-01T00:00:00Z",
			 "previous", ZEROS, "root_version", 1, "version", version);
	log = json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS);
	{
		char whole[1024];
		int n = snprintf(whole, sizeof(whole), "%s\n", log);

		world_write(w, "current/log.jsonl", whole, (size_t)n);
	}
	free(log);
	free(stamp);
	json_decref(line);
	json_decref(timestamp);
}

/* The same for an edited document, in canonical form. */
static UNUSED void world_resign_json(const struct world *w, json_t *document)
{
	char *text = canon_text(document);

	world_resign(w, text, json_integer_value(json_object_get(document, "version")));
	free(text);
}

static UNUSED json_t *entry_at(json_t *document, size_t index)
{
	return json_array_get(json_object_get(document, "entries"), index);
}

#endif
