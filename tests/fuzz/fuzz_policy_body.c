/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_policy_body.c - bodies as JSON-RPC, MCP, GraphQL documents, requests and WebSocket messages. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hostd/policy/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = policy_arena_new(64 << 20);
	const char *body = (const char *)data, *why = NULL;
	struct policy_gql_op op;
	struct policy_rpc *calls;
	struct policy_gql g;
	size_t n;

	if (!a)
		return 0;
	for (int mcp = 0; mcp < 2; mcp++)
		if (policy_rpc_parse(a, body, size, mcp, mcp, &calls, &n, &why) == 0 && !n)
			abort();
	if (policy_gql_document(a, body, size, NULL, &op, &why) == 0 && (!*op.type || !op.n_fields))
		abort();
	policy_gql_request(a, "POST", NULL, 0, body, size, &g);
	if (!g.error && !g.n)
		abort();
	policy_gql_ws_message(a, body, size, &g);
	policy_arena_free(a);
	return 0;
}
