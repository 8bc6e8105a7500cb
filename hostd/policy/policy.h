/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy.h - what a workspace may do: parse, decide, explain, prove, draft.
 *
 * A pure library: bytes and structs in, structs out; it opens no file and no socket and has no global
 * state.  A parsed policy is immutable and may be shared between threads; a reload swaps the pointer.
 * Nothing that decides allocates memory, and every pattern is matched in time linear in its subject.
 *
 * Short form (a connection):
 *
 *	struct policy_l4_input in = { .host = "registry.example.org", .port = 443,
 *				      .program = "/usr/bin/node", .ancestors = anc, .n = 2 };
 *	struct policy_decision d;
 *	policy_decide_l4(p, &in, &d);
 *	if (d.verdict == POLICY_DENY)
 *		refuse(d.text);			// one line, names the nearest miss
 */
#ifndef HOLDFAST_POLICY_H
#define HOLDFAST_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

#define POLICY_BYTES_MAX (4u << 20) /* the longest document that is read */
#define POLICY_VERSION	 1	    /* the schema this engine knows */
#define POLICY_DIAGS_MAX 200	    /* more errors than this are counted, not kept */

struct policy;

/* ---- Parse ------------------------------------------------------------------------------------ */

enum policy_mode {
	POLICY_STRICT,	 /* what is saved and enforced: unknown keys, unsafe values, ambiguity refused */
	POLICY_LENIENT,	 /* the format's other load path: unknown keys ignored, L7 validation only */
	POLICY_EVALUATE, /* no validation and YAML aliases allowed; only for evaluating vectors */
};

struct policy_diag {
	bool warning;
	unsigned int line, column; /* from 1; 0 = the document as a whole */
	const char *path;	   /* "network_policies.npm.endpoints[0].port" */
	const char *text;	   /* what is wrong */
	const char *expected;	   /* what would have been right; may be "" */
};

/* Errors and warnings in the order of the document.  Free with policy_diags_free(). */
struct policy_diags {
	struct policy_diag *v;
	size_t n, cap;
	size_t errors, warnings; /* all of them, also those beyond POLICY_DIAGS_MAX */
};

void policy_diags_free(struct policy_diags *d);

/*
 * Parses one YAML 1.2 document.  Returns a policy with one reference, or NULL if there was any error:
 * it is the whole policy or nothing.  @diags (initialise to zero) gets every error and warning.
 */
struct policy *policy_parse(const void *bytes, size_t len, enum policy_mode mode,
			    struct policy_diags *diags);

struct policy *policy_get(struct policy *p);
void policy_put(struct policy *p);

/*
 * The policy as it may be enforced within @boundary: a host that it declares exactly may resolve to private
 * addresses only where the boundary declares that host exactly too.  A new reference; NULL = out of memory.
 * policy_reload() does this; whoever parses a policy for enforcement while there is a boundary must, too.
 */
struct policy *policy_bind(const struct policy *p, const struct policy *boundary);

/* The @i-th program that any rule names, a path or a pattern, repeats included; NULL beyond the last. */
const char *policy_program_pattern(const struct policy *p, size_t i);

/* 64 hex digits and NUL: SHA-256 of the document as it was given. */
const char *policy_digest(const struct policy *p);

/* The document as it was given; valid while @p is. */
const char *policy_source(const struct policy *p, size_t *len);

/*
 * A template such as share/default.yaml: each line with ${KIND.host} or ${KIND.port} is repeated for every
 * mirror of that kind ("apt", "npm", "pip") and dropped if there is none.  malloc'd text, or NULL.
 */
struct policy_mirror {
	const char *kind, *host;
	uint16_t port;
};
char *policy_template_fill(const char *text, const struct policy_mirror *mirrors, size_t n,
			   struct err *err);

/* ---- Static parts (applied in the guest at its start) ------------------------------------------ */

struct policy_static {
	bool has_filesystem, include_workdir;
	const char *const *read_only;
	size_t n_read_only;
	const char *const *read_write;
	size_t n_read_write;
	bool has_landlock, hard_requirement;
	bool has_process;
	const char *run_as_user, *run_as_group; /* NULL = not given */
};
const struct policy_static *policy_static_parts(const struct policy *p);

/*
 * Paths that are added to the policy's lists when its files are confined, each with the reason; they are
 * never merged into the lists silently.  NULL beyond the last.
 */
struct policy_added {
	const char *path;
	bool write;
	const char *reason;
};
const struct policy_added *policy_baseline(const struct policy *p, size_t i);

/* true if the network section has at least one endpoint */
bool policy_has_network(const struct policy *p);

/* ---- Decide ------------------------------------------------------------------------------------ */

enum policy_verdict {
	POLICY_DENY = 0,
	POLICY_ALLOW,
	POLICY_AUDIT, /* not allowed, but the endpoint only audits: forward and log */
};

enum policy_layer { POLICY_LAYER_L4, POLICY_LAYER_DESTINATION, POLICY_LAYER_L7 };

enum policy_reason {
	POLICY_OK = 0,
	/* connection */
	POLICY_EMPTY,		   /* the policy allows no connection at all */
	POLICY_ENDPOINT_UNKNOWN,   /* no rule names this host and port */
	POLICY_BINARY_NOT_ALLOWED, /* a rule does, but not for this program */
	/* destination */
	POLICY_DEST_BLOCKED,	/* loopback, link-local, metadata: never */
	POLICY_DEST_INTERNAL,	/* a private address of a host that no rule declares exactly */
	POLICY_DEST_NOT_LISTED, /* outside allowed_ips */
	POLICY_DEST_PINNED,	/* not the address that host stands for */
	POLICY_DEST_PORT,	/* a control-plane port of an internal service */
	POLICY_DEST_NONE,	/* the name has no address */
	/* request */
	POLICY_NOT_ALLOWED,
	POLICY_DENY_RULE,
	POLICY_GQL_DENIED,
	POLICY_GQL_NOT_ALLOWED,
	POLICY_GQL_UNREGISTERED,
	POLICY_RPC_RESPONSE_FRAME,
	POLICY_NO_ENDPOINT, /* no L7 endpoint selects this path */
	POLICY_UNPARSEABLE, /* the request could not be read: denied under audit too */
	POLICY_ERROR,	    /* the evaluation failed: denied under audit too */
};
/* "endpoint_unknown", "deny_rule" ...; "" for POLICY_OK */
const char *policy_reason_name(enum policy_reason r);

struct policy_l4_input {
	const char *host; /* a name or an address in text; "" or NULL = none */
	uint16_t port;
	const char *program;	      /* absolute path of the executable */
	const char *const *ancestors; /* executables of its ancestors, nearest first */
	size_t n;
	bool no_identity; /* programs are not considered (the relaxed mode) */
	bool quiet;	  /* no text is wanted: decisions are about twice as fast */
};

struct policy_decision {
	enum policy_verdict verdict;
	enum policy_layer layer;
	enum policy_reason reason;
	const char *rule;		     /* key of the rule that decided, or that came nearest; may be NULL */
	const char *rule_name;		     /* its `name` */
	unsigned int endpoint_line, clause_line; /* of the document; 0 = none */
	bool exact_declared_host;	     /* a rule for this program declares this very host and port */
	bool allow_network;		     /* L4 alone */
	bool allow_request, deny_request;    /* L7 alone, before enforcement; see `verdict` */
	bool audited;			     /* the selected endpoint only audits */
	bool inspect; /* allowed only through something that reads its requests */
	enum policy_reason request_reason;   /* what the reference names as the reason of the request */
	const char *nearest;		     /* key of the rule that nearly allowed it, or NULL */
	char text[512];			     /* one line for a person */
};

/* May this program open a connection to host:port? */
void policy_decide_l4(const struct policy *p, const struct policy_l4_input *in,
		      struct policy_decision *d);

/* May this name be asked for at all: does any endpoint, for any port and program, cover it? */
bool policy_name_allowed(const struct policy *p, const char *host);

struct policy_addr {
	uint8_t family; /* 4 or 6 */
	uint8_t b[16];	/* network order; 4 bytes used for family 4 */
};
/* Only dotted quads and RFC 4291 text: no octal, no hex, no short forms, no zone.  0 or -1. */
int policy_addr_parse(const char *text, struct policy_addr *out);

/*
 * Is @addr an acceptable answer for @host, before it is known which program will use it?  @port 0 = any.
 * Used to drop answers of a name; policy_decide_dest() is the one that admits a connection.
 */
bool policy_dest_check(const struct policy *p, const char *host, uint16_t port,
		       const struct policy_addr *addr);

/*
 * Destination of an allowed connection: every address must pass, in the fixed precedence trusted alias,
 * allowed_ips, literal, exactly declared, any public.  @gateway: the address host aliases stand for, or
 * NULL.
 */
void policy_decide_dest(const struct policy *p, const struct policy_l4_input *in,
			const struct policy_addr *addrs, size_t n, const struct policy_addr *gateway,
			struct policy_decision *d);

/* ---- Requests ---------------------------------------------------------------------------------- */

struct policy_query {
	const char *key, *value; /* decoded; several entries of one key in their order; NULL = no value */
};

struct policy_gql_op {
	const char *type; /* "query" ...; "" = only a hash */
	const char *name; /* NULL = anonymous */
	const char *const *fields;
	size_t n_fields;
	bool persisted;
	const char *hash, *id; /* NULL = none */
};

struct policy_gql {
	const char *error; /* the parser's; denies */
	const struct policy_gql_op *ops;
	size_t n;
};

struct policy_param {
	const char *key; /* dotted */
	const char *value; /* NULL = present, but not a string */
};

struct policy_rpc {
	const char *error;
	const char *method; /* NULL = none */
	const char *tool;
	const struct policy_param *params;
	size_t n;
	bool has_response, receive_stream;
	bool has_method; /* `method` was given; false with method NULL */
};

struct policy_request {
	struct policy_l4_input l4;
	const char *method;
	const char *path; /* canonical (policy_canon) */
	const struct policy_query *query;
	size_t n_query;
	const struct policy_gql *gql; /* NULL = not GraphQL */
	const struct policy_rpc *rpc; /* NULL = not JSON-RPC */
	const char *command;	      /* of an SQL request; NULL = not SQL */
	enum { POLICY_UPGRADE_UNKNOWN, POLICY_UPGRADE_YES, POLICY_UPGRADE_NO } upgrade; /* WebSocket */
};

/*
 * One request on an allowed connection.  The verdict takes the enforcement of the endpoint that selects
 * the path into account; `allow_request` does not.
 */
void policy_decide_request(const struct policy *p, const struct policy_request *in,
			   struct policy_decision *d);

/* How a connection is to be read: the endpoint that selects @path, as the format defines it. */
enum policy_protocol {
	POLICY_PROTO_NONE,
	POLICY_PROTO_TCP,
	POLICY_PROTO_REST,
	POLICY_PROTO_WEBSOCKET,
	POLICY_PROTO_GRAPHQL,
	POLICY_PROTO_SQL,
	POLICY_PROTO_JSONRPC,
	POLICY_PROTO_MCP,
};

struct policy_endpoint_view {
	const char *rule;
	unsigned int line;
	enum policy_protocol protocol;
	bool enforce, tls_skip, allow_encoded_slash, strict_tool_names, websocket_graphql;
	uint32_t body_max; /* bytes of a GraphQL or JSON-RPC body */
	const char *path;
};
/* 1 found, 0 no endpoint selects the path (or none has a protocol).  @path NULL: the connection. */
int policy_select_endpoint(const struct policy *p, const struct policy_l4_input *in, const char *path,
			   struct policy_endpoint_view *v);

/* ---- Paths and names --------------------------------------------------------------------------- */

enum policy_canon_error {
	POLICY_CANON_OK = 0,
	POLICY_CANON_TRAVERSAL,
	POLICY_CANON_CONTROL,
	POLICY_CANON_ENCODED_SLASH,
	POLICY_CANON_PERCENT,
	POLICY_CANON_MALFORMED,
	POLICY_CANON_FRAGMENT,
	POLICY_CANON_RESIDUAL_DOT,
	POLICY_CANON_TOO_LONG,
	POLICY_CANON_NON_ASCII,
};
#define POLICY_PATH_MAX 4096

struct policy_canon {
	char path[3 * POLICY_PATH_MAX + 2]; /* canonical, NUL at the end */
	size_t path_len;
	const char *query; /* into the target; NULL = none */
	size_t query_len;
	bool rewritten; /* the path differs from what was sent */
};
/* Canonicalises a request target as it stood in the request line. */
enum policy_canon_error policy_canon(const char *target, size_t len, bool allow_encoded_slash,
				     struct policy_canon *out);
const char *policy_canon_error_name(enum policy_canon_error e);

/* ---- Reload ------------------------------------------------------------------------------------ */

/* An open connection as its owner remembers it. */
struct policy_conn {
	uint64_t id;
	struct policy_l4_input in;
	bool has_addr;
	struct policy_addr addr; /* the pinned address it uses */
};

/*
 * Called for each open connection with the new policy's decision.  On POLICY_DENY the owner closes it, and
 * also where @d->inspect says that its requests are now read but this one was opened as a plain tunnel; a
 * kept one is judged under the new policy from its next request on.
 */
typedef void (*policy_rejudge_fn)(void *user, const struct policy_conn *conn,
				  const struct policy_decision *d);

/* Returns how many connections are no longer allowed. */
size_t policy_rejudge(const struct policy *p, const struct policy_conn *conns, size_t n,
		      policy_rejudge_fn fn, void *user);

enum policy_reload {
	POLICY_RELOAD_NOW,	  /* differs only in what applies at once */
	POLICY_RELOAD_NEXT_START, /* also differs in files or process: those at the next start */
	POLICY_RELOAD_SAME,
	POLICY_RELOAD_REFUSED, /* the current policy stays in force; the text says why */
};

struct policy_reload_report {
	enum policy_reload outcome;
	bool filesystem_changed, landlock_changed, process_changed, network_changed;
	bool tcp_needs_start; /* the first transparent endpoint cannot be added live */
	char text[512];
};

/*
 * A candidate document against the policy in force (@current may be NULL) and the organisation's
 * boundary (may be NULL).  On anything but REFUSED *@next holds the new policy.
 */
void policy_reload(struct policy *current, struct policy *boundary, const void *bytes, size_t len,
		   struct policy **next, struct policy_diags *diags, struct policy_reload_report *r);

/* ---- Prove ------------------------------------------------------------------------------------- */

enum policy_containment { POLICY_WITHIN = 0, POLICY_EXCEEDS = 1, POLICY_UNSUPPORTED = 2 };

/* A concrete thing that the candidate allows and the boundary does not; replayed through the engine. */
struct policy_proof {
	enum policy_containment result;
	const char *dimension; /* "network", "request", "file_read", "file_write", "process" ... */
	char construct[256];   /* UNSUPPORTED: the construct, with its line */
	char text[1024];       /* one line for a person */
	unsigned int line;     /* of the candidate */
	char host[300], program[4200], method[64], path[8200], file[4200], tool[300];
	uint16_t port;
	/* the counterexample as a request, when it is one; owned by the proof */
	struct policy_request *request;
	void *arena;
};

/* Does @candidate allow anything that @boundary does not?  Free @out with policy_proof_free(). */
enum policy_containment policy_contains(const struct policy *boundary, const struct policy *candidate,
					struct policy_proof *out);
void policy_proof_free(struct policy_proof *out);

/* ---- Advise ------------------------------------------------------------------------------------ */

struct policy_denial {
	const char *host;
	uint16_t port;
	const char *program;
	const char *const *ancestors;
	size_t n_ancestors;
	const char *method, *path; /* NULL = only the connection was refused */
	uint64_t count;
	enum policy_reason reason;
};

#define POLICY_DRAFT_PATHS 20

struct policy_draft {
	char key[128];	 /* of the rule: allow_<host>_<port> */
	char *yaml;	 /* the rule alone, as a network_policies entry */
	char *document;	 /* the whole policy with the rule added */
	char *allows;	 /* what it would newly allow, one line each */
	uint64_t denials; /* how many of the given denials it would have prevented */
	double confidence;
	char note[256];
	enum policy_containment boundary; /* verdict; WITHIN when there is no boundary */
	char boundary_text[512];
};

/*
 * The narrowest rules that would have prevented @denials.  @current may be NULL (nothing allowed yet).
 * Returns the drafts, most confident first; *@n of them.  Free with policy_drafts_free().
 */
struct policy_draft *policy_draft_rules(struct policy *current, struct policy *boundary,
					const struct policy_denial *denials, size_t n_denials, size_t *n,
					struct err *err);
/* Would this have passed under @p?  For showing, after a draft was accepted, that it helped. */
bool policy_denial_passes(const struct policy *p, const struct policy_denial *d);
void policy_drafts_free(struct policy_draft *d, size_t n);

#endif
