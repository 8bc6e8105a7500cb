/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of probes: each is optional by symbol and known by name. */
#ifndef SENTRY_PROBE_H
#define SENTRY_PROBE_H

#include <linux/kprobes.h>
#include <linux/tracepoint.h>

enum sentry_probe_kind {
	SENTRY_PROBE_ENTRY,	 /* kprobe at the start of a function */
	SENTRY_PROBE_RETURN,	 /* kretprobe */
	SENTRY_PROBE_TRACEPOINT,
};

enum sentry_probe_state { SENTRY_PROBE_IDLE, SENTRY_PROBE_ABSENT, SENTRY_PROBE_ARMED };

struct sentry_probe {
	const char *symbol;
	enum sentry_probe_kind kind;
	bool denial; /* armed only once a sandbox is set and the level asks for it */
	enum sentry_probe_state state;
	union {
		struct kprobe entry;
		struct kretprobe ret;
		struct {
			struct tracepoint *tracepoint;
			void *function;
		};
	};
};

/* Entries of the tables. A return probe names its instances, since a user can use them up on purpose. */
#define SENTRY_ENTRY(sym, function)                                                                \
	{ .symbol = (sym), .kind = SENTRY_PROBE_ENTRY, .entry = { .symbol_name = (sym), .pre_handler = (function) } }
#define SENTRY_RETURN(sym, on_entry, on_return, data, instances)                                   \
	{ .symbol = (sym), .kind = SENTRY_PROBE_RETURN,                                            \
	  .ret = { .kp.symbol_name = (sym), .entry_handler = (on_entry), .handler = (on_return),   \
		   .data_size = (data), .maxactive = (instances) } }
#define SENTRY_DENIAL(sym, on_entry, on_return, data, instances)                                   \
	{ .symbol = (sym), .kind = SENTRY_PROBE_RETURN, .denial = true,                            \
	  .ret = { .kp.symbol_name = (sym), .entry_handler = (on_entry), .handler = (on_return),   \
		   .data_size = (data), .maxactive = (instances) } }
#define SENTRY_TRACEPOINT(sym, probe_function)                                                     \
	{ .symbol = (sym), .kind = SENTRY_PROBE_TRACEPOINT, .function = (probe_function) }

struct sentry_probe_table {
	struct sentry_probe *probes;
	unsigned int count;
};

/* One table per hook_*.c. */
extern const struct sentry_probe_table sentry_hook_exec, sentry_hook_cred, sentry_hook_kernel, sentry_hook_ns,
	sentry_hook_denied, sentry_hook_flow, sentry_hook_supervisor;

/* Arm all that can be armed; fails only if none could. May sleep. */
int sentry_probe_arm(void);
/* Arm the denial probes; the first call that finds a reason does it. May sleep. */
void sentry_probe_arm_denials(void);
bool sentry_probe_denials_armed(void);

struct sentry_probe_totals {
	unsigned int total, armed, missed, ftrace;
};
void sentry_probe_count(struct sentry_probe_totals *totals);

void sentry_probe_each(void (*visit)(const struct sentry_probe *probe, void *data), void *data);

/* n-th argument of the probed function, and of the system call behind a wrapper that takes pt_regs. */
static inline unsigned long sentry_arg(struct pt_regs *regs, unsigned int n)
{
	return regs_get_kernel_argument(regs, n);
}

#define SENTRY_DATA(instance, type) ((type *)(instance)->data)

#endif
