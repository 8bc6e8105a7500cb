#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# Killed at any moment, a run leaves nothing half behind that a later run would use.
. "$(dirname "$0")/catalog-lib.bash"

real=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}
[ -e "$real/modules/releases.json" ] || ci/modules/discover --quiet >/dev/null 2>&1
release=$(newest 6.1 cloud)
small_source "$T/source"
export HOLDFAST_SOURCE=$T/source
passes "baseline: the release is built with the real cache" ci/modules/build-one "$release" "$T/good"
want=$(hash_of "$T/good/$release/sentry.ko")

# A cache of its own that shares what is large and complete.
export HOLDFAST_CACHE=$T/cache
mkdir -p "$T/cache/modules"
cp -r "$real/indices" "$T/cache/"
cp "$real/modules/releases.json" "$T/cache/modules/"
mkdir "$T/cache/roots"
cp "$real"/roots/*.json "$T/cache/roots/"
digest=$(record_of "$real/roots/bookworm.json" root_sha256)
ln -s "$real/roots/$digest" "$T/cache/roots/$digest"
cp "$real/roots/$digest.tree" "$T/cache/roots/"

debs=$(python3 - "$release" <<-'PY'
	import sys
	sys.path.insert(0, "ci/modules")
	from kit import releases
	for deb in releases.load(sys.argv[1:])[0]["debs"]:
	    print(deb["sha256"], deb["size"])
	PY
)
deb_at() { echo "$T/cache/debs/${1:0:2}/$1.deb"; }

# Half-written and damaged packages under their final names.
while read -r sha size; do
	mkdir -p "$(dirname "$(deb_at "$sha")")"
	head -c $((size / 2)) "$real/debs/${sha:0:2}/$sha.deb" >"$(deb_at "$sha")"
done <<<"$debs"
passes "half packages in the cache are not used" ci/modules/build-one "$release" "$T/out"
[ "$(hash_of "$T/out/$release/sentry.ko")" = "$want" ]; say $? "and the module is the same"
read -r first size <<<"$(head -n 1 <<<"$debs")"
[ "$(hash_of "$(deb_at "$first")")" = "$first" ]; say $? "the half package was fetched again, whole"
printf x | dd of="$(deb_at "$first")" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
rm -rf "$T/cache/unpacked" "$T/cache/builds"
passes "a package with one changed byte is not used" ci/modules/build-one "$release" "$T/out2"
[ "$(hash_of "$T/out2/$release/sentry.ko")" = "$want" ]; say $? "and the module is the same"

# A folder that was being unpacked when its process died.
half=$T/cache/unpacked/.tmp-${first:0:16}-dead
rm -rf "$T/cache/unpacked/$first" "$T/cache/builds"
mkdir -p "$half/usr/src/linux-headers-$release"
passes "a half unpacked folder is not used" ci/modules/build-one "$release" "$T/out3"
[ ! -e "$half" ]; say $? "and is swept away"

# One that was whole when it was made, and lost a file's bytes when the machine died.
rm -rf "$T/cache/builds"
: >"$T/cache/unpacked/$first/usr/src/linux-headers-$release/Makefile"
sed -i 's/"boot": "[^"]*"/"boot": "an earlier one"/' "$T/cache/unpacked/$first.tree"
passes "after a crash a tree with an emptied file is not used" ci/modules/build-one "$release" "$T/out6"
[ "$(hash_of "$T/out6/$release/sentry.ko")" = "$want" ]; say $? "and the module is the same"

# A damaged result of an earlier build.
result=$(echo "$T"/cache/builds/*/*/A/sentry.ko)
truncate -s 1000 "$result"
passes "a truncated module in the cache is built again" ci/modules/build-one "$release" "$T/out4"
[ "$(hash_of "$T/out4/$release/sentry.ko")" = "$want" ]; say $? "and is the same"
printf x | dd of="$(echo "$T"/cache/builds/*/*/B/sentry.ko)" bs=1 seek=900 conv=notrunc 2>/dev/null
passes "a changed module in the cache is built again" ci/modules/build-one "$release" "$T/out5"
[ "$(hash_of "$T/out5/$release/sentry.ko")" = "$want" ]; say $? "and is the same"

# A root whose tar is not what its name says is not unpacked.
mkdir -p "$T/cache2/roots"
head -c 1000000 /dev/zero >"$T/cache2/roots/$digest.tar"
refuses "a damaged toolchain root is not unpacked" "not the file that its name says" \
	env HOLDFAST_CACHE="$T/cache2" python3 -c "
import sys
sys.path.insert(0, 'ci/modules')
from kit import toolchain
toolchain.tree('$digest')"
[ ! -e "$T/cache2/roots/$digest" ]; say $? "and leaves no folder behind"

# Killed at many moments; each time the next run goes on.
kills=0
for tenth in 1 3 5 7 9 12 15 18 22 26; do
	rm -rf "$T/cache/builds"
	[ $((tenth % 2)) = 0 ] || rm -rf "$T/cache/unpacked"
	setsid ci/modules/build-one "$release" "$T/killed" >/dev/null 2>&1 &
	pid=$!
	sleep "$((tenth / 10)).$((tenth % 10))"
	if kill -9 -- -$pid 2>/dev/null; then kills=$((kills + 1)); fi
	wait $pid 2>/dev/null
	if [ -e "$T/killed/$release/sentry.ko" ] && [ "$(hash_of "$T/killed/$release/sentry.ko")" != "$want" ]; then
		say 1 "killed after $tenth tenths of a second: no wrong module is put out"
	fi
done
[ $kills -ge 5 ]; say $? "builds were killed in the middle ($kills of 10)"
passes "after that a run completes" ci/modules/build-one "$release" "$T/killed"
[ "$(hash_of "$T/killed/$release/sentry.ko")" = "$want" ]; say $? "with the same module"
left=$(find "$T/cache" -name '.tmp-build-*' | wc -l)
echo "# temporary build folders left by ten kills: $left"

# A package that the archive lists but does not serve stops its release and no other.
python3 - "$T/cache/modules/releases.json" "$release" <<-'PY'
	import json, sys
	table = json.load(open(sys.argv[1]))
	for row in table["releases"]:
	    if row["release"] == sys.argv[2]:
	        lost = json.loads(json.dumps(row))
	        lost["release"] = "6.1.0-1-cloud-amd64"
	        lost["debs"][0] |= {"url": row["debs"][0]["url"] + ".gone", "sha256": "0" * 64}
	        lost["flavour"] = "gone"
	        table["releases"].append(lost)
	        break
	json.dump(table, open(sys.argv[1], "w"))
	PY
ci/modules/fetch "$release" 6.1.0-1-cloud-amd64 >"$T/fetch" 2>/dev/null
say $? "fetch goes on when a package is gone"
grep -q "1 of 2 releases can be built" "$T/fetch" && grep -q "not fetched" "$T/fetch"
say $? "and says which release cannot be built" "$(cat "$T/fetch")"
finish
