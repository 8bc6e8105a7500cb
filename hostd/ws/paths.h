/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where Holdfast keeps things: the XDG folders, the sockets, the shipped files. */
#ifndef HOLDFAST_WS_PATHS_H
#define HOLDFAST_WS_PATHS_H

#include "lib/err.h"

enum { PATHS_MAX = 1024 };

/* Absolute paths without a final slash. */
struct paths {
	char data[PATHS_MAX];	    /* $XDG_DATA_HOME/holdfast */
	char config[PATHS_MAX];	    /* $XDG_CONFIG_HOME/holdfast */
	char run[PATHS_MAX];	    /* $XDG_RUNTIME_DIR/holdfast, else a private folder in /run or /tmp */
	char cache[PATHS_MAX];	    /* $HOLDFAST_CACHE, else $XDG_CACHE_HOME/holdfast */
	char bin[PATHS_MAX];	    /* folder of this program */
	char share[PATHS_MAX];	    /* shipped files: default.yaml, presets */
	char workspaces[PATHS_MAX]; /* data/workspaces */
	char store[PATHS_MAX];	    /* data/store */
	char api[PATHS_MAX];	    /* run/api.sock */
};

/*
 * Fills p from the environment and makes the private folders (0700). A run folder that another user
 * owns or can read is refused.
 */
int paths_init(struct paths *p, struct err *err);

#endif
