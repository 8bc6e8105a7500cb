/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast run: the shortest way from a command line to a command in a workspace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/ws_actions.h"
#include "lib/cleanup.h"
#include "lib/json.h"
#include "lib/loop.h"

#define USAGE "run [--rm] [--policy FILE|none] [--accel auto|kvm|tcg] [--mount DIR] [--env NAME=VALUE]... [NAME] -- CMD [ARG]..."

/* Where --mount puts its copy; changes come back by `holdfast cp NAME:WORK DIR`. */
#define WORK "/home/agent/work"

struct run {
	const char *policy, *accel, *mount;
	bool rm;
	bool made; /* the workspace is this run's own */
	char name[48];
	json_t *env;
};

static bool exists(const char *name)
{
	struct err err;
	json_t *ws = api_client_call(cli_hostd(), "ws.show", json_pack("{s:s}", "name", name), NULL, NULL, &err);

	json_decref(ws);
	return ws != NULL;
}

static int make(struct run *run)
{
	json_t *changes = json_object(), *ws = NULL;

	if (exists(run->name)) {
		json_decref(changes);
		if (!run->policy && !run->accel)
			return CLI_OK;
		fprintf(stderr, "holdfast: workspace %s exists: change it with `holdfast ws set` and "
				"`holdfast policy apply`\n", run->name);
		return CLI_FAILED;
	}
	if (run->accel)
		json_object_set_new(changes, "accel", json_pack("[s]", run->accel));
	run->made = true;
	if (ws_create_call(run->name, changes, run->policy, &ws))
		return CLI_FAILED;
	json_decref(ws);
	return CLI_OK;
}

static int command_in(const struct run *run, char **words)
{
	struct exec_request request = { .argv = words, .cwd = run->mount ? WORK : NULL,
					.in_fd = STDIN_FILENO, .out_fd = STDOUT_FILENO,
					.pty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) };

	return exec_in(run->name, &request, run->env);
}

/* One line about what was refused while the command ran. */
static void tell_refusals(const struct run *run, int64_t since_ns)
{
	struct err err;
	_cleanup_json_ json_t *answer =
		api_client_call(cli_hostd(), "timeline",
				json_pack("{s:s,s:I,s:[s],s:b}", "ws", run->name, "since_ns", (json_int_t)since_ns,
					  "verdicts", "denied", "newest_first", 1), NULL, NULL, &err);
	json_t *rows = json_object_get(answer, "rows"), *row;
	int64_t refused = 0;
	size_t i;

	json_array_foreach(rows, i, row)
		refused += json_integer_value(json_object_get(row, "count")) ? : 1;
	if (!refused)
		return;
	fprintf(stderr, "holdfast: %s%lld refused, last: ",
		json_is_true(json_object_get(answer, "more")) ? "more than " : "", (long long)refused);
	fflush(stderr);
	row = json_array_get(rows, 0);
	fprintf(stderr, "%s (holdfast timeline %s)\n",
		json_string_value(json_object_get(row, "sentence")) ? : "?", run->name);
}

static void remove_workspace(const struct run *run)
{
	json_t *result = cli_call("ws.stop", json_pack("{s:s,s:b}", "name", run->name, "force", 1));

	json_decref(result);
	result = cli_call("ws.delete", json_pack("{s:s,s:s}", "name", run->name, "author", cli_author()));
	json_decref(result);
}

static int run_in(struct run *run, char **words)
{
	int64_t since_ns = (int64_t)loop_unix_ns();
	struct worktree tree;
	json_t *ws = NULL;
	int code;

	if (make(run) || ws_start_call(run->name, &ws))
		return CLI_FAILED;
	json_decref(ws);
	if (run->mount && (copy_into(run->name, run->mount, WORK) ||
			   (worktree_find(run->mount, &tree) && worktree_copy(&tree, run->name, WORK))))
		return CLI_FAILED;
	code = command_in(run, words);
	tell_refusals(run, since_ns);
	return code;
}

int cmd_run(int argc, char **argv)
{
	_cleanup_json_ json_t *pairs = json_array();
	struct run run = { 0 };
	const struct cli_option options[] = {
		{ "policy", NULL, &run.policy, NULL }, { "accel", NULL, &run.accel, NULL },
		{ "mount", NULL, &run.mount, NULL },   { "env", NULL, NULL, pairs },
		{ "rm", &run.rm, NULL, NULL },
		{ NULL, NULL, NULL, NULL },
	};
	char **words;
	struct err err;
	int rc = cli_parse(&argc, &argv, options, &words, USAGE);

	if (rc)
		return rc;
	if (argc > 1 || !words || !words[0])
		return cli_usage(USAGE);
	if (argc)
		snprintf(run.name, sizeof(run.name), "%s", argv[0]);
	else
		snprintf(run.name, sizeof(run.name), "run-%d", (int)getpid());
	run.env = exec_env(pairs, &err);
	if (!run.env)
		return cli_fail(&err);
	/* Without a name there is no way back to it, so it goes with its command. */
	run.rm |= !argc;
	rc = run_in(&run, words);
	if (run.rm && run.made)
		remove_workspace(&run);
	json_decref(run.env);
	return rc;
}
