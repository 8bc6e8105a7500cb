/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove.h - the parts of the prover: files and process here, connections and requests by automata and Z3. */
#ifndef HOLDFAST_POLICY_PROVE_H
#define HOLDFAST_POLICY_PROVE_H

#include "hostd/policy/model.h"

/* prove_static.c: 0 within, 1 exceeds with *out filled */
int policy_prove_static(const struct policy *boundary, const struct policy *candidate,
			struct policy_proof *out);
/* prove_network.c: a policy_containment */
enum policy_containment policy_prove_network(const struct policy *boundary, const struct policy *candidate,
					     struct policy_proof *out);

/* What the guest adds to a policy with network rules, as the format does (see policy_baseline()). */
bool policy_file_allowed(const struct policy *p, const char *path, bool write);

/* What a policy makes of bytes on the wire: how they are parsed depends on the endpoint they select. */
struct wire {
	const struct policy_gql *gql; /* how the body reads as GraphQL; NULL = it does not */
	const struct policy_rpc *rpc; /* how it reads as JSON-RPC; NULL = it does not */
	bool encoded_slash;
};
/* Is this request forwarded? @in without gql and rpc. */
bool policy_forwards(const struct policy *p, const struct policy_request *in, const struct wire *w,
		     struct policy_decision *d);

#endif
