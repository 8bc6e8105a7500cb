// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs a command under our confinement: `confine best|hard files|strict|calls RO... -- RW... -- COMMAND ARG...` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/err.h"
#include "lib/sandbox/sandbox.h"

enum { PATHS_MAX = 64 };

/* The strict profile with no_new_privs at every mode: this tool runs as an ordinary user too. */
int main(int argc, char **argv)
{
	struct sandbox_path paths[PATHS_MAX];
	struct sandbox_profile p = sandbox_profile_guest_strict;
	struct sandbox_report rep;
	struct err e = { .text = "" };
	enum sandbox_access access = SANDBOX_READ;
	int i = 3, lists = 0;

	if (argc < 6)
		die("usage: confine best|hard files|strict|calls RO... -- RW... -- COMMAND ARG...");
	p.paths = paths;
	p.compat = strcmp(argv[1], "hard") ? SANDBOX_BEST_EFFORT : SANDBOX_HARD_REQUIREMENT;
	for (; i < argc && lists < 2; i++) {
		if (!strcmp(argv[i], "--")) {
			lists++;
			access = SANDBOX_WRITE;
		} else if (p.path_count < PATHS_MAX) {
			paths[p.path_count++] = (struct sandbox_path){ argv[i], access, false, NULL };
		}
	}
	if (!strcmp(argv[2], "files")) {
		p.filters = SANDBOX_FILTERS_NONE;
		p.scope_abstract = p.scope_signal = false;
	} else if (!strcmp(argv[2], "calls")) {
		p.landlock = p.scope_abstract = p.scope_signal = false;
	}
	if (sandbox_apply(&p, &rep, &e) < 0) {
		if (p.compat == SANDBOX_HARD_REQUIREMENT) {
			puts("refused");
			return 126;
		}
		die("%s", e.text);
	}
	execv(argv[i], argv + i);
	die("cannot execute %s", argv[i]);
}
