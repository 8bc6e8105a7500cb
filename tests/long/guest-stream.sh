#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# One GiB through an exec's standard output, to the byte.
HOLDFAST_STREAM_MIB=1024 PARTS=stream exec python3 "$(dirname "$0")/../vm/guest_observe.py"
