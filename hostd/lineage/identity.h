/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which file a program's name stands for in one workspace: pinned at first use, and whether it is still that one. */
#ifndef HOLDFAST_LINEAGE_IDENTITY_H
#define HOLDFAST_LINEAGE_IDENTITY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	IDENTITY_PINS_MAX = 1024,   /* programs; further ones are "unknown", none is forgotten for them */
	IDENTITY_HASHES_MAX = 1024, /* results remembered by the state of their file; the oldest goes first */
};

/* The package manager: what it changes is "updated", but for its own file, which is hashed and pinned like others. */
#define IDENTITY_PACKAGE_MANAGER "/usr/bin/dpkg"

enum identity_verdict {
	IDENTITY_SAME,
	IDENTITY_PINNED,  /* first use: from now on this one */
	IDENTITY_UPDATED, /* another, and the package manager ran since it was last seen: from now on this one */
	IDENTITY_CHANGED, /* another, without that */
	IDENTITY_HASHING, /* the Sentry is still reading the file */
	IDENTITY_UNKNOWN, /* cannot be said, and *why tells for what reason */
};

struct identity;

/* kept: what identity_json() said earlier, or NULL. NULL when out of memory. */
struct identity *identity_new(const json_t *kept);
void identity_free(struct identity *id);

/*
 * Takes exec, exit and program_hash events. For a hash: what it makes of the program that it is about, which is pinned
 * here if it was not; else IDENTITY_SAME. *keep: the pins changed.
 */
enum identity_verdict identity_event(struct identity *id, const char *kind, const json_t *event, bool *keep);

/*
 * The program of a net_flow event, or of an answer of the guest's attestor ("attested_by"), which can confirm a pin but
 * never make one. why: NULL or a reason that lives on, set for IDENTITY_UNKNOWN and IDENTITY_CHANGED. After
 * IDENTITY_PINNED and IDENTITY_UPDATED the pins have to be kept.
 */
enum identity_verdict identity_check(struct identity *id, const json_t *event, const char **why);

/*
 * The same for an ancestor, of which only the path is known: what the last hash of a file under this name was.
 * IDENTITY_HASHING if there was none yet.
 */
enum identity_verdict identity_check_name(struct identity *id, const char *program, const char **why);

/* After IDENTITY_CHANGED: true the first time for this file, when it is to be told and the pins to be kept. */
bool identity_note_change(struct identity *id, const json_t *event);

/* "sha256:HEX" or "verity:HEX" of an event, also if its result came later by program_hash; NULL if there is none. */
const char *identity_digest(struct identity *id, const json_t *event, char out[80]);

/* Forget the pin of one program, or with NULL all of them. Returns how many there were. */
size_t identity_forget(struct identity *id, const char *program);

/* What is to be kept; the caller's. */
json_t *identity_json(const struct identity *id);

#endif
