#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# Nothing is lost silently: what was offered is sent, folded, dropped or rate limited, to the unit (TRN-03/04, CAP-12).
set -u
cd "$(dirname "$0")/../.."
exec tests/vm/sentry-rig/rig.py 6.12 tests/vm/sentry-rig/scenarios/floods --seconds 600
