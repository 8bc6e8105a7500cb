#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 60
# The policy engine opens nothing: its objects call no function that opens a file or a socket or starts a program.
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
opens='^(f?open(64|at|at64)?|creat|fdopen|freopen|opendir|stat(64)?|lstat(64)?|access|read|write|mmap(64)?|socket|connect|bind|listen|accept4?|send|recv|sendto|recvfrom|sendmsg|recvmsg|getaddrinfo|gethostbyname|ares_.*|curl_.*|fork|vfork|execve|posix_spawn|popen|system|dlopen|getenv|secure_getenv|__open.*|__read.*|io_.*)$'
undefined() { nm -u "$@" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u; }

undefined build/rel/lib/io.o | grep -Eq "$opens"
[ $? = 0 ] && echo "ok 1 - a file that does open something is found out" || echo "not ok 1 - a file that does open something is found out"
found=$(undefined build/rel/hostd/policy/*.o | grep -E "$opens")
if [ -z "$found" ] && [ -e build/rel/hostd/policy/decide.o ]; then
	echo "ok 2 - none of $(ls build/rel/hostd/policy/*.o | wc -l) objects of hostd/policy opens anything"
else
	echo "not ok 2 - hostd/policy calls $(echo $found)"
fi
echo "1..2"
