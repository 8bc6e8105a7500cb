/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_local.c - the policy verbs that work on files alone: check, show, explain, diff, prove. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/policy_cmd.h"
#include "hostd/policy/json.h"
#include "hostd/policy/request.h"
#include "hostd/policy/text.h"

/* ---- check ---- */

static int check_one(const char *path, bool lenient, struct policy *boundary, bool json)
{
	struct policy_diags d = { 0 };
	struct policy_proof proof = { 0 };
	struct policy *p;
	int status = 1;
	size_t len;
	char *text = policy_cmd_read(path, &len);

	if (!text)
		return 1;
	p = policy_parse(text, len, lenient ? POLICY_LENIENT : POLICY_STRICT, &d);
	if (p)
		status = 0;
	if (p && boundary && policy_contains(boundary, p, &proof) != POLICY_WITHIN)
		status = 1;
	if (json) {
		json_t *o = json_pack("{s:s, s:b, s:i, s:i, s:o}", "file", path, "valid", p != NULL, "errors",
				      (int)d.errors, "warnings", (int)d.warnings, "diagnostics",
				      policy_diags_json(&d));

		if (p && boundary)
			json_object_set_new(o, "boundary", policy_proof_json(&proof));
		policy_cmd_print_json(o);
	} else {
		policy_cmd_print_diags(path, &d);
		if (p && boundary && status)
			fprintf(stderr, "%s: exceeds the boundary: %s\n", path, proof.text);
		else if (p)
			printf("%s: valid%s\n", path, boundary ? ", within the boundary" : "");
		else
			fprintf(stderr, "%s: refused, %zu error%s\n", path, d.errors, d.errors == 1 ? "" : "s");
	}
	policy_proof_free(&proof);
	policy_diags_free(&d);
	policy_put(p);
	free(text);
	return status;
}

int policy_cmd_check(int argc, char **argv)
{
	static const struct option options[] = { { "compat-lenient", no_argument, NULL, 'l' },
						 { "within", required_argument, NULL, 'w' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	struct policy *boundary = NULL;
	bool lenient = false, json = false;
	const char *within = NULL;
	int c, status = 0;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		lenient |= c == 'l';
		json |= c == 'j';
		if (c == 'w')
			within = optarg;
	}
	if (optind == argc)
		return POLICY_CMD_USAGE;
	if (within && !(boundary = policy_cmd_load(within, 0, json)))
		return 1;
	for (int i = optind; i < argc; i++)
		status |= check_one(argv[i], lenient, boundary, json);
	policy_put(boundary);
	return status;
}

/* ---- show ---- */

/* A file, or the policy in force of a workspace. */
static struct policy *file_or_workspace(const char *name, bool json)
{
	struct policy_diags d = { 0 };
	struct policy *p = NULL;
	const char *text;
	json_t *reply;

	if (strchr(name, '/') || strchr(name, '.') || !strcmp(name, "-") || access(name, R_OK) == 0)
		return policy_cmd_load(name, 0, json);
	reply = cli_call("policy.get", json_pack("{s:s}", "name", name));
	text = json_string_value(json_object_get(reply, "policy"));
	if (text)
		p = policy_parse(text, strlen(text), POLICY_STRICT, &d);
	if (reply && !text)
		fprintf(stderr, "holdfast: %s has no policy: its network is unfiltered\n", name);
	else if (reply && !p)
		policy_cmd_print_diags(name, &d);
	policy_diags_free(&d);
	json_decref(reply);
	return p;
}

int policy_cmd_show(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "lines", no_argument, NULL, 'l' },
						 { 0 } };
	bool json = false, lines = false;
	struct policy_lines l;
	struct policy *p;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		json |= c == 'j';
		lines |= c == 'l';
	}
	if (optind + 1 != argc)
		return POLICY_CMD_USAGE;
	p = file_or_workspace(argv[optind], json);
	if (!p)
		return 1;
	if (json) {
		policy_cmd_print_json(policy_show_json(p));
	} else if (lines) {
		if (policy_lines(p, &l) == 0) {
			for (size_t i = 0; i < l.n; i++)
				puts(l.v[i]);
			policy_lines_free(&l);
		}
	} else {
		json_t *o = policy_show_json(p);
		char *text = policy_yaml_text(o);

		fputs(text ? text : "", stdout);
		free(text);
		json_decref(o);
	}
	policy_put(p);
	return 0;
}

/* ---- diff ---- */

int policy_cmd_diff(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	struct policy *a = NULL, *b = NULL;
	struct policy_lines l;
	bool json = false;
	int c, status = 1;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		json |= c == 'j';
	}
	if (optind + 2 != argc)
		return POLICY_CMD_USAGE;
	a = file_or_workspace(argv[optind], json);
	b = a ? file_or_workspace(argv[optind + 1], json) : NULL;
	if (b && policy_diff(a, b, &l) >= 0) {
		if (json) {
			json_t *added = json_array(), *removed = json_array();

			for (size_t i = 0; i < l.n; i++)
				json_array_append_new(l.v[i][0] == '+' ? added : removed,
						      json_string(l.v[i] + 2));
			policy_cmd_print_json(
				json_pack("{s:b, s:o, s:o}", "same", l.n == 0, "added", added, "removed", removed));
		} else {
			for (size_t i = 0; i < l.n; i++)
				puts(l.v[i]);
			if (!l.n)
				puts("both say the same");
		}
		policy_lines_free(&l);
		status = 0;
	}
	policy_put(a);
	policy_put(b);
	return status;
}

/* ---- prove ---- */

int policy_cmd_prove(int argc, char **argv)
{
	static const struct option options[] = { { "within", required_argument, NULL, 'w' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	struct policy *boundary, *candidate;
	struct policy_proof proof = { 0 };
	const char *within = NULL;
	bool json = false;
	int c, status;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return POLICY_CMD_USAGE;
		json |= c == 'j';
		if (c == 'w')
			within = optarg;
	}
	if (!within || optind + 1 != argc)
		return POLICY_CMD_USAGE;
	boundary = policy_cmd_load(within, 0, json);
	candidate = boundary ? policy_cmd_load(argv[optind], 0, json) : NULL;
	if (!candidate) { /* what cannot be read is not within */
		policy_put(boundary);
		return 2;
	}
	status = (int)policy_contains(boundary, candidate, &proof);
	if (json)
		policy_cmd_print_json(policy_proof_json(&proof));
	else
		printf("%s\n", proof.text);
	policy_proof_free(&proof);
	policy_put(boundary);
	policy_put(candidate);
	return status;
}

/* ---- explain ---- */

struct question {
	const char *policy, *program, *url, *method, *rpc_method, *tool;
	const char *ancestors[64], *addresses[16];
	size_t n_ancestors, n_addresses;
	bool json, lenient;
};

static void print_decision(const struct policy_decision *d, bool json)
{
	static const char *const verdicts[] = { "denied", "allowed", "audited" };

	if (json)
		policy_cmd_print_json(policy_decision_json(d));
	else
		printf("%s: %s\n", verdicts[d->verdict], d->text);
}

static int explain(const struct policy *p, const struct question *q, struct policy_decision *d)
{
	struct policy_l4_input l4 = { .program = q->program, .ancestors = q->ancestors, .n = q->n_ancestors };
	struct policy_request_text text = { 0 };
	struct policy_addr addrs[16];
	struct err err = { "" };
	int rc;

	if (policy_url_parse(q->url, &text, &err) < 0) {
		fprintf(stderr, "holdfast: %s\n", err.text);
		return -1;
	}
	l4.host = text.host;
	l4.port = text.port;
	for (size_t i = 0; i < q->n_addresses; i++)
		if (policy_addr_parse(q->addresses[i], &addrs[i]) < 0) {
			fprintf(stderr, "holdfast: %s is not an address\n", q->addresses[i]);
			policy_request_text_free(&text);
			return -1;
		}
	policy_decide_l4(p, &l4, d);
	if (d->verdict != POLICY_DENY && q->n_addresses)
		policy_decide_dest(p, &l4, addrs, q->n_addresses, NULL, d);
	if (d->verdict != POLICY_DENY && (text.has_path || q->method || q->rpc_method)) {
		rc = policy_explain_url(p, &l4, q->method ? q->method : q->rpc_method ? "POST" : "GET", &text,
					q->rpc_method, q->tool, d);
		if (rc < 0)
			fprintf(stderr, "holdfast: out of memory\n");
	}
	policy_request_text_free(&text);
	return 0;
}

int policy_cmd_explain(int argc, char **argv)
{
	static const struct option options[] = { { "policy", required_argument, NULL, 'p' },
						 { "program", required_argument, NULL, 'b' },
						 { "url", required_argument, NULL, 'u' },
						 { "method", required_argument, NULL, 'm' },
						 { "ancestor", required_argument, NULL, 'a' },
						 { "address", required_argument, NULL, 'i' },
						 { "rpc-method", required_argument, NULL, 'r' },
						 { "tool", required_argument, NULL, 't' },
						 { "compat-lenient", no_argument, NULL, 'l' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	struct question q = { 0 };
	struct policy_decision d;
	struct policy *p;
	int c, status;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			q.policy = optarg;
			break;
		case 'b':
			q.program = optarg;
			break;
		case 'u':
			q.url = optarg;
			break;
		case 'm':
			q.method = optarg;
			break;
		case 'r':
			q.rpc_method = optarg;
			break;
		case 't':
			q.tool = optarg;
			break;
		case 'a':
			if (q.n_ancestors < 64)
				q.ancestors[q.n_ancestors++] = optarg;
			break;
		case 'i':
			if (q.n_addresses < 16)
				q.addresses[q.n_addresses++] = optarg;
			break;
		case 'l':
			q.lenient = true;
			break;
		case 'j':
			q.json = true;
			break;
		default:
			return POLICY_CMD_USAGE;
		}
	}
	if (!q.policy || !q.program || !q.url || optind != argc)
		return POLICY_CMD_USAGE;
	p = policy_cmd_load(q.policy, q.lenient, q.json);
	if (!p)
		return 1;
	if (explain(p, &q, &d) < 0) {
		policy_put(p);
		return 1;
	}
	print_decision(&d, q.json);
	status = d.verdict == POLICY_DENY;
	policy_put(p);
	return status;
}
