#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The Sentry beside an independent collector (oracle/): both see one run, and each thing is compared; TAP.

oracle.py SERIES

Two boots. In the first nothing may be lost: each key (kind, process, what of it) was seen equally often by both. In the
second the offer is too much: what the collector saw and the Sentry did not send must be what it counted as dropped or
rate limited, to the unit, and it sent nothing that the collector did not see. Folded frames count as often as they say.
"""
import collections
import json
import os
import re
import subprocess
import sys

import rig

SUITE = """
before /bin/oracle
params flow_dedup_ms=1500 flow_local_ports=8080
run /bin/drive exec
run /bin/drive exit
run /bin/drive cred
run /bin/drive flow
run /bin/drive ptrace
run /bin/drive module
run /bin/drive bpf
run /bin/drive mount
run /bin/drive namespaces
sandbox /bin/drive landlock inside
run /bin/drive landlock outside
sandbox /bin/drive seccomp inside
sandbox /bin/drive leave
sleep 13000
touch /run/oracle-stop
until-idle 300
"""
FLOOD = """
before /bin/oracle
run /bin/drive exec-flood 2000
run /bin/drive flow-flood 20000
run /bin/drive tcp-flood 3000
sandbox /bin/drive exec-flood 500
sandbox /bin/drive flow-flood 5000
sleep 13000
touch /run/oracle-stop
until-idle 900
"""
DENIED = ("open", "create", "mkdir", "rmdir", "unlink", "symlink", "link", "rename", "truncate", "connect", "bind")
KINDS = ("exec", "exit", "cred_gain", "ptrace", "module_load", "bpf", "mount", "unshare", "setns", "seccomp_denied",
         "sandbox_denied", "net_flow", "cgroup_move")


def build(series):
    """The collector for this kernel's types; a static program."""
    here, out = os.path.join(rig.HERE, "oracle"), os.path.join(rig.ROOT, "build", "rig", "oracle-" + series)
    os.makedirs(out, exist_ok=True)
    kernel, elf = rig.kernel_of(series), os.path.join(out, "vmlinux")
    rig.command("ci/kernel/vmlinux", os.path.join(kernel, "boot", "vmlinuz-" + rig.release_of(series)), elf)

    def save(name, *words):
        with open(os.path.join(out, name), "wb") as to:
            subprocess.run(words, check=True, stdout=to)

    save("vmlinux.h", "bpftool", "btf", "dump", "file", elf, "format", "c")
    rig.command("clang", "-g", "-O2", "-target", "bpf", "-D__TARGET_ARCH_x86", "-Wall", "-I" + out, "-I" + here, "-c",
                os.path.join(here, "oracle.bpf.c"), "-o", os.path.join(out, "oracle.bpf.o"))
    save("oracle.skel.h", "bpftool", "gen", "skeleton", os.path.join(out, "oracle.bpf.o"), "name", "oracle_bpf")
    program = os.path.join(out, "oracle")
    rig.command("gcc", "-static", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wno-unused-result", "-I" + out, "-I" + here,
                "-o", program, os.path.join(here, "oracle.c"), "-lbpf", "-lelf", "-lz")
    return program


def oracle_saw(console):
    """Counter of keys, as sentry_said() makes them, and what the collector itself lost."""
    saw, lost = collections.Counter(), None
    for line in console.splitlines():
        part = line.strip().split("\t")
        if part[0] == "oracle-end":
            lost = int(part[2])
        if part[0] != "oracle":
            continue
        kind, pid, count, op, value, protocol, sport, dst, dport = part[1], *map(int, part[2:8]), part[8], int(part[9])
        name = part[10] if len(part) > 10 else ""
        saw[{
            "exec": lambda: (kind, pid, name[:31]),
            "exit": lambda: (kind, pid, value),
            "cred_gain": lambda: (kind, pid),
            "ptrace": lambda: (kind, pid, ("attach", "traceme")[op], value),
            "module_load": lambda: (kind, pid, name),
            "bpf": lambda: (kind, pid, value),
            "mount": lambda: (kind, pid, ("mount", "move_mount")[op]),
            "unshare": lambda: (kind, pid, ("unshare", "clone")[op], value),
            "setns": lambda: (kind, pid, value),
            "seccomp_denied": lambda: (kind, pid, value),
            "sandbox_denied": lambda: (kind, pid, DENIED[op], value),
            "cgroup_move": lambda: (kind, pid, ("attach", "fork")[op], value),
            "net_flow": lambda: (kind, pid, protocol, sport, dst, dport),
        }[kind]()] += count
    return saw, lost


def key_of(f):
    kind, pid = f["type"], f["pid"]
    if kind == "net_flow":
        if f["proto"] == "packet":
            return (kind, pid, 0, 0, "-", 0)
        udp = f["ip_proto"] == 17
        return (kind, pid, f["ip_proto"], f["sport"] if udp else 0, f["dst"], f.get("dport", 0) if udp or f["ip_proto"] == 6 else 0)
    if kind == "module_load" and f["op"] != "loaded":
        return None  # refusals are no module_load of the tracepoint
    return {
        "exec": lambda: (kind, pid, f.get("file", "")[:31]),
        "exit": lambda: (kind, pid, f["status"]),
        "cred_gain": lambda: (kind, pid),
        "ptrace": lambda: (kind, pid, f["request"], f["target_pid"]),
        "module_load": lambda: (kind, pid, f["name"]),
        "bpf": lambda: (kind, pid, f["cmd"]),
        "mount": lambda: (kind, pid, f["op"]),
        "unshare": lambda: (kind, pid, f["op"], f["flags"]),
        "setns": lambda: (kind, pid, f["flags"]),
        "seccomp_denied": lambda: (kind, pid, f["syscall"]),
        "sandbox_denied": lambda: (kind, pid, f["op"].split("_")[0], -f["errno"] if f["errno"] < 0 else f["errno"]),
        "cgroup_move": lambda: (kind, pid, f["op"], f["target_pid"]),
    }[kind]()


def sentry_said(stream):
    said = collections.Counter()
    for f in stream.frames:
        if f["type"] in KINDS:
            key = key_of(f)
            if key:
                said[key] += f.get("count", 1)
    return said


def of_kind(counter, kind):
    return sum(n for key, n in counter.items() if key[0] == kind)


def run(series, name, scenario, program, tap):
    console, stream = rig.run(series, scenario, seconds=1500, keep="build/oracle/%s-%s" % (series, name), extra_files={"bin/oracle": program},
                              machine=rig.Machine(memory=1024))
    saw, lost = oracle_saw(console)
    tap.result("init: done" in console and "oracle attached" in console and not stream.wrong, "%s: the guest ran to its end" % name,
               console[-2500:] + "\n".join(stream.wrong[:5]))
    tap.result(lost == 0 and bool(saw), "%s: the collector saw %d things of %d kinds and lost none" %
               (name, sum(saw.values()), len({k[0] for k in saw})), "lost %r" % lost)
    missing = re.findall(r"oracle-without\t(.*)", console)
    if missing:
        print("# this kernel has no " + ", ".join(missing))
    return saw, sentry_said(stream), stream.beats()[-1]


def suite(series, program, tap):
    saw, said, beat = run(series, "suite", SUITE, program, tap)
    tap.result(beat["dropped"] == 0 and not any(beat["rate_limited"].values()), "suite: the Sentry dropped and limited nothing",
               json.dumps([beat["dropped_kinds"], beat["rate_limited"]]))
    for kind in KINDS:
        only_oracle = {k: n - said[k] for k, n in saw.items() if k[0] == kind and n > said[k]}
        only_sentry = {k: n - saw[k] for k, n in said.items() if k[0] == kind and n > saw[k]}
        tap.result(not only_oracle and not only_sentry and of_kind(saw, kind) > 0,
                   "suite: %s: both saw the same %d" % (kind, of_kind(saw, kind)),
                   "only the collector: %r\nonly the Sentry: %r" % (dict(list(only_oracle.items())[:8]), dict(list(only_sentry.items())[:8])))


def flood(series, program, tap):
    saw, said, beat = run(series, "flood", FLOOD, program, tap)
    for kind in ("exec", "exit", "net_flow"):
        offered, sent = of_kind(saw, kind), of_kind(said, kind)
        dropped, limited = beat["dropped_kinds"].get(kind, 0), beat["rate_limited"].get(kind, 0)
        tap.result(offered == sent + dropped + limited and offered > 1000,
                   "flood: %s: the collector saw %d = %d in frames and folded + %d dropped + %d rate limited" % (kind, offered, sent, dropped, limited),
                   "%d unaccounted" % (offered - sent - dropped - limited))
        more = {k: n - saw[k] for k, n in said.items() if k[0] == kind and n > saw[k]}
        tap.result(not more, "flood: %s: nothing was sent that did not happen" % kind, repr(dict(list(more.items())[:8])))


def main():
    series = sys.argv[1]
    tap = rig.Tap()
    program = build(series)
    suite(series, program, tap)
    flood(series, program, tap)
    tap.end()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
