/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the verbs of `holdfast` share: options by table, output, the connection to hostd. */
#include "hostd/cli/cli.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/json.h"

static bool progress_open;

static const struct cli_option *option_named(const struct cli_option *options, const char *name, size_t len)
{
	for (; options->name; options++) {
		size_t i = 0;

		while (i < len && options->name[i] &&
		       (options->name[i] == name[i] || (options->name[i] == '_' && name[i] == '-')))
			i++;
		if (i == len && !options->name[i])
			return options;
	}
	return NULL;
}

static void set_option(const struct cli_option *o, const char *value)
{
	if (o->flag)
		*o->flag = true;
	else if (o->list)
		json_array_append_new(o->list, json_string(value));
	else
		*o->value = value;
}

int cli_parse(int *argc, char ***argv, const struct cli_option *options, char ***rest, const char *usage)
{
	char **in = *argv, **out = *argv;
	int n = *argc, kept = 0;

	if (rest)
		*rest = NULL;
	for (int i = 1; i < n; i++) {
		const struct cli_option *o;
		const char *word = in[i], *equals;

		if (!strcmp(word, "--")) {
			if (!rest)
				return cli_usage(usage);
			*rest = in + i + 1;
			break;
		}
		if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
			printf("usage: holdfast %s\n", usage);
			exit(CLI_OK);
		}
		if (strncmp(word, "--", 2)) {
			out[kept++] = in[i];
			continue;
		}
		equals = strchr(word, '=');
		o = option_named(options, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2));
		if (!o || (o->flag && equals) || (!o->flag && !equals && i + 1 >= n)) {
			fprintf(stderr, "holdfast: %s %s\n", word, o ? (o->flag ? "takes no value" : "needs a value") :
				"is no option of this command");
			return cli_usage(usage);
		}
		set_option(o, o->flag ? NULL : equals ? equals + 1 : in[++i]);
	}
	*argc = kept;
	*argv = out;
	return 0;
}

int cli_fail(const struct err *err)
{
	cli_progress_end();
	if (err->text[0]) {
		fputs("holdfast: ", stderr);
		cli_put_text(stderr, err->text); /* a part of it may be a guest's */
		fputc('\n', stderr);
	}
	return CLI_FAILED;
}

int cli_usage(const char *usage)
{
	fprintf(stderr, "usage: holdfast %s\n", usage);
	return CLI_USAGE;
}

const struct paths *cli_paths(void)
{
	static struct paths paths;
	static bool done;
	struct err err;

	if (!done && paths_init(&paths, &err))
		exit(cli_fail(&err));
	done = true;
	return &paths;
}

struct api_client *cli_hostd(void)
{
	static struct api_client *client;
	struct err err;

	if (!client) {
		client = api_client_open(cli_paths(), 1, &err);
		if (!client)
			exit(cli_fail(&err));
	}
	return client;
}

json_t *cli_call_events(const char *method, json_t *params, int (*on_event)(void *, const json_t *), void *user)
{
	struct err err = { "" };
	json_t *result = api_client_call(cli_hostd(), method, params, on_event, user, &err);

	cli_progress_end();
	if (!result)
		cli_fail(&err);
	return result;
}

json_t *cli_call(const char *method, json_t *params)
{
	return cli_call_events(method, params, NULL, NULL);
}

const char *cli_author(void)
{
	struct passwd *user = getpwuid(getuid());

	return user ? user->pw_name : "unknown";
}

void cli_print_json(json_t *json)
{
	json_dumpf(json, stdout, JSON_COMPACT | JSON_SORT_KEYS);
	putchar('\n');
	json_decref(json);
}

/* C0, DEL, C1 (as UTF-8 c2 80..9f), and the bidi and line marks of U+2028..202e, 2066..2069, 200e, 200f. */
static size_t hidden_bytes(const unsigned char *c)
{
	if ((c[0] < 0x20 && c[0] != '\n' && c[0] != '\t') || c[0] == 0x7f)
		return 1;
	if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
		return 2;
	if (c[0] == 0xe2 && c[1] == 0x80 && ((c[2] >= 0xa8 && c[2] <= 0xae) || c[2] == 0x8e || c[2] == 0x8f))
		return 3;
	if (c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9)
		return 3;
	return 0;
}

void cli_put_text(FILE *f, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	while (*c) {
		size_t n = hidden_bytes(c);

		if (!n)
			fputc(*c++, f);
		while (n--)
			fprintf(f, "\\x%02x", *c++);
	}
}

void cli_print_text(const char *text)
{
	cli_put_text(stdout, text);
}

void cli_progress(const char *fmt, ...)
{
	va_list ap;

	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (!isatty(STDERR_FILENO))
		fputc('\n', stderr);
	progress_open = isatty(STDERR_FILENO);
	fflush(stderr);
}

void cli_progress_end(void)
{
	if (progress_open)
		fputs("\r\033[K", stderr);
	progress_open = false;
}
