#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 600
# A rule for programs at level strict: the file that runs is hashed in the kernel, pinned at first use and compared from
# then on; 200 connections at once wait for one hash and all go through; a changed file is refused and named.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"

# policy FILE FURTHER-PROGRAM
policy() {
	cat >"$dir/$1" <<-YAML
	version: 1
	filesystem_policy:
	  include_workdir: true
	  read_only: [/usr, /lib, /lib64, /bin, /etc, /proc, /sys, /opt]
	  read_write: [/tmp, /dev/null, /dev/zero, /dev/urandom, /dev/random]
	process:
	  run_as_user: sandbox
	  run_as_group: sandbox
	network_policies:
	  files:
	    name: files
	    endpoints:
	      - { host: files.example.org, port: 80 }
	    binaries:
	      - { path: "/usr/bin/python3*" }
	      - { path: "$2" }
	YAML
}
policy first.yaml '/tmp/fetch'
policy second.yaml '/tmp/other'
cat >"$dir/many.py" <<'PY'
import errno, select, socket
address = socket.getaddrinfo("files.example.org", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4]
waiting, done = {}, 0
for _ in range(200):
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(address) == errno.EINPROGRESS
    waiting[s.fileno()] = s
poll = select.poll()
for fd in waiting:
    poll.register(fd, select.POLLOUT)
while waiting:
    for fd, _ in poll.poll(60000) or [exit("timeout with %d" % len(waiting))]:
        poll.unregister(fd)
        done += not waiting.pop(fd).getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
print("connected", done)
PY
printf 'import socket\nsocket.create_connection(("files.example.org", 80), timeout=30)\nprint("reached")\n' >"$dir/one.py"

rows() { holdfast timeline ident --json --all "$@"; }
inside() { holdfast exec ident -- "$@" 2>&1; }
fetch() { inside "$1" -s -m 30 -o /dev/null -w '%{http_code}' http://files.example.org/bytes/100; }
seen() { rows --kind "$1" | grep "\"program\":\"$2\"" | grep -q "${3:-}"; }

ok "the VM is made" holdfast ws create ident --accel "$(home_accel)" --policy "$dir/first.yaml"
ok "and starts" holdfast ws start ident
ok "the programs are there" bash -c "holdfast cp $dir/many.py ident:/tmp/many.py && holdfast cp $dir/one.py ident:/tmp/one.py"
python=$(inside readlink -f /usr/bin/python3 | tr -d '\r\n')
hash=$(inside sha256sum "$python" | cut -c1-64)

is "200 connections at once, all through, on one hash" "$(inside python3 /tmp/many.py | tr -d '\r')" "connected 200"
ok "the program was pinned" within 10 seen identity_pinned "$python" "sha256:$hash"
is "once" "$(rows --kind identity_pinned | grep -c "\"program\":\"$python\"")" 1
is "a later connection has its hash in its row" "$(inside python3 /tmp/one.py | tr -d '\r')" reached
ok "which is the file's" within 5 seen flow_allowed "$python" "\"exe_sha256\":\"$hash\""

inside cp /usr/bin/curl /tmp/fetch >/dev/null
is "a program in a folder that it can write" "$(fetch /tmp/fetch)" 200
ok "is pinned too" within 10 seen identity_pinned /tmp/fetch
is "curl itself is in no rule" "$(fetch /usr/bin/curl)" 000
inside sh -c 'printf x >>/tmp/fetch' >/dev/null
is "with a byte more it is refused" "$(fetch /tmp/fetch)" 000
ok "as changed" within 10 seen identity_changed /tmp/fetch
ok "and the connection's row says so" within 5 bash -c 'holdfast timeline ident --json --all --kind flow_denied | grep -q "the program was changed"'
inside sh -c 'cp /usr/bin/curl /tmp/fetch' >/dev/null
is "the old bytes again are the pinned program again" "$(fetch /tmp/fetch)" 200

inside cp /usr/bin/curl /tmp/other >/dev/null
is "a program of a later policy is refused before it" "$(fetch /tmp/other)" 000
ok "the policy that names it" holdfast policy apply ident "$dir/second.yaml"
sleep 1
is "lets it through" "$(fetch /tmp/other)" 200
ok "and it is pinned, hashed without a restart" within 10 seen identity_pinned /tmp/other
is "a change is told once" "$(rows --kind identity_changed | wc -l)" 1
is "neither this nor the boot reached into the kernel" "$(rows --kind kernel_access | wc -l)" 0
rows --kind identity_pinned,identity_changed,identity_unavailable | grep -o '"sentence":"[^"]*"' | sed 's/^/# /'
tap_end
