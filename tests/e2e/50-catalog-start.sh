#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# A start and its module (DIS-03, DIS-04): verified, waiting, unavailable, required; and what doctor foresees.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"
release=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["default_kernel"])' \
	"$HOLDFAST_CACHE/image/current/image.json")
export HOLDFAST_CATALOG_KEYS=$dir/keys HOLDFAST_CATALOG=$dir/m/modules
modules=$HOLDFAST_CATALOG
builder=
trap 'home_end; [ -z "$builder" ] || kill $builder 2>/dev/null; rm -rf "$dir"' EXIT

# A catalog without this kernel: the module of another release, or none at all. And one with it.
mkdir -p "$modules" "$dir/with"
cp -r "build/modules/$release" "$dir/with/"
for other in build/modules/*/record.json; do
	other=$(dirname "$other")
	[ "${other##*/}" = "$release" ] || { cp -r "$other" "$modules/"; break; }
done
rm -f "$modules"/*/*.minisig "$dir/with/$release"/*.minisig
ok "a catalog without this kernel is signed" holdfast-catalog sign --local "$modules"

wait_lines() { holdfast ws start "$1" >"$dir/start.$1" 2>&1; }
holdfast ws create req --sentry required --accel "$(home_accel)" --policy none >/dev/null
fails "required, and the catalog has none: refused at once" "the catalog has no Sentry for kernel $release" \
	holdfast ws start req
is "it stays off" "$(holdfast ws show req --json | grep -o '"state":"[a-z]*"' | head -1)" '"state":"off"'
ok "doctor says so before any start" bash -c "holdfast doctor | grep -q 'workspace req: no Sentry for its kernel $release'"

# A build that says it is under way and then gives up: waited for, and no longer.
mkdir -p "$modules/pending"
pending() { echo "$1 5 build A" >"$modules/pending/.new" && mv "$modules/pending/.new" "$modules/pending/$release"; }
pending 2
( sleep 8; rm "$modules/pending/$release" ) &
started=$(date +%s)
holdfast ws start req >"$dir/gave-up" 2>&1; status=$?
took=$(($(date +%s) - started))
is "a build that gives up ends the wait" "$status" 1
ok "it was waited for ($took s), no 45 s" test "$took" -ge 2 -a "$took" -lt 40
ok "the wait was shown with its progress" grep -q "waiting for the Sentry of kernel $release: build A, 2 of 5" "$dir/gave-up"
ok "and the reason is the catalog's" grep -q "the catalog has no Sentry" "$dir/gave-up"

# A build that comes to its end: the same start goes on with its module, before QEMU runs.
pending 3
(
	sleep 3
	pending 4
	cp -r "$dir/with/$release" "$modules/"
	holdfast-catalog sign --local "$modules" >/dev/null
	rm "$modules/pending/$release"
) &
builder=$!
ok "a start waits for the module and then runs with it" wait_lines req
ok "it said that it was waiting" grep -q "waiting for the Sentry of kernel $release" "$dir/start.req"
hello() { holdfast timeline req --json --all | grep -q '"kind":"sentry_hello"\|sentry.*hello\|"kind":"exec"'; }
ok "the Sentry of that module speaks" within 30 hello
holdfast ws stop --force req >/dev/null 2>&1
within 20 bash -c 'holdfast ws show req --json | grep -q "\"state\":\"off\""'
ok "doctor finds the module good" bash -c "holdfast doctor | grep -q 'workspace req: the Sentry for its kernel $release is there and verified'"

# From here on only refusals; each names its reason, and required starts nothing.
cp "$modules/$release/sentry.ko" "$dir/good.ko"
printf x | dd of="$modules/$release/sentry.ko" bs=1 seek=5000 conv=notrunc 2>/dev/null
fails "one changed byte" "bad_hash" holdfast ws start req
truncate -s -1 "$modules/$release/sentry.ko"
fails "one byte less" "bad_size" holdfast ws start req
rm "$modules/$release/sentry.ko"; ln -s "$dir/good.ko" "$modules/$release/sentry.ko"
fails "a symlink to the right bytes" "bad_path" holdfast ws start req
rm "$modules/$release/sentry.ko"; cp "$dir/good.ko" "$modules/$release/sentry.ko"
mv "$modules/current" "$dir/newest"
ln -s "meta/$(ls "$modules/meta" | sort -n | head -1)" "$modules/current"
fails "an older catalog" "rollback" holdfast ws start req
rm "$modules/current"; mv "$dir/newest" "$modules/current"
printf x >>"$modules/current/catalog.json"
fails "a catalog that was added to" "bad_signature" holdfast ws start req
sed -i 's/x$//' "$modules/current/catalog.json"
ok "revoked by its release" holdfast-catalog revoke --local "$modules" "$release"
fails "a revoked module" "revoked" holdfast ws start req

# Best effort starts without, and says why on the timeline.
holdfast ws create any --sentry best_effort --accel "$(home_accel)" --policy none >/dev/null
ok "best effort starts without it" wait_lines any
ok "and the timeline says why" bash -c 'holdfast timeline any --json --all | grep -q "revoked: the module"'
holdfast ws stop --force any >/dev/null 2>&1
tap_end
