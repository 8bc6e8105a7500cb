#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 3000
# From power-on to a command's result, for each kernel, with and without the Sentry: docs/performance/boot.md.
exec python3 "$(dirname "$0")/boot.py" "$@"
