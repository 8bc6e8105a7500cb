#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 5400
# The Sentry beside a libbpf (CO-RE) collector that uses tracepoints and fentry: both see the same run, and what the Sentry
# does not send it has counted (CAP-*, TRN-03/04).
set -u
cd "$(dirname "$0")/../.."
status=0
for series in ${1:-6.1 6.12}; do
	echo "# $series"
	tests/vm/sentry-rig/oracle.py "$series" || status=1
done
exit $status
