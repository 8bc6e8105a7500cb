#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe matrix: level x compatibility x kernel x file types x rights, and each filter row by three entries.

    tests/vm/probes.py [smoke]      smoke: level strict on the default kernel only

Expectations are the tables under tests/data/probes, written from the specification. The program that probes
(tests/probe/probe.c) knows none of them. The same probes at observe are the baseline: every EACCES and EPERM
that strict or files answers was something else there.
"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from guestvm import ROOT, Guest, Tap, spec

ZONES = "/srv/zones"
SYSTEM = ["/usr", "/etc", "/proc", "/lib", "/bin", "/lib64", "/dev/null"]
FS = {"read_only": SYSTEM + [ZONES + "/ro", ZONES + "/rofile/exe"], "read_write": ["/tmp", "/home/agent", ZONES + "/rw", ZONES + "/rwfile/exe"]}
WHERE = [("outside", "dir", ""), ("ro", "dir", ""), ("rw", "dir", ""), ("rofile", "file", "/exe"), ("rwfile", "file", "/exe")]
ABI = {"6.12": 6, "6.1": 2}
PROBE = ZONES + "/bin/probe"

tap = Tap()
counts = {"probes": 0, "bad": 0}


def table(name):
    with open(os.path.join(ROOT, "tests/data/probes", name), encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if line.strip() and line[0] != "#"]


CALLS = table("seccomp.tsv")
RIGHTS = table("landlock.tsv")


def expected_right(row, zone, abi, confined, root):
    """What the specification says this operation answers."""
    op, since, older = row[0], int(row[1]), row[7]
    column = {"outside": 2, "ro": 3, "rw": 4, "rofile": 5, "rwfile": 6}[zone]
    if row[column] == "-":
        return None
    if not confined:
        want = row[6] if zone.endswith("file") and row[6] != "-" else row[4]
        if op in ("rename_same_dir", "remove_file"):
            want = "ok"
    else:
        want = row[column]
        if want == "EACCES" and abi < since and older != "=":
            # Without the right the operation is judged by the others it needs, or not at all.
            want = {"ioctl": "EACCES" if zone == "outside" else "ENOTTY"}.get(older, older)
            if op == "read_truncate" and zone == "outside":
                want = "EACCES"     # the open itself needs the right to read
    if op == "make_block" and root and want == "EPERM":
        want = "ok"
    return want


def check(group, have, want):
    """One TAP line for a group; each probe is counted."""
    bad = ["%s: have %s, want %s" % (k, have.get(k), want[k]) for k in sorted(want) if have.get(k) != want[k]]
    counts["probes"] += len(want)
    counts["bad"] += len(bad)
    tap.ok(want and not bad, "%s: %d probes" % (group, len(want)), "\n".join(bad[:30]))


def answers(result):
    return dict(line.split() for line in result.text.splitlines() if len(line.split()) == 2)


def file_probes(vm, name, abi, confined, prefix="", root=False):
    for zone, kind, suffix in WHERE:
        r = vm.run("%s%s files %s/%s%s %s" % (prefix, PROBE, ZONES, zone, suffix, kind), timeout=120)
        want = {row[0]: expected_right(row, zone, abi, confined, root) for row in RIGHTS}
        check("%s, files in %s" % (name, zone), answers(r), {k: v for k, v in want.items() if v})


def call_probes(vm, name, filtered):
    with open(os.path.join(ROOT, "tests/data/probes/seccomp.tsv"), "rb") as f:
        data = f.read()
    for entry in ("64", "int80", "x32"):
        r = vm.run("s=$(pgrep -x sandboxd | head -1); exec %s calls $s $(ps -o pgid= -p $s) %s" % (PROBE, entry), data=data, timeout=300)
        have = answers(r)
        if entry == "64":
            if filtered is None:
                check("%s, calls by %s" % (name, entry), have, {row[0]: have.get(row[0]) for row in CALLS if have.get(row[0], "").startswith("KILLED") is False})
                base = have
                continue
            want = {row[0]: row[9] if row[9] != "same" else filtered.get(row[0]) for row in CALLS}
            check("%s, calls by %s" % (name, entry), have, want)
        else:
            rows = [row[0] for row in CALLS if entry == "x32" or row[2] != "-1"]
            if filtered is None:
                check("%s, calls by %s: none is killed" % (name, entry), {k: have.get(k, "?") != "KILLED-31" for k in rows}, {k: True for k in rows})
            else:
                check("%s, calls by %s: killed" % (name, entry), have, {k: "KILLED-31" for k in rows})
    return base if filtered is None else None


def prepare(vm):
    with open(os.path.join(ROOT, "build/probe/probe"), "rb") as f:
        program = f.read()
    vm.run("mkdir -p %s/bin && chmod 755 %s %s/bin" % (ZONES, ZONES, ZONES), user="root")
    vm.put(PROBE, program, user="root")
    for zone, _, _ in WHERE:
        r = vm.run([PROBE, "prepare", "%s/%s" % (ZONES, zone)], user="root")
        if r.code:
            raise RuntimeError("prepare: %r" % r)


def copied(disks):
    to = tempfile.mkdtemp(prefix="hf-disks-")
    for name in ("root.qcow2", "home.raw"):
        shutil.copyfile(os.path.join(disks, name), os.path.join(to, name))
    return to


def run_level(disks, kernel, name, s, baseline, user_only=True):
    own = copied(disks)
    try:
        with Guest(s, kernel=kernel, disks=own) as vm:
            vm.wait_ready()
            abi = ABI[kernel]
            level = s["level"]
            if level == "strict":
                call_probes(vm, name, baseline)
            file_probes(vm, name, abi, True)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def as_root(disks, kernel):
    own = copied(disks)
    try:
        with Guest(spec("files", filesystem=FS), kernel=kernel, disks=own) as vm:
            vm.wait_ready()
            file_probes(vm, "%s files, root by sudo" % kernel, ABI[kernel], True, "sudo -n ", root=True)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def one_kernel(kernel, smoke):
    # Paths that a session needs to start the probe itself.
    fs = {"read_only": FS["read_only"] + [ZONES + "/bin"], "read_write": FS["read_write"]}
    FS.update(fs)
    disks = tempfile.mkdtemp(prefix="hf-disks-")
    try:
        with Guest(spec(), kernel=kernel, disks=disks) as vm:
            vm.wait_ready()
            prepare(vm)
            baseline = call_probes(vm, kernel + " observe", None)
            if not vm.power_off():
                raise RuntimeError("no orderly end")
        if not smoke:
            own = copied(disks)
            with Guest(spec(), kernel=kernel, disks=own) as vm:
                vm.wait_ready()
                file_probes(vm, kernel + " observe", ABI[kernel], False)
            shutil.rmtree(own, ignore_errors=True)
            run_level(disks, kernel, kernel + " files", spec("files", filesystem=FS), baseline)
            as_root(disks, kernel)
        run_level(disks, kernel, kernel + " strict", spec("strict", filesystem=FS, process={}), baseline)
        if not smoke and ABI[kernel] >= 6:
            hard = spec("strict", filesystem=FS, process={"run_as_user": "sandbox"}, landlock={"compatibility": "hard_requirement"})
            run_level(disks, kernel, kernel + " strict, hard_requirement, another user", hard, baseline)
    finally:
        shutil.rmtree(disks, ignore_errors=True)


def main():
    smoke = "smoke" in sys.argv[1:]
    kernels = [a for a in sys.argv[1:] if a in ABI] or (["6.12"] if smoke else ["6.12", "6.1"])
    for kernel in kernels:
        one_kernel(kernel, smoke)
    print("# %d probes, %d against the specification" % (counts["probes"], counts["bad"]))
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
