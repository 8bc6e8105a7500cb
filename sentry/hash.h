/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SHA-256 of programs, computed by a thread of its own from the executing file object. */
#ifndef SENTRY_HASH_H
#define SENTRY_HASH_H

#include "json.h"
#include "record.h"

enum sentry_hash_state {
	SENTRY_HASH_NOT_ASKED,
	SENTRY_HASH_WAITING, /* "hashing", as is the next */
	SENTRY_HASH_RUNNING,
	SENTRY_HASH_DONE,
	SENTRY_HASH_VERITY, /* the file system vouches for the file by a digest of its own */
	SENTRY_HASH_UNSUPPORTED_FS,
	SENTRY_HASH_TOO_LARGE,
	SENTRY_HASH_FAILED,
};

/* Make the thread; it runs once it is started, and can be discarded only before that. */
int sentry_hash_create(void);
void sentry_hash_start(void);
void sentry_hash_discard(void);

/* The programs to hash: paths, one a line; one that ends with "*" stands for all that begin so. May sleep. */
int sentry_hash_set_programs(const char *list);

/* The rest is for the Sentry's main thread. */

/* An exec record has passed: begin with its program if it is one of those asked for. */
void sentry_hash_exec(const struct sentry_record *record);

/* "exe_sha256", "exe_verity" or "exe_hash", and "exe_id", of the subject of a flow. */
void sentry_hash_members(struct sentry_json *j, const struct sentry_record *record);

/* The members of a program_hash event. */
void sentry_hash_result_members(struct sentry_json *j, const struct sentry_record *record);

#endif
