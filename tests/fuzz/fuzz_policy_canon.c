/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_policy_canon.c - what is canonical stays as it is, climbs nowhere and hides nothing. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/policy/arena.h"
#include "hostd/policy/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy_canon once, twice;
	struct policy_query *q;
	const char *why;
	struct arena *a;
	size_t n;

	for (int slash = 0; slash < 2; slash++) {
		if (policy_canon((const char *)data, size, slash, &once) != POLICY_CANON_OK)
			continue;
		if (once.path[0] != '/' || strlen(once.path) != once.path_len || strstr(once.path, "//") ||
		    strstr(once.path, "/../") || strstr(once.path, "/./") || strpbrk(once.path, "?#;\\ \"<>") ||
		    (!slash && strstr(once.path, "%2F")))
			abort();
		/* a path that grew beyond the limit by escaping is refused the second time, not changed */
		if (once.path_len > POLICY_PATH_MAX)
			continue;
		if (policy_canon(once.path, once.path_len, slash, &twice) != POLICY_CANON_OK ||
		    strcmp(once.path, twice.path) || twice.rewritten)
			abort();
	}
	a = policy_arena_new(1 << 24);
	if (a)
		policy_query_parse(a, (const char *)data, size, &q, &n, &why);
	policy_arena_free(a);
	return 0;
}
