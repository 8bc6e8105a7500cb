/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * request.h - a stranger's bytes into what the engine judges: query strings, JSON-RPC and MCP bodies,
 * GraphQL over HTTP and over WebSocket, and client WebSocket frames.
 *
 * All of them are bounded in depth and in work, and none of them guesses: what cannot be read exactly is
 * an error, and an error is a denial that audit mode does not soften.  Results lie in the arena given.
 */
#ifndef HOLDFAST_POLICY_REQUEST_H
#define HOLDFAST_POLICY_REQUEST_H

#include "hostd/policy/arena.h"
#include "hostd/policy/policy.h"

#define REQUEST_PAIRS_MAX 1000
#define REQUEST_JSON_DEPTH 64
#define GQL_TOKENS_MAX 20000
#define GQL_DEPTH_MAX 128

/* ---- query strings ---- */

/* Splits and decodes.  0, or -1 with *why (a static string). */
int policy_query_parse(struct arena *a, const char *text, size_t len, struct policy_query **out, size_t *n,
		       const char **why);

/* ---- JSON-RPC and MCP ---- */

/*
 * A body: one call or a batch, each judged alone; the first denial denies all.  @mcp checks the
 * parameters of known methods, @strict_tools the spelling of tool names.  0 or -1 with *why.
 */
int policy_rpc_parse(struct arena *a, const char *body, size_t len, bool mcp, bool strict_tools,
		     struct policy_rpc **calls, size_t *n, const char **why);

/* ---- GraphQL ---- */

/* The operation that @name (NULL or "": the only one) selects in a document.  0 or -1 with *why. */
int policy_gql_document(struct arena *a, const char *text, size_t len, const char *name,
			struct policy_gql_op *op, const char **why);
/*
 * A request: @query for GET, @body for POST.  Never fails but by setting out->error, which denies.
 * Returns -1 only when out of memory.
 */
int policy_gql_request(struct arena *a, const char *method, const struct policy_query *query, size_t n_query,
		       const char *body, size_t len, struct policy_gql *out);

enum policy_gql_ws { GQL_WS_CONTROL, GQL_WS_OPERATION, GQL_WS_REFUSE };
/* A client's text message on a WebSocket with GraphQL rules. */
enum policy_gql_ws policy_gql_ws_message(struct arena *a, const char *text, size_t len,
					 struct policy_gql *out);

/* ---- WebSocket ---- */

#define WS_BINARY_MAX (16u << 20)
#define WS_TEXT_MAX (4u << 20)
#define WS_FRAGMENTS_MAX 4096

enum policy_ws_opcode { WS_CONTINUATION = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

/* One direction, client to server.  Zero it, and set `deflate` if permessage-deflate was agreed on. */
struct policy_ws {
	bool deflate;
	uint8_t message; /* opcode of the message being assembled; 0 = none */
	bool compressed;
	uint64_t bytes;
	uint32_t fragments;
};

struct policy_ws_frame {
	uint8_t opcode, message; /* message: what a continuation continues */
	bool fin, compressed;
	uint8_t mask[4];
	size_t header, payload; /* bytes */
};

/*
 * Reads one frame's header (and a control frame's payload).  1: *f is valid, the frame has
 * f->header + f->payload bytes; 0: more bytes are needed; else the negative of the close code.
 */
int policy_ws_frame(struct policy_ws *s, const uint8_t *p, size_t n, struct policy_ws_frame *f);

/* Is this whole text UTF-8? */
bool policy_utf8_valid(const uint8_t *p, size_t n);

/* ---- a request given by hand ---- */

struct policy_request_text {
	char *host, *target;
	uint16_t port;
	bool has_path; /* more than scheme, host and port was given */
};
/* http, https, ws or wss, or host:port alone.  0 or -1. */
int policy_url_parse(const char *url, struct policy_request_text *out, struct err *err);
void policy_request_text_free(struct policy_request_text *t);
/* Judges it as the proxy would: select, canonicalise, parse the query, decide.  0 or -1 (no memory). */
int policy_explain_url(const struct policy *p, const struct policy_l4_input *l4, const char *method,
		       const struct policy_request_text *t, const char *rpc_method, const char *tool,
		       struct policy_decision *d);

#endif
