#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 180
# Bad input ends in one line, exit 1 and no half-made state. No VM runs here.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_here

ok "a workspace is made (the positive baseline)" holdfast ws create good --policy none --accel tcg
fails "the same name again" 'workspace "good" exists already' holdfast ws create good
fails "a name that is none" 'is no workspace name' holdfast ws create ../x --policy none
fails "an unknown workspace: show" 'no workspace is named "nix"' holdfast ws show nix
fails "an unknown workspace: start" 'no workspace is named "nix"' holdfast ws start nix
fails "an unknown workspace: exec" 'no workspace is named "nix"' holdfast exec nix -- true
fails "exec while it is off" 'workspace good is off: start it' holdfast exec good -- true
fails "a setting out of its bounds" 'cpus: must be a number from 1 to 64' holdfast ws set good --cpus 0
fails "a setting of the wrong kind" 'accel: must be one of auto|kvm|tcg' holdfast ws set good --accel xen
is "a refused setting changes nothing" "$(holdfast ws show good --json | grep -o '"cpus":1')" '"cpus":1'
fails "a policy file that is missing" 'No such file' holdfast ws create p1 --policy "$dir/none.yaml"
printf 'version: 1\nnetwork_policys: {}\n' >"$dir/bad.yaml"
fails "a policy with an unknown key" 'network_policys' holdfast ws create p2 --policy "$dir/bad.yaml"
printf 'version: 7\n' >"$dir/newer.yaml"
fails "a policy of another version" 'version' holdfast ws create p3 --policy "$dir/newer.yaml"
is "a refused policy leaves no workspace behind" "$(holdfast ws list | cut -d' ' -f1 | tr '\n' ' ')" 'good '
is "nor a folder" "$(ls "$XDG_DATA_HOME/holdfast/workspaces" | tr '\n' ' ')" 'good '

# The user's boundary: what goes past it is refused before anything is made, with a case that shows it.
printf 'version: 1\nnetwork_policies:\n  in:\n    name: in\n    endpoints:\n      - { host: inside.example.org, port: 443 }\n' \
	>"$XDG_CONFIG_HOME/holdfast/boundary.yaml"
fails "a policy that exceeds the boundary" 'exceeds' holdfast ws create wide --policy demo/policy.yaml
fails "no policy at all where there is a boundary" 'boundary' holdfast ws create wide --policy none
ok "a policy within the boundary" holdfast ws create within --policy "$XDG_CONFIG_HOME/holdfast/boundary.yaml"
is "what was refused left nothing" "$(holdfast ws list | cut -d' ' -f1 | tr '\n' ' ')" 'good within '
holdfast ws delete --yes within >/dev/null
rm "$XDG_CONFIG_HOME/holdfast/boundary.yaml"

holdfast ws create img --policy none --image 0123456789abcdef --accel tcg >/dev/null
fails "an image that is missing" 'make it with `make image`' holdfast ws start img
holdfast ws create ker --policy none --kernel 1.2.3 --accel tcg >/dev/null
fails "a kernel that the image has not" 'the image has no kernel "1.2.3"' holdfast ws start ker
[ "$(home_accel)" = kvm ] && skip "KVM that opens but runs nothing" "KVM works here" ||
	fails "KVM that opens but runs nothing (or is not there)" 'KVM' holdfast ws start "$(
		holdfast ws create nokvm --policy none --accel kvm >/dev/null; echo nokvm)"
is "a failed start leaves it off" "$(holdfast ws show img --json | grep -o '"state":"[a-z]*"')" '"state":"off"'

echo '{"schema":1,"turbo":true}' >"$XDG_DATA_HOME/holdfast/workspaces/ker/workspace.json"
holdfast daemon stop
within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"
fails "settings with an unknown key, at a new start of hostd" 'unknown key "turbo"' holdfast ws show ker
is "the other workspaces are there" "$(holdfast ws list | grep -c '^good ')" 1

# QEMU missing and too old: another PATH for hostd, which the roles inherit.
holdfast daemon stop
within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"
mkdir -p "$dir/bin"
for tool in bash sh qemu-img mke2fs mkfs.ext4 cat ls; do
	ln -sf "$(PATH=$PATH:/usr/sbin:/sbin command -v $tool)" "$dir/bin/" 2>/dev/null
done
fails "no QEMU" 'qemu-system-x86_64 is not installed' env PATH="$ROOT/build/bin:$dir/bin" holdfast ws start good
holdfast daemon stop
within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"
if [ "$(id -u)" = 0 ]; then
	printf '#!/bin/sh\necho "QEMU emulator version 5.2.0"\n' >"$dir/bin/old-qemu"
	chmod +x "$dir/bin/old-qemu"
	old_qemu() {
		unshare -m bash -c 'mount --make-rprivate / && mount --bind "$1" "$(command -v qemu-system-x86_64)" &&
			holdfast ws start good' - "$dir/bin/old-qemu"
	}
	fails "a QEMU that is too old" '5.2' old_qemu
	holdfast daemon stop
	within 10 test ! -S "$XDG_RUNTIME_DIR/holdfast/api.sock"
else
	skip "a QEMU that is too old" "needs root to put one in QEMU's place"
fi

holdfast ws show good >/dev/null 2>&1; is "usage errors exit with 2" "$(holdfast ws create 2>/dev/null; echo $?)" 2
is "an unknown verb too" "$(holdfast nix 2>/dev/null; echo $?)" 2
is "an unknown option too" "$(holdfast ws create --turbo x 2>/dev/null; echo $?)" 2
fails "delete without a terminal needs --yes" 'needs --yes' holdfast ws delete good
ok "delete" holdfast ws delete --yes good
is "nothing is left of it" "$(ls "$XDG_DATA_HOME/holdfast/workspaces" | grep -c good)" 0
tap_end
