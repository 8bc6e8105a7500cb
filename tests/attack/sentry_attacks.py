#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest root against the Sentry: each attempt by name, with what must come of it at each lockdown level; TAP.

sentry_attacks.py SERIES... [--table FILE] [--cpus N] [--keep DIR | --kept DIR]

For each attempt:
  baseline   what comes of it in the same guest without Sentry, lockdown and latches (it must work there, or the
             attempt proves nothing); None where the attempt is about being seen
  result     what comes of it at each level: an errno is a latch, "worked" is not
  alert      what the host sees: members of a frame, or a function of the run that says what it found ("" for nothing)
Attempts that end the guest, or that need a boot of their own, stand in BOOTS. The first boot builds what all need.
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
spec = importlib.util.spec_from_file_location("rig", os.path.join(ROOT, "tests/vm/sentry-rig/rig.py"))
rig = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rig)

LEVELS = ("integrity", "confidentiality")


class Run:
    """One boot: what the attempts printed and what the stream holds."""

    def __init__(self, console, stream):
        self.console, self.stream, self.results, self.pids, self.times = console, stream, {}, {}, {}
        for line in console.splitlines():
            part = line.strip().split("\t")
            if part[0] == "attack-begins":
                self.pids[part[1]] = int(part[2])
                self.results.setdefault(part[1], "did not return")
                self.times[part[1]] = [int(part[3])] * 2
            elif part[0] == "attack":
                self.results[part[1]] = part[4]
                self.times[part[1]][1] = int(part[3])

    def worst_beat(self, name):
        """Longest time between two heartbeats around the attempt, in seconds."""
        begin, end = self.times.get(name, (0, 0))
        beats = [f["t"] for f in self.stream.beats()]
        near = [b - a for a, b in zip(beats, beats[1:]) if b >= begin and a <= end]
        return max(near) / 1e9 if near else 99

    def frames(self, name, wanted):
        """Frames with these members; "PID" stands for the attempt's."""
        wanted = json.loads(json.dumps(wanted).replace('"PID"', str(self.pids.get(name, -1))))
        return [f for f in self.stream.frames if rig.fits(wanted, f)]


def late_or_not_starved(run, name):
    """6.12 keeps a share for other classes (the fair server), so that a hog does not starve the thread there."""
    worst = run.worst_beat(name)
    return "late heartbeat, %.1f s" % worst if worst >= 3 else "heartbeats go on"


def beats_go_on(run, name):
    return "heartbeats go on" if run.worst_beat(name) < 3 else ""


def missed_or_all_counted(run, name):
    """6.12 makes room for more instances than it was asked for; then no open is lost."""
    missed = [f["probes"]["missed"] for f in run.stream.beats()]
    opens = [f["sandbox"]["allowed_file_ops"] for f in run.stream.beats()]
    if missed and missed[-1] > missed[0]:
        return "probes.missed grows to %d" % missed[-1]
    return "no open is missed" if opens and opens[-1] - opens[0] >= 600 else ""


def exec_seen_or_counted(run, name):
    limited = [f["rate_limited"].get("exec", 0) for f in run.stream.beats()]
    if any("hidden" in f.get("argv", []) for f in run.stream.frames if f["type"] == "exec"):
        return "exec event"
    return "rate_limited.exec grows by %d" % (limited[-1] - limited[0]) if limited[-1] > limited[0] else ""


def phase_named(run, name):
    found = run.frames(name, {"type": "heartbeat", "phase": 2, "phase_set_by": {"pid": "PID"}})
    return "heartbeat names who declared shutdown" if found else ""


def canaries_dead(run, name):
    dead = {c for f in run.stream.beats() for c, alive in f["canary"].items() if not alive}
    return "canary dead: " + ", ".join(sorted(dead)) if dead else ""


def hooks_dead(run, name):
    dead = {c for f in run.stream.beats() for c, answered in f["selftest"].items() if not answered}
    return canaries_dead(run, name) + ("; self-test silent: " + ", ".join(sorted(dead)) if dead else "")


def ends_unclean(run, name):
    phases = [f["phase"] for f in run.stream.beats()]
    return "stream ends in phase 1" if phases and phases[-1] == 1 and "init: done" not in run.console else ""


def event(**members):
    return dict(members, pid="PID")


def attempt(name, text, result, alert=None, baseline="worked", how="run", both=None):
    levels = {"integrity": result, "confidentiality": result}
    if both:
        levels = dict(zip(LEVELS, both))
    return {"name": name, "text": text, "result": levels, "alert": alert, "baseline": baseline, "how": how}


def access(what):
    return event(type="kernel_access", what=what)


REFUSED = ("EPERM", "EACCES", "EBUSY", "EINVAL")

# In the order in which they run; those that cannot be undone come last.
ATTEMPTS = [
    attempt("lower-lockdown", "write none to lockdown", REFUSED, event(type="lockdown", level="none"), None),
    attempt("kprobes-off", "debugfs kprobes/enabled=0", ("EPERM",), access("debugfs")),
    attempt("ftrace-off", "kernel.ftrace_enabled=0", ("EBUSY",)),
    attempt("kprobe-events", "a kprobe of one's own through tracefs", None, access("tracefs"), both=("worked", ("EPERM",))),
    attempt("function-tracer", "the function tracer", None, access("tracefs"), both=("worked", ("EPERM",)), baseline=None),
    attempt("perf-kprobe", "a kprobe of one's own through perf", None, access("kprobes"), both=("worked", ("EPERM", "EACCES"))),
    attempt("modules-enable", "modules_disabled back to 0", REFUSED, None, None),
    attempt("kexec-enable", "kexec_load_disabled back to 0", REFUSED, None, None),
    attempt("load-signed", "load a module that the distribution signed", ("EPERM",), event(type="module_load", op="finit_module", result=-1)),
    attempt("load-unsigned", "load an unsigned module", ("EPERM",), event(type="module_load", op="finit_module", result=-1), baseline=None),
    attempt("load-copy", "the same through init_module", ("EPERM",), event(type="module_load", op="init_module", result=-1), baseline=None),
    attempt("load-32", "the same through the 32-bit entry", ("EPERM",), event(type="module_load", compat=True, result=-1), baseline=None),
    attempt("livepatch", "replace a function of the kernel by a live patch", ("EPERM",),
            event(type="module_load", op="finit_module", result=-1)),
    attempt("unload-sentry", "rmmod sentry", ("EPERM", "EBUSY", "EAGAIN"), event(type="module_unload", name="sentry"), None),
    attempt("unload-sentry-forced", "rmmod -f sentry", ("EPERM",), event(type="module_unload", name="sentry", flags=2560), None),
    attempt("unload-sentry-32", "rmmod -f sentry through the 32-bit entry", ("EPERM",), event(type="module_unload", name="sentry", compat=True), None),
    attempt("unload-vsock-forced", "rmmod -f of the transport", ("EPERM",), event(type="module_unload", name="vsock_loopback"), None),
    attempt("read-kcore", "read kernel memory through /proc/kcore", None, access("kcore"), both=("worked", ("EPERM",))),
    attempt("open-mem", "/dev/mem", ("EPERM", "EACCES"), access("dev_mem")),
    attempt("open-port", "/dev/port", ("EPERM", "ENOENT"), None, None),
    attempt("iopl", "iopl(3)", ("EPERM",), access("ioport")),
    attempt("ioperm", "ioperm", ("EPERM",), access("ioport")),
    attempt("write-msr", "write a model-specific register", ("EPERM",), access("msr")),
    attempt("write-pci-config", "write a device's PCI configuration through sysfs", ("EPERM",)),
    attempt("hibernate", "open the snapshot device of hibernation", ("EPERM",)),
    attempt("kexec-load", "kexec_load of another kernel", ("EPERM",), event(type="kexec", which="kexec_load"), None),
    attempt("kexec-file-load", "kexec_file_load of another kernel", ("EPERM",), event(type="kexec", which="kexec_file_load"), None),
    attempt("bpf-read-kernel", "a BPF program that reads kernel memory", None, event(type="bpf", prog_type=2, prog_name="reader"), both=("worked", ("EINVAL", "EPERM"))),
    attempt("bpf-write-user", "a BPF program that writes user memory", ("EINVAL", "EPERM"), event(type="bpf", prog_type=2, prog_name="writer")),
    attempt("bpf-lsm", "a BPF LSM program", None, event(type="bpf", prog_type=29), None, both=(None, None)),
    attempt("bpf-fentry", "a BPF fentry program", None, event(type="bpf", prog_type=26), None, both=(None, None)),
    attempt("bpf-cgroup", "a BPF program on the root cgroup's egress", "worked", event(type="bpf", cmd=8)),
    attempt("sandbox-other", "point sandbox_cgroup elsewhere", ("EPERM",), event(type="param_denied", param="sandbox_cgroup"), None),
    attempt("level-down", "set level to observe", ("EPERM",), event(type="param_denied", param="level", value="observe"), None),
    attempt("phase-back", "set phase back to boot", ("EPERM",), event(type="param_denied", param="phase"), None),
    attempt("read-boot-key", "read the boot key's parameter", ("ENOENT",), None, None),
    attempt("kill-thread", "kill -STOP and -KILL the thread", "no effect", beats_go_on, None),
    attempt("freeze-thread", "freeze the thread's cgroup", ("EINVAL",), beats_go_on),
    attempt("pin-thread", "move the thread to one CPU", ("EINVAL",), beats_go_on),
    attempt("throttle-thread", "leave the thread 1 ms of CPU a second", ("EINVAL",), beats_go_on),
    attempt("kill-everyone", "kill every process of user space", "worked", beats_go_on, None),
    attempt("steal-channel", "take the Sentry's socket out of a process", "no effect", beats_go_on, None),
    attempt("actions-logged", "take errno out of the seccomp log", "worked", event(type="seccomp_log"), "worked"),
    attempt("ptrace-32", "ptrace through the 32-bit entry", "worked", event(type="ptrace", compat=True), "worked"),
    attempt("stop-supervisor", "stop the supervisor (SIGSTOP)", "worked", None, None),
    attempt("kill-supervisor", "kill the supervisor", "worked", event(type="supervisor_lost", op="signal", signal=9), None),
    attempt("supervisor-other", "name another supervisor", ("EPERM",), event(type="param_denied", param="supervisor_pid"), None),
    attempt("leave-sandbox", "move oneself out of the sandbox", "worked", event(type="cgroup_move", op="attach"), "worked", "sandbox"),
    attempt("clone-out", "clone a child into another cgroup", "worked", event(type="cgroup_move", op="fork"), "worked", "sandbox"),
    attempt("spoof-comm", "connect under the name of another program", "worked", event(type="net_flow", dport=6001, comm="git", exe="/bin/drive"), None),
    attempt("cover-name", "connect as a file mounted over another's name", "worked", {"type": "net_flow", "dport": 6002, "foreign_root": True}, None),
    attempt("chroot-name", "connect from a chroot that looks like /", "worked", {"type": "net_flow", "dport": 6003, "foreign_root": True}, None),
    attempt("long-path", "connect from a path too long to report", "worked", {"type": "net_flow", "dport": 6004, "exe": "", "exe_unknown": True}, None),
    attempt("rename-self", "rename the program before it connects", "worked", {"type": "net_flow", "dport": 6005, "exe": "/tmp/npm", "exe_changed": True}, None),
    attempt("double-fork", "cut the chain by a double fork", "worked", {"type": "net_flow", "dport": 6006, "exe": "/bin/drive", "chain": [{"pid": 1}]}, None),
    attempt("packet-frame", "send frames of one's own making", "worked", event(type="net_flow", proto="packet"), None),
    attempt("change-clock", "set the clock a day ahead", "worked", beats_go_on, "worked"),
    attempt("use-up-instances", "hold 600 opens to use up return-probe instances", "worked", missed_or_all_counted, "worked", "sandbox"),
    attempt("hide-in-flood", "hide an exec in a flood of them", "worked", exec_seen_or_counted, None),
    attempt("hide-in-fold", "hide a datagram among four thousand to another port", "worked", event(type="net_flow", proto="udp", dport=6012, dst="192.0.2.1"), None),
    attempt("eat-memory", "use up all memory", "worked", beats_go_on, "worked"),
    attempt("phase-early", "declare shutdown early", "worked", phase_named, None),
    attempt("starve-thread", "hog the CPU above real-time priority, the thread demoted", "worked", late_or_not_starved, None),
]

def own(name, text, result, alert, level):
    return {"name": name, "text": text, "result": {level: result}, "alert": alert, "level": level}


# Boots for attempts that end the guest or need one of their own: settings, lines, what is judged.
BOOTS = [
    ("lockdown confidentiality;latch;early /bin/drive attack early-fd", "sleep 12000;run /bin/drive attack crash", [
        own("early-fd", "kprobes/enabled=0 through a descriptor opened before lockdown", "worked", hooks_dead, "confidentiality"),
        own("crash", "crash the kernel (sysrq c)", "did not return", ends_unclean, "confidentiality")]),
    ("lockdown confidentiality;latch", "run /bin/drive attack power-off", [
        own("power-off", "power off without a word", "did not return", ends_unclean, "confidentiality")]),
    ("lockdown integrity", "run /bin/drive attack livepatch", [
        own("livepatch", "replace a function of the kernel where modules are not latched", ("EPERM",),
            event(type="module_load", op="finit_module", result=-1), "integrity, not latched")]),
    ("", "run /bin/drive attack kprobes-off;sleep 3000;run /bin/drive attack unload-sentry-forced;run /bin/drive noop", [
        own("kprobes-off", "debugfs kprobes/enabled=0 where lockdown is not raised", "worked", hooks_dead, "none"),
        own("unload-sentry-forced", "rmmod -f sentry where modules are not latched", None, ends_unclean, "none")]),
]


def lines_of(attempts):
    """Time for one more heartbeat after those of which only the heartbeats tell."""
    return ";".join("%s /bin/drive attack %s%s" % (a["how"], a["name"], ";sleep 1500" if a["alert"] is beats_go_on else "")
                    for a in attempts)


def result_fits(wanted, seen):
    if wanted is None:
        return True
    if isinstance(wanted, tuple):
        return seen in wanted
    return seen == wanted


def say(wanted):
    return "refused" if isinstance(wanted, tuple) else "any" if wanted is None else wanted


HARMLESS = ("heartbeats go on", "no open is missed")


class Table:
    def __init__(self):
        self.rows = []

    def add(self, name, text, level, baseline, result, alert):
        self.rows.append((name, text, level, baseline, result, alert))

    def write(self, out, release):
        out.write("\n## On %s\n\n" % release)
        out.write("| attempt | what | level | without Sentry and latches | result | what the host sees | |\n|---|---|---|---|---|---|---|\n")
        for name, text, level, baseline, result, alert in self.rows:
            latch = result not in ("worked", "did not return", "no effect")
            verdict = " and ".join(["latch"] * latch + ["alert"] * bool(alert and alert not in HARMLESS)) or \
                ("no effect" if alert else "**not detected**")
            out.write("| %s | %s | %s | %s | %s | %s | %s |\n" % (name, text, level, baseline or "-", result, alert or "nothing", verdict))


HEADER = """# What guest root can try against the Sentry, and what comes of it

Printed by `tests/attack/50-sentry-attacks.sh`; do not edit. Each attempt runs as root in the guest. "latch": the kernel
refused it. "alert": the host got an event or a figure that it scores (docs/protocol/sentry.md). The levels are
those of kernel lockdown: `integrity` is what best effort uses, `confidentiality` what *required* uses; both run here with
modules_disabled and kexec_load_disabled latched. The product latches modules_disabled only where the Sentry is *required*: at best
effort a forced unload of the Sentry or its transport, and loading modules of the distribution, work, and the stream breaks off
(last row; the rows with level `none` have neither lockdown nor latch).
"""

FOOTER = """
## What is not detected

- At `integrity`, root can read kernel memory (kcore, a kprobe of its own) and so this module's current keys. From then on it can
  say new things in the module's name; it cannot change what was said, since older keys are gone, and the opening of kcore, of
  tracefs, each kprobe and each BPF program has been reported by then. At `confidentiality` all of these are refused.
- A kernel probe or tracer that was there before the Sentry was loaded. Nothing from the workspace's disk runs before it.
- An exploit in the kernel that writes credentials, or this module's data, in place calls nothing that is probed.
- Refusals by file permissions (DAC) come before the security hooks and are no events. Landlock's and other modules' are.
- A process in a chroot or a mount namespace of its own chooses the names of its paths; the frames say so (`foreign_root`), and only
  a hash (`exe_sha256`) says what ran.
- Frames through AF_PACKET, and packets that the kernel makes itself (NFS, WireGuard), show a device at most; the switch on the host
  is what judges them.
- A supervisor that is stopped (SIGSTOP, a frozen cgroup) instead of killed is no event of the Sentry's. What it has confined stays
  confined; hostd says so after 20 s without its word (`guest_silent`). Who takes the descriptor of its channel out
  of it can go on speaking for it: what the supervisor says is the guest's word and opens nothing.
- Single probes of others cannot be disarmed one by one through debugfs; the self-test covers three real hooks only.
"""


def judge(tap, table, series, item, run, level, baseline):
    name, alert = item["name"], item["alert"]
    seen = run.results.get(name, "not run")
    if callable(alert):
        found = alert(run, name)
        wanted_alert = alert.__name__.replace("_", " ")
    elif alert:
        frames = run.frames(name, alert)
        found = "%s event" % frames[0]["type"] if frames else ""
        wanted_alert = alert["type"]
    else:
        found, wanted_alert = "", "nothing"
    good = result_fits(item["result"][level], seen) and bool(found) == bool(alert)
    table.add(name, item["text"], level, baseline, seen, found)
    tap.result(good, "%s [%s %s] expected %s and %s, seen %s and %s" %
               (name, series, level, say(item["result"][level]), wanted_alert, seen, found or "nothing"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("series", nargs="+")
    parser.add_argument("--table")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--keep", help="keep console and frames of each boot below this folder")
    parser.add_argument("--kept", help="boot nothing, judge what --keep left")
    options = parser.parse_args()
    tap = rig.Tap()
    tables = {series: one_series(tap, series, options) for series in options.series}
    if options.table:
        with open(options.table + ".part", "w") as out:
            out.write(HEADER)
            for series, table in tables.items():
                table.write(out, rig.release_of(series))
            out.write(FOOTER)
        os.rename(options.table + ".part", options.table)
    tap.end()
    return 1 if tap.failed else 0


def one_series(tap, series, options):
    """Boot, try everything, judge; returns the Table."""
    table = Table()
    livepatch = None if options.kept else rig.build_module(series, "livepatch")

    def boot(label, settings, lines, seconds=1800):
        label = os.path.join(series, label)
        if options.kept:
            return Run(*rig.kept(os.path.join(options.kept, label)))
        text = (settings + ";" + lines).replace(";", "\n")
        return Run(*rig.run(series, text, seconds, options.keep and os.path.join(options.keep, label),
                            machine=rig.Machine(options.cpus), extra_files={"modules/livepatch.ko": livepatch}))

    # Two boots at a time; each has one CPU. A kernel from which the Sentry was torn may fault for ever instead of panicking.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        base = pool.submit(boot, "baseline", "no-sentry", lines_of([a for a in ATTEMPTS if a["baseline"]]))
        levels = {level: pool.submit(boot, level, "lockdown %s;latch" % level, lines_of(ATTEMPTS)) for level in LEVELS}
        others = [(items, pool.submit(boot, "boot%d" % n, settings, lines, 180 * options.cpus))
                  for n, (settings, lines, items) in enumerate(BOOTS)]

    base = base.result()
    for item in ATTEMPTS:
        if item["baseline"]:
            tap.result(base.results.get(item["name"]) == item["baseline"], "%s [%s baseline] works where nothing stops it: %s" %
                       (item["name"], series, base.results.get(item["name"], "not run")))
    for level, run in levels.items():
        run = run.result()
        tap.result("init: done" in run.console, "[%s %s] the guest lives on after all of them" % (series, level), run.console[-2000:])
        tap.result(not run.stream.wrong, "[%s %s] every MAC fits and no frame is missing" % (series, level), "\n".join(run.stream.wrong[:5]))
        for item in ATTEMPTS:
            judge(tap, table, series, item, run, level, base.results.get(item["name"]))
    for items, run in others:
        for item in items:
            judge(tap, table, series, item, run.result(), item["level"], "worked")
    return table


if __name__ == "__main__":
    sys.exit(main())
