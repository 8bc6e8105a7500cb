#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 5400
# The host's parser of the Sentry stream under its fuzzers for an hour at low priority: no finding and no allocation above
# 1 MiB; the lines that they reach; and two planted bugs that the same fuzzers find. (What a call may take in memory and
# time is in tests/unit/test_sentry_bounds.c; a fuzzer at low priority can only measure how long it was kept waiting.)
# SENTRY_FUZZ_SECONDS=N for another time than 3600.
set -u
cd "$(dirname "$0")/../.."
. tests/tap.sh

SECONDS_EACH=${SENTRY_FUZZ_SECONDS:-3600}
OUT=$PWD/build/sentry-fuzz
PARSER=$(echo hostd/sentry/frame.c hostd/sentry/session*.c)
FUZZERS="sentry_frame sentry_session"
LEAST=85
REPORT='ERROR: (AddressSanitizer|libFuzzer: deadly signal)|runtime error:'

# build OUT NOUN SOURCES FLAGS...: one fuzzer from the parser's files and what they use.
build() {
	local out=$1 noun=$2 sources=$3
	shift 3
	# shellcheck disable=SC2086
	clang -std=gnu11 -D_GNU_SOURCE -DHOLDFAST_VERSION='"0"' -I. -Iinclude -g -O1 -fno-omit-frame-pointer "$@" -o "$out" \
		"tests/fuzz/fuzz_$noun.c" $sources lib/json.c lib/hex.c lib/hash.c lib/err.c lib/buf.c -ljansson -lsodium
}

fuzz() {
	mkdir -p "$OUT/corpus/$1"
	ASAN_OPTIONS=quarantine_size_mb=16 nice -n 19 "$OUT/$1" -max_total_time="$SECONDS_EACH" -timeout=60 -malloc_limit_mb=1 -rss_limit_mb=512 \
		-print_final_stats=1 -verbosity=0 -artifact_prefix="$OUT/finding-$1-" "$OUT/corpus/$1" "tests/fuzz/corpus/$1" \
		>"$OUT/$1.log" 2>&1
	echo $? >"$OUT/$1.status"
}

stat_of() { sed -n "s/^stat::$2: *//p" "$OUT/$1.log"; }

replay() {
	LLVM_PROFILE_FILE="$OUT/$1.profraw" "$OUT/$1-coverage" -runs=0 -verbosity=0 "$OUT/corpus/$1" "tests/fuzz/corpus/$1"
}

coverage() {
	local noun objects=()
	for noun in $FUZZERS; do
		build "$OUT/$noun-coverage" "$noun" "$PARSER" \
			-fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping || return 1
		replay "$noun" >"$OUT/$noun-replay.log" 2>&1 || return 1
		objects+=(${objects:+-object} "$OUT/$noun-coverage")
	done
	llvm-profdata merge -o "$OUT/profdata" "$OUT"/*.profraw || return 1
	# shellcheck disable=SC2086
	llvm-cov export "${objects[@]}" -summary-only -instr-profile="$OUT/profdata" $PARSER lib/json.c >"$OUT/coverage.json"
}

# FILE...: lines reached of those files together: percent, reached, all
percent() {
	printf '/%s\n' "$@" | jq -R . | jq -rs --slurpfile report "$OUT/coverage.json" '. as $names |
		[$report[0].data[0].files[] | select(.filename as $f | any($names[]; . as $n | $f | endswith($n))) | .summary.lines] |
		(map(.covered) | add) as $covered | (map(.count) | add) as $count |
		"\($covered / $count * 10000 | floor / 100) \($covered) \($count)"'
}

# The bug is a patch to a copy; it counts as found only when the fuzzer ends with a finding of its own.
finds_planted() {
	local noun=$1 file=$2 copy=$OUT/planted-$1.c began=$SECONDS
	cp "$file" "$copy"
	patch -s "$copy" "tests/fuzz/planted/$noun.patch" || return 1
	build "$OUT/$noun-planted" "$noun" "${PARSER/$file/$copy}" -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined || return 1
	mkdir -p "$OUT/planted-corpus-$noun"
	"$OUT/$noun-planted" -max_total_time=300 -timeout=10 -verbosity=0 -artifact_prefix="$OUT/planted-$noun-" \
		"$OUT/planted-corpus-$noun" "tests/fuzz/corpus/$noun" >"$OUT/$noun-planted.log" 2>&1 && return 1
	grep -qE "$REPORT" "$OUT/$noun-planted.log" || return 1
	echo "# found after $((SECONDS - began)) s: $(grep -m1 -E "$REPORT" "$OUT/$noun-planted.log")" >"$OUT/$noun-planted.found"
}

rm -rf "$OUT"
mkdir -p "$OUT"
for noun in $FUZZERS; do
	ok "the fuzzer $noun builds" build "$OUT/$noun" "$noun" "$PARSER" \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
done
pids=()
for noun in $FUZZERS; do fuzz "$noun" & pids+=($!); done
wait "${pids[@]}"
for noun in $FUZZERS; do
	is "$noun: $SECONDS_EACH s without a finding" "$(cat "$OUT/$noun.status")" 0
	[ "$(cat "$OUT/$noun.status")" = 0 ] || tail -n 30 "$OUT/$noun.log" | sed 's/^/# /'
	echo "# $noun: $(stat_of "$noun" number_of_executed_units) inputs, at most $(stat_of "$noun" peak_rss_mb) MiB with the sanitizer's own"
done
ok "coverage is measured" coverage
# shellcheck disable=SC2086
read -r share covered count <<<"$(percent $PARSER)"
tap_result "$(awk -v s="${share:-0}" -v l=$LEAST 'BEGIN { print s < l }')" "the fuzzers reach at least $LEAST % of the parser's lines ($covered of $count, ${share:-none} %)"
for file in $PARSER; do
	read -r share covered count <<<"$(percent "$file")"
	echo "# $file: $covered of $count lines ($share %)"
done
read -r share covered count <<<"$(percent lib/json.c)"
echo "# lib/json.c: $covered of $count lines ($share %); the others are getters that this parser does not call"
ok "sentry_frame finds a planted overread" finds_planted sentry_frame hostd/sentry/frame.c
ok "sentry_session finds a planted second delivery of a frame" finds_planted sentry_session hostd/sentry/session_frames.c
cat "$OUT"/*.found
tap_end
