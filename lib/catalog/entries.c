/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The catalog document: its entries, parsed with every bound checked. */
#include "lib/catalog/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/catalog/canon.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/json.h"

enum { HEADERS_MAX = 16, BUILDS_MAX = 64, CONDITIONS_MAX = 24, PACKAGE_TEXT_MAX = 256 };

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("+-._~", c));
}

int catalog_path_check(const char *path, struct err *err)
{
	const char *part = path;

	if (strlen(path) >= CATALOG_PATH_MAX)
		return err_set(err, "bad_path: longer than %d bytes", CATALOG_PATH_MAX - 1);
	for (const char *at = path;; at++) {
		if (*at && *at != '/') {
			if (!is_name_char(*at))
				return err_set(err, "bad_path: odd character in \"%s\"", path);
			continue;
		}
		if (at == part || *part == '.')
			return err_set(err, "bad_path: \"%s\" leaves the folder of modules", path);
		if (!*at)
			return 0;
		part = at + 1;
	}
}

/* Copies a printable string member that fits. */
static int get_text(const json_t *json, const char *key, char *out, size_t room, struct err *err)
{
	const char *text;

	if (json_get_str(json, key, &text, err))
		return -1;
	if (strlen(text) >= room)
		return err_set(err, "\"%s\" is longer than %zu bytes", key, room - 1);
	for (const char *at = text; *at; at++)
		if (*at < ' ' || *at > '~')
			return err_set(err, "\"%s\" is not printable ASCII", key);
	snprintf(out, room, "%s", text);
	return 0;
}

static int get_sha256(const json_t *json, const char *key, char out[HASH_HEX], struct err *err)
{
	uint8_t raw[HASH_BYTES];

	if (get_text(json, key, out, HASH_HEX, err))
		return -1;
	return hex_decode(raw, sizeof(raw), out) ? err_set(err, "\"%s\" must be a SHA-256", key) : 0;
}

static int parse_module(struct catalog_module *module, const json_t *json, struct err *err)
{
	static const char *const known[] = {"build_id",	  "path",     "sha256", "size",
					    "srcversion", "undef_syms_sha256", "vermagic", NULL};
	char unused[HASH_HEX];
	int64_t size;

	if (json_only_keys(json, known, err) ||
	    get_text(json, "path", module->path, sizeof(module->path), err) ||
	    get_sha256(json, "sha256", module->sha256_hex, err) ||
	    get_sha256(json, "undef_syms_sha256", unused, err) ||
	    get_text(json, "build_id", unused, sizeof(unused), err) ||
	    get_text(json, "srcversion", module->srcversion, sizeof(module->srcversion), err) ||
	    get_text(json, "vermagic", module->vermagic, sizeof(module->vermagic), err) ||
	    json_get_int(json, "size", &size, err))
		return -1;
	if (size < 1 || size > CATALOG_MODULE_BYTES_MAX)
		return err_set(err, "\"size\" out of range");
	module->size_bytes = (uint64_t)size;
	return hex_decode(module->sha256, sizeof(module->sha256), module->sha256_hex);
}

static int parse_headers(const json_t *headers, struct err *err)
{
	static const char *const known[] = {"package", "sha256", "version", NULL};
	char text[PACKAGE_TEXT_MAX], hash[HASH_HEX];
	json_t *item;
	size_t i;

	if (!json_array_size(headers) || json_array_size(headers) > HEADERS_MAX)
		return err_set(err, "\"headers\" must have 1 to %d packages", HEADERS_MAX);
	json_array_foreach(headers, i, item)
		if (json_only_keys(item, known, err) ||
		    get_text(item, "package", text, sizeof(text), err) ||
		    get_text(item, "version", text, sizeof(text), err) ||
		    get_sha256(item, "sha256", hash, err))
			return err_prefix(err, "header package %zu", i);
	return 0;
}

static int parse_toolchain(const json_t *toolchain, struct err *err)
{
	static const char *const known[] = {"binutils", "gcc", "root_sha256", NULL};
	char text[PACKAGE_TEXT_MAX], hash[HASH_HEX];

	return json_only_keys(toolchain, known, err) ||
			       get_text(toolchain, "gcc", text, sizeof(text), err) ||
			       get_text(toolchain, "binutils", text, sizeof(text), err) ||
			       get_sha256(toolchain, "root_sha256", hash, err)
		       ? -1
		       : 0;
}

static int parse_conditions(json_t *conditions, struct err *err)
{
	char text[PACKAGE_TEXT_MAX];
	const char *key;
	json_t *value;

	if (json_object_size(conditions) > CONDITIONS_MAX)
		return err_set(err, "more than %d conditions", CONDITIONS_MAX);
	json_object_foreach(conditions, key, value)
		if (get_text(conditions, key, text, sizeof(text), err))
			return -1;
	return 0;
}

/* At least two builds, each of which gave the very hash of the module. */
static int parse_builds(struct catalog_module *module, const json_t *builds, struct err *err)
{
	static const char *const known[] = {"builder", "conditions", "name", "raw_sha256", "sha256", NULL};
	char text[CATALOG_TEXT_MAX], hash[HASH_HEX], raw[HASH_HEX];
	json_t *item, *conditions;
	size_t i;

	if (json_array_size(builds) < 2 || json_array_size(builds) > BUILDS_MAX)
		return err_set(err, "\"builds\" must have 2 to %d items", BUILDS_MAX);
	json_array_foreach(builds, i, item) {
		if (json_only_keys(item, known, err) ||
		    get_text(item, "builder", text, sizeof(text), err) ||
		    get_text(item, "name", text, sizeof(text), err) ||
		    get_sha256(item, "sha256", hash, err) || get_sha256(item, "raw_sha256", raw, err) ||
		    json_get_object(item, "conditions", &conditions, err) ||
		    parse_conditions(conditions, err))
			return err_prefix(err, "build %zu", i);
		if (strcmp(hash, module->sha256_hex))
			return err_set(err, "build %zu gave another hash", i);
	}
	module->builds = (uint32_t)json_array_size(builds);
	return 0;
}

static int parse_load_test(struct catalog_module *module, const json_t *test, struct err *err)
{
	static const char *const known[] = {"accel", "events", "kernel", "result", "when", NULL};
	char kernel[CATALOG_RELEASE_MAX], text[CATALOG_TEXT_MAX];

	if (json_is_null(test))
		return 0;
	if (!json_is_object(test))
		return err_set(err, "\"load_tested\" must be an object or null");
	if (json_only_keys(test, known, err) || get_text(test, "kernel", kernel, sizeof(kernel), err) ||
	    get_text(test, "accel", text, sizeof(text), err) ||
	    get_text(test, "events", text, sizeof(text), err) ||
	    get_text(test, "when", text, sizeof(text), err) ||
	    get_text(test, "result", text, sizeof(text), err))
		return err_prefix(err, "\"load_tested\"");
	module->load_tested = !strcmp(text, "ok") && !strcmp(kernel, module->release);
	return 0;
}

static int parse_entry(struct catalog_module *module, const json_t *json, struct err *err)
{
	static const char *const known[] = {"builds",  "flavour", "headers", "inrelease_sha256",
					    "load_tested", "module", "release", "suite", "toolchain", NULL};
	json_t *inner, *headers, *toolchain, *builds;
	char hash[HASH_HEX];

	if (json_only_keys(json, known, err) ||
	    get_text(json, "release", module->release, sizeof(module->release), err) ||
	    get_text(json, "flavour", module->flavour, sizeof(module->flavour), err) ||
	    get_text(json, "suite", module->suite, sizeof(module->suite), err) ||
	    get_sha256(json, "inrelease_sha256", hash, err) ||
	    json_get_object(json, "module", &inner, err) || parse_module(module, inner, err) ||
	    json_get_array(json, "headers", &headers, err) || parse_headers(headers, err) ||
	    json_get_object(json, "toolchain", &toolchain, err) || parse_toolchain(toolchain, err) ||
	    json_get_array(json, "builds", &builds, err) || parse_builds(module, builds, err))
		return -1;
	if (!*module->release)
		return err_set(err, "\"release\" is empty");
	return parse_load_test(module, json_object_get(json, "load_tested"), err);
}

static int parse_entries(struct catalog_document *doc, const json_t *entries, struct err *err)
{
	size_t n = json_array_size(entries);
	json_t *item;
	size_t i;

	if (n > CATALOG_MODULES_MAX)
		return err_set(err, "more than %d modules", CATALOG_MODULES_MAX);
	doc->modules = calloc(n + 1, sizeof(*doc->modules));
	if (!doc->modules)
		return err_set(err, "out of memory");
	json_array_foreach(entries, i, item) {
		if (parse_entry(&doc->modules[i], item, err))
			return err_prefix(err, "entry %zu", i);
		/* In order and each once, so that there is one answer to each question. */
		if (i && strcmp(doc->modules[i - 1].release, doc->modules[i].release) >= 0)
			return err_set(err, "entry %zu is out of order", i);
		doc->info.modules = i + 1;
	}
	return 0;
}

static int parse_revoked(struct catalog_document *doc, const json_t *revoked, struct err *err)
{
	uint8_t raw[HASH_BYTES];
	const char *last = "";
	json_t *item;
	size_t i;

	if (json_array_size(revoked) > CATALOG_MODULES_MAX)
		return err_set(err, "more than %d revoked hashes", CATALOG_MODULES_MAX);
	json_array_foreach(revoked, i, item) {
		const char *hash = json_is_string(item) ? json_string_value(item) : "";

		if (hex_decode(raw, sizeof(raw), hash) || strcmp(last, hash) >= 0)
			return err_set(err, "\"revoked\" must be sorted hashes");
		last = hash;
		for (size_t m = 0; m < doc->info.modules; m++)
			doc->modules[m].revoked |= !strcmp(doc->modules[m].sha256_hex, hash);
	}
	return 0;
}

static int parse_source(struct catalog_document *doc, const json_t *source, struct err *err)
{
	static const char *const known[] = {"commit", "tree_sha256", NULL};

	return json_only_keys(source, known, err) ||
			       get_text(source, "commit", doc->info.source_commit,
					sizeof(doc->info.source_commit), err) ||
			       get_sha256(source, "tree_sha256", doc->info.source_sha256, err)
		       ? -1
		       : 0;
}

static int parse_members(struct catalog_document *doc, struct err *err)
{
	static const char *const known[] = {"entries", "expires",  "issued",	   "log_head", "recipe_sha256",
					    "revoked", "root_version", "schema", "source",   "type",
					    "version", NULL};
	const json_t *json = doc->json;
	int64_t schema, version, root_version, issued_s;
	json_t *entries, *revoked, *source;
	char recipe[HASH_HEX];
	const char *type;

	if (json_only_keys(json, known, err) || json_get_str(json, "type", &type, err) ||
	    json_get_int(json, "schema", &schema, err) || json_get_int(json, "version", &version, err) ||
	    json_get_int(json, "root_version", &root_version, err) ||
	    get_text(json, "issued", doc->info.issued, sizeof(doc->info.issued), err) ||
	    get_text(json, "expires", doc->info.expires, sizeof(doc->info.expires), err) ||
	    get_sha256(json, "log_head", doc->log_head, err) ||
	    get_sha256(json, "recipe_sha256", recipe, err) ||
	    json_get_object(json, "source", &source, err) ||
	    json_get_array(json, "entries", &entries, err) ||
	    json_get_array(json, "revoked", &revoked, err))
		return -1;
	if (strcmp(type, "holdfast-catalog") || schema != 1 || version < 1 || root_version < 1)
		return err_set(err, "not a catalog of schema 1");
	if (canon_time(doc->info.issued, &issued_s) || canon_time(doc->info.expires, &doc->expires_s))
		return err_set(err, "\"issued\" and \"expires\" must be times");
	doc->info.version = (uint64_t)version;
	doc->info.root_version = (uint64_t)root_version;
	return parse_source(doc, source, err) || parse_entries(doc, entries, err) ||
			       parse_revoked(doc, revoked, err)
		       ? -1
		       : 0;
}

int catalog_document_parse(struct catalog_document *doc, const void *text, size_t n, struct err *err)
{
	uint8_t hash[HASH_BYTES];

	memset(doc, 0, sizeof(*doc));
	doc->json = canon_parse(text, n, err);
	if (!doc->json)
		return -1;
	if (parse_members(doc, err))
		return err_prefix(err, "malformed");
	for (size_t i = 0; i < doc->info.modules; i++)
		if (catalog_path_check(doc->modules[i].path, err))
			return -1;
	hash_sha256(hash, text, n);
	hex_encode(doc->info.sha256_hex, hash, sizeof(hash));
	return 0;
}

void catalog_document_free(struct catalog_document *doc)
{
	free(doc->modules);
	json_decref(doc->json);
	memset(doc, 0, sizeof(*doc));
}
