/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Sentry stream: constants, the host record, labels and limits that the kernel module and the host share.
 *
 * The text that goes with it is docs/protocol/sentry.md. All integers outside JSON are big-endian.
 * The file compiles in the kernel and in user space (C11) and defines no function.
 */
#ifndef HOLDFAST_SENTRY_H
#define HOLDFAST_SENTRY_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/build_bug.h>
#else
#include <assert.h>
#include <stddef.h>
#endif

/* Value of the member "v" of every frame and of "abi" of a hello. A change of meaning raises it. */
#define HF_SENTRY_VERSION 1

/* The module connects from the guest kernel to this CID and port. */
#define HF_SENTRY_HOST_CID 2
#define HF_SENTRY_PORT 5841

/* A frame: u32 length, then that many bytes of UTF-8 JSON. */
#define HF_SENTRY_LENGTH_BYTES 4
#define HF_SENTRY_FRAME_MAX 24576      /* the module never sends more */
#define HF_SENTRY_FRAME_HOST_MAX 65536 /* the host refuses more */

/* Bounded store of frames that the host has not acknowledged yet. */
#define HF_SENTRY_STORE_BYTES (256 * 1024)
#define HF_SENTRY_STORE_BEAT_BYTES (32 * 1024) /* of them kept for heartbeats */

/* Texts: bytes that a member holds at most, before JSON escaping and without a NUL. */
#define HF_SENTRY_COMM_MAX 16
#define HF_SENTRY_PATH_MAX 256
#define HF_SENTRY_ARG_MAX 128	/* arguments of a chain element, joined by spaces */
#define HF_SENTRY_ARGV_MAX 1024 /* all arguments of an exec with their NULs */
#define HF_SENTRY_CHAIN_MAX 8	/* ancestors, nearest first */

/* Timing. */
#define HF_SENTRY_BEAT_MS 1000
#define HF_SENTRY_IO_TIMEOUT_MS 5000
#define HF_SENTRY_RECONNECT_MIN_MS 1000
#define HF_SENTRY_RECONNECT_MAX_MS 5000
#define HF_SENTRY_ACK_MAX_MS 250 /* the host acknowledges at least so often while frames come */

/* Capture. */
#define HF_SENTRY_RING_SLOTS 256
#define HF_SENTRY_FOLD_SLOTS 64
#define HF_SENTRY_FOLD_MS 1000	     /* default of dedup_ms: denials */
#define HF_SENTRY_FLOW_FOLD_MS 10000 /* default of flow_dedup_ms: UDP and raw flows */
#define HF_SENTRY_RATE 64	     /* per second and kind, in two buckets: sandboxed tasks and all others */
#define HF_SENTRY_BURST 256
#define HF_SENTRY_TCP_RATE 1024 /* TCP connects, same two buckets */
#define HF_SENTRY_TCP_BURST 4096
#define HF_SENTRY_LOCAL_PORTS_MAX 8
#define HF_SENTRY_HASH_MAX (1ULL << 30) /* bytes of the largest program that is hashed */

/*
 * Keys. "||" is concatenation, a label has no NUL, the boot key is 32 raw bytes.
 *   K(0)   = SHA256(HF_SENTRY_LABEL_FRAME_0 || boot_key)   K(n+1) = SHA256(HF_SENTRY_LABEL_FRAME || K(n))
 *   H(0)   = SHA256(HF_SENTRY_LABEL_HELLO_0 || boot_key)   H(n+1) = SHA256(HF_SENTRY_LABEL_HELLO || H(n))
 *   K_host = SHA256(HF_SENTRY_LABEL_HOST_0  || boot_key)
 * The frame with seq s (s >= 1) has its MAC under K(s); the hello of connection c under H(c).
 */
#define HF_SENTRY_KEY_BYTES 32
#define HF_SENTRY_MAC_BYTES 32
#define HF_SENTRY_LABEL_FRAME_0 "holdfast-frame-0"
#define HF_SENTRY_LABEL_FRAME "holdfast-frame"
#define HF_SENTRY_LABEL_HELLO_0 "holdfast-hello-0"
#define HF_SENTRY_LABEL_HELLO "holdfast-hello"
#define HF_SENTRY_LABEL_HOST_0 "holdfast-host-0"

/* The last member of every frame; the MAC covers every byte of the JSON before it. */
#define HF_SENTRY_MAC_MEMBER ",\"mac\":\""
#define HF_SENTRY_MAC_TAIL_BYTES (sizeof(HF_SENTRY_MAC_MEMBER) - 1 + 2 * HF_SENTRY_MAC_BYTES + 2) /* ..."} */

/* Secret of one module load, and the proof of a later connection:
 * hex(SHA256(secret as 64 hex digits || boot_id as 36 ASCII bytes || conn in decimal)). */
#define HF_SENTRY_SECRET_BYTES 32
#define HF_SENTRY_BOOT_ID_CHARS 36

/*
 * What the host sends: records of 96 bytes, nothing else.
 * mac = HMAC-SHA256(K_host, the first 64 bytes). The module takes a record only if magic, kind and MAC fit and
 * its seq is higher than that of any record it took in this boot (gaps are allowed); all else it counts and ignores.
 */
#define HF_SENTRY_RECORD_BYTES 96
#define HF_SENTRY_RECORD_MACED_BYTES 64
#define HF_SENTRY_RECORD_MAGIC 0x48465331u /* "HFS1" */

enum hf_sentry_record_kind {
	HF_SENTRY_WELCOME = 1,	 /* value: u32 conn, u64 last durable seq, zeros */
	HF_SENTRY_CHALLENGE = 2, /* value: 32 bytes, hex in the next heartbeats' "nonce" */
	HF_SENTRY_ACK = 3,	 /* value: u64 last durable seq, zeros */
};

#define HF_SENTRY_NONCE_BYTES 32

struct hf_sentry_record {
	__be32 magic;
	__be32 kind;
	__u8 value[32];
	__be64 seq;
	__u8 reserved[16]; /* zero */
	__u8 mac[HF_SENTRY_MAC_BYTES];
} __attribute__((packed));

/* Offsets inside value[]. */
#define HF_SENTRY_WELCOME_CONN 0
#define HF_SENTRY_WELCOME_SEQ 4
#define HF_SENTRY_ACK_SEQ 0

static_assert(sizeof(struct hf_sentry_record) == HF_SENTRY_RECORD_BYTES, "host record size");
static_assert(offsetof(struct hf_sentry_record, value) == 8, "host record value");
static_assert(offsetof(struct hf_sentry_record, seq) == 40, "host record seq");
static_assert(offsetof(struct hf_sentry_record, mac) == HF_SENTRY_RECORD_MACED_BYTES, "host record mac");

/* Frame types that are no events. A hello has "conn" and no "seq"; a heartbeat and every event have "seq". */
#define HF_SENTRY_TYPE_HELLO "hello"
#define HF_SENTRY_TYPE_HEARTBEAT "heartbeat"

/* Events: X(constant, value of "type"). The order is the index of per-kind counters. */
#define HF_SENTRY_KINDS(X)                                                                         \
	X(EXEC, "exec")                                                                            \
	X(EXIT, "exit")                                                                            \
	X(CRED_GAIN, "cred_gain")                                                                  \
	X(PTRACE, "ptrace")                                                                        \
	X(MODULE_LOAD, "module_load")                                                              \
	X(MODULE_UNLOAD, "module_unload")                                                          \
	X(BPF, "bpf")                                                                              \
	X(KEXEC, "kexec")                                                                          \
	X(LOCKDOWN, "lockdown")                                                                    \
	X(MOUNT, "mount")                                                                          \
	X(UNSHARE, "unshare")                                                                      \
	X(SETNS, "setns")                                                                          \
	X(SECCOMP_DENIED, "seccomp_denied")                                                        \
	X(SECCOMP_LOG, "seccomp_log") /* kernel.seccomp.actions_logged written */                  \
	X(SANDBOX_DENIED, "sandbox_denied")                                                        \
	X(NET_FLOW, "net_flow")                                                                    \
	X(CGROUP_MOVE, "cgroup_move")                                                              \
	X(SUPERVISOR_LOST, "supervisor_lost")                                                      \
	X(TC_CHANGE, "tc_change")                                                                  \
	X(PARAM_DENIED, "param_denied") /* a write to a parameter of the module was refused */      \
	X(PROGRAM_HASH, "program_hash") /* the hash of a program that was asked for is known */     \
	X(KERNEL_ACCESS, "kernel_access") /* the kernel was asked for what lockdown can refuse */

enum hf_sentry_kind {
#define HF_SENTRY_KIND_ENUM(constant, name) HF_SENTRY_KIND_##constant,
	HF_SENTRY_KINDS(HF_SENTRY_KIND_ENUM)
#undef HF_SENTRY_KIND_ENUM
	HF_SENTRY_KIND_COUNT
};

/* Parameters of the module, as named to insmod and below /sys/module/sentry/parameters/. */
#define HF_SENTRY_PARAM_DIR "/sys/module/sentry/parameters"
#define HF_SENTRY_PARAM_CID "cid"			  /* load only, default 2 */
#define HF_SENTRY_PARAM_PORT "port"			  /* load only, default 5841 */
#define HF_SENTRY_PARAM_BOOT_KEY "boot_key"		  /* load only, 64 hex digits, never readable */
#define HF_SENTRY_PARAM_LANDLOCK_ABI "landlock_abi"	  /* load only, reported in the hello */
#define HF_SENTRY_PARAM_LOCAL_PORTS "flow_local_ports"	  /* load only, up to 8 ports, comma separated */
#define HF_SENTRY_PARAM_DEDUP_MS "dedup_ms"		  /* load only */
#define HF_SENTRY_PARAM_FLOW_DEDUP_MS "flow_dedup_ms"	  /* load only */
#define HF_SENTRY_PARAM_SECRET_DIGEST "secret_digest"	  /* read only (0400): hex SHA256 of the 64 hex digits */
#define HF_SENTRY_PARAM_BOOT_ID "boot_id"		  /* read only (0444) */
#define HF_SENTRY_PARAM_PHASE "phase"			  /* 0, 1, 2; only forward */
#define HF_SENTRY_PARAM_SANDBOX_CGROUP "sandbox_cgroup"	  /* cgroup id in decimal (inode of its directory), once */
#define HF_SENTRY_PARAM_SUPERVISOR_PID "supervisor_pid"	  /* once */
#define HF_SENTRY_PARAM_LEVEL "level"			  /* observe, files or strict, once */
/* Programs to hash: paths, one a line, or their beginnings with "*"; at most 4095 bytes. Once a supervisor is set, only
 * it may write. */
#define HF_SENTRY_PARAM_HASH_PROGRAMS "hash_programs"

enum hf_sentry_phase {
	HF_SENTRY_PHASE_BOOT = 0,
	HF_SENTRY_PHASE_SESSION = 1,
	HF_SENTRY_PHASE_SHUTDOWN = 2,
};

#endif /* HOLDFAST_SENTRY_H */
