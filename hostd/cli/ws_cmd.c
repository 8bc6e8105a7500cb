/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast ws: make, set, start, stop, list, show, reset and delete workspaces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/ws_actions.h"
#include "hostd/ws/settings.h"
#include "hostd/ws/workspace.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

enum { SETTINGS_MAX = 32 };

/* Options for every setting, then the caller's own. Values land in one JSON list per setting. */
static void setting_options(struct cli_option *options, json_t *changes, const struct cli_option *own)
{
	size_t n = 0;

	for (const struct setting *s = settings_table; s->key && n < SETTINGS_MAX; s++) {
		json_t *list = json_array();

		json_object_set_new(changes, s->key, list);
		options[n++] = (struct cli_option){ s->key, NULL, NULL, list };
	}
	for (; own->name; own++)
		options[n++] = *own;
	options[n] = (struct cli_option){ NULL, NULL, NULL, NULL };
}

static void drop_unset(json_t *changes)
{
	const char *key;
	json_t *list;
	void *next;

	json_object_foreach_safe(changes, next, key, list)
		if (!json_array_size(list))
			json_object_del(changes, key);
}

static void print_settings(void)
{
	puts("settings, each an option of `ws create` and `ws set`:");
	for (const struct setting *s = settings_table; s->key; s++)
		printf("  --%-14s %s%s%s%s%s\n", s->key, s->help, s->choices ? " (" : "", s->choices ? : "",
		       s->choices ? ")" : "", s->next_start ? " [at the next start]" : "");
}

/* Nothing is the shipped default, which hostd fills in; "none" is unfiltered; else a file. */
static int add_policy(json_t *params, const char *choice, struct err *err)
{
	struct buf text;
	json_t *policy;

	if (!choice)
		return 0;
	if (!strcmp(choice, "none"))
		return json_object_set_new(params, "unfiltered", json_true());
	buf_init(&text, WS_POLICY_MAX);
	if (io_read_file(choice, &text, err)) {
		buf_free(&text);
		return err_prefix(err, "policy");
	}
	policy = json_stringn((char *)text.data, text.len);
	buf_free(&text);
	return policy ? json_object_set_new(params, "policy", policy) :
	       err_set(err, "policy %s: not UTF-8 text", choice);
}

static void print_workspace(const json_t *ws)
{
	const json_t *settings = json_object_get(ws, "settings");
	const json_t *judge = json_object_get(ws, "judge");
	const char *reason = json_string_value(json_object_get(ws, "reason"));
	const char *error = json_string_value(json_object_get(ws, "policy_error"));
	const char *held = json_string_value(json_object_get(ws, "quarantine"));

	printf("name     %s\nstate    %s%s%s\n", json_string_value(json_object_get(ws, "name")),
	       json_string_value(json_object_get(ws, "state")), reason && *reason ? ": " : "", reason ? reason : "");
	if (held)
		printf("held     %s\n", held);
	printf("level    %s\n", json_string_value(json_object_get(ws, "level")));
	if (json_is_true(json_object_get(ws, "unfiltered")))
		puts("policy   none: every connection is allowed (unfiltered)");
	else if (error && *error)
		printf("policy   NOT IN FORCE: %s\n", error);
	else
		printf("policy   %.16s\n", json_string_value(json_object_get(ws, "policy_digest")) ? : "");
	printf("score    %lld%s%s\n", json_integer_value(json_object_get(judge, "score")),
	       *json_string_value(json_object_get(judge, "parts")) ? ": " : "",
	       json_string_value(json_object_get(judge, "parts")));
	for (const struct setting *s = settings_table; s->key; s++) {
		char *value = json_dumps(json_object_get(settings, s->key), JSON_ENCODE_ANY | JSON_COMPACT);

		printf("%-14s %s\n", s->key, value ? value : "?");
		free(value);
	}
}

static int show_result(json_t *ws, bool json)
{
	if (!ws)
		return CLI_FAILED;
	if (json) {
		cli_print_json(ws);
	} else {
		print_workspace(ws);
		json_decref(ws);
	}
	return CLI_OK;
}

int ws_create_call(const char *name, json_t *changes, const char *policy, json_t **result)
{
	struct err err;
	json_t *params = json_pack("{s:s,s:o,s:s}", "name", name, "settings", changes, "author", cli_author());

	*result = NULL;
	if (!params || add_policy(params, policy, &err)) {
		json_decref(params);
		return cli_fail(&err);
	}
	*result = cli_call("ws.create", params);
	return *result ? CLI_OK : CLI_FAILED;
}

static int ws_create_verb(int argc, char **argv)
{
	static const char usage[] = "ws create [--policy FILE|none] [--SETTING VALUE]... [--json] NAME";
	struct cli_option options[SETTINGS_MAX + 4];
	json_t *changes = json_object(), *ws = NULL;
	const char *policy = NULL;
	bool json = false;
	const struct cli_option own[] = { { "policy", NULL, &policy, NULL }, { "json", &json, NULL, NULL },
					  { NULL, NULL, NULL, NULL } };
	int rc;

	setting_options(options, changes, own);
	rc = cli_parse(&argc, &argv, options, NULL, usage);
	if (!rc && argc != 1)
		rc = cli_usage(usage);
	if (rc) {
		json_decref(changes);
		return rc;
	}
	drop_unset(changes);
	rc = ws_create_call(argv[0], changes, policy, &ws);
	if (rc)
		return rc;
	if (json) {
		cli_print_json(ws);
		return CLI_OK;
	}
	printf("made workspace %s%s\n", argv[0], json_is_true(json_object_get(ws, "unfiltered")) ?
	       " (unfiltered: every connection is allowed)" : "");
	json_decref(ws);
	return CLI_OK;
}

static int ws_set_verb(int argc, char **argv)
{
	static const char usage[] = "ws set [--SETTING VALUE]... [--json] NAME";
	struct cli_option options[SETTINGS_MAX + 4];
	json_t *changes = json_object(), *ws;
	bool json = false;
	const struct cli_option own[] = { { "json", &json, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	int rc;

	setting_options(options, changes, own);
	rc = cli_parse(&argc, &argv, options, NULL, usage);
	drop_unset(changes);
	if (!rc && (argc != 1 || !json_object_size(changes))) {
		print_settings();
		rc = cli_usage(usage);
	}
	if (rc) {
		json_decref(changes);
		return rc;
	}
	ws = cli_call("ws.set", json_pack("{s:s,s:o,s:s}", "name", argv[0], "settings", changes, "author",
					  cli_author()));
	if (!ws)
		return CLI_FAILED;
	if (json)
		cli_print_json(json_incref(ws));
	else if (json_is_true(json_object_get(ws, "next_start")))
		puts("set; some of it takes effect at the next start");
	json_decref(ws);
	return CLI_OK;
}

static int on_progress(void *user, const json_t *event)
{
	(void)user;
	cli_progress("%5.1f s  %s", (double)json_integer_value(json_object_get(event, "ms")) / 1000,
		     json_string_value(json_object_get(event, "step")) ? : "?");
	return 0;
}

int ws_start_call(const char *name, json_t **result)
{
	*result = cli_call_events("ws.start", json_pack("{s:s,s:s}", "name", name, "author", cli_author()),
				  on_progress, NULL);
	return *result ? CLI_OK : CLI_FAILED;
}

static int simple(int argc, char **argv, const char *usage, const char *method, const char *done)
{
	bool json = false, force = false;
	const struct cli_option options[] = { { "json", &json, NULL, NULL }, { "force", &force, NULL, NULL },
					      { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);
	json_t *result, *params;

	if (rc)
		return rc;
	if (argc != 1)
		return cli_usage(usage);
	params = json_pack("{s:s,s:s}", "name", argv[0], "author", cli_author());
	if (force)
		json_object_set_new(params, "force", json_true());
	result = cli_call_events(method, params, on_progress, NULL);
	if (!result)
		return CLI_FAILED;
	if (json) {
		cli_print_json(result);
		return CLI_OK;
	}
	printf("%s %s\n", argv[0], done);
	json_decref(result);
	return CLI_OK;
}

static int ws_start_verb(int argc, char **argv)
{
	return simple(argc, argv, "ws start [--json] NAME", "ws.start", "takes sessions");
}

static int ws_stop_verb(int argc, char **argv)
{
	return simple(argc, argv, "ws stop [--force] [--json] NAME", "ws.stop", "is off");
}

/* What can't be undone asks on a terminal, and needs --yes elsewhere. */
static bool confirmed(const char *question, bool yes)
{
	char answer[16];

	if (yes)
		return true;
	if (!isatty(STDIN_FILENO)) {
		fprintf(stderr, "holdfast: %s: needs --yes when no one can be asked\n", question);
		return false;
	}
	fprintf(stderr, "%s? [y/N] ", question);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int destructive(int argc, char **argv, const char *usage, const char *method, const char *what,
		       const char *done)
{
	bool yes = false;
	const struct cli_option options[] = { { "yes", &yes, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);
	char question[160];
	json_t *result;

	if (rc)
		return rc;
	if (argc != 1)
		return cli_usage(usage);
	snprintf(question, sizeof(question), what, argv[0]);
	if (!confirmed(question, yes))
		return CLI_FAILED;
	result = cli_call(method, json_pack("{s:s,s:s}", "name", argv[0], "author", cli_author()));
	if (!result)
		return CLI_FAILED;
	printf("%s %s\n", argv[0], done);
	json_decref(result);
	return CLI_OK;
}

static int ws_delete_verb(int argc, char **argv)
{
	return destructive(argc, argv, "ws delete [--yes] NAME", "ws.delete",
			   "delete workspace %s with its disk and home", "is deleted");
}

static int ws_reset_verb(int argc, char **argv)
{
	return destructive(argc, argv, "ws reset [--yes] NAME", "ws.reset",
			   "reset the disk of %s to the base image (home stays)", "starts from the base image next time");
}

static int ws_show_verb(int argc, char **argv)
{
	static const char usage[] = "ws show [--json] NAME";
	bool json = false;
	const struct cli_option options[] = { { "json", &json, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);

	if (rc)
		return rc;
	if (argc != 1)
		return cli_usage(usage);
	return show_result(cli_call("ws.show", json_pack("{s:s}", "name", argv[0])), json);
}

static int ws_list_verb(int argc, char **argv)
{
	static const char usage[] = "ws list [--json]";
	bool json = false;
	const struct cli_option options[] = { { "json", &json, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);
	_cleanup_json_ json_t *result = NULL;
	json_t *ws;
	size_t i;

	if (rc)
		return rc;
	if (argc)
		return cli_usage(usage);
	result = cli_call("ws.list", NULL);
	if (!result)
		return CLI_FAILED;
	json_array_foreach(json_object_get(result, "workspaces"), i, ws) {
		if (json)
			cli_print_json(json_incref(ws));
		else
			printf("%-24s %-12s %-8s score %-3lld %s\n", json_string_value(json_object_get(ws, "name")),
			       json_string_value(json_object_get(ws, "state")),
			       json_string_value(json_object_get(ws, "level")),
			       json_integer_value(json_object_get(json_object_get(ws, "judge"), "score")),
			       json_string_value(json_object_get(ws, "reason")));
	}
	return CLI_OK;
}

static const struct cli_verb verbs[] = {
	{ "create", ws_create_verb, "ws create NAME", "make a workspace" },
	{ "set", ws_set_verb, "ws set NAME --KEY VALUE", "change settings" },
	{ "start", ws_start_verb, "ws start NAME", "start its VM and wait until it takes sessions" },
	{ "stop", ws_stop_verb, "ws stop NAME", "shut its VM down" },
	{ "list", ws_list_verb, "ws list", "all workspaces with their state and score" },
	{ "show", ws_show_verb, "ws show NAME", "one workspace with its settings" },
	{ "reset", ws_reset_verb, "ws reset NAME", "go back to the base image; home stays" },
	{ "delete", ws_delete_verb, "ws delete NAME", "delete it with its disks" },
	{ NULL, NULL, NULL, NULL },
};

int cmd_ws(int argc, char **argv)
{
	for (const struct cli_verb *v = verbs; argc > 1 && v->name; v++)
		if (!strcmp(v->name, argv[1]))
			return v->fn(argc - 1, argv + 1);
	fputs("usage: holdfast ws VERB\n", stderr);
	for (const struct cli_verb *v = verbs; v->name; v++)
		fprintf(stderr, "  %-10s %s\n", v->name, v->help);
	return CLI_USAGE;
}
