/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests: addresses, destinations, canonical paths, JSON-RPC, GraphQL, WebSocket, relaxed decisions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hostd/policy/model.h"
#include "hostd/policy/request.h"
#include "tests/unit/policy_text.h"

static void addresses(void **state)
{
	static const char *const bad[] = { "0177.0.0.1", "127.1",	  "1.2.3.256", "0x7f.0.0.1", "2130706433", "1.2.3.4.5",
					   "::1::",	 "fe80::1%eth0", "1:2:3:4:5:6:7:8:9", ":1", "1.2.3.04", "", "12345::" };
	static const char *const good[] = { "1.2.3.4", "::", "::1", "fe80::1", "1:2:3:4:5:6:7:8", "::ffff:127.0.0.1", "64:ff9b::1.2.3.4", "1::" };
	static const char *const blocked[] = { "127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "::1", "::", "fe80::1",
					       "::ffff:127.0.0.1", "::ffff:169.254.169.254" };
	static const char *const internal[] = { "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.0.2.1", "198.18.0.1",
						"255.255.255.255", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::" };
	struct policy_addr a;
	struct cidr c;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (policy_addr_parse(bad[i], &a) == 0)
			fail_msg("%s was taken for an address", bad[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (policy_addr_parse(good[i], &a) != 0)
			fail_msg("%s is an address", good[i]);
	for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
		assert_int_equal(policy_addr_parse(blocked[i], &a), 0);
		assert_true(policy_addr_blocked(&a));
	}
	for (size_t i = 0; i < sizeof(internal) / sizeof(internal[0]); i++) {
		assert_int_equal(policy_addr_parse(internal[i], &a), 0);
		assert_false(policy_addr_blocked(&a));
		assert_true(policy_addr_internal(&a));
	}
	assert_int_equal(policy_addr_parse("1.1.1.1", &a), 0);
	assert_false(policy_addr_internal(&a));
	assert_int_equal(policy_cidr_parse(" 10.0.0.0/8 ", &c), 0);
	assert_false(policy_cidr_touches_blocked(&c));
	assert_int_equal(policy_cidr_parse("0.0.0.0/0", &c), 0);
	assert_true(policy_cidr_touches_blocked(&c));
	assert_int_equal(policy_cidr_parse("::ffff:127.0.0.0/104", &c), 0);
	assert_true(policy_cidr_touches_blocked(&c));
	assert_int_equal(policy_cidr_parse("10.0.0.0/33", &c), -1);
}

static void destinations(void **state)
{
	struct policy *p = parse("version: 1\nnetwork_policies:\n  r:\n    binaries: [{path: /bin/x}]\n    endpoints:\n"
				 "      - {host: db.corp.test, port: 5432}\n      - {host: \"*.pub.test\", port: 443}\n"
				 "      - {host: lan.test, port: 8080, allowed_ips: [10.1.0.0/16]}\n"
				 "      - {host: etcd.corp.test, port: 2379}\n      - {host: \"10.0.0.9\", port: 80}\n");
	static const struct {
		const char *host;
		uint16_t port;
		const char *addrs[3];
		enum policy_reason reason;
	} cases[] = {
		{ "db.corp.test", 5432, { "10.0.0.5" }, POLICY_OK },
		{ "db.corp.test", 5432, { "10.0.0.5", "169.254.169.254" }, POLICY_DEST_BLOCKED },
		{ "db.corp.test", 5432, { "::ffff:127.0.0.1" }, POLICY_DEST_BLOCKED },
		{ "a.pub.test", 443, { "1.1.1.1" }, POLICY_OK },
		{ "a.pub.test", 443, { "1.1.1.1", "10.0.0.1" }, POLICY_DEST_INTERNAL },
		{ "a.pub.test", 443, { "64:ff9b::10.0.0.1" }, POLICY_DEST_INTERNAL },
		{ "lan.test", 8080, { "10.1.2.3" }, POLICY_OK },
		{ "lan.test", 8080, { "10.2.0.1" }, POLICY_DEST_NOT_LISTED },
		{ "lan.test", 8080, { "8.8.8.8" }, POLICY_DEST_NOT_LISTED },
		{ "etcd.corp.test", 2379, { "10.0.0.1" }, POLICY_DEST_PORT },
		{ "10.0.0.9", 80, { "10.0.0.9" }, POLICY_OK },
		{ "10.0.0.9", 80, { "10.0.0.8" }, POLICY_DEST_PINNED },
		{ "db.corp.test", 5432, { NULL }, POLICY_DEST_NONE },
	};
	struct policy_addr gateway;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_l4_input in = { .host = cases[i].host, .port = cases[i].port, .program = "/bin/x" };
		struct policy_addr a[3];
		struct policy_decision d;
		size_t n = 0;

		for (; n < 3 && cases[i].addrs[n]; n++)
			assert_int_equal(policy_addr_parse(cases[i].addrs[n], &a[n]), 0);
		policy_decide_dest(p, &in, a, n, NULL, &d);
		if (d.reason != cases[i].reason)
			fail_msg("case %zu: %s", i, d.text);
	}
	/* an alias stands for its gateway and nothing else, and never for the metadata service */
	struct policy_l4_input in = { .host = "host.docker.internal", .port = 80, .program = "/bin/x" };
	struct policy_decision d;
	struct policy_addr a;

	policy_addr_parse("169.254.1.2", &gateway);
	policy_addr_parse("169.254.1.2", &a);
	policy_decide_dest(p, &in, &a, 1, &gateway, &d);
	assert_int_equal(d.reason, POLICY_OK);
	policy_addr_parse("1.1.1.1", &a);
	policy_decide_dest(p, &in, &a, 1, &gateway, &d);
	assert_int_equal(d.reason, POLICY_DEST_PINNED);
	policy_addr_parse("169.254.169.254", &gateway);
	policy_decide_dest(p, &in, &gateway, 1, &gateway, &d);
	assert_int_equal(d.reason, POLICY_DEST_BLOCKED);
	policy_put(p);
}

static void canon(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "/a/..%3b/b", "/b" },	     { "/a/%2e%2e/b", "/b" },	{ "/a/%252e%252e/b", "/a/%252e%252e/b" },
		{ "/a%252Fb", "/a%252Fb" },  { "/a//b", "/a/b" },	{ "/a/./b", "/a/b" },
		{ "/a;x=y/b", "/a/b" },	     { "/a\\..\\b", "/a%5C..%5Cb" }, { "/%c0%ae%c0%ae/", "/%C0%AE%C0%AE/" },
		{ "http://h/a/../b", "/b" }, { "/a%00", NULL },		{ "/a%2Fb", NULL },
		{ "/../a", NULL },	     { "/a#b", NULL },		{ "*", NULL },
		{ "/\xc3\xa9", NULL },
	};
	struct policy_canon c, again;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum policy_canon_error e = policy_canon(cases[i].in, strlen(cases[i].in), false, &c);

		if ((e == POLICY_CANON_OK) != (cases[i].out != NULL) || (cases[i].out && strcmp(c.path, cases[i].out)))
			fail_msg("%s: %s %s", cases[i].in, policy_canon_error_name(e), c.path);
		if (e != POLICY_CANON_OK)
			continue;
		assert_int_equal(policy_canon(c.path, c.path_len, false, &again), POLICY_CANON_OK);
		assert_string_equal(again.path, c.path);
		assert_false(again.rewritten);
	}
}

/* What is left of the path counts, and where the slash was written out it is looked between them too. */
static void canon_kept_slash(void **state)
{
	static const struct {
		const char *in, *out;
		enum policy_canon_error e;
	} cases[] = {
		{ "/a%2fb", "/a%2Fb", POLICY_CANON_OK },
		{ "/a%2F./../b", "/b", POLICY_CANON_OK },
		{ "/a%252F./b", "/a%252F./b", POLICY_CANON_OK },
		{ "/%2F", "/%2F", POLICY_CANON_OK },
		{ "/a%2F.", "", POLICY_CANON_RESIDUAL_DOT },
		{ "/..%2F", "", POLICY_CANON_RESIDUAL_DOT },
		{ "/a%2F..;x/b", "", POLICY_CANON_RESIDUAL_DOT },
		{ "/a%2F%2e%2e%2Fb", "", POLICY_CANON_RESIDUAL_DOT },
		{ "/x%2F./../..", "", POLICY_CANON_TRAVERSAL },
	};
	struct policy_canon c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum policy_canon_error e = policy_canon(cases[i].in, strlen(cases[i].in), true, &c);

		if (e != cases[i].e || (e == POLICY_CANON_OK && strcmp(c.path, cases[i].out)))
			fail_msg("%s: %s %s", cases[i].in, policy_canon_error_name(e), c.path);
	}
}

/* Host patterns of middlewares are matched by characters; endpoint selectors have a corner at their end. */
static void selectors(void **state)
{
	static const char *const white[] = { "a b", "a\tb", "a\xc2\xa0" "b", "a\xe3\x80\x80" "b" };
	struct arena *a = policy_arena_new(1u << 20);
	struct selector_glob g;
	struct path_glob path;

	(void)state;
	assert_true(policy_host_selector_matches("b?cher.de", "b\xc3\xbc" "cher.de"));
	assert_true(policy_host_selector_matches("[\xc3\xbc-\xc3\xbf]x.de", "\xc3\xbe" "x.de"));
	assert_false(policy_host_selector_matches("[!\xc3\xbc]x.de", "\xc3\xbc" "x.de"));
	assert_true(policy_host_selector_matches("*.EXAMPLE.com", "a.example.COM"));
	assert_false(policy_host_selector_matches("*.example.com", "a.b.example.com"));
	for (size_t i = 0; i < sizeof(white) / sizeof(white[0]); i++)
		assert_int_equal(policy_host_selector_check(white[i]), HOST_SELECTOR_WHITESPACE);
	assert_int_equal(policy_host_selector_check("api[.example.com"), HOST_SELECTOR_INVALID);
	/* an overlong backslash is no escape: bytes that are no character stand for themselves */
	assert_int_equal(policy_path_glob(a, "/\xc1\x9c*", &path), 0);
	assert_int_equal(policy_path_matches(&path, "/\xc1\x9c*", 4), 1);
	assert_int_equal(policy_path_matches(&path, "/*", 2), 0);
	assert_int_equal(policy_selector_glob(a, "/a/**/", &g), 0);
	assert_int_equal(policy_selector_matches(&g, "/a/b/c"), 1);
	assert_int_equal(policy_selector_matches(&g, "/b"), 0);
	policy_arena_free(a);
}

static void rpc(void **state)
{
	static const struct {
		const char *body;
		bool mcp;
		int calls; /* -1 = refused */
	} cases[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}", false, 1 },
		{ "[{\"jsonrpc\":\"2.0\",\"method\":\"a\"},{\"jsonrpc\":\"2.0\",\"method\":\"b\"}]", false, 2 },
		{ "[]", false, -1 },
		{ "{\"jsonrpc\":\"1.0\",\"method\":\"x\"}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\"}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"result\":1}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"result\":1}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", false, 1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"no\"}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"method\":\"b\"}", false, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a.b-c\"}}", true, 1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}", true, -1 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a b\"}}", true, -1 },
		{ "nonsense", false, -1 },
	};
	struct arena *a = policy_arena_new(1 << 22);
	struct policy_rpc *calls;
	const char *why;
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc = policy_rpc_parse(a, cases[i].body, strlen(cases[i].body), cases[i].mcp, true, &calls, &n, &why);

		if (rc != (cases[i].calls < 0 ? -1 : 0) || (rc == 0 && (int)n != cases[i].calls))
			fail_msg("%s: %d %s", cases[i].body, rc, why);
	}
	assert_int_equal(policy_rpc_parse(a, cases[11].body, strlen(cases[11].body), true, true, &calls, &n, &why), 0);
	assert_string_equal(calls[0].tool, "a.b-c");
	policy_arena_free(a);
}

static void graphql(void **state)
{
	static const struct {
		const char *doc, *op, *type, *fields; /* type NULL = refused */
	} cases[] = {
		{ "{ a b: c }", NULL, "query", "a,c" },
		{ "mutation M($x: [Int!]! = [1]) @d(a: \"x}\") { f(x: $x) { deep } }", NULL, "mutation", "f" },
		{ "query A { a } query B { b }", "B", "query", "b" },
		{ "query A { a } query B { b }", NULL, NULL, NULL },
		{ "query A { a }", "Z", NULL, NULL },
		{ "{ ...F ... on Q { x } ... @include(if: true) { y } } fragment F on Q { a ...F }", NULL, "query", "a,x,y" },
		{ "{ ...Nope }", NULL, NULL, NULL },
		{ "{ a # { hidden\n , b }", NULL, "query", "a,b" },
		{ "{ a(s: \"\"\"block \\\"\"\" } \"\"\") }", NULL, "query", "a" },
		{ "subscription { s }", NULL, "subscription", "s" },
		{ "type A { b: C }", NULL, NULL, NULL },
		{ "{ }", NULL, NULL, NULL },
		{ "{ a", NULL, NULL, NULL },
		{ "", NULL, NULL, NULL },
		{ "{ a } }", NULL, NULL, NULL },
	};
	struct arena *a = policy_arena_new(1 << 24);
	struct policy_gql_op op;
	struct policy_gql g;
	const char *why;
	char deep[2000];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc = policy_gql_document(a, cases[i].doc, strlen(cases[i].doc), cases[i].op, &op, &why);
		char fields[200] = "";

		for (size_t k = 0; rc == 0 && k < op.n_fields; k++) {
			strcat(fields, k ? "," : "");
			strcat(fields, op.fields[k]);
		}
		if ((rc == 0) != (cases[i].type != NULL) ||
		    (rc == 0 && (strcmp(op.type, cases[i].type) || strcmp(fields, cases[i].fields))))
			fail_msg("%s: %s %s", cases[i].doc, rc ? why : op.type, fields);
	}
	memset(deep, '{', sizeof(deep));
	for (size_t i = 0; i < sizeof(deep); i += 2)
		deep[i + 1] = 'a';
	assert_int_equal(policy_gql_document(a, deep, sizeof(deep), NULL, &op, &why), -1);
	static const char both[] = "{\"query\":\"{a}\",\"id\":\"1\",\"queryId\":\"2\"}";
	static const char hash[] = "{\"extensions\":{\"persistedQuery\":{\"version\":1,\"sha256Hash\":\"ab\"}}}";

	policy_gql_request(a, "POST", NULL, 0, both, sizeof(both) - 1, &g);
	assert_non_null(g.error);
	policy_gql_request(a, "POST", NULL, 0, hash, sizeof(hash) - 1, &g);
	assert_null(g.error);
	assert_true(g.ops[0].persisted && !*g.ops[0].type && !strcmp(g.ops[0].hash, "ab"));
	policy_gql_request(a, "PUT", NULL, 0, hash, sizeof(hash) - 1, &g);
	assert_non_null(g.error);
	static const char ws[] = "{\"type\":\"subscribe\",\"id\":\"1\",\"payload\":{\"query\":\"subscription{s}\"}}";

	assert_int_equal(policy_gql_ws_message(a, ws, sizeof(ws) - 1, &g), GQL_WS_OPERATION);
	assert_int_equal(policy_gql_ws_message(a, "{\"type\":\"ping\"}", 15, &g), GQL_WS_CONTROL);
	assert_int_equal(policy_gql_ws_message(a, "{\"type\":\"evil\"}", 15, &g), GQL_WS_REFUSE);
	policy_arena_free(a);
}

static void websocket(void **state)
{
	static const struct {
		uint8_t bytes[16];
		size_t n;
		int result;
	} cases[] = {
		{ { 0x81, 0x82, 1, 2, 3, 4, 'a', 'b' }, 8, 1 },
		{ { 0x81, 0x02, 'a', 'b' }, 4, -1002 },		   /* not masked */
		{ { 0x91, 0x80, 0, 0, 0, 0 }, 6, -1002 },	   /* reserved bit */
		{ { 0xc1, 0x80, 0, 0, 0, 0 }, 6, -1002 },	   /* compressed without agreement */
		{ { 0x83, 0x80, 0, 0, 0, 0 }, 6, -1002 },	   /* reserved opcode */
		{ { 0x80, 0x80, 0, 0, 0, 0 }, 6, -1002 },	   /* continues nothing */
		{ { 0x09, 0x80, 0, 0, 0, 0 }, 6, -1002 },	   /* control frame in pieces */
		{ { 0x89, 0xfe, 0, 126, 0, 0, 0, 0 }, 8, -1002 },  /* long control frame */
		{ { 0x88, 0x81, 0, 0, 0, 0, 3 }, 7, -1002 },	   /* half a close code */
		{ { 0x88, 0x82, 0, 0, 0, 0, 3, 0xed }, 8, -1002 }, /* 1005 */
		{ { 0x88, 0x82, 0, 0, 0, 0, 3, 0xe8 }, 8, 1 },	   /* 1000 */
		{ { 0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0 }, 14, -1009 },
		{ { 0x81 }, 1, 0 },
	};
	struct policy_ws_frame f;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_ws s = { 0 };
		int rc = policy_ws_frame(&s, cases[i].bytes, cases[i].n, &f);

		if (rc != cases[i].result)
			fail_msg("case %zu: %d", i, rc);
	}
	struct policy_ws s = { 0 };
	static const uint8_t first[] = { 0x01, 0x80, 0, 0, 0, 0 }, again[] = { 0x81, 0x80, 0, 0, 0, 0 };

	assert_int_equal(policy_ws_frame(&s, first, 6, &f), 1);
	assert_int_equal(policy_ws_frame(&s, again, 6, &f), -1002); /* the first message is still open */
}

static void enforcement(void **state)
{
	struct policy *p = parse("version: 1\nnetwork_policies:\n  r:\n    binaries: [{path: /bin/x}]\n    endpoints:\n"
				 "      - {host: a.b.c, port: 1, protocol: rest, rules: [{allow: {method: GET, path: /x}}]}\n"
				 "      - {host: e.b.c, port: 1, protocol: rest, enforcement: enforce, path: \"/v1/**\", rules: [{allow: {method: GET, path: \"**\"}}]}\n");
	struct policy_request r = { .l4 = { .host = "a.b.c", .port = 1, .program = "/bin/x" }, .method = "PUT", .path = "/x" };
	struct policy_rpc bad = { .error = "broken" };
	struct policy_decision d;

	(void)state;
	policy_decide_request(p, &r, &d);
	assert_int_equal(d.verdict, POLICY_AUDIT);
	r.method = "GET";
	policy_decide_request(p, &r, &d);
	assert_int_equal(d.verdict, POLICY_ALLOW);
	r.l4.host = "e.b.c";
	policy_decide_request(p, &r, &d);
	assert_int_equal(d.verdict, POLICY_DENY);
	assert_int_equal(d.reason, POLICY_NO_ENDPOINT);
	r.path = "/v1"; /* selected by the one matcher, not matched by the other */
	policy_decide_request(p, &r, &d);
	assert_int_equal(d.verdict, POLICY_DENY);
	assert_int_equal(d.reason, POLICY_NOT_ALLOWED);
	(void)bad;
	r.l4.program = "/usr/lib/x-1.2"; /* nothing tells what a link points to */
	policy_decide_l4(p, &r.l4, &d);
	assert_int_equal(d.verdict, POLICY_DENY);
	assert_true(policy_name_allowed(p, "a.b.c"));
	assert_false(policy_name_allowed(p, "x.b.c"));
	policy_put(p);
}

static void template(void **state)
{
	struct policy_mirror m[] = { { "apt", "deb.example.org", 80 }, { "apt", "deb.example.org", 80 }, { "npm", "npm.example.org", 443 } };
	struct policy_mirror evil = { "apt", "x\n  y: z", 80 };
	struct err err;
	char *text = policy_template_fill("# ${apt.host}\na: ${apt.host}:${apt.port}\nb: ${npm.host}\nc: ${pip.host}\nd\n", m, 3, &err);

	(void)state;
	assert_string_equal(text, "# ${apt.host}\na: deb.example.org:80\nb: npm.example.org\nd\n");
	free(text);
	assert_null(policy_template_fill("a: ${apt.host}\n", &evil, 1, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses), cmocka_unit_test(destinations), cmocka_unit_test(canon),
		cmocka_unit_test(canon_kept_slash), cmocka_unit_test(selectors),
		cmocka_unit_test(rpc),	     cmocka_unit_test(graphql),	     cmocka_unit_test(websocket),
		cmocka_unit_test(enforcement), cmocka_unit_test(template),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
