/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model.h - a policy as the engine holds it; nothing outside hostd/policy includes this.
 *
 * Everything lies in one arena and never changes after loading.  Rules are sorted by key, so the first
 * match in order is the one the format names; endpoints keep the order of the document.
 */
#ifndef HOLDFAST_POLICY_MODEL_H
#define HOLDFAST_POLICY_MODEL_H

#include <stdatomic.h>

#include "hostd/policy/glob.h"
#include "hostd/policy/policy.h"
#include "hostd/policy/yaml.h"

struct matcher {
	struct value_glob *any; /* one of them must match; none = never matches */
	size_t n;
	bool list; /* written as {any: [...]} */
};

struct keyed_matcher {
	const char *key;
	struct matcher m;
};

/* One allow or deny clause. */
struct clause {
	unsigned int line, column;
	bool has_method, method_given, has_path, has_command, has_type, has_tool;
	const char *method;
	struct value_glob method_glob; /* for mcp */
	struct path_glob path;
	const char *command;
	struct keyed_matcher *query;
	size_t n_query;
	const char *op_type;
	const char *op_name_text;
	struct value_glob op_name;
	bool has_op_name;
	struct value_glob *fields;
	size_t n_fields;
	bool has_fields;
	struct keyed_matcher *params;
	size_t n_params;
	bool has_name_param; /* params.name */
	bool has_query;	     /* written, even if empty */
	bool any_effective;
};

struct registered {
	const char *key;
	struct policy_gql_op op;
};

/* Addresses of allowed_ips. */
struct cidr {
	struct policy_addr addr;
	uint8_t bits;
};

struct rule;

struct endpoint {
	struct rule *rule;
	size_t index; /* within its rule */
	unsigned int line, column;
	struct host_glob host; /* text "" = hostless */
	bool has_host;	       /* the key is there, even if empty */
	const char *path;
	struct path_glob path_glob;
	struct selector_glob selector;
	uint16_t *ports;
	size_t n_ports;
	enum policy_protocol protocol;
	const char *protocol_text, *tls, *enforcement, *access;
	bool enforce, tls_skip, tls_set;
	bool has_rules, has_deny_rules; /* keys present */
	size_t given_allow, given_deny;	 /* as written, before presets */
	struct clause *allow, *deny;
	size_t n_allow, n_deny;
	struct trie *allow_paths, *deny_paths; /* over clauses with a path; NULL = scan */
	const char **allowed_ip_texts;
	size_t n_allowed_ips;
	struct cidr *cidrs; /* the valid ones */
	size_t n_cidrs;
	bool allow_encoded_slash, websocket_rewrite, body_rewrite, allow_uninspected;
	const char *persisted; /* "" = not given */
	struct registered *registry;
	size_t n_registry;
	bool graphql_limit_set, jsonrpc_limit_set, mcp_limit_set, has_mcp, has_jsonrpc;
	uint32_t graphql_limit, jsonrpc_limit; /* effective, never 0 */
	const char *signing, *signing_service, *signing_region, *binding_provider;
	bool strict_tools, strict_tools_set, allow_all, allow_all_set;
	bool advisor;
	bool *public_only; /* per port: a boundary does not let this host be private there; NULL = nowhere */
	bool graphql_policy; /* a websocket endpoint with GraphQL rules */
	bool extended;
	bool narrowed; /* an allow clause names a tool */
	size_t specificity;
};

struct program {
	struct program_glob path;
	bool advisor;
	unsigned int line;
};

struct rule {
	const char *key, *name;
	unsigned int line, column;
	size_t rank;
	struct endpoint *endpoints;
	size_t n_endpoints;
	struct program *programs;
	size_t n_programs;
};

/*
 * A trie over components: literal beginnings of patterns lead to a node; what is a pattern from there on
 * waits at that node.  Looking a subject up yields every pattern that can match it, and few others.
 */
struct trie_entry {
	uint32_t value;
	struct trie_entry *next;
};
struct trie_node {
	const char *part;
	size_t len;
	struct trie_entry *exact, *wild;
	struct trie_node **child; /* open hash, size a power of two */
	size_t n, size;
};
struct trie {
	struct trie_node root;
};

struct middleware {
	const char *key, *name, *middleware, *on_error;
	int64_t order;
	const char **include, **exclude;
	size_t n_include, n_exclude;
	unsigned int line, column;
};

struct policy {
	atomic_uint refs;
	struct arena *arena;
	enum policy_mode mode;
	bool normalised;  /* presets and defaults were already written out: nothing is added */
	bool no_identity; /* runtime.require_binary_identity: false, in data for evaluation */
	char digest[65];
	const char *source;
	size_t source_len;
	struct ynode *tree;
	int64_t version;

	struct policy_static st;
	unsigned int fs_line, landlock_line, process_line;
	const char *landlock_text;

	bool has_network;
	struct rule *rules; /* sorted by key */
	size_t n_rules;
	struct endpoint **endpoints; /* of all rules, in rule order */
	size_t n_endpoints;
	struct trie hosts;		/* by label, from the right; values index endpoints */
	struct endpoint **hostless;
	size_t n_hostless;
	struct middleware *middlewares;
	size_t n_middlewares;
};

/* load.c: the tree into a policy without its indexes; strict = unknown keys are errors */
int policy_load(struct policy *p, struct policy_diags *d);
/* validate.c */
void policy_validate(const struct policy *p, struct policy_diags *d);
/* ambiguity.c */
void policy_check_ambiguity(const struct policy *p, struct policy_diags *d);
/* index.c */
int policy_index(struct policy *p);

/*
 * Calls fn for every endpoint whose host pattern matches @host and that has @port (0 = any), until it
 * returns nonzero, which is returned.  *@bad counts patterns that are invalid and were reached.
 */
int policy_each_endpoint(const struct policy *p, const char *host, uint16_t port, bool *bad,
			 int (*fn)(void *u, const struct endpoint *e), void *u);
bool policy_endpoint_has_port(const struct endpoint *e, uint16_t port);
/* Does a boundary keep this endpoint from private addresses on @port (0 = on every port of it)? */
bool policy_endpoint_public_only(const struct endpoint *e, uint16_t port);

/*
 * Calls fn for every value whose pattern may match @subject.  Hosts go by label from the right, in any
 * case; paths by component from the left.
 */
enum trie_order { TRIE_HOST, TRIE_PATH };
int policy_trie_each(const struct trie *t, enum trie_order order, const char *subject,
		     int (*fn)(void *u, uint32_t value), void *u);

/* decide.c: 1 yes, 0 no, -1 an invalid pattern was reached */
int policy_program_allowed(const struct policy *p, const struct rule *r,
			   const struct policy_l4_input *in, bool declared_only);

/* dest.c */
bool policy_addr_blocked(const struct policy_addr *a);
bool policy_addr_internal(const struct policy_addr *a);
int policy_cidr_parse(const char *text, struct cidr *out);
bool policy_cidr_contains(const struct cidr *c, const struct policy_addr *a);
/* Does the range touch one that is always blocked? */
bool policy_cidr_touches_blocked(const struct cidr *c);
bool policy_host_is_literal(const char *host, struct policy_addr *out);

const char *policy_protocol_name(enum policy_protocol p);

#endif
