#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 300
# Every decision vector of the reference agrees, through the command that anyone can run.
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
exec python3 - <<'PY'
import json
import os
import subprocess
import tempfile

DATA = "tests/data/policy/vectors/"
KINDS = ("paths", "quirks", "repo-policies", "fuzz-decisions", "corners")
number = 0


def report(good, what):
    global number
    number += 1
    print("%s %d - %s" % ("ok" if good else "not ok", number, what), flush=True)


def run(lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as f:
        for line in lines:
            f.write(json.dumps(line) + "\n")
    try:
        return subprocess.run(["build/bin/holdfast", "policy", "eval", "--vectors", f.name, "--policies",
                               DATA + "fuzz-policies.jsonl", "--policy-dir", "tests/data/policy/policies"],
                              capture_output=True, text=True)
    finally:
        os.unlink(f.name)


def agrees(want, got):
    if not isinstance(want, dict):
        return want == got
    return isinstance(got, dict) and all(k in got and got[k] == v for k, v in want.items()) and \
        ("error" in want) == ("error" in got)


for kind in KINDS:
    with open(DATA + kind + ".jsonl", encoding="utf-8") as f:
        vectors = [json.loads(line) for line in f]
    r = run([{k: v for k, v in vector.items() if k != "result"} for vector in vectors])
    got = [json.loads(line) for line in r.stdout.splitlines()]
    bad = [(v, g) for v, g in zip(vectors, got) if not agrees(v["result"], g)]
    report(r.returncode == 0 and len(got) == len(vectors), "%s: one value for each of %d lines" %
           (kind, len(vectors)))
    report(not bad and len(got) == len(vectors), "%s: %d of %d agree" %
           (kind, len(got) - len(bad), len(vectors)))
    for vector, value in bad[:3]:
        print("# want %s\n# got  %s" % (json.dumps(vector)[:600], json.dumps(value)))
    r = run([vectors[0]])
    report(r.returncode == 1 and not r.stdout, "%s: a line with a result is refused" % kind)
r = run([{"op": "canon", "target": "/a", "allow_encoded_slash": False}, {"op": "nonsense"}])
report(r.returncode == 1 and "nonsense" in r.stderr, "an unknown op is refused by name")
print("1..%d" % number)
PY
