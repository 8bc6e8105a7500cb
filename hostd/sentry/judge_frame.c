/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a frame of the Sentry to a judge_event: what each kind means, and the counters of heartbeats. */
#include <stdio.h>
#include <string.h>

#include "hostd/sentry/judge_int.h"
#include "lib/json.h"
#include <holdfast/sentry.h>

#define ARCH_X86_64 0xc000003e
#define SECCOMP_LOG_ACTION 0x7ffc0000
#define SECCOMP_ALLOW_ACTION 0x7fff0000
#define BPF_PROG_LOAD_CMD 5

static int64_t integer(const json_t *frame, const char *key)
{
	return json_integer_value(json_object_get(frame, key));
}

/* ---- process subtrees ---- */

static struct judge_proc *proc_slot(struct judge *j, int64_t pid)
{
	return &j->procs[((uint64_t)pid * 0x9e3779b97f4a7c15ull >> 40) & (JUDGE_PROCS_MAX - 1)];
}

static uint64_t root_of(struct judge *j, int64_t pid)
{
	const struct judge_proc *p = proc_slot(j, pid);

	return p->pid == pid ? p->root : 0;
}

static void root_set(struct judge *j, int64_t pid, uint64_t root)
{
	*proc_slot(j, pid) = (struct judge_proc){ .pid = pid, .root = root };
}

static uint64_t root_key(int64_t pid, int64_t start_ns)
{
	uint64_t h = ((uint64_t)start_ns * 4194304u + (uint64_t)pid) & INT64_MAX;

	return h ? h : 1;
}

/*
 * The outermost ancestor below pid 1 or the supervisor: the command that was started, the service, the container's shim.
 * The chain of an exec tells it; events without a chain find their process or its parent among those remembered.
 */
static uint64_t subtree_root(struct judge *j, const json_t *frame, int64_t pid, int64_t start_ns)
{
	const json_t *chain = json_object_get(frame, "chain"), *last = NULL, *link;
	uint64_t root;
	size_t i;

	if (!json_is_array(chain)) {
		root = root_of(j, pid);
		if (!root)
			root = root_of(j, integer(frame, "ppid"));
		return root ? root : root_key(pid, start_ns);
	}
	json_array_foreach (chain, i, link) {
		if (integer(link, "pid") == 1 || (j->supervisor && integer(link, "pid") == j->supervisor))
			break;
		last = link;
	}
	if (!last)
		return root_key(pid, start_ns);
	/* a chain that was cut before pid 1 goes on where its last element is known */
	if (i == json_array_size(chain) && (root = root_of(j, integer(last, "pid"))))
		return root;
	return root_key(integer(last, "pid"), integer(last, "start_ns"));
}

/*
 * Does a tracer stay with what it started? For traceme the event's process is the child and its tracer the parent. A
 * target that was never seen to exec is a fork; one younger than the tracer is taken for the tracer's own, as strace
 * makes them. The kernel says when both began: neither time is the guest's to choose.
 */
static bool traces_its_own(struct judge *j, const json_t *frame, uint64_t root)
{
	int64_t target = integer(frame, "target_pid");
	uint64_t target_root = root_of(j, target);

	if (!strcmp(json_str(frame, "request"), "traceme"))
		return target == integer(frame, "ppid");
	if (target_root)
		return target_root == root;
	return integer(frame, "target_start_ns") > integer(frame, "start_ns");
}

/* ---- kinds ---- */

/*
 * io_uring_setup, memfd_create and socket(AF_ALG), x86-64: runtimes try them and do without. ptrace: strace and gdb try
 * several requests before they give up, which is one thing to know; but many of them are still a search for a way out.
 */
static unsigned routine_call(int64_t nr)
{
	switch (nr) {
	case 425:
		return 1;
	case 319:
		return 2;
	case 41:
		return 4;
	case 101:
		return JUDGE_ROUTINE_PTRACE;
	default:
		return 0;
	}
}

/* Python keeps what it compiled beside its modules, wherever those are. */
static unsigned routine_denial(const json_t *frame)
{
	const char *path = json_str(frame, "path"), *name = strrchr(path, '/');

	return name && !strcmp(name, "/__pycache__") && !strcmp(json_str(frame, "op"), "mkdir") ? 8 : 0;
}

/*
 * The supervisor, its helpers outside the sandbox, and what it forked for a command until that begins: such a process is
 * in the sandbox already, still runs the supervisor's own program (the initramfs's /init) and was never seen to exec.
 */
static bool is_supervisor(struct judge *j, const json_t *frame, const struct judge_event *ev)
{
	if (!j->supervisor)
		return false;
	if (ev->pid == j->supervisor)
		return true;
	return integer(frame, "ppid") == j->supervisor &&
	       (!ev->sandboxed || (!strcmp(json_str(frame, "exe"), "/init") && !root_of(j, ev->pid)));
}

/* Errors that say "already there" or "no such device", not "you may not". */
static bool harmless_load_error(int64_t result)
{
	return result == -17 || result == -16 || result == -19;
}

static bool light_bpf(int64_t prog_type)
{
	/* socket filters, cgroup hooks, sockmaps: BPF_PROG_TYPE_* */
	static const uint8_t light[] = { 1, 8, 9, 13, 14, 15, 16, 18, 21, 22, 23, 25, 30 };

	for (size_t i = 0; i < sizeof(light); i++)
		if (prog_type == light[i])
			return true;
	return false;
}

static void fill_kind(struct judge_event *ev, const json_t *frame)
{
	switch (ev->kind) {
	case EVENT_MODULE_LOAD:
		ev->free = integer(frame, "result") < 0 ? harmless_load_error(integer(frame, "result")) :
							  json_is_true(json_object_get(frame, "signed"));
		break;
	case EVENT_BPF:
		ev->free = json_object_get(frame, "cmd") && integer(frame, "cmd") != BPF_PROG_LOAD_CMD;
		if (light_bpf(integer(frame, "prog_type")))
			ev->signal = SIGNAL_BPF_LIGHT;
		break;
	case EVENT_LOCKDOWN: /* the kernel never lowers it: what succeeds is a raise */
		ev->free = integer(frame, "result") >= 0;
		break;
	case EVENT_SECCOMP_LOG:
		ev->free = integer(frame, "result") >= 0 && strstr(json_str(frame, "names"), "errno");
		break;
	case EVENT_SECCOMP_DENIED:
		ev->syscall = integer(frame, "arch") == ARCH_X86_64 ? integer(frame, "syscall") : -1;
		ev->routine = routine_call(ev->syscall);
		ev->free = integer(frame, "action") == SECCOMP_LOG_ACTION ||
			   integer(frame, "action") == SECCOMP_ALLOW_ACTION;
		break;
	case EVENT_SANDBOX_DENIED:
		ev->routine = routine_denial(frame);
		break;
	default:
		break;
	}
}

/* ---- heartbeats ---- */

/* Growth in these is the price of a busy guest and says nothing. */
static bool never_scored(const char *kind)
{
	return !strcmp(kind, "exec") || !strcmp(kind, "exit") || !strcmp(kind, "net_flow");
}

static uint64_t counted(const json_t *kinds, uint64_t by_kind[JUDGE_LIMITED_MAX])
{
	uint64_t sum = 0;

	for (int k = 0; k < HF_SENTRY_KIND_COUNT && k < JUDGE_LIMITED_MAX; k++) {
#define NAME(constant, name) name,
		static const char *const names[] = { HF_SENTRY_KINDS(NAME) };
#undef NAME
		uint64_t v = (uint64_t)integer(kinds, names[k]);

		if (never_scored(names[k]))
			v = 0;
		if (by_kind)
			by_kind[k] = v;
		sum += v;
	}
	return sum;
}

/* Each growth is a row (the store folds them), but points come once a window, whatever kinds it has. */
static void growth(struct judge *j, int64_t t, enum event_kind kind, uint64_t by, const char *of)
{
	enum judge_signal s = event_defs[kind].signal;
	unsigned points;
	json_t *data;

	if (!by)
		return;
	points = judge_first(j, t, judge_key("growth", signal_defs[s].name, "")) ? j->cfg.weight[s] : 0;
	data = json_pack("{s:I,s:s*}", "growth", (json_int_t)by, "limited_kind", *of ? of : NULL);
	if (j->row)
		j->row(j->u, kind, points, data);
	json_decref(data);
	judge_add(j, t, s, points, 1);
}

static void heartbeat_counters(struct judge *j, int64_t t, const json_t *frame)
{
	struct judge_counters now;
	const json_t *by_kind = json_object_get(frame, "dropped_kinds");

	memset(&now, 0, sizeof(now));
	now.known = true;
	/* without the kinds, all that was dropped counts */
	now.dropped = json_is_object(by_kind) ? counted(by_kind, NULL) : (uint64_t)integer(frame, "dropped");
	now.missed = (uint64_t)integer(json_object_get(frame, "probes"), "missed");
	counted(json_object_get(frame, "rate_limited"), now.limited);
	if (j->counters.known) {
		/* a counter that went back is a new load of the module, and the session's business */
		if (now.dropped > j->counters.dropped)
			growth(j, t, EVENT_DROPPED, now.dropped - j->counters.dropped, "");
		if (now.missed > j->counters.missed)
			growth(j, t, EVENT_MISSED, now.missed - j->counters.missed, "");
		for (int k = 0; k < HF_SENTRY_KIND_COUNT && k < JUDGE_LIMITED_MAX; k++) {
#define NAME(constant, name) name,
			static const char *const names[] = { HF_SENTRY_KINDS(NAME) };
#undef NAME
			if (now.limited[k] > j->counters.limited[k])
				growth(j, t, EVENT_RATE_LIMITED, now.limited[k] - j->counters.limited[k], names[k]);
		}
	} else {
		/* counters are cumulative since load, and boot is when they may have grown unseen */
		growth(j, t, EVENT_DROPPED, now.dropped, "");
		growth(j, t, EVENT_MISSED, now.missed, "");
	}
	if (memcmp(&now, &j->counters, sizeof(now)) != 0)
		j->dirty = true;
	j->counters = now;
}

static void heartbeat(struct judge *j, int64_t t, const json_t *frame)
{
	const json_t *phase = json_object_get(frame, "phase"), *by = json_object_get(frame, "phase_set_by");
	char set_by[64] = "";

	if (json_is_object(by))
		snprintf(set_by, sizeof(set_by), "%s (pid %lld)", json_str(by, "comm"), (long long)integer(by, "pid"));
	if (json_is_integer(phase)) {
		int to = json_integer_value(phase) > 2 ? 2 : (int)json_integer_value(phase);

		/* any root may write the phase; the supervisor has run since before the Sentry and was never seen to exec */
		if (j->phase == 0 && to == 1 && !root_of(j, integer(by, "pid")))
			j->supervisor = integer(by, "pid");
		judge_set_phase(j, t, to, set_by);
	}
	heartbeat_counters(j, t, frame);
}

int judge_frame(struct judge *j, int64_t now_ms, const char *type, const json_t *frame, struct judge_event *ev,
		struct judge_result *out)
{
	int64_t t = judge_now(j, now_ms);
	static _Thread_local char subtree[24];
	bool before = j->tripped;
	int kind = event_find(type);
	uint64_t root;

	memset(ev, 0, sizeof(*ev));
	memset(out, 0, sizeof(*out));
	if (kind < 0 || event_defs[kind].engine != ENGINE_SENTRY)
		return -1;
	j->heard = true;
	ev->kind = (enum event_kind)kind;
	ev->syscall = -1;
	if (kind == EVENT_HEARTBEAT || kind == EVENT_HELLO) {
		if (kind == EVENT_HEARTBEAT)
			heartbeat(j, t, frame);
		out->score = judge_score(j, now_ms);
		out->trip = j->tripped && !before;
		return 0;
	}
	ev->pid = integer(frame, "pid");
	ev->start_ns = (uint64_t)integer(frame, "start_ns");
	ev->count = integer(frame, "count") > 0 ? (uint32_t)integer(frame, "count") : 1;
	ev->sandboxed = json_is_true(json_object_get(frame, "sandbox"));
	ev->supervisor = is_supervisor(j, frame, ev);
	ev->program = kind == EVENT_EXEC ? json_str(frame, "path") : json_str(frame, "exe");
	if (!*ev->program)
		ev->program = json_str(frame, "comm");
	root = subtree_root(j, frame, ev->pid, (int64_t)ev->start_ns);
	snprintf(subtree, sizeof(subtree), "%llu", (unsigned long long)root);
	ev->subtree = subtree;
	if (kind == EVENT_EXEC)
		root_set(j, ev->pid, root);
	fill_kind(ev, frame);
	ev->own_subtree = kind == EVENT_PTRACE && traces_its_own(j, frame, root);
	judge_event(j, now_ms, ev, out);
	if (kind == EVENT_SUPERVISOR_LOST && !strcmp(json_str(frame, "op"), "exit"))
		j->supervisor = 0; /* its pid may become anyone's */
	return 0;
}
