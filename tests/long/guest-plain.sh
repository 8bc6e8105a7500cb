#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 2400
# Level observe takes nothing away: the same commands give the same exit codes as in a VM without sandboxd.
exec python3 "$(dirname "$0")/../vm/guest_plain.py"
