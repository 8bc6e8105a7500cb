/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text.c - a policy as lines that say one thing each. */
#include "hostd/policy/text.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/model.h"
#include "lib/buf.h"

struct writer {
	struct policy_lines *out;
	size_t cap;
	bool failed;
};

static void add(struct writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct writer *w, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int n;

	if (w->out->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		char **v = realloc(w->out->v, cap * sizeof(*v));

		if (!v) {
			w->failed = true;
			return;
		}
		w->out->v = v;
		w->cap = cap;
	}
	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0) {
		w->failed = true;
		return;
	}
	w->out->v[w->out->n++] = s;
}

/* ---- pieces; each is cut at its buffer's size, which shows as a missing end ---- */

static void put(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void put(char *out, size_t size, const char *fmt, ...)
{
	size_t n = strlen(out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + n, size - n, fmt, ap);
	va_end(ap);
}

static void put_matcher(char *out, size_t size, const struct matcher *m)
{
	for (size_t i = 0; i < m->n; i++)
		put(out, size, "%s%s", i ? "|" : "", m->any[i].g.text);
}

static void put_clause(char *out, size_t size, const struct clause *c)
{
	const char *space = "";

	if (c->has_method) {
		put(out, size, "%s", c->method);
		space = " ";
	}
	if (c->has_path) {
		put(out, size, "%s%s", space, c->path.g.text);
		space = " ";
	}
	if (c->has_command)
		put(out, size, "%scommand %s", space, c->command), space = " ";
	if (c->has_type)
		put(out, size, "%soperation %s", space, c->op_type), space = " ";
	if (c->has_op_name)
		put(out, size, "%sname %s", space, c->op_name_text), space = " ";
	for (size_t i = 0; i < c->n_fields; i++)
		put(out, size, "%s%s", i ? "," : " fields ", c->fields[i].g.text);
	for (size_t i = 0; i < c->n_query; i++) {
		put(out, size, "%squery %s=", space, c->query[i].key);
		put_matcher(out, size, &c->query[i].m);
	}
	for (size_t i = 0; i < c->n_params; i++) {
		put(out, size, "%s%s=", space, c->params[i].key);
		put_matcher(out, size, &c->params[i].m);
	}
}

static void put_endpoint(char *out, size_t size, const struct endpoint *e)
{
	put(out, size, "%s:", *e->host.g.text ? e->host.g.text : "(any host)");
	for (size_t i = 0; i < e->n_ports; i++)
		put(out, size, "%s%u", i ? "," : "", e->ports[i]);
	if (*e->path)
		put(out, size, " path %s", e->path);
}

static void endpoint_lines(struct writer *w, const struct rule *r, const struct endpoint *e)
{
	char where[1024] = "", how[1024] = "";

	put_endpoint(where, sizeof(where), e);
	if (e->protocol != POLICY_PROTO_NONE)
		put(how, sizeof(how), " protocol %s", e->protocol_text);
	if (e->protocol != POLICY_PROTO_NONE && e->protocol != POLICY_PROTO_TCP)
		put(how, sizeof(how), " %s", e->enforce ? "enforced" : "audited only");
	if (e->tls_skip)
		put(how, sizeof(how), " tls skip");
	for (size_t i = 0; i < e->n_allowed_ips; i++)
		put(how, sizeof(how), "%s%s", i ? "," : " allowed_ips ", e->allowed_ip_texts[i]);
	if (e->allow_encoded_slash)
		put(how, sizeof(how), " allow_encoded_slash");
	if (e->protocol == POLICY_PROTO_MCP && e->allow_all)
		put(how, sizeof(how), " all methods");
	if (e->protocol == POLICY_PROTO_MCP && !e->strict_tools)
		put(how, sizeof(how), " any tool name");
	if (!strcmp(e->persisted, "allow_registered"))
		put(how, sizeof(how), " registered queries");
	add(w, "rule %s: connect to %s%s", r->key, where, how);
	for (int deny = 0; deny < 2; deny++) {
		const struct clause *c = deny ? e->deny : e->allow;
		size_t n = deny ? e->n_deny : e->n_allow;

		for (size_t i = 0; i < n; i++) {
			char text[2048] = "";

			put_clause(text, sizeof(text), &c[i]);
			add(w, "rule %s: %s on %s: %s", r->key, deny ? "deny" : "allow", where, text);
		}
	}
	for (size_t i = 0; i < e->n_registry; i++)
		add(w, "rule %s: registered query on %s: %s (%s)", r->key, where, e->registry[i].key,
		    e->registry[i].op.type);
}

static int by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void unique(struct policy_lines *l)
{
	size_t n = 0;

	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_line);
	for (size_t i = 0; i < l->n; i++) {
		if (n && !strcmp(l->v[n - 1], l->v[i]))
			free(l->v[i]);
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

int policy_lines(const struct policy *p, struct policy_lines *out)
{
	struct writer w = { .out = out };

	memset(out, 0, sizeof(*out));
	if (!p)
		return 0;
	if (p->st.has_filesystem)
		add(&w, "files: workspace folder %s", p->st.include_workdir ? "writable" : "not included");
	for (size_t i = 0; i < p->st.n_read_only; i++)
		add(&w, "files: read %s", p->st.read_only[i]);
	for (size_t i = 0; i < p->st.n_read_write; i++)
		add(&w, "files: read and write %s", p->st.read_write[i]);
	if (p->st.has_landlock)
		add(&w, "landlock: %s", p->st.hard_requirement ? "hard_requirement" : "best_effort");
	if (p->st.has_process)
		add(&w, "process: user %s, group %s", p->st.run_as_user ? p->st.run_as_user : "(default)",
		    p->st.run_as_group ? p->st.run_as_group : "(default)");
	for (size_t r = 0; r < p->n_rules; r++) {
		const struct rule *rule = &p->rules[r];

		for (size_t i = 0; i < rule->n_programs; i++)
			add(&w, "rule %s: program %s", rule->key, rule->programs[i].path.g.text);
		for (size_t i = 0; i < rule->n_endpoints; i++)
			endpoint_lines(&w, rule, &rule->endpoints[i]);
	}
	unique(out);
	if (w.failed) {
		policy_lines_free(out);
		return -1;
	}
	return 0;
}

void policy_lines_free(struct policy_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	memset(l, 0, sizeof(*l));
}

int policy_diff(const struct policy *from, const struct policy *to, struct policy_lines *out)
{
	struct policy_lines a, b;
	struct writer w = { .out = out };
	size_t i = 0, k = 0;

	memset(out, 0, sizeof(*out));
	if (policy_lines(from, &a) < 0)
		return -1;
	if (policy_lines(to, &b) < 0) {
		policy_lines_free(&a);
		return -1;
	}
	while (i < a.n || k < b.n) {
		int c = i == a.n ? 1 : k == b.n ? -1 : strcmp(a.v[i], b.v[k]);

		if (c < 0)
			add(&w, "- %s", a.v[i++]);
		else if (c > 0)
			add(&w, "+ %s", b.v[k++]);
		else
			i++, k++;
	}
	policy_lines_free(&a);
	policy_lines_free(&b);
	if (w.failed) {
		policy_lines_free(out);
		return -1;
	}
	return (int)out->n;
}

/* ---- YAML ---- */

void policy_yaml_scalar(const char *s, char *out, size_t size)
{
	struct ynode n = { .plain = true, .text = s };
	bool plain = *s && policy_yaml_type(&n) == YSCALAR_STRING && strcmp(s, "<<");
	size_t at = 0;

	for (const char *c = s; *c && plain; c++)
		plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
			*c == '_' || *c == '/' || *c == '.' || (*c == '-' && c != s);
	if (plain) {
		snprintf(out, size, "%s", s);
		return;
	}
	if (size < 3) {
		*out = '\0';
		return;
	}
	out[at++] = '"';
	for (const unsigned char *c = (const unsigned char *)s; *c && at + 8 < size; c++) {
		if (*c == '"' || *c == '\\')
			out[at++] = '\\';
		if (*c < 0x20 || *c == 0x7f)
			at += (size_t)snprintf(out + at, size - at, "\\x%02x", *c);
		else
			out[at++] = (char)*c;
	}
	out[at++] = '"';
	out[at] = '\0';
}

static int emit(struct buf *b, const json_t *j, unsigned int depth, bool in_list)
{
	char text[PATH_MAX + 64];
	const char *key;
	json_t *v;
	size_t i;
	int rc = 0;
	bool first = true;

	if (json_is_object(j) && json_object_size(j)) {
		json_object_foreach((json_t *)j, key, v) {
			bool nested = (json_is_object(v) && json_object_size(v)) ||
				      (json_is_array(v) && json_array_size(v));

			policy_yaml_scalar(key, text, sizeof(text));
			rc |= buf_putf(b, "%*s%s:%s", first && in_list ? 0 : (int)depth * 2, "", text,
				       nested ? "\n" : " ");
			rc |= emit(b, v, depth + 1, false);
			first = false;
		}
		return rc;
	}
	if (json_is_array(j) && json_array_size(j)) {
		json_array_foreach((json_t *)j, i, v) {
			rc |= buf_putf(b, "%*s- ", (int)depth * 2, "");
			rc |= emit(b, v, depth + 1, true);
		}
		return rc;
	}
	if (json_is_string(j)) {
		policy_yaml_scalar(json_string_value(j), text, sizeof(text));
		return buf_putf(b, "%s\n", text);
	}
	if (json_is_integer(j))
		return buf_putf(b, "%lld\n", (long long)json_integer_value(j));
	return buf_putf(b, "%s\n", json_is_object(j) ? "{}" : json_is_array(j) ? "[]" : json_is_true(j) ?
									       "true" : json_is_false(j) ?
									       "false" : "null");
}

char *policy_yaml_text(const json_t *json)
{
	struct buf b;

	buf_init(&b, POLICY_BYTES_MAX);
	if (emit(&b, json, 0, false) < 0 || buf_put_u8(&b, 0) < 0) {
		buf_free(&b);
		return NULL;
	}
	return (char *)b.data;
}
