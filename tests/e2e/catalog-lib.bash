# SPDX-License-Identifier: GPL-2.0-or-later
# Shared by the end-to-end tests of the catalog: TAP, a scratch folder, release names.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export LC_ALL=C
T=$(mktemp -d /tmp/holdfast-catalog.XXXXXX)
count=0
failed=0
cleanup() { rm -rf "$T"; }
trap 'cleanup' EXIT

say() { # say STATUS NAME [what was seen]
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		failed=$((failed + 1))
		echo "not ok $count - $2"
		[ -z "${3:-}" ] || sed 's/^/# /' <<<"$3"
	fi
}
skip() { count=$((count + 1)); echo "ok $count - $1 # SKIP $2"; }
finish() { echo "1..$count"; [ "$failed" = 0 ]; exit; }

# passes NAME COMMAND...: the command must succeed. refuses NAME TEXT COMMAND...: it must fail and say so.
passes() {
	local name=$1 out status=0
	shift
	out=$("$@" 2>&1) || status=$?
	say "$status" "$name" "$out"
}
refuses() {
	local name=$1 text=$2 out status=0
	shift 2
	out=$("$@" 2>&1) || status=$?
	if [ "$status" != 0 ] && grep -qF -- "$text" <<<"$out"; then say 0 "$name"; else
		say 1 "$name" "exit $status: $out"
	fi
}

# newest SERIES FLAVOUR: last release of the table of that kind.
newest() {
	python3 - "$@" <<-'PY'
	import sys
	sys.path.insert(0, "ci/modules")
	from kit import releases
	print([r["release"] for r in releases.load() if (r["series"], r["flavour"]) == tuple(sys.argv[1:])][-1])
	PY
}

# A module of two files without the Sentry's sources, for tests of the pipeline itself.
small_source() { # small_source FOLDER
	mkdir -p "$1/sentry" "$1/include"
	cat >"$1/Kbuild" <<-'KBUILD'
	obj-m := sentry.o
	sentry-y := sentry/main.o sentry/part.o
	KBUILD
	cat >"$1/sentry/main.c" <<-'C'
	#include <linux/module.h>
	int part(int x);
	static int __init start(void) { WARN_ON(part(1)); pr_info("%s\n", __FILE__); return 0; }
	module_init(start);
	MODULE_LICENSE("GPL");
	MODULE_VERSION("1");
	C
	cat >"$1/sentry/part.c" <<-'C'
	#include <linux/bug.h>
	int part(int x);
	int part(int x) { WARN_ON(x > 1); return 0; }
	C
}

hash_of() { sha256sum "$1" | cut -d' ' -f1; }
record_of() { python3 -c 'import json, sys; v = json.load(open(sys.argv[1]))
for k in sys.argv[2:]: v = v[int(k) if isinstance(v, list) else k]
print(v)' "$@"; }
