# SPDX-License-Identifier: GPL-2.0-or-later
"""Power-on to shell: seconds, and CPU seconds of QEMU, which other work on the machine does not stretch.

boot.py [RUNS]    medians of RUNS boots (3) for each row; one boot of each row in turn, so that a busy
                  minute falls on all rows alike
"""
import hashlib
import os
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vm"))
from guestvm import ROOT, Guest, kernel_dir, spec  # noqa: E402


MARKS = ("hello", "supervisor", "ready", "command", "multi-user")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def module(series):
    path = os.path.join(ROOT, "build/modules", os.path.basename(kernel_dir(series)), "sentry.ko")
    return path if os.path.exists(path) else None


def boot(series, sentry):
    """{mark: (seconds, CPU seconds)} since QEMU was started."""
    marks = {}
    more = {}
    if sentry:
        with open(sentry, "rb") as f:
            more["sentry"] = {"mode": "best_effort", "sha256": hashlib.sha256(f.read()).hexdigest()}
    with Guest(spec(**more), kernel=series, memory=1024, sentry=sentry) as vm:
        def mark(name):
            marks.setdefault(name, (time.time() - vm.started, cpu_seconds(vm.qemu.pid)))

        if sentry:  # the host's end of the Sentry's port: takes the hello and says nothing
            vm.listen(5841, lambda s: (s.recv(4), mark("hello"), threading.Event().wait(600)))
        vm.wait_status(lambda s: True, 400)
        mark("supervisor")
        vm.wait_ready(400)
        mark("ready")
        if vm.run(["true"], timeout=120).code != 0:
            raise SystemExit("the command failed")
        mark("command")
        vm.run(["systemctl", "--wait", "is-system-running"], user="root", timeout=300)
        mark("multi-user")
    return marks


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows = list(dict.fromkeys((s, m) for s in ("6.12", "6.1") for m in (None, module(s))))
    taken = {row: [] for row in rows}
    for _ in range(runs):
        for row in rows:
            taken[row].append(boot(*row))
    print("| kernel | Sentry | " + " | ".join(MARKS) + " |")
    print("|---" * (2 + len(MARKS)) + "|")
    for (series, sentry), boots in taken.items():
        cells = []
        for name in MARKS:
            values = [b[name] for b in boots if name in b]
            cells.append("%.1f / %.1f" % tuple(statistics.median(v) for v in zip(*values)) if values else "-")
        print("| %s | %s | %s |" % (series, "yes" if sentry else "no", " | ".join(cells)))
    print("# seconds / CPU seconds of QEMU, medians of %d; load average %s" % (runs, os.getloadavg()))
    print("ok 1 - every boot reached a command and multi-user")
    print("1..1")


if __name__ == "__main__":
    main()
