#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a replay of what a real VM's Sentry said: from_export.py FILE "ABOUT" > recorded-NAME.json

FILE is an export (`holdfast timeline export WS --frames --out FILE`), timed by the host's clock, or the bare stream of a
rig's run (tests/data/sentry/*.bin: length first), timed by the guest's. What it must give is filled in by hand.
"""
import base64
import json
import struct
import sys

DROPPED = ("mac", "seq", "t", "tallies", "offered", "sent", "folded", "selftest", "nonce", "secret", "proof", "probes_list")
EXPECT = {"max_score": 0, "trip_ms": None, "trips": 0, "rows": {"exec": 0}}


def of_export(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            part = json.loads(line).get("frame")
            if part:
                yield part["host_ns"], json.loads(base64.b64decode(part["text_b64"]))


def of_stream(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        frame = json.loads(data[at + 4:at + 4 + size])
        at += 4 + size
        yield frame["t"], frame


def main():
    path, about = sys.argv[1:]
    steps, first, beat = [{"t": 0, "boot": True}], None, None
    for ns, frame in of_stream(path) if path.endswith(".bin") else of_export(path):
        first = first or ns
        for key in DROPPED:
            frame.pop(key, None)
        if frame["type"] == "heartbeat":
            if frame == beat:
                continue  # nothing is judged by it
            beat = frame
        steps.append({"t": max((ns - first) // 1000000 + 100, steps[-1]["t"]), "frame": frame})
    json.dump({"about": about, "steps": steps, "expect": EXPECT}, sys.stdout, separators=(",", ":"), sort_keys=True)
    print()


main()
