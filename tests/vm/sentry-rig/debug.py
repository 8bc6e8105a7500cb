#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios of the Sentry on a kernel full of checks: what they test, no report, and reports of faults made on purpose; TAP.

debug.py SERIES SCENARIO...      e.g. debug.py 6.1 kinds floods-short; names are those in scenarios/
"""
import os
import re
import sys

import rig

REPORT = re.compile(r"BUG: |WARNING: |KASAN|KFENCE|ODEBUG|INFO: (?:task|rcu|possible|suspicious|trying|inconsistent)|"
                    r"possible (?:circular|recursive|irq lock)|sleeping function called|unreferenced object|"
                    r"Unable to handle|general protection|DEBUG_LOCKS_WARN|Oops|Call Trace")
CONTROLS = (
    ("lockdep", "possible circular locking dependency detected"),
    ("a sleep in a handler", "sleeping function called from invalid context"),
    ("kmemleak", "unreferenced object"),
    ("KASAN", "BUG: KASAN: use-after-free"),
)


def run_scenario(series, name, control, tap):
    with open(os.path.join(rig.HERE, "scenarios", name)) as source:
        text = source.read()
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if re.match(r"(run|sandbox|host|sleep|start) ", line))
    lines.insert(first, "start /bin/drive debug-watch\nsleep 4000")
    scenario = "\n".join(lines + ["run /bin/drive debug-check", "run /bin/drive debug-controls"])
    console, stream = rig.run("debug-" + series, scenario, seconds=2400, keep=os.path.join("build", "debug", name),
                              machine=rig.Machine(memory=1024, append="loglevel=5"), extra_files={"modules/control.ko": control})
    before, _, after = console.partition("controls begin")
    rig.judge(tap, console, stream, text)
    found = [line for line in before.splitlines() if REPORT.search(line)]
    tap.result(not found, "%s: the kernel reports nothing" % name, "\n".join(found[:20]))
    for what, words in CONTROLS:
        tap.result(words in after, "%s: control: %s is reported" % (name, what), after[-2000:])


def main():
    series, names = sys.argv[1], sys.argv[2:]
    control = rig.build_module("debug-" + series, "control")
    tap = rig.Tap()
    for name in names:
        print("# %s on %s" % (name, rig.release_of("debug-" + series)), flush=True)
        run_scenario(series, name, control, tap)
    tap.end()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
