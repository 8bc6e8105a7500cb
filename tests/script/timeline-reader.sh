#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# A reader of the timeline that stands still holds nothing up: the log of changes is written back while it waits, and it
# gets every row when it reads on.
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
. tests/tap.sh
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
umask 077
export XDG_DATA_HOME=$dir/data XDG_CONFIG_HOME=$dir/config XDG_RUNTIME_DIR=$dir/run HOME=$dir
store=$XDG_DATA_HOME/holdfast/store
mkdir -p "$store" "$XDG_CONFIG_HOME" "$XDG_RUNTIME_DIR"
more() { python3 -c 'import sys
for i in range(int(sys.argv[1])): print("""{"ws":"demo","kind":"exec","data":{"program":"/bin/p%d","command":"step %s %d"}}""" % (i % 9, "x" * 200, i))' "$1" |
	build/tool/timeline-rows "$store/timeline.db"; }
# "0 …" when nobody's snapshot keeps the log.
written_back() { python3 -c 'import sqlite3, sys
print(*sqlite3.connect(sys.argv[1], timeout=0.2).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())' "$store/timeline.db"; }
is_written_back() { [[ $(written_back) == "0 0 "* ]]; }
ids() { grep -o '"id":[0-9]*' "$1" | cut -d: -f2; }

ok "3000 rows" more 3000
mkfifo "$dir/slow"
build/bin/holdfast timeline --json --all >"$dir/slow" &
reader=$!
exec 9<"$dir/slow"
head -c 20000 <&9 >"$dir/got"
sleep 2.5
ok "1000 more while a reader stands still" more 1000
ok "its query is closed: the log can be written back" within 5 is_written_back
cat <&9 >>"$dir/got"
wait $reader
is "it gets every row that was there when it began, once, in order" "$(ids "$dir/got" | tr '\n' ' ')" "$(seq -s ' ' 3000) "
exec 9<&-

python3 - "$store/timeline.db" "$dir/open" <<'PY' &
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
rows = db.execute("SELECT * FROM rows")
rows.fetchone()
open(sys.argv[2], "w").close()
time.sleep(60)
PY
within 10 test -e "$dir/open"
more 10
ok "control: a query that stays open does keep the log" bash -c "! $(declare -f written_back is_written_back); store='$store'; ! is_written_back"

build/bin/holdfast timeline --json --all | head -n 3 >"$dir/three"
is "a reader that goes away ends it" "$(ids "$dir/three" | tr '\n' ' ')" "1 2 3 "
is "the newest five" "$(build/bin/holdfast timeline --json --all --limit 5 | grep -o '"id":[0-9]*' | cut -d: -f2 | tr '\n' ' ')" "4006 4007 4008 4009 4010 "
tap_end
