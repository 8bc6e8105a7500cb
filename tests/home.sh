# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by the demo and by tests that run hostd: a home of their own, with nothing of the user's in it.
#   home_make DIR    XDG folders below DIR, the image's public key, build/bin first in PATH
#   home_test "$@"   for a test's script: itself again in network namespaces of its own, with a home in $dir that ends with it
#   home_here        the same home without namespaces, for scripts that open no connection
#   home_end         stops every workspace and hostd of that home; call it from a trap
#   home_accel       the acceleration that works here: kvm if it really runs guests, else tcg

ROOT=${HOLDFAST_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
PATH=$ROOT/build/bin:$PATH
export PATH

home_make() {
	local dir=$1 keys=${XDG_CONFIG_HOME:-$HOME/.config}/holdfast/keys
	export HOLDFAST_CACHE=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}
	mkdir -p "$dir/config/holdfast/keys" "$dir/data" "$dir/run"
	chmod 0700 "$dir" "$dir/config/holdfast" "$dir/run"
	cp "$keys/image.key.pub" "$dir/config/holdfast/keys/"
	export XDG_CONFIG_HOME=$dir/config XDG_DATA_HOME=$dir/data XDG_RUNTIME_DIR=$dir/run HOME=$dir
}

home_test() {
	[ "${1:-}" = --inside ] || exec tests/fixture/netns-run "$0" --inside
	home_here
}

home_here() {
	dir=$(mktemp -d)
	home_make "$dir"
	trap 'home_end; rm -rf "$dir"' EXIT
}

home_end() {
	local name
	[ -S "$XDG_RUNTIME_DIR/holdfast/api.sock" ] || return 0
	holdfast ws list 2>/dev/null | cut -d' ' -f1 | while read -r name; do
		holdfast ws stop --force "$name" >/dev/null 2>&1
	done
	holdfast daemon stop --force >/dev/null 2>&1
}

home_accel() {
	holdfast doctor --json 2>/dev/null | grep -q 'KVM runs guest code' && echo kvm || echo tcg
}
