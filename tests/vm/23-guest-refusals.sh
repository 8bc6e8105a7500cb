#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# Every failure of a boot is a named step on the console and in the status, and no work is taken.
exec python3 "$(dirname "$0")/guest_refusals.py"
