#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 300
# The policy verbs that need no daemon: exit codes, JSON, texts.
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; sed 's/^/# /' "$work/out" | head -20; fi; }
policy() { build/bin/holdfast policy "$@" >"$work/out" 2>&1; }
expect() { # STATUS TEXT WHAT ARGS...
	local want=$1 text=$2 what=$3
	shift 3
	policy "$@"
	local got=$?
	[ $got = "$want" ] && grep -qF -- "$text" "$work/out"
	result $? "$what (exit $got)"
}

cat >"$work/narrow.yaml" <<'Y'
version: 1
network_policies:
  api:
    name: api
    endpoints:
      - host: api.example.com
        port: 443
        protocol: rest
        enforcement: enforce
        rules:
          - allow: { method: GET, path: "/a/*" }
    binaries:
      - path: /usr/bin/curl
Y
cat >"$work/wide.yaml" <<'Y'
version: 1
network_policies:
  api:
    name: api
    endpoints:
      - host: "*.example.com"
        port: 443
        protocol: rest
        enforcement: enforce
        rules:
          - allow: { method: GET, path: "/a/**" }
        deny_rules:
          - { method: GET, path: "/a/secret" }
    binaries:
      - path: "/usr/bin/*"
Y
sed 's#/a/secret#/b/secret#' "$work/wide.yaml" >"$work/boundary.yaml"
cat >"$work/bad.yaml" <<'Y'
version: 2
filesystem_policy:
  read_write: [/, /home/../x]
process:
  run_as_user: root
network_policies:
  a:
    endpoints:
      - host: "*.com"
        port: 70000
        colour: blue
        allowed_ips: [169.254.0.0/16]
Y

for f in tests/data/policy/policies/*policy.yaml tests/data/policy/policies/*policy.template.yaml; do
	expect 0 "valid" "valid: $(basename "$f")" check "$f"
	build/bin/holdfast policy show "$f" >"$work/normal.yaml"
	expect 0 "both say the same" "its normalised form says the same" diff "$f" "$work/normal.yaml"
done
expect 1 "refused, 8 errors" "all errors of a bad policy in one run" check "$work/bad.yaml"
expect 1 "bad.yaml:9:15: error: network_policies.a.endpoints[0].host" "an error has line, column and key path" check "$work/bad.yaml"
policy check --json "$work/bad.yaml"
python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); sys.exit(d["valid"] or not all(k in d["diagnostics"][0] for k in ("line","column","path","message","expected")))' "$work/out"
result $? "check --json is one object"
printf 'version: 3\nfuture: 1\nnetwork_policies: {}\n' >"$work/future.yaml"
expect 0 "valid" "--compat-lenient ignores unknown keys" check --compat-lenient "$work/future.yaml"
expect 1 "newer than this engine" "a newer schema is refused" check "$work/future.yaml"
expect 0 "allowed: rule" "explain: allowed" explain --policy "$work/narrow.yaml" --program /usr/bin/curl --url https://api.example.com/a/x
expect 1 "only for /usr/bin/curl" "explain: the nearest rule names another program" explain --policy "$work/narrow.yaml" --program /usr/bin/node --url https://api.example.com/a/x
sed 's#/usr/bin/curl#/usr/bin/python3#' "$work/narrow.yaml" >"$work/link.yaml"
expect 1 "if /usr/bin/python3 is a symbolic link, name its target?" "explain: a rule that names the link" explain --policy "$work/link.yaml" --program /usr/bin/python3.11 --url https://api.example.com/a/x
expect 1 "allows this path, but only GET" "explain: the nearest clause has another method" explain --policy "$work/narrow.yaml" --program /usr/bin/curl --url https://api.example.com/a/x --method POST
expect 1 "on port 443" "explain: the host on another port" explain --policy "$work/narrow.yaml" --program /usr/bin/curl --url https://api.example.com:444/
expect 1 "no rule can allow it" "explain: an address that is always blocked" explain --policy "$work/narrow.yaml" --program /usr/bin/curl --url https://api.example.com/a/x --address 169.254.169.254
expect 1 "TraversalAboveRoot" "explain: a path that climbs" explain --policy "$work/narrow.yaml" --program /usr/bin/curl --url "https://api.example.com/a/%2e%2e/%2e%2e/x"
expect 0 "within" "prove: within" prove "$work/narrow.yaml" --within "$work/boundary.yaml"
expect 1 "GET /a/secret" "prove: the denied path is the counterexample" prove "$work/narrow.yaml" --within "$work/wide.yaml"
expect 1 "exceeds" "prove: the other way round" prove "$work/wide.yaml" --within "$work/narrow.yaml"
expect 2 "" "prove: a candidate that cannot be read is not within" prove "$work/bad.yaml" --within "$work/narrow.yaml"
! grep -q usage: "$work/out"
result $? "prove: which is no wrong use"
expect 2 "usage: holdfast policy prove" "prove: without a boundary the usage is shown" prove "$work/bad.yaml"
expect 1 "exceeds the boundary" "check --within refuses" check --within "$work/narrow.yaml" "$work/wide.yaml"
expect 0 "+ rule api: program /usr/bin/*" "diff" diff "$work/narrow.yaml" "$work/wide.yaml"
policy show --json "$work/wide.yaml" && python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); sys.exit(d["network_policies"]["api"]["endpoints"][0]["ports"] != [443])' "$work/out"
result $? "show --json is the normalised policy"
policy show "$work/wide.yaml" && cp "$work/out" "$work/again.yaml" && policy diff "$work/wide.yaml" "$work/again.yaml" && grep -q "both say the same" "$work/out"
result $? "show gives a policy that says the same"
cat >"$work/denials" <<'J'
{"host":"api.example.com","port":443,"program":"/usr/bin/curl","method":"GET","path":"/repos/12/issues?x=1","count":3}
{"host":"api.example.com","port":443,"program":"/usr/bin/curl","method":"GET","path":"/repos/13/issues"}
{"host":"169.254.169.254","port":80,"program":"/usr/bin/curl"}
J
expect 0 '/repos/*/issues' "advise generalises a segment in which refusals differ" advise --denials "$work/denials"
! grep -q 169.254 "$work/out"
result $? "advise never drafts an address that is always blocked"
expect 0 "is now allowed" "advise --accept replays the refusals" advise --denials "$work/denials" --accept 1
expect 0 "allow_api_example_com_443" "learn writes a policy" learn --denials "$work/denials"
cp "$work/out" "$work/learned.yaml"
policy check "$work/learned.yaml"
result $? "which check accepts"
expect 2 "usage" "a wrong verb is a usage error" nonsense
echo "1..$n"
