#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# The kernel's own vsock_test (stream tests, both roles), built from Debian's linux-source, against the device.
set -u
root=${HOLDFAST_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root" || exit 1
. ci/lib.sh
bail() { echo "not ok 1 - $*"; echo "1..1"; exit 1; }

# The program, out of the newest linux-source package of the 6.12 series, kept in the cache.
dir=$(cache_dir vsock_test)
deb=$(apt-get download --print-uris linux-source-6.12 2>/dev/null | awk '{print $2; exit}')
[ -n "$deb" ] || bail "no linux-source-6.12 in apt's lists"
program=$dir/${deb%.deb}
if [ ! -x "$program" ]; then
	tmp=$(mktemp -d "$dir/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	(cd "$tmp" && apt-get -qq download linux-source-6.12) >/dev/null 2>&1 || bail "apt-get download linux-source-6.12"
	dpkg-deb --fsys-tarfile "$tmp"/*.deb | tar -xO --wildcards './usr/src/linux-source-6.12.tar.xz' |
		tar -xJ -C "$tmp" --wildcards '*/tools/testing/vsock/*' '*/tools/include/*' || bail "unpack linux-source"
	(cd "$tmp"/linux-source-6.12/tools/testing/vsock &&
		gcc -O2 -w -I../../include -fno-strict-overflow -fno-strict-aliasing -fno-common -D_GNU_SOURCE -static \
			-o "$tmp/vsock_test" vsock_test.c vsock_test_zerocopy.c timeout.c control.c util.c \
			msg_zerocopy_common.c) || bail "build vsock_test"
	mv "$tmp/vsock_test" "$program"
fi

make -s build/rel/libholdfast.a >/dev/null || bail "build"
mkdir -p build/testguest
gcc -static -O2 -D_GNU_SOURCE -o build/testguest/testinit tests/vm/guest/testinit.c || bail "build the test's init"
gcc -std=gnu11 -O2 -Wall -D_GNU_SOURCE -I. -Iinclude -o build/testguest/vsock_relay tests/long/vsock_relay.c \
	build/rel/libholdfast.a $(pkg-config --libs jansson libsodium libseccomp) || bail "build the relay"

kernels=${HOLDFAST_TEST_KERNEL:-$(ls -d "$HOLDFAST_CACHE"/image/current/kernels/6.12* | head -1)}
list=build/testguest/early.vsock
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci vsock \
	vmw_vsock_virtio_transport_common vmw_vsock_virtio_transport; do
	[ -e "$kernels/early/$m.ko" ] && echo "$m"
done >"$list"

# SEQPACKET is not offered by the device: every such test is skipped, on both sides.
skips=$("$program" --list 2>/dev/null | awk '/SEQPACKET/ { sub(/[^0-9].*/, "", $1); printf "--skip=%s ", $1 }')
build/testguest/vsock_relay "$kernels/vmlinux" "$PWD/build/testguest/testinit" "$kernels/early" "$PWD/$list" \
	"$program" "$skips" >build/testguest/vsock_test.out 2>build/testguest/vsock_test.err

# Both sides print "N - NAME...ok"; a test counts when both said so.
awk '
/^---- / { side = $2 }
match($0, /^[0-9]+ - .*\.\.\.(ok|skipped)/) {
	name = $0; result = $0
	sub(/\.\.\..*/, "", name); sub(/.*\.\.\./, "", result)
	seen[name] = seen[name] " " side ":" result
	if (!(name in order)) { order[name] = ++n; byorder[n] = name }
}
END {
	for (i = 1; i <= n; i++) {
		name = byorder[i]
		if (seen[name] ~ /skipped/) continue
		good = seen[name] ~ /server:ok/ && seen[name] ~ /client:ok/
		printf "%sok %d - vsock_test %s\n", good ? "" : "not ", ++k, name
	}
	if (k < 15) printf "not ok %d - vsock_test ran to its end (%d stream tests)\n", ++k, k
	printf "1..%d\n", k
}' build/testguest/vsock_test.out
grep -q '^not ok' build/testguest/vsock_test.out && exit 1
tail -5 build/testguest/vsock_test.err | sed 's/^/# /'
