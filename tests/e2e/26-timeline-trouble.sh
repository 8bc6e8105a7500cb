#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# What happens to the timeline when the disk becomes read-only, the clock is set, a page is overwritten: a clear state, one
# line that says it, a way out, and no workspace that gets out of quarantine by it. No VM runs here.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"
store=$XDG_DATA_HOME/holdfast/store
trap 'home_end; umount -l "$store" 2>/dev/null; rm -rf "$dir"' EXIT
mkdir -p "$store"
chmod 0700 "$XDG_DATA_HOME/holdfast" "$store"
mount -t tmpfs -o size=64m,mode=0700 tmpfs "$store" || { skip "the timeline in trouble" "no tmpfs here"; tap_end; exit; }
gcc -shared -fPIC -O2 -o "$dir/clock.so" tests/fixture/stepped_clock.c || exit 1
clock() { python3 -c 'import struct, sys; open(sys.argv[1], "r+b" if sys.argv[3:] else "wb").write(struct.pack("q", int(sys.argv[2])))' "$dir/clock" "$@"; }
clock 0
export STEPPED_CLOCK=$dir/clock

health() { holdfast daemon status | python3 -c 'import json,sys; s = json.load(sys.stdin)["store"]; print(s["health"], s["why"])'; }
is_health() { [[ $(health) == "$1"* ]]; }
rows() { holdfast timeline --json --all "$@"; }
last() { rows --kind "$1" | tail -n 1 | python3 -c 'import json,sys
v = json.loads(sys.stdin.read() or "{}")
for k in sys.argv[1].split("."): v = v.get(k, {}) if v else ""
print(v)' "$2"; }
state() { holdfast ws show "$1" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["state"])'; }
stop() { holdfast daemon stop; within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"; }

# ---- the clock: the row of a step follows the row that met it, not before the answer ----
LD_PRELOAD=$dir/clock.so holdfast ws create a --policy none --accel tcg >/dev/null
holdfast ws create b --policy none --accel tcg >/dev/null
ok "the timeline is there" is_health 0
is "no step yet" "$(rows --kind clock_step | wc -l)" 0
clock 7200 keep
holdfast ws set a --mode alert >/dev/null
stepped() { [ "$(last clock_step data.direction)" = "$1" ] && [ "$(last clock_step data.step_s)" -ge $(($2 - 1)) ] && [ "$(last clock_step data.step_s)" -le $(($2 + 1)) ]; }
ok "the clock is set forward by two hours: a row says so" within 10 stepped forward 7200
clock -7200 keep
holdfast ws set a --mode quarantine >/dev/null
ok "and back by four" within 10 stepped back 14400
clock 0 keep
holdfast ws set a --mode alert >/dev/null
ok "and forward to what it was" within 10 stepped forward 7200
rows >"$dir/rows"
is "rows keep the order in which they came, whatever their clock says" "$(python3 - "$dir/rows" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
ids, times = [r["id"] for r in rows], [r["host_ns"] for r in rows]
print(ids == list(range(1, len(rows) + 1)), times == sorted(times))
PY
)" "True False"
ok "the timeline verifies" holdfast timeline verify

# ---- read-only ----
stop
mount -o remount,ro "$store"
holdfast ws list >"$dir/out" 2>&1
is "on a disk that is read-only hostd does not begin" "$?" 1
ok "it says so, with its log" grep -q 'hostd.log' "$dir/out"
ok "which has the reason" bash -c "tail -n 3 '$XDG_DATA_HOME/holdfast/hostd.log' | grep -qi 'read-\\?only'"
mount -o remount,rw "$store"
ok "writable again it begins" is_health 0
ok "the timeline verifies still" holdfast timeline verify

# ---- a new timeline, by wish ----
holdfast quarantine a >/dev/null
is "one workspace is in quarantine" "$(state a)" quarantined
fails "while hostd runs it is not set aside" 'holdfast daemon stop' holdfast timeline rotate
stop
ok "set aside, with its key" holdfast timeline rotate --new-key
is "the new one names it" "$(last store_rotated data.file | cut -d. -f1,2)" timeline.db
is "who is in quarantine stays there" "$(state a)" quarantined
is "who is not is not" "$(state b)" off
ok "the new one verifies, by the new key" holdfast timeline verify
old=$(ls "$store"/timeline.db.2*Z)
ok "the old one by its own" holdfast timeline verify "$old" --key "$old.key.pub"

# ---- a page ----
for i in $(seq 12); do holdfast ws set b --mode alert >/dev/null; done
stop
python3 - "$store/timeline.db" <<'PY'
import os, sys
size = os.path.getsize(sys.argv[1])
with open(sys.argv[1], "r+b") as f:
    for page in range(1, size // 4096):
        f.seek(page * 4096)
        f.write(b"\xa5" * 4096)
PY
fails "pages that were overwritten: verify says where" 'does not verify' holdfast timeline verify
holdfast ws list >"$dir/out" 2>&1
is "hostd does not begin on it" "$?" 1
ok "and says so, with its log" grep -q 'hostd.log' "$dir/out"
ok "which names the damage and the way out" bash -c "tail -n 3 '$XDG_DATA_HOME/holdfast/hostd.log' | grep -q 'holdfast timeline rotate'"
sleep 1 # names end in seconds
ok "the way out" holdfast timeline rotate
is "what was in quarantine is not known: all are" "$(state a) $(state b)" "quarantined quarantined"
ok "each may be released" holdfast release b
is "by itself" "$(state a) $(state b)" "quarantined off"
ok "the timeline verifies again" holdfast timeline verify
tap_end
