#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demo's agent, run in the guest as the workspace's user: fetches a source archive, compares its
# bytes, unpacks, compiles and runs it, and installs an npm package whose postinstall has an errand
# of its own. Each line that it says begins with "agent: "; the last is "agent: done".
set -euo pipefail

files=http://files.example.org
registry=http://registry.example.org
want=e0992e4cd2e47768d371f07f19342c80e1c9b5545df22e2c38d9257367cc141b

say() { echo "agent: $*"; }

work=$(mktemp -d ~/demo.XXXXXX)
cd "$work"

say "fetching $files/hello-1.0.tar.gz"
curl -fsS --max-time 60 -o hello-1.0.tar.gz "$files/hello-1.0.tar.gz"
got=$(sha256sum hello-1.0.tar.gz | cut -d' ' -f1)
[ "$got" = "$want" ] || { say "the bytes are not those that were asked for: $got"; exit 1; }
say "its bytes are as expected ($(stat -c %s hello-1.0.tar.gz), sha256 ${got:0:16})"

say "unpacking and compiling"
tar -xzf hello-1.0.tar.gz
make -s -C hello-1.0 hello
out=$(./hello-1.0/hello)
[ "$out" = "hello: the sum is 5050" ] || { say "the program said: $out"; exit 1; }
say "the program says: $out"

say "npm install chatty-logger"
mkdir app
cd app
echo '{"name":"app","version":"1.0.0","private":true}' >package.json
npm install --no-audit --no-fund --no-update-notifier --foreground-scripts --loglevel=error \
	--registry "$registry" chatty-logger 2>&1 | sed -n 's/^telemetry: /agent: the postinstall was told: /p'
[ "$(node -e 'require("chatty-logger").log("installed")')" = "log: installed" ] ||
	{ say "the package does not work"; exit 1; }
say "the package works"
say "done"
