/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast: the command line. Each verb is one function; this table finds it. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "hostd/cli/cli.h"

static int cmd_version(int argc, char **argv);

static const struct cli_verb verbs[] = {
	{ "ws", cmd_ws, "ws VERB", "workspaces: create, set, start, stop, list, show, reset, delete" },
	{ "run", cmd_run, "run [--rm] [--policy F] [NAME] -- CMD", "make what is missing and run a command" },
	{ "exec", cmd_exec, "exec WS -- CMD", "run a command in a workspace" },
	{ "shell", cmd_shell, "shell WS", "a terminal in a workspace" },
	{ "cp", cmd_cp, "cp FROM TO", "copy files and trees; one side is WS:PATH" },
	{ "policy", cmd_policy, "policy VERB", "check, show, explain, prove, apply, ... policies" },
	{ "timeline", cmd_timeline, "timeline [WS] [--follow]", "what happened" },
	{ "alerts", cmd_alerts, "alerts", "alerts, and a test of their channels" },
	{ "quarantine", cmd_quarantine, "quarantine WS", "cut a workspace off and pause it" },
	{ "release", cmd_release, "release WS", "let a quarantined workspace run again" },
	{ "evidence", cmd_evidence, "evidence export WS --out DIR", "disks, policy, timeline, RAM of one that stands still" },
	{ "doctor", cmd_doctor, "doctor", "what works on this machine, and what to do where it doesn't" },
	{ "daemon", cmd_daemon, "daemon status|stop", "the background process" },
	{ "version", cmd_version, "version", "this program's version" },
	{ NULL, NULL, NULL, NULL },
};

static int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("holdfast " HOLDFAST_VERSION);
	return CLI_OK;
}

static void print_help(FILE *to)
{
	fputs("usage: holdfast VERB ...\n", to);
	for (const struct cli_verb *v = verbs; v->name; v++)
		fprintf(to, "  %-40s %s\n", v->usage, v->help);
}

int main(int argc, char **argv)
{
	if (sodium_init() < 0)
		die("libsodium does not start");
	if (argc > 1 && (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_help(stdout);
		return CLI_OK;
	}
	for (const struct cli_verb *v = verbs; argc > 1 && v->name; v++)
		if (!strcmp(v->name, argv[1]))
			return v->fn(argc - 1, argv + 1);
	if (argc > 1)
		fprintf(stderr, "holdfast: no verb is named \"%s\"\n", argv[1]);
	print_help(stderr);
	return CLI_USAGE;
}
