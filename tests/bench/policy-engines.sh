#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1800
# The policy engine beside regorus and OPA on the same rules and requests, in one run; parsing; proving.
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/bench
mkdir -p "$cache"
bench=${BENCH_POLICY:-build/bench/bench_policy}
n=0
say() { n=$((n + 1)); echo "ok $n - $1"; }

python3 - "$work" <<'PY'
import json
import random
import sys

random.seed(1)
for rules in (10, 100, 1000, 10000):
    base = "%s/%d" % (sys.argv[1], rules)
    names = ["host%d.example%d.test" % (i, i % 97) for i in range(rules)]
    data, yaml = [], ["version: 1", "network_policies:"]
    for i, name in enumerate(names):
        host = name if i % 4 else "*." + name
        clauses = [("GET", "/api/v%d/*" % (i % 3)), ("POST", "/api/items"), ("GET", "/static/**")]
        data.append({"programs": ["/usr/bin/tool%d" % (i % 5), "/opt/app%d/**" % (i % 7)],
                     "endpoints": [{"host": host, "port": 443,
                                    "allow": [{"method": m, "path": p} for m, p in clauses]}]})
        yaml += ["  r%05d:" % i, "    binaries: [{path: /usr/bin/tool%d}, {path: \"/opt/app%d/**\"}]" % (i % 5, i % 7),
                 "    endpoints:", "      - host: \"%s\"" % host, "        port: 443", "        protocol: rest",
                 "        enforcement: enforce", "        rules:"]
        yaml += ["          - allow: {method: %s, path: \"%s\"}" % c for c in clauses]
    with open(base + ".yaml", "w") as f:
        f.write("\n".join(yaml) + "\n")
    with open(base + ".json", "w") as f:
        json.dump({"rules": data}, f)
    with open(base + ".jsonl", "w") as f:
        for _ in range(20 if rules == 10000 else 200): # the other engines take up to seconds each
            i = random.randrange(rules)
            f.write(json.dumps({
                "host": ("a." if i % 4 == 0 else "") + names[i], "port": 443,
                "program": random.choice(["/usr/bin/tool%d" % (i % 5), "/opt/app%d/x/y" % (i % 7), "/bin/sh"]),
                "method": random.choice(["GET", "POST", "DELETE"]),
                "path": random.choice(["/api/v%d/x" % (i % 3), "/api/items", "/static/a/b.css", "/admin"])}) + "\n")
# as many rules as fit into 4 MiB
with open(sys.argv[1] + "/big.yaml", "w") as f:
    f.write("version: 1\nnetwork_policies:\n")
    i = 0
    while f.tell() < (4 << 20) - 400:
        f.write("  rule%d:\n    binaries: [{path: /usr/bin/tool%d}]\n    endpoints:\n      - {host: h%d.example.test, port: 443,"
                " protocol: rest, enforcement: enforce, rules: [{allow: {method: GET, path: \"/a%d/**\"}}]}\n" % (i, i, i, i))
        i += 1
PY

regorus= opa=
if command -v cargo >/dev/null; then
	(cd tests/bench/policy/regorus && CARGO_TARGET_DIR=$cache/cargo timeout 1500 cargo build -q --release --locked) &&
		regorus=$cache/cargo/release/bench-regorus
fi
if command -v go >/dev/null; then
	(cd tests/bench/policy/opa && timeout 1500 go build -mod=readonly -o "$cache/bench-opa" .) && opa=$cache/bench-opa
fi
[ -n "$REGORUS" ] && regorus=$REGORUS
[ -n "$OPA" ] && opa=$OPA

ns() { echo "${1##* }"; }
for rules in 10 100 1000 10000; do
	ours=$($bench decide "$work/$rules.yaml" "$work/$rules.jsonl" 1)
	line="$rules rules: holdfast $(ns "$ours") ns a decision"
	for engine in regorus opa; do
		run=${!engine}
		[ -n "$run" ] || { line="$line, $engine not available"; continue; }
		theirs=$(timeout 300 "$run" tests/bench/policy/bench.rego "$work/$rules.json" "$work/$rules.jsonl" 1)
		[ -n "$theirs" ] || { line="$line, $engine: more than 300 s"; continue; }
		[ "${theirs% *}" = "${ours% *}" ] || echo "not ok $((n += 1)) - $engine decides differently: $theirs, not $ours"
		line="$line, $engine $(ns "$theirs") ns ($(python3 -c "print(round($(ns "$theirs")/$(ns "$ours")))") times)"
	done
	say "$line"
done
say "parse and index $($bench parse "$work/big.yaml" | awk '{print $1 " bytes in " $2 " ms"}')"
real=tests/data/policy/policies/crates_openshell-supervisor-network_testdata_sandbox-policy.yaml
say "prove the largest real policy against itself: $($bench prove $real $real) ms"
say "prove it against the default policy: $($bench prove $real tests/data/policy/policies/examples_agent-driven-policy-management_policy.template.yaml) ms"
say "prove 100 rules against themselves: $($bench prove "$work/100.yaml" "$work/100.yaml") ms"
echo "1..$n"
