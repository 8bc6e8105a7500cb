/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rpc.c - JSON-RPC 2.0 and MCP bodies into calls. */
#include <string.h>

#include "hostd/policy/request.h"
#include "lib/json.h"

#define BATCH_MAX 1000
#define PARAMS_MAX 1000

static const struct json_limits limits = { .bytes = 64u << 20, .depth = REQUEST_JSON_DEPTH, .values = 1000000 };

static bool tool_name_ok(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return n >= 1 && n <= 128 && !s[n];
}

/* Nested objects become dotted keys; what is no string is there, but has no value. */
static int flatten(struct arena *a, const json_t *o, const char *prefix, struct policy_param **v, size_t *n)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)o, key, value) {
		const char *full = *prefix ? policy_arena_printf(a, "%s.%s", prefix, key) :
					     policy_arena_strdup(a, key);
		struct policy_param *slot;

		if (!full || *n >= PARAMS_MAX)
			return -1;
		if (json_is_object(value)) {
			if (flatten(a, value, full, v, n) < 0)
				return -1;
			continue;
		}
		slot = policy_arena_push(a, v, n, sizeof(*slot));
		if (!slot)
			return -1;
		slot->key = full;
		slot->value = json_is_string(value) ? policy_arena_strdup(a, json_string_value(value)) : NULL;
	}
	return 0;
}

static bool id_ok(const json_t *id)
{
	return json_is_string(id) || json_is_number(id) || json_is_null(id);
}

/* A request of a known MCP method must have the parameters that the method is about. */
static const char *mcp_shape(const char *method, const json_t *params, bool strict_tools)
{
	static const struct {
		const char *method, *param;
	} known[] = {
		{ "tools/call", "name" },	  { "prompts/get", "name" },
		{ "resources/read", "uri" },	  { "resources/subscribe", "uri" },
		{ "resources/unsubscribe", "uri" }, { "logging/setLevel", "level" },
	};

	if (params && !json_is_object(params))
		return "params must be an object";
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(method, known[i].method) &&
		    !json_is_string(json_object_get(params, known[i].param)))
			return "a parameter that this method needs is missing";
	if (!strcmp(method, "tools/call") && strict_tools &&
	    !tool_name_ok(json_string_value(json_object_get(params, "name"))))
		return "the tool name has characters that are not allowed";
	return NULL;
}

static const char *read_response(const json_t *o, struct policy_rpc *r)
{
	const json_t *error = json_object_get(o, "error");
	const json_t *id = json_object_get(o, "id");

	if (!id || !id_ok(id))
		return "a response without id";
	if (error && json_object_get(o, "result"))
		return "a response with both result and error";
	if (error && !json_is_object(error))
		return "error must be an object";
	r->has_response = true;
	return NULL;
}

static const char *read_call(struct arena *a, const json_t *o, bool mcp, bool strict_tools,
			     struct policy_rpc *r)
{
	const json_t *method = json_object_get(o, "method"), *params = json_object_get(o, "params");
	const json_t *id = json_object_get(o, "id");
	const char *version = json_string_value(json_object_get(o, "jsonrpc")), *why;
	struct policy_param *v = NULL;

	if (!json_is_object(o))
		return "a call must be an object";
	if (!version || strcmp(version, "2.0"))
		return "jsonrpc must be \"2.0\"";
	if (json_object_get(o, "result") || json_object_get(o, "error"))
		return method ? "a call with a result" : read_response(o, r);
	if (!json_is_string(method) || !json_string_length(method))
		return "no method";
	if (id && !id_ok(id))
		return "id must be a string, a number or null";
	if (params && !json_is_object(params) && !json_is_array(params) && !json_is_null(params))
		return "params must be an object or a list";
	r->method = policy_arena_strdup(a, json_string_value(method));
	r->has_method = true;
	if (mcp && id) {
		why = mcp_shape(json_string_value(method), params, strict_tools);
		if (why)
			return why;
	}
	if (json_is_object(params) && flatten(a, params, "", &v, &r->n) < 0)
		return "too many parameters";
	r->params = v;
	for (size_t i = 0; i < r->n && !strcmp(json_string_value(method), "tools/call"); i++)
		if (!strcmp(v[i].key, "name"))
			r->tool = v[i].value;
	return r->method ? NULL : "out of memory";
}

int policy_rpc_parse(struct arena *a, const char *body, size_t len, bool mcp, bool strict_tools,
		     struct policy_rpc **calls, size_t *n, const char **why)
{
	_cleanup_json_ json_t *json = json_parse(body, len, &limits, NULL);
	size_t count = json_is_array(json) ? json_array_size(json) : 1;
	struct policy_rpc *v;

	*calls = NULL;
	*n = 0;
	*why = "the body is not JSON";
	if (!json)
		return -1;
	*why = count ? "too many calls in one batch" : "an empty batch";
	if (!count || count > BATCH_MAX)
		return -1;
	v = policy_arena_array(a, count, sizeof(*v));
	*why = "out of memory";
	if (!v)
		return -1;
	for (size_t i = 0; i < count; i++) {
		const json_t *o = json_is_array(json) ? json_array_get(json, i) : json;

		*why = read_call(a, o, mcp, strict_tools, &v[i]);
		if (*why)
			return -1;
	}
	*calls = v;
	*n = count;
	return 0;
}
