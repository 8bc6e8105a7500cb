/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text.h - a policy as lines that say one thing each, so that two policies can be compared by reading. */
#ifndef HOLDFAST_POLICY_TEXT_H
#define HOLDFAST_POLICY_TEXT_H

#include <jansson.h>

#include "hostd/policy/policy.h"

struct policy_lines {
	char **v; /* sorted, each once */
	size_t n;
};

/* 0 or -1 (out of memory).  @p NULL gives none. */
int policy_lines(const struct policy *p, struct policy_lines *out);
void policy_lines_free(struct policy_lines *l);

/*
 * What @to says and @from does not ("+ ..."), and the reverse ("- ..."), sorted by what they are about.
 * Returns their number, -1 when out of memory.
 */
int policy_diff(const struct policy *from, const struct policy *to, struct policy_lines *out);

/* JSON as block-style YAML; malloc'd, NULL when out of memory or beyond 4 MiB. */
char *policy_yaml_text(const json_t *json);

/* Quoted for YAML if it has to be; into @out, cut at its size. */
void policy_yaml_scalar(const char *s, char *out, size_t size);

#endif
