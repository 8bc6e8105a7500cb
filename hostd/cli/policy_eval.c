/* SPDX-License-Identifier: GPL-2.0-or-later */
/* policy_eval.c - `holdfast policy eval`: vectors in, one JSON value a line out. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/cli/policy_cmd.h"
#include "hostd/policy/json.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

#define LINE_MAX_BYTES (16u << 20)

/* A policy that was read once, by its id or its original path. */
struct known {
	char *name;
	struct policy *policy;
	char *text; /* not parsed yet */
	size_t len;
};

struct eval {
	struct known *v;
	size_t n, cap;
	const char *dir;
	struct policy *single;
};

static struct known *add_known(struct eval *e, const char *name)
{
	if (e->n == e->cap) {
		size_t cap = e->cap ? e->cap * 2 : 64;
		struct known *v = realloc(e->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		e->v = v;
		e->cap = cap;
	}
	e->v[e->n] = (struct known){ .name = strdup(name) };
	return e->v[e->n].name ? &e->v[e->n++] : NULL;
}

static struct known *find_known(struct eval *e, const char *name)
{
	for (size_t i = 0; i < e->n; i++)
		if (!strcmp(e->v[i].name, name))
			return &e->v[i];
	return NULL;
}

static struct policy *parse_text(const char *what, const char *text, size_t len, struct err *err)
{
	struct policy_diags d = { 0 };
	struct policy *p = policy_parse(text, len, POLICY_EVALUATE, &d);

	if (!p)
		err_set(err, "%s: line %u: %s%s%s", what, d.n ? d.v[0].line : 0, d.n ? d.v[0].path : "",
			d.n && *d.v[0].path ? ": " : "", d.n ? d.v[0].text : "cannot be read");
	policy_diags_free(&d);
	return p;
}

static void id_text(const json_t *id, char *out, size_t size)
{
	if (json_is_string(id))
		snprintf(out, size, "%s", json_string_value(id));
	else
		snprintf(out, size, "%lld", (long long)json_integer_value(id));
}

static int load_policies(struct eval *e, const char *path, struct err *err)
{
	_cleanup_fclose_ FILE *f = fopen(path, "r");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	if (!f)
		return err_errno(err, "cannot open %s", path);
	while ((n = getline(&line, &cap, f)) > 0) {
		json_t *o = json_loadb(line, (size_t)n, 0, NULL);
		const json_t *id = json_object_get(o, "policy_id"), *y = json_object_get(o, "policy_yaml");
		struct known *k;
		char name[256];

		if (!id || !json_is_string(y)) {
			json_decref(o);
			return err_set(err, "%s: a line without policy_id and policy_yaml", path);
		}
		id_text(id, name, sizeof(name));
		k = add_known(e, name);
		if (k) {
			k->len = json_string_length(y);
			k->text = strdup(json_string_value(y));
		}
		json_decref(o);
		if (!k || !k->text)
			return err_set(err, "out of memory");
	}
	return 0;
}

static struct policy *by_id(struct eval *e, const json_t *id, struct err *err)
{
	char name[256], what[300];
	struct known *k;

	id_text(id, name, sizeof(name));
	k = find_known(e, name);
	if (!k) {
		err_set(err, "no policy with id %s (--policies)", name);
		return NULL;
	}
	if (!k->policy) {
		snprintf(what, sizeof(what), "policy %s", name);
		k->policy = parse_text(what, k->text, k->len, err);
	}
	return k->policy;
}

/* Original paths are file names with / as _, so nothing of the line can leave the directory. */
static struct policy *by_path(struct eval *e, const char *path, struct err *err)
{
	struct known *k = find_known(e, path);
	char file[4096];
	struct buf b;
	char *c;

	if (k)
		return k->policy;
	if (!e->dir) {
		err_set(err, "the line names a policy file: give --policy-dir");
		return NULL;
	}
	snprintf(file, sizeof(file), "%s/%s", e->dir, path);
	for (c = file + strlen(e->dir) + 1; *c; c++)
		if (*c == '/')
			*c = '_';
	buf_init(&b, POLICY_BYTES_MAX);
	if (io_read_file(file, &b, err) < 0) {
		buf_free(&b);
		return NULL;
	}
	k = add_known(e, path);
	if (k)
		k->policy = parse_text(file, (const char *)b.data, b.len, err);
	buf_free(&b);
	return k ? k->policy : NULL;
}

static struct policy *policy_of(struct eval *e, const json_t *line, struct err *err)
{
	const json_t *id = json_object_get(line, "policy_id"), *path = json_object_get(line, "policy");

	if (id)
		return by_id(e, id, err);
	if (json_is_string(path))
		return by_path(e, json_string_value(path), err);
	return e->single;
}

static int eval_line(struct eval *e, const char *text, size_t len, struct err *err)
{
	_cleanup_json_ json_t *line = NULL;
	_cleanup_json_ json_t *out = NULL;
	struct policy *p = NULL;
	json_error_t je;

	err->text[0] = '\0';
	line = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
	if (!line)
		return err_set(err, "not JSON: %s", je.text);
	if (!json_is_object(line))
		return err_set(err, "not an object");
	if (json_object_get(line, "result"))
		return err_set(err, "the line brings its own result: remove it first");
	if (!json_object_get(line, "op") && !json_object_get(line, "data")) {
		p = policy_of(e, line, err);
		if (!p)
			return *err->text ? -1 : err_set(err, "no policy for this line");
	}
	out = policy_eval_vector(p, line, err);
	if (!out)
		return -1;
	json_dumpf(out, stdout, JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	putchar('\n');
	return 0;
}

static int eval_file(struct eval *e, const char *path)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = !strcmp(path, "-") ? stdin : fopen(path, "r");
	size_t cap = 0, number = 0;
	struct err err;
	int status = 0;
	ssize_t n;

	if (!f) {
		fprintf(stderr, "holdfast: cannot open %s: %m\n", path);
		return 1;
	}
	while (status == 0 && (n = getline(&line, &cap, f)) > 0) {
		number++;
		if (n > (ssize_t)LINE_MAX_BYTES || eval_line(e, line, (size_t)n, &err) < 0) {
			fflush(stdout);
			fprintf(stderr, "holdfast: %s:%zu: %s\n", path, number,
				n > (ssize_t)LINE_MAX_BYTES ? "the line is too long" : err.text);
			status = 1;
		}
	}
	if (f != stdin)
		fclose(f);
	return status;
}

int policy_cmd_eval(int argc, char **argv)
{
	static const struct option options[] = { { "vectors", required_argument, NULL, 'v' },
						 { "policies", required_argument, NULL, 'p' },
						 { "policy-dir", required_argument, NULL, 'd' },
						 { "policy", required_argument, NULL, 'f' },
						 { "json", no_argument, NULL, 'j' },
						 { 0 } };
	const char *vectors = NULL;
	struct eval e = { 0 };
	struct err err = { "" };
	int c, status = 0;

	optind = 1;
	while (status == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		struct buf b;

		switch (c) {
		case 'v':
			vectors = optarg;
			break;
		case 'p':
			if (load_policies(&e, optarg, &err) < 0)
				status = 1;
			break;
		case 'd':
			e.dir = optarg;
			break;
		case 'f':
			buf_init(&b, POLICY_BYTES_MAX);
			if (io_read_file(optarg, &b, &err) < 0 ||
			    !(e.single = parse_text(optarg, (const char *)b.data, b.len, &err)))
				status = 1;
			buf_free(&b);
			break;
		case 'j':
			break;
		default:
			status = POLICY_CMD_USAGE;
		}
	}
	if (status == 1)
		fprintf(stderr, "holdfast: %s\n", err.text);
	if (status == 0 && (!vectors || optind != argc))
		status = POLICY_CMD_USAGE;
	if (status == 0)
		status = eval_file(&e, vectors);
	for (size_t i = 0; i < e.n; i++) {
		policy_put(e.v[i].policy);
		free(e.v[i].name);
		free(e.v[i].text);
	}
	free(e.v);
	policy_put(e.single);
	return status;
}
