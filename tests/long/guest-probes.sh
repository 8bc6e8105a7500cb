#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 2400
# The whole probe matrix: levels, compatibility, kernels, file types and rights.
exec "$(dirname "$0")/../vm/probes.py"
