#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1800
# One GiB through `holdfast exec` each way, to the byte, and no process on either side grows by it.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"
mib=${HOLDFAST_STREAM_MIB:-1024}

holdfast ws create big --accel "$(home_accel)" >"$dir/out" 2>&1 && holdfast ws start big >>"$dir/out" 2>&1 || sed 's/^/# /' "$dir/out"

# Resident kB of one process of this home: hostd, its `vm` role, the command itself. QEMU's is the guest's memory.
rss() {
	local pid most=0 kb
	for pid in $(pgrep -f "$1"); do
		grep -qz "XDG_DATA_HOME=$XDG_DATA_HOME" "/proc/$pid/environ" 2>/dev/null || continue
		kb=$(sed -n 's/^VmRSS:\s*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null)
		[ "${kb:-0}" -gt "$most" ] && most=$kb
	done
	echo "$most"
}
guest_rss() { holdfast exec --user root big -- sh -c 'sed -n "s/^VmRSS:\s*\([0-9]*\) kB/\1/p" "/proc/$(head -n 1 /sys/fs/cgroup/holdfast/daemon/cgroup.procs)/status"'; }

# Runs one stream in the background and keeps the most that each process had meanwhile.
watched() { # COMMAND
	local start=$SECONDS now
	role=0 daemon=0 client=0 guest=0
	bash -c "$1" >"$dir/answer" 2>"$dir/err" &
	while kill -0 $! 2>/dev/null; do
		sleep 5
		now=$(rss 'hostd vm') && [ "$now" -gt "$role" ] && role=$now
		now=$(rss 'hostd$|hostd daemon') && [ "$now" -gt "$daemon" ] && daemon=$now
		now=$(rss 'holdfast exec') && [ "$now" -gt "$client" ] && client=$now
		now=$(guest_rss) && [ "${now:-0}" -gt "$guest" ] && guest=$now
	done
	seconds=$((SECONDS - start))
}
grew() { # NAME BEFORE MOST: more than 4 MiB is growth
	echo "# $1: $2 kB before, $3 kB at most"
	ok "$1 does not grow" test "$2" -gt 0 -a $(($3 - $2)) -lt 4096
}
report() { # DIRECTION
	echo "# $mib MiB $1 in $seconds s: $((mib / (seconds ? seconds : 1))) MiB/s"
	grew "$1: hostd vm" "$role_before" "$role"
	grew "$1: sandboxd" "$guest_before" "$guest"
	echo "# $1: holdfast exec $client kB, hostd $daemon kB at most"
	ok "$1: the client stays below 20 MiB" test "$client" -gt 0 -a "$client" -lt 20480
}

holdfast exec big -- true
role_before=$(rss 'hostd vm') guest_before=$(guest_rss)
bytes=$((mib * 1048576))
want=$(head -c "$bytes" /dev/zero | tr '\0' 'h' | sha256sum)
watched "holdfast exec big -- sh -c 'head -c $bytes /dev/zero | tr \"\\0\" h' | sha256sum"
is "out, to the byte" "$(cat "$dir/answer")" "$want"
report out
watched "head -c $bytes /dev/zero | holdfast exec big -- wc -c"
is "in, to the byte" "$(cat "$dir/answer")" "$bytes"
report in
tap_end
