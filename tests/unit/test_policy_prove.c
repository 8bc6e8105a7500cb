/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The prover against brute force; the long ring and the bench run the same with many more pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/policy_oracle.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(prover_agrees_with_brute_force) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
