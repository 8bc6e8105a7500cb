#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# Transports, starts, checkpoints, suspend and resume, in figures (build/bench/vm.txt).
exec python3 "$(dirname "$0")/vm_bench.py" "$@"
