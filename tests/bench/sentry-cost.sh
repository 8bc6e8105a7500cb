#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1200
# What the Sentry costs, in guest instructions, as ratios within one boot of one CPU: before its load, and after it outside
# and inside the sandbox at level files, which on one CPU includes the thread, the transport over loopback and the test
# host; and the handlers alone. Figures, no verdict; docs/performance/sentry.md has a run.
set -u
cd "$(dirname "$0")/../.."
exec python3 - <<'PYTHON'
import importlib.util
spec = importlib.util.spec_from_file_location("rig", "tests/vm/sentry-rig/rig.py")
rig = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rig)
scenario = open("tests/vm/sentry-rig/scenarios/cost").read()
count = 0
for series in ("6.1", "6.12"):
    console, stream = rig.run(series, scenario, 500, more=["-icount", "shift=0,sleep=off"])
    cost = {}
    for line in console.splitlines():
        part = line.strip().split("\t")
        if part[0] == "bench":
            cost.setdefault(part[2], {})[part[1]] = int(part[3])
    for what, by in cost.items():
        count += 1
        base = by.get("without", 0)
        print("%s %d - %s %s: %d instructions; handlers alone x%.3f, with thread, MAC and host outside x%.3f, inside x%.3f" %
              ("ok" if len(by) == 4 else "not ok", count, series, what, base,
               *(by.get(label, 0) / base for label in ("handlers", "outside", "inside"))), flush=True)
print("1..%d" % count)
PYTHON
