#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The switch against QEMU's user network, the same guest, alternating.
# timeout: 900
set -u
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
bench=${BENCH_SWITCH:-build/bench/bench_switch}
image=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/image/current
release=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["default_kernel"])' "$image/image.json") || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/root"
gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -static -o "$dir/root/init" tests/vm/guest/netinit.c || exit 1
for m in failover net_failover virtio_net; do
	cp "$image/kernels/$release/early/$m.ko" "$dir/root/" || exit 1
done
(cd "$dir/root" && find . | cpio -o -H newc -R 0:0 --quiet) > "$dir/initrd"

timeout 200 "$bench" | sed 's/^/# /'
good=0
for round in 1 2 3; do
	for way in "user 1500" "qemu 1280" "qemu 1500" "qemu 4000" "qemu 9000"; do
		# shellcheck disable=SC2086 # two words on purpose
		set -- $way
		echo "# QEMU, ${1/qemu/switch}, MTU $2, round $round"
		timeout 120 "$bench" "$1" "$image/kernels/$release/vmlinux" "$dir/initrd" "$2" < /dev/null |
			tr -d '\r' | grep -E '^(figure|switch)' | sed 's/^/#   /' | tee "$dir/out"
		good=$((good + $(grep -c figure "$dir/out")))
	done
done
[ "$good" -eq 45 ] && echo "ok 1 - figures of the network" || echo "not ok 1 - figures of the network: $good of 45"
echo 1..1
