#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# The fixture network serves what it says, reaches nothing else, and leaves nothing behind.
set -u
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1

if [ "${1:-}" != inside ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 0777 "$work"
	export HOLDFAST_FIXTURE_LOG=$work/log
	tests/fixture/netns-run "$0" inside
	status=$?
	n=15
	result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }
	[ $status = 7 ]; result $? "the exit status of the command is passed on"
	! pgrep -f "servers.py $work/log" >/dev/null; result $? "no server is left"
	grep -q '"server": "files.example.org"' "$work/log"; result $? "requests are logged"
	if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
		# A copy, since the tree may lie where only root can read.
		cp -r tests/fixture "$work/"
		rm -f "$work/log"
		setpriv --reuid 65534 --regid 65534 --clear-groups "$work/fixture/netns-run" \
			curl -fsS -o "$work/page" http://files.example.org/ 2>"$work/err" &&
			[ "$(cat "$work/page")" = files.example.org ]
		result $? "an ordinary user can run it"
	else
		result 0 "an ordinary user can run it"
	fi
	echo "1..$n"
	exit
fi

n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ "$(curl -fsS http://files.example.org/)" = files.example.org ]
result $? "a name of the fixture is served"
curl -fsS http://files.example.org/bytes/100000 >"$work/a" && curl -fsS http://192.0.2.80/bytes/100000 >"$work/b"
cmp -s "$work/a" "$work/b" && [ "$(stat -c %s "$work/a")" = 100000 ]
result $? "known bytes are the same each time"
echo 'ping' >"$work/p"
[ "$(curl -fsS --data-binary @"$work/p" http://files.example.org/echo)" = ping ]
result $? "what is posted comes back"
curl -fsS http://files.example.org/hello-1.0.tar.gz | tar -xz -C "$work" && make -s -C "$work/hello-1.0" 2>/dev/null &&
	[ "$("$work/hello-1.0/hello")" = "hello: the sum is 5050" ]
result $? "the source archive unpacks, compiles and runs"
curl -s -m 5 -o /dev/null http://unknown.example.org/; [ $? = 6 ]
result $? "a name of nobody does not resolve"
! curl -s -m 3 -o /dev/null http://203.0.113.9/
result $? "an address of nobody is not reached"
[ "$(ip -o link | wc -l)" = 1 ]
result $? "there is no interface but loopback"
curl -fsS http://registry.example.org/chatty-logger >"$work/doc" && python3 - "$work/doc" <<-'PYTHON'
	import base64, hashlib, json, sys, urllib.request
	document = json.load(open(sys.argv[1], encoding="utf-8"))
	dist = document["versions"][document["dist-tags"]["latest"]]["dist"]
	data = urllib.request.urlopen(dist["tarball"], timeout=5).read()
	assert dist["integrity"] == "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
PYTHON
result $? "the registry's tarball has the digest that it says"
if command -v npm >/dev/null; then
	mkdir "$work/app" && cd "$work/app" && echo '{"name":"app","version":"1.0.0"}' >package.json
	HOME=$work npm install --silent --no-audit --no-fund --foreground-scripts \
		--registry http://registry.example.org chatty-logger >"$work/npm" 2>&1 &&
		[ "$(node -e 'require("chatty-logger").log("x")')" = "log: x" ]
	result $? "npm installs from the registry"
	cd - >/dev/null || exit 1
else
	n=$((n + 1)); echo "ok $n - npm installs from the registry # SKIP no npm on this machine"
fi
curl -fsS --data '{}' http://telemetry.example.net/v1/installed | grep -q ok &&
	grep -q '"path": "/v1/installed".*"server": "telemetry.example.net"' "$HOLDFAST_FIXTURE_LOG"
result $? "the collector takes what it gets, and the log shows it"
mkdir -p "$work/apt"/{lists/partial,archives/partial,etc} && : >"$work/apt/status"
echo 'deb [trusted=yes] http://apt.example.org/debian fixture main' >"$work/apt/etc/sources.list"
apt=(-o "Dir::Etc=$work/apt/etc" -o "Dir::State=$work/apt" -o "Dir::State::status=$work/apt/status"
	-o "Dir::Cache=$work/apt" -o Debug::NoLocking=1 -o APT::Sandbox::User= -o APT::Architecture=amd64)
apt-get -qq "${apt[@]}" update >"$work/apt.log" 2>&1 &&
	apt-cache "${apt[@]}" policy fixture-note 2>>"$work/apt.log" | grep -q 'Candidate: 2.0'
result $? "apt reads the archive"
(cd "$work" && apt-get -qq "${apt[@]}" download fixture-note >>"$work/apt.log" 2>&1) &&
	[ "$(dpkg-deb -f "$work"/fixture-note_*.deb Version)" = 2.0 ]
result $? "and dpkg its packages"
python3 - <<-'PYTHON'
	import socket, struct
	query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\5files\7example\3org\0\0\1\0\1"
	s = socket.create_connection(("192.0.2.53", 53), timeout=5)
	s.sendall(struct.pack(">H", len(query)) + query)
	assert socket.inet_aton("192.0.2.80") in s.recv(512)
PYTHON
result $? "the resolver answers over TCP too"
python3 - <<-'PYTHON'
	import socket
	s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
	s.settimeout(5)
	for junk in (b"", b"x", b"\0" * 12, b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\xff" + b"a" * 20):
	    s.sendto(junk, ("192.0.2.53", 53))
	s.sendto(b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\5files\7example\3org\0\0\1\0\1", ("192.0.2.53", 53))
	assert socket.inet_aton("192.0.2.80") in s.recv(512)
PYTHON
result $? "junk does not end the resolver"
sleep 300 &
result 0 "something is left running when the command ends"
exit 7
