#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 700
# Level strict: the confinement in force, the ways out tried, the disk untouched afterwards.
exec python3 "$(dirname "$0")/guest_strict.py"
