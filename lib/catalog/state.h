/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one user of catalogs has seen: highest versions, where the log ended, which modules were good. */
#ifndef HOLDFAST_LIB_CATALOG_STATE_H
#define HOLDFAST_LIB_CATALOG_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/hash.h"

enum { CATALOG_VERIFIED_MAX = 4096 };

/* Kept on the host, out of reach of any guest. When the list is full its oldest entry is forgotten. */
struct catalog_state {
	uint64_t root_version; /* 0: no root of its own yet */
	char root_sha256[HASH_HEX];
	uint64_t catalog_version;
	char catalog_sha256[HASH_HEX];
	uint64_t timestamp_version;
	uint64_t log_lines;
	char log_head[HASH_HEX]; /* SHA-256 of the last line seen */
	char (*verified)[HASH_HEX];
	size_t n_verified;
};

/* A missing file is an empty state; a broken one is an error, never an empty state. */
int catalog_state_load(struct catalog_state *state, int dirfd, struct err *err);
int catalog_state_save(const struct catalog_state *state, int dirfd, struct err *err);
void catalog_state_free(struct catalog_state *state);

bool catalog_state_verified(const struct catalog_state *state, const char *sha256_hex);
int catalog_state_add_verified(struct catalog_state *state, const char *sha256_hex);

#endif
