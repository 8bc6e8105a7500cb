/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The prover against brute force; the long ring and the bench run the same with many more pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/policy_oracle.h"
#include "tests/unit/policy_text.h"

static void prover_agrees_with_brute_force(void **state)
{
	const char *wanted = getenv("HOLDFAST_PROVE_PAIRS");
	uint64_t pairs = wanted ? strtoull(wanted, NULL, 10) : 150;
	static struct tally t;

	(void)state;
	oracle_seed = 88172645463325252ull;
	while (t.pairs < pairs && !t.disagreed)
		oracle_pair(&t);
	tally_print(&t, stderr);
	assert_int_equal(t.disagreed, 0);
	assert_true(t.within > pairs / 5 && t.exceeds > pairs / 5);
}

static enum policy_reason at_private(const struct policy *p, uint16_t port)
{
	const struct policy_l4_input in = { .host = "a.x.test", .port = port, .program = "/u/a" };
	struct policy_addr private;
	struct policy_decision d;

	assert_int_equal(policy_addr_parse("10.0.0.5", &private), 0);
	policy_decide_dest(p, &in, &private, 1, NULL, &d);
	return d.reason;
}

/* A boundary that declares a host exactly on one port gives its private addresses on that port alone. */
static void a_host_is_declared_port_by_port(void **state)
{
	static const char candidate_text[] = "version: 1\nnetwork_policies:\n  r:\n    binaries: [{path: /u/a}]\n    endpoints:\n"
					     "      - {host: a.x.test, ports: [443, 8443]}\n";
	static const char own[] = "version: 1\nnetwork_policies:\n  r:\n    binaries: [{path: '/u/*'}]\n    endpoints:\n"
				  "      - {host: a.x.test, port: 443}\n      - {host: '*.x.test', port: 8443}\n";
	static const char others[] = "version: 1\nnetwork_policies:\n  r:\n    binaries: [{path: '/u/*'}]\n    endpoints:\n"
				     "      - {host: '*.x.test', ports: [443, 8443]}\n"
				     "  other:\n    binaries: [{path: /o/x}]\n    endpoints:\n"
				     "      - {host: a.x.test, port: 443}\n";
	struct policy *candidate = parse(candidate_text), *boundary = parse(own), *bound = policy_bind(candidate, boundary);
	struct policy_proof proof;

	(void)state;
	assert_int_equal(at_private(candidate, 8443), POLICY_OK);
	assert_int_equal(at_private(bound, 443), POLICY_OK);
	assert_int_equal(at_private(bound, 8443), POLICY_DEST_INTERNAL);
	assert_int_equal(policy_contains(boundary, bound, &proof), POLICY_WITHIN);
	policy_proof_free(&proof);
	policy_put(bound);
	policy_put(boundary);

	boundary = parse(others);
	bound = policy_bind(candidate, boundary);
	assert_int_equal(policy_contains(boundary, bound, &proof), POLICY_EXCEEDS);
	assert_int_equal(proof.port, 443);
	policy_proof_free(&proof);
	policy_put(bound);
	policy_put(boundary);
	policy_put(candidate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prover_agrees_with_brute_force),
		cmocka_unit_test(a_host_is_declared_port_by_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
