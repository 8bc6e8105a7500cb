/* SPDX-License-Identifier: GPL-2.0-or-later */
/* explain.h - the one line that says why, and what came nearest. */
#ifndef HOLDFAST_POLICY_EXPLAIN_H
#define HOLDFAST_POLICY_EXPLAIN_H

#include "hostd/policy/model.h"

/* Fills d->text (and d->nearest).  @near: an endpoint whose rule lacks only the program, or NULL. */
void policy_explain_l4(const struct policy *p, const struct policy_l4_input *in,
		       const struct endpoint *near, struct policy_decision *d);
void policy_explain_request(const struct policy *p, const struct policy_request *in,
			    const struct endpoint *selected, struct policy_decision *d);

#endif
