// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An independent view of what happens in the guest: tracepoints and fentry/fexit programs, none of the Sentry's code.
 *
 * Kernel threads are left out, since the Sentry's own exercises its hooks every second.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "oracle.h"

#define PF_KTHREAD 0x00200000
#define SIGNAL_GROUP_EXIT 0x00000004
#define EACCES 13
#define EPERM 1
#define AF_INET 2
#define AF_INET6 10
#define PROXY_PORT 8080
#define SANDBOX_LEVEL 2

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} events SEC(".maps");

unsigned long long lost;
unsigned long long sandbox_id;

static bool is_kernel(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, flags) & PF_KTHREAD;
}

static bool in_sandbox(void)
{
	return bpf_get_current_ancestor_cgroup_id(SANDBOX_LEVEL) == sandbox_id;
}

static struct oracle_event *begin(enum oracle_kind kind)
{
	struct oracle_event *e;

	if (is_kernel())
		return NULL;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->pid = bpf_get_current_pid_tgid() >> 32;
	return e;
}

static int simple(enum oracle_kind kind, int op, int value)
{
	struct oracle_event *e = begin(kind);

	if (!e)
		return 0;
	e->op = op;
	e->value = value;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, pid_t old, struct linux_binprm *bprm)
{
	struct oracle_event *e = begin(ORACLE_EXEC);

	if (!e)
		return 0;
	bpf_probe_read_kernel_str(e->name, sizeof(e->name), BPF_CORE_READ(bprm, filename));
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct signal_struct *signal = BPF_CORE_READ(task, signal);

	if (BPF_CORE_READ(signal, live.counter))
		return 0;
	return simple(ORACLE_EXIT, 0,
		      BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT ? BPF_CORE_READ(signal, group_exit_code) :
									 BPF_CORE_READ(task, exit_code));
}

static unsigned long long caps(const struct cred *cred)
{
	unsigned long long value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), &cred->cap_permitted);
	return value;
}

/* Root's id from none, or more capabilities in the first user namespace (level 0). */
SEC("fentry/commit_creds")
int BPF_PROG(on_creds, struct cred *new)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	const struct cred *old = BPF_CORE_READ(task, real_cred);
	bool none = BPF_CORE_READ(old, uid.val) && BPF_CORE_READ(old, euid.val) && BPF_CORE_READ(old, suid.val);
	bool root = !BPF_CORE_READ(new, euid.val) || !BPF_CORE_READ(new, fsuid.val);
	unsigned long long had = BPF_CORE_READ(old, user_ns, level) ? 0 : caps(old);
	unsigned long long has = BPF_CORE_READ(new, user_ns, level) ? 0 : caps(new);

	return (none && root) || has & ~had ? simple(ORACLE_CRED, 0, 0) : 0;
}

SEC("fentry/security_ptrace_access_check")
int BPF_PROG(on_attach, struct task_struct *child, unsigned int mode)
{
	return mode & 2 ? simple(ORACLE_PTRACE, 0, BPF_CORE_READ(child, tgid)) : 0;
}

SEC("fentry/security_ptrace_traceme")
int BPF_PROG(on_traceme, struct task_struct *parent)
{
	return simple(ORACLE_PTRACE, 1, BPF_CORE_READ(parent, tgid));
}

SEC("tp_btf/module_load")
int BPF_PROG(on_module, struct module *mod)
{
	struct oracle_event *e = begin(ORACLE_MODULE);

	if (!e)
		return 0;
	bpf_probe_read_kernel_str(e->name, sizeof(e->name), mod->name);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* bpf() at the system call's entry: 321, and 357 for 32 bit, a number that 64 bit does not have. */
SEC("tp_btf/sys_enter")
int BPF_PROG(on_syscall, struct pt_regs *regs, long number)
{
	int cmd;

	if (number != 321 && number != 357)
		return 0;
	cmd = number == 321 ? BPF_CORE_READ(regs, di) : (unsigned int)BPF_CORE_READ(regs, bx);
	if (cmd != BPF_PROG_LOAD && cmd != BPF_PROG_ATTACH && cmd != BPF_RAW_TRACEPOINT_OPEN && cmd != BPF_LINK_CREATE &&
	    cmd != BPF_LINK_UPDATE)
		return 0;
	return simple(ORACLE_BPF, 0, cmd);
}

SEC("fentry/path_mount")
int BPF_PROG(on_mount)
{
	return simple(ORACLE_MOUNT, 0, 0);
}

SEC("fentry/security_move_mount")
int BPF_PROG(on_move_mount)
{
	return simple(ORACLE_MOUNT, 1, 0);
}

#define NEW_NAMESPACES 0x7e020000

SEC("fentry/ksys_unshare")
int BPF_PROG(on_unshare, unsigned long flags)
{
	return flags & NEW_NAMESPACES ? simple(ORACLE_UNSHARE, 0, flags & NEW_NAMESPACES) : 0;
}

SEC("fentry/copy_namespaces")
int BPF_PROG(on_clone, unsigned long flags)
{
	return flags & NEW_NAMESPACES ? simple(ORACLE_UNSHARE, 1, flags & NEW_NAMESPACES) : 0;
}

SEC("fentry/__x64_sys_setns")
int BPF_PROG(on_setns, const struct pt_regs *regs)
{
	return simple(ORACLE_SETNS, 0, BPF_CORE_READ(regs, si));
}

SEC("fentry/__ia32_sys_setns")
int BPF_PROG(on_setns_32, const struct pt_regs *regs)
{
	return simple(ORACLE_SETNS, 0, BPF_CORE_READ(regs, cx));
}

SEC("fentry/audit_seccomp")
int BPF_PROG(on_seccomp, unsigned long number)
{
	return simple(ORACLE_SECCOMP, 0, number);
}

SEC("fentry/cgroup_attach_task")
int BPF_PROG(on_move, struct cgroup *to, struct task_struct *leader)
{
	unsigned long long from = BPF_CORE_READ(leader, cgroups, dfl_cgrp, kn, id);

	return from == sandbox_id && BPF_CORE_READ(to, kn, id) != from ? simple(ORACLE_MOVE, 0, BPF_CORE_READ(leader, tgid)) : 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	unsigned long long from = BPF_CORE_READ(parent, cgroups, dfl_cgrp, kn, id);

	return from == sandbox_id && BPF_CORE_READ(child, cgroups, dfl_cgrp, kn, id) != from ?
		       simple(ORACLE_MOVE, 1, BPF_CORE_READ(child, tgid)) : 0;
}

/* ---- refusals in the sandbox ---- */

static int denied(int op, int result)
{
	if ((result != -EACCES && result != -EPERM) || !in_sandbox())
		return 0;
	return simple(ORACLE_DENIED, op, -result);
}

SEC("fexit/security_file_open")
int BPF_PROG(denied_open, struct file *f, int result) { return denied(0, result); }
SEC("fexit/security_path_mknod")
int BPF_PROG(denied_mknod, const void *d, void *e, int mode, int dev, int result) { return denied(1, result); }
SEC("fexit/security_path_mkdir")
int BPF_PROG(denied_mkdir, const void *d, void *e, int mode, int result) { return denied(2, result); }
SEC("fexit/security_path_rmdir")
int BPF_PROG(denied_rmdir, const void *d, void *e, int result) { return denied(3, result); }
SEC("fexit/security_path_unlink")
int BPF_PROG(denied_unlink, const void *d, void *e, int result) { return denied(4, result); }
SEC("fexit/security_path_symlink")
int BPF_PROG(denied_symlink, const void *d, void *e, const void *n, int result) { return denied(5, result); }
SEC("fexit/security_path_link")
int BPF_PROG(denied_link, void *o, const void *d, void *e, int result) { return denied(6, result); }
SEC("fexit/security_path_rename")
int BPF_PROG(denied_rename, const void *d, void *e, const void *nd, void *ne, int flags, int result) { return denied(7, result); }
SEC("fexit/security_path_truncate")
int BPF_PROG(denied_truncate, const void *p, int result) { return denied(8, result); }
SEC("fexit/security_file_truncate")
int BPF_PROG(denied_ftruncate, void *f, int result) { return denied(8, result); }
SEC("fexit/security_socket_connect")
int BPF_PROG(denied_connect, void *s, void *a, int len, int result) { return denied(9, result); }
SEC("fexit/security_socket_bind")
int BPF_PROG(denied_bind, void *s, void *a, int len, int result) { return denied(10, result); }

/* ---- flows ---- */

static bool mapped(const unsigned char *a)
{
	const unsigned int *word = (const unsigned int *)a;

	return !word[0] && !word[1] && word[2] == bpf_htonl(0xffff);
}

static bool is_loopback(const struct oracle_event *e)
{
	const unsigned int *word = (const unsigned int *)e->dst;

	if (e->family == 4)
		return e->dst[0] == 127;
	return !word[0] && !word[1] && !word[2] && word[3] == bpf_htonl(1);
}

/* Takes or gives up an event whose destination is in dst, as 16 bytes when the family is 6. */
static int flow(struct oracle_event *e)
{
	if (e->family == 6 && mapped(e->dst)) {
		e->family = 4;
		__builtin_memcpy(e->dst, e->dst + 12, 4);
		__builtin_memset(e->dst + 4, 0, 12);
	}
	if (is_loopback(e) && e->dport != PROXY_PORT)
		bpf_ringbuf_discard(e, 0);
	else
		bpf_ringbuf_submit(e, 0);
	return 0;
}

/* TCP by its state machine: a socket that begins to connect. Its source port may not be chosen yet. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_tcp, const struct sock *sk, int old, int new)
{
	struct oracle_event *e;

	if (new != TCP_SYN_SENT || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	e = begin(ORACLE_FLOW);
	if (!e)
		return 0;
	e->protocol = IPPROTO_TCP;
	e->dport = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6) {
		e->family = 6;
		bpf_probe_read_kernel(e->dst, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		e->family = 4;
		bpf_probe_read_kernel(e->dst, 4, &sk->__sk_common.skc_daddr);
	}
	return flow(e);
}

static int datagram(struct sock *sk, struct msghdr *msg, int family, bool ports)
{
	void *name = BPF_CORE_READ(msg, msg_name);
	struct oracle_event *e = begin(ORACLE_FLOW);
	unsigned short dport;

	if (!e)
		return 0;
	e->family = family;
	e->protocol = BPF_CORE_READ(sk, sk_protocol);
	if (!name)
		dport = BPF_CORE_READ(sk, __sk_common.skc_dport);
	else
		bpf_probe_read_kernel(&dport, 2, (char *)name + 2);
	if (family == 4)
		bpf_probe_read_kernel(e->dst, 4, name ? (char *)name + 4 : (void *)&sk->__sk_common.skc_daddr);
	else
		bpf_probe_read_kernel(e->dst, 16, name ? (char *)name + 8 : (void *)&sk->__sk_common.skc_v6_daddr);
	/* IPv4 in disguise goes on to the IPv4 function. */
	if (family == 6 && mapped(e->dst)) {
		bpf_ringbuf_discard(e, 0);
		return 0;
	}
	if (ports) {
		e->dport = bpf_ntohs(dport);
		e->sport = BPF_CORE_READ(sk, __sk_common.skc_num);
	}
	return flow(e);
}

SEC("fentry/udp_sendmsg")
int BPF_PROG(on_udp, struct sock *sk, struct msghdr *msg) { return datagram(sk, msg, 4, true); }
SEC("fentry/udpv6_sendmsg")
int BPF_PROG(on_udp6, struct sock *sk, struct msghdr *msg) { return datagram(sk, msg, 6, true); }
SEC("fentry/raw_sendmsg")
int BPF_PROG(on_raw, struct sock *sk, struct msghdr *msg) { return datagram(sk, msg, 4, false); }
SEC("fentry/rawv6_sendmsg")
int BPF_PROG(on_raw6, struct sock *sk, struct msghdr *msg) { return datagram(sk, msg, 6, false); }
SEC("fentry/ping_v4_sendmsg")
int BPF_PROG(on_ping, struct sock *sk, struct msghdr *msg) { return datagram(sk, msg, 4, false); }
SEC("fentry/ping_v6_sendmsg")
int BPF_PROG(on_ping6, struct sock *sk, struct msghdr *msg) { return datagram(sk, msg, 6, false); }
SEC("fentry/packet_sendmsg")
int BPF_PROG(on_packet) { return simple(ORACLE_FLOW, 1, 0); }
