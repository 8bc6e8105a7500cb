/* SPDX-License-Identifier: GPL-2.0-or-later */
/* json.h - policies, decisions and vectors as JSON; new references throughout, NULL when out of memory. */
#ifndef HOLDFAST_POLICY_JSON_H
#define HOLDFAST_POLICY_JSON_H

#include <jansson.h>

#include "hostd/policy/policy.h"

/* Like policy_parse() on a document that is JSON already. */
struct policy *policy_parse_json(const json_t *json, enum policy_mode mode, struct policy_diags *diags);

json_t *policy_diags_json(const struct policy_diags *d);
json_t *policy_decision_json(const struct policy_decision *d);
json_t *policy_proof_json(const struct policy_proof *p);
/* The normalised policy: presets expanded, defaults filled in. */
json_t *policy_show_json(const struct policy *p);

/*
 * One vector.  kind: an {op: ...} line gives the function's value; a {data: ...} line brings its own
 * policy; others use @p.  NULL with the text set if the line cannot be used.
 */
json_t *policy_eval_vector(const struct policy *p, const json_t *line, struct err *err);

#endif
