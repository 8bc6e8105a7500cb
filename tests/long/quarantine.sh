#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# A live judge and what a trip does: settings that reach it at once, the cut as open streams feel it, alerts by every
# channel, quarantine through deaths of hostd, evidence, release and reset. One VM, in a network of its own.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
. tests/fixture/alert_sinks.bash
[ "${1:-}" = --inside ] || exec tests/fixture/netns-run "$0" --inside
dir=$(mktemp -d)
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=0777 tmpfs /mnt
home_make "$dir"
trap 'kill $(jobs -p) 2>/dev/null; home_end; rm -rf "$dir"' EXIT

alert_sinks "$dir" 1

rows() { holdfast timeline q --json --all "$@"; }
# The last row of a kind: one field.
field() { rows --kind "$1" | tail -n 1 | python3 -c 'import json,sys
v = json.loads(sys.stdin.read() or "{}")
for k in sys.argv[1].split("."): v = v.get(k, "")
print(v)' "$2"; }
shown() { holdfast ws show q --json | python3 -c 'import json,sys
v = json.load(sys.stdin)
for k in sys.argv[1].split("."): v = v.get(k, "")
print(v)' "$1"; }
state() { shown state; }
is_state() { [ "$(state)" = "$1" ]; }
says() { grep -q -- "$1" "$2"; }
hostd_pid() { holdfast daemon status | grep -o '"pid":[0-9]*' | cut -d: -f2; }
qemu_pid() { holdfast ws show q --json | grep -o '"qemu_pid":[0-9]*' | cut -d: -f2; }
judge() { printf '%s' "$1" >"$dir/config/holdfast/judge.json"; }
unshares() { holdfast exec q -- sudo unshare -m true; }
has_row() { [ "$(field "$1" "$2")" = "$3" ]; }

ok "the VM is made" holdfast ws create q --accel "$(home_accel)" --mode alert --policy demo/policy.yaml
ok "and starts" holdfast ws start q
holdfast timeline q --json --all --kind judge_configured,mute_set,score_trip,quarantined,released --follow >"$dir/followed" &
follower=$!
unshares
ok "a namespace costs what the table says" within 10 has_row unshare weight 2
within 20 says session <(rows --kind phase) || rows --kind phase

# ---- the judge that runs ----
judge '{"weights": {"unshare": 12}}'
ok "a setting is changed (judge.json is read again)" holdfast ws set q --mode alert
is "a row says what changed" "$(field judge_configured data.text)" "unshare weighs 2 to 12"
sleep 61 # the same kind of one subtree scores once a window; each command is a subtree of its own, and rows fold
unshares
ok "the next event weighs by it" within 10 has_row unshare weight 12
score=$(shown judge.score)
ok "the score is $score" test "$score" -ge 12
fails "a mute of nothing is refused" 'unknown signal "unshares"' holdfast ws set q --mutes unshares:/bin/x
judge '{"weights": {"unshare": 12}, "threshold": "low"}'
fails "and so is a bad judge.json, with its place" judge.json holdfast ws set q --mode alert
judge '{"weights": {"unshare": 12}, "threshold": 12}'
ok "a threshold that the score has reached" holdfast ws set q --mode alert
ok "trips at once, with the score that was kept" within 10 has_row score_trip data.threshold 12
is "in mode alert the VM runs on" "$(state)" running

# ---- alerts, by every channel ----
hooks() { [ "$(wc -l <"$dir/sink/hooks")" -ge "$1" ]; }
ok "the webhook is called, and called again after its failure" within 30 hooks 2
is "the first was refused, both are signed" "$(cut -d' ' -f1,2 "$dir/sink/hooks" | tr '\n' ' ')" "503 signed 204 signed "
is "both are the same delivery" "$(cut -d' ' -f3 "$dir/sink/hooks" | sort -u | wc -l)" 1
ok "journald has it" within 10 says HOLDFAST_WORKSPACE=q "$dir/sink/journal"
ok "the command has it" within 10 says '"workspace":"q"' "$dir/sink/command"
ok "the desktop shows it" within 10 says 'Holdfast: workspace q' "$dir/sink/desktop"
ok "with the two commands that follow" says 'holdfast timeline q' "$dir/sink/desktop"
ok "the timeline has its row" within 10 has_row score_trip verdict alarm
is "each channel is on record as sent" "$(rows --kind alert_sent | grep -o '"channel":"[a-z]*"' | sort -u | wc -l)" 4
is "the webhook's with its tries" "$(rows --kind alert_sent | grep webhook | grep -o '"tries":[0-9]*')" '"tries":2'
ok "holdfast alerts test sends one through each" holdfast alerts test
is "the secret is in none of them" "$(grep -rl "$alert_secret" "$dir/sink" | wc -l)" 0

# ---- the cut, as open streams feel it ----
cat >"$dir/hold.py" <<'PY'
import socket, time
s = socket.create_connection(("files.example.org", 80), timeout=3600)
print("open", flush=True)
try:
    while True:
        s.send(b"G")
        time.sleep(1)
except OSError as e:
    print("closed", e.__class__.__name__, flush=True)
PY
cat >"$dir/wider.yaml" <<'YAML'
version: 1
network_policies:
  files:
    name: files
    endpoints:
      - { host: files.example.org, port: 80 }
    binaries:
      - { path: "/usr/bin/python3*" }
YAML
ok "another policy" holdfast policy apply q "$dir/wider.yaml"
is "is on record" "$(field policy_applied data.author)" "$(id -un)"
holdfast cp "$dir/hold.py" q:/tmp/hold.py
holdfast exec q -- sh -c 'setsid python3 /tmp/hold.py >/tmp/held 2>&1 </dev/null &
	until grep open /tmp/held; do sleep 0.5; done; sleep 600' >"$dir/held" 2>"$dir/held.err" &
holder=$!
ok "a command runs, with a connection open" within 60 says open "$dir/held"
upstream() { ss -Htn state established dst 192.0.2.80 | grep -q .; }
no_upstream() { ! upstream; }
ok "its connection is there on the host's side" upstream
ok "the mode that holds: the score that tripped is held at once" holdfast ws set q --mode quarantine
ok "the workspace is quarantined" within 10 is_state quarantined
ok "after the cut there is its row" within 10 has_row quarantined engine judge
echo "# cut after $(field quarantined data.cut_ms) ms, stopped after $(field quarantined data.total_ms) ms"
ok "the open connection is gone from the host" within 5 no_upstream
wait $holder
is "the command ends, with 1" $? 1
is "and one line" "$(cat "$dir/held.err")" "holdfast: the connection to the guest was cut"
fails "a new command is refused" 'in quarantine since' holdfast exec q -- true

# ---- hostd dies ----
qemu=$(qemu_pid)
stopped() { local a b; a=$(awk '{print $14 + $15}' "/proc/$qemu/stat"); sleep 2; b=$(awk '{print $14 + $15}' "/proc/$qemu/stat"); [ $((b - a)) -le 2 ]; }
ok "the guest's CPU stands still" stopped
kill -9 "$(hostd_pid)"
ok "without hostd it still does" stopped
ok "the next hostd finds it quarantined" within 20 is_state quarantined
is "the same VM" "$(qemu_pid)" "$qemu"
ok "still standing" stopped
is "and says so once, not again" "$(rows --kind quarantined | wc -l)" 1

# ---- evidence ----
ok "evidence, with RAM" holdfast evidence export q --out "$dir/evidence" --ram
ok "its digests hold" bash -c "cd '$dir/evidence' && sha256sum --quiet -c SHA256SUMS"
is "the row names their digest" "$(field evidence data.sha256)" "$(sha256sum "$dir/evidence/SHA256SUMS" | cut -d' ' -f1)"
ok "the disk is a whole image" qemu-img check -q "$dir/evidence/disk.qcow2"
is "the RAM is an ELF core" "$(head -c 4 "$dir/evidence/ram.elf" | tail -c 3)" ELF
ok "of all of the guest's memory" test "$(stat -c %s "$dir/evidence/ram.elf")" -ge $((1024 * 1024 * 1024))
ok "it holds what ran" grep -aq 'hold.py' "$dir/evidence/ram.elf"
ok "the timeline slice verifies by itself" holdfast timeline verify "$dir/evidence/timeline.jsonl"
ok "and holds the trip and its frames" bash -c "grep -q score_trip '$dir/evidence/timeline.jsonl' && grep -q '\"frame\"' '$dir/evidence/timeline.jsonl'"
is "policy and history are there" "$(ls "$dir/evidence" | tr '\n' ' ')" "SHA256SUMS console.log disk.qcow2 home.qcow2 policy-history.json policy.yaml ram.elf timeline.jsonl workspace.json "
is "nobody else may read it" "$(stat -c %a "$dir/evidence" "$dir/evidence/ram.elf" | tr '\n' ' ')" "700 600 "
fails "a folder that is there is left alone" 'File exists' holdfast evidence export q --out "$dir/evidence"
rm -rf "$dir/evidence"

# ---- release ----
judge '{}'
ok "release" holdfast release q
ok "it runs" within 10 is_state running
ok "commands work again" within 30 holdfast exec q -- true
reset() { [[ $(holdfast exec q -- tail -n 1 /tmp/held) == "closed ConnectionResetError" || $(holdfast exec q -- tail -n 1 /tmp/held) == "closed BrokenPipeError" ]]; }
ok "the guest's end of the connection was reset" within 30 reset
is "the score begins anew" "$(shown judge.score)" 0
fails "evidence of a VM that runs is refused" 'holdfast quarantine q' holdfast evidence export q --out "$dir/evidence"
ok "nothing is left of the attempt" test ! -e "$dir/evidence"

# ---- the machine ends: all processes, and what lies in the run folder ----
ok "the user quarantines it" holdfast quarantine q
within 10 has_row quarantined data.reason "asked for by $(id -un)"
qemu=$(qemu_pid) hostd=$(hostd_pid) vm=$(awk '{print $4}' "/proc/$(qemu_pid)/stat")
kill -9 "$hostd" "$vm" "$qemu"
sleep 1
rm -rf "$dir/run/holdfast"
ok "it is quarantined" within 20 is_state quarantined
fails "and does not start" 'in quarantine since' holdfast ws start q
fails "not by exec either" 'in quarantine since' holdfast exec q -- true
fails "its RAM is gone with the machine" 'no RAM' holdfast evidence export q --out "$dir/evidence" --ram
ok "the rest is evidence still" holdfast evidence export q --out "$dir/evidence"
ok "reset lets it go" holdfast ws reset --yes q
is "it may run" "$(state)" off
ok "quarantine of a workspace that is off" holdfast quarantine q
fails "holds it too" 'in quarantine since' holdfast ws start q
ok "delete" holdfast ws delete --yes q
holdfast ws create q --policy none --accel tcg >/dev/null
is "another of that name begins anew" "$(state)" off
is "with no score" "$(shown judge.hours6)" 0

# ---- --follow went on through all of it ----
idle() { awk '/^voluntary_ctxt_switches/{print $2}' "/proc/$follower/status"; }
before=$(idle)
sleep 3
is "a follower that has nothing to say sleeps" "$(($(idle) - before))" 0
ok "it was told of every row, over deaths of hostd" bash -c '
	within() { for i in $(seq 50); do "$@" && return; sleep 0.2; done; return 1; }
	same() { diff <(grep -o "\"id\":[0-9]*" "$1") <(holdfast timeline q --json --all --kind judge_configured,mute_set,score_trip,quarantined,released | grep -o "\"id\":[0-9]*"); }
	within same "$0"' "$dir/followed"
kill $follower
ok "the timeline verifies" holdfast timeline verify
tap_end
