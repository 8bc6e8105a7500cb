/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one table of decisions about system calls, from which every filter and --print-filter are made. */
#ifndef LIB_SANDBOX_TABLE_H
#define LIB_SANDBOX_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/sandbox/sandbox.h"

/* What the guest's filters do with a call. */
enum sandbox_decision {
	SANDBOX_ALLOW,		/* no filter names it */
	SANDBOX_MAIN,		/* main: EPERM, logged */
	SANDBOX_COMPAT,		/* compat: ENOSYS, never logged */
	SANDBOX_HARDEN,		/* hardening: EPERM, logged */
	SANDBOX_BOTH,		/* main and hardening */
	SANDBOX_ARGS,		/* decided by its arguments, see sandbox_arg_rules */
};

struct sandbox_call {
	int nr;
	const char *name;
	enum sandbox_class class;
	enum sandbox_decision decision;
};

enum sandbox_filter_id {
	SANDBOX_FILTER_HARDENING,	/* installed first */
	SANDBOX_FILTER_COMPAT,
	SANDBOX_FILTER_MAIN,		/* installed last */
	SANDBOX_FILTER_ROLE,
};

/* A value that is only known when the filter is compiled. */
enum sandbox_operand {
	SANDBOX_VALUE,		/* the value in the rule */
	SANDBOX_SUPERVISOR,	/* the supervisor's process id */
	SANDBOX_SUPERVISOR_GROUP,	/* its process group id */
	SANDBOX_SUPERVISOR_GROUP_NEG,	/* the same, negated, as kill(2) takes it */
};

/* A comparison: (argument & mask) == value. There is no comparison of all 64 bits, since the kernel reads
 * most arguments as 32-bit and the upper half is the caller's to choose. */
struct sandbox_compare {
	unsigned arg;
	uint32_t mask;
	uint32_t value;
	enum sandbox_operand operand;
};

/* Denied (EPERM) when all its comparisons hold. */
struct sandbox_arg_rule {
	enum sandbox_filter_id filter;
	int nr;
	const char *what;
	unsigned count;
	struct sandbox_compare compare[2];
};

extern const struct sandbox_call sandbox_calls[];
extern const size_t sandbox_call_count;
extern const struct sandbox_arg_rule sandbox_arg_rules[];
extern const size_t sandbox_arg_rule_count;

/* Address families that socket and socketpair may use; the others up to SANDBOX_FAMILY_MAX are refused.
 * AF_NETLINK is allowed for protocol 0 (ROUTE) only. */
#define SANDBOX_FAMILY_MAX 63
int sandbox_family_allowed(unsigned family);

/* Numbers from the table's last to this one belong to kernels that the table has not seen: ENOSYS. */
#define SANDBOX_UNDECIDED_MAX 511

const struct sandbox_call *sandbox_call_by_nr(int nr);
const char *sandbox_class_name(enum sandbox_class class);

#endif
