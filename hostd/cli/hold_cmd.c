/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast quarantine, holdfast release, holdfast daemon. */
#include <stdio.h>
#include <string.h>

#include "hostd/cli/cli.h"
#include "lib/json.h"

static int on_workspace(int argc, char **argv, const char *usage, const char *method, const char *done)
{
	const struct cli_option options[] = { { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);
	json_t *result;

	if (rc)
		return rc;
	if (argc != 1)
		return cli_usage(usage);
	result = cli_call(method, json_pack("{s:s,s:s}", "name", argv[0], "author", cli_author()));
	if (!result)
		return CLI_FAILED;
	json_decref(result);
	printf("%s %s\n", argv[0], done);
	return CLI_OK;
}

int cmd_quarantine(int argc, char **argv)
{
	return on_workspace(argc, argv, "quarantine WS", "ws.quarantine", "is cut off and paused");
}

int cmd_release(int argc, char **argv)
{
	return on_workspace(argc, argv, "release WS", "ws.release", "may run again");
}

static int print_status(void)
{
	json_t *status = cli_call("daemon.status", NULL);

	if (!status)
		return CLI_FAILED;
	cli_print_json(status);
	return CLI_OK;
}

int cmd_daemon(int argc, char **argv)
{
	static const char usage[] = "daemon status | daemon stop [--force]";
	bool force = false;
	const struct cli_option options[] = { { "force", &force, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);
	struct api_client *client;
	json_t *result;
	struct err err;

	if (rc)
		return rc;
	if (argc != 1 || (strcmp(argv[0], "status") && strcmp(argv[0], "stop")))
		return cli_usage(usage);
	if (!strcmp(argv[0], "status"))
		return print_status();
	client = api_client_open(cli_paths(), 0, &err);
	if (!client) {
		puts("hostd does not run");
		return CLI_OK;
	}
	result = api_client_call(client, "daemon.stop", json_pack("{s:b}", "force", force), NULL, NULL, &err);
	api_client_close(client);
	if (!result)
		return cli_fail(&err);
	json_decref(result);
	return CLI_OK;
}
