/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gql.c - GraphQL documents and requests (spec of October 2021, executable definitions only).
 *
 * A document is cut into tokens once, then read twice: first all of it, to know that it is well-formed
 * and where its operations and fragments are; then the chosen operation's selection set, to collect the
 * names of its root fields through inline fragments and spreads, each fragment once.
 */
#include <string.h>

#include "hostd/policy/request.h"
#include "lib/json.h"

enum gtok {
	GTOK_END,
	GTOK_NAME,
	GTOK_NUMBER,
	GTOK_STRING,
	GTOK_SPREAD,
	GTOK_PUNCT,
};

struct gtoken {
	uint8_t kind;
	char c; /* of GTOK_PUNCT */
	const char *s;
	uint32_t len;
};

struct definition {
	const struct gtoken *name; /* NULL = anonymous */
	const char *type;	   /* "query" ...; NULL = a fragment */
	size_t selection;	   /* token index of its { */
	bool seen;
};

struct gdoc {
	struct arena *a;
	struct gtoken *t;
	size_t n, at;
	unsigned int depth;
	struct definition *defs;
	size_t n_defs;
	const char *why;
	bool collect;
	const char **fields;
	size_t n_fields;
};

/* ---- tokens ---- */

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *string_end(const char *p, const char *end)
{
	if (end - p >= 3 && !memcmp(p, "\"\"\"", 3)) {
		for (p += 3; end - p >= 3; p++) {
			if (end - p >= 4 && !memcmp(p, "\\\"\"\"", 4))
				p += 3;
			else if (!memcmp(p, "\"\"\"", 3))
				return p + 3;
		}
		return NULL;
	}
	for (p++; p < end && *p != '\n' && *p != '\r'; p++) {
		if (*p == '"')
			return p + 1;
		if (*p == '\\' && p + 1 < end)
			p++;
	}
	return NULL;
}

static const char *number_end(const char *p, const char *end)
{
	const char *s = p + (*p == '-');

	if (s == end || !is_digit(*s))
		return NULL;
	if (*s == '0' && s + 1 < end && is_digit(s[1]))
		return NULL;
	while (s < end && is_digit(*s))
		s++;
	if (s < end && *s == '.') {
		if (++s == end || !is_digit(*s))
			return NULL;
		while (s < end && is_digit(*s))
			s++;
	}
	if (s < end && (*s == 'e' || *s == 'E')) {
		s++;
		if (s < end && (*s == '+' || *s == '-'))
			s++;
		if (s == end || !is_digit(*s))
			return NULL;
		while (s < end && is_digit(*s))
			s++;
	}
	return s < end && (is_name_start(*s) || *s == '.') ? NULL : s;
}

static int tokenize(struct gdoc *d, const char *p, const char *end)
{
	while (p < end) {
		struct gtoken t = { .s = p };
		const char *stop = p + 1;

		if (end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
			p += 3;
			continue;
		}
		if (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r' || *p == ',') {
			p++;
			continue;
		}
		if (*p == '#') {
			while (p < end && *p != '\n' && *p != '\r')
				p++;
			continue;
		}
		if (is_name_start(*p)) {
			t.kind = GTOK_NAME;
			while (stop < end && (is_name_start(*stop) || is_digit(*stop)))
				stop++;
		} else if (is_digit(*p) || *p == '-') {
			t.kind = GTOK_NUMBER;
			stop = number_end(p, end);
		} else if (*p == '"') {
			t.kind = GTOK_STRING;
			stop = string_end(p, end);
		} else if (*p == '.') {
			t.kind = GTOK_SPREAD;
			stop = end - p >= 3 && !memcmp(p, "...", 3) ? p + 3 : NULL;
		} else if (strchr("!$&():=@[]{|}", *p) && *p) {
			t.kind = GTOK_PUNCT;
			t.c = *p;
		} else {
			stop = NULL;
		}
		if (!stop) {
			d->why = "the GraphQL document has a malformed token";
			return -1;
		}
		if (d->n >= GQL_TOKENS_MAX) {
			d->why = "the GraphQL document has too many tokens";
			return -1;
		}
		t.len = (uint32_t)(stop - p);
		struct gtoken *slot = policy_arena_push(d->a, &d->t, &d->n, sizeof(*slot));

		if (!slot) {
			d->why = "out of memory";
			return -1;
		}
		*slot = t;
		p = stop;
	}
	return 0;
}

/* ---- grammar ---- */

static int fail(struct gdoc *d)
{
	if (!d->why)
		d->why = "the GraphQL document is malformed";
	return -1;
}

static bool is_punct(const struct gdoc *d, char c)
{
	return d->at < d->n && d->t[d->at].kind == GTOK_PUNCT && d->t[d->at].c == c;
}

static bool accept(struct gdoc *d, char c)
{
	if (!is_punct(d, c))
		return false;
	d->at++;
	return true;
}

static int expect(struct gdoc *d, char c)
{
	return accept(d, c) ? 0 : fail(d);
}

static const struct gtoken *name(struct gdoc *d)
{
	return d->at < d->n && d->t[d->at].kind == GTOK_NAME ? &d->t[d->at++] : NULL;
}

static bool is_word(const struct gdoc *d, const char *w)
{
	return d->at < d->n && d->t[d->at].kind == GTOK_NAME && d->t[d->at].len == strlen(w) &&
	       !memcmp(d->t[d->at].s, w, strlen(w));
}

static int enter(struct gdoc *d)
{
	if (++d->depth <= GQL_DEPTH_MAX)
		return 0;
	d->why = "the GraphQL document is nested too deeply";
	return -1;
}

static int value(struct gdoc *d)
{
	int rc = 0;

	if (enter(d) < 0 || d->at >= d->n)
		return fail(d);
	if (accept(d, '$')) {
		rc = name(d) ? 0 : fail(d);
	} else if (accept(d, '[')) {
		while (rc == 0 && !accept(d, ']'))
			rc = value(d);
	} else if (accept(d, '{')) {
		while (rc == 0 && !accept(d, '}'))
			rc = name(d) && expect(d, ':') == 0 ? value(d) : fail(d);
	} else if (d->t[d->at].kind == GTOK_NAME || d->t[d->at].kind == GTOK_NUMBER ||
		   d->t[d->at].kind == GTOK_STRING) {
		d->at++;
	} else {
		rc = fail(d);
	}
	d->depth--;
	return rc;
}

static int arguments(struct gdoc *d)
{
	if (!accept(d, '('))
		return 0;
	do {
		if (!name(d) || expect(d, ':') < 0 || value(d) < 0)
			return fail(d);
	} while (!accept(d, ')'));
	return 0;
}

static int directives(struct gdoc *d)
{
	while (accept(d, '@'))
		if (!name(d) || arguments(d) < 0)
			return fail(d);
	return 0;
}

static int type(struct gdoc *d)
{
	int rc;

	if (enter(d) < 0)
		return -1;
	if (accept(d, '['))
		rc = type(d) < 0 ? -1 : expect(d, ']');
	else
		rc = name(d) ? 0 : fail(d);
	accept(d, '!');
	d->depth--;
	return rc;
}

static int variables(struct gdoc *d)
{
	if (!accept(d, '('))
		return 0;
	do {
		if (expect(d, '$') < 0 || !name(d) || expect(d, ':') < 0 || type(d) < 0)
			return fail(d);
		if (accept(d, '=') && value(d) < 0)
			return -1;
		if (directives(d) < 0)
			return -1;
	} while (!accept(d, ')'));
	return 0;
}

static int selection_set(struct gdoc *d);

static int collect_field(struct gdoc *d, const struct gtoken *t)
{
	char *copy = policy_arena_strndup(d->a, t->s, t->len);
	const char **slot;

	for (size_t i = 0; copy && i < d->n_fields; i++)
		if (!strcmp(d->fields[i], copy))
			return 0;
	slot = policy_arena_push(d->a, &d->fields, &d->n_fields, sizeof(*slot));
	if (!slot || !copy) {
		d->why = "out of memory";
		return -1;
	}
	*slot = copy;
	return 0;
}

static struct definition *fragment(struct gdoc *d, const struct gtoken *t)
{
	for (size_t i = 0; i < d->n_defs; i++)
		if (!d->defs[i].type && d->defs[i].name->len == t->len &&
		    !memcmp(d->defs[i].name->s, t->s, t->len))
			return &d->defs[i];
	return NULL;
}

/* Root fields of a fragment, once; then on where the spread stood. */
static int follow(struct gdoc *d, const struct gtoken *t)
{
	struct definition *f = fragment(d, t);
	size_t back = d->at;
	int rc;

	if (!f) {
		d->why = "the GraphQL document uses a fragment that it does not define";
		return -1;
	}
	if (f->seen)
		return 0;
	f->seen = true;
	d->at = f->selection;
	rc = selection_set(d);
	d->at = back;
	return rc;
}

static int spread(struct gdoc *d)
{
	const struct gtoken *t;

	d->at++;
	if (d->at < d->n && d->t[d->at].kind == GTOK_NAME && !is_word(d, "on")) {
		t = name(d);
		if (directives(d) < 0)
			return -1;
		return d->collect ? follow(d, t) : 0;
	}
	if (is_word(d, "on")) {
		d->at++;
		if (!name(d))
			return fail(d);
	}
	return directives(d) < 0 ? -1 : selection_set(d);
}

static int field(struct gdoc *d)
{
	const struct gtoken *t = name(d);
	bool collect = d->collect;
	int rc = 0;

	if (!t)
		return fail(d);
	if (accept(d, ':') && !(t = name(d))) /* what stood before was an alias */
		return fail(d);
	if (collect && collect_field(d, t) < 0)
		return -1;
	if (arguments(d) < 0 || directives(d) < 0)
		return -1;
	d->collect = false;
	if (is_punct(d, '{'))
		rc = selection_set(d);
	d->collect = collect;
	return rc;
}

static int selection_set(struct gdoc *d)
{
	int rc = 0;

	if (enter(d) < 0 || expect(d, '{') < 0)
		return fail(d);
	do {
		if (d->at < d->n && d->t[d->at].kind == GTOK_SPREAD)
			rc = spread(d);
		else
			rc = field(d);
	} while (rc == 0 && !accept(d, '}'));
	d->depth--;
	return rc;
}

static int definition(struct gdoc *d)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	struct definition *def = policy_arena_push(d->a, &d->defs, &d->n_defs, sizeof(*def));

	if (!def) {
		d->why = "out of memory";
		return -1;
	}
	memset(def, 0, sizeof(*def));
	if (is_punct(d, '{')) {
		def->type = "query";
	} else if (is_word(d, "fragment")) {
		d->at++;
		if (is_word(d, "on") || !(def->name = name(d)) || !is_word(d, "on"))
			return fail(d);
		d->at++;
		if (!name(d) || directives(d) < 0)
			return fail(d);
		for (size_t i = 0; i + 1 < d->n_defs; i++)
			if (!d->defs[i].type && d->defs[i].name->len == def->name->len &&
			    !memcmp(d->defs[i].name->s, def->name->s, def->name->len)) {
				d->why = "the GraphQL document defines a fragment twice";
				return -1;
			}
	} else {
		for (size_t i = 0; i < 3; i++)
			if (is_word(d, types[i]))
				def->type = types[i];
		if (!def->type)
			return fail(d);
		d->at++;
		def->name = name(d);
		if (variables(d) < 0 || directives(d) < 0)
			return -1;
	}
	def->selection = d->at;
	return selection_set(d);
}

static struct definition *choose(struct gdoc *d, const char *wanted)
{
	struct definition *found = NULL;

	for (size_t i = 0; i < d->n_defs; i++) {
		struct definition *def = &d->defs[i];

		if (!def->type)
			continue;
		if (wanted && *wanted &&
		    (!def->name || def->name->len != strlen(wanted) ||
		     memcmp(def->name->s, wanted, def->name->len)))
			continue;
		if (found) {
			d->why = "the GraphQL document has several operations and none is chosen";
			return NULL;
		}
		found = def;
	}
	if (!found)
		d->why = "the GraphQL document has no such operation";
	return found;
}

int policy_gql_document(struct arena *a, const char *text, size_t len, const char *wanted,
			struct policy_gql_op *op, const char **why)
{
	struct gdoc d = { .a = a };
	struct definition *def = NULL;

	memset(op, 0, sizeof(*op));
	op->type = "";
	if (tokenize(&d, text, text + len) == 0) {
		int rc = d.n ? 0 : fail(&d);

		while (rc == 0 && d.at < d.n)
			rc = definition(&d);
		if (rc == 0)
			def = choose(&d, wanted);
	}
	if (def) {
		d.at = def->selection;
		d.collect = true;
		d.depth = 0;
		if (selection_set(&d) < 0)
			def = NULL;
	}
	if (!def) {
		*why = d.why ? d.why : "the GraphQL document is malformed";
		return -1;
	}
	op->type = def->type;
	op->name = def->name ? policy_arena_strndup(a, def->name->s, def->name->len) : NULL;
	op->fields = d.fields;
	op->n_fields = d.n_fields;
	return 0;
}

/* ---- requests ---- */

static const struct json_limits limits = { .bytes = 64u << 20, .depth = REQUEST_JSON_DEPTH, .values = 1000000 };

/* The persisted query's names in an object of the request. */
static const char *read_persisted(struct arena *a, const json_t *o, const json_t *extensions,
				  struct policy_gql_op *op)
{
	static const char *const ids[] = { "id", "documentId", "queryId" };
	const json_t *pq = json_object_get(extensions, "persistedQuery"), *hash;

	if (extensions && !json_is_object(extensions) && !json_is_null(extensions))
		return "extensions must be an object";
	hash = json_object_get(pq, "sha256Hash");
	if (json_is_string(hash)) {
		op->hash = policy_arena_strdup(a, json_string_value(hash));
		op->persisted = true;
	}
	for (size_t i = 0; i < 3; i++) {
		const json_t *id = json_object_get(o, ids[i]);

		if (!id || json_is_null(id))
			continue;
		if (!json_is_string(id))
			return "the query's id must be a string";
		if (op->id)
			return "the request has two ids of a query";
		op->id = policy_arena_strdup(a, json_string_value(id));
		op->persisted = true;
	}
	return NULL;
}

static const char *read_operation(struct arena *a, const json_t *o, struct policy_gql_op *op)
{
	const json_t *q = json_object_get(o, "query"), *wanted = json_object_get(o, "operationName");
	struct policy_gql_op names = { .type = "" };
	const char *why;

	if (!json_is_object(o))
		return "a GraphQL request must be an object";
	if (wanted && !json_is_string(wanted) && !json_is_null(wanted))
		return "operationName must be a string";
	if (q && !json_is_string(q) && !json_is_null(q))
		return "query must be a string";
	why = read_persisted(a, o, json_object_get(o, "extensions"), &names);
	if (why)
		return why;
	if (json_is_string(q) && json_string_length(q)) {
		if (policy_gql_document(a, json_string_value(q), json_string_length(q),
					json_string_value(wanted), op, &why) < 0)
			return why;
	} else if (names.persisted) {
		op->type = "";
		op->name = json_is_string(wanted) ? policy_arena_strdup(a, json_string_value(wanted)) : NULL;
	} else {
		return "the request has no GraphQL query";
	}
	op->persisted = names.persisted;
	op->hash = names.hash;
	op->id = names.id;
	return NULL;
}

static int set_operations(struct arena *a, const json_t *json, struct policy_gql *out)
{
	size_t n = json_is_array(json) ? json_array_size(json) : 1;
	struct policy_gql_op *ops = policy_arena_array(a, n, sizeof(*ops));

	if (!ops)
		return -1;
	if (!n || n > 1000)
		out->error = n ? "too many operations in one batch" : "an empty batch";
	for (size_t i = 0; i < n && !out->error; i++)
		out->error = read_operation(a, json_is_array(json) ? json_array_get(json, i) : json, &ops[i]);
	out->ops = ops;
	out->n = out->error ? 0 : n;
	return 0;
}

static const char *get_params(const struct policy_query *query, size_t n, json_t *o)
{
	static const char *const keys[] = { "query", "operationName", "extensions", "id", "documentId", "queryId" };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
			json_t *v;

			if (strcmp(query[i].key, keys[k]))
				continue;
			if (json_object_get(o, keys[k]))
				return "a GraphQL parameter is given twice";
			v = k == 2 ? json_parse(query[i].value, strlen(query[i].value), &limits, NULL) :
				     json_string(query[i].value);
			if (!v)
				return "extensions is not JSON";
			json_object_set_new(o, keys[k], v);
		}
	return NULL;
}

int policy_gql_request(struct arena *a, const char *method, const struct policy_query *query, size_t n_query,
		       const char *body, size_t len, struct policy_gql *out)
{
	_cleanup_json_ json_t *json = NULL;

	memset(out, 0, sizeof(*out));
	if (!strcmp(method, "GET")) {
		json = json_object();
		out->error = get_params(query, n_query, json);
	} else if (!strcmp(method, "POST")) {
		json = json_parse(body, len, &limits, NULL);
		if (!json)
			out->error = "the body is not JSON";
	} else {
		out->error = "GraphQL goes by GET or POST";
	}
	return out->error ? 0 : set_operations(a, json, out);
}

enum policy_gql_ws policy_gql_ws_message(struct arena *a, const char *text, size_t len, struct policy_gql *out)
{
	static const char *const control[] = { "connection_init", "connection_terminate", "ping",
					       "pong", "complete", "stop" };
	_cleanup_json_ json_t *json = json_parse(text, len, &limits, NULL);
	const char *kind = json_string_value(json_object_get(json, "type"));
	const json_t *id = json_object_get(json, "id"), *payload = json_object_get(json, "payload");

	memset(out, 0, sizeof(*out));
	if (!kind)
		return GQL_WS_REFUSE;
	for (size_t i = 0; i < sizeof(control) / sizeof(control[0]); i++)
		if (!strcmp(kind, control[i]))
			return GQL_WS_CONTROL;
	if ((strcmp(kind, "subscribe") && strcmp(kind, "start")) || !json_is_string(id) ||
	    !json_string_length(id) || !json_is_object(payload))
		return GQL_WS_REFUSE;
	return set_operations(a, payload, out) < 0 || out->error ? GQL_WS_REFUSE : GQL_WS_OPERATION;
}
