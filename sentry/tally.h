/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of things that are no events, as they stand in the heartbeat's "tallies". */
#ifndef SENTRY_TALLY_H
#define SENTRY_TALLY_H

#include <linux/atomic.h>

#define SENTRY_TALLIES(X)                                                                          \
	X(EXEC_KPROBE, "exec_kprobe") /* execs seen by the kprobe */                               \
	X(EXEC_TRACEPOINT, "exec_tracepoint") /* execs seen by the tracepoint */                   \
	X(CRED_NO_GAIN, "cred_no_gain") /* credential changes that gained nothing */               \
	X(CRED_USERNS, "cred_userns") /* capabilities gained in another user namespace */          \
	X(PTRACE_READ, "ptrace_read") /* access checks for reading, as ps makes them */            \
	X(MODULE_NOT_NEW, "module_not_new") /* loads refused because the module is there */        \
	X(BPF_OTHER, "bpf_other") /* bpf commands that load or attach nothing */                   \
	X(HOST_IGNORED, "host_ignored") /* bytes from the host that were no valid record */        \
	X(ACK_AHEAD, "ack_ahead") /* acknowledgements of frames that were never made */            \
	X(BEAT_SKIPPED, "beat_skipped") /* heartbeats not made because the store was full */       \
	X(CONNECT_FAILED, "connect_failed")                                                        \
	X(CONNECTION_LOST, "connection_lost")

enum sentry_tally {
#define SENTRY_TALLY_ENUM(constant, name) SENTRY_TALLY_##constant,
	SENTRY_TALLIES(SENTRY_TALLY_ENUM)
#undef SENTRY_TALLY_ENUM
	SENTRY_TALLY_COUNT
};

/* The rest have members of their own in the heartbeat. */
struct sentry_sums {
	atomic64_t tally[SENTRY_TALLY_COUNT];
	atomic64_t allowed_file_ops, denied_file_ops, denied_syscalls, local_flows;
};
extern struct sentry_sums sentry_sums;

static inline void sentry_tally_add(enum sentry_tally which, long n)
{
	atomic64_add(n, &sentry_sums.tally[which]);
}

#endif
