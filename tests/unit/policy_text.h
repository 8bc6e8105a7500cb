/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A policy written in a test, which has to be one. Include after cmocka.h. */
#ifndef HOLDFAST_TESTS_POLICY_TEXT_H
#define HOLDFAST_TESTS_POLICY_TEXT_H

#include <string.h>

#include "hostd/policy/policy.h"

/* Parses it strictly; the test fails, with every error printed, when it is refused. The caller owns the result. */
static inline struct policy *parse(const char *text)
{
	struct policy_diags d = { 0 };
	struct policy *p = policy_parse(text, strlen(text), POLICY_STRICT, &d);

	for (size_t i = 0; !p && i < d.n; i++)
		print_message("# %u: %s: %s\n", d.v[i].line, d.v[i].path, d.v[i].text);
	policy_diags_free(&d);
	assert_non_null(p);
	return p;
}

#endif
