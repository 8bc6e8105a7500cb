#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1200
# alone
# What sandboxd and its confinement cost beside the same VM without them: docs/performance/guest.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/lib.sh
# An ssh server for the comparison of round trips. Without it that figure is left out.
store=$(cache_dir bench)/sshd
if [ ! -e "$store/usr/sbin/sshd" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(apt_derived bookworm bookworm-updates bookworm-security bookworm-backports && cd "$work" &&
		apt_own download -qq openssh-server libwrap0 libnsl2 libtirpc3 && mkdir root &&
		for deb in *.deb; do dpkg-deb -x "$deb" root; done && mv root "$store") >&2 || echo "# no ssh server could be fetched"
fi
exec python3 tests/bench/guest_bench.py "$store"
