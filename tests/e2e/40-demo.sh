#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 700
# The demo is the main job end to end; it asserts each of its steps itself.
set -u
cd "$(dirname "$0")/../.."
. tests/tap.sh
out=$(demo/run 2>&1)
if [[ $(printf '%s\n' "$out" | tail -n 1) == "demo: ok"* ]]; then
	tap_result 0 "$(printf '%s\n' "$out" | tail -n 1)"
else
	tap_result 1 "the demo ends with demo: ok"
	printf '# %s\n' "${out//$'\n'/$'\n# '}"
fi
tap_end
