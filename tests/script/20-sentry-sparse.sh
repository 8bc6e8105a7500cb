#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# The module is clean under sparse, with endianness checks, and the compiler said nothing about it either.
set -u
cd "$(dirname "$0")/../.."
module=$(ci/kernel/sentry 6.12) || { echo "not ok 1 - the module builds"; echo "1..1"; exit 1; }
release=$(basename "$(dirname "$module")")
kernel=$(ci/kernel/fetch "$release")
source=$PWD/$(dirname "$module")/src
exec 8>"$(dirname "$module")/lock"
flock 8
said=$(make -C "$kernel/usr/src/linux-headers-$release" M="$source" C=2 CF=-D__CHECK_ENDIAN__ modules 2>&1)
checked=$(grep -c 'CHECK .*/sentry/' <<<"$said")
files=$(find sentry -name '*.c' | wc -l)
found=$(grep -E 'warning|error' <<<"$said")
if [ -z "$found" ] && [ "$checked" -eq "$files" ]; then
	echo "ok 1 - sparse has nothing to say about $files files"
else
	echo "not ok 1 - sparse: $checked of $files files looked at"
	sed 's/^/# /' <<<"$found"
fi
echo "1..1"
[ -z "$found" ]
