#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 7200
# Exact accounting under floods: each of 100 000 execs and 200 000 flows at full speed was sent, folded, dropped or rate limited,
# to the unit (TRN-03/04, CAP-12). The last figures are in docs/testing/sentry.md.
set -u
cd "$(dirname "$0")/../.."
exec tests/vm/sentry-rig/rig.py "${1:-6.12}" tests/vm/sentry-rig/scenarios/accounting --seconds 7000
