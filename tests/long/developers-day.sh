#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1800
# Ordinary work raises no alarm: an idle boot has no denial, and a developer's day stays below 20 at observe, files and
# strict. The largest score of any minute is printed for each.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"

cp demo/policy.yaml "$dir/observe.yaml"
{
	cat demo/policy.yaml
	cat <<-'YAML'

	filesystem_policy:
	  include_workdir: true
	  read_only: [/usr, /bin, /sbin, /lib, /lib64, /etc, /proc, /sys, /opt, /run]
	  read_write: [/home/agent, /tmp, /dev, /var]

	landlock:
	  compatibility: best_effort
	YAML
} >"$dir/files.yaml"
{
	cat "$dir/files.yaml"
	printf '\nprocess:\n  run_as_user: sandbox\n  run_as_group: sandbox\n'
} >"$dir/strict.yaml"

rows() { holdfast timeline "$1" --json --all "${@:2}"; }
in_session() { rows "$1" --kind phase | grep -q session; }

for level in ${LEVELS:-observe files strict}; do
	if ! holdfast ws create "$level" --accel "$(home_accel)" --policy "$dir/$level.yaml" >"$dir/out" 2>&1 ||
	   ! holdfast ws start "$level" >>"$dir/out" 2>&1; then
		tap_result 1 "$level: the VM starts"
		sed 's/^/# /' "$dir/out"
		continue
	fi
	is "$level: it is that level" "$(holdfast ws show "$level" --json | grep -o '"level":"[a-z]*"')" "\"level\":\"$level\""
	sleep 60
	ok "$level: the Sentry reports" test "$(rows "$level" --kind exec | wc -l)" -gt 20
	is "$level: an idle boot gives no denial" "$(rows "$level" --verdict denied | wc -l)" 0
	if [ -z "$(rows "$level" --kind boot_slow)" ]; then
		is "$level: and no points" "$(rows "$level" --min-weight 1 | wc -l)" 0
	else # on a machine where the boot takes longer than its time, its end is judged as a session
		ok "$level: and few points, after a boot of over 90 s" test "$(rows "$level" | python3 tests/long/day/score.py)" -lt 20
	fi
	holdfast exec "$level" -- true
	ok "$level: the session begins" within 60 in_session "$level"
	holdfast cp tests/long/day/day.sh "$level:/tmp/day.sh"
	holdfast exec "$level" -- bash /tmp/day.sh >"$dir/day" 2>&1
	sed 's/^/# /' "$dir/day"
	ok "$level: the day is done" grep -q '^day: over' "$dir/day"
	sleep 62 # what folds is told when its window ends
	best=$(rows "$level" | python3 tests/long/day/score.py)
	echo "# $level: the largest score of any minute is $best"
	ok "$level: it stays below 20" test "$best" -lt 20
	is "$level: no trip" "$(rows "$level" --kind score_trip | wc -l)" 0
	rows "$level" --min-weight 1 | grep -o '"sentence":"[^"]*"\|"weight":[0-9]*' | paste - - | sort | uniq -c | sed 's/^/# /'
	[ -z "${REPLAY_DIR:-}" ] || holdfast timeline export "$level" --frames --out "$REPLAY_DIR/day-$level.export" >/dev/null
	holdfast ws stop "$level" >/dev/null 2>&1 || holdfast ws stop --force "$level" >/dev/null 2>&1
done
ok "the timeline verifies" holdfast timeline verify
tap_end
