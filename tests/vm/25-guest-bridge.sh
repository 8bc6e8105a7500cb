#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 800
# Bridges: the proxy's preamble, the agents' sockets, the OAuth relay, and who trusts the proxy's CA.
exec python3 "$(dirname "$0")/guest_bridge.py"
