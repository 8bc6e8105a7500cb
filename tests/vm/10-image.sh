#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1200
# The guest image: what it is made of on the host, and how it behaves as a guest on both kernels.
exec python3 "$(dirname "$0")/guest_image.py"
