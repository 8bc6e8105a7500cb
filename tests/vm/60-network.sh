#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The switch with a guest of QEMU: lease, names, flows, refusals, forged frames.
# timeout: 240
set -u
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}
image=$cache/image/current
if [ ! -e "$image/image.json" ]; then
	echo "ok 1 - network with a guest # SKIP there is no guest image: make image"
	echo 1..1
	exit 0
fi
release=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["default_kernel"])' "$image/image.json")
kernel=$image/kernels/$release
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/root"
gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -static -o "$dir/root/init" tests/vm/guest/netinit.c || exit 1
for m in failover net_failover virtio_net; do
	cp "$kernel/early/$m.ko" "$dir/root/" || exit 1
done
(cd "$dir/root" && find . | cpio -o -H newc -R 0:0 --quiet) > "$dir/initrd"
timeout 200 "${TEST_SWITCH_GUEST:-build/test/test_switch_guest}" qemu "$kernel/vmlinux" "$dir/initrd" < /dev/null |
	tr -d '\r' | tee "$dir/out" | grep -E '^(#|ok|not ok)'
if ! grep -q '^END' "$dir/out"; then
	echo "not ok - the guest came to its end"
	tail -5 "$dir/out" | sed 's/^/# /'
fi
echo "1..$(grep -cE '^(ok|not ok)' "$dir/out")"
! grep -q '^not ok' "$dir/out"
