#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 400
# Level strict without a filesystem policy: the ways out and to the supervisor, by filters and rights alone.
exec python3 "$(dirname "$0")/guest_attacks.py"
