#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 240
# A workspace's policy as its user changes it: apply, history, rollback, the boundary, edits of the file by hand, and
# drafts from what the timeline says was refused. No VM runs here.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_here
boundary=$XDG_CONFIG_HOME/holdfast/boundary.yaml
file=$XDG_DATA_HOME/holdfast/workspaces/w/policy.yaml

# rules HOST...: a policy in which curl may reach each on port 443
rules() {
	printf 'version: 1\nnetwork_policies:\n  web:\n    name: web\n    endpoints:\n'
	printf '      - { host: %s, port: 443 }\n' "$@"
	printf '    binaries:\n      - { path: /usr/bin/curl }\n'
}
# json NAME EXPRESSION CMD...: every line of its output is JSON, and the expression on their list d is true
json() {
	local name=$1 expression=$2
	shift 2
	"$@" >"$dir/json" 2>"$dir/json.err"
	ok "$name" python3 -c 'import json, sys
d = [json.loads(line) for line in open(sys.argv[1])]
assert d and eval("(" + sys.argv[2] + ")"), d' "$dir/json" "$expression"
}
in_force() { holdfast policy show --lines w | sed -n 's/.*connect to \(.*\):443/\1/p' | sort | tr '\n' ' '; }
policy_error() { holdfast ws show w --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["policy_error"])'; }
error_has() { [[ $(policy_error) == *"$1"* ]]; }
no_error() { [ -z "$(policy_error)" ]; }
forces() { [ "$(in_force)" = "$1" ]; }
refusals() { holdfast timeline w --all --kind policy_refused --json | grep -cF "$1"; }
versions() { holdfast policy history w --json | wc -l; }
# refused_edit WHAT REASON: the reason is shown, a row says so, the old policy stays
refused_edit() {
	ok "$1: the reason is shown" within 10 error_has "$2"
	ok "$1: a row of the timeline says so" within 5 test "$(refusals "$2")" -ge 1
	is "$1: the old policy stays in force" "$(in_force)" 'two.example.org '
}

rules one.example.org >"$dir/one.yaml"
rules two.example.org >"$dir/two.yaml"
rules one.example.org two.example.org >"$dir/both.yaml"
sed 's/port: 443/port: 70000/; s/binaries/binarys/' "$dir/two.yaml" >"$dir/bad.yaml"
sed 's/^version: 1/version: 2/' "$dir/one.yaml" >"$dir/newer.yaml"

# ---- apply ----
ok "a workspace with a policy" holdfast ws create w --policy "$dir/one.yaml" --accel tcg
json "a dry run says what would change" 'd[0]["outcome"] == "now" and d[0]["diff"]["added"]' \
	holdfast policy apply --dry-run --json w "$dir/both.yaml"
is "and changes nothing" "$(in_force)$(versions)" 'one.example.org 0'
json "apply" 'd[0]["outcome"] == "now" and d[0]["version"] == 2 and len(d[0]["diff"]["added"]) == 1' \
	holdfast policy apply --author ann --json w "$dir/both.yaml"
is "is in force" "$(in_force)" 'one.example.org two.example.org '
ok "and in the file" cmp "$file" "$dir/both.yaml"
fails "a bad policy" 'the policy in force stays' holdfast policy apply w "$dir/bad.yaml"
json "names each error's place" \
	'd[0]["outcome"] == "refused" and {g["line"] for g in d[0]["diagnostics"] if g["line"]} >= {6, 7}' \
	holdfast policy apply --json w "$dir/bad.yaml"
is "changes nothing" "$(in_force)$(versions)" 'one.example.org two.example.org 2'
json "the same again" 'd[0]["outcome"] == "same"' holdfast policy apply --json w "$dir/both.yaml"
is "makes no version" "$(versions)" 2
fails "a workspace that is none" 'nix' holdfast policy apply nix "$dir/one.yaml"

# ---- show, diff, history, rollback ----
json "show" '[e["host"] for e in d[0]["network_policies"]["web"]["endpoints"]] == ["one.example.org", "two.example.org"]' \
	holdfast policy show --json w
json "diff" 'len(d[0]["added"]) == 0 and d[0]["removed"] == ["rule web: connect to one.example.org:443"]' \
	holdfast policy diff --json w "$dir/two.yaml"
json "rollback" 'd[0]["outcome"] == "now" and d[0]["version"] == 3' holdfast policy rollback --json w 1
is "is in force" "$(in_force)" 'one.example.org '
json "history has author, time and what changed" '[v["author"] for v in d][1] == "ann" and
	[v["in_force"] for v in d] == [False, False, True] and d[2]["note"] == "rolled back to version 1" and
	d[1]["diff"]["added"] == ["rule web: connect to two.example.org:443"] and
	all(abs(v["time_ns"] / 1e9 - __import__("time").time()) < 120 for v in d)' holdfast policy history --json w
is "history as text" "$(holdfast policy history w | grep -c "^version 2  $(date +%Y)-.*:.*  ann  applied$")" 1
fails "rollback to a version that is none" '000009' holdfast policy rollback w 9
is "the timeline names who" "$(holdfast timeline w --all --kind policy_applied | grep -c 'by ann: version 2')" 1

# ---- the boundary ----
cp "$dir/two.yaml" "$boundary"
fails "a policy beyond the boundary" 'lets /usr/bin/curl' holdfast policy apply w "$dir/both.yaml"
json "is refused with the case that shows it" \
	'd[0]["outcome"] == "refused" and "one.example.org:443" in d[0]["text"]' holdfast policy apply --json w "$dir/both.yaml"
ok "one within it" holdfast policy apply w "$dir/two.yaml"
fails "rollback to what exceeds it now" 'one.example.org:443' holdfast policy rollback w 2
is "changes nothing" "$(in_force)$(versions)" 'two.example.org 4'

# ---- the file edited by hand ----
cp "$dir/both.yaml" "$file"
refused_edit "an edit beyond the boundary" 'one.example.org:443'
ok "the file as it was" cp "$dir/two.yaml" "$file"
ok "takes the reason away" within 10 no_error
cp "$dir/one.yaml" "$boundary"
fails "a boundary that was tightened since: no start" 'two.example.org:443' holdfast ws start w
rm "$boundary"
cp "$dir/newer.yaml" "$file"
refused_edit "a newer schema" 'newer than this engine'
head -c $(($(stat -c %s "$dir/both.yaml") - 12)) "$dir/both.yaml" >"$file"
refused_edit "a file that is cut" 'does not end with a line break'
fails "no start with it" 'policy.yaml: the file does not end' holdfast ws start w
: >"$file"
refused_edit "an empty file" 'empty'
before=$(versions)
head -c 60 "$dir/both.yaml" >"$file"
refused_edit "a half-written save" 'a save in progress'
tail -c +61 "$dir/both.yaml" >>"$file"
ok "comes into force with its other half" within 10 forces 'one.example.org two.example.org '
ok "without a reason left" within 5 no_error
is "as a version of its own" "$(versions)" $((before + 1))
json "whose author is the file" 'd[-1]["in_force"] and d[-1]["author"] == "an edit of policy.yaml"' \
	holdfast policy history --json w
cp "$dir/two.yaml" "$file.new" && mv "$file.new" "$file"
ok "a save by renaming comes into force" within 10 forces 'two.example.org '
mv "$file" "$dir/away"
ok "a file that is gone is told" within 10 error_has 'gone'
is "and opens nothing" "$(in_force)" 'two.example.org '
mkfifo "$file"
ok "nor does one that cannot be read hold hostd up" within 10 error_has 'not a file'
rm "$file"; cp "$dir/newer.yaml" "$file"
holdfast daemon stop
within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"
ok "a bad file at hostd's start: the reason" within 10 error_has 'newer than this engine'
json "nothing is unfiltered for it" 'not d[0]["unfiltered"]' holdfast ws show w --json
fails "no start" 'newer than this engine' holdfast ws start w
ok "apply mends it" holdfast policy apply w "$dir/two.yaml"
ok "with no reason left" within 5 no_error

# ---- drafts from the timeline ----
holdfast daemon stop
within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"
denied() {
	printf '{"ws":"w","kind":"flow_denied","data":{"proto":6,"dst":"192.0.2.9","dport":%s,"name":"%s","program":"%s",' "$2" "$1" "$3"
	printf '"reason":"no rule","chain":[{"pid":7,"exe":"/usr/bin/bash"}]}}\n'
}
{
	denied registry.example.org 443 /usr/bin/node
	denied registry.example.org 443 /usr/bin/node
	denied files.example.org 80 /usr/bin/curl
	printf '{"ws":"w","kind":"name_denied","data":{"name":"else.example.org","reason":"no rule"}}\n'
	printf '{"ws":"w","kind":"flow_denied","data":{"dst":"169.254.169.254","dport":80,"program":"/usr/bin/curl"}}\n'
} >"$dir/rows"
ok "rows of refused connections" build/tool/timeline-rows "$XDG_DATA_HOME/holdfast/store/timeline.db" <"$dir/rows"
json "are in the timeline" 'sum(r["count"] for r in d) >= 3' holdfast timeline w --all --kind flow_denied --json
ok "which verifies" holdfast timeline verify
holdfast policy learn w >"$dir/learned.yaml"
ok "learn writes a policy from them" holdfast policy check "$dir/learned.yaml"
is "with what was refused and nothing else" "$(holdfast policy show --lines "$dir/learned.yaml" |
	sed -n 's/.*connect to //p' | sort | tr '\n' ' ')" 'files.example.org:80 registry.example.org:443 '
explain() { holdfast policy explain --policy "$dir/learned.yaml" --program "$1" --url "$2"; }
ok "for the program that asked" explain /usr/bin/node https://registry.example.org/
fails_explain() { ! explain "$@"; }
ok "and no other" fails_explain /usr/bin/curl https://registry.example.org/
json "learn --json" 'd[0]["rules"] == 2 and "registry.example.org" in d[0]["policy"]' holdfast policy learn --json w
json "advise --json" 'len(d) == 2 and all(r["prevents"] >= 1 and r["allows"] for r in d)' holdfast policy advise --json w
holdfast policy advise --accept 1 w >"$dir/accepted"
ok "accepting one replays the refusals" grep -q '^replayed: .* is now allowed' "$dir/accepted"
is "each of them" "$(grep -c '^replayed: ' "$dir/accepted")" "$(holdfast timeline w --all --kind flow_denied --json | wc -l)"
ok "and leaves the others refused" grep -q '^replayed: .*169.254.169.254.* is still refused' "$dir/accepted"
is "the draft is in force beside what was" "$(holdfast policy show --lines w | grep -c 'connect to')" 2
is "and in the history" "$(holdfast policy history w --json | tail -1 | grep -c '"in_force":true')" 1
tap_end
