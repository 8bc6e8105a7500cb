#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 5400
# Guest root against the Sentry, on both series and at both lockdown levels, each attempt by name (TAM-*, CAP-*, TRN-*). With TABLE=FILE
# the table of docs/attacks.md is written from the run.
set -u
cd "$(dirname "$0")/../.."
exec tests/attack/sentry_attacks.py 6.12 6.1 ${TABLE:+--table "$TABLE"}
