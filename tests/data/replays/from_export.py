#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a replay of what a real VM's Sentry said: from_export.py EXPORT NAME, with EXPORT made by
`holdfast timeline export WS --frames --out EXPORT`. What it must give is filled in by hand afterwards."""
import base64
import json
import sys

steps, first = [{"t": 0, "boot": True}], None
with open(sys.argv[1], encoding="utf-8") as f:
    for line in f:
        part = json.loads(line).get("frame")
        if not part:
            continue
        frame = json.loads(base64.b64decode(part["text_b64"]))
        first = first or part["host_ns"]
        for key in ("mac", "seq", "t", "tallies", "offered", "sent", "folded", "selftest", "canary", "nonce", "secret"):
            frame.pop(key, None)
        steps.append({"t": (part["host_ns"] - first) // 1000000 + 100, "frame": frame})
json.dump({"about": "recorded in a VM", "steps": steps, "expect": {"max_score": 0, "trip_ms": None, "trips": 0, "rows": {"exec": 0}}},
          sys.stdout, separators=(",", ":"), sort_keys=True)
print()
