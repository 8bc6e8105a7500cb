/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_policy.c - what a decision costs.
 *
 *	bench_policy decide POLICY INPUTS.jsonl SECONDS	"ALLOWED OF NS", as the other engines print it
 *	bench_policy parse POLICY			"BYTES MS"
 *	bench_policy prove CANDIDATE BOUNDARY		"RESULT MS"
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hostd/policy/policy.h"
#include "lib/buf.h"
#include "lib/io.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* other work on the machine does not count */
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct policy *load(const char *path, size_t *bytes, double *ms)
{
	struct policy_diags d = { 0 };
	struct policy *p;
	struct err err;
	struct buf b;
	double start;

	buf_init(&b, POLICY_BYTES_MAX);
	if (io_read_file(path, &b, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	start = now();
	p = policy_parse(b.data, b.len, POLICY_STRICT, &d);
	*ms = (now() - start) * 1e3;
	*bytes = b.len;
	if (!p) {
		fprintf(stderr, "%s:%u: %s: %s\n", path, d.v[0].line, d.v[0].path, d.v[0].text);
		exit(1);
	}
	policy_diags_free(&d);
	buf_free(&b);
	return p;
}

static int decide(const struct policy *p, const char *path, double seconds)
{
	struct policy_request *r = NULL;
	size_t n = 0, cap = 0, done = 0, allowed = 0;
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;
	double start;

	while (f && getline(&line, &size, f) > 0) {
		json_t *o = json_loads(line, 0, NULL); /* kept: the strings are used */

		if (n == cap) {
			cap = cap ? cap * 2 : 1024;
			r = realloc(r, cap * sizeof(*r));
			if (!r)
				return 1;
		}
		r[n++] = (struct policy_request){
			.l4 = { .host = json_string_value(json_object_get(o, "host")),
				.port = (uint16_t)json_integer_value(json_object_get(o, "port")),
				.program = json_string_value(json_object_get(o, "program")) },
			.method = json_string_value(json_object_get(o, "method")),
			.path = json_string_value(json_object_get(o, "path")),
		};
	}
	if (!n)
		return 1;
	start = now();
	while (done < n || now() - start < seconds)
		for (size_t i = 0; i < n; i++, done++) {
			struct policy_decision d;

			policy_decide_request(p, &r[i], &d);
			allowed += done < n && d.verdict == POLICY_ALLOW;
		}
	printf("%zu %zu %.0f\n", allowed, n, (now() - start) * 1e9 / (double)done);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const results[] = { "within", "exceeds", "unsupported" };
	struct policy_proof proof;
	struct policy *p, *q;
	size_t bytes;
	double ms, start;

	if (argc < 3)
		return 2;
	p = load(argv[2], &bytes, &ms);
	if (!strcmp(argv[1], "decide") && argc == 5)
		return decide(p, argv[3], atof(argv[4]));
	if (!strcmp(argv[1], "parse"))
		printf("%zu %.1f\n", bytes, ms);
	if (!strcmp(argv[1], "prove") && argc == 4) {
		q = load(argv[3], &bytes, &ms);
		start = now();
		policy_contains(q, p, &proof);
		printf("%s %.1f\n", results[proof.result], (now() - start) * 1e3);
		policy_proof_free(&proof);
		policy_put(q);
	}
	policy_put(p);
	return 0;
}
