/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Folding: the first row of a kind of thing at once, the rest as one row when its window ends. */
#ifndef HOSTD_STORE_FOLD_H
#define HOSTD_STORE_FOLD_H

#include "hostd/store/store.h"

#define FOLD_PER_WS 512	  /* open windows of one workspace; beyond, one window for each kind takes the rest */
#define FOLD_TOTAL 16384
#define FOLD_PROCS 64	  /* processes told apart in a window; 64 in a row means 64 or more */

struct fold;

/* Members of data that a window adds up; ends with NULL. */
extern const char *const fold_sums[];

struct fold *fold_new(void);
void fold_free(struct fold *f);

/* true: absorbed, no row. false: write the row; a window may have opened. @sentence is what makes rows the same. */
bool fold_take(struct fold *f, const struct store_row *row, const char *sentence, int64_t now_ms);

/* The closing rows of windows that ended by @now_ms (all of them with INT64_MAX). Strings are valid during the call. */
typedef void (*fold_row_fn)(void *u, const struct store_row *row, const uint8_t key[STORE_HASH_BYTES]);
void fold_close(struct fold *f, int64_t now_ms, fold_row_fn fn, void *u);
/* When the next window ends; INT64_MAX: none is open. */
int64_t fold_next(const struct fold *f);

/* Windows that absorbed something since the last call, to be kept with the rows; @json is what fold_load() takes. */
typedef void (*fold_save_fn)(void *u, const uint8_t key[STORE_HASH_BYTES], const char *json);
void fold_save(struct fold *f, fold_save_fn fn, void *u);
/* A window that a crash left open: its closing row is due at once. */
int fold_load(struct fold *f, const uint8_t key[STORE_HASH_BYTES], const char *json);

#endif
