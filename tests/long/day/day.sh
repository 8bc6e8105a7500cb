#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A developer's day, in the guest: what people do all day, squeezed into as little time as it takes.
# Each thing that was done is said ("did: …"), each that this image lacks as well ("lacks: …").
set -u
did() { echo "did: $*"; }
has() { command -v "$1" >/dev/null || { echo "lacks: $1"; return 1; }; }
work=$(mktemp -d "$HOME/day.XXXXXX")
cd "$work" || exit 1

if sudo -n true 2>/dev/null; then
	did "sudo"
	sudo -n apt-get -s install -y --no-install-recommends make >/dev/null 2>&1 && did "apt-get"
	sudo -n dpkg --audit >/dev/null 2>&1 && did "dpkg"
fi

if has gcc && has make; then
	for i in $(seq 24); do echo "int f$i(int x) { return x + $i; }" >"f$i.c"; done
	echo 'int main(void) { return 0; }' >main.c
	printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n' >Makefile
	make -s -j4 prog && ./prog && did "make -j of 25 files"
fi

if has git; then
	git init -q repo && cd repo && git config user.email d@example.org && git config user.name d
	for i in $(seq 10); do echo "$i" >"file$i"; git add . && git commit -q -m "change $i"; done
	git log --oneline | wc -l | grep -qx 10 && git gc -q && did "git, ten commits"
	cd ..
fi

if has npm; then
	mkdir app && cd app && echo '{"name":"app","version":"1.0.0","private":true}' >package.json
	npm install --no-audit --no-fund --no-update-notifier --ignore-scripts --loglevel=error \
		--registry http://registry.example.org chatty-logger >/dev/null 2>&1 && did "npm install"
	[ ! -e package-lock.json ] || { npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
		--registry http://registry.example.org >/dev/null 2>&1 && did "npm ci"; }
	cd ..
fi

has python3 && python3 -m venv --without-pip venv && venv/bin/python -c 'import ssl, sqlite3' && did "python venv"
has gdb && gdb -q -batch -ex run -ex bt ./prog >/dev/null 2>&1 && did "gdb"
has strace && strace -f -o trace.out ./prog && did "strace"
unshare -Ur true 2>/dev/null && did "a user namespace"
unshare -Urm sh -c 'mount -t tmpfs none /mnt' 2>/dev/null && did "a mount in a namespace"
has docker && sudo -n docker info >/dev/null 2>&1 && did "docker"
has chromium && timeout 60 chromium --headless --disable-gpu --dump-dom about:blank >/dev/null 2>&1 && did "chromium"
has curl && curl -fsS --max-time 20 -o /dev/null http://files.example.org/hello-1.0.tar.gz && did "curl"
i=0
while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done
did "300 programs in a row"
tar -czf all.tgz --exclude all.tgz . && rm -rf "$work" && did "tar and rm"
echo "day: over"
