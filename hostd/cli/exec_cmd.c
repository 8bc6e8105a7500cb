/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast exec, holdfast shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/lineage/process.h"
#include "lib/cleanup.h"
#include "lib/json.h"

#define EXEC_USAGE "exec [--user NAME] [--cwd DIR] [--env NAME=VALUE]... [--tty] WS -- CMD [ARG]..."
#define SHELL_USAGE "shell [--user NAME] WS"

int exec_open(const char *name, const char *command)
{
	struct err err = { "" };
	_cleanup_json_ json_t *result = NULL;
	int fd;

	result = api_client_call_fd(cli_hostd(), "exec.open",
				    json_pack("{s:s,s:s,s:s}", "name", name, "command", command, "author",
					      cli_author()), &fd, &err);
	if (!result) {
		cli_fail(&err);
		return -1;
	}
	return fd;
}

static json_t *words_json(char **words)
{
	json_t *list = json_array();

	for (; *words; words++)
		json_array_append_new(list, json_string(*words));
	return list;
}

/* Names whose values are keys of known shapes: the guest would hold the real thing. */
static void warn_of_keys(const json_t *env)
{
	static const char *const shapes[] = { "sk-", "ghp_", "github_pat_", "glpat-", "AKIA", "xox", "lin_api_",
					      "dop_v1_", "npm_", "hf_" };
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)env, name, value)
		for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
			if (!strncmp(json_string_value(value), shapes[i], strlen(shapes[i])))
				fprintf(stderr, "holdfast: warning: %s looks like a real key; whatever runs in the "
						"workspace can read it\n", name);
}

json_t *exec_env(const json_t *pairs, struct err *err)
{
	json_t *env = json_object(), *pair;
	size_t i;

	json_array_foreach((json_t *)pairs, i, pair) {
		const char *text = json_string_value(pair), *equals = strchr(text, '=');
		_cleanup_free_ char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;

		if (!name || !*name) {
			err_set(err, "--env %s: must be NAME=VALUE", text);
			json_decref(env);
			return NULL;
		}
		json_object_set_new(env, name, json_string(equals + 1));
	}
	warn_of_keys(env);
	return env;
}

/* Adds the workspace's own environment below what the command line gives. */
static int add_settings_env(const char *name, json_t *env)
{
	_cleanup_json_ json_t *ws = cli_call("ws.show", json_pack("{s:s}", "name", name));
	json_t *settings = json_object_get(ws, "settings");

	json_object_update_missing(env, json_object_get(settings, "env"));
	return ws ? 0 : -1;
}

int exec_in(const char *name, struct exec_request *request, json_t *env)
{
	_cleanup_json_ json_t *words = words_json(request->argv);
	_cleanup_free_ char *command = process_command(words);
	struct err err = { "" };
	int fd, code;

	if (add_settings_env(name, env))
		return CLI_FAILED;
	request->env = env;
	fd = exec_open(name, command && *command ? command : "a login shell");
	if (fd < 0)
		return CLI_FAILED;
	code = exec_session(fd, request, &err);
	if (err.text[0])
		cli_fail(&err);
	return code;
}

int cmd_exec(int argc, char **argv)
{
	_cleanup_json_ json_t *pairs = json_array(), *env = NULL;
	struct exec_request request = { .in_fd = STDIN_FILENO, .out_fd = STDOUT_FILENO };
	bool tty = false;
	const struct cli_option options[] = {
		{ "user", NULL, &request.user, NULL }, { "cwd", NULL, &request.cwd, NULL },
		{ "env", NULL, NULL, pairs },	       { "tty", &tty, NULL, NULL },
		{ NULL, NULL, NULL, NULL },
	};
	struct err err;
	int rc = cli_parse(&argc, &argv, options, &request.argv, EXEC_USAGE);

	if (rc)
		return rc;
	if (argc != 1 || !request.argv || !request.argv[0])
		return cli_usage(EXEC_USAGE);
	env = exec_env(pairs, &err);
	if (!env)
		return cli_fail(&err);
	request.pty = tty;
	return exec_in(argv[0], &request, env);
}

int cmd_shell(int argc, char **argv)
{
	static char *no_words[] = { NULL };
	_cleanup_json_ json_t *env = json_object();
	struct exec_request request = { .argv = no_words, .pty = true, .in_fd = STDIN_FILENO,
					.out_fd = STDOUT_FILENO };
	const struct cli_option options[] = {
		{ "user", NULL, &request.user, NULL },
		{ NULL, NULL, NULL, NULL },
	};
	const char *term = getenv("TERM");
	int rc = cli_parse(&argc, &argv, options, NULL, SHELL_USAGE);

	if (rc)
		return rc;
	if (argc != 1)
		return cli_usage(SHELL_USAGE);
	if (term)
		json_object_set_new(env, "TERM", json_string(term));
	return exec_in(argv[0], &request, env);
}
