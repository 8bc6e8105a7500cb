/* SPDX-License-Identifier: GPL-2.0-or-later */
/* yaml.c - a bounded tree of one YAML 1.2 document, with the position of each node. */
#include "hostd/policy/yaml.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- diagnostics ---- */

static char *copy(const char *s)
{
	char *p = strdup(s ? s : "");

	/* Terminals show these texts: nothing of the document may move the cursor. */
	for (char *c = p; c && *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return p;
}

void policy_diag_add(struct policy_diags *d, bool warning, unsigned int line, unsigned int column,
		     const char *path, const char *expected, const char *fmt, ...)
{
	struct policy_diag *v;
	char text[1024];
	va_list ap;

	if (warning)
		d->warnings++;
	else
		d->errors++;
	if (d->n >= POLICY_DIAGS_MAX)
		return;
	if (d->n == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 16;

		v = realloc(d->v, cap * sizeof(*v));
		if (!v)
			return;
		d->v = v;
		d->cap = cap;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	v = &d->v[d->n];
	*v = (struct policy_diag){ warning, line, column, copy(path), copy(text), copy(expected) };
	if (!v->path || !v->text || !v->expected) {
		free((char *)v->path);
		free((char *)v->text);
		free((char *)v->expected);
		return;
	}
	d->n++;
}

void policy_diags_free(struct policy_diags *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free((char *)d->v[i].path);
		free((char *)d->v[i].text);
		free((char *)d->v[i].expected);
	}
	free(d->v);
	memset(d, 0, sizeof(*d));
}

/* ---- scalars ---- */

static bool is_word(const struct ynode *n, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(n->text, *words))
			return true;
	return false;
}

static size_t digits(const char *s, const char *set)
{
	return strspn(s, set);
}

enum yscalar policy_yaml_type(const struct ynode *n)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
	static const char *const bools[] = { "true", "True", "TRUE", "false", "False", "FALSE", NULL };
	static const char *const floats[] = { ".inf", ".Inf", ".INF", "-.inf", "-.Inf", "-.INF", "+.inf",
					      "+.Inf", "+.INF", ".nan", ".NaN", ".NAN", NULL };
	const char *s = n->text;
	size_t whole, fraction = 0, exponent;
	bool dot = false;

	if (!n->plain)
		return YSCALAR_STRING;
	if (is_word(n, nulls))
		return YSCALAR_NULL;
	if (is_word(n, bools))
		return YSCALAR_BOOL;
	if (is_word(n, floats))
		return YSCALAR_FLOAT;
	if (s[0] == '0' && s[1] == 'o')
		return s[2] && !s[2 + digits(s + 2, "01234567")] ? YSCALAR_INT : YSCALAR_STRING;
	if (s[0] == '0' && s[1] == 'x')
		return s[2] && !s[2 + digits(s + 2, "0123456789abcdefABCDEF")] ? YSCALAR_INT :
										YSCALAR_STRING;
	if (*s == '-' || *s == '+')
		s++;
	whole = digits(s, "0123456789");
	s += whole;
	if (whole && !*s)
		return YSCALAR_INT;
	if (*s == '.') {
		dot = true;
		fraction = digits(++s, "0123456789");
		s += fraction;
	}
	if (!whole && !fraction)
		return YSCALAR_STRING;
	if (*s == 'e' || *s == 'E') {
		s++;
		if (*s == '-' || *s == '+')
			s++;
		exponent = digits(s, "0123456789");
		return exponent && !s[exponent] ? YSCALAR_FLOAT : YSCALAR_STRING;
	}
	return dot && !*s ? YSCALAR_FLOAT : YSCALAR_STRING;
}

int policy_yaml_int(const struct ynode *n, int64_t *out)
{
	const char *s = n->text;
	bool negative = *s == '-';
	unsigned int base = 10;
	int64_t v = 0;

	if (*s == '-' || *s == '+')
		s++;
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'o')) {
		base = s[1] == 'x' ? 16 : 8;
		s += 2;
	}
	for (; *s; s++) {
		unsigned int d = *s <= '9' ? (unsigned int)(*s - '0') :
					     (unsigned int)((*s | 0x20) - 'a') + 10;

		if (v > (INT64_MAX - d) / base)
			return -1;
		v = v * base + d;
	}
	*out = negative ? -v : v;
	return 0;
}

struct ynode *policy_yaml_get(const struct ynode *map, const char *key)
{
	if (!map || map->kind != YNODE_MAP)
		return NULL;
	for (size_t i = 0; i < map->n; i++)
		if (map->key[i]->kind == YNODE_SCALAR && !strcmp(map->key[i]->text, key))
			return map->item[i];
	return NULL;
}

/* ---- parsing ---- */

struct anchor {
	const char *name;
	struct ynode *node;
	size_t weight; /* nodes below it, itself included, as a walk would see them */
};

struct reading {
	struct arena *arena;
	struct fy_parser *fyp;
	struct policy_diags *diags;
	bool aliases;
	size_t nodes, depth;
	struct anchor *anchors;
	size_t n_anchors;
	bool failed; /* stop */
};

static bool is_quoted(struct fy_token *value)
{
	enum fy_scalar_style style = fy_token_scalar_style(value);

	return style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
}

static void position(struct fy_event *e, unsigned int *line, unsigned int *column)
{
	const struct fy_mark *m = fy_event_start_mark(e);

	*line = m && m->line >= 0 ? (unsigned int)m->line + 1 : 0;
	*column = m && m->column >= 0 ? (unsigned int)m->column + 1 : 0;
	/* the mark of a quoted scalar is behind its quote */
	if (*column > 1 && e->type == FYET_SCALAR && e->scalar.value && is_quoted(e->scalar.value))
		--*column;
}

static void refuse(struct reading *r, struct fy_event *e, const char *expected, const char *text)
{
	unsigned int line, column;

	position(e, &line, &column);
	policy_diag_add(r->diags, false, line, column, "", expected, "%s", text);
}

static struct ynode *node_new(struct reading *r, struct fy_event *e, enum ynode_kind kind)
{
	struct ynode *n;

	if (++r->nodes > YAML_NODES_MAX) {
		refuse(r, e, "", "the document has too many values");
		r->failed = true;
		return NULL;
	}
	n = policy_arena_alloc(r->arena, sizeof(*n));
	if (!n) {
		r->failed = true;
		return NULL;
	}
	n->kind = (uint8_t)kind;
	position(e, &n->line, &n->column);
	return n;
}

static const char *token_text(struct arena *a, struct fy_token *t, size_t *len)
{
	size_t n = 0;
	const char *s = t ? fy_token_get_text(t, &n) : NULL;

	*len = s ? n : 0;
	return policy_arena_strndup(a, s ? s : "", *len);
}

static void check_properties(struct reading *r, struct fy_event *e)
{
	if (fy_event_get_anchor_token(e) && !r->aliases)
		refuse(r, e, "the value written out", "anchors (&name) are not allowed in a policy");
	if (fy_event_get_tag_token(e))
		refuse(r, e, "no tag", "tags (!name) are not allowed in a policy");
}

static size_t weight(const struct ynode *n, size_t budget)
{
	size_t w = 1;

	for (size_t i = 0; n->kind != YNODE_SCALAR && i < n->n && w < budget; i++)
		w += weight(n->item[i], budget - w) + (n->key ? 1 : 0);
	return w;
}

static void remember(struct reading *r, struct fy_event *e, struct ynode *n)
{
	struct fy_token *t = fy_event_get_anchor_token(e);
	struct anchor *a;
	size_t len;

	if (!t || !r->aliases)
		return;
	a = policy_arena_push(r->arena, &r->anchors, &r->n_anchors, sizeof(*a));
	if (!a)
		return;
	a->name = token_text(r->arena, t, &len);
	a->node = n;
}

static struct ynode *resolve(struct reading *r, struct fy_event *e)
{
	size_t len;
	const char *name = token_text(r->arena, fy_event_get_token(e), &len);

	if (!r->aliases) {
		refuse(r, e, "the value written out", "aliases (*name) are not allowed in a policy");
		return NULL;
	}
	for (size_t i = r->n_anchors; name && i-- > 0;)
		if (r->anchors[i].name && !strcmp(r->anchors[i].name, name)) {
			if (!r->anchors[i].node) /* still being read: it would contain itself */
				break;
			/* what a walk of the result would see counts against the bound */
			r->nodes += weight(r->anchors[i].node, YAML_NODES_MAX);
			if (r->nodes > YAML_NODES_MAX) {
				refuse(r, e, "", "the document has too many values");
				r->failed = true;
				return NULL;
			}
			return r->anchors[i].node;
		}
	refuse(r, e, "", "this alias names nothing");
	r->failed = true;
	return NULL;
}

static struct ynode *read_node(struct reading *r, struct fy_event *e);

static struct fy_event *next_event(struct reading *r)
{
	return r->failed ? NULL : fy_parser_parse(r->fyp);
}

static struct ynode *read_scalar(struct reading *r, struct fy_event *e)
{
	struct ynode *n = node_new(r, e, YNODE_SCALAR);

	if (!n)
		return NULL;
	n->text = token_text(r->arena, e->scalar.value, &n->len);
	if (!n->text) {
		r->failed = true;
		return NULL;
	}
	n->plain = !e->scalar.value || fy_scalar_token_get_style(e->scalar.value) == FYSS_PLAIN;
	if (memchr(n->text, 0, n->len)) {
		refuse(r, e, "", "a NUL character in a value");
		n->len = strlen(n->text);
	}
	return n;
}

static struct ynode *read_collection(struct reading *r, struct fy_event *e, bool map)
{
	struct ynode *n = node_new(r, e, map ? YNODE_MAP : YNODE_LIST);
	size_t keys = 0, values = 0;

	if (!n)
		return NULL;
	if (++r->depth > YAML_DEPTH_MAX) {
		refuse(r, e, "", "the document is nested too deeply");
		r->failed = true;
		return NULL;
	}
	for (;;) {
		struct fy_event *in = next_event(r);
		struct ynode *value, **slot;
		bool is_key = map && keys == values;

		if (!in) {
			r->failed = true;
			return NULL;
		}
		if (in->type == (map ? FYET_MAPPING_END : FYET_SEQUENCE_END)) {
			fy_parser_event_free(r->fyp, in);
			break;
		}
		value = read_node(r, in);
		if (!value && !r->failed) { /* reported already; a null stands in for it */
			value = node_new(r, in, YNODE_SCALAR);
			if (value) {
				value->text = "";
				value->plain = true;
			}
		}
		fy_parser_event_free(r->fyp, in);
		if (!value)
			return NULL;
		slot = is_key ? policy_arena_push(r->arena, &n->key, &keys, sizeof(*slot)) :
				policy_arena_push(r->arena, &n->item, &values, sizeof(*slot));
		if (!slot) {
			r->failed = true;
			return NULL;
		}
		*slot = value;
	}
	n->n = values;
	r->depth--;
	return n;
}

static struct ynode *read_node(struct reading *r, struct fy_event *e)
{
	struct ynode *n = NULL;

	check_properties(r, e);
	switch (e->type) {
	case FYET_ALIAS:
		return resolve(r, e);
	case FYET_SCALAR:
		n = read_scalar(r, e);
		break;
	case FYET_SEQUENCE_START:
	case FYET_MAPPING_START:
		n = read_collection(r, e, e->type == FYET_MAPPING_START);
		break;
	default:
		r->failed = true;
		return NULL;
	}
	if (n)
		remember(r, e, n);
	return n;
}

/* What must not reach the parser at all. */
static int check_bytes(const unsigned char *p, size_t len, struct policy_diags *d)
{
	const unsigned char *nul;
	unsigned int line = 1;
	size_t i = 0;

	if (len > POLICY_BYTES_MAX) {
		policy_diag_add(d, false, 0, 0, "", "at most 4 MiB", "the document has %zu bytes", len);
		return -1;
	}
	if (len >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff))) {
		policy_diag_add(d, false, 1, 1, "", "UTF-8", "the document is UTF-16 or UTF-32");
		return -1;
	}
	if (len >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf) {
		policy_diag_add(d, false, 1, 1, "", "UTF-8 without a byte order mark",
				"the document begins with a byte order mark");
		return -1;
	}
	nul = len ? memchr(p, 0, len) : NULL;
	if (nul) {
		for (const unsigned char *q = p; q < nul; q++)
			line += *q == '\n';
		policy_diag_add(d, false, line, 0, "", "text", "the document holds a NUL byte");
		return -1;
	}
	while (i < len) { /* RFC 3629 */
		unsigned int c = p[i], need = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1, k;
		uint32_t v = need == 3 ? c & 7 : need == 2 ? c & 15 : c & 31;
		bool good = c < 0x80 || (c >= 0xc2 && c <= 0xf4);

		for (k = 1; good && k <= need; k++) {
			good = i + k < len && (p[i + k] & 0xc0) == 0x80;
			v = good ? v << 6 | (p[i + k] & 0x3f) : v;
		}
		if (good && ((need == 2 && (v < 0x800 || (v >= 0xd800 && v < 0xe000))) ||
			     (need == 3 && (v < 0x10000 || v > 0x10ffff))))
			good = false;
		if (good && ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)) {
			policy_diag_add(d, false, line, 0, "", "printable text",
					"the document holds a control character (0x%02x)", c);
			return -1;
		}
		if (!good) {
			policy_diag_add(d, false, line, 0, "", "UTF-8", "the document is not UTF-8 here");
			return -1;
		}
		line += c == '\n';
		i += need + 1;
	}
	return 0;
}

static void report_syntax(struct fy_diag *diag, struct policy_diags *d)
{
	struct fy_diag_error *e;
	void *prev = NULL;
	bool any = false;

	while ((e = fy_diag_errors_iterate(diag, &prev)) != NULL) {
		policy_diag_add(d, false, e->line > 0 ? (unsigned int)e->line : 0,
				e->column > 0 ? (unsigned int)e->column : 0, "", "YAML 1.2",
				"%s", e->msg ? e->msg : "not YAML");
		any = true;
	}
	if (!any && !d->errors)
		policy_diag_add(d, false, 0, 0, "", "YAML 1.2", "the document cannot be read as YAML");
}

static struct ynode *read_document(struct reading *r)
{
	struct ynode *root = NULL;
	size_t documents = 0;
	struct fy_event *e;

	while ((e = next_event(r)) != NULL) {
		bool end = e->type == FYET_STREAM_END;

		switch (e->type) {
		case FYET_STREAM_START:
		case FYET_STREAM_END:
		case FYET_DOCUMENT_END:
			break;
		case FYET_DOCUMENT_START:
			if (++documents > 1) {
				refuse(r, e, "one document", "a second document in the same text");
				r->failed = true;
			}
			break;
		default:
			root = read_node(r, e);
		}
		fy_parser_event_free(r->fyp, e);
		if (end)
			break;
	}
	return root;
}

struct ynode *policy_yaml_parse(struct arena *a, const void *bytes, size_t len, bool aliases,
				struct policy_diags *diags)
{
	struct fy_diag_cfg dcfg;
	struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DISABLE_MMAP_OPT |
					     FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE };
	struct reading r = { .arena = a, .diags = diags, .aliases = aliases };
	struct ynode *root = NULL;
	struct fy_diag *diag;
	size_t errors = diags->errors;

	if (check_bytes(bytes, len, diags) < 0)
		return NULL;
	fy_diag_cfg_default(&dcfg);
	dcfg.fp = NULL;
	diag = fy_diag_create(&dcfg);
	if (!diag)
		return NULL;
	fy_diag_set_collect_errors(diag, true);
	cfg.diag = diag;
	r.fyp = fy_parser_create(&cfg);
	if (r.fyp && fy_parser_set_string(r.fyp, len ? bytes : "", len) == 0)
		root = read_document(&r);
	if (r.fyp && (r.failed || !root || fy_parser_get_stream_error(r.fyp))) {
		if (fy_parser_get_stream_error(r.fyp) || diags->errors != errors || r.failed)
			report_syntax(diag, diags);
		if (diags->errors == errors)
			policy_diag_add(diags, false, 1, 1, "", "a policy", "the document is empty");
		root = NULL;
	}
	if (r.fyp)
		fy_parser_destroy(r.fyp);
	fy_diag_destroy(diag);
	if (policy_arena_failed(a)) {
		policy_diag_add(diags, false, 0, 0, "", "", "the document needs too much memory");
		return NULL;
	}
	return root;
}

/* ---- from JSON ---- */

static struct ynode *from_json(struct arena *a, const json_t *json, size_t depth)
{
	struct ynode *n = policy_arena_alloc(a, sizeof(*n));
	const char *key;
	size_t i = 0;
	json_t *v;

	if (!n || depth > YAML_DEPTH_MAX)
		return NULL;
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		n->kind = YNODE_MAP;
		n->n = json_object_size(json);
		n->item = policy_arena_array(a, n->n, sizeof(*n->item));
		n->key = policy_arena_array(a, n->n, sizeof(*n->key));
		if (!n->item || !n->key)
			return NULL;
		json_object_foreach((json_t *)json, key, v) {
			struct ynode *k = policy_arena_alloc(a, sizeof(*k));

			n->item[i] = from_json(a, v, depth + 1);
			if (!k || !n->item[i])
				return NULL;
			k->text = policy_arena_strdup(a, key);
			k->len = strlen(key);
			n->key[i++] = k;
		}
		return n;
	case JSON_ARRAY:
		n->kind = YNODE_LIST;
		n->n = json_array_size(json);
		n->item = policy_arena_array(a, n->n, sizeof(*n->item));
		for (i = 0; n->item && i < n->n; i++)
			if (!(n->item[i] = from_json(a, json_array_get(json, i), depth + 1)))
				return NULL;
		return n->item ? n : NULL;
	case JSON_STRING:
		n->text = policy_arena_strndup(a, json_string_value(json), json_string_length(json));
		break;
	case JSON_INTEGER:
		n->plain = true;
		n->text = policy_arena_printf(a, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
		break;
	case JSON_REAL:
		n->plain = true;
		n->text = policy_arena_printf(a, "%.17g", json_real_value(json));
		break;
	default:
		n->plain = true;
		n->text = json_is_true(json) ? "true" : json_is_false(json) ? "false" : "null";
	}
	if (!n->text)
		return NULL;
	n->len = strlen(n->text);
	return n;
}

struct ynode *policy_yaml_from_json(struct arena *a, const json_t *json)
{
	return from_json(a, json, 0);
}
