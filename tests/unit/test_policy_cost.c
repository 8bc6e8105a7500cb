/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a decision costs: no memory, and time that grows as its input does, whatever the pattern. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "hostd/policy/glob.h"
#include "hostd/policy/policy.h"
#include "hostd/policy/request.h"
#include "tests/unit/policy_text.h"

/* ---- memory ---- */

/* Of the sanitizer's runtime (sanitizer/allocator_interface.h, which gcc's package does not bring). */
int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void *, size_t),
					      void (*freed)(const volatile void *));

static size_t allocations;

static void allocated(const volatile void *p, size_t n)
{
	(void)p;
	(void)n;
	allocations++;
}

static void freed(const volatile void *p)
{
	(void)p;
}

/* The compiler drops an allocation whose memory nobody sees. */
static void allocate_once(void)
{
	void *p = malloc(1);

	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

/* Connections, destinations and requests of each kind, allowed and denied, with their texts. */
static void decides_without_memory(void **state)
{
	static const char text[] =
		"version: 1\nnetwork_policies:\n  a:\n    binaries: [{path: '/usr/bin/*'}]\n    endpoints:\n"
		"      - {host: '*.x.test', port: 443, protocol: rest, enforcement: enforce, rules: [{allow: {method: "
		"GET, path: '/a/**', query: {k: 'v*'}}}], deny_rules: [{method: GET, path: '/a/{b,c}/**'}]}\n"
		"      - {host: g.test, port: 443, protocol: graphql, enforcement: enforce, rules: [{allow: "
		"{operation_type: query, fields: ['v*']}}]}\n"
		"      - {host: m.test, port: 443, protocol: mcp, enforcement: enforce, rules: [{allow: {method: "
		"tools/call, tool: 'read_*'}}]}\n";
	static const char *const hosts[] = { "a.x.test", "g.test", "m.test", "other.test" };
	static const char *const programs[] = { "/usr/bin/curl", "/bin/sh" };
	static const char *const ancestors[] = { "/bin/login", "/usr/lib/systemd/systemd" };
	static const char *const fields[] = { "viewer" };
	const struct policy_gql_op op = { .type = "query", .fields = fields, .n_fields = 1 };
	const struct policy_gql gql = { .ops = &op, .n = 1 };
	const struct policy_param name = { "name", "read_x" };
	const struct policy_rpc rpc = { .method = "tools/call", .has_method = true, .params = &name, .n = 1 };
	const struct policy_query query = { "k", "v1" };
	const struct policy_addr addr = { .family = 4, .b = { 93, 184, 216, 34 } };
	size_t before, allowed[4] = { 0 }, denied[4] = { 0 };
	struct policy *p = parse(text);
	struct policy_decision d;

	(void)state;
	assert_true(__sanitizer_install_malloc_and_free_hooks(allocated, freed) > 0);
	before = allocations;
	allocate_once();
	assert_int_equal(allocations, before + 1); /* the hook sees what there is to see */
	before = allocations;
	for (size_t i = 0; i < 4 * 2 * 3; i++) {
		struct policy_request r = { .l4 = { .host = hosts[i % 4], .port = 443, .program = programs[i / 4 % 2],
						    .ancestors = ancestors, .n = 2 },
					    .method = i / 8 == 1 ? "POST" : "GET", .path = i / 8 == 2 ? "/a/b/c" : "/a/x",
					    .query = &query, .n_query = 1 };

		r.gql = i % 4 == 1 ? &gql : NULL;
		r.rpc = i % 4 == 2 ? &rpc : NULL;
		policy_decide_l4(p, &r.l4, &d);
		policy_decide_dest(p, &r.l4, &addr, 1, NULL, &d);
		policy_decide_request(p, &r, &d);
		*(d.verdict == POLICY_ALLOW ? &allowed[i % 4] : &denied[i % 4]) += 1;
	}
	assert_int_equal(allocations, before);
	for (size_t i = 0; i < 4; i++)
		if (!denied[i] || (i < 3 && !allowed[i]))
			fail_msg("%s: %zu allowed, %zu denied", hosts[i], allowed[i], denied[i]);
	policy_put(p);
}

/* ---- time ---- */

/* A pattern of more than 12 400 bytes is refused unread. */
enum { SUBJECT_BYTES = 4096, PATTERN_BYTES = 1024, DOUBLINGS = 3, ROUNDS = 7 };

/* Twice the input may take 3 times as long, 8 times 27: linear is 8, a quadratic algorithm takes 64 times. */
#define GROWTH_MAX 27.0
#define READ_ON_MIN 4.0 /* less, and the input was not read to its end */

struct work {
	void (*run)(const struct work *w, const char *input, size_t len);
	const char *pattern;
	struct path_glob path;
	struct value_glob value;
	struct host_glob host;
	struct program_glob program;
	struct selector_glob selector;
};

static volatile int sink;

static void match_path(const struct work *w, const char *s, size_t len)
{
	sink = policy_path_matches(&w->path, s, len);
}

static void match_value(const struct work *w, const char *s, size_t len)
{
	(void)len;
	sink = policy_value_matches(&w->value, s);
}

static void match_host(const struct work *w, const char *s, size_t len)
{
	sink = policy_host_matches(&w->host, s, len);
}

static void match_program(const struct work *w, const char *s, size_t len)
{
	(void)len;
	sink = policy_program_matches(&w->program, s);
}

static void match_selector(const struct work *w, const char *s, size_t len)
{
	(void)len;
	sink = policy_selector_matches(&w->selector, s);
}

static void match_host_selector(const struct work *w, const char *s, size_t len)
{
	(void)len;
	sink = policy_host_selector_matches(w->pattern, s);
}

/* The input is the pattern. */
static void compile(const struct work *w, const char *s, size_t len)
{
	struct arena *a = policy_arena_new(64u << 20);
	struct value_glob value;
	struct selector_glob selector;
	struct path_glob path;

	(void)w;
	(void)len;
	sink = policy_path_glob(a, s, &path) + policy_value_glob(a, s, &value) + policy_selector_glob(a, s, &selector);
	policy_arena_free(a);
}

static void check_host_selector(const struct work *w, const char *s, size_t len)
{
	(void)w;
	(void)len;
	sink = (int)policy_host_selector_check(s);
}

/* The control: from each place on to the end. */
static void quadratic(const struct work *w, const char *s, size_t len)
{
	(void)w;
	for (size_t i = 0; i < len; i++)
		for (size_t k = i; k < len; k++)
			sink = s[k];
}

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double timed(const struct work *w, const char *input, size_t len, size_t times)
{
	double start = cpu_now();

	for (size_t i = 0; i < times; i++)
		w->run(w, input, len);
	return cpu_now() - start;
}

/* @unit over and over, then @tail, @len bytes in all. */
static char *repeat(const char *unit, const char *tail, size_t len)
{
	size_t n = strlen(unit), t = strlen(tail);
	char *s = test_malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		s[i] = i + t >= len ? tail[i + t - len] : unit[i % n];
	s[len] = '\0';
	return s;
}

/* How many times as long the input takes when it is doubled DOUBLINGS times from @bytes: the best of ROUNDS each. */
static double growth(const struct work *w, const char *unit, const char *tail, size_t bytes)
{
	const size_t len[2] = { bytes, bytes << DOUBLINGS };
	char *input[2] = { repeat(unit, tail, len[0]), repeat(unit, tail, len[1]) };
	double best[2] = { 0 };
	size_t times = 1;

	while (timed(w, input[0], len[0], times) < 200e3)
		times *= 2;
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < 2; i++) {
			double t = timed(w, input[i], len[i], times);

			if (!round || t < best[i])
				best[i] = t;
		}
	test_free(input[0]);
	test_free(input[1]);
	return best[1] / best[0];
}

#define STARS_8(x) "*" x "*" x "*" x "*" x "*" x "*" x "*" x "*" x
#define STARS_32(x) STARS_8(x) STARS_8(x) STARS_8(x) STARS_8(x)
#define ANY_8 "**/" "**/" "**/" "**/" "**/" "**/" "**/" "**/"

static void matching_is_linear(void **state)
{
	static const struct {
		const char *what;
		void (*run)(const struct work *, const char *, size_t);
		const char *pattern, *unit, *tail;
	} cases[] = {
		{ "path, many stars", match_path, STARS_32("a") "b", "a", "c" },
		{ "path, many stars in components", match_path, "/**/" STARS_32("a") "b", "/aaaaaaaaaaaaaaa", "c" },
		{ "path, ** over and over", match_path, "/" ANY_8 ANY_8 "b", "/a", "c" },
		{ "path, ** and stars", match_path, "/**/*a*/**/*a*/**/*a*/**/b", "/aa", "c" },
		{ "path, alternatives", match_path, "/**/*{a,aa,aaa}*{a,aa,aaa}*{a,aa,aaa}*{a,aa,aaa}*b", "/aaaaaaaa", "c" },
		{ "path, classes", match_path, "/**/" STARS_8("[a-z]") STARS_8("[!b]") "b", "/aaaaaaaa", "c" },
		{ "value, many stars", match_value, STARS_32("a") "b", "a", "c" },
		{ "value, components", match_value, "**.*a*.**.*a*.**.b", "aa.", "c" },
		{ "program", match_program, "/**/" STARS_8("a") "/**/" STARS_8("a") "b", "/aaaa", "c" },
		{ "host", match_host, "**.*a*a*a*.**.*a*a*a*.b", "aaaa.", "c" },
		{ "selector, stars cross slashes", match_selector, STARS_32("a") "b", "a/", "c" },
		{ "host of a middleware", match_host_selector, STARS_32("a") "b", "a", "c" },
		{ "host of a middleware, classes", match_host_selector, STARS_32("[a-c]") "b", "a", "d" },
	};
	struct arena *a = policy_arena_new(64u << 20);
	struct work control = { .run = quadratic };
	double g = growth(&control, "a", "a", SUBJECT_BYTES);

	(void)state;
	print_message("# the control, quadratic: x%.1f for %d times the input\n", g, 1 << DOUBLINGS);
	assert_true(g > GROWTH_MAX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct work w = { .run = cases[i].run, .pattern = cases[i].pattern };

		assert_int_equal(policy_path_glob(a, w.pattern, &w.path) | policy_value_glob(a, w.pattern, &w.value) |
				 policy_host_glob(a, w.pattern, &w.host) | policy_program_glob(a, w.pattern, &w.program) |
				 policy_selector_glob(a, w.pattern, &w.selector), 0);
		g = growth(&w, cases[i].unit, cases[i].tail, SUBJECT_BYTES);
		print_message("# %s: x%.1f\n", cases[i].what, g);
		if (g > GROWTH_MAX || g < READ_ON_MIN || sink)
			fail_msg("%s: x%.1f, match %d", cases[i].what, g, sink);
	}
	policy_arena_free(a);
}

/* Patterns come from whoever writes a policy: to read one costs no more than its length either. */
static void patterns_are_read_in_linear_time(void **state)
{
	static const struct {
		const char *what, *unit, *tail;
	} cases[] = {
		{ "stars", "*a", "b" },		 { "** over and over", "**/", "b" }, { "stars in a row", "*", "" },
		{ "open classes", "[", "" },	 { "classes", "[a-z]", "" },	     { "open alternatives", "{", "" },
		{ "nested alternatives", "{a,", "}" }, { "alternatives", "{a,b}", "" }, { "escapes", "\\*", "" },
		{ "one class", "-", "]" },	 { "literal", "a", "" },	     { "dots", "a.", "" },
	};
	struct work readers[] = { { .run = compile }, { .run = check_host_selector } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t r = 0; r < 2; r++) {
			double g = growth(&readers[r], cases[i].unit, cases[i].tail, PATTERN_BYTES);

			print_message("# %s, reader %zu: x%.1f\n", cases[i].what, r, g);
			if (g > GROWTH_MAX)
				fail_msg("%s: x%.1f", cases[i].what, g);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decides_without_memory),
		cmocka_unit_test(matching_is_linear),
		cmocka_unit_test(patterns_are_read_in_linear_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
