/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verbs of holdfast-catalog and the options that they share. */
#ifndef HOLDFAST_CATALOG_VERBS_H
#define HOLDFAST_CATALOG_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/catalog/catalog.h"
#include "lib/err.h"

struct verb_options {
	struct catalog_config config;
	char keys[4096];
	const char *source; /* tree to rebuild from */
	int64_t days;
	int64_t timestamp_days;
	bool json;
	bool local;
	bool timestamp_only;
	int argc; /* what is left after the options */
	char **argv;
};

/* Exit codes of the program. */
enum { VERB_OK = 0, VERB_REFUSED = 1, VERB_USAGE = 2 };

int verb_verify(const struct verb_options *o);
int verb_list(const struct verb_options *o);
int verb_show(const struct verb_options *o);
int verb_diff(const struct verb_options *o);
int verb_rebuild(const struct verb_options *o);
int verb_init(const struct verb_options *o);
int verb_sign(const struct verb_options *o);
int verb_rotate(const struct verb_options *o);
int verb_revoke(const struct verb_options *o);

/* Prints "holdfast-catalog: TEXT" and returns VERB_REFUSED. */
int verb_refused(const struct err *err);

#endif
