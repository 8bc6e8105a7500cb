/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parsing: hostile documents, positions, all errors at once, ambiguity, reload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "hostd/policy/model.h"

static struct policy_diags diags;

static struct policy *parse_n(const void *text, size_t n)
{
	policy_diags_free(&diags);
	return policy_parse(text, n, POLICY_STRICT, &diags);
}

static struct policy *parse(const char *text)
{
	return parse_n(text, strlen(text));
}

static bool reported(const char *path, const char *text)
{
	for (size_t i = 0; i < diags.n; i++)
		if (strstr(diags.v[i].path, path) && (strstr(diags.v[i].text, text) || strstr(diags.v[i].expected, text)))
			return true;
	for (size_t i = 0; i < diags.n; i++)
		print_message("# %u:%u %s: %s\n", diags.v[i].line, diags.v[i].column, diags.v[i].path,
			      diags.v[i].text);
	return false;
}

static void refused(const char *text, const char *path, const char *why)
{
	assert_null(parse(text));
	assert_true(reported(path, why));
}

#define HEAD "version: 1\nnetwork_policies:\n  r:\n    binaries: [{path: /bin/x}]\n    endpoints:\n"

static void hostile_documents(void **state)
{
	static const char utf16[] = "\xff\xfev\0e\0r\0", bom[] = "\xef\xbb\xbfversion: 1\n", nul[] = "version: 1\n\0x: 2\n";
	char *big = malloc(POLICY_BYTES_MAX + 2), *deep = malloc(200001);
	struct policy *p;

	(void)state;
	assert_null(parse_n(utf16, sizeof(utf16) - 1));
	assert_true(reported("", "UTF-16"));
	assert_null(parse_n(bom, sizeof(bom) - 1));
	assert_true(reported("", "byte order mark"));
	assert_null(parse_n(nul, sizeof(nul) - 1));
	assert_true(reported("", "NUL"));
	assert_int_equal(diags.v[0].line, 2);
	refused("version: 1\nx: \"a\\0b\"\n", "", "NUL");
	refused("version: \xc0\xaf\n", "", "UTF-8");
	refused("", "", "empty");
	refused("---\nversion: 1\n---\nversion: 1\n", "", "second document");
	refused("version: &a 1\n", "", "anchors");
	refused("version: 1\nprocess: *a\n", "", "aliases");
	refused("version: !!int 1\n", "", "tags");
	refused("version: 1\nversion: 1\n", "version", "already given at line 1");
	refused("version: 1\nprocess:\n  <<: {run_as_user: sandbox}\n", "process", "merge keys");
	refused("- a\n", "", "a map");
	refused("version: [1\n", "", "YAML");

	/* 4 MiB of one key; more than 4 MiB; depth */
	memset(big, 'k', POLICY_BYTES_MAX + 1);
	memcpy(big + POLICY_BYTES_MAX - 4, ": 1\n", 4);
	assert_null(parse_n(big, POLICY_BYTES_MAX));
	assert_int_not_equal(diags.errors, 0);
	assert_null(parse_n(big, POLICY_BYTES_MAX + 1));
	assert_true(reported("", "4 MiB") || reported("", "bytes"));
	memset(deep, '[', 200000);
	deep[200000] = '\0';
	assert_null(parse(deep));
	free(big);
	free(deep);

	/* aliases may not multiply either where they are allowed */
	policy_diags_free(&diags);
	static const char laughs[] = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
				     "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
				     "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
				     "g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";

	assert_null(policy_parse("text", 4, POLICY_EVALUATE, &diags));
	assert_int_equal(diags.errors, 1);
	policy_diags_free(&diags);
	assert_null(policy_parse(laughs, strlen(laughs), POLICY_EVALUATE, &diags));
	assert_true(reported("", "too many values"));
	policy_diags_free(&diags);
	static const char loop[] = "a: &a [*a]\n";

	p = policy_parse(loop, strlen(loop), POLICY_EVALUATE, &diags);
	assert_null(p);
}

/* @head, then @unit over and over, then @tail: @len bytes in all. The caller frees it. */
static char *made_of(const char *head, size_t head_len, const char *unit, const char *tail, size_t len)
{
	size_t n = strlen(unit), t = strlen(tail);
	char *text = test_malloc(len + 1);

	memcpy(text, head, head_len);
	for (size_t i = head_len; n && i < len; i++)
		text[i] = unit[(i - head_len) % n];
	memcpy(text + len - t, tail, t);
	return text;
}

/* Each is refused with an error of its own, in every mode, and soon; only a long key is fine where none is known. */
static void hostile_in_every_mode(void **state)
{
#define RAW(bytes) bytes, sizeof(bytes) - 1, "", "", sizeof(bytes) - 1, false
	static const struct {
		const char *what, *why, *head;
		size_t head_len;
		const char *unit, *tail;
		size_t len;
		bool key; /* an unknown key, which only strict mode minds */
	} cases[] = {
		{ "UTF-16, big end first", "UTF-16", RAW("\xfe\xff\0v\0e\0r") },
		{ "UTF-16 without a mark", "NUL", RAW("v\0e\0r\0s\0i\0o\0n\0:\0 \0001\0") },
		{ "UTF-32", "UTF-32", RAW("\xff\xfe\0\0v\0\0\0") },
		{ "a mark before UTF-8", "byte order mark", RAW("\xef\xbb\xbfversion: 1\n") },
		{ "4 MiB of one key", "unknown key", "", 0, "k", ": 1\n", POLICY_BYTES_MAX, true },
		{ "4 MiB of one quoted key", "unknown key", "\"", 1, "\\t", "xx\": 1\n", POLICY_BYTES_MAX, true },
		{ "4 MiB of a value", "a map", "", 0, "v", "\n", POLICY_BYTES_MAX, false },
		{ "open lists", "deep", "", 0, "[", "", 200000, false },
		{ "open maps", "deep", "", 0, "{a: ", "", 200000, false },
		{ "lists in lists", "deep", "", 0, "- ", "x\n", 200000, false },
		{ "keys of keys", "deep", "", 0, "? ", "x\n", 200000, false },
		{ "one byte too many", "4194305 bytes", "", 0, "#", "\n", POLICY_BYTES_MAX + 1, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = made_of(cases[i].head, cases[i].head_len, cases[i].unit, cases[i].tail, cases[i].len);

		for (int mode = POLICY_STRICT; mode <= POLICY_EVALUATE; mode++) {
			clock_t start = clock(), ms;
			bool fine = cases[i].key && mode != POLICY_STRICT;
			struct policy *p;

			policy_diags_free(&diags);
			p = policy_parse(text, cases[i].len, (enum policy_mode)mode, &diags);
			ms = (clock() - start) * 1000 / CLOCKS_PER_SEC;
			print_message("# %s, mode %d: %ld ms, %.80s\n", cases[i].what, mode, ms,
				      diags.n ? diags.v[0].text : "accepted");
			if (!p != !fine || !diags.errors != fine || (!p && !reported("", cases[i].why)) || ms > 10000)
				fail_msg("%s, mode %d: %zu errors", cases[i].what, mode, diags.errors);
			policy_put(p);
		}
		test_free(text);
	}
}

static void all_errors_at_once(void **state)
{
	(void)state;
	assert_null(parse("version: 2\nfilesystem_policy:\n  read_write: [/, /home/../x]\nprocess:\n"
			  "  run_as_user: root\nnetwork_policies:\n  a:\n    endpoints:\n      - host: \"*.com\"\n"
			  "        port: 70000\n        colour: blue\n        allowed_ips: [169.254.0.0/16]\n"));
	assert_int_equal(diags.errors, 8);
	assert_true(reported("version", "newer"));
	assert_true(reported("filesystem_policy.read_write[0]", "everything"));
	assert_true(reported("filesystem_policy.read_write[1]", ".."));
	assert_true(reported("process.run_as_user", "root"));
	assert_true(reported("network_policies.a.endpoints[0].host", "top-level domain"));
	assert_true(reported("network_policies.a.endpoints[0].port", "out of range"));
	assert_true(reported("network_policies.a.endpoints[0].colour", "one of host"));
	assert_true(reported("network_policies.a.endpoints[0].allowed_ips", "always blocked"));
	for (size_t i = 0; i < diags.n; i++)
		assert_int_not_equal(diags.v[i].line, 0);
	for (size_t i = 1; i < diags.n; i++)
		assert_true(diags.v[i - 1].line <= diags.v[i].line);
}

static void identities(void **state)
{
	static const char *const bad[] = { "\"0\"", "root", "\"+0\"", "\"4294967295\"", "\"-1\"", "\"00\"", "daemon" };
	static const char *const good[] = { "sandbox", "\"1\"", "\"1000\"", "\"4294967294\"" };
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "version: 1\nprocess: {run_as_user: %s}\n", bad[i]);
		assert_null(parse(text));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct policy *p;

		snprintf(text, sizeof(text), "version: 1\nprocess: {run_as_user: %s}\n", good[i]);
		p = parse(text);
		assert_non_null(p);
		policy_put(p);
	}
}

/* Paths and addresses that a rule may not have: each is an error where it stands, with the reason. */
static void refused_where_it_stands(void **state)
{
	static const char *const everything[] = { "/", "//", "///", "/home/../", "/a/..", "..", "a", "/proc/self/root",
						  "/proc/1/root/x", "/proc/self/cwd", "/proc/thread-self/fd/3" };
	static const char *const blocked[] = { "127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "\"::1\"",
					       "\"[::1]\"", "\"::\"", "\"fe80::1\"", "\"::ffff:127.0.0.1\"" };
	static const char *const fine[] = { "10.0.0.5", "192.168.1.20", "\"fd00::5\"", "8.8.8.8", "host.docker.internal" };
	char text[400];
	struct policy *p;

	(void)state;
	for (size_t i = 0; i < sizeof(everything) / sizeof(everything[0]); i++) {
		snprintf(text, sizeof(text), "version: 1\nfilesystem_policy: {read_write: [%s]}\n", everything[i]);
		refused(text, "filesystem_policy.read_write[0]", "");
	}
	p = parse("version: 1\nfilesystem_policy: {read_only: [/], read_write: [/tmp, /dev/null]}\n");
	assert_non_null(p);
	policy_put(p);
	for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
		snprintf(text, sizeof(text), HEAD "      - {host: %s, port: 80}\n", blocked[i]);
		refused(text, "endpoints[0].host", "always blocked");
		snprintf(text, sizeof(text), HEAD "      - {host: a.b.c, port: 80, allowed_ips: [%s]}\n", blocked[i]);
		refused(text, "endpoints[0].allowed_ips", i == 5 ? "neither" : "always blocked");
	}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		snprintf(text, sizeof(text), HEAD "      - {host: %s, port: 80}\n", fine[i]);
		p = parse(text);
		assert_non_null(p);
		policy_put(p);
	}
	p = parse(HEAD "      - {host: Metadata.google.internal., port: 80}\n      - {host: a.localhost, port: 80}\n");
	assert_non_null(p);
	assert_true(reported("endpoints[0].host", "always blocked") && reported("endpoints[1].host", "always blocked"));
	policy_put(p);
}

/* A field that nothing here carries out is accepted, and said. */
static void unenforced_fields(void **state)
{
	static const struct {
		const char *key, *text;
	} cases[] = {
		{ "websocket_credential_rewrite", "protocol: websocket, access: full, websocket_credential_rewrite: true" },
		{ "request_body_credential_rewrite", "protocol: rest, access: full, request_body_credential_rewrite: true" },
		{ "allow_uninspected_credentials", "allow_uninspected_credentials: true" },
		{ "credential_signing", "protocol: rest, access: full, credential_signing: sigv4, signing_service: s3" },
		{ "signing_service", "protocol: rest, access: full, credential_signing: sigv4, signing_service: s3" },
		{ "signing_region", "protocol: rest, access: full, credential_signing: sigv4, signing_service: s3, signing_region: eu-1" },
		{ "credential_binding", "protocol: rest, access: full, credential_binding: {provider: p}" },
	};
	char text[400];
	struct policy *p;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), HEAD "      - {host: a.b.c, port: 443, %s}\n", cases[i].text);
		p = parse(text);
		assert_non_null(p);
		assert_true(reported(cases[i].key, "not enforced"));
		policy_put(p);
	}
	p = parse(HEAD "      - {host: a.b.c, port: 443}\nnetwork_middlewares:\n  m: {middleware: openshell/regex, endpoints: "
		       "{include: [a.b.c]}}\n");
	assert_non_null(p);
	assert_true(reported("network_middlewares", "not enforced"));
	policy_put(p);
}

/* What names nothing allows nothing: neither a connection nor a name. */
static void nothing_named(void **state)
{
	static const char *const texts[] = { "version: 1\n", "version: 1\nnetwork_policies: {}\n",
					     "version: 1\nnetwork_policies: {r: {endpoints: [], binaries: [{path: /bin/x}]}}\n",
					     "version: 1\nnetwork_policies: {r: {endpoints: [{host: a.b.c, port: 1}], binaries: []}}\n" };
	const struct policy_l4_input in = { .host = "a.b.c", .port = 1, .program = "/bin/x" };
	struct policy_decision d;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct policy *p = parse(texts[i]);

		assert_non_null(p);
		policy_decide_l4(p, &in, &d);
		assert_int_equal(d.verdict, POLICY_DENY);
		assert_true(*d.text);
		if (i < 3)
			assert_false(policy_name_allowed(p, "a.b.c"));
		policy_put(p);
	}
}

static void l7_rules(void **state)
{
	static const struct {
		const char *text, *path, *why;
	} bad[] = {
		{ HEAD "      - {host: a.b.c, port: 1, protocol: gopher}\n", "protocol", "unknown" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: tcp, access: full}\n", "access", "tcp" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: tcp, path: /x}\n", "path", "tcp" },
		{ HEAD "      - {host: 1.2.3.4, port: 1, protocol: tcp}\n", "host", "by name" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, access: full, rules: [{allow: {method: GET, path: /}}]}\n",
		  "access", "both" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: mcp, access: full}\n", "access", "no presets" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: json-rpc}\n", "protocol", "without rules" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest}\n", "protocol", "without rules and access" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: mcp}\n", "protocol", "without rules" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, rules: []}\n", "rules", "empty" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, rules: [{allow: {query: {a: b}}}]}\n", "rules",
		  "no rule says" },
		{ HEAD "      - {host: a.b.c, port: 1, deny_rules: [{method: GET, path: /}]}\n", "deny_rules", "protocol" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, deny_rules: [{method: GET, path: /}]}\n",
		  "deny_rules", "allowed" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, access: full, path: x}\n", "path", "begins with /" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: graphql, access: full, persisted_queries: maybe}\n",
		  "persisted_queries", "unknown" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: json-rpc, rules: [{allow: {method: x}}], json_rpc: {max_body_bytes: 0}}\n",
		  "max_body_bytes", "out of range" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, access: full, mcp: {strict_tool_names: true}}\n", "mcp",
		  "protocol mcp" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: sql, access: full, enforcement: enforce}\n", "enforcement",
		  "cannot be enforced" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: graphql, rules: [{allow: {operation_name: x}}]}\n", "rules",
		  "without operation_type" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: graphql, rules: [{allow: {operation_type: \"*\"}}]}\n",
		  "operation_type", "not one of" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: graphql, rules: [{allow: {operation_type: query, fields: []}}]}\n",
		  "fields", "nothing" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: websocket, rules: [{allow: {method: GET, path: /, operation_type: query}}]}\n",
		  "rules", "mixes" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: json-rpc, rules: [{allow: {method: \"a*\"}}]}\n", "method",
		  "patterns" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: json-rpc, rules: [{allow: {method: a, tool: b}}]}\n", "tool",
		  "json-rpc" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: mcp, rules: [{allow: {method: \"*\"}}]}\n", "method",
		  "only allowed for tools" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: mcp, rules: [{allow: {method: initialize, tool: b}}]}\n",
		  "method", "a tool is named" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: mcp, mcp: {strict_tool_names: false}, rules: [{allow: {method: tools/call, tool: \"b*\"}}]}\n",
		  "tool", "strict" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: mcp, rules: [{allow: {method: tools/call, tool: b}}, {allow: {method: \"tools/*\"}}]}\n",
		  "method", "every tool" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, rules: [{allow: {method: GET, path: /, tool: b}}]}\n", "tool",
		  "protocol rest" },
		{ HEAD "      - {host: \"**\", port: 1}\n", "host", "every host" },
		{ HEAD "      - {host: \"a.**.c.d\", port: 1}\n", "host", "later label" },
		{ HEAD "      - {host: \"x**.c.d\", port: 1}\n", "host", "first label" },
		{ HEAD "      - {port: 1}\n", "host", "without host" },
		{ HEAD "      - {host: a.b.c}\n", "port", "without port" },
		{ HEAD "      - {host: a.b.c, port: 1, credential_signing: sigv4}\n", "credential_signing",
		  "signing_service" },
		{ HEAD "      - {host: a.b.c, port: 1, protocol: rest, rules: [{allow: {method: GET, path: \"/[\"}}]}\n", "path",
		  "not closed" },
		{ HEAD "      - {host: 1.5, port: 1}\n", "host", "a number" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct policy *p = parse(bad[i].text);

		if (p || !reported(bad[i].path, bad[i].why)) {
			print_message("# case %zu: %s", i, bad[i].text);
			fail();
		}
	}
	/* a wildcard in a later label is fine, whatever the manual says */
	struct policy *p = parse(HEAD "      - {host: \"a.*.c.d\", port: 1}\n");

	assert_non_null(p);
	policy_put(p);
}

static void ambiguity(void **state)
{
	(void)state;
	refused(HEAD "      - {host: \"*.x.y\", port: 443, tls: skip}\n      - {host: a.x.y, ports: [80, 443]}\n",
		"endpoints[1]", "tls: auto and skip");
	refused(HEAD "      - {host: a.x.y, port: 443, protocol: rest, access: full, enforcement: enforce}\n"
		     "      - {host: \"*.x.y\", port: 443, protocol: rest, access: full}\n",
		"endpoints[1]", "enforcement");
	refused(HEAD "      - {host: a.x.y, port: 443, protocol: rest, access: full, path: \"/v?\"}\n"
		     "      - {host: a.x.y, port: 443, protocol: graphql, access: full, path: \"/v1\"}\n",
		"endpoints[1]", "protocol");
	/* different ports, disjoint or more specific paths: fine */
	struct policy *p = parse(HEAD "      - {host: a.x.y, port: 443, tls: skip}\n      - {host: a.x.y, port: 80}\n"
				      "      - {host: b.x.y, port: 443, protocol: rest, access: full}\n"
				      "      - {host: b.x.y, port: 443, protocol: graphql, access: full, path: /graphql}\n");

	assert_non_null(p);
	policy_put(p);
}

/* As many patterns as endpoints: they are compared by the end of their names, and what differs is still found. */
static void ambiguity_of_many(void **state)
{
	enum { ENDPOINTS = 4000 };
	char *text = test_malloc(ENDPOINTS * 64 + 1024);
	size_t n = (size_t)sprintf(text, HEAD), whole;
	struct policy *p;

	(void)state;
	for (int i = 0; i < ENDPOINTS; i++)
		n += (size_t)sprintf(text + n, "      - {host: \"*.h%d.example.test\", port: 443}\n", i);
	whole = n;
	p = parse(text);
	assert_non_null(p);
	policy_put(p);
	sprintf(text + whole, "      - {host: a.h7.example.test, port: 443, tls: skip}\n");
	refused(text, "endpoints[4000]", "tls: skip and auto");
	assert_int_equal(diags.errors, 1);
	sprintf(text + whole, "      - {host: \"**.test\", port: 443, tls: skip}\n");
	refused(text, "endpoints[4000]", "tls: skip and auto");
	sprintf(text + whole, "      - {host: h7.example.test, port: 443, tls: skip}\n"
			      "      - {host: \"*.h7.example.net\", port: 443, tls: skip}\n");
	p = parse(text);
	assert_non_null(p);
	policy_put(p);
	test_free(text);
}

static void warnings(void **state)
{
	struct policy *p;

	(void)state;
	p = parse("version: 1\nfilesystem_policy: {read_write: [/w], read_only: [/w/secrets]}\nnetwork_policies:\n  r:\n"
		  "    binaries: [{path: /bin/x}]\n    endpoints:\n"
		  "      - {host: a.b.c, port: 1, protocol: rest, access: full, request_body_credential_rewrite: true}\n");
	assert_non_null(p);
	assert_true(reported("request_body_credential_rewrite", "not enforced"));
	assert_true(reported("read_only[0]", "stays writable"));
	assert_true(reported("read_write", "/dev/null"));
	assert_true(reported("endpoints[0]", "only audits"));
	assert_non_null(policy_baseline(p, 0));
	policy_put(p);
}

static void reload(void **state)
{
	static const char one[] = HEAD "      - {host: a.b.c, port: 1}\n", two[] = HEAD "      - {host: a.b.d, port: 1}\n";
	static const char fs[] = "version: 1\nfilesystem_policy: {read_write: [/dev/null]}\n";
	struct policy_reload_report r;
	struct policy *now = parse(one), *next;

	(void)state;
	policy_diags_free(&diags);
	policy_reload(now, NULL, two, strlen(two), &next, &diags, &r);
	assert_int_equal(r.outcome, POLICY_RELOAD_NOW);
	assert_true(r.network_changed);
	policy_put(next);
	policy_reload(now, NULL, one, strlen(one), &next, &diags, &r);
	assert_int_equal(r.outcome, POLICY_RELOAD_SAME);
	policy_put(next);
	policy_reload(now, NULL, fs, strlen(fs), &next, &diags, &r);
	assert_int_equal(r.outcome, POLICY_RELOAD_NEXT_START);
	assert_true(r.filesystem_changed);
	policy_put(next);
	/* cut off anywhere: refused, unless it is cut at the end of a line and still a policy */
	for (size_t n = 0; n < strlen(two); n++) {
		policy_diags_free(&diags);
		policy_reload(now, NULL, two, n, &next, &diags, &r);
		if (n && two[n - 1] == '\n') {
			policy_put(next);
			continue;
		}
		assert_int_equal(r.outcome, POLICY_RELOAD_REFUSED);
		assert_null(next);
		assert_true(*r.text);
	}
	policy_diags_free(&diags);
	policy_reload(now, NULL, "version: 2\n", 11, &next, &diags, &r);
	assert_int_equal(r.outcome, POLICY_RELOAD_REFUSED);
	assert_non_null(strstr(r.text, "newer"));
	/* the boundary holds at every path */
	policy_diags_free(&diags);
	policy_reload(NULL, now, two, strlen(two), &next, &diags, &r);
	assert_int_equal(r.outcome, POLICY_RELOAD_REFUSED);
	assert_non_null(strstr(r.text, "exceeds"));
	policy_reload(NULL, now, one, strlen(one), &next, &diags, &r);
	assert_int_equal(r.outcome, POLICY_RELOAD_NOW);
	policy_put(next);
	policy_put(now);
}

static size_t told;

static void count(void *user, const struct policy_conn *c, const struct policy_decision *d)
{
	(void)user;
	told += (c->id == 7) == (d->verdict == POLICY_DENY);
}

static void rejudge(void **state)
{
	struct policy *p = parse(HEAD "      - {host: a.b.c, port: 1}\n");
	struct policy_conn c[3] = {
		{ .id = 7, .in = { .host = "a.b.d", .port = 1, .program = "/bin/x" } },
		{ .id = 8, .in = { .host = "a.b.c", .port = 1, .program = "/bin/x" }, .has_addr = true },
		{ .id = 9, .in = { .host = "a.b.c", .port = 1, .program = "/bin/x" } },
	};

	(void)state;
	policy_addr_parse("192.0.2.1", &c[1].addr);
	assert_int_equal(policy_rejudge(p, c, 3, count, NULL), 1);
	assert_int_equal(told, 3);
	policy_put(p);
}

static int end(void **state)
{
	(void)state;
	policy_diags_free(&diags);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_documents), cmocka_unit_test(hostile_in_every_mode),
		cmocka_unit_test(all_errors_at_once), cmocka_unit_test(identities),
		cmocka_unit_test(ambiguity_of_many),
		cmocka_unit_test(refused_where_it_stands), cmocka_unit_test(unenforced_fields), cmocka_unit_test(nothing_named),
		cmocka_unit_test(l7_rules),	     cmocka_unit_test(ambiguity),	   cmocka_unit_test(warnings),
		cmocka_unit_test(reload),	     cmocka_unit_test(rejudge),
	};

	return cmocka_run_group_tests(tests, NULL, end);
}
