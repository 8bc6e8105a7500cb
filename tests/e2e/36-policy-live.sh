#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# A policy changed under an open connection: it is judged again for the program that it was allowed for, long after
# the Sentry told of it, and stays or ends. Then root stops the supervisor, which is seen too.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"

# policy FILE PROGRAM-GLOB [HOST]
policy() {
	cat >"$dir/$1" <<-YAML
	version: 1
	network_policies:
	  kept:
	    name: kept
	    endpoints:
	      - { host: files.example.org, port: 80 }
	    binaries:
	      - { path: "$2" }
	YAML
	[ -z "${3:-}" ] || printf '  more:\n    name: more\n    endpoints:\n      - { host: %s, port: 80 }\n' "$3" >>"$dir/$1"
}
policy first.yaml '/usr/bin/python3*'
policy wider.yaml '/usr/bin/python3*' registry.example.org
policy other.yaml /usr/bin/curl
cat >"$dir/hold.py" <<'PY'
import socket
s = socket.create_connection(("files.example.org", 80), timeout=60)
print("open", flush=True)
try:
    print("closed", s.recv(1), flush=True)
except OSError as e:
    print("closed", e, flush=True)
PY

says() { grep -q "^$1" "$dir/held"; }
rows() { holdfast timeline live --json --all "$@"; }
ended() { rows --kind flow_ended | grep -q python3; }

ok "the VM is made" holdfast ws create live --accel "$(home_accel)" --policy "$dir/first.yaml"
ok "and starts" holdfast ws start live
ok "the program is there" holdfast cp "$dir/hold.py" live:/tmp/hold.py
holdfast exec live -- python3 /tmp/hold.py >"$dir/held" 2>&1 &
holder=$!
ok "its connection is open" within 30 says open
sleep 7 # the Sentry's event is kept for five
ok "a policy that still allows it" holdfast policy apply live "$dir/wider.yaml"
sleep 3
is "leaves it open" "$(cat "$dir/held")" open
ok "a policy for another program" holdfast policy apply live "$dir/other.yaml"
ok "ends it" within 10 says closed
wait "$holder"
ok "its last row names the program" within 5 ended
is "by the Sentry's word, not the guest's" "$(rows --kind flow_ended | grep -c '"attested_by":"guest"')" 0

# --- root stops the supervisor for a while
holdfast exec live -- sudo sh -c 'pids=$(echo $(pgrep -x sandboxd)) && { setsid sh -c "sleep 45; kill -CONT $pids" & } && kill -STOP $pids' >"$dir/stop" 2>&1 &
stopper=$!
silent() { rows --kind guest_silent | grep -q 'said nothing for 20 s'; }
heard_again() { rows --kind guest_heard | grep -q 'heard again'; }
ok "a supervisor that is stopped is a row" within 40 silent
ok "and so is that it goes on" within 60 heard_again
wait "$stopper"
is "which takes commands again" "$(holdfast exec live -- echo here)" here
is "it was one row" "$(rows --kind guest_silent | wc -l)" 1
rows --kind flow_ended,policy_applied | grep -o '"sentence":"[^"]*"' | sed 's/^/# /'
tap_end
