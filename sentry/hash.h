/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SHA-256 of programs, computed by a thread of its own from the executing file object. */
#ifndef SENTRY_HASH_H
#define SENTRY_HASH_H

#include "json.h"
#include "record.h"

int sentry_hash_init(void);

/* An exec record has passed: begin with its program if it is one of those asked for. */
void sentry_hash_exec(const struct sentry_record *record);

/* "exe_sha256" or "exe_hash" of the subject of a flow. */
void sentry_hash_members(struct sentry_json *j, const struct sentry_record *record);

#endif
