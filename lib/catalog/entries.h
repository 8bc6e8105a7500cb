/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The catalog document: its entries, parsed with every bound checked. */
#ifndef HOLDFAST_LIB_CATALOG_ENTRIES_H
#define HOLDFAST_LIB_CATALOG_ENTRIES_H

#include <jansson.h>

#include "lib/catalog/catalog.h"

enum { CATALOG_MODULES_MAX = 4096, CATALOG_MODULE_BYTES_MAX = 64 << 20 };

struct catalog_document {
	struct catalog_info info; /* without what the timestamp and the root add */
	int64_t expires_s;
	char log_head[HASH_HEX]; /* last line of the log before this catalog's own */
	struct catalog_module *modules;
	json_t *json; /* the whole document, for those who show it */
};

/* Parses hostile bytes. Errors start with malformed or bad_path. Free it also after a failure. */
int catalog_document_parse(struct catalog_document *doc, const void *text, size_t n, struct err *err);
void catalog_document_free(struct catalog_document *doc);

/* Nothing but names below the folder: relative, without "." and "..", without odd characters. */
int catalog_path_check(const char *path, struct err *err);

#endif
