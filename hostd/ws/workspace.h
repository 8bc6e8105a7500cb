/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Workspaces on disk: one folder each, with settings, policy, identity and marks. */
#ifndef HOLDFAST_WS_WORKSPACE_H
#define HOLDFAST_WS_WORKSPACE_H

#include <jansson.h>
#include <stdbool.h>

#include "hostd/ws/paths.h"
#include "lib/err.h"

enum { WS_NAME_MAX = 40, WS_POLICY_MAX = 4 << 20 };

/* 1 to 40 of a-z 0-9 '-', beginning with a letter: also a host name (RFC 1123). */
bool ws_name_valid(const char *name);
int ws_name_check(const char *name, struct err *err);

/* The workspace's folder as an fd, or -1: "no workspace is named X". */
int ws_open(const struct paths *paths, const char *name, struct err *err);

/* A sorted JSON list of the names. The caller's. */
json_t *ws_names(const struct paths *paths, struct err *err);

/*
 * Makes a workspace whole or not at all: it is assembled under a temporary name and renamed.
 * policy: the document's bytes, or NULL for "unfiltered" (the file is absent then).
 */
int ws_create(const struct paths *paths, const char *name, const json_t *settings, const char *policy,
	      size_t policy_len, struct err *err);

/* Renames it out of sight first, then removes it, so that a crash leaves no half workspace. */
int ws_delete(const struct paths *paths, const char *name, struct err *err);
/* Removes what a crash of either left behind. Called once at start. */
void ws_sweep(const struct paths *paths);

/* The marks: small JSON files whose presence is state. Missing: *out = NULL and 0. */
int ws_mark_read(int dirfd, const char *mark, json_t **out, struct err *err);
int ws_mark_write(int dirfd, const char *mark, const json_t *value, struct err *err);
int ws_mark_clear(int dirfd, const char *mark, struct err *err);
#define WS_MARK_QUARANTINE "quarantine.json" /* present: the VM must not run */
#define WS_MARK_IDENTITY "identity.json"     /* mac and address, made once */

#endif
