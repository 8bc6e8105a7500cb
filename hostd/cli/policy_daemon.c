/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_daemon.c - the policy verbs about a workspace: apply, history, rollback, advise, learn. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/policy_cmd.h"
#include "hostd/policy/json.h"
#include "lib/json.h"

/* ---- apply, rollback, history ---- */

static void print_lines(const json_t *diff, const char *key, const char *sign)
{
	const json_t *list = json_object_get(diff, key), *line;
	size_t i;

	json_array_foreach((json_t *)list, i, line) {
		fputs(sign, stdout);
		cli_print_text(json_string_value(line));
		putchar('\n');
	}
}

/* Takes the reply.  1 when it was refused. */
static int print_outcome(json_t *reply, bool json)
{
	bool refused;

	if (!reply)
		return 1;
	refused = !strcmp(json_str(reply, "outcome"), "refused");
	if (json) {
		cli_print_json(reply);
		return refused;
	}
	print_lines(json_object_get(reply, "diff"), "removed", "- ");
	print_lines(json_object_get(reply, "diff"), "added", "+ ");
	if (refused)
		fprintf(stderr, "holdfast: refused, the policy in force stays: %s\n", json_str(reply, "text"));
	else
		printf("%s\n", json_str(reply, "text"));
	json_decref(reply);
	return refused;
}

int policy_cmd_apply(int argc, char **argv)
{
	static const struct option options[] = { { "dry-run", no_argument, NULL, 'n' },
						 { "author", required_argument, NULL, 'a' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	const char *author = NULL;
	bool json = false, dry = false;
	json_t *params;
	size_t len;
	char *text;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		json |= c == 'j';
		dry |= c == 'n';
		if (c == 'a')
			author = optarg;
	}
	if (optind + 2 != argc)
		return POLICY_CMD_USAGE;
	text = policy_cmd_read(argv[optind + 1], &len);
	if (!text)
		return 1;
	if (strlen(text) != len) {
		fprintf(stderr, "holdfast: %s: the document holds a NUL byte\n", argv[optind + 1]);
		free(text);
		return 1;
	}
	params = json_pack("{s:s, s:s, s:s, s:b}", "name", argv[optind], "policy", text, "author",
			   author ? author : cli_author(), "dry_run", dry);
	free(text);
	if (!params) {
		fprintf(stderr, "holdfast: %s: not UTF-8\n", argv[optind + 1]);
		return 1;
	}
	return print_outcome(cli_call("policy.apply", params), json);
}

int policy_cmd_rollback(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	bool json = false;
	char *end;
	long version;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		json |= c == 'j';
	}
	if (optind + 2 != argc)
		return POLICY_CMD_USAGE;
	version = strtol(argv[optind + 1], &end, 10);
	if (*end || version < 1)
		return POLICY_CMD_USAGE;
	return print_outcome(cli_call("policy.rollback", json_pack("{s:s, s:i, s:s}", "name", argv[optind], "version",
								   (int)version, "author", cli_author())),
			     json);
}

int policy_cmd_history(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	bool json = false;
	json_t *reply, *v;
	size_t i;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		json |= c == 'j';
	}
	if (optind + 1 != argc)
		return POLICY_CMD_USAGE;
	reply = cli_call("policy.history", json_pack("{s:s}", "name", argv[optind]));
	if (!reply)
		return 1;
	json_array_foreach(json_object_get(reply, "versions"), i, v) {
		time_t t = (time_t)(json_integer_value(json_object_get(v, "time_ns")) / 1000000000);
		char when[32];
		struct tm tm;

		if (json) {
			cli_print_json(json_incref(v));
			continue;
		}
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&t, &tm));
		printf("version %lld  %s  ", (long long)json_integer_value(json_object_get(v, "version")), when);
		cli_print_text(json_str(v, "author"));
		printf("  %s%s\n", json_str(v, "note"),
		       json_is_true(json_object_get(v, "in_force")) ? "  (in force)" : "");
		print_lines(json_object_get(v, "diff"), "removed", "  - ");
		print_lines(json_object_get(v, "diff"), "added", "  + ");
	}
	json_decref(reply);
	return 0;
}

/* ---- refusals ---- */

enum { DENIALS_MAX = 5000, DENIAL_ROWS_MAX = 50000 };

struct denials {
	struct policy_denial *v;
	size_t n, cap;
	json_t *keep; /* owns the strings */
};

static struct policy_denial *add_denial(struct denials *d)
{
	if (d->n == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 64;
		struct policy_denial *v = realloc(d->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		d->v = v;
		d->cap = cap;
	}
	memset(&d->v[d->n], 0, sizeof(*d->v));
	return &d->v[d->n++];
}

/*
 * One refusal: {host, port, program, ancestors?, method?, path?, count?, reason?}, which is also what a
 * timeline row's data says in other words (name or dst, dport, program, chain).
 */
static int read_denial(struct denials *d, const json_t *o, uint64_t count)
{
	const json_t *port = json_object_get(o, "port"), *chain = json_object_get(o, "ancestors");
	struct policy_denial *v = add_denial(d);
	const char **anc;

	if (!v)
		return -1;
	v->host = *json_str(o, "host") ? json_str(o, "host") : *json_str(o, "name") ? json_str(o, "name") : json_str(o, "dst");
	v->port = (uint16_t)json_integer_value(port ? port : json_object_get(o, "dport"));
	v->program = json_str(o, "program");
	v->method = json_string_value(json_object_get(o, "method"));
	v->path = json_string_value(json_object_get(o, "path"));
	v->count = json_is_integer(json_object_get(o, "count")) ?
			   (uint64_t)json_integer_value(json_object_get(o, "count")) :
			   count;
	for (int r = POLICY_EMPTY; r <= POLICY_ERROR; r++)
		if (!strcmp(json_str(o, "reason"), policy_reason_name((enum policy_reason)r)))
			v->reason = (enum policy_reason)r;
	if (!chain)
		chain = json_object_get(o, "chain");
	anc = calloc(json_array_size(chain) + 1, sizeof(*anc));
	if (!anc)
		return -1;
	for (size_t i = 0; i < json_array_size(chain); i++) {
		const json_t *link = json_array_get(chain, i);
		const char *path = json_is_string(link) ? json_string_value(link) : json_str(link, "exe");

		if (path && *path)
			anc[v->n_ancestors++] = path;
	}
	v->ancestors = anc;
	return 0;
}

static int read_denials_file(struct denials *d, const char *path)
{
	FILE *f = !strcmp(path, "-") ? stdin : fopen(path, "r");
	char *line = NULL;
	size_t cap = 0, number = 0;
	ssize_t n;
	int rc = 0;

	if (!f) {
		fprintf(stderr, "holdfast: cannot open %s: %m\n", path);
		return -1;
	}
	while (rc == 0 && (n = getline(&line, &cap, f)) > 0) {
		json_t *o = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL);

		number++;
		if (!json_is_object(o) || json_array_append(d->keep, o) < 0 || read_denial(d, o, 1) < 0) {
			fprintf(stderr, "holdfast: %s:%zu: not a refusal\n", path, number);
			rc = -1;
		}
		json_decref(o);
	}
	free(line);
	if (f != stdin)
		fclose(f);
	return rc;
}

/* The refusals of one page of rows; *before moves on to its oldest. 1 if there are older ones, -1 after a message. */
static int read_denials_page(struct denials *d, const char *ws, json_int_t *before, size_t *rows)
{
	json_t *query = json_pack("{s:s, s:[s], s:b}", "ws", ws, "verdicts", "denied", "newest_first", 1), *row;
	_cleanup_json_ json_t *reply = NULL;
	size_t i;

	if (*before)
		json_object_set_new(query, "before_id", json_integer(*before));
	reply = cli_call("timeline", query);
	if (!reply)
		return -1;
	json_array_foreach(json_object_get(reply, "rows"), i, row) {
		json_t *data = json_object_get(row, "data");

		*before = json_integer_value(json_object_get(row, "id"));
		if (d->n >= DENIALS_MAX || !json_object_get(data, "dport") || !json_object_get(data, "program"))
			continue;
		if (json_array_append(d->keep, data) ||
		    read_denial(d, data, (uint64_t)json_integer_value(json_object_get(row, "count"))) < 0) {
			fprintf(stderr, "holdfast: out of memory\n");
			return -1;
		}
	}
	*rows += i;
	return i && json_is_true(json_object_get(reply, "more"));
}

/* The newest refusals of connections, oldest of them first. */
static int read_denials_timeline(struct denials *d, const char *ws)
{
	json_int_t before = 0;
	size_t rows = 0;
	int rc;

	do
		rc = read_denials_page(d, ws, &before, &rows);
	while (rc > 0 && d->n < DENIALS_MAX && rows < DENIAL_ROWS_MAX);
	if (rc > 0)
		fprintf(stderr, "holdfast: of the refusals only the newest %zu are looked at\n", rows);
	for (size_t i = 0; i < d->n / 2; i++) {
		struct policy_denial first = d->v[i];

		d->v[i] = d->v[d->n - 1 - i];
		d->v[d->n - 1 - i] = first;
	}
	return rc < 0 ? -1 : 0;
}

static void denials_free(struct denials *d)
{
	for (size_t i = 0; i < d->n; i++)
		free((void *)d->v[i].ancestors);
	free(d->v);
	json_decref(d->keep);
}

/* ---- advise, learn ---- */

struct advice {
	const char *policy_file, *within, *denials_file, *ws;
	long accept;
	bool json, learn;
	struct policy *current, *boundary;
};

static json_t *draft_json(const struct policy_draft *d, size_t number)
{
	static const char *const verdicts[] = { "within", "exceeds", "unsupported" };

	return json_pack("{s:i, s:s, s:s, s:s, s:I, s:f, s:s, s:s, s:s, s:s}", "number", (int)number, "rule", d->key, "yaml",
			 d->yaml, "allows", d->allows ? d->allows : "", "prevents", (json_int_t)d->denials,
			 "confidence", d->confidence, "note", d->note, "boundary", verdicts[d->boundary],
			 "boundary_text", d->boundary_text, "document", d->document);
}

static void print_draft(const struct policy_draft *d, size_t number)
{
	printf("%zu. would have prevented %llu refusal%s (confidence %.2f)%s%s\n%s", number,
	       (unsigned long long)d->denials, d->denials == 1 ? "" : "s", d->confidence, *d->note ? "; " : "",
	       d->note, d->yaml);
	if (d->allows && *d->allows)
		printf("   newly says:\n");
	for (const char *s = d->allows; s && *s;) {
		size_t n = strcspn(s, "\n");

		printf("     %.*s\n", (int)n, s);
		s += n + (s[n] == '\n');
	}
	if (d->boundary != POLICY_WITHIN || *d->boundary_text)
		printf("   boundary: %s\n", d->boundary_text);
}

static int load_current(struct advice *a)
{
	struct policy_diags diags = { 0 };
	const char *text;
	json_t *reply;

	if (a->policy_file) {
		a->current = policy_cmd_load(a->policy_file, 0, a->json);
		return a->current ? 0 : -1;
	}
	if (!a->ws || a->learn)
		return 0;
	reply = cli_call("policy.get", json_pack("{s:s}", "name", a->ws));
	text = json_string_value(json_object_get(reply, "policy"));
	if (text)
		a->current = policy_parse(text, strlen(text), POLICY_STRICT, &diags);
	policy_diags_free(&diags);
	json_decref(reply);
	return reply ? 0 : -1;
}

/* After accepting: apply, then judge each refusal again and say so. */
static int accept_draft(const struct advice *a, const struct policy_draft *d, const struct denials *all)
{
	struct policy_diags diags = { 0 };
	struct policy *p = policy_parse(d->document, strlen(d->document), POLICY_STRICT, &diags);
	int status = 1;

	policy_diags_free(&diags);
	if (!p) {
		fprintf(stderr, "holdfast: %s\n", d->boundary_text);
		return 1;
	}
	if (d->boundary != POLICY_WITHIN) {
		fprintf(stderr, "holdfast: not accepted: %s\n", d->boundary_text);
	} else if (a->ws) {
		status = print_outcome(cli_call("policy.apply", json_pack("{s:s, s:s, s:s}", "name", a->ws, "policy",
									 d->document, "author", cli_author())),
				       a->json);
	} else {
		fputs(d->document, stdout);
		status = 0;
	}
	for (size_t i = 0; status == 0 && i < all->n; i++) {
		const struct policy_denial *r = &all->v[i];

		if (a->current && policy_denial_passes(a->current, r))
			continue;
		fprintf(a->ws ? stdout : stderr, "replayed: %s to %s:%u%s%s%s%s is %s\n", r->program, r->host,
			r->port, r->method ? " " : "", r->method ? r->method : "", r->path ? " " : "",
			r->path ? r->path : "", policy_denial_passes(p, r) ? "now allowed" : "still refused");
	}
	policy_put(p);
	return status;
}

/* A whole policy from everything that was refused: drafts one after the other. */
static int learn(struct advice *a, const struct denials *all)
{
	struct policy *p = policy_get(a->current);
	char *document = NULL;
	struct err err = { "" };
	size_t rules = 0;
	bool again = true;

	while (again) {
		struct policy_diags diags = { 0 };
		struct policy_draft *d;
		size_t n = 0;

		again = false;
		d = policy_draft_rules(p, a->boundary, all->v, all->n, &n, &err);
		for (size_t i = 0; d && i < n && !again; i++) {
			struct policy *next = policy_parse(d[i].document, strlen(d[i].document), POLICY_STRICT, &diags);

			policy_diags_free(&diags);
			if (!next || d[i].boundary != POLICY_WITHIN || !d[i].denials) {
				policy_put(next);
				continue;
			}
			free(document);
			document = strdup(d[i].document);
			policy_put(p);
			p = next;
			rules++;
			again = true;
		}
		policy_drafts_free(d, n);
	}
	policy_put(p);
	if (a->json)
		policy_cmd_print_json(json_pack("{s:i, s:s?}", "rules", (int)rules, "policy", document));
	else
		fputs(document ? document : "version: 1\nnetwork_policies: {}\n", stdout);
	free(document);
	return 0;
}

static int run_advice(struct advice *a)
{
	struct denials all = { .keep = json_array() };
	struct policy_draft *d = NULL;
	struct err err = { "" };
	int status = 1;
	size_t n = 0;

	if (a->within && !(a->boundary = policy_cmd_load(a->within, 0, a->json)))
		goto out;
	if (load_current(a) < 0)
		goto out;
	if (a->denials_file ? read_denials_file(&all, a->denials_file) < 0 : read_denials_timeline(&all, a->ws) < 0)
		goto out;
	if (a->learn) {
		status = learn(a, &all);
		goto out;
	}
	d = policy_draft_rules(a->current, a->boundary, all.v, all.n, &n, &err);
	if (!d) {
		fprintf(stderr, "holdfast: %s\n", err.text);
		goto out;
	}
	if (a->accept) {
		if (a->accept < 1 || (size_t)a->accept > n)
			fprintf(stderr, "holdfast: there is no draft %ld\n", a->accept);
		else
			status = accept_draft(a, &d[a->accept - 1], &all);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		if (a->json)
			policy_cmd_print_json(draft_json(&d[i], i + 1));
		else
			print_draft(&d[i], i + 1);
	}
	if (!n && !a->json)
		puts("nothing to advise: no refusal that a rule could prevent");
	status = 0;
out:
	policy_drafts_free(d, n);
	denials_free(&all);
	policy_put(a->current);
	policy_put(a->boundary);
	return status;
}

static int parse_advice(int argc, char **argv, struct advice *a)
{
	static const struct option options[] = { { "policy", required_argument, NULL, 'p' },
						 { "within", required_argument, NULL, 'w' },
						 { "denials", required_argument, NULL, 'd' },
						 { "accept", required_argument, NULL, 'a' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			a->policy_file = optarg;
			break;
		case 'w':
			a->within = optarg;
			break;
		case 'd':
			a->denials_file = optarg;
			break;
		case 'a':
			a->accept = strtol(optarg, NULL, 10);
			if (a->accept < 1)
				return POLICY_CMD_USAGE;
			break;
		case 'j':
			a->json = true;
			break;
		default:
			return POLICY_CMD_USAGE;
		}
	}
	if (optind + 1 == argc)
		a->ws = argv[optind++];
	return optind != argc || (!a->ws && !a->denials_file) ? POLICY_CMD_USAGE : 0;
}

int policy_cmd_advise(int argc, char **argv)
{
	struct advice a = { 0 };

	return parse_advice(argc, argv, &a) ? POLICY_CMD_USAGE : run_advice(&a);
}

int policy_cmd_learn(int argc, char **argv)
{
	struct advice a = { .learn = true };

	return parse_advice(argc, argv, &a) ? POLICY_CMD_USAGE : run_advice(&a);
}
