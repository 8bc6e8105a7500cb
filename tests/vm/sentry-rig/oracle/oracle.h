/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the collector's two halves share: one record for each thing that it saw. */
#ifndef ORACLE_H
#define ORACLE_H

#define ORACLE_KINDS(X)                                                                            \
	X(EXEC, "exec")                                                                            \
	X(EXIT, "exit")                                                                            \
	X(CRED, "cred_gain")                                                                       \
	X(PTRACE, "ptrace")                                                                        \
	X(MODULE, "module_load")                                                                   \
	X(BPF, "bpf")                                                                              \
	X(MOUNT, "mount")                                                                          \
	X(UNSHARE, "unshare")                                                                      \
	X(SETNS, "setns")                                                                          \
	X(SECCOMP, "seccomp_denied")                                                               \
	X(DENIED, "sandbox_denied")                                                                \
	X(FLOW, "net_flow")                                                                        \
	X(MOVE, "cgroup_move")

enum oracle_kind {
#define ORACLE_ENUM(constant, name) ORACLE_##constant,
	ORACLE_KINDS(ORACLE_ENUM)
#undef ORACLE_ENUM
	ORACLE_COUNT
};

struct oracle_event {
	unsigned int kind, pid;
	int value;		/* exit status, flags, target pid, errno, system call, command */
	unsigned short op;	/* which of the kind: see oracle.bpf.c */
	unsigned short family;
	unsigned short protocol, sport, dport, unused;
	unsigned char dst[16];
	char name[32];
};

#endif
