#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 9000
# The capture suite on a kernel with KASAN, lockdep, atomic-sleep checks and kmemleak: no
# report from it, and one from each of the faults that a control module makes in the same boot. The kernel is built once.
set -u
cd "$(dirname "$0")/../.."
exec tests/vm/sentry-rig/debug.py 6.1 ${1:-kinds floods-short reconnect}
