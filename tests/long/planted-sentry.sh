#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 400
# The session's tests and fuzzer must notice when a check is taken out of it. Each line of the table
# is one planted bug: a name, a file, and the sed expression that plants it.
set -u
cd "${HOLDFAST_ROOT:-$(dirname "$0")/../..}" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
result() { n=$((n + 1)); echo "$1 $n - $2"; }

plants() {
	cat <<-'TABLE'
	mac of frames not checked|session.c|s/if (!mac_fits(frame, key)) {/if (0) {/
	second connection let in|session.c|s/if (live_conn(s)) {/if (0) {/
	secret not sealed|session.c|s/^\t\tsecret\[i\] ^= pad\[i\];/\t\tsecret[i] ^= 0 * pad[i];/
	proof not checked|session.c|s/if (!proof || strlen(proof)/if (0 \&\& strlen(proof)/
	boot id not compared|session.c|s/if (!boot_id || strcmp(boot_id, s->boot_id)) {/if (0) {/
	repeat of a hello always taken|session.c|s/ \&\& !s->framed \&\& hash_equal/ \&\& hash_equal/
	gap not reported|session.c|s/^\tif (missing) {/\tif (0) {/
	order within a connection not kept|session.c|s/if (frame->seq < conn->expect) {/if (0) {/
	repeats not compared|session.c|s/if (hash_equal(digest, s->digests/if (1 || hash_equal(digest, s->digests/
	paused time counts|session.c|s/if (!vm_running || s->ended)/if (s->ended)/
	host's delay counts as silence|session.c|s/passed < SESSION_TICK_MAX_MS ? passed : SESSION_TICK_MAX_MS/passed/
	ack beyond what came|session.c|s/^\tif (seq > s->last_seq)$/\tif (0)/
	records after a resume not newer|session.c|s/(uint64_t)record + SESSION_RECORD_SKIP/0/
	nonce never checked|session.c|s/s->running_ms - sent_ms < SESSION_NONCE_MS/1/
	shutdown in the last breath|session.c|s/s->running_ms - s->shutdown_ms >= SESSION_SHUTDOWN_MIN_MS/1/
	mac need not be last|frame.c|s/memcmp(frame->bytes + frame->len - 2, "\\"}", 2)/0/;s/if (memcmp(tail, member, sizeof(member) - 1)/if (0/
	longer frames|frame.c|s/n > HF_SENTRY_FRAME_HOST_MAX/n > 2 * HF_SENTRY_FRAME_HOST_MAX/
	number of values not bounded|frame.c|s/\.values = SENTRY_FRAME_VALUES/.values = 1000000/
	TABLE
}

copy() { mkdir -p "$1/hostd/sentry" && cp hostd/sentry/{frame,session}.[ch] "$1/hostd/sentry/"; }

flags=(-std=gnu11 -D_GNU_SOURCE -I. -Iinclude -g -w -O1)
libs=(-lcmocka -ljansson -lsodium)
# What no bug is planted in is compiled once.
for source in tests/unit/test_sentry_session.c lib/{err,hash,hex,json,buf,io}.c; do
	gcc "${flags[@]}" -c "$source" -o "$work/$(basename "$source" .c).o" || exit 1
done

build() { # FROM
	gcc -I"$1" "${flags[@]}" -o "$work/test" "$work"/*.o "$1"/hostd/sentry/{frame,session}.c "${libs[@]}"
}

copy "$work/plain"
build "$work/plain" || exit 1
if timeout 100 "$work/test" >/dev/null 2>&1; then
	result ok "without a planted bug the tests pass"
else
	result "not ok" "without a planted bug the tests pass"
fi

while IFS='|' read -r name file edit; do
	copy "$work/bug"
	sed -i "$edit" "$work/bug/hostd/sentry/$file"
	if cmp -s "$work/bug/hostd/sentry/$file" "hostd/sentry/$file"; then
		result "not ok" "planted: $name (the expression no longer fits the source)"
	elif ! build "$work/bug"; then
		result "not ok" "planted: $name (does not compile)"
	elif timeout 100 "$work/test" >/dev/null 2>&1; then
		result "not ok" "planted: $name (nobody noticed)"
	else
		result ok "planted and found: $name"
	fi
done < <(plants)

# The fuzzer has an invariant of its own: what is given up was signed.
copy "$work/fuzz"
sed -i 's/return hash_equal(mac, frame->mac);/return 1;/' "$work/fuzz/hostd/sentry/session.c"
if clang -I"$work/fuzz" "${flags[@]}" -fsanitize=fuzzer,address -o "$work/fuzzer" tests/fuzz/fuzz_sentry_session.c \
	"$work"/fuzz/hostd/sentry/{frame,session}.c lib/{err,hash,hex,json,buf,io}.c -ljansson -lsodium &&
	! timeout 120 "$work/fuzzer" -max_total_time=60 -artifact_prefix="$work/" tests/fuzz/corpus/sentry_session \
		>"$work/log" 2>&1 && grep -q 'deadly signal' "$work/log"; then
	result ok "planted and found by the fuzzer: any mac fits"
else
	result "not ok" "planted and found by the fuzzer: any mac fits"
fi
echo "1..$n"
