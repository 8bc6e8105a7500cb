#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# The probe matrix at level strict on the default kernel (`make probes` runs all of it).
exec "$(dirname "$0")/probes.py" smoke
