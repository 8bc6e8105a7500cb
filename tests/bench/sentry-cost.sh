#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1200
# What the Sentry costs, in guest instructions, as ratios within one boot: before its load, and after it outside and
# inside the sandbox at level files. Figures, no verdict; docs/performance/sentry.md has a run.
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
        print("%s %d - %s %s: %d instructions, outside x%.3f, inside x%.3f" %
              ("ok" if len(by) == 3 else "not ok", count, series, what, base,
               by.get("outside", 0) / base, by.get("inside", 0) / base), flush=True)
print("1..%d" % count)
PYTHON
