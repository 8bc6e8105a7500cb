/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_policy_yaml.c - any bytes as a policy, in all modes; what is accepted must decide and compare. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hostd/policy/policy.h"
#include "hostd/policy/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int mode = POLICY_STRICT; mode <= POLICY_EVALUATE; mode++) {
		struct policy_diags d = { 0 };
		struct policy *p = policy_parse(data, size, (enum policy_mode)mode, &d);

		if (!p != (d.errors != 0))
			abort();
		if (p) {
			struct policy_l4_input in = { .host = "a.example.com", .port = 443, .program = "/usr/bin/curl" };
			struct policy_request r = { .l4 = in, .method = "GET", .path = "/a/b" };
			struct policy_decision out;
			struct policy_lines l;

			policy_decide_l4(p, &in, &out);
			policy_decide_request(p, &r, &out);
			if (policy_lines(p, &l) == 0)
				policy_lines_free(&l);
		}
		policy_put(p);
		policy_diags_free(&d);
	}
	return 0;
}
