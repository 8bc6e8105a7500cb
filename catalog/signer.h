/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From unsigned records of builds to a signed catalog. */
#ifndef HOLDFAST_CATALOG_SIGNER_H
#define HOLDFAST_CATALOG_SIGNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

struct signer_options {
	const char *dir;	   /* folder of modules, DIR/RELEASE/{sentry.ko,record.json} */
	const char *keys;	   /* folder of keys (catalog/roots.h) */
	int64_t catalog_life_days; /* default 30 */
	int64_t timestamp_life_days;
	const char *const *revoke; /* hashes to revoke besides those revoked already */
	size_t n_revoke;
	bool timestamp_only; /* the timestamp key alone: says again which catalog is current */
};

struct signer_result {
	uint64_t version;
	size_t modules;
	size_t left_out; /* records of another source than the newest */
	bool unchanged;
};

/*
 * Checks every record (two builds with the hash of the file that is there, every static check, no
 * test-only switch), signs modules and provenance, writes catalog, timestamp and log as one new set
 * and exchanges it. A record that does not hold stops the whole: nothing is signed then.
 */
int signer_run(const struct signer_options *options, struct signer_result *result, struct err *err);

#endif
