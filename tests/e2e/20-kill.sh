#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# kill -9 of each process: nothing acknowledged is lost, nothing is left running that nobody owns, and the
# next command says what the state is. One VM, in a network of its own.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"

hostd_pid() { holdfast daemon status | grep -o '"pid":[0-9]*' | cut -d: -f2; }
qemu_pid() { holdfast ws show k --json | grep -o '"qemu_pid":[0-9]*' | cut -d: -f2; }
vm_pid() { awk '{print $4}' "/proc/$(qemu_pid)/stat"; }
state() { holdfast ws show k --json | grep -o '"state":"[a-z]*"' | head -1 | cut -d'"' -f4; }
is_state() { [ "$(state)" = "$1" ]; }
gone() { ! kill -0 "$1" 2>/dev/null || [ "$(awk '{print $3}' "/proc/$1/stat" 2>/dev/null)" = Z ]; }
ready() { holdfast exec k -- true; }

holdfast ws create k --accel "$(home_accel)" --policy demo/policy.yaml >/dev/null
ok "the VM starts" holdfast ws start k
ok "it takes a command" ready
is "exit codes are exact" "$(holdfast exec k -- sh -c 'exit 7'; echo $?)" 7
is "a signal is 128 and its number" "$(holdfast exec k -- sh -c 'kill -TERM $$'; echo $?)" 143
is "a program that does not exist is 126" "$(holdfast exec k -- /no/such 2>/dev/null; echo $?)" 126
is "stdout and stderr are kept apart" "$(holdfast exec k -- sh -c 'echo out; echo err >&2' 2>"$dir/err"; cat "$dir/err")" "out
err"
head -c 300000 /dev/urandom >"$dir/in"
holdfast exec k -- cat <"$dir/in" >"$dir/out"
ok "stdin to stdout, byte for byte" cmp "$dir/in" "$dir/out"
ok "a terminal has its size" bash -c 'script -qec "stty rows 33 cols 99; holdfast shell k" /dev/null <<<"stty size; exit" | grep -q "33 99"'
fails "a second start of the same VM is harmless, a delete is refused" 'stop it first' holdfast ws delete --yes k

# hostd: the VM goes on, the next command takes it over.
qemu=$(qemu_pid) vm=$(vm_pid) hostd=$(hostd_pid)
holdfast exec k -- sh -c 'for i in 1 2 3 4 5 6 7 8; do /bin/echo mark-$i >/dev/null; sleep 0.5; done' &
exec_pid=$!
sleep 2
kill -9 "$hostd"
ok "without hostd the VM goes on" kill -0 "$qemu"
wait $exec_pid
is "a command that ran goes on too" $? 0
ok "the next command takes it over" within 20 is_state running
is "it is the same VM" "$(qemu_pid)" "$qemu"
ok "it takes a command again" within 20 ready
marks() { [ "$(holdfast timeline k --json --kind exec | grep -c '"/bin/echo mark-[1-8]"\|mark-[1-8]')" -ge 8 ]; }
ok "every program that ran meanwhile is on the timeline" within 20 marks
is "and no alarm was raised" "$(holdfast timeline k --json --all | grep -c '"verdict":"alarm"')" 0
ok "the timeline verifies" holdfast timeline verify

# The VM's role: the VM ends with it.
vm=$(vm_pid)
kill -9 "$vm"
ok "without its monitor QEMU ends" within 10 gone "$qemu"
ok "the state says so" within 10 is_state off
is "with the reason" "$(holdfast ws show k --json | grep -o '"reason":"monitor died"' | head -1)" '"reason":"monitor died"'
ok "the timeline verifies again" holdfast timeline verify

# QEMU.
ok "it starts again" holdfast ws start k
qemu=$(qemu_pid) vm=$(vm_pid)
kill -9 "$qemu"
ok "without QEMU the workspace is off" within 10 is_state off
ok "its monitor left" within 10 gone "$vm"
ok "the reason names QEMU" bash -c 'holdfast ws show k --json | grep -q "qemu died"'
is "the Sentry's end is on record" "$(holdfast timeline k --json --all --kind unclean_end | wc -l | tr -d ' ')" 1
ok "delete" holdfast ws delete --yes k
tap_end
