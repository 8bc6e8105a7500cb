// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Formatting: the only place where records become text.
 *
 * A frame is built in one buffer of the greatest size, with room kept for its MAC. If an event does not fit, it is
 * built again with the arguments of its chain left out, then with the paths of its chain left out, each marked.
 * The arguments of the exec itself would come third; the assertion below shows that this is never needed.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/kernel.h>
#include <linux/netdevice.h>
#include <linux/timekeeping.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

#include "canary.h"
#include "compat/compat.h"
#include "frame.h"
#include "gate.h"
#include "hash.h"
#include "json.h"
#include "key.h"
#include "ops.h"
#include "param.h"
#include "probe.h"
#include "program.h"
#include "store.h"
#include "tally.h"

#define JSON_MAX (HF_SENTRY_FRAME_MAX - HF_SENTRY_MAC_TAIL_BYTES)

/* \u0000 is the longest escape; an argument of one such byte costs it, two quotes and a comma for two bytes of argv. */
#define ESCAPED 6
#define CHAIN_ELEMENT_NUMBERS 160
#define WORST_WITHOUT_CHAIN_TEXT                                                                   \
	(ESCAPED * (3 * HF_SENTRY_PATH_MAX + HF_SENTRY_ARGV_MAX) +                                 \
	 HF_SENTRY_CHAIN_MAX * (ESCAPED * HF_SENTRY_COMM_MAX + CHAIN_ELEMENT_NUMBERS) + 2048)
static_assert(WORST_WITHOUT_CHAIN_TEXT <= JSON_MAX);

enum shortening { WHOLE, NO_CHAIN_ARGS, NO_CHAIN_PATHS, SHORTENINGS };

const char *const sentry_kind_names[HF_SENTRY_KIND_COUNT] = {
#define NAME(constant, name) [HF_SENTRY_KIND_##constant] = name,
	HF_SENTRY_KINDS(NAME)
#undef NAME
};

#define X(constant, name) name,
static const char *const tally_names[] = { SENTRY_TALLIES(X) };
static const char *const denied_ops[] = { SENTRY_DENIED_OPS(X) };
static const char *const cred_ops[] = { SENTRY_CRED_OPS(X) };
static const char *const ptrace_ops[] = { SENTRY_PTRACE_OPS(X) };
static const char *const module_ops[] = { SENTRY_MODULE_OPS(X) };
static const char *const kexec_ops[] = { SENTRY_KEXEC_OPS(X) };
static const char *const mount_ops[] = { SENTRY_MOUNT_OPS(X) };
static const char *const unshare_ops[] = { SENTRY_UNSHARE_OPS(X) };
static const char *const move_ops[] = { SENTRY_MOVE_OPS(X) };
static const char *const lost_ops[] = { SENTRY_LOST_OPS(X) };
static const char *const tc_ops[] = { SENTRY_TC_OPS(X) };
static const char *const access_ops[] = { SENTRY_ACCESS_OPS(X) };
#undef X

static char *frame, *hello; /* length first; HF_SENTRY_LENGTH_BYTES + HF_SENTRY_FRAME_MAX each */
static u8 host_nonce[HF_SENTRY_NONCE_BYTES];
static bool have_nonce;

int sentry_frame_init(void)
{
	frame = vmalloc(HF_SENTRY_LENGTH_BYTES + HF_SENTRY_FRAME_MAX);
	hello = vmalloc(HF_SENTRY_LENGTH_BYTES + HF_SENTRY_FRAME_MAX);
	if (!frame || !hello) {
		vfree(hello);
		vfree(frame);
		return -ENOMEM;
	}
	return 0;
}

void sentry_frame_set_nonce(const u8 nonce[HF_SENTRY_NONCE_BYTES])
{
	memcpy(host_nonce, nonce, sizeof(host_nonce));
	have_nonce = true;
}

static void head(struct sentry_json *j, char *buffer, const char *type, u64 t)
{
	sentry_json_init(j, buffer, JSON_MAX);
	sentry_json_open(j, NULL, '{');
	sentry_json_u64(j, "v", HF_SENTRY_VERSION);
	sentry_json_word(j, "type", type);
	sentry_json_u64(j, "t", t);
}

/* Append the MAC member and the closing brace; returns the length of the whole. */
static size_t seal(struct sentry_json *j, void (*mac_of)(const void *, size_t, u8 *))
{
	u8 mac[HF_SENTRY_MAC_BYTES];

	mac_of(j->at, j->len, mac);
	j->size += HF_SENTRY_MAC_TAIL_BYTES;
	sentry_json_hex(j, "mac", mac, sizeof(mac));
	sentry_json_close(j, '}');
	return j->len;
}

static size_t comm_len(const struct sentry_process *p)
{
	return strnlen(p->comm, sizeof(p->comm));
}

static void process_members(struct sentry_json *j, const struct sentry_process *p)
{
	sentry_json_u64(j, "pid", p->pid);
	sentry_json_u64(j, "start_ns", p->start_ns);
	sentry_json_text(j, "comm", (const u8 *)p->comm, comm_len(p));
}

static void target_members(struct sentry_json *j, const struct sentry_process *p)
{
	sentry_json_u64(j, "target_pid", p->pid);
	sentry_json_u64(j, "target_start_ns", p->start_ns);
	sentry_json_text(j, "target_comm", (const u8 *)p->comm, comm_len(p));
}

static void text_member(struct sentry_json *j, const char *name, const struct sentry_record *r, enum sentry_text which)
{
	sentry_json_text(j, name, sentry_record_text(r, which), r->text_len[which]);
}

static void mark(struct sentry_json *j, const struct sentry_record *r, u16 flag, const char *name)
{
	if (r->flags & flag)
		sentry_json_bool(j, name, true);
}

static void chain_members(struct sentry_json *j, const struct sentry_record *r, enum shortening how)
{
	const struct sentry_program *program;
	unsigned int i;

	sentry_json_open(j, "chain", '[');
	for (i = 0; i < r->chain_len; i++) {
		sentry_json_open(j, NULL, '{');
		process_members(j, &r->chain[i]);
		program = how < NO_CHAIN_PATHS ? sentry_program_find(&r->chain[i]) : NULL;
		if (program) {
			sentry_json_text(j, "path", program->exe, program->exe_len);
			if (how < NO_CHAIN_ARGS && program->args_len)
				sentry_json_text(j, "args", program->args, program->args_len);
		} else {
			sentry_json_word(j, "path", "");
			sentry_json_bool(j, "path_unknown", true);
		}
		sentry_json_close(j, '}');
	}
	sentry_json_close(j, ']');
	if (how >= NO_CHAIN_ARGS)
		sentry_json_bool(j, "chain_args_omitted", true);
	if (how >= NO_CHAIN_PATHS)
		sentry_json_bool(j, "chain_paths_omitted", true);
}

static void exec_members(struct sentry_json *j, const struct sentry_record *r, enum shortening how)
{
	text_member(j, "path", r, SENTRY_TEXT_EXE);
	mark(j, r, SENTRY_EXE_UNKNOWN, "path_unknown");
	mark(j, r, SENTRY_EXE_DELETED, "path_deleted");
	text_member(j, "file", r, SENTRY_TEXT_PATH);
	if (r->text_len[SENTRY_TEXT_SECOND])
		text_member(j, "interp", r, SENTRY_TEXT_SECOND);
	sentry_json_u64(j, "argc", r->detail.exec.argc);
	sentry_json_texts(j, "argv", sentry_record_text(r, SENTRY_TEXT_ARGV), r->text_len[SENTRY_TEXT_ARGV]);
	mark(j, r, SENTRY_ARGV_TRUNCATED, "argv_truncated");
	mark(j, r, SENTRY_ARGV_UNAVAILABLE, "argv_unavailable");
	mark(j, r, SENTRY_FALLBACK, "fallback");
	chain_members(j, r, how);
}

static void ids_members(struct sentry_json *j, const char *name, const struct sentry_ids *ids)
{
	sentry_json_open(j, name, '{');
	sentry_json_u64(j, "uid", ids->uid);
	sentry_json_u64(j, "euid", ids->euid);
	sentry_json_u64(j, "suid", ids->suid);
	sentry_json_u64(j, "fsuid", ids->fsuid);
	sentry_json_hex64(j, "caps", ids->caps);
	sentry_json_close(j, '}');
}

static void cred_members(struct sentry_json *j, const struct sentry_record *r)
{
	sentry_json_word(j, "via", cred_ops[r->op]);
	sentry_json_s64(j, "syscall", r->detail.cred.syscall);
	ids_members(j, "old", &r->detail.cred.old);
	ids_members(j, "new", &r->detail.cred.new);
}

static void module_members(struct sentry_json *j, const struct sentry_record *r)
{
	text_member(j, "name", r, SENTRY_TEXT_PATH);
	sentry_json_s64(j, "result", r->detail.module.result);
	sentry_json_u64(j, "flags", r->detail.module.flags);
	if (r->kind == HF_SENTRY_KIND_MODULE_LOAD) {
		sentry_json_word(j, "op", module_ops[r->op]);
		sentry_json_bool(j, "signed", r->detail.module.is_signed);
		sentry_json_hex64(j, "taints", r->detail.module.taints);
	}
}

static void bpf_members(struct sentry_json *j, const struct sentry_record *r)
{
	sentry_json_u64(j, "cmd", r->detail.bpf.cmd);
	sentry_json_u64(j, "prog_type", r->detail.bpf.prog_type);
	sentry_json_u64(j, "attach_type", r->detail.bpf.attach_type);
	text_member(j, "prog_name", r, SENTRY_TEXT_PATH);
}

static void mount_members(struct sentry_json *j, const struct sentry_record *r)
{
	sentry_json_word(j, "op", mount_ops[r->op]);
	text_member(j, "target", r, SENTRY_TEXT_PATH);
	mark(j, r, SENTRY_PATH_UNKNOWN, "target_unknown");
	text_member(j, "fstype", r, SENTRY_TEXT_SECOND);
	sentry_json_u64(j, "flags", r->detail.result.flags);
}

static void seccomp_members(struct sentry_json *j, const struct sentry_record *r)
{
	sentry_json_u64(j, "syscall", r->detail.seccomp.syscall);
	sentry_json_u64(j, "arch", r->detail.seccomp.arch);
	sentry_json_u64(j, "action", r->detail.seccomp.action);
	sentry_json_s64(j, "signal", r->detail.seccomp.signal);
	sentry_json_u64(j, "count", r->count);
}

static void address_member(struct sentry_json *j, const char *name, unsigned int family, const u8 dst[16])
{
	char text[48] = "";

	if (family == 4)
		snprintf(text, sizeof(text), "%pI4", dst);
	else if (family == 6)
		snprintf(text, sizeof(text), "%pI6c", dst);
	sentry_json_word(j, name, text);
}

static void denied_members(struct sentry_json *j, const struct sentry_record *r)
{
	sentry_json_word(j, "op", denied_ops[r->op]);
	text_member(j, "path", r, SENTRY_TEXT_PATH);
	mark(j, r, SENTRY_PATH_UNKNOWN, "path_unknown");
	sentry_json_s64(j, "errno", -r->detail.denied.error);
	sentry_json_u64(j, "access", r->detail.denied.access);
	if (r->op == SENTRY_DENIED_CONNECT || r->op == SENTRY_DENIED_BIND) {
		sentry_json_u64(j, "family", r->detail.denied.address_family);
		sentry_json_u64(j, "port", r->detail.denied.port);
	}
	sentry_json_u64(j, "count", r->count);
}

static const char *flow_protocol(const struct sentry_flow *f)
{
	if (!f->family)
		return "packet";
	switch (f->protocol) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_ICMPV6:
		return "icmpv6";
	default:
		return "raw";
	}
}

static void flow_members(struct sentry_json *j, const struct sentry_record *r, enum shortening how)
{
	const struct sentry_flow *f = &r->detail.flow;

	sentry_json_word(j, "proto", flow_protocol(f));
	sentry_json_u64(j, "ip_proto", f->protocol);
	sentry_json_u64(j, "family", f->family);
	sentry_json_u64(j, "sport", f->sport);
	address_member(j, "dst", f->family, f->dst);
	sentry_json_u64(j, "dport", f->dport);
	if (f->has_icmp_type)
		sentry_json_u64(j, "icmp_type", f->icmp_type);
	if (f->ifindex)
		sentry_json_u64(j, "ifindex", f->ifindex);
	if (r->cookie)
		sentry_json_u64(j, "cookie", r->cookie);
	sentry_json_u64(j, "count", r->count);
	sentry_hash_members(j, r);
	chain_members(j, r, how);
}

static void tc_members(struct sentry_json *j, const struct sentry_record *r)
{
	sentry_json_word(j, "op", tc_ops[r->op]);
	sentry_json_s64(j, "ifindex", r->detail.tc.ifindex);
	text_member(j, "device", r, SENTRY_TEXT_PATH);
}

static void kind_members(struct sentry_json *j, const struct sentry_record *r, enum shortening how)
{
	switch ((enum hf_sentry_kind)r->kind) {
	case HF_SENTRY_KIND_EXEC:
		exec_members(j, r, how);
		break;
	case HF_SENTRY_KIND_EXIT:
		sentry_json_s64(j, "status", r->detail.exit.status);
		break;
	case HF_SENTRY_KIND_CRED_GAIN:
		cred_members(j, r);
		break;
	case HF_SENTRY_KIND_PTRACE:
		sentry_json_word(j, "request", ptrace_ops[r->op]);
		target_members(j, &r->detail.target.process);
		break;
	case HF_SENTRY_KIND_MODULE_LOAD:
	case HF_SENTRY_KIND_MODULE_UNLOAD:
		module_members(j, r);
		break;
	case HF_SENTRY_KIND_BPF:
		bpf_members(j, r);
		break;
	case HF_SENTRY_KIND_KEXEC:
		sentry_json_word(j, "which", kexec_ops[r->op]);
		sentry_json_s64(j, "result", r->detail.result.result);
		sentry_json_u64(j, "flags", r->detail.result.flags);
		break;
	case HF_SENTRY_KIND_LOCKDOWN:
		sentry_json_s64(j, "result", r->detail.result.result);
		text_member(j, "level", r, SENTRY_TEXT_PATH);
		break;
	case HF_SENTRY_KIND_MOUNT:
		mount_members(j, r);
		break;
	case HF_SENTRY_KIND_UNSHARE:
		sentry_json_word(j, "op", unshare_ops[r->op]);
		sentry_json_u64(j, "flags", r->detail.result.flags);
		break;
	case HF_SENTRY_KIND_SETNS:
		sentry_json_u64(j, "flags", r->detail.result.flags);
		sentry_json_s64(j, "result", r->detail.result.result);
		break;
	case HF_SENTRY_KIND_SECCOMP_DENIED:
		seccomp_members(j, r);
		break;
	case HF_SENTRY_KIND_SECCOMP_LOG:
		sentry_json_s64(j, "result", r->detail.result.result);
		text_member(j, "names", r, SENTRY_TEXT_PATH);
		break;
	case HF_SENTRY_KIND_SANDBOX_DENIED:
		denied_members(j, r);
		break;
	case HF_SENTRY_KIND_NET_FLOW:
		flow_members(j, r, how);
		break;
	case HF_SENTRY_KIND_CGROUP_MOVE:
		sentry_json_word(j, "op", move_ops[r->op]);
		sentry_json_u64(j, "from", r->detail.move.from);
		sentry_json_u64(j, "to", r->detail.move.to);
		target_members(j, &r->detail.move.process);
		break;
	case HF_SENTRY_KIND_SUPERVISOR_LOST:
		sentry_json_word(j, "op", lost_ops[r->op]);
		sentry_json_s64(j, "signal", r->detail.lost.signal);
		sentry_json_s64(j, "status", r->detail.lost.status);
		break;
	case HF_SENTRY_KIND_TC_CHANGE:
		tc_members(j, r);
		break;
	case HF_SENTRY_KIND_PARAM_DENIED:
		text_member(j, "param", r, SENTRY_TEXT_PATH);
		text_member(j, "value", r, SENTRY_TEXT_SECOND);
		break;
	case HF_SENTRY_KIND_PROGRAM_HASH:
		sentry_hash_result_members(j, r);
		break;
	case HF_SENTRY_KIND_KERNEL_ACCESS:
		sentry_json_word(j, "what", access_ops[r->op]);
		sentry_json_s64(j, "result", r->detail.result.result);
		sentry_json_u64(j, "count", r->count);
		break;
	case HF_SENTRY_KIND_COUNT:
		break;
	}
}

static void event(struct sentry_json *j, const struct sentry_record *r, enum shortening how)
{
	head(j, frame, sentry_kind_names[r->kind], r->t);
	sentry_json_u64(j, "seq", sentry_store_next_seq());
	process_members(j, &r->subject);
	sentry_json_u64(j, "ppid", r->ppid);
	sentry_json_u64(j, "uid", r->uid);
	sentry_json_u64(j, "gid", r->gid);
	sentry_json_bool(j, "sandbox", r->flags & SENTRY_SANDBOXED);
	mark(j, r, SENTRY_KERNEL, "kernel");
	mark(j, r, SENTRY_FOREIGN_ROOT, "foreign_root");
	mark(j, r, SENTRY_COMPAT, "compat");
	if (r->kind != HF_SENTRY_KIND_EXEC && r->kind != HF_SENTRY_KIND_EXIT) {
		text_member(j, "exe", r, SENTRY_TEXT_EXE);
		mark(j, r, SENTRY_EXE_UNKNOWN, "exe_unknown");
		mark(j, r, SENTRY_EXE_DELETED, "exe_deleted");
		if (r->text_len[SENTRY_TEXT_EXE] &&
		    sentry_program_differs(&r->subject, r->text, r->text_len[SENTRY_TEXT_EXE]))
			sentry_json_bool(j, "exe_changed", true);
	}
	kind_members(j, r, how);
}

void sentry_frame_event(const struct sentry_record *r)
{
	struct sentry_json j;
	enum shortening how;

	if (r->kind == HF_SENTRY_KIND_EXEC) {
		sentry_program_exec(r);
		sentry_hash_exec(r);
	}
	for (how = WHOLE; how < SHORTENINGS; how++) {
		event(&j, r, how);
		if (!j.full)
			break;
	}
	sentry_store_put(frame, seal(&j, sentry_key_mac_frame), false);
}

static void canary_members(struct sentry_json *j)
{
	static const char *const names[] = { "ftrace", "kretprobe", "int3", "permanent" };
	unsigned int alive = sentry_canary_check(), i;

	sentry_json_open(j, "canary", '{');
	for (i = 0; i < ARRAY_SIZE(names); i++)
		sentry_json_bool(j, names[i], alive & BIT(i));
	sentry_json_close(j, '}');
}

static void selftest_members(struct sentry_json *j)
{
	static const char *const names[] = { "commit_creds", "udp_sendmsg", "security_file_open" };
	unsigned int answered = sentry_selftest_run(), expected = sentry_selftest_expected(), i;

	sentry_json_open(j, "selftest", '{');
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (expected & BIT(i))
			sentry_json_bool(j, names[i], answered & BIT(i));
	sentry_json_close(j, '}');
}

static void count_members(struct sentry_json *j)
{
	static struct sentry_counts counts[HF_SENTRY_KIND_COUNT];
	static const struct { const char *name; size_t at; } columns[] = {
		{ "offered", offsetof(struct sentry_counts, offered) },
		{ "sent", offsetof(struct sentry_counts, sent) },
		{ "folded", offsetof(struct sentry_counts, folded) },
		{ "rate_limited", offsetof(struct sentry_counts, rate_limited) },
		{ "dropped_kinds", offsetof(struct sentry_counts, dropped) },
	};
	unsigned int c, kind;
	u64 value, dropped = 0;

	sentry_gate_counts(counts);
	for (kind = 0; kind < HF_SENTRY_KIND_COUNT; kind++)
		dropped += counts[kind].dropped;
	sentry_json_u64(j, "dropped", dropped);
	for (c = 0; c < ARRAY_SIZE(columns); c++) {
		sentry_json_open(j, columns[c].name, '{');
		for (kind = 0; kind < HF_SENTRY_KIND_COUNT; kind++) {
			value = *(u64 *)((char *)&counts[kind] + columns[c].at);
			if (value)
				sentry_json_u64(j, sentry_kind_names[kind], value);
		}
		sentry_json_close(j, '}');
	}
}

static void probe_totals_members(struct sentry_json *j)
{
	struct sentry_probe_totals totals;

	sentry_probe_count(&totals);
	sentry_json_open(j, "probes", '{');
	sentry_json_u64(j, "total", totals.total);
	sentry_json_u64(j, "armed", totals.armed);
	sentry_json_u64(j, "missed", totals.missed);
	sentry_json_u64(j, "ftrace", totals.ftrace);
	sentry_json_close(j, '}');
}

static void phase_members(struct sentry_json *j)
{
	struct sentry_phase phase;

	sentry_param_phase(&phase);
	sentry_json_u64(j, "phase", phase.phase);
	if (phase.pid) {
		sentry_json_open(j, "phase_set_by", '{');
		sentry_json_u64(j, "pid", phase.pid);
		sentry_json_text(j, "comm", (const u8 *)phase.comm, strnlen(phase.comm, sizeof(phase.comm)));
		sentry_json_close(j, '}');
	}
}

static void tally_members(struct sentry_json *j)
{
	unsigned int i;

	sentry_json_open(j, "tallies", '{');
	for (i = 0; i < SENTRY_TALLY_COUNT; i++)
		sentry_json_u64(j, tally_names[i], atomic64_read(&sentry_sums.tally[i]));
	sentry_json_close(j, '}');

	sentry_json_open(j, "sandbox", '{');
	sentry_json_u64(j, "allowed_file_ops", atomic64_read(&sentry_sums.allowed_file_ops));
	sentry_json_u64(j, "denied_file_ops", atomic64_read(&sentry_sums.denied_file_ops));
	sentry_json_u64(j, "denied_syscalls", atomic64_read(&sentry_sums.denied_syscalls));
	sentry_json_close(j, '}');

	sentry_json_open(j, "flows", '{');
	sentry_json_u64(j, "local_suppressed", atomic64_read(&sentry_sums.local_flows));
	sentry_json_close(j, '}');
}

void sentry_frame_heartbeat(void)
{
	struct sentry_json j;

	head(&j, frame, HF_SENTRY_TYPE_HEARTBEAT, ktime_get_boot_fast_ns());
	sentry_json_u64(&j, "seq", sentry_store_next_seq());
	count_members(&j);
	probe_totals_members(&j);
	canary_members(&j);
	selftest_members(&j);
	if (have_nonce)
		sentry_json_hex(&j, "nonce", host_nonce, sizeof(host_nonce));
	else
		sentry_json_word(&j, "nonce", "");
	phase_members(&j);
	tally_members(&j);
	sentry_store_put(frame, seal(&j, sentry_key_mac_frame), true);
}

static void probe_members(const struct sentry_probe *probe, void *data)
{
	static const char *const kinds[] = { "entry", "return", "tracepoint" };
	static const char *const states[] = { "idle", "absent", "armed" };
	struct sentry_json *j = data;

	sentry_json_open(j, NULL, '{');
	sentry_json_word(j, "symbol", probe->symbol);
	sentry_json_word(j, "kind", kinds[probe->kind]);
	sentry_json_word(j, "state", states[probe->state]);
	sentry_json_close(j, '}');
}

const void *sentry_frame_hello(u32 conn, size_t *len)
{
	char *json = hello + HF_SENTRY_LENGTH_BYTES;
	u8 proof[HF_SENTRY_MAC_BYTES];
	struct sentry_json j;

	head(&j, json, HF_SENTRY_TYPE_HELLO, ktime_get_boot_fast_ns());
	sentry_json_u64(&j, "conn", conn);
	sentry_json_u64(&j, "resume_seq", sentry_store_first_seq());
	if (conn == 0) {
		sentry_json_word(&j, "secret", sentry_key_secret());
	} else {
		sentry_key_proof(conn, proof);
		sentry_json_hex(&j, "proof", proof, sizeof(proof));
	}
	sentry_json_word(&j, "boot_id", sentry_param_boot_id());
	sentry_json_text(&j, "kernel", (const u8 *)init_utsname()->release, strlen(init_utsname()->release));
	sentry_json_open(&j, "module", '{');
	sentry_json_word(&j, "version", THIS_MODULE->version ?: "");
	sentry_json_word(&j, "source", THIS_MODULE->srcversion ?: "");
	sentry_json_close(&j, '}');
	sentry_json_u64(&j, "abi", HF_SENTRY_VERSION);
	sentry_json_u64(&j, "landlock_abi", sentry_param_landlock_abi);
	sentry_json_open(&j, "probes", '[');
	sentry_probe_each(probe_members, &j);
	sentry_json_close(&j, ']');

	*len = seal(&j, sentry_key_mac_hello);
	put_unaligned_be32(*len, hello);
	*len += HF_SENTRY_LENGTH_BYTES;
	return hello;
}
