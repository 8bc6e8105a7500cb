#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# The disk of the timeline is full: the VM is paused or runs on, as its workspace has it; nothing acknowledged is lost,
# and once there is room everything goes on. The store lies on a small file system of its own.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"
store=$XDG_DATA_HOME/holdfast/store
trap 'home_end; umount -l "$store" 2>/dev/null; rm -rf "$dir"' EXIT
mkdir -p "$store"
chmod 0700 "$XDG_DATA_HOME/holdfast" "$store"
mount -t tmpfs -o size=64m,mode=0700 tmpfs "$store" || { skip "the disk of the timeline is full" "no tmpfs here"; tap_end; exit; }

state() { holdfast ws show full --json | grep -o '"state":"[a-z]*"' | head -1 | cut -d'"' -f4; }
is_state() { [ "$(state)" = "$1" ]; }
fill() { cat /dev/zero >"$store/filler" 2>/dev/null; }
unhealthy() { ! holdfast daemon status | grep -q '"health":0'; }
rows() { holdfast timeline full --json --all "$@"; }

ok "the VM is made" holdfast ws create full --accel "$(home_accel)" --policy demo/policy.yaml
ok "and starts" holdfast ws start full
holdfast exec full -- /bin/echo before-it-was-full >/dev/null
marked() { rows --kind exec | grep -q "$1"; }
ok "what ran is on the timeline" within 10 marked before-it-was-full
holdfast exec full -- sh -c 'echo runs; for i in $(seq 40); do /bin/echo meanwhile-$i; sleep 0.2; done' >"$dir/out" 2>&1 &
runner=$!
ok "a command runs" within 20 grep -q runs "$dir/out"
fill
ok "the store says that it cannot write" within 60 unhealthy
ok "the VM is paused" within 10 is_state paused
is "with the reason" "$(holdfast ws show full --json | grep -o '"reason":"[^"]*"' | head -1)" '"reason":"the timeline cannot be written"'
ok "set to run on, it does" holdfast ws set full --on-store-full run
ok "at once" within 10 is_state running
ok "and back" holdfast ws set full --on-store-full pause
ok "it is paused again" within 10 is_state paused
rm "$store/filler"
ok "with room again it goes on by itself" within 30 is_state running
wait "$runner"
is "the command that ran meanwhile ends as it should" "$? $(tail -1 "$dir/out")" "0 meanwhile-40"
ok "what ran before is there" marked before-it-was-full
ok "and what ran meanwhile" within 20 marked meanwhile-40
ok "a row says that the store was not there" within 10 sh -c 'holdfast timeline --json --all | grep -q store_unavailable'
is "the guest is not blamed" "$(rows --kind score_trip | wc -l)" 0
ok "the timeline verifies" holdfast timeline verify

fill
ok "the store is full once more" within 60 unhealthy
ok "stopping works" holdfast ws stop --force full
fails "a start is refused, with the way out" "on-store-full run" holdfast ws start full
rm "$store/filler"
within 30 sh -c 'holdfast daemon status | grep -q "\"health\":0"'
ok "with room it starts" holdfast ws start full
tap_end
