#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 7200
# The prover against brute force on 100 000 random pairs; each construct both ways at least 1 000 times.
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
make --no-print-directory build/bench/bench_policy_prove >/dev/null || exit 1
out=$(build/bench/bench_policy_prove "${PAIRS:-100000}" 777 2>&1)
status=$?
table=$(tac <<<"$out" | sed '/ pairs: /q' | tac)
echo "$table"
if [ $status = 0 ]; then echo "ok 1 - no disagreement"; else echo "not ok 1 - disagreements"; fi
if awk '$3 == "within" && ($4 < 1000 || $6 < 1000) { print "# too few: " $2; bad = 1 } END { exit bad }' <<<"$table"; then
	echo "ok 2 - each construct was hit both ways"
else
	echo "not ok 2 - each construct was hit both ways"
fi
echo "1..2"
