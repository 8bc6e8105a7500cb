#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# holdfast run: makes what is missing, says what was refused, leaves nothing behind; and holdfast cp.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
[ "${1:-}" = --inside ] || exec tests/fixture/netns-run "$0" --inside
dir=$(mktemp -d)
home_make "$dir"
trap 'home_end; rm -rf "$dir"' EXIT

mkdir -p "$dir/project/sub"
echo hello >"$dir/project/sub/file"
chmod 0750 "$dir/project/sub"
chmod 0755 "$dir/project/sub/file"
ln -s sub/file "$dir/project/link"

holdfast run --accel "$(home_accel)" --policy demo/policy.yaml --mount "$dir/project" job -- sh -c '
	cat link; stat -c "%a %n" sub sub/file; readlink link; echo new >made; curl -s -m 5 http://refused.example.net/; exit 9' \
	>"$dir/out" 2>"$dir/err"
is "the command's exit code" $? 9
is "its output, with modes and links as they were" "$(cat "$dir/out")" "hello
750 sub
755 sub/file
sub/file"
ok "one line says what was refused" grep -q 'refused, last: .*refused.example.net' "$dir/err"
ok "changes come back" holdfast cp job:/home/agent/work "$dir/back"
is "with what was made" "$(cat "$dir/back/made")" new
is "modes are kept" "$(stat -c %a "$dir/back/sub/file")" 755
is "links stay links" "$(readlink "$dir/back/link")" sub/file

# What a guest could send: a link that leads out, and a file below it; an absolute name; a device.
holdfast exec job -- sh -c 'mkdir -p /tmp/evil && cd /tmp/evil && ln -s /etc out && tar -cf /tmp/evil.tar -C /tmp evil &&
	rm out && mkdir out && echo owned >out/passwd2 && tar -rf /tmp/evil.tar -C /tmp evil/out/passwd2 &&
	printf "%s\n" "#!/bin/sh" "cat /tmp/evil.tar" | sudo tee /usr/bin/tar >/dev/null'
holdfast cp job:/tmp/evil "$dir/evil" >/dev/null 2>"$dir/err"
is "a link in a hostile archive leads nowhere" "$([ -e /etc/passwd2 ] && echo escaped; [ -L "$dir/evil/out" ] && [ -e "$dir/evil/out/passwd2" ] && echo followed)" ""
ok "delete" bash -c 'holdfast ws stop --force job && holdfast ws delete --yes job'

holdfast run --rm --accel "$(home_accel)" --policy none -- true 2>/dev/null
is "a run without a name works" $? 0
is "and leaves nothing behind" "$(holdfast ws list | wc -l; ls "$XDG_DATA_HOME/holdfast/workspaces" | wc -l)" "0
0"
tap_end
