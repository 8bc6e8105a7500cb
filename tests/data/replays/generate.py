#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the replays beside it. What each must give is said here, by hand, from the table of the judge."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
cases = {}
NAMES = "exec exit net_flow sandbox_denied".split()


def case(name, about, steps, max_score, trip_ms, rows, trips=None, trip_by=None, **more):
    assert name not in cases, name
    expect = {"max_score": max_score, "trip_ms": trip_ms, "rows": rows}
    expect["trips"] = trips if trips is not None else (0 if trip_ms is None else 1)
    if trip_by:
        expect["trip_by"] = trip_by
    cases[name] = {"about": about, "steps": steps, "expect": expect, **more}


def at(t, every=0, times=1, **what):
    step = {"t": t, **what}
    if times > 1:
        step.update(every=every, times=times)
    return step


def frame(kind, pid=1000, exe="/usr/bin/tool", sandbox=True, ppid=900, **more):
    f = {"v": 1, "type": kind, "pid": pid, "start_ns": 5000, "comm": os.path.basename(exe), "ppid": ppid,
         "uid": 1000, "gid": 1000, "sandbox": sandbox}
    if kind not in ("exec", "exit"):
        f["exe"] = exe
    f.update(more)
    return f


def chain(*pids):
    return [{"pid": p, "start_ns": 1, "comm": "p", "path": "/bin/p"} for p in pids] + \
        [{"pid": 1, "start_ns": 1, "comm": "systemd", "path": "/sbin/init"}]


def exec_(pid=1000, path="/usr/bin/tool", argv=None, parents=(900,), **more):
    return frame("exec", pid=pid, path=path, file=path, argc=1, argv=argv or [path], chain=chain(*parents),
                 ppid=parents[0] if parents else 1, **more)


def beat(phase=1, dropped=0, missed=0, limited=None, kinds=None, by=None):
    f = {"v": 1, "type": "heartbeat", "dropped": dropped, "dropped_kinds": kinds or {}, "rate_limited": limited or {},
         "probes": {"total": 60, "armed": 60, "missed": missed, "ftrace": 20},
         "canary": {"ftrace": True, "kretprobe": True, "int3": True, "permanent": True}, "phase": phase,
         "tallies": {}, "nonce": ""}
    if kinds:
        f["dropped"] = sum(kinds.values())
    if by:
        f["phase_set_by"] = {"pid": by, "comm": "sandboxd"}
    return f


HELLO = {"v": 1, "type": "hello", "conn": 0, "resume_seq": 1, "secret": "00" * 32, "boot_id": "b", "kernel": "6.12.95"}


def up(until=0):
    """A VM that booted; its session begins at 5 s."""
    steps = [at(0, boot=True), at(100, frame=HELLO), at(1000, 1000, 4, frame=beat(0)),
             at(5000, frame=beat(1, by=300))]
    if until > 6000:
        steps.append(at(6000, 1000, (until - 6000) // 1000, frame=beat(1)))
    return steps


def deny(pid=1000, exe="/usr/bin/npm", path="/root/.ssh/id_ed25519", op="open_read", count=1, **more):
    return frame("sandbox_denied", pid=pid, exe=exe, path=path, op=op, errno=13, access=4, count=count, **more)


def seccomp(nr, exe="/usr/bin/tool", action=0x00050001, pid=1000, count=1):
    return frame("seccomp_denied", pid=pid, exe=exe, syscall=nr, arch=0xC000003E, action=action, signal=0, count=count)


def mount(pid, ppid=None, target="/mnt"):
    return frame("mount", pid=pid, ppid=ppid or pid - 1, target=target, fstype="tmpfs", flags=0, op="mount")


def bpf(prog_type, pid=1000, cmd=5, **more):
    return frame("bpf", pid=pid, cmd=cmd, prog_type=prog_type, attach_type=0, prog_name="p", **more)


def trace(pid, ppid, target, exe="/usr/bin/gdb", request="attach", young=True):
    return frame("ptrace", pid=pid, ppid=ppid, exe=exe, request=request, target_pid=target,
                 target_start_ns=6000 if young else 4000, target_comm="t")


# ---- nothing happens ----
case("idle", "ten minutes of heartbeats", up(600000), 0, None, {"hello": 1, "phase": 1, "sandbox_denied": 0})

# ---- tampering: each reason alone trips ----
for reason in ("second_sentry bad_mac bad_secret bad_proof conn_reused seq_gap seq_replay silence late_beats "
               "probes_disarmed canary_dead nonce_unanswered digest_mismatch never_connected").split():
    case("tamper-" + reason.replace("_", "-"), "the tamper reason %s alone is 20" % reason,
         up(30000) + [at(40000, tamper=[reason, "seen by the session"])], 20, 40000,
         {reason: 1, "score_trip": 1, "score_trip#": 1}, trip_by=reason)
case("tamper-five-trip-once", "five reasons in a row trip once", up() + [
    at(40000, 1000, 5, tamper=["seq_gap", "again"])], 100, 40000, {"seq_gap": 5, "seq_gap#": 2, "score_trip": 1})
case("tamper-in-boot", "what weighs 10 or more scores in boot as well", [
    at(0, boot=True), at(2000, tamper=["bad_mac", "x"])], 20, 2000, {"bad_mac": 1})
case("tamper-unknown-reason", "a reason that nobody knows is garbage, not nothing", up() + [
    at(40000, tamper=["some_new_reason", "x"])], 10, None, {"garbage": 1})
case("garbage", "garbage on the port weighs 10", up() + [at(40000, tamper=["garbage", "no frame"])], 10, None,
     {"garbage": 1, "score_trip": 0})
case("unclean-end", "a VM that just ended weighs 10", up() + [at(40000, tamper=["unclean_end", "reset"])], 10, None,
     {"unclean_end": 1})
lost = [at(40000, frame=frame("supervisor_lost", exe="/usr/bin/kill", sandbox=False, op="signal", signal=9, status=0)),
        at(40500, frame=frame("supervisor_lost", sandbox=False, op="exit", signal=9, status=9))]
case("supervisor-killed", "with the Sentry required, the supervisor's end is 20, signal and exit together", up() + lost,
     20, 40000, {"score_trip": 1}, trip_by="supervisor_lost", required=True)
case("supervisor-killed-best-effort", "with the Sentry at best effort it is 10", up() + lost, 10, None,
     {"score_trip": 0})
case("supervisor-ends-in-shutdown", "a supervisor that goes with the VM is none", up() + [
    at(40000, frame=beat(2, by=1)),
    at(42000, frame=frame("supervisor_lost", exe="/sbin/init", pid=1, sandbox=False, op="exit", signal=0, status=0)),
    at(45000, running=False)], 0, None, {"supervisor_lost": 1, "phase": 2})

# ---- privilege ----
cred = dict(via="exec", syscall=59, old={"uid": 1000, "euid": 1000}, new={"uid": 1000, "euid": 0})
case("cred-gain-strict", "more privilege inside the strict sandbox is 20", up() + [
    at(20000, frame=frame("cred_gain", exe="/usr/bin/sudo", **cred))], 20, 20000, {"cred_gain": 1}, strict=True)
case("cred-gain-strict-outside", "outside the sandbox it is shown and free", up() + [
    at(20000, frame=frame("cred_gain", exe="/usr/bin/sudo", sandbox=False, **cred))], 0, None, {"cred_gain": 1}, strict=True)
case("cred-gain-observe", "sudo at observe is shown and free, however often", up() + [
    at(20000, 500, 40, frame=frame("cred_gain", exe="/usr/bin/sudo", **cred))], 0, None, {"cred_gain": 40, "cred_gain#": 2})

# ---- the kernel ----
load = dict(flags=0, taints="0")
case("module-signed", "a signed module is a note", up() + [
    at(20000, frame=frame("module_load", exe="/sbin/modprobe", name="overlay", signed=True, result=0, **load))],
    0, None, {"module_load": 1})
case("module-unsigned", "an unsigned module is 10", up() + [
    at(20000, frame=frame("module_load", exe="/sbin/insmod", name="evil", signed=False, result=0, **load))],
    10, None, {"module_load": 1})
case("module-refused", "a refused module is 10, two are a trip", up() + [
    at(20000, 5000, 2, frame=frame("module_load", exe="/sbin/insmod", name="evil", signed=False, result=-129, **load))],
    20, 25000, {"module_load": 2}, trip_by="module_load")
case("module-there-already", "EEXIST says nothing", up() + [
    at(20000, 100, 30, frame=frame("module_load", exe="/sbin/modprobe", name="overlay", signed=True, result=-17, **load))],
    0, None, {"module_load": 30})
case("module-unload", "an attempt to unload is 10", up() + [
    at(20000, frame=frame("module_unload", exe="/sbin/rmmod", name="sentry", result=-16, flags=2560))], 10, None,
    {"module_unload": 1})
case("bpf-lsm", "an LSM program weighs 10", up() + [at(20000, frame=bpf(29))], 10, None, {"bpf": 1})
case("bpf-tracing-and-kprobe", "two that can watch the kernel trip", up() + [
    at(20000, frame=bpf(26)), at(21000, frame=bpf(2))], 20, 21000, {"bpf": 2}, trip_by="bpf")
case("bpf-cgroup", "programs for cgroups and sockets weigh 2", up() + [
    at(20000, 1000, 5, frame=bpf(15, exe="/usr/bin/runc"))], 10, None, {"bpf": 5})
case("bpf-by-pid-1", "what systemd loads is free", up() + [
    at(20000, 100, 30, frame=bpf(29, pid=1, exe="/sbin/init", sandbox=False))], 0, None, {"bpf": 30})
case("bpf-maps", "a map is no program", up() + [at(20000, 100, 30, frame=bpf(0, cmd=0))], 0, None, {"bpf": 30})
case("kexec", "an attempt to start another kernel is 10", up() + [
    at(20000, frame=frame("kexec", exe="/sbin/kexec", which="kexec_file_load", result=-1, flags=0))], 10, None, {"kexec": 1})
case("lockdown-raised", "sandboxd raising lockdown is a note", [at(0, boot=True), at(
    900, frame=frame("lockdown", exe="/init", sandbox=False, result=15, level="confidentiality"))], 0, None, {"lockdown": 1})
case("kexec-then-lockdown", "kexec and a refused change of lockdown trip", up() + [
    at(20000, frame=frame("kexec", exe="/sbin/kexec", which="kexec_load", result=-1, flags=0)),
    at(29000, frame=frame("lockdown", exe="/usr/bin/tee", result=-1, level="none"))], 20, 29000, {"kexec": 1, "lockdown": 1},
    trip_by="lockdown")
case("seccomp-log-blinded", "taking errno out of actions_logged is 10", up() + [
    at(20000, frame=frame("seccomp_log", exe="/sbin/sysctl", result=0, names="kill_process", old_names="kill_process errno"))],
    10, None, {"seccomp_log": 1})
case("param-denied", "a refused write to the Sentry's parameters is 10", up() + [
    at(20000, frame=frame("param_denied", exe="/usr/bin/tee", param="phase", value="0"))], 10, None, {"param_denied": 1})
case("cgroup-move", "a process that leaves the sandbox is 10", up() + [
    at(20000, frame=frame("cgroup_move", exe="/bin/bash", op="attach", to=1, target_pid=7, **{"from": 99}))], 10, None,
    {"cgroup_move": 1})
case("tc-change", "plain traffic control is 3", up() + [
    at(20000, 1000, 2, frame=frame("tc_change", exe="/sbin/tc", op="qdisc_add", ifindex=2, device="eth0"))], 6, None,
    {"tc_change": 2})

# ---- the window ----
for_window = lambda t, n: at(t, 10, n, frame=frame("module_load", exe="/sbin/insmod", name="m", signed=False, result=0, **load))
case("window-19-and-19", "19 points at 59 s and 19 at 61 s are 2 s apart", up() + [
    at(59000, event=["prompt_injection", {"host": "a.example", "count": 1}]),
    at(59000, 0, 5, event=["guardrail_block", {"host": "a.example", "guardrail": "g"}]),
    at(59000, frame=frame("ptrace", exe="/usr/bin/gdb", request="attach", target_pid=5)),
    at(59000, 0, 2, event=["flow_denied", {"program": "/usr/bin/a", "dst": "192.0.2.1", "dport": 1}]),
    at(61000, event=["prompt_injection", {"host": "b.example"}]),
    at(61000, 0, 5, event=["guardrail_block", {"host": "b.example", "guardrail": "g"}]),
    at(61000, frame=frame("ptrace", exe="/usr/bin/gdb", request="attach", target_pid=6)),
    at(61000, 0, 2, event=["flow_denied", {"program": "/usr/bin/b", "dst": "192.0.2.2", "dport": 1}])],
    38, 61000, {"prompt_injection": 2, "ptrace": 2, "guardrail_block": 10}, trip_by="prompt_injection")
case("window-inside-by-1ms", "59.999 s apart is within the window", up() + [for_window(20000, 1), for_window(79999, 1)],
     20, 79999, {"module_load": 2})
case("window-outside", "60.000 s apart is not", up() + [for_window(20000, 1), for_window(80000, 1)], 10, None, {"module_load": 2})
case("window-slides", "10 points each 31 s are never more than 20 in a window of 60 s but always 20", up() + [
    at(20000, 31000, 4, frame=frame("kexec", exe="/sbin/kexec", which="kexec_load", result=-1, flags=0))],
    20, 51000, {"kexec": 4, "score_trip": 1})

# ---- denials ----
case("denials-one-program", "30 denials of one program: 5, and 10 for probing", up() + [
    at(20000, 300, 30, frame=deny(path="/root/${i}"))], 15, None, {"sandbox_denied": 30, "sandbox_denied#": 30, "probing": 1})
case("denials-by-count", "counts, not rows: one event of 25", up() + [at(20000, frame=deny(count=25))], 15, None,
     {"sandbox_denied": 25, "sandbox_denied#": 1, "probing": 1})
case("denials-19", "19 denials are not yet probing", up() + [at(20000, frame=deny(count=19))], 5, None, {"probing": 0})
case("denials-over-two-windows", "20 denials in 61 s are not probing", up() + [
    at(20000, frame=deny(count=10)), at(81000, frame=deny(count=10))], 5, None, {"probing": 0, "sandbox_denied": 20})
case("denials-four-programs", "four programs with five each are 20", up() + [
    at(20000 + 1000 * k, 10, 5, frame=deny(exe="/usr/bin/p%d" % k, path="/x/%d/${i}" % k)) for k in range(4)],
    20, 23040, {"sandbox_denied": 20, "probing": 0}, trip_by="sandbox_denied")
case("probing-again-after-300s", "probing is said again after 300 s and not before", up() + [
    at(20000, frame=deny(count=25)), at(120000, frame=deny(count=25)), at(321000, frame=deny(count=25))], 15, None,
    {"probing": 2})
case("denials-folded", "the same denial from three processes is two rows", up() + [
    at(20000, 100, 60, frame=deny(pid="$i"))], 15, None, {"sandbox_denied": 60, "sandbox_denied#": 2})
case("firewall-denials", "30 refused connections: 5 and 10", up() + [
    at(20000, 100, 30, event=["flow_denied", {"program": "/usr/bin/curl", "dst": "192.0.2.9", "dport": 443, "reason": "no rule"}])],
    15, None, {"flow_denied": 30, "flow_denied#": 2, "probing": 1})
case("name-flood", "1 000 made-up names: 5 and 10, and few rows", up() + [
    at(20000, 10, 1000, event=["name_denied", {"program": "/usr/bin/dig", "name": "x${i}.tunnel.example", "reason": "no rule"}])],
    15, None, {"name_denied": 1000, "name_denied#": 513, "probing": 1})

# ---- system calls ----
case("seccomp-seven", "seven refused calls are 21", up() + [at(20000, 1000, 7, frame=seccomp(165))], 21, 26000,
     {"seccomp_denied": 7}, trip_by="seccomp_denied")
case("seccomp-counted", "one event with a count of 7 is 21", up() + [at(20000, frame=seccomp(165, count=7))], 21, 20000,
     {"seccomp_denied": 7, "seccomp_denied#": 1})
case("seccomp-io-uring", "a runtime that tries io_uring 50 times costs 3", up() + [
    at(20000, 100, 50, frame=seccomp(425, exe="/usr/bin/node"))], 3, None, {"seccomp_denied": 50, "probing": 0})
case("seccomp-runtimes", "three kinds of probes of two runtimes cost 18", up() + [
    at(20000 + 100 * k, frame=seccomp(nr, exe=exe)) for k, (nr, exe) in enumerate(
        [(425, "/usr/bin/node"), (319, "/usr/bin/node"), (41, "/usr/bin/node"), (425, "/usr/bin/bun"),
         (319, "/usr/bin/bun"), (41, "/usr/bin/bun"), (425, "/usr/bin/node"), (41, "/usr/bin/bun")])], 18, None,
    {"seccomp_denied": 8})
case("seccomp-strace", "strace and gdb under strict, a few refused requests each, cost 6", up() + [
    at(20000, 100, 5, frame=seccomp(101, exe="/usr/bin/strace")), at(21000, 100, 3, frame=seccomp(101, exe="/usr/bin/gdb"))],
     6, None, {"seccomp_denied": 8, "probing": 0})
case("seccomp-ptrace-probing", "twenty refused traces of one program are probing", up() + [
    at(20000, 100, 20, frame=seccomp(101, exe="/opt/agent"))], 13, None, {"seccomp_denied": 20, "probing": 1})
case("seccomp-logged-only", "an action that only logs refuses nothing", up() + [
    at(20000, 100, 50, frame=seccomp(165, action=0x7FFC0000))], 0, None, {"seccomp_denied": 50})

# ---- mounts and namespaces ----
case("mounts-one-subtree", "50 mounts below one command are 2", up() + [
    at(19000, frame=exec_(pid=5000, path="/usr/bin/docker", parents=(4000, 3000)))] + [
    at(20000, 100, 50, frame=mount(5000, 4000, "/var/lib/docker/${i}"))], 2, None, {"mount": 50, "exec": 1})
case("mounts-and-namespaces", "mount, unshare and setns below one command are 6", up() + [
    at(19000, frame=exec_(pid=5000, path="/usr/bin/podman", parents=(4000,))),
    at(20000, frame=mount(5000, 4000)), at(20100, frame=frame("unshare", pid=5000, ppid=4000, op="unshare", flags=131072)),
    at(20200, frame=frame("setns", pid=5000, ppid=4000, flags=0, result=0))], 6, None, {"mount": 1, "unshare": 1, "setns": 1})
case("mounts-many-subtrees", "ten unrelated commands that mount are 20", up() + [
    at(20000, 1000, 10, frame=frame("mount", pid="$i", ppid=0, start_ns="$i", exe="/bin/mount", target="/mnt",
                                    fstype="tmpfs", flags=0, op="mount"))],
    18, None, {"mount": 10})
case("mounts-by-pid-1", "what pid 1 mounts is free", up() + [
    at(20000, 100, 40, frame=frame("mount", pid=1, ppid=0, exe="/sbin/init", sandbox=False, target="/run/${i}",
                                   fstype="tmpfs", flags=0, op="mount"))], 0, None, {"mount": 40})
case("forked-child-mounts", "a child without an exec of its own belongs to its parent's subtree", up() + [
    at(19000, frame=exec_(pid=5000, path="/usr/bin/unshare", parents=(4000,))),
    at(20000, 100, 9, frame=frame("mount", pid="$i", ppid=5000, exe="/usr/bin/unshare", target="/t", fstype="", flags=0,
                                  op="mount"))], 2, None, {"mount": 9})

# ---- phases ----
case("boot-exempt", "mounts and denials of the boot are seen and not scored", [
    at(0, boot=True), at(100, frame=HELLO), at(500, 100, 30, frame=frame(
        "mount", pid="$i", ppid=1, exe="/usr/bin/mount", sandbox=False, target="/a/${i}", fstype="ext4", flags=0, op="mount")),
    at(4000, frame=deny(count=50, exe="/usr/bin/df")), at(5000, frame=beat(1, by=300))], 10, None,
    {"mount": 30, "sandbox_denied": 50, "probing": 1, "phase": 1})
case("boot-kexec", "kexec in boot scores", [at(0, boot=True), at(3000, 1000, 2, frame=frame(
    "kexec", exe="/sbin/kexec", which="kexec_load", result=-1, flags=0))], 20, 4000, {"kexec": 2})
case("boot-slow", "after 90 s the boot is a session", [
    at(0, boot=True), at(100, frame=HELLO), at(1000, 1000, 120, frame=beat(0)),
    at(122000, 100, 9, frame=frame("mount", pid="$i", start_ns="$i", ppid=0, exe="/bin/mount", target="/m", fstype="", flags=0, op="mount"))],
    16, None, {"boot_slow": 1, "mount": 9})
case("shutdown-clean", "a shutdown that ends in time costs nothing", up() + [
    at(100000, frame=beat(2, by=1)),
    at(101000, 100, 40, frame=frame("mount", pid="$i", start_ns="$i", ppid=0, exe="/bin/umount", target="/m", fstype="", flags=0, op="mount")),
    at(112000, running=False), at(700000, tick=True)], 0, None, {"mount": 40, "exempt_scored": 0, "shutdown_slow": 0})
case("shutdown-abused", "a VM that stays 20 s after its shutdown has all of it scored", up() + [
    at(100000, frame=beat(2, by=666)),
    at(101000, 100, 12, frame=frame("mount", pid="$i", start_ns="$i", ppid=0, exe="/bin/mount", target="/m", fstype="", flags=0, op="mount")),
    at(121000, tick=True)], 22, 120000, {"exempt_scored": 1, "shutdown_slow": 1, "mount": 12}, trip_by="exempt_scored")
case("phase-never-back", "a phase goes one way, whatever is said", up() + [
    at(100000, frame=beat(2, by=1)), at(101000, frame=beat(1, by=1)), at(102000, frame=beat(0, by=1)),
    at(103000, frame=deny(count=5))], 0, None, {"phase": 2, "sandbox_denied": 5})

# ---- counters ----
case("dropped-grows", "growth of dropped events is 2 a window", up() + [
    at(20000 + 1000 * k, frame=beat(1, kinds={"mount": k + 1})) for k in range(10)] + [
    at(90000, frame=beat(1, kinds={"mount": 50}))], 2, None, {"dropped": 11, "dropped#": 3})
case("dropped-execs", "dropped execs, exits and flows are no sign", up() + [
    at(20000, frame=beat(1, kinds={"exec": 5000, "exit": 5000, "net_flow": 900}))], 0, None, {"dropped": 0})
case("rate-limited", "two kinds over their rate are one signal", up() + [
    at(20000, frame=beat(1, limited={"mount": 100, "setns": 5, "exec": 9999}))], 2, None, {"rate_limited": 2})
case("missed-grows", "missed probe hits are 2", up() + [at(20000, frame=beat(1, missed=7)), at(21000, frame=beat(1, missed=9))],
     2, None, {"missed": 2})
case("counters-still", "counters that stand still say nothing", up() + [
    at(20000, frame=beat(1, missed=7, limited={"mount": 3})), at(21000, 1000, 300, frame=beat(1, missed=7, limited={"mount": 3}))],
    4, None, {"missed": 1, "rate_limited": 1})

# ---- volume and first contact ----
case("volume-burst", "6 MB/s after quiet minutes is 8", up() + [
    at(10000 + 1000 * k, volume=10000 * k) for k in range(130)] + [at(140000, volume=10000 * 130 + 6000000)], 8, None,
    {"volume": 1})
case("volume-steady", "a long upload is 8 once, until it is the usual", up() + [
    at(10000 + 1000 * k, volume=6000000 * k) for k in range(200)], 8, None, {"volume": 1})
case("volume-small", "3 MB/s is nothing", up() + [at(10000 + 1000 * k, volume=3000000 * k) for k in range(60)], 0, None,
     {"volume": 0})
flow = lambda name: ["flow_allowed", {"program": "/usr/bin/curl", "name": name, "dst": "192.0.2.1", "dport": 443, "proto": "tcp"}]
case("first-contact", "a new destination costs 1 after ten minutes, once", up() + [
    at(300000, event=flow("early.example")), at(700000, event=flow("late.example")),
    at(701000, 100, 20, event=flow("late.example")), at(702000, event=flow("early.example"))], 1, None,
    {"first_contact": 1, "flow_allowed": 23})
case("first-contact-many", "twenty new destinations within a minute are 20", up() + [
    at(700000, 1000, 20, event=flow("h${i}.example"))], 20, 719000, {"first_contact": 20}, trip_by="flow_allowed")

# ---- proxy and policy ----
case("exfiltration-twice", "two attempts to send out a credential trip", up() + [
    at(20000, event=["credential_refused", {"credential": "github", "host": "evil.example", "program": "/usr/bin/curl"}]),
    at(40000, event=["credential_refused", {"credential": "npm", "host": "evil.example", "program": "/usr/bin/curl"}])],
    20, 40000, {"credential_refused": 2}, trip_by="credential_refused")
case("kernel-access", "each way of reaching into the kernel is 5, four are a trip", up() + [
    at(20000, 1000, 4, frame=frame("kernel_access", pid="$i", exe="/usr/bin/dd", what="way${i}", result=0))], 20, 23000,
    {"kernel_access": 4})
case("dest-refused", "an address that no rule allows costs 1, five at most by one program", up() + [
    at(20000, 1000, 8, event=["dest_refused", {"program": "/usr/bin/curl", "dst": "192.0.2.${i}"}])], 5, None,
    {"dest_refused": 8})
case("requests-refused", "a request that no rule allows costs 1", up() + [
    at(20000, 1000, 3, event=["request_denied", {"program": "/usr/bin/gh", "host": "api.example.org", "path": "/${i}"}])], 3,
    None, {"request_denied": 3})
case("leak-and-injection", "an unmanaged credential and two injections are 14", up() + [
    at(20000, event=["credential_leak", {"host": "x.example", "shape": "GitHub token"}]),
    at(21000, 1000, 2, event=["prompt_injection", {"host": "x.example", "pattern": "ignore previous"}])], 14, None,
    {"credential_leak": 1, "prompt_injection": 2})
case("identity-changed", "a program that is not what was pinned is 10", up() + [
    at(20000, event=["identity_changed", {"program": "/usr/bin/git", "text": "other hash"}]),
    at(21000, event=["identity_updated", {"program": "/usr/bin/node"}])], 10, None,
    {"identity_changed": 1, "identity_updated": 1})
case("container-forged", "a forged mark is 10", up() + [at(20000, event=["container_forged", {"program": "/tmp/x"}])], 10,
     None, {"container_forged": 1})

# ---- configuration ----
case("weights", "weights are configuration", up() + [
    at(20000, 100, 9, frame=frame("ptrace", exe="/usr/bin/gdb", request="attach", target_pid=5))], 0, None, {"ptrace": 9},
    config={"weights": {"ptrace": 0}})
case("threshold", "so is the threshold", up() + [
    at(20000, 1000, 3, frame=frame("kexec", exe="/sbin/kexec", which="kexec_load", result=-1, flags=0))], 30, 22000,
    {"kexec": 3}, config={"threshold": 30})
case("muted", "a muted program costs nothing, another does", up() + [
    at(20000, 100, 20, frame=frame("ptrace", exe="/usr/bin/gdb", request="attach", target_pid=5)),
    at(25000, frame=frame("ptrace", exe="/usr/bin/other", request="attach", target_pid=5))], 3, None, {"ptrace": 21},
    config={"mutes": [{"signal": "ptrace", "program": "/usr/bin/gdb"}]})

# ---- restarts, pauses, release ----
bad = lambda t: at(t, frame=frame("kexec", exe="/sbin/kexec", which="kexec_load", result=-1, flags=0))
case("restart-of-hostd", "the window survives hostd", up() + [bad(20000), at(30000, restart=True), bad(45000)], 20, 45000,
     {"kexec": 2})
case("restart-stays-tripped", "so does the trip", up() + [
    at(20000, tamper=["seq_gap", "x"]), at(30000, restart=True), at(31000, tamper=["silence", "x"])], 40, 20000,
    {"seq_gap": 1, "silence": 1, "score_trip": 1})
case("restart-of-the-vm", "the window survives a new boot", up() + [
    bad(20000), at(25000, running=False), at(26000, boot=True), bad(40000)], 20, 40000, {"kexec": 2})
case("pause", "a paused VM does not wait its window out", up() + [
    bad(20000), at(30000, running=False), at(630000, running=True), bad(640000)], 20, 640000, {"kexec": 2})
case("release", "a release begins a new window; the next trip is one", up() + [
    at(20000, tamper=["seq_gap", "x"]), at(25000, release=True), bad(26000), bad(27000)], 20, 20000,
    {"released": 1, "score_trip": 2, "kexec": 2}, trips=2)
case("low-and-slow", "five points every 70 s never trip, but are said", up() + [
    at(20000, 70000, 60, frame=deny(exe="/usr/bin/p${i}", count=5))], 5, None, {"slow_score": 1, "sandbox_denied": 300})

# ---- who traces whom ----
case("ptrace-own-forks", "a debugger and the programs it starts score once a window", up() + [
    at(19000, frame=exec_(7000, "/usr/bin/strace", ["strace", "-f", "make"], ())),
    at(20000, 100, 50, frame=trace(7000, 1, "$i", "/usr/bin/strace")),
    at(30000, 100, 9, frame=trace("$i", 7000, 7000, "/usr/bin/strace", "traceme"))], 3, None, {"ptrace": 59})
case("ptrace-own-program", "so does a program that was started below the same command", up() + [
    at(19000, frame=exec_(7000, "/bin/bash", ["bash"], ())),
    at(19100, frame=exec_(7001, "/usr/bin/server", parents=(7000,))),
    at(19200, frame=exec_(7002, "/usr/bin/gdb", parents=(7000,))),
    at(20000, 100, 9, frame=trace(7002, 7000, 7001, young=False))], 3, None, {"ptrace": 9})
case("ptrace-of-another-command", "a process of another command each time, however young it is", up() + [
    at(19000, frame=exec_(7000, "/tmp/x", ["x"], ())),
    at(19100, frame=exec_(7100, "/usr/bin/ssh-agent", ["ssh-agent"], ())),
    at(20000, 100, 9, frame=trace(7000, 1, 7100, "/tmp/x"))], 27, 20600, {"ptrace": 9, "score_trip": 1}, trip_by="ptrace")
case("ptrace-of-older-forks", "so does one that was there before its tracer and was never seen to exec", up() + [
    at(19000, frame=exec_(7000, "/tmp/x", ["x"], ())),
    at(20000, 100, 9, frame=trace(7000, 1, "$i", "/tmp/x", young=False))], 27, 20600, {"ptrace": 9}, trip_by="ptrace")
case("ptrace-me-of-a-stranger", "a traceme that names another parent is no debugger's child", up() + [
    at(20000, 100, 7, frame=trace(7000, 6999, 5, "/tmp/x", "traceme"))], 21, 20600, {"ptrace": 7}, trip_by="ptrace")

# ---- what is nobody's doing ----
case("supervisor-starts-commands", "the supervisor's mounts and namespaces for each command cost nothing", up() + [
    at(20000, 1000, 20, frame=frame("unshare", pid="$i", ppid=300, exe="/init", op="unshare", flags=131072)),
    at(20100, 1000, 20, frame=frame("mount", pid="$i", ppid=300, exe="/init", op="mount", target="/")),
    at(20200, 1000, 20, frame=frame("setns", pid=400, ppid=300, exe="/usr/bin/helper", sandbox=False, flags=0, result=0))],
    0, None, {"unshare": 20, "mount": 20, "setns": 20})
case("supervisor-after-a-slow-boot", "a boot that took too long does not make the supervisor's work for commands cost", [
    step for step in up() if step["t"] < 5000] + [at(10000, 1000, 90, frame=beat(0))] + [at(100000, frame=beat(1, by=300))] + [
    at(110000, 1000, 20, frame=frame("unshare", pid="$i", ppid=300, exe="/init", op="unshare", flags=131072)),
    at(110100, 1000, 20, frame=frame("mount", pid="$i", ppid=300, exe="/init", op="mount", target="/"))],
    0, None, {"unshare": 20, "mount": 20, "boot_slow": 1})
case("commands-are-subtrees", "two commands of the supervisor are two subtrees, not one", up() + [
    at(20000, frame=exec_(7000, "/bin/bash", ["bash"], (300,))),
    at(20100, frame=exec_(7100, "/bin/bash", ["bash"], (300,))),
    at(21000, 100, 3, frame=mount(7001, 7000)), at(22000, 100, 3, frame=mount(7101, 7100)),
    at(23000, frame=trace(7000, 300, 7100, "/bin/bash"))], 7, None, {"mount": 6, "ptrace": 1})
case("supervisor-impersonated", "its name and its parent help no command that has begun", up() + [
    at(19000, frame=exec_(8000, "/init", ["/init"], (300,))),
    at(20000, 1000, 5, frame=frame("mount", pid=8000, ppid=300, exe="/init", op="mount", target="/mnt")),
    at(20000, 1000, 5, frame=frame("mount", pid=8001, ppid=299, exe="/init", sandbox=False, op="mount", target="/mnt"))],
    4, None, {"mount": 10})
case("pycache", "a Python that may not keep what it compiled is no prober", up() + [
    at(20000, 100, 40, frame=deny(exe="/usr/bin/gdb", op="mkdir", path="/usr/share/gdb/d${i}/__pycache__"))], 1, None,
    {"sandbox_denied": 40, "probing": 0})
case("pycache-of-a-prober", "what else it is refused counts as ever", up() + [
    at(20000, 100, 10, frame=deny(exe="/usr/bin/gdb", op="mkdir", path="/usr/share/gdb/d${i}/__pycache__")),
    at(22000, 100, 10, frame=deny(exe="/usr/bin/gdb", path="/root/${i}"))], 15, None,
    {"sandbox_denied": 20, "probing": 1})

# ---- ordinary work ----
case("rate-500-execs", "500 program starts a second for a minute are nothing by volume alone", up() + [
    at(20000, 2, 30000, frame=exec_(pid="$i", path="/usr/bin/cc1", parents=(4000,)))], 0, None, {"exec": 30000})
case("rate-500-flows", "500 flows a second are nothing, and two rows", up() + [
    at(20000, 2, 10000, frame=frame("net_flow", pid="$i", exe="/usr/bin/node", proto="tcp", family=4, sport=4000, dst="192.0.2.5",
                                    dport=443, count=1, cookie="$i", chain=chain(4000)))], 0, None,
    {"net_flow": 10000, "net_flow#": 2})
day = up() + [
    # apt through sudo
    at(19000, frame=exec_(4000, "/bin/bash", ["bash", "day"], (), start_ns=1)),
    at(20000, frame=exec_(5001, "/usr/bin/sudo", ["sudo", "apt-get", "install", "jq"], (4000,))),
    at(20010, frame=frame("cred_gain", pid=5001, exe="/usr/bin/sudo", ppid=4000, **cred)),
    at(20100, 20, 200, frame=exec_("$i", "/usr/bin/dpkg", ["dpkg", "--unpack"], (5001, 4000))),
    at(21000, frame=frame("unshare", pid=5001, ppid=4000, exe="/usr/lib/apt/methods/http", op="unshare", flags=0)),
    # npm ci
    at(30000, frame=exec_(5100, "/usr/bin/node", ["npm", "ci"], (4000,))),
    at(30100, 5, 1500, frame=exec_("$i", "/usr/bin/node", ["node", "install.js"], (5100, 4000))),
    at(30200, 10, 300, event=flow("registry.example")),
    at(30300, 100, 3, frame=seccomp(425, exe="/usr/bin/node")),
    # make -j, git
    at(40000, 3, 3000, frame=exec_("$i", "/usr/bin/cc1", ["cc1", "x.c"], (5200, 4000))),
    at(50000, 20, 40, frame=exec_("$i", "/usr/bin/git", ["git", "status"], (4000,))),
    # gdb and strace
    at(51000, frame=exec_(5301, "/usr/bin/gdb", parents=(4000,))),
    at(51000, frame=exec_(5303, "/usr/bin/strace", parents=(4000,))),
    at(52000, frame=trace(5302, 5301, 5301, "/usr/bin/gdb", "traceme")),
    at(52100, frame=trace(5301, 4000, 5302, "/usr/bin/gdb")),
    at(55000, frame=trace(5303, 4000, 5304, "/usr/bin/strace")),
    at(55100, frame=trace(5305, 5303, 5303, "/usr/bin/strace", "traceme")),
    at(55200, frame=trace(5303, 4000, 5306, "/usr/bin/strace")),
    # a container: shim below pid 1
    at(60000, frame=exec_(5400, "/usr/bin/containerd-shim", ["shim"], ())),
    at(60100, 20, 40, frame=mount(5400, 1, "/var/lib/${i}")),
    at(60200, 20, 5, frame=frame("unshare", pid=5400, ppid=1, op="clone", flags=0)),
    at(60300, 20, 5, frame=frame("setns", pid=5400, ppid=1, flags=0, result=0)),
    at(60400, 20, 1, frame=bpf(15, pid=5400, exe="/usr/bin/runc")),
    # chromium's sandbox, below the agent's shell
    at(85000, 100, 6, frame=frame("unshare", pid=5500, ppid=4000, exe="/usr/bin/chromium", op="unshare", flags=0)),
    at(80000, 1000, 30, frame={**beat(1), "rate_limited": {"exec": "$i"}}),
]
case("developers-day", "apt, npm ci, make -j, git, gdb, strace, a container and a browser within 90 s", day, 16, None,
     {"ptrace": 5, "mount": 40, "cred_gain": 1, "score_trip": 0})

# ---- attacks as they come ----
case("attack-root-blinds", "root turns ftrace off, loads BPF, then its canary dies", up() + [
    at(60000, frame=frame("cred_gain", exe="/usr/bin/sudo", **cred)),
    at(61000, frame=bpf(29, exe="/tmp/muzzle")),
    at(62000, tamper=["canary_dead", "ftrace no longer fires"])], 30, 62000, {"cred_gain": 1, "bpf": 1, "canary_dead": 1},
    trip_by="canary_dead")
case("attack-postinstall", "a postinstall that looks for keys and calls home", up() + [
    at(60000, frame=exec_(6000, "/usr/bin/node", ["node", "postinstall.js"], (5100, 4000))),
    at(60500, 50, 40, frame=deny(pid=6000, exe="/usr/bin/node", path="/root/.ssh/${i}")),
    at(63000, 100, 3, event=["request_denied", {"program": "/usr/bin/node", "host": "telemetry.example", "method": "POST", "path": "/v1", "reason": "no rule"}]),
    at(64000, event=["credential_refused", {"program": "/usr/bin/node", "host": "telemetry.example", "credential": "npm"}])],
    25, 64000, {"sandbox_denied": 40, "probing": 1, "request_denied": 3, "credential_refused": 1},
    trip_by="credential_refused")
case("attack-stays-below", "an attacker who knows the window is seen over hours", up() + [
    at(20000, 61000, 40, frame=frame("ptrace", exe="/tmp/x", request="attach", target_pid=5))], 3, None,
    {"ptrace": 40, "slow_score": 1})


def main():
    for name, body in cases.items():
        with open(os.path.join(HERE, name + ".json"), "w") as f:
            json.dump(body, f, indent=None, separators=(",", ":"), sort_keys=True)
            f.write("\n")
    print(len(cases), "replays")


if __name__ == "__main__":
    main()
