#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# Connections that break in the hello, before the welcome, inside frames, without acknowledgements (TRN-*, ID-02).
set -u
cd "$(dirname "$0")/../.."
exec tests/vm/sentry-rig/rig.py 6.12 tests/vm/sentry-rig/scenarios/reconnect
