#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# A VM's life under TCG: failed starts, the lock, deaths of every process, disks.
exec python3 "$(dirname "$0")/vm_lifecycle.py" "$@"
