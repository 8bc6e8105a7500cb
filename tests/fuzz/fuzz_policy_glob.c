/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_policy_glob.c - a pattern and a subject, in every flavour; a pattern must match what it literally is. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = policy_arena_new(1 << 24);
	const uint8_t *cut = memchr(data, '\n', size);
	size_t n = cut ? (size_t)(cut - data) : size;
	char *pattern = policy_arena_strndup(a, (const char *)data, n);
	char *subject = policy_arena_strndup(a, cut ? (const char *)cut + 1 : "", cut ? size - n - 1 : 0);
	struct host_glob h;
	struct program_glob p;
	struct path_glob q;
	struct value_glob v;
	struct selector_glob s;
	size_t len;

	if (!pattern || !subject) {
		policy_arena_free(a);
		return 0;
	}
	pattern[strlen(pattern)] = '\0';
	len = strlen(subject);
	policy_host_glob(a, pattern, &h);
	policy_program_glob(a, pattern, &p);
	policy_path_glob(a, pattern, &q);
	policy_value_glob(a, pattern, &v);
	policy_selector_glob(a, pattern, &s);
	policy_host_matches(&h, subject, len);
	policy_program_matches(&p, subject);
	policy_path_matches(&q, subject, len);
	policy_value_matches(&v, subject);
	policy_selector_matches(&s, subject);
	policy_hosts_overlap(pattern, subject);
	if (q.g.a.literal && policy_path_matches(&q, pattern, strlen(pattern)) != 1)
		abort();
	if (policy_selector_matches(&s, pattern) != 1) /* equality always selects */
		abort();
	if (policy_host_selector_check(pattern) == HOST_SELECTOR_OK &&
	    policy_host_selector_check(subject) == HOST_SELECTOR_OK) {
		policy_host_selector_matches(pattern, subject);
		if (policy_host_selectors_overlap(pattern, subject) != policy_host_selectors_overlap(subject, pattern))
			abort();
	}
	policy_arena_free(a);
	return 0;
}
