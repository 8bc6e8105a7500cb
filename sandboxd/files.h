/* SPDX-License-Identifier: GPL-2.0-or-later */
/* List, read, write, mkdir, remove: done by a confined child of the session's user, never by the supervisor. */
#ifndef SANDBOXD_FILES_H
#define SANDBOXD_FILES_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/err.h"

enum guest_files_verb { GUEST_FILES_LIST, GUEST_FILES_READ, GUEST_FILES_WRITE, GUEST_FILES_MKDIR, GUEST_FILES_REMOVE };

struct guest_files {
	enum guest_files_verb verb;
	const char *path;	/* absolute; borrowed from the request */
	unsigned mode;
	bool create;
};

int guest_files_parse(const json_t *request, struct guest_files *f, struct err *e);

/* Inside the child: reads bytes from 0, writes frames (reply, data, eof) to 1. Returns the exit code. */
int guest_files_run(void *files);

#endif
