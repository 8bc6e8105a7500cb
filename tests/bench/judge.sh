#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 300
# From the deciding event to the cut, and what a flood of 10 000 events a second does to the others and to memory.
set -u
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
. tests/tap.sh
build/bench/bench_judge cut 500 | sed 's/^/# /'
tap_result "${PIPESTATUS[0]}" "500 trips"
build/bench/bench_judge flood 10000 30 | sed 's/^/# /'
tap_result "${PIPESTATUS[0]}" "a flood holds up nobody else, and memory stays"
build/bench/bench_judge volume | sed 's/^/# /'
tap_result "${PIPESTATUS[0]}" "what leaves through the switch is judged"
tap_end
