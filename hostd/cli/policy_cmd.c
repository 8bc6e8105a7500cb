/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_cmd.c - `holdfast policy VERB`: the table of verbs. */
#include "hostd/cli/policy_cmd.h"

#include <stdio.h>
#include <string.h>

policy_api_call policy_api;

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
} verbs[] = {
	{ "eval", policy_cmd_eval, "eval --vectors FILE [--policies FILE] [--policy-dir DIR]" },
};

int cmd_policy(int argc, char **argv)
{
	size_t n = sizeof(verbs) / sizeof(verbs[0]);

	for (size_t i = 0; argc > 1 && i < n; i++)
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	fprintf(stderr, "usage:\n");
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "  holdfast policy %s\n", verbs[i].usage);
	return 2;
}
