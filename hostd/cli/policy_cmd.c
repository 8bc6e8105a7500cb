/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_cmd.c - `holdfast policy VERB`: the table of verbs and what they share. */
#include "hostd/cli/policy_cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/json.h"
#include "lib/buf.h"
#include "lib/io.h"

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
} verbs[] = {
	{ "check", policy_cmd_check, "check [--compat-lenient] [--within BOUNDARY] [--json] FILE..." },
	{ "show", policy_cmd_show, "show [--json] [--lines] FILE|WORKSPACE" },
	{ "explain", policy_cmd_explain,
	  "explain --policy FILE --program PATH --url URL [--method M] [--ancestor PATH]... [--address IP]... "
	  "[--rpc-method M] [--tool T] [--json]" },
	{ "diff", policy_cmd_diff, "diff [--json] OLD NEW" },
	{ "prove", policy_cmd_prove, "prove CANDIDATE --within BOUNDARY [--json]" },
	{ "apply", policy_cmd_apply, "apply [--dry-run] [--author NAME] [--json] WORKSPACE FILE" },
	{ "history", policy_cmd_history, "history [--json] WORKSPACE" },
	{ "rollback", policy_cmd_rollback, "rollback [--json] WORKSPACE VERSION" },
	{ "advise", policy_cmd_advise,
	  "advise [--policy FILE] [--within BOUNDARY] [--denials FILE] [--accept N] [--json] [WORKSPACE]" },
	{ "learn", policy_cmd_learn, "learn [--policy FILE] [--within BOUNDARY] [--denials FILE] [--json] [WORKSPACE]" },
	{ "eval", policy_cmd_eval,
	  "eval --vectors FILE [--policies FILE] [--policy-dir DIR] [--policy FILE]" },
};

int cmd_policy(int argc, char **argv)
{
	size_t n = sizeof(verbs) / sizeof(verbs[0]);
	bool help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));

	for (size_t i = 0; argc > 1 && i < n; i++) {
		int status;

		if (strcmp(argv[1], verbs[i].name))
			continue;
		status = verbs[i].run(argc - 1, argv + 1);
		if (status != POLICY_CMD_USAGE)
			return status;
		fprintf(stderr, "usage: holdfast policy %s\n", verbs[i].usage);
		return 2;
	}
	fprintf(help ? stdout : stderr, "usage:\n");
	for (size_t i = 0; i < n; i++)
		fprintf(help ? stdout : stderr, "  holdfast policy %s\n", verbs[i].usage);
	return help ? 0 : 2;
}

char *policy_cmd_read(const char *path, size_t *len)
{
	struct err err = { "" };
	struct buf b;

	buf_init(&b, POLICY_BYTES_MAX + 1);
	if (!strcmp(path, "-")) {
		char block[65536];
		size_t n;

		while ((n = fread(block, 1, sizeof(block), stdin)) > 0)
			if (buf_put(&b, block, n) < 0) {
				err_set(&err, "more than 4 MiB on standard input");
				break;
			}
	} else {
		io_read_file(path, &b, &err);
	}
	*len = b.len;
	if (*err.text || buf_put_u8(&b, 0) < 0) {
		fprintf(stderr, "holdfast: %s\n", *err.text ? err.text : "the file is too long");
		buf_free(&b);
		return NULL;
	}
	return (char *)b.data;
}

void policy_cmd_print_diags(const char *path, const struct policy_diags *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct policy_diag *g = &d->v[i];

		fprintf(stderr, "%s:%u:%u: %s: %s%s%s%s%s%s\n", path, g->line, g->column,
			g->warning ? "warning" : "error", g->path, *g->path ? ": " : "", g->text,
			*g->expected ? " (expected " : "", g->expected, *g->expected ? ")" : "");
	}
	if (d->errors + d->warnings > d->n)
		fprintf(stderr, "%s: %zu more\n", path, d->errors + d->warnings - d->n);
}

void policy_cmd_print_json(json_t *json)
{
	json_dumpf(json, stdout, JSON_SORT_KEYS | JSON_ENCODE_ANY);
	putchar('\n');
	json_decref(json);
}

struct policy *policy_cmd_load(const char *path, int lenient, int json)
{
	struct policy_diags d = { 0 };
	struct policy *p = NULL;
	size_t len;
	char *text = policy_cmd_read(path, &len);

	if (!text)
		return NULL;
	p = policy_parse(text, len, lenient ? POLICY_LENIENT : POLICY_STRICT, &d);
	if (!p && json)
		policy_cmd_print_json(json_pack("{s:s, s:b, s:o}", "file", path, "valid", 0, "diagnostics",
						policy_diags_json(&d)));
	else if (!p)
		policy_cmd_print_diags(path, &d);
	policy_diags_free(&d);
	free(text);
	return p;
}
