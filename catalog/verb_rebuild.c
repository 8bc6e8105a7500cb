/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Verb rebuild: anyone builds one module again from what the catalog says, and compares. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/verbs.h"
#include "lib/catalog/internal.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

/* The recipe lies in the source tree, which is what is being rebuilt. */
static int find_recipe(const struct verb_options *o, char *out, size_t room, struct err *err)
{
	char prefix[4096];
	const char *trees[] = {o->source, ".", prefix};
	ssize_t n = readlink("/proc/self/exe", prefix, sizeof(prefix) - 1);

	/* build/bin/holdfast-catalog: the tree is three up. */
	prefix[n < 0 ? 0 : n] = '\0';
	for (int i = 0; i < 3; i++)
		if (strrchr(prefix, '/'))
			*strrchr(prefix, '/') = '\0';
	for (size_t i = 0; i < 3; i++) {
		snprintf(out, room, "%s/ci/modules/rebuild", trees[i] ? trees[i] : "");
		if (trees[i] && !access(out, X_OK))
			return 0;
	}
	return err_set(err, "no source tree here; name one with --source");
}

/* The entry with the catalog's source and recipe, as the recipe reads it from its standard input. */
static char *entry_text(const struct catalog *catalog, const char *release)
{
	const json_t *entries = json_object_get(catalog->doc.json, "entries");
	_cleanup_json_ json_t *copy = NULL;
	const struct catalog_module *module;

	for (size_t i = 0; (module = catalog_module_at(catalog, i)); i++) {
		if (strcmp(module->release, release))
			continue;
		copy = json_copy(json_array_get(entries, i));
		json_object_set(copy, "source", json_object_get(catalog->doc.json, "source"));
		json_object_set(copy, "recipe_sha256", json_object_get(catalog->doc.json, "recipe_sha256"));
	}
	return copy ? json_text(copy) : NULL;
}

static int to_stdin(const char *text, struct err *err)
{
	char name[] = "/tmp/holdfast-entry.XXXXXX";
	_cleanup_close_ int fd = mkostemp(name, O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "%s", name);
	unlink(name);
	if (io_write_all(fd, text, strlen(text)) || lseek(fd, 0, SEEK_SET) || dup2(fd, STDIN_FILENO) < 0)
		return err_errno(err, "entry");
	return 0;
}

int verb_rebuild(const struct verb_options *o)
{
	struct err err;
	struct catalog *catalog = catalog_open(&o->config, &err);
	_cleanup_free_ char *text = NULL;
	char recipe[4300];

	if (!catalog)
		return verb_refused(&err);
	text = entry_text(catalog, o->argv[0]);
	catalog_free(catalog);
	if (!text)
		err_set(&err, "no module for %s", o->argv[0]);
	if (!text || find_recipe(o, recipe, sizeof(recipe), &err) || to_stdin(text, &err))
		return verb_refused(&err);
	if (o->source && setenv("HOLDFAST_SOURCE", o->source, 1))
		return verb_refused(&err);
	execl(recipe, recipe, (char *)NULL);
	err_errno(&err, "%s", recipe);
	return verb_refused(&err);
}
