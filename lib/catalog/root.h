/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Root documents: which keys may sign what, and how one root document hands over to the next. */
#ifndef HOLDFAST_LIB_CATALOG_ROOT_H
#define HOLDFAST_LIB_CATALOG_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/catalog/minisig.h"
#include "lib/err.h"
#include "lib/hash.h"

enum catalog_role { CATALOG_ROLE_ROOT, CATALOG_ROLE_CATALOG, CATALOG_ROLE_TIMESTAMP, CATALOG_ROLES };
enum { CATALOG_ROOT_KEYS_MAX = 16, CATALOG_ROOT_BYTES_MAX = 64 * 1024 };

struct catalog_root {
	uint64_t version;
	int64_t expires_s;
	bool local; /* its keys were made on this machine at set-up */
	struct minisig_key keys[CATALOG_ROOT_KEYS_MAX];
	size_t n_keys;
	struct {
		bool may[CATALOG_ROOT_KEYS_MAX];
		size_t threshold;
	} roles[CATALOG_ROLES];
	char sha256_hex[HASH_HEX];
};

extern const char *const catalog_role_names[CATALOG_ROLES];

int catalog_root_parse(struct catalog_root *root, const void *text, size_t n, struct err *err);

/* The text that the trusted comment of a signature must be; `what` is root, timestamp or catalog. */
void catalog_comment(char out[MINISIG_COMMENT_MAX], const char *what, uint64_t version,
		     const char *sha256_hex);

/*
 * Counts the keys of the role that signed these bytes with this comment, by reading
 * DIRFD/NAME.KEYID.minisig for each of them. A broken signature counts as none.
 */
size_t catalog_root_count(const struct catalog_root *root, enum catalog_role role, int dirfd,
			  const char *name, const struct buf *text, const char *comment);

/* One signature over these bytes by any key of the role. The comment is the caller's to compare. */
int catalog_root_check(const struct catalog_root *root, enum catalog_role role,
		       const struct minisig *sig, const void *data, size_t n, struct err *err);
/* Refuses a signature that was made for something else. */
int catalog_comment_check(const struct minisig *sig, const char *comment, struct err *err);

/*
 * Replaces *root by root.(version+1).json of the folder, and so on, as long as there is one: each
 * must be signed by the threshold of its predecessor and by its own. *text keeps the bytes of the
 * last one. `changed[role]` is set when the role's keys are other ones afterwards.
 */
int catalog_root_walk(struct catalog_root *root, struct buf *text, int dirfd,
		      bool changed[CATALOG_ROLES], struct err *err);

#endif
