/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bench_policy_prove.c - the prover against brute force: bench_policy_prove [PAIRS [SEED]]. */
#include <stdarg.h>

#include "tests/unit/policy_oracle.h"

int main(int argc, char **argv)
{
	uint64_t pairs = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
	static struct tally t;

	oracle_seed = argc > 2 ? strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull : 88172645463325252ull;
	while (t.pairs < pairs && t.disagreed < 5) {
		oracle_pair(&t);
		if (t.pairs % 5000 == 0 && t.pairs) {
			tally_print(&t, stdout);
			fflush(stdout);
		}
	}
	tally_print(&t, stdout);
	return t.disagreed != 0;
}
