#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# Every kind of event, driven for real on both series and compared member by member (CAP-*, TAM-01/02/10/11, ID-04).
set -u
cd "$(dirname "$0")/../.."
status=0
for series in 6.1 6.12; do
	echo "# $series"
	tests/vm/sentry-rig/rig.py "$series" tests/vm/sentry-rig/scenarios/kinds || status=1
done
exit $status
