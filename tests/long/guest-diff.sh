#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# Our confinement against the landlock and seccompiler crates.
exec "$(dirname "$0")/../diff/run"
