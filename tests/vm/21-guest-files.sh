#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 700
# Level files: Landlock holds against root inside, sudo goes on working, the ways round it are masked.
exec python3 "$(dirname "$0")/guest_files.py"
