/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast alerts: what alarmed, and a test of the channels. */
#include <stdio.h>
#include <string.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/timeline_cmd.h"

static const char usage[] = "alerts [WS] [--since 1d] [--json]\n"
			    "       holdfast alerts test [--json]";

/* The timeline took the test as a row of its own; the other channels answer for themselves. */
static int test(bool json)
{
	json_t *result = cli_call("alerts.test", json_pack("{s:s}", "author", cli_author()));
	const json_t *channel;
	int rc = CLI_OK;
	size_t i;

	if (!result)
		return CLI_FAILED;
	json_array_foreach (json_object_get(result, "channels"), i, channel)
		if (json_is_true(json_object_get(channel, "on")) && !json_is_true(json_object_get(channel, "ok")))
			rc = CLI_FAILED;
	if (json) {
		cli_print_json(result);
		return rc;
	}
	puts("timeline  written");
	json_array_foreach (json_object_get(result, "channels"), i, channel) {
		const char *error = json_string_value(json_object_get(channel, "error"));
		bool on = json_is_true(json_object_get(channel, "on")), ok = json_is_true(json_object_get(channel, "ok"));

		printf("%-9s %s", json_string_value(json_object_get(channel, "channel")),
		       !on ? "not configured" : ok ? "sent" : "FAILED: ");
		if (on && !ok)
			cli_print_text(error ? error : "?");
		putchar('\n');
	}
	json_decref(result);
	return rc;
}

int cmd_alerts(int argc, char **argv)
{
	bool json = false;
	const char *since = NULL;
	const struct cli_option options[] = {
		{ "json", &json, NULL, NULL },
		{ "since", NULL, &since, NULL },
		{ NULL, NULL, NULL, NULL },
	};
	int rc = cli_parse(&argc, &argv, options, NULL, usage);

	if (rc)
		return rc;
	if (argc > 1)
		return cli_usage(usage);
	if (argc && !strcmp(argv[0], "test"))
		return test(json);
	return timeline_list_alarms(argc ? argv[0] : NULL, since, json);
}
