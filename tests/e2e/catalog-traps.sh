#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# What a build must not see: the signing key, the network, headers of the host or of another release.
. "$(dirname "$0")/catalog-lib.bash"

export HOLDFAST_CATALOG_KEYS=$T/keys HOLDFAST_SOURCE=$T/source
[ -e "${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/modules/releases.json" ] ||
	ci/modules/discover --quiet >/dev/null 2>&1
release=$(newest 6.1 cloud)
other=$(newest "6.12 deb12" cloud)
small_source "$T/source"

# A spy that runs inside the build, as Kbuild may: what it found becomes a string of the module.
build/bin/holdfast-catalog init --local >/dev/null
port=$((20000 + RANDOM % 20000))
python3 -c '
import socket, sys
s = socket.socket(); s.bind(("0.0.0.0", int(sys.argv[1]))); s.listen(16)
while True: s.accept()[0].close()' $port &
listener=$!
cleanup() { kill $listener 2>/dev/null; [ -z "${planted:-}" ] || rm -rf "$planted"; rm -rf "$T"; }
sleep 0.5
address=$(ip -4 -o addr show scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
cat >"$T/source/sentry/spy.h" <<EOS
seen=
grep -q minisign $T/keys/catalog.key 2>/dev/null && seen="\$seen,key"
grep -rqs 'minisign secret ke[y]' /home /root /tmp /run /var 2>/dev/null && seen="\$seen,key-somewhere"
for to in 127.0.0.1 ${address:-127.0.0.1}; do
	timeout 2 bash -c "exec 3<>/dev/tcp/\$to/$port" 2>/dev/null && seen="\$seen,net-\$to"
done
[ -e /proc/self/root/work ] || [ -e $PWD/Makefile ] && seen="\$seen,tree"
[ -n "\${HOLDFAST_CATALOG_KEYS:-}\${SECRET_TOKEN:-}" ] && seen="\$seen,environment"
seen="\$seen,\$(ls /usr/src | tr '\n' ',')"
echo "\$seen"
EOS
# Baseline: outside, the spy finds the key, the network and the tree.
found=$(SECRET_TOKEN=x bash "$T/source/sentry/spy.h")
for what in key key-somewhere net-127.0.0.1 tree environment; do
	grep -q ",$what" <<<"$found"; say $? "baseline: outside the sandbox the spy sees: $what" "$found"
done

# kbuild reads the Makefile twice, and only the pass that compiles has -D's value in a command.
cat >>"$T/source/Kbuild" <<'EOS'
ccflags-y += -DSEEN=\"SEEN$(shell bash $(src)/sentry/spy.h)END\"
EOS
sed -i 's/pr_info("%s\\n", __FILE__)/pr_info("%s %s\\n", __FILE__, SEEN)/' "$T/source/sentry/main.c"
SECRET_TOKEN=x ci/modules/build-one "$release" "$T/out" >"$T/log" 2>&1
say $? "the module with the spy is built" "$(cat "$T/log")"
seen=$(strings "$T/out/$release/sentry.ko" | grep -o 'SEEN.*END')
[ -n "$seen" ]; say $? "the spy ran inside the build" "$seen"
for what in key key-somewhere net- tree environment; do
	! grep -q ",$what" <<<"$seen"; say $? "the build does not see: $what" "$seen"
done
[ "$seen" = "SEEN,linux-headers-$release,linux-headers-${release%-cloud-amd64}-common,END" ]
say $? "the build sees the headers of its release and no others" "$seen"

# Traps in the environment and on the host: headers that stop every compiler that reads them.
small_source "$T/plain"
export HOLDFAST_SOURCE=$T/plain
ci/modules/build-one "$release" "$T/plain-out" >/dev/null 2>&1
say $? "baseline: the plain module is built"
mkdir -p "$T/evil/linux"
echo '#error trap: a header of the host' >"$T/evil/linux/module.h"
echo '#include <linux/module.h>' >"$T/use.c"
! CPATH=$T/evil gcc -E "$T/use.c" >/dev/null 2>&1; say $? "baseline: the planted header stops the host's compiler"
planted=
if [ "$(id -u)" = 0 ] && [ ! -e "/usr/src/linux-headers-$release" ]; then
	planted=/usr/src/linux-headers-$release
	mkdir -p "$planted/include/linux"
	echo '$(error trap: the host has this release installed)' >"$planted/Makefile"
	echo '#error trap' >"$planted/include/linux/module.h"
	! make -C "$planted" M="$T/plain" modules >/dev/null 2>&1; say $? "baseline: the planted release stops a plain build"
else
	skip "baseline: the planted release stops a plain build" "needs root and no such headers installed"
fi
key=$(python3 - "$release" <<-'PY'
	import os, sys
	sys.path.insert(0, "ci/modules")
	from kit import record, releases, source
	print(record.folder(record.prepare(releases.load(sys.argv[1:])[0]), source.snapshot()[1]))
	PY
)
mv "$key" "$T/aside"
CPATH=$T/evil C_INCLUDE_PATH=$T/evil KCFLAGS=-DTRAP CC=false MAKEFLAGS=--no-such \
	KDIR="/usr/src/linux-headers-$release" ci/modules/build-one "$release" "$T/trap-out" >"$T/log" 2>&1
say $? "with every trap set the module is built" "$(cat "$T/log")"
cmp -s "$T/plain-out/$release/sentry.ko" "$T/trap-out/$release/sentry.ko"
say $? "and it is the same, byte for byte"
[ -z "$planted" ] || { rm -rf "$planted"; planted=; }

# Headers of another release cannot stand in: the build of one release never mentions the other.
ci/modules/build-one "$other" "$T/plain-out" >/dev/null 2>&1
[ "$(modinfo -F vermagic "$T/plain-out/$other/sentry.ko" | cut -d' ' -f1)" = "$other" ] &&
	! grep -qaF "$release" "$T/plain-out/$other/sentry.ko"
say $? "a build for $other has nothing of $release"

# What counts as the module's source: its folder, and of include/ what it includes, at any depth.
small_source "$T/parts"
mkdir -p "$T/parts/include/holdfast"
echo '#include <holdfast/inner.h>' >"$T/parts/include/holdfast/outer.h"
touch "$T/parts/include/holdfast/inner.h" "$T/parts/include/holdfast/unused.h"
sed -i '1i #include <holdfast/outer.h>' "$T/parts/sentry/main.c"
seen=$(python3 -c 'import sys; sys.path.insert(0, "ci/modules"); from kit import source; print(*source.files(sys.argv[1]))' "$T/parts")
[ "$seen" = "Kbuild include/holdfast/inner.h include/holdfast/outer.h sentry/main.c sentry/part.c" ]
say $? "headers that the module includes are its source, others are not" "$seen"

# DIS-05: a build with test-only switches is refused by the check, so that it never gets a record.
sed -i 's/MODULE_VERSION("1");/MODULE_VERSION("1"); MODULE_INFO(testable, "Y");/' "$T/plain/sentry/main.c"
refuses "a test build gets no record" "test-only switches" ci/modules/build-one "$release" "$T/testable"
[ ! -e "$T/testable/$release/sentry.ko" ]; say $? "and is not put out"
# A module that has its build path inside is refused too.
sed -i 's/MODULE_INFO(testable, "Y");/MODULE_INFO(where, "\/build\/holdfast");/' "$T/plain/sentry/main.c"
refuses "a module that names its build path gets no record" "contains /build/" ci/modules/build-one "$release" "$T/testable"
finish
