/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * draft.c - from refusals to the narrowest rules that would have prevented them.
 *
 * One draft per host, port and program.  A path segment becomes `*` only where refusals really differ in
 * it and nothing else; addresses that no rule can allow are never drafted.  A draft is text for a person:
 * nothing here changes a policy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hostd/policy/model.h"
#include "hostd/policy/text.h"
#include "lib/buf.h"

#define GROUPS_MAX 500
#define SAMPLES_MAX POLICY_DRAFT_PATHS

struct sample {
	const char *method, *path; /* path without query */
	size_t path_len;
};

struct group {
	const char *host, *program;
	uint16_t port;
	uint64_t count;
	struct sample sample[SAMPLES_MAX];
	size_t n_samples;
	bool requests, connections; /* what was refused */
	bool internal, overflow;
};

static bool undraftable(const struct policy_denial *d)
{
	struct policy_addr a;
	size_t n = strlen(d->host);

	if (!*d->host || !d->port || !d->program || d->program[0] != '/')
		return true;
	if (policy_host_is_literal(d->host, &a) && policy_addr_blocked(&a))
		return true;
	while (n && d->host[n - 1] == '.')
		n--;
	return !strncasecmp(d->host, "localhost", n > 9 ? n : 9) ||
	       (n == 24 && !strncasecmp(d->host, "metadata.google.internal", 24)) ||
	       d->reason == POLICY_DEST_BLOCKED || d->reason == POLICY_DENY_RULE ||
	       strpbrk(d->host, "*?[]{}\\\"'\n ") != NULL;
}

static struct group *group_of(struct group *g, size_t *n, const struct policy_denial *d)
{
	for (size_t i = 0; i < *n; i++)
		if (g[i].port == d->port && !strcasecmp(g[i].host, d->host) && !strcmp(g[i].program, d->program))
			return &g[i];
	if (*n == GROUPS_MAX)
		return NULL;
	memset(&g[*n], 0, sizeof(*g));
	g[*n].host = d->host;
	g[*n].program = d->program;
	g[*n].port = d->port;
	return &g[(*n)++];
}

static void add_sample(struct group *g, const struct policy_denial *d)
{
	size_t len = d->path ? strcspn(d->path, "?#") : 0;

	if (!d->method || !d->path || d->path[0] != '/') {
		g->connections = true;
		return;
	}
	g->requests = true;
	for (size_t i = 0; i < g->n_samples; i++)
		if (!strcmp(g->sample[i].method, d->method) && g->sample[i].path_len == len &&
		    !memcmp(g->sample[i].path, d->path, len))
			return;
	if (g->n_samples == SAMPLES_MAX) {
		g->overflow = true;
		return;
	}
	g->sample[g->n_samples++] = (struct sample){ d->method, d->path, len };
}

/* ---- paths ---- */

struct drafted {
	char method[32];
	char path[POLICY_PATH_MAX + 1];
	bool star; /* a segment was generalised */
};

static const char *segment(const char *p, const char *end, size_t *len)
{
	const char *s = p + 1, *next = memchr(s, '/', (size_t)(end - s));

	*len = (size_t)((next ? next : end) - s);
	return s;
}

/* The two paths have the same segments but one: where that is.  -1 otherwise. */
static int differ_in_one(const char *a, size_t an, const char *b, size_t bn)
{
	const char *aend = a + an, *bend = b + bn;
	int at = -1;

	for (int i = 0; a < aend && b < bend; i++) {
		size_t n, m;
		const char *x = segment(a, aend, &n), *y = segment(b, bend, &m);

		if (n != m || memcmp(x, y, n)) {
			if (at >= 0 || !n || !m)
				return -1;
			at = i;
		}
		a = x + n;
		b = y + m;
	}
	return a == aend && b == bend ? at : -1;
}

/* Something counted or random: only such segments are worth a wildcard. */
static bool volatile_segment(const char *s, size_t n)
{
	size_t digits = 0, hex = 0, dashes = 0;

	for (size_t i = 0; i < n; i++) {
		digits += s[i] >= '0' && s[i] <= '9';
		hex += (s[i] >= '0' && s[i] <= '9') || ((s[i] | 0x20) >= 'a' && (s[i] | 0x20) <= 'f');
		dashes += s[i] == '-';
	}
	return digits >= 1 || (n >= 16 && hex == n) || (n >= 24 && hex + dashes == n);
}

static void quote_glob(const char *s, size_t n, char *out, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n && at + 3 < size; i++) {
		if (strchr("*?[]{}\\", s[i]))
			out[at++] = '\\';
		out[at++] = s[i];
	}
	out[at] = '\0';
}

/* The pattern of sample @i: its path, with `*` for the one segment in which a sibling differs. */
static void draft_path(const struct group *g, size_t i, struct drafted *d)
{
	const struct sample *s = &g->sample[i];
	const char *p = s->path, *end = s->path + s->path_len;
	int star = -1;

	for (size_t k = 0; k < g->n_samples; k++) {
		int at = k == i || strcmp(g->sample[k].method, s->method) ?
				 -1 :
				 differ_in_one(s->path, s->path_len, g->sample[k].path, g->sample[k].path_len);

		if (at < 0)
			continue;
		/* both sides must look like values of something, not like two resources */
		const char *a = s->path, *b = g->sample[k].path;
		size_t n = 0, m = 0;

		for (int q = 0; q <= at; q++) {
			a = segment(q ? a + n : s->path, end, &n);
			b = segment(q ? b + m : g->sample[k].path, g->sample[k].path + g->sample[k].path_len, &m);
		}
		if (volatile_segment(a, n) && volatile_segment(b, m))
			star = at;
	}
	snprintf(d->method, sizeof(d->method), "%s", s->method);
	d->path[0] = '\0';
	d->star = star >= 0;
	for (int q = 0; p < end; q++) {
		size_t n, at = strlen(d->path);
		const char *x = segment(p, end, &n);

		if (q == star)
			snprintf(d->path + at, sizeof(d->path) - at, "/*");
		else {
			snprintf(d->path + at, sizeof(d->path) - at, "/");
			quote_glob(x, n, d->path + at + 1, sizeof(d->path) - at - 1);
		}
		p = x + n;
	}
}

static size_t draft_paths(const struct group *g, struct drafted *out)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n_samples; i++) {
		bool known = false;

		draft_path(g, i, &out[n]);
		for (size_t k = 0; k < n; k++)
			known |= !strcmp(out[k].method, out[n].method) && !strcmp(out[k].path, out[n].path);
		n += !known;
	}
	return n;
}

/* ---- text ---- */

static void rule_key(const struct policy *current, const struct group *g, const struct policy_draft *before,
		     size_t n_before, char *out, size_t size)
{
	char base[100];
	bool taken = true;

	snprintf(base, sizeof(base), "allow_%s_%u", g->host, g->port);
	for (char *c = base; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
			*c = '_';
	for (unsigned int i = 1; taken; i++) {
		if (i == 1)
			snprintf(out, size, "%s", base);
		else
			snprintf(out, size, "%s_%u", base, i);
		taken = false;
		for (size_t k = 0; current && k < current->n_rules; k++)
			taken |= !strcmp(current->rules[k].key, out);
		for (size_t k = 0; k < n_before; k++)
			taken |= !strcmp(before[k].key, out);
	}
}

static char *write_rule(const struct group *g, const char *key)
{
	char host[600], program[8400], text[POLICY_PATH_MAX * 2 + 16];
	struct drafted *d = calloc(SAMPLES_MAX, sizeof(*d));
	size_t n = d ? draft_paths(g, d) : 0;
	struct buf b;
	int rc = d ? 0 : -1;

	buf_init(&b, 1u << 20);
	policy_yaml_scalar(g->host, host, sizeof(host));
	policy_yaml_scalar(g->program, program, sizeof(program));
	rc |= buf_putf(&b, "  %s:\n    endpoints:\n      - host: %s\n        port: %u\n", key, host, g->port);
	if (n && !g->connections) {
		rc |= buf_putf(&b, "        protocol: rest\n        enforcement: enforce\n        rules:\n");
		for (size_t i = 0; i < n; i++) {
			policy_yaml_scalar(d[i].path, text, sizeof(text));
			rc |= buf_putf(&b, "          - allow: { method: %s, path: %s }\n", d[i].method, text);
		}
	}
	rc |= buf_putf(&b, "    binaries:\n      - path: %s\n", program);
	rc |= buf_put_u8(&b, 0);
	free(d);
	if (rc < 0) {
		buf_free(&b);
		return NULL;
	}
	return (char *)b.data;
}

/* The current document with the rule behind its others; comments and order of the rest stay. */
static char *write_document(const struct policy *current, const char *rule)
{
	const char *source = current ? current->source : "version: 1\n", *at, *end, *flow;
	size_t len = strlen(source);
	struct buf b;
	int rc = 0;

	buf_init(&b, POLICY_BYTES_MAX);
	at = strncmp(source, "network_policies:", 17) ? strstr(source, "\nnetwork_policies:") : source - 1;
	if (!at) {
		rc |= buf_put(&b, source, len);
		if (len && source[len - 1] != '\n')
			rc |= buf_put_str(&b, "\n");
		rc |= buf_putf(&b, "\nnetwork_policies:\n%s", rule);
	} else {
		const char *line = at + 1;

		end = strchrnul(line, '\n');
		flow = strstr(line, "{}");
		if (flow && flow < end) { /* an empty map in one line */
			rc |= buf_put(&b, source, (size_t)(line - source));
			rc |= buf_putf(&b, "network_policies:\n%s", rule);
			rc |= buf_put_str(&b, *end ? end + 1 : end);
		} else {
			rc |= buf_put(&b, source, (size_t)(end - source));
			rc |= buf_putf(&b, "\n%s", rule);
			rc |= buf_put_str(&b, *end ? end + 1 : end);
		}
	}
	rc |= buf_put_u8(&b, 0);
	if (rc < 0) {
		buf_free(&b);
		return NULL;
	}
	return (char *)b.data;
}

static char *new_lines(const struct policy *from, const struct policy *to)
{
	struct policy_lines l;
	struct buf b;
	int rc = 0;

	if (policy_diff(from, to, &l) < 0)
		return NULL;
	buf_init(&b, 1u << 20);
	for (size_t i = 0; i < l.n; i++)
		if (l.v[i][0] == '+')
			rc |= buf_putf(&b, "%s\n", l.v[i] + 2);
	rc |= buf_put_u8(&b, 0);
	policy_lines_free(&l);
	if (rc < 0) {
		buf_free(&b);
		return NULL;
	}
	return (char *)b.data;
}

/* How the refusal would be judged under @p. */
static bool would_pass(const struct policy *p, const struct policy_denial *d)
{
	struct policy_l4_input l4 = { .host = d->host, .port = d->port, .program = d->program,
				      .ancestors = d->ancestors, .n = d->n_ancestors };
	struct policy_request r = { .l4 = l4, .method = d->method };
	struct policy_decision out;
	struct policy_canon c;

	policy_decide_l4(p, &l4, &out);
	if (out.verdict == POLICY_DENY || !d->method || !d->path)
		return out.verdict != POLICY_DENY;
	if (policy_canon(d->path, strlen(d->path), true, &c) != POLICY_CANON_OK)
		return false;
	r.path = c.path;
	policy_decide_request(p, &r, &out);
	return out.verdict != POLICY_DENY;
}

bool policy_denial_passes(const struct policy *p, const struct policy_denial *d)
{
	return would_pass(p, d);
}

static double confidence(const struct group *g)
{
	static const uint16_t known[] = { 22, 80, 443, 5432, 8080, 8443 };
	double c = 0.5 + (g->count >= 10 ? 0.2 : g->count >= 3 ? 0.1 : 0.0);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		c += g->port == known[i] ? 0.15 : 0.0;
	c -= g->internal ? 0.2 : 0.0;
	return c < 0.1 ? 0.1 : c > 0.95 ? 0.95 : c;
}

static void write_note(const struct group *g, char *out, size_t size)
{
	static const uint16_t databases[] = { 1433, 1521, 3306, 5432, 6379, 9042, 27017 };
	size_t n = 0;

	*out = '\0';
	if (g->internal)
		n += (size_t)snprintf(out, size, "the host is in a private network; ");
	if (g->port > 49152)
		n += (size_t)snprintf(out + n, size - n, "the port is a temporary one; ");
	for (size_t i = 0; i < sizeof(databases) / sizeof(databases[0]); i++)
		if (g->port == databases[i])
			n += (size_t)snprintf(out + n, size - n, "the port is one of a database; ");
	if (g->overflow)
		n += (size_t)snprintf(out + n, size - n, "more than %d different requests were seen; ",
				      SAMPLES_MAX);
	if (n >= 2)
		out[n - 2 < size ? n - 2 : size - 1] = '\0';
}

static int fill(struct policy_draft *d, const struct group *g, struct policy *current,
		struct policy *boundary, const struct policy_denial *denials, size_t n)
{
	struct policy_diags diags = { 0 };
	struct policy_proof proof = { 0 };
	struct policy *next;

	d->yaml = write_rule(g, d->key);
	d->document = d->yaml ? write_document(current, d->yaml) : NULL;
	if (!d->document)
		return -1;
	d->confidence = confidence(g);
	write_note(g, d->note, sizeof(d->note));
	next = policy_parse(d->document, strlen(d->document), POLICY_STRICT, &diags);
	if (!next) {
		d->boundary = POLICY_UNSUPPORTED;
		snprintf(d->boundary_text, sizeof(d->boundary_text), "the policy would be refused: %s",
			 diags.n ? diags.v[0].text : "it cannot be read");
		for (size_t i = 0; i < diags.n; i++)
			if (!diags.v[i].warning) {
				snprintf(d->boundary_text, sizeof(d->boundary_text),
					 "the policy would be refused: %s: %s", diags.v[i].path, diags.v[i].text);
				break;
			}
		policy_diags_free(&diags);
		return 0;
	}
	policy_diags_free(&diags);
	for (size_t i = 0; i < n; i++)
		if (!undraftable(&denials[i]) && would_pass(next, &denials[i]) &&
		    !(current && would_pass(current, &denials[i])))
			d->denials += denials[i].count ? denials[i].count : 1;
	d->allows = new_lines(current, next);
	if (boundary) {
		d->boundary = policy_contains(boundary, next, &proof);
		snprintf(d->boundary_text, sizeof(d->boundary_text), "%s", proof.text);
		policy_proof_free(&proof);
	}
	policy_put(next);
	return d->allows ? 0 : -1;
}

static int by_confidence(const void *a, const void *b)
{
	const struct policy_draft *x = a, *y = b;

	if (x->confidence != y->confidence)
		return x->confidence > y->confidence ? -1 : 1;
	return strcmp(x->key, y->key);
}

struct policy_draft *policy_draft_rules(struct policy *current, struct policy *boundary,
					const struct policy_denial *denials, size_t n_denials, size_t *n,
					struct err *err)
{
	struct group *g = calloc(GROUPS_MAX, sizeof(*g));
	struct policy_draft *d = NULL;
	size_t groups = 0;

	*n = 0;
	for (size_t i = 0; g && i < n_denials; i++) {
		struct group *to;
		struct policy_addr a;

		if (undraftable(&denials[i]) || (current && would_pass(current, &denials[i])))
			continue;
		to = group_of(g, &groups, &denials[i]);
		if (!to)
			continue;
		to->count += denials[i].count ? denials[i].count : 1;
		to->internal |= denials[i].reason == POLICY_DEST_INTERNAL ||
				(policy_host_is_literal(to->host, &a) && policy_addr_internal(&a));
		add_sample(to, &denials[i]);
	}
	d = g ? calloc(groups ? groups : 1, sizeof(*d)) : NULL;
	for (size_t i = 0; d && i < groups; i++) {
		rule_key(current, &g[i], d, i, d[i].key, sizeof(d[i].key));
		if (fill(&d[i], &g[i], current, boundary, denials, n_denials) < 0) {
			policy_drafts_free(d, groups);
			d = NULL;
		}
	}
	free(g);
	if (!d) {
		err_set(err, "out of memory");
		return NULL;
	}
	if (groups)
		qsort(d, groups, sizeof(*d), by_confidence);
	*n = groups;
	return d;
}

void policy_drafts_free(struct policy_draft *d, size_t n)
{
	for (size_t i = 0; d && i < n; i++) {
		free(d[i].yaml);
		free(d[i].document);
		free(d[i].allows);
	}
	free(d);
}
