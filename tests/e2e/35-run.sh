#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# holdfast run: makes what is missing, says what was refused, leaves nothing behind; and holdfast cp.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"

# A linked worktree: its .git points out of it, to a repository with a hook that must not come along.
git init -q "$dir/main"
git -C "$dir/main" -c user.name=n -c user.email=n@example.org commit -q --allow-empty -m first
git -C "$dir/main" worktree add -q -b side "$dir/project"
printf '#!/bin/sh\nexit 1\n' >"$dir/main/.git/hooks/pre-commit"
chmod 0755 "$dir/main/.git/hooks/pre-commit"
mkdir -p "$dir/project/sub"
echo hello >"$dir/project/sub/file"
chmod 0750 "$dir/project/sub"
chmod 0755 "$dir/project/sub/file"
ln -s sub/file "$dir/project/link"

holdfast run --accel "$(home_accel)" --policy demo/policy.yaml --mount "$dir/project" job -- sh -c '
	git add sub link && git -c user.name=n -c user.email=n@example.org commit -qm second && git log --format=%s side
	ls .git/hooks 2>/dev/null | wc -l; cat link; stat -c "%a %n" sub sub/file; readlink link; echo new >made; curl -s -m 5 http://refused.example.net/; exit 9' \
	>"$dir/out" 2>"$dir/err"
is "the command's exit code" $? 9
[ $tap_failed = 0 ] || sed 's/^/# /' "$dir/err"
is "its output, with modes and links as they were" "$(cat "$dir/out")" "second
first
0
hello
750 sub
755 sub/file
sub/file"
ok "one line says what was refused" grep -q 'refused, last: .*refused.example.net' "$dir/err"
ok "changes come back" holdfast cp job:/home/agent/work "$dir/back"
is "with what was made" "$(cat "$dir/back/made")" new
is "modes are kept" "$(stat -c %a "$dir/back/sub/file")" 755
is "UN-39 a commit made in a linked worktree can be fetched" "$(git -C "$dir/main" fetch -q "$dir/back" side && git -C "$dir/main" log --format=%s FETCH_HEAD)" "second
first"
is "links stay links" "$(readlink "$dir/back/link")" sub/file

# What a guest could send: a link that leads out, and a file below it; an absolute name; a device.
holdfast exec job -- sh -c 'mkdir -p /tmp/evil && cd /tmp/evil && ln -s /etc out && tar -cf /tmp/evil.tar -C /tmp evil &&
	rm out && mkdir out && echo owned >out/passwd2 && tar -rf /tmp/evil.tar -C /tmp evil/out/passwd2 &&
	printf "%s\n" "#!/bin/sh" "cat /tmp/evil.tar" | sudo tee /usr/bin/tar >/dev/null'
holdfast cp job:/tmp/evil "$dir/evil" >/dev/null 2>"$dir/err"
is "a link in a hostile archive leads nowhere" "$([ -e /etc/passwd2 ] && echo escaped; [ -L "$dir/evil/out" ] && [ -e "$dir/evil/out/passwd2" ] && echo followed)" ""
cat >"$dir/evil.py" <<'PYTHON'
import io, tarfile
with tarfile.open("/tmp/evil.tar", "w", format=tarfile.GNU_FORMAT) as t:
    def add(name, data=b"owned\n", mode=0o644, **more):
        i = tarfile.TarInfo(name)
        i.mode, i.size = mode, len(data)
        for key, value in more.items():
            setattr(i, key, value)
        t.addfile(i, io.BytesIO(data))
    add("evil", b"", 0o755, type=tarfile.DIRTYPE)
    add("evil/setuid", b"#!/bin/sh\n", 0o6755)
    add("/tmp/holdfast-absolute")
    add("evil/passwd", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd")
    add("evil/device", b"", 0o666, type=tarfile.CHRTYPE, devmajor=1, devminor=3)
    add("evil/pipe", b"", type=tarfile.FIFOTYPE)
    add("evil/good", b"good\n")
    # these two end the copy
    add("evil/hard", type=tarfile.LNKTYPE, linkname="evil/../precious")
    add("evil/../precious")
PYTHON
mkdir "$dir/dest" && echo mine >"$dir/dest/precious"
holdfast exec job -- python3 - <"$dir/evil.py"
holdfast cp job:/tmp/evil "$dir/dest/evil" >"$dir/out" 2>&1
echo "# $(tr '\n' ' ' <"$dir/out")"
is "a hostile archive changes nothing beside the copy" "$(cat "$dir/dest/precious")$(ls "$dir/dest" | tr '\n' ' ')" "mineevil precious "
is "what is honest in it arrives" "$(cat "$dir/dest/evil/good")" good
is "no absolute name, no setuid bit, no device, no pipe" "$([ -e /tmp/holdfast-absolute ] && echo absolute
	find "$dir/dest" \( -perm /7000 -o -type c -o -type p \) -printf '%f ')" ""
is "no second name of a file outside" "$(find "$dir/dest" -samefile /etc/passwd; find "$dir/dest/evil" -samefile "$dir/dest/precious")" ""
ok "delete" bash -c 'holdfast ws stop --force job && holdfast ws delete --yes job'

holdfast run --rm --accel "$(home_accel)" --policy none -- true 2>/dev/null
is "a run without a name works" $? 0
is "and leaves nothing behind" "$(holdfast ws list | wc -l; ls "$XDG_DATA_HOME/holdfast/workspaces" | wc -l)" "0
0"
tap_end
