#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1500
# Three releases from discovery to a verified catalog (DIS-02, DIS-03), and what others can check of it.
. "$(dirname "$0")/catalog-lib.bash"

export HOLDFAST_CATALOG_KEYS=$T/keys XDG_DATA_HOME=$T/data
catalog=$PWD/build/bin/holdfast-catalog
out=$T/modules

ci/modules/discover --quiet >"$T/discover" 2>&1
say $? "discover reads every suite" "$(cat "$T/discover")"
old=$(newest 6.1 cloud) mid=$(newest "6.12 deb12" cloud) new=$(newest 7.x cloud)
names=("$old" "$mid" "$new")

passes "three releases are built, compared, checked and signed" ci/modules/all --out "$out" "${names[@]}"
at="--dir $out --root $T/trust/root.json"
passes "holdfast-catalog verifies the whole" "$catalog" verify $at
[ "$("$catalog" list $at --json | wc -l)" = 3 ]; say $? "it lists three modules"
"$catalog" list $at | grep -q "local build"; say $? "a catalog signed on this machine is shown as local"

for name in "${names[@]}"; do
	python3 - "$out/$name/record.json" <<-'PY'
	import json, sys
	record = json.load(open(sys.argv[1]))
	a, b = (build["conditions"] for build in record["builds"])
	assert record["builds"][0]["sha256"] == record["builds"][1]["sha256"] == record["module"]["sha256"]
	assert record["builds"][0]["raw_sha256"] == record["builds"][1]["raw_sha256"]
	same = [key for key in ("path", "host", "uid", "umask", "year", "locale", "zone", "first_file", "jobs")
	        if a[key] == b[key]]
	assert not same, f"equal in both builds: {same}"
	assert a["network"] == b["network"] == "0"
	PY
	say $? "$name: equal before and after strip, under nine different conditions"
done

# A second run finds everything there.
started=$(date +%s)
ci/modules/all --out "$out" "${names[@]}" >"$T/again" 2>&1
say $? "a second run passes"
seconds=$(($(date +%s) - started))
grep -q "unchanged" "$T/again"; say $? "it signs nothing, since nothing changed" "$(cat "$T/again")"
[ $seconds -lt 60 ]; say $? "it builds nothing ($seconds s)"
echo "# incremental seconds for three releases: $seconds"

# Others' programs agree.
passes "minisign accepts the catalog" minisign -V -p "$T/keys/catalog.pub" -m "$out/current/catalog.json"
passes "minisign accepts the timestamp" minisign -V -p "$T/keys/timestamp.pub" -m "$out/current/timestamp.json"
passes "minisign accepts a module" minisign -V -p "$T/keys/catalog.pub" -m "$out/$old/sentry.ko"
refuses "minisign refuses another key" "key id" \
	minisign -V -p "$T/keys/timestamp.pub" -m "$out/current/catalog.json"
passes "an independent verifier accepts the catalog" tests/e2e/minisig.py "$out/current/catalog.json" "$T/keys/catalog.pub"
passes "an independent verifier accepts a module" tests/e2e/minisig.py "$out/$mid/sentry.ko" "$T/keys/catalog.pub"
tests/e2e/minisig.py "$out/$mid/sentry.ko" "$T/keys/catalog.pub" |
	grep -qx "holdfast module release:$mid sha256:$(hash_of "$out/$mid/sentry.ko")"
say $? "the trusted comment names release and hash"
tests/e2e/minisig.py --dsse "$out/$new/provenance.json" "$T/keys/catalog.pub" >"$T/statement"
say $? "an independent verifier accepts the provenance"
[ "$(record_of "$T/statement" subject 0 digest sha256)" = "$(hash_of "$out/$new/sentry.ko")" ] &&
	[ "$(record_of "$T/statement" predicateType)" = https://slsa.dev/provenance/v1 ]
say $? "the statement is SLSA v1 and about this module"
cp "$out/current/catalog.json" "$T/bent" && cp "$out/current/catalog.json.minisig" "$T/bent.minisig"
printf x >>"$T/bent"
refuses "both refuse a longer file: minisign" "verification failed" minisign -V -p "$T/keys/catalog.pub" -m "$T/bent"
refuses "both refuse a longer file: the independent verifier" "does not hold" tests/e2e/minisig.py "$T/bent" "$T/keys/catalog.pub"

# And in the other direction: a key and a signature that minisign made.
mkdir "$T/foreign" && cp -r "$T/keys" "$T/foreign/keys"
minisign -G -W -f -p "$T/foreign/m.pub" -s "$T/foreign/m.key" >/dev/null 2>&1 </dev/null
minisign -S -s "$T/foreign/m.key" -m "$out/current/catalog.json" -x "$T/foreign/sig" -t "holdfast catalog version:1" >/dev/null
mkdir "$T/copy" && cp -r "$out"/. "$T/copy/"
cp "$T/foreign/sig" "$T/copy/current/catalog.json.minisig"
refuses "a well-made signature by a stranger's key is refused" "bad_signature" \
	"$catalog" verify --dir "$T/copy" --root "$T/trust/root.json" --state none

# The verbs.
passes "show prints one entry" "$catalog" show $at "$mid"
refuses "show knows no other release" "no module" "$catalog" show $at 6.1.0-1-amd64
cp -r "$out/meta" "$T/before"
passes "rotate gives the catalog key a successor" "$catalog" rotate catalog
passes "sign uses it" "$catalog" sign --local "$out"
passes "verify follows the rotation" "$catalog" verify $at
passes "revoke takes a release" "$catalog" revoke "$out" "$old"
"$catalog" diff "$T/before/1/catalog.json" "$out" | grep -q "^revoked *$old"; say $? "diff shows what was revoked"
"$catalog" list $at | grep -q "$old.*REVOKED"; say $? "list shows it too"
refuses "usage errors exit with 2" "usage:" "$catalog" frobnicate
"$catalog" verify --nonsense >/dev/null 2>&1; [ $? = 2 ]; say $? "an unknown option is a usage error"

# A third party has the catalog and the source, and nothing else of ours.
HOLDFAST_CATALOG_KEYS=/nonexistent "$catalog" rebuild --dir "$out" --root "$T/trust/root.json" --state none "$mid" >"$T/rebuild" 2>&1
say $? "rebuild makes the same module from the catalog alone" "$(cat "$T/rebuild")"
small_source "$T/other"
refuses "rebuild refuses another source" "this tree is source" \
	"$catalog" rebuild --dir "$out" --root "$T/trust/root.json" --state none --source "$T/other" "$mid"

# Does the comparison mean anything? Without the prefix map the same two conditions differ.
# On a small module; docs/catalog-report.md has both for the Sentry itself.
small_source "$T/small"
passes "without the prefix map the builds differ, before and after strip" \
	env HOLDFAST_SOURCE="$T/small" ci/modules/control --keep "$T/control.json" "$old"
passes "four more rebuilds under mixed conditions are equal too" \
	env HOLDFAST_SOURCE="$T/small" ci/modules/canary --keep "$T/canary.json" -n 4 "$mid"
finish
