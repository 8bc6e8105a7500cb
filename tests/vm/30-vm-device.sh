#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# The vsock device with a real guest under TCG.
exec python3 "$(dirname "$0")/vm_device.py"
