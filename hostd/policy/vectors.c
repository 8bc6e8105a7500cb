/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vectors.c - decision vectors as JSON: inputs in the reference's shape, results with its names. */
#include <string.h>

#include "hostd/policy/json.h"
#include "hostd/policy/model.h"

static const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static const char *str_or_null(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static bool has_nul(const json_t *j)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_string(j))
		return strlen(json_string_value(j)) != json_string_length(j);
	json_array_foreach((json_t *)j, i, v)
		if (has_nul(v))
			return true;
	if (json_is_object(j))
		json_object_foreach((json_t *)j, key, v)
			if (has_nul(v))
				return true;
	return false;
}

static const char *const *strings(struct arena *a, const json_t *list, size_t *n)
{
	const char **v = policy_arena_array(a, json_array_size(list), sizeof(*v));

	*n = 0;
	for (size_t i = 0; v && i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		if (s)
			v[(*n)++] = s;
	}
	return v;
}

static void read_query(struct arena *a, const json_t *q, struct policy_request *r)
{
	struct policy_query *v = NULL, *slot;
	const char *key;
	json_t *values;

	json_object_foreach((json_t *)q, key, values) {
		size_t n = json_array_size(values);

		for (size_t i = 0; i < n || (i == 0 && json_is_array(values)); i++) {
			slot = policy_arena_push(a, &v, &r->n_query, sizeof(*slot));
			if (!slot)
				return;
			slot->key = key;
			slot->value = n ? json_string_value(json_array_get(values, i)) : NULL;
			r->query = v;
		}
	}
}

static struct policy_gql *read_gql(struct arena *a, const json_t *g)
{
	struct policy_gql *out = policy_arena_alloc(a, sizeof(*out));
	const json_t *ops = json_object_get(g, "operations");
	struct policy_gql_op *v = policy_arena_array(a, json_array_size(ops), sizeof(*v));

	if (!out || !v)
		return NULL;
	out->error = str_or_null(g, "error");
	out->ops = v;
	out->n = json_array_size(ops);
	for (size_t i = 0; i < out->n; i++) {
		const json_t *o = json_array_get(ops, i);

		v[i].type = str(o, "operation_type");
		v[i].name = str_or_null(o, "operation_name");
		v[i].fields = strings(a, json_object_get(o, "fields"), &v[i].n_fields);
		v[i].persisted = json_is_true(json_object_get(o, "persisted_query"));
		v[i].hash = str_or_null(o, "persisted_query_hash");
		v[i].id = str_or_null(o, "persisted_query_id");
	}
	return out;
}

static struct policy_rpc *read_rpc(struct arena *a, const json_t *j)
{
	struct policy_rpc *out = policy_arena_alloc(a, sizeof(*out));
	const json_t *params = json_object_get(j, "params");
	struct policy_param *v = policy_arena_array(a, json_object_size(params), sizeof(*v));
	const char *key;
	json_t *value;

	if (!out || !v)
		return NULL;
	out->error = str_or_null(j, "error");
	out->method = str_or_null(j, "method");
	out->has_method = out->method != NULL;
	out->tool = str_or_null(j, "tool");
	out->has_response = json_is_true(json_object_get(j, "has_response"));
	out->receive_stream = json_is_true(json_object_get(j, "receive_stream"));
	out->params = v;
	json_object_foreach((json_t *)params, key, value) {
		v[out->n].key = key;
		v[out->n++].value = json_string_value(value);
	}
	return out;
}

static int read_input(struct arena *a, const json_t *input, struct policy_request *r, struct err *err)
{
	const json_t *net = json_object_get(input, "network"), *exec = json_object_get(input, "exec");
	const json_t *q = json_object_get(input, "request"), *v;
	json_int_t port = json_integer_value(json_object_get(net, "port"));

	if (!json_is_object(net) || !json_is_object(exec))
		return err_set(err, "input needs network and exec");
	r->l4.host = str(net, "host");
	r->l4.port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
	r->l4.program = str(exec, "path");
	r->l4.ancestors = strings(a, json_object_get(exec, "ancestors"), &r->l4.n);
	if (!json_is_object(q))
		return 0;
	r->method = str(q, "method");
	r->path = str(q, "path");
	r->command = str_or_null(q, "command");
	read_query(a, json_object_get(q, "query_params"), r);
	v = json_object_get(q, "graphql");
	if (json_is_object(v))
		r->gql = read_gql(a, v);
	v = json_object_get(q, "jsonrpc");
	if (json_is_object(v))
		r->rpc = read_rpc(a, v);
	return policy_arena_failed(a) ? err_set(err, "out of memory") : 0;
}

static json_t *name_or_null(enum policy_reason r)
{
	return r == POLICY_OK ? json_null() : json_string(policy_reason_name(r));
}

static json_t *result_json(const struct policy_decision *d, enum policy_reason deny, bool request,
			   bool short_form)
{
	json_t *o = json_object();

	json_object_set_new(o, "allow_network", json_boolean(d->allow_network));
	json_object_set_new(o, "allow_request", json_boolean(request && d->allow_request));
	json_object_set_new(o, "deny_request", json_boolean(request && d->deny_request));
	json_object_set_new(o, "exact_declared_endpoint_host",
			    d->exact_declared_host ? json_true() : json_null());
	json_object_set_new(o, "matched_network_policy",
			    d->rule ? json_string(d->rule) : json_null());
	if (short_form)
		return o;
	json_object_set_new(o, "network_action", json_string(d->allow_network ? "allow" : "deny"));
	json_object_set_new(o, "deny_reason_class",
			    deny == POLICY_EMPTY ? json_null() : name_or_null(deny));
	json_object_set_new(o, "request_deny_reason_class",
			    request ? name_or_null(d->request_reason) : json_null());
	return o;
}

static json_t *decide(const struct policy *p, const json_t *line, bool short_form, struct err *err)
{
	struct arena *a = policy_arena_new(64u << 20);
	struct policy_decision l4, d;
	struct policy_request r = { 0 };
	const json_t *input = json_object_get(line, "input");
	bool request = json_is_object(json_object_get(input, "request"));
	json_t *out = NULL;

	if (!a || read_input(a, input, &r, err) < 0) {
		policy_arena_free(a);
		return NULL;
	}
	policy_decide_l4(p, &r.l4, &l4);
	d = l4;
	if (has_nul(input)) { /* the reference fails on it: nothing is allowed */
		d = (struct policy_decision){ .request_reason = POLICY_ERROR };
		l4.reason = POLICY_ERROR;
	} else if (request) {
		policy_decide_request(p, &r, &d);
		d.rule = l4.rule;
	}
	if (!d.allow_network)
		d.rule = NULL;
	out = result_json(&d, l4.reason, request, short_form);
	policy_arena_free(a);
	return out;
}

/* ---- functions ---- */

static json_t *op_canon(const json_t *line)
{
	const json_t *t = json_object_get(line, "target");
	struct policy_canon c;
	enum policy_canon_error e =
		policy_canon(json_string_value(t), json_string_length(t),
			     json_is_true(json_object_get(line, "allow_encoded_slash")), &c);
	json_t *query;

	if (e != POLICY_CANON_OK)
		return json_pack("{s:s}", "error", policy_canon_error_name(e));
	query = c.query ? json_stringn(c.query, c.query_len) : json_null();
	return json_pack("{s:s, s:o, s:b}", "path", c.path, "query", query, "rewritten", c.rewritten);
}

static json_t *op_eppath(const json_t *line)
{
	struct arena *a = policy_arena_new(1u << 24);
	struct selector_glob g;
	json_t *out = NULL;

	if (a && policy_selector_glob(a, str(line, "pattern"), &g) == 0)
		out = json_boolean(policy_selector_matches(&g, str(line, "path")));
	policy_arena_free(a);
	return out;
}

static json_t *host_error(const char *pattern)
{
	enum policy_selector_error e = policy_host_selector_check(pattern);

	return e == HOST_SELECTOR_OK ? NULL : json_pack("{s:s}", "error", policy_host_selector_error_name(e));
}

static json_t *op_host(const json_t *line)
{
	json_t *error = host_error(str(line, "pattern"));

	return error ? error :
		       json_boolean(policy_host_selector_matches(str(line, "pattern"), str(line, "host")));
}

static json_t *op_overlap(const json_t *line)
{
	json_t *error = host_error(str(line, "left"));

	if (!error)
		error = host_error(str(line, "right"));
	return error ? error : json_boolean(policy_host_selectors_overlap(str(line, "left"), str(line, "right")));
}

static json_t *eval_op(const char *op, const json_t *line, struct err *err)
{
	static const struct {
		const char *op;
		const char *keys[3];
		json_t *(*fn)(const json_t *line);
	} ops[] = {
		{ "canon", { "target", NULL }, op_canon },
		{ "eppath", { "pattern", "path", NULL }, op_eppath },
		{ "host", { "pattern", "host", NULL }, op_host },
		{ "overlap", { "left", "right", NULL }, op_overlap },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(op, ops[i].op))
			continue;
		for (const char *const *k = ops[i].keys; *k; k++)
			if (!json_is_string(json_object_get(line, *k))) {
				err_set(err, "op %s needs %s", op, *k);
				return NULL;
			}
		return ops[i].fn(line);
	}
	err_set(err, "unknown op %s", op);
	return NULL;
}

json_t *policy_eval_vector(const struct policy *p, const json_t *line, struct err *err)
{
	const char *op = str_or_null(line, "op");
	const json_t *data = json_object_get(line, "data");
	struct policy_diags d = { 0 };
	struct policy *own;
	json_t *out;

	if (json_object_get(line, "result")) {
		err_set(err, "the line brings its own result");
		return NULL;
	}
	if (op)
		return eval_op(op, line, err);
	if (!data) {
		if (p)
			return decide(p, line, json_object_get(line, "policy") != NULL, err);
		err_set(err, "no policy for this line");
		return NULL;
	}
	own = policy_parse_json(data, POLICY_EVALUATE, &d);
	if (!own) {
		err_set(err, "data: %s: %s", d.n ? d.v[0].path : "", d.n ? d.v[0].text : "not a policy");
		policy_diags_free(&d);
		return NULL;
	}
	out = decide(own, line, false, err);
	policy_diags_free(&d);
	policy_put(own);
	return out;
}
