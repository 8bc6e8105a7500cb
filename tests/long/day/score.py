#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The largest sum of weights in any 60 s of a timeline, from `holdfast timeline WS --json --all` on standard input."""
import json
import sys

rows = [json.loads(line) for line in sys.stdin]
scored = [(r["host_ns"], r["weight"]) for r in rows if r["weight"]]
best = 0
for t, _ in scored:
    best = max(best, sum(w for u, w in scored if t - 60_000_000_000 < u <= t))
print(best)
