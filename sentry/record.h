/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The binary record that a probe handler fills and the thread turns into a frame. */
#ifndef SENTRY_RECORD_H
#define SENTRY_RECORD_H

#include <holdfast/sentry.h>

/* A process: the pid alone can be used again, the pair with its start cannot. */
struct sentry_process {
	__u64 start_ns; /* CLOCK_BOOTTIME at which the thread group started */
	__u32 pid;	/* thread group, initial pid namespace */
	__u32 exec_id;	/* changes with each exec, so that a remembered program is not taken for a later one */
	char comm[HF_SENTRY_COMM_MAX];
};

/* One state of one file: if the file changes, so does this. */
struct sentry_file_id {
	__u64 device, inode, size, change;
};

enum sentry_text {
	SENTRY_TEXT_EXE,    /* executable of the subject */
	SENTRY_TEXT_PATH,   /* what the event is about: a path, a name, a type */
	SENTRY_TEXT_SECOND, /* a second such text */
	SENTRY_TEXT_ARGV,   /* arguments, NUL separated */
	SENTRY_TEXT_COUNT,
};

#define SENTRY_TEXT_BYTES (3 * HF_SENTRY_PATH_MAX + HF_SENTRY_ARGV_MAX)

/* Bits of flags. */
#define SENTRY_SANDBOXED 0x0001	       /* the subject is in the sandbox cgroup or below it */
#define SENTRY_KERNEL 0x0002	       /* the subject is a kernel thread */
#define SENTRY_FOREIGN_ROOT 0x0004     /* paths were seen from another root or mount namespace */
#define SENTRY_EXE_DELETED 0x0008      /* the executable has no name any more */
#define SENTRY_EXE_UNKNOWN 0x0010      /* the executable's path could not be rendered */
#define SENTRY_PATH_UNKNOWN 0x0020     /* the path could not be rendered */
#define SENTRY_ARGV_TRUNCATED 0x0040
#define SENTRY_ARGV_UNAVAILABLE 0x0080 /* the arguments could not be read without a fault */
#define SENTRY_COMPAT 0x0100	       /* the system call came through the 32-bit entry */
#define SENTRY_NAME_TRUNCATED 0x0200
#define SENTRY_FALLBACK 0x0400	       /* seen by the second source only */

struct sentry_exec {
	__u32 argc;
};
struct sentry_exit {
	__s32 status; /* as wait(2) */
};
struct sentry_ids {
	__u32 uid, euid, suid, fsuid;
	__u64 caps; /* permitted */
};
struct sentry_cred {
	struct sentry_ids old, new;
	__s32 syscall;
	__u32 via;
};
struct sentry_target {
	struct sentry_process process;
};
struct sentry_module_event {
	__s32 result;
	__u32 flags;
	__u64 taints;
	__u8 is_signed;
};
struct sentry_bpf {
	__u32 cmd, prog_type, attach_type;
};
struct sentry_result {
	__s64 result;
	__u64 flags;
};
struct sentry_seccomp {
	__u64 syscall;
	__u32 action, arch;
	__s32 signal;
};
struct sentry_denied {
	__s32 error;
	__u32 access;
	__u16 port; /* host order, for sockets */
	__u8 address_family;
};
struct sentry_flow {
	__u8 dst[16]; /* network order; IPv4 in the first four */
	__u16 sport, dport;
	__u8 protocol; /* IPPROTO_*, or the low byte for packet sockets */
	__u8 family;   /* 4, 6, or 0 for packet sockets */
	__u8 icmp_type, has_icmp_type;
	__u32 ifindex;
};
struct sentry_cgroup_move {
	__u64 from, to;
	struct sentry_process process;
};
struct sentry_lost {
	__s32 signal, status;
};
struct sentry_hash_result {
	__u8 digest[32];
	__u64 size;
	__u32 state; /* enum sentry_hash_state */
};
struct sentry_tc {
	__s32 ifindex;
	__u32 message;
};

/*
 * One event. The text comes last and only the used part is copied, so the order of members matters.
 * "subject" did it; "detail" is zeroed first, since folding compares it as bytes.
 */
struct sentry_record {
	__u64 t; /* CLOCK_BOOTTIME, ns */
	struct sentry_process subject;
	__u32 ppid, uid, gid;
	__u32 count;
	__u8 kind, op;
	__u16 flags;
	__u16 text_len[SENTRY_TEXT_COUNT];
	__u16 text_used;
	__u8 chain_len;
	__u64 cookie; /* socket cookie of a TCP flow */
	struct sentry_file_id exe_id;
	union {
		struct sentry_exec exec;
		struct sentry_exit exit;
		struct sentry_cred cred;
		struct sentry_target target;
		struct sentry_module_event module;
		struct sentry_bpf bpf;
		struct sentry_result result;
		struct sentry_seccomp seccomp;
		struct sentry_denied denied;
		struct sentry_flow flow;
		struct sentry_cgroup_move move;
		struct sentry_lost lost;
		struct sentry_tc tc;
		struct sentry_hash_result hash;
	} detail;
	struct sentry_process chain[HF_SENTRY_CHAIN_MAX];
	__u8 text[SENTRY_TEXT_BYTES];
};

#define SENTRY_RECORD_HEAD offsetof(struct sentry_record, text)

static inline size_t sentry_record_size(const struct sentry_record *r)
{
	return SENTRY_RECORD_HEAD + r->text_used;
}

/* Text of a record and its length; an absent one has length 0. */
static inline const __u8 *sentry_record_text(const struct sentry_record *r, enum sentry_text which)
{
	size_t at = 0;
	unsigned int i;

	for (i = 0; i < which; i++)
		at += r->text_len[i];
	return r->text + at;
}

#endif
