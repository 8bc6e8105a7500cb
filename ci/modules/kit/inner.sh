#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs inside the sandbox: lay the source out as the condition says, compile, strip, keep both files.
# In: /in/source (ro), HF_RELEASE HF_PLACE HF_UMASK HF_ORDER HF_JOBS HF_MAP HF_DEBUG. Out: /out.
set -eu
umask "$HF_UMASK"
kdir=/usr/src/linux-headers-$HF_RELEASE

# On a tmpfs the folder lists what was created last first, so the order of creation is the order
# in which wildcards and readdir see the files.
mkdir -p "$HF_PLACE"
(cd /in/source && find . -type f | LC_ALL=C sort $HF_ORDER) | while IFS= read -r file; do
	mkdir -p "$HF_PLACE/$(dirname "$file")"
	cat "/in/source/$file" >"$HF_PLACE/$file"
done

first=$(ls -U "$HF_PLACE/sentry" | head -n 1)

flags=
if [ -n "$HF_MAP" ]; then flags="-ffile-prefix-map=$HF_PLACE=. -ffile-prefix-map=$kdir=/kernel"; fi
# Debug data is a quarter of the time and is stripped anyway; the control asks for it.
if [ -z "$HF_DEBUG" ]; then set -- CONFIG_DEBUG_INFO=; fi
make -C "$kdir" M="$HF_PLACE" -j"$HF_JOBS" modules "$@" \
	KCFLAGS="$flags" KAFLAGS="$flags" CONFIG_DEBUG_INFO_BTF_MODULES= \
	KBUILD_BUILD_TIMESTAMP=@"$HF_EPOCH" KBUILD_BUILD_USER=holdfast KBUILD_BUILD_HOST=holdfast \
	SENTRY_SOURCE_SHA256="$HF_SOURCE" >/out/log 2>&1 || { tail -n 40 /out/log >&2; exit 1; }

find "$HF_PLACE" -name sentry.ko -exec cp {} /out/raw.ko \;
strip --strip-debug -o /out/sentry.ko /out/raw.ko
# What this condition really was, as seen from inside.
{
	echo "path=$HF_PLACE"
	echo "host=$(uname -n)"
	echo "uid=$(id -u)"
	echo "umask=$(umask)"
	echo "year=$(date +%Y)"
	echo "locale=${LC_ALL:-}"
	echo "zone=${TZ:-}"
	echo "first_file=$first"
	echo "jobs=$HF_JOBS"
	echo "network=$(awk 'NR > 2 && $1 != "lo:"' /proc/net/dev | wc -l)"
} >/out/condition
times >/out/times
