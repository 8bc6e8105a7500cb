#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 5400
# alone
# What other monitors cost in the VM in which the Sentry's cost is measured: auditd with rules for what the Sentry
# captures, and sysdig with its module (Debian's falcosecurity-scap-dkms, which builds on 6.1). Each has a boot of its own,
# with the cost before it in the same boot. A row fails when a monitor did not see what the bench did; of the ratios there
# is no verdict. docs/performance/sentry.md has a run.
#
#   sentry-peers.sh [instructions|time]...      the clock: guest instructions (-icount), or the guest's time under TCG
set -eu
cd "$(dirname "$0")/../.."
. ci/lib.sh

peers=$(cache_dir bench)/peers

# The monitors with every library they need, and the module's source without what dkms would need.
fetch() {
	local deb part=$peers.part
	apt_derived bookworm bookworm-updates bookworm-security
	rm -rf "$part"
	mkdir -p "$part/debs/partial" "$part/root"
	apt_own install -qq -y --download-only --no-install-recommends -o "Dir::Cache::archives=$part/debs" auditd sysdig >&2
	(cd "$part/debs" && apt_own download -qq falcosecurity-scap-dkms)
	for deb in "$part"/debs/*.deb; do
		dpkg-deb -x "$deb" "$part/root"
		dpkg-deb -W --showformat='${Package} ${Version}\n' "$deb"
	done >"$part/versions"
	mv -T "$part" "$peers"
}

# sysdig's module for one kernel.
build_scap() {
	local kernel release
	kernel=$(ci/kernel/fetch "$1")
	release=$(cd "$kernel/lib/modules" && echo *)
	mkdir -p build/rig/scap
	cp -r -u "$peers"/root/usr/src/scap-*/. build/rig/scap
	make -s -C "$kernel/usr/src/linux-headers-$release" M="$PWD/build/rig/scap" modules >&2
}

exec 8>"$peers.lock"
flock 8
[ -d "$peers" ] || fetch
exec 8>&-
build_scap 6.1
grep -E '^(auditd|sysdig|falcosecurity-scap-dkms) ' "$peers/versions" | sed 's/^/# /'
exec tests/vm/sentry-rig/peers.py 6.1 "$peers/root" "${@:-instructions}"
