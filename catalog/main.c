/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast-catalog: verify, show and sign catalogs of Sentry modules. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/roots.h"
#include "catalog/verbs.h"

static const struct verb {
	const char *name;
	const char *arguments;
	int min, max;
	int (*run)(const struct verb_options *o);
	const char *help;
} verbs[] = {
	{"verify", "[DIR]", 0, 1, verb_verify, "check signatures, dates, log, and every module and its provenance"},
	{"list", "[DIR]", 0, 1, verb_list, "one line a module"},
	{"show", "RELEASE", 1, 1, verb_show, "everything that the catalog says about one module"},
	{"diff", "OLD NEW", 2, 2, verb_diff, "what changed between two catalog.json files or folders"},
	{"rebuild", "RELEASE", 1, 1, verb_rebuild, "build one module again from the catalog alone and compare"},
	{"init", "", 0, 0, verb_init, "make a folder of keys (--keys) with its first root document"},
	{"sign", "DIR", 1, 1, verb_sign, "sign the records of builds in DIR as a new catalog"},
	{"rotate", "KEY", 1, 1, verb_rotate, "give root-1, root-2, root-3, catalog or timestamp a new key"},
	{"revoke", "DIR RELEASE|SHA256...", 2, 65, verb_revoke, "sign a catalog that revokes modules"},
};

enum { OPT_DIR = 256, OPT_ROOT, OPT_STATE, OPT_KEYS, OPT_SOURCE, OPT_DAYS, OPT_TIMESTAMP_DAYS, OPT_JSON,
       OPT_LOCAL, OPT_TIMESTAMP_ONLY, OPT_NOW };

static const struct option options[] = {
	{"dir", required_argument, NULL, OPT_DIR},
	{"root", required_argument, NULL, OPT_ROOT},
	{"state", required_argument, NULL, OPT_STATE},
	{"keys", required_argument, NULL, OPT_KEYS},
	{"source", required_argument, NULL, OPT_SOURCE},
	{"days", required_argument, NULL, OPT_DAYS},
	{"timestamp-days", required_argument, NULL, OPT_TIMESTAMP_DAYS},
	{"json", no_argument, NULL, OPT_JSON},
	{"local", no_argument, NULL, OPT_LOCAL},
	{"timestamp-only", no_argument, NULL, OPT_TIMESTAMP_ONLY},
	{"at", required_argument, NULL, OPT_NOW},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int usage(FILE *out)
{
	fprintf(out, "usage: holdfast-catalog VERB [OPTIONS] [ARGUMENTS]\n\n");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		fprintf(out, "  %-8s %-24s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].help);
	fprintf(out, "\n  --dir DIR     folder of modules (default: of this installation)\n"
		     "  --root FILE   first trusted root document\n"
		     "  --state DIR   memory of what was seen; `none` keeps none\n"
		     "  --at UNIX     judge dates as of then\n"
		     "  --json        one JSON object, or one a line\n"
		     "  --keys DIR    folder of keys (default: this user's own)\n"
		     "  --local       sign: make keys on this machine if there are none, and trust them\n"
		     "  --days N, --timestamp-days N   sign: how long (30, 7; with --local 365)\n"
		     "  --timestamp-only  sign: say again that the last catalog is current\n"
		     "  --source DIR  rebuild: tree to build from (default: this one)\n");
	return out == stdout ? VERB_OK : VERB_USAGE;
}

static int parse_number(const char *text, int64_t *out)
{
	char *end;

	*out = strtoll(text, &end, 10);
	return *end || !*text || *out < 0 ? -1 : 0;
}

static int parse(struct verb_options *o, int argc, char **argv)
{
	int c, rc = 0;

	while (!rc && (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case OPT_DIR: o->config.dir = optarg; break;
		case OPT_ROOT: o->config.root = optarg; break;
		case OPT_STATE: o->config.state_dir = strcmp(optarg, "none") ? optarg : NULL; break;
		case OPT_KEYS: snprintf(o->keys, sizeof(o->keys), "%s", optarg); break;
		case OPT_SOURCE: o->source = optarg; break;
		case OPT_DAYS: rc = parse_number(optarg, &o->days); break;
		case OPT_TIMESTAMP_DAYS: rc = parse_number(optarg, &o->timestamp_days); break;
		case OPT_NOW: rc = parse_number(optarg, &o->config.now_s); break;
		case OPT_JSON: o->json = true; break;
		case OPT_LOCAL: o->local = true; break;
		case OPT_TIMESTAMP_ONLY: o->timestamp_only = true; break;
		default: rc = -1;
		}
	}
	o->argc = argc - optind;
	o->argv = argv + optind;
	return rc;
}

int verb_refused(const struct err *err)
{
	fprintf(stderr, "holdfast-catalog: %s\n", err->text);
	return VERB_REFUSED;
}

int main(int argc, char **argv)
{
	struct verb_options o = {0};
	const struct verb *verb = NULL;
	struct err err;

	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")))
		return usage(stdout);
	for (size_t i = 0; argc >= 2 && i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			verb = &verbs[i];
	if (!verb)
		return usage(stderr);
	if (catalog_config_default(&o.config, &err) || roots_local_folder(o.keys, sizeof(o.keys), &err))
		return verb_refused(&err);
	if (parse(&o, argc - 1, argv + 1) || o.argc < verb->min || o.argc > verb->max)
		return usage(stderr);
	return verb->run(&o);
}
