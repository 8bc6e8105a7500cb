#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 5400
# The module builds out of tree from the top of a clone, `make -C $KDIR M=$PWD`, without a word from the compiler; and the
# kernel's checkpatch.pl says nothing but what is listed here with its reason, and each of that. Lines may have 140 columns.
set -u
cd "$(dirname "$0")/../.."
. tests/tap.sh

# file, type, how often; why its advice is not taken.
allowed() {
	sed -e 's/ *#.*//' -e '/^$/d' <<-'LIST'
	include/holdfast/sentry.h BLOCK_COMMENT_STYLE 2            # two lines of comment need no line of their own for its end
	include/holdfast/sentry.h COMPLEX_MACRO 1                  # an X-macro is a list, which parentheses would break
	include/holdfast/sentry.h PREFER_DEFINED_ATTRIBUTE_MACRO 1 # user space includes this file and has no __packed
	sentry/compat/compat.h BLOCK_COMMENT_STYLE 1               # as above
	sentry/frame.c BRACKET_SPACE 1                             # `[X] = y` inside a macro is an initializer, no index
	sentry/hook_denied.c MACRO_WITH_FLOW_CONTROL 1             # it makes whole functions; the return is theirs
	sentry/hook_kernel.c BRACKET_SPACE 1                       # as in frame.c
	sentry/hook_supervisor.c MEMORY_BARRIER 2                  # store-release and load-acquire of one pointer, three lines apart
	sentry/ops.h COMPLEX_MACRO 11                              # X-macros
	sentry/probe.c COMPLEX_MACRO 1                             # a loop's head
	sentry/tally.h COMPLEX_MACRO 1                             # an X-macro
	sentry/task.c MEMORY_BARRIER 2                             # as in hook_supervisor.c
	LIST
}

said() {
	perl "$1/linux/scripts/checkpatch.pl" --no-tree --max-line-length=140 --show-types --no-summary --terse -f "${@:2}"
}
counted() { sed -nE 's/^([^:]+):[0-9]+: (ERROR|WARNING|CHECK):([A-Z_]+):.*/\1 \3/p' | sort | uniq -c | awk '{ print $2, $3, $1 }'; }

# What a build in a copy of the tree says, BTF aside, which needs a vmlinux that Debian's headers do not bring.
build_says() {
	local kernel release
	kernel=$(ci/kernel/fetch "$1")
	release=$(cd "$kernel/lib/modules" && echo *)
	(cd "$2" && make -s -C "$kernel/usr/src/linux-headers-$release" M="$PWD" modules 2>&1) | grep -v '^Skipping BTF'
}
copy_tree() {
	rm -rf "$1"
	mkdir -p "$1"
	git ls-files Kbuild Makefile sentry include | cpio -pdm --quiet "$1"
}

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
for series in 6.1 6.12; do
	copy_tree "$top/tree"
	is "it builds for $series without a warning" "$(build_says $series "$top/tree")" ""
	ok "to a module" test -s "$top/tree/sentry.ko"
done
echo 'static int planted(void) { return 0; }' >>"$top/tree/sentry/limit.c"
ok "a planted warning is seen" grep -q "planted.*defined but not used" <<<"$(build_says 6.12 "$top/tree")"

kernel=$(ci/kernel/debug 6.1) || { echo "not ok 1 - the kernel's source is there"; echo "1..1"; exit 1; }
mapfile -t files < <(git ls-files sentry include/holdfast/sentry.h | grep '\.[ch]$')
is "checkpatch says of ${#files[@]} files what is listed and nothing else" "$(said "$kernel" "${files[@]}" | counted)" "$(allowed | sort)"

# The control: advice that is new must be seen.
{ cat sentry/limit.c; printf 'int planted( int a ) {\n\treturn a ;\n}\n'; } >"$top/limit.c"
is "and sees what is planted" "$(said "$kernel" "$top/limit.c" | counted | cut -d' ' -f2 | sort -u | xargs)" "OPEN_BRACE SPACING"
tap_end
