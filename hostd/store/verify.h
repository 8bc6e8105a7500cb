/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a timeline, or an export of one, hold together? Needs no daemon; needs to know whose key to trust. */
#ifndef HOSTD_STORE_VERIFY_H
#define HOSTD_STORE_VERIFY_H

#include <sqlite3.h>
#include <stdio.h>

#include "hostd/store/chain.h"

#define VERIFY_PINS_MAX 64

/* Keys that the reader trusts, by fingerprint. */
struct verify_pins {
	char fingerprint[VERIFY_PINS_MAX][STORE_FINGERPRINT_SIZE];
	unsigned n;
};

/* @text: a fingerprint ("hf1:…"), or the path of a public key file. */
int verify_pin_add(struct verify_pins *pins, const char *text, struct err *e);
/* A file with one fingerprint a line ('#' begins a comment); a missing one is empty. */
int verify_pins_load(struct verify_pins *pins, const char *path, struct err *e);
/* Adds a fingerprint to that file (0600) unless it is there: hostd pins its own key when it makes it. */
int verify_pins_save(const char *path, const char *fingerprint, struct err *e);

struct verify_report {
	char fingerprint[STORE_FINGERPRINT_SIZE];
	uint64_t first_row, last_row, rows, omitted, frames, checkpoints;
	uint64_t unsigned_rows; /* after the last checkpoint of a database: under 1 000 and 60 s old, or hostd is down */
	int64_t signed_ns;	/* when the last checkpoint was signed */
	uint64_t bad_row;	/* the first row that does not fit, 0: none, or not about a row */
	char text[512];		/* why it does not verify */
};

/* 0: it verifies; -1: it does not, and @report->text says why in one line. */
int verify_db(const char *db_path, const char *anchor_path, const struct verify_pins *pins, struct verify_report *report);
int verify_export(FILE *in, const struct verify_pins *pins, struct verify_report *report);
/* Is this file an export (JSON lines) rather than a database? */
bool verify_is_export(const char *path);

/* ---- shared with export.c ---- */

/* The signed end of an export. */
struct verify_end {
	uint64_t rows, omitted, frames, last_id;
	uint8_t store_id[32], head[STORE_HASH_BYTES], sha256[32], sig[ED25519_SIGNATURE];
};

void verify_end_sign(struct verify_end *end, const struct ed25519_secret *key);
json_t *verify_end_json(const struct verify_end *end);
/* The store's key and the checkpoint that its rows begin after (n 0: genesis). */
int verify_base(sqlite3 *sql, struct ed25519_public *key, struct checkpoint *base, struct err *e);
/* Takes the next row of "SELECT * FROM checkpoints …"; 1: there was one, 0: no more, -1: broken. */
int verify_next_checkpoint(sqlite3_stmt *st, const uint8_t store_id[32], struct checkpoint *c);

#endif
