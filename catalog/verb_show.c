/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Verbs that read a catalog: verify, list, show, diff. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog/provenance.h"
#include "catalog/verbs.h"
#include "lib/catalog/internal.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

static struct catalog *open_catalog(const struct verb_options *o, const char *dir)
{
	struct catalog_config config = o->config;
	struct catalog *catalog;
	struct err err;

	if (dir)
		config.dir = dir;
	catalog = catalog_open(&config, &err);
	if (!catalog)
		verb_refused(&err);
	return catalog;
}

static const char *origin(const struct catalog_info *info)
{
	return info->local ? "local build, signed with a key made on a machine at set-up" : "release";
}

static int64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

static int check_provenance(const struct catalog *catalog, const struct catalog_module *module,
			    struct err *err)
{
	char path[CATALOG_PATH_MAX + 32];
	struct buf text;
	int rc, fd;

	snprintf(path, sizeof(path), "%s/" PROVENANCE_FILE, module->release);
	fd = catalog_open_beneath(catalog->dirfd, path, err);
	if (fd < 0)
		return -1;
	close(fd);
	buf_init(&text, 1 << 20);
	rc = io_read_file_at(catalog->dirfd, path, &text, err) ||
	     provenance_check(text.data, text.len, &catalog->root, module->sha256_hex, err);
	buf_free(&text);
	return rc ? -1 : 0;
}

/* A revoked module is listed as such and not a failure of the catalog. */
static int verify_module(struct catalog *catalog, const struct catalog_module *module, struct err *err)
{
	int fd;

	if (module->revoked)
		return 0;
	fd = catalog_stage(catalog, module, err);
	if (fd < 0)
		return -1;
	close(fd);
	return check_provenance(catalog, module, err);
}

static void print_verdict(const struct verb_options *o, const struct catalog_info *info, size_t bad,
			  int64_t took_us)
{
	if (o->json)
		printf("{\"version\":%" PRIu64 ",\"root_version\":%" PRIu64 ",\"sha256\":\"%s\",\"issued\":\"%s\","
		       "\"expires\":\"%s\",\"expired\":%s,\"local\":%s,\"modules\":%zu,\"bad\":%zu,"
		       "\"us_per_module\":%" PRId64 "}\n",
		       info->version, info->root_version, info->sha256_hex, info->issued, info->expires,
		       info->expired ? "true" : "false", info->local ? "true" : "false", info->modules, bad,
		       took_us);
	else
		printf("catalog %" PRIu64 " (%s), root %" PRIu64 ", issued %s, %s %s\n"
		       "%zu of %zu modules good, %" PRId64 " us each\n",
		       info->version, origin(info), info->root_version, info->issued,
		       info->expired ? "EXPIRED" : "good until", info->expires, info->modules - bad,
		       info->modules, took_us);
}

int verb_verify(const struct verb_options *o)
{
	struct catalog *catalog = open_catalog(o, o->argc ? o->argv[0] : NULL);
	const struct catalog_module *module;
	int64_t start_us = now_us(), took_us;
	struct err err;
	size_t bad = 0;

	if (!catalog)
		return VERB_REFUSED;
	for (size_t i = 0; (module = catalog_module_at(catalog, i)); i++) {
		if (!verify_module(catalog, module, &err))
			continue;
		fprintf(stderr, "holdfast-catalog: %s: %s\n", module->release, err.text);
		bad++;
	}
	took_us = catalog_about(catalog)->modules ? (now_us() - start_us) / (int64_t)catalog_about(catalog)->modules
						 : 0;
	print_verdict(o, catalog_about(catalog), bad, took_us);
	if (!bad && catalog_about(catalog)->expired)
		bad = 1;
	catalog_free(catalog);
	return bad ? VERB_REFUSED : VERB_OK;
}

int verb_list(const struct verb_options *o)
{
	struct catalog *catalog = open_catalog(o, o->argc ? o->argv[0] : NULL);
	const struct catalog_module *m;

	if (!catalog)
		return VERB_REFUSED;
	if (!o->json)
		printf("# catalog %" PRIu64 ", %s\n", catalog_about(catalog)->version,
		       origin(catalog_about(catalog)));
	for (size_t i = 0; (m = catalog_module_at(catalog, i)); i++) {
		if (o->json)
			printf("{\"release\":\"%s\",\"flavour\":\"%s\",\"suite\":\"%s\",\"sha256\":\"%s\","
			       "\"size\":%" PRIu64 ",\"builds\":%u,\"load_tested\":%s,\"revoked\":%s}\n",
			       m->release, m->flavour, m->suite, m->sha256_hex, m->size_bytes, m->builds,
			       m->load_tested ? "true" : "false", m->revoked ? "true" : "false");
		else
			printf("%-36s %-6s %-20s %.16s %7" PRIu64 " %u builds%s%s\n", m->release, m->flavour,
			       m->suite, m->sha256_hex, m->size_bytes, m->builds,
			       m->load_tested ? ", load tested" : "", m->revoked ? ", REVOKED" : "");
	}
	catalog_free(catalog);
	return VERB_OK;
}

int verb_show(const struct verb_options *o)
{
	struct catalog *catalog = open_catalog(o, NULL);
	const struct catalog_module *module;
	_cleanup_free_ char *text = NULL;

	if (!catalog)
		return VERB_REFUSED;
	for (size_t i = 0; (module = catalog_module_at(catalog, i)); i++)
		if (!strcmp(module->release, o->argv[0]))
			text = json_dumps(json_array_get(json_object_get(catalog->doc.json, "entries"), i),
					  JSON_SORT_KEYS | (o->json ? JSON_COMPACT : JSON_INDENT(2)));
	catalog_free(catalog);
	if (!text) {
		fprintf(stderr, "holdfast-catalog: no module for %s\n", o->argv[0]);
		return VERB_REFUSED;
	}
	puts(text);
	return VERB_OK;
}

/* A catalog.json, or a folder of modules with a current one. Only its form is checked here. */
static int read_document(struct catalog_document *doc, const char *path, struct err *err)
{
	char inner[4200];
	struct buf text;
	struct stat st;
	int rc;

	snprintf(inner, sizeof(inner), "%s", path);
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		snprintf(inner, sizeof(inner), "%s/current/catalog.json", path);
	memset(doc, 0, sizeof(*doc));
	buf_init(&text, 4 << 20);
	rc = io_read_file(inner, &text, err) || catalog_document_parse(doc, text.data, text.len, err);
	buf_free(&text);
	return rc ? err_prefix(err, "%s", inner) : 0;
}

static void print_change(const struct verb_options *o, const char *what, const struct catalog_module *old,
			 const struct catalog_module *new)
{
	const struct catalog_module *any = new ? new : old;

	if (o->json)
		printf("{\"change\":\"%s\",\"release\":\"%s\",\"old\":\"%s\",\"new\":\"%s\"}\n", what,
		       any->release, old ? old->sha256_hex : "", new ? new->sha256_hex : "");
	else
		printf("%-8s %-36s %.16s%s%.16s\n", what, any->release, old ? old->sha256_hex : "",
		       old && new ? " -> " : "", new ? new->sha256_hex : "");
}

/* Both lists are in release order. */
static void compare(const struct verb_options *o, const struct catalog_document *a,
		    const struct catalog_document *b)
{
	size_t i = 0, j = 0;

	while (i < a->info.modules || j < b->info.modules) {
		const struct catalog_module *old = i < a->info.modules ? &a->modules[i] : NULL;
		const struct catalog_module *new = j < b->info.modules ? &b->modules[j] : NULL;
		int order = !old ? 1 : !new ? -1 : strcmp(old->release, new->release);

		i += order <= 0;
		j += order >= 0;
		if (order < 0)
			print_change(o, "removed", old, NULL);
		else if (order > 0)
			print_change(o, "added", NULL, new);
		else if (strcmp(old->sha256_hex, new->sha256_hex))
			print_change(o, "changed", old, new);
		else if (old->revoked != new->revoked)
			print_change(o, new->revoked ? "revoked" : "restored", old, new);
	}
}

int verb_diff(const struct verb_options *o)
{
	struct catalog_document a, b = {0};
	struct err err;
	int rc = VERB_OK;

	if (read_document(&a, o->argv[0], &err) || read_document(&b, o->argv[1], &err))
		rc = verb_refused(&err);
	else
		compare(o, &a, &b);
	catalog_document_free(&a);
	catalog_document_free(&b);
	return rc;
}
