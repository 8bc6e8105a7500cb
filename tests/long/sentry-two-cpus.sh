#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 3600
# The capture suite, floods and attacks with two CPUs, which one QEMU thread runs in turn (thread=single): per-CPU faults
# show, races between CPUs that run at the same time need KVM.
set -u
cd "$(dirname "$0")/../.."
status=0
for series in 6.1 6.12; do
	echo "# $series"
	tests/vm/sentry-rig/rig.py "$series" tests/vm/sentry-rig/scenarios/kinds --cpus 2 --seconds 600 || status=1
done
tests/vm/sentry-rig/rig.py 6.12 tests/vm/sentry-rig/scenarios/floods --cpus 2 --seconds 900 || status=1
tests/attack/sentry_attacks.py 6.12 --cpus 2 || status=1
exit $status
