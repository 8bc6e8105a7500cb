/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unsigned records of builds: read, checked against the files, turned into catalog entries. */
#ifndef HOLDFAST_CATALOG_RECORDS_H
#define HOLDFAST_CATALOG_RECORDS_H

#include <jansson.h>
#include <stddef.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/hash.h"

struct records {
	json_t *entries; /* sorted by release */
	json_t *source;	 /* {commit, tree_sha256} that all of them have */
	char recipe_sha256[HASH_HEX];
	size_t left_out; /* built from another source or by another recipe than the newest record */
};

/* Reads DIR/<release>/record.json of every folder. Any record that does not hold is an error. */
int records_read(struct records *out, int dirfd, struct err *err);
void records_free(struct records *records);

/* The module of an entry, read whole and hashed. */
int records_module(const json_t *entry, int dirfd, struct buf *out, struct err *err);

#endif
