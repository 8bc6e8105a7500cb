/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Provenance of a module: an in-toto statement with a SLSA v1 predicate, in a DSSE envelope. */
#ifndef HOLDFAST_CATALOG_PROVENANCE_H
#define HOLDFAST_CATALOG_PROVENANCE_H

#include <jansson.h>

#include "catalog/keyfile.h"
#include "lib/catalog/root.h"
#include "lib/err.h"

#define PROVENANCE_FILE "provenance.json"
#define PROVENANCE_TYPE "application/vnd.in-toto+json"

/* Envelope text for a catalog entry and the source it came from; the caller frees it. */
char *provenance_make(const json_t *entry, const json_t *source, const char *recipe_sha256,
		      const struct keyfile *key, struct err *err);

/* Checks the envelope's signature by the catalog role and that its subject is this hash. */
int provenance_check(const void *text, size_t n, const struct catalog_root *root, const char *sha256_hex,
		     struct err *err);

#endif
