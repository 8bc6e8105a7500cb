#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# Level observe: exec in all its forms, the supervisor's place, and nothing taken away.
exec python3 "$(dirname "$0")/guest_observe.py"
