#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# hostd and its roles need no privilege: an ordinary user without capabilities, groups or /dev/kvm runs a VM.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh

if [ "${1:-}" = --as-user ]; then
	trap home_end EXIT
	is "no capability is held" "$(grep -c 'CapEff:.*0000000000000000' /proc/self/status)" 1
	ok "doctor finds nothing bad" holdfast doctor
	holdfast ws create u --accel "$(home_accel)" --policy demo/policy.yaml >/dev/null
	ok "the VM starts" holdfast ws start u
	is "a command runs in it" "$(holdfast exec u -- echo hello)" hello
	ok "a file comes in" holdfast cp README.md u:/tmp/
	ok "and goes out" holdfast cp u:/tmp/README.md "$HOME/copy"
	ok "with the same bytes" cmp README.md "$HOME/copy"
	hostd=$(holdfast daemon status | grep -o '"pid":[0-9]*' | cut -d: -f2)
	is "hostd runs as this user" "$(awk '/^Uid/{print $2, $3}' "/proc/$hostd/status")" "$(id -u) $(id -u)"
	ok "it cannot gain privilege, and has a filter" bash -c "grep -q 'NoNewPrivs:.1' /proc/$hostd/status && grep -q 'Seccomp:.2' /proc/$hostd/status"
	ok "stop" holdfast ws stop u
	ok "delete" holdfast ws delete --yes u
	tap_end
	exit
fi
if [ "$(id -u)" != 0 ]; then
	exec "$0" --as-user
fi
[ "${1:-}" = --inside ] || exec unshare -m "$0" --inside

# The tree, the image and the keys where the user can read them: mounted, not copied.
mount --make-rprivate /
dir=$(mktemp -d)
# Never a recursive removal above a mount point: it would reach what is mounted there.
trap 'umount -l "$dir/tree" "$dir/cache"; rm -rf "$dir/home"; rmdir "$dir/tree" "$dir/cache" "$dir"' EXIT
chmod 0755 "$dir"
mkdir "$dir/tree" "$dir/cache"
mount --bind "$PWD" "$dir/tree"
home_make "$dir/home"
mount --bind "$HOLDFAST_CACHE" "$dir/cache"
chmod 0755 "$dir/home"
chown -R 65534:65534 "$dir/home"
# The cache is its owner's; here the owner lends it.
mode=$(stat -c %a "$HOLDFAST_CACHE")
chmod o+x "$HOLDFAST_CACHE"
export HOLDFAST_CACHE=$dir/cache HOLDFAST_ROOT=$dir/tree
setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
	"$dir/tree/tests/e2e/30-ordinary-user.sh" --as-user
status=$?
chmod "$mode" "$dir/cache"
exit $status
