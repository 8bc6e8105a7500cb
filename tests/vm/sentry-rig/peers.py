#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What monitors cost in one VM: the Sentry, auditd, sysdig's module; each in a boot of its own, beside the cost before it; TAP.

peers.py SERIES PEERS_ROOT CLOCK[:MONITOR]...     PEERS_ROOT holds the unpacked packages; CLOCK is instructions or time

The guest is the rig's initramfs with the peers' programs and a compiler put into it (peers_root.py). One CPU, so that what a
monitor does in its own thread or process is paid there, for all alike. Audit and sysdig write to tmpfs; the Sentry's frames go
to the rig's test host. A monitor that did not see each exec and each connect of the bench fails, and its rows with it.
"""
import os
import re
import sys

import peers_root
import rig

ROWS = ("vfork+exec", "fork+exec", "open+close", "tcp connect", "udp send+recv", "getppid", "C build")
BOOTS = {"instructions": 1, "time": 2}  # instructions are the same in each boot
BENCH = "/bin/drive bench %s build"
LINES = "run /bin/drive lines %s "
AUDIT_LOG, SYSDIG_LOG = "/run/audit.log", "/run/sysdig.scap"
SYSDIG_FILTER = "evt.type in (%s)" % ("execve,execveat,procexit,connect,sendto,sendmsg,sendmmsg,setuid,setgid,setresuid,"
                                     "ptrace,mount,unshare,setns,bpf")


def sentry():
    return ["before " + BENCH % "without", "level files", "host frames off", "sleep 9000", "run " + BENCH % "with",
            "host frames on", "sleep 3000"]


def auditd(rules):
    search = "/sbin/ausearch -if %s --format csv -x /bin/drive -sc " % AUDIT_LOG
    return ["no-sentry", "run " + BENCH % "without", "start /sbin/auditd -n -c /etc/audit", "sleep 4000",
            "run /sbin/auditctl -R /etc/audit/" + rules, "sleep 2000", "run " + BENCH % "with", "sleep 2000",
            "run /bin/drive runs /sbin/auditd", "run /sbin/auditctl -s", LINES % "rules" + "/sbin/auditctl -l", LINES % "exec" + search + "execve",
            LINES % "connect" + search + "connect"]


def sysdig(words):
    read = "/usr/bin/sysdig -r %s evt.dir=< and proc.name=drive and evt.type=" % SYSDIG_LOG
    return ["no-sentry", "run " + BENCH % "without", "run /bin/drive load /modules/scap.ko",
            ("start /usr/bin/sysdig -v -w %s %s" % (SYSDIG_LOG, words)).strip(), "sleep 9000", "run " + BENCH % "with",
            "sleep 2000", "run /bin/drive end /usr/bin/sysdig", LINES % "exec" + read + "execve",
            LINES % "connect" + read + "connect"]


MONITORS = {
    "sentry": sentry(),
    "auditd": auditd("rules"),
    "auditd-connect": auditd("rules-connect"),
    "sysdig": sysdig(""),
    "sysdig-filtered": sysdig(SYSDIG_FILTER),
}


class Boot:
    """What one boot said. bench: row to label to (least, busy, number, host); lines: name to number; said: name to number."""

    def __init__(self, console, stream):
        self.console, self.bench, self.lines, self.said, self.failed = console, {}, {}, {}, []
        self.beat = stream.beats()[-1] if stream.beats() else {}
        for line in console.splitlines():
            part = line.strip().split("\t")
            if part[0] == "bench":
                self.bench.setdefault(part[2], {})[part[1]] = tuple(int(n) for n in part[3:])
            elif part[0] == "lines":
                self.lines[part[1]] = int(part[2])
            elif part[0].startswith("check ") and not part[1].startswith("1"):
                self.failed.append(line.strip())
            elif re.fullmatch(r"(lost|Driver Drops):? *\d+", line.strip()):
                name, number = line.strip().replace(":", " ").rsplit(" ", 1)
                self.said[name.strip()] = int(number)

    def complete(self):
        return "init: done" in self.console and "does not compile" not in self.console and not self.failed and \
            all(len(self.bench.get(row, {})) == 2 for row in ROWS)

    def done(self, *rows):
        return sum(self.bench[row]["with"][2] for row in rows if "with" in self.bench.get(row, {}))

    def seen(self):
        """Events of exec and of connect that the monitor kept, and how many it says it lost (None when it does not say)."""
        if not self.beat:
            lost = self.said.get("lost", self.said.get("Driver Drops"))
            return self.lines.get("exec", 0), self.lines.get("connect", 0), lost
        sent, losses = self.beat["sent"], (self.beat["rate_limited"], self.beat["dropped_kinds"])
        lost = sum(by_kind.get(kind, 0) for by_kind in losses for kind in ("exec", "exit", "net_flow"))
        return sent.get("exec", 0), sent.get("net_flow", 0), lost


def boot(series, name, files, more):
    scenario = "\n".join(MONITORS[name])
    console, stream = rig.run(series, scenario, 1700, keep="build/peers/" + name, more=more, machine=rig.Machine(memory=2048),
                              extra_files=files)
    return Boot(console, stream)


def judge_boot(tap, title, one, audited):
    tap.result(one.complete(), "%s: the guest measured each of %d rows, the monitor ran to the end" % (title, len(ROWS)),
               "\n".join(one.failed) or one.console[-3000:])
    if audited:
        rules = peers_root.RULES.count("\n-a ")
        tap.result(one.lines.get("rules") == rules, "%s: %s of %d audit rules are loaded" % (title, one.lines.get("rules"), rules),
                   one.console[-3000:])
    execs, connects = one.done("vfork+exec", "fork+exec"), one.done("tcp connect")
    seen_execs, seen_connects, lost = one.seen()
    tap.result(0 < execs <= seen_execs and 0 < connects <= seen_connects and lost == 0,
               "%s: saw each exec and connect of the bench: %d of %d, %d of %d; lost %s" %
               (title, seen_execs, execs, seen_connects, connects, lost), one.console[-3000:])


def least(boots, row, label, which):
    return min(one.bench[row][label][which] for one in boots)


def measure(tap, series, clock, name, files):
    title = "%s, %s" % (name, clock)
    more = ["-icount", "shift=0,sleep=off"] if clock == "instructions" else []
    failed, boots = tap.failed, [boot(series, name, files, more) for _ in range(BOOTS[clock])]
    for one in boots:
        judge_boot(tap, title, one, name.startswith("auditd"))
    if tap.failed > failed:
        return
    for row in ROWS:
        before = [least(boots, row, "without", which) for which in (0, 1)]
        after = [least(boots, row, "with", which) for which in (0, 1, 3)]
        print("# %s: %s: %d before; caller x%.3f, CPU x%.3f, without the test host x%.3f" %
              (title, row, before[0], after[0] / before[0], after[1] / before[1], (after[1] - after[2]) / before[1]), flush=True)


def main():
    tap = rig.Tap()
    files = peers_root.guest_files(sys.argv[2])
    for words in sys.argv[3:]:
        clock, _, only = words.partition(":")
        for name in [only] if only else MONITORS:
            measure(tap, sys.argv[1], clock, name, files)
    tap.end()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
