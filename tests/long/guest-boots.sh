#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1200
# What one boot leaves for the next: /etc to the byte, and what root has planted on the disk.
exec python3 "$(dirname "$0")/../vm/guest_boots.py"
