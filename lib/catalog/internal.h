/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the catalog's reader share; users include catalog.h. */
#ifndef HOLDFAST_LIB_CATALOG_INTERNAL_H
#define HOLDFAST_LIB_CATALOG_INTERNAL_H

#include "lib/buf.h"
#include "lib/catalog/catalog.h"
#include "lib/catalog/entries.h"
#include "lib/catalog/root.h"
#include "lib/catalog/state.h"

struct catalog {
	int dirfd;   /* folder of modules */
	int statefd; /* -1: no memory */
	int64_t now_s;
	struct catalog_root root;
	struct buf root_text;
	struct catalog_document doc;
	struct catalog_state state;
};

/* Opens a file below dirfd for reading, never through a symlink. fd, or -1 with a bad_path refusal. */
int catalog_open_beneath(int dirfd, const char *path, struct err *err);

/* Reads a metadata file of the folder `current`; a missing one is a no_catalog refusal. */
int catalog_read_file(int metafd, const char *name, size_t max, struct buf *out, struct err *err);

/* Holds the lock of the state folder until the fd is closed; -1 on failure. */
int catalog_state_lock(int statefd, struct err *err);

#endif
