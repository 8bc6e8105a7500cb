#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# `holdfast alerts test`: one alert through each of the five channels, what each answers, and no secret in any. No VM runs here;
# an alert of a trip is in tests/long/quarantine.sh and the demo.
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
. tests/fixture/alert_sinks.bash
home_test "$@"
mount -t tmpfs tmpfs /run
trap 'kill $(jobs -p) 2>/dev/null; home_end; rm -rf "$dir"' EXIT
alert_sinks "$dir" 1
sink=$dir/sink
rows() { holdfast timeline --json --all --kind "$1" | wc -l; }
arrived() { [ "$(wc -c <"$sink/$1")" -gt 0 ]; }

fails_with() { # NAME CHANNEL TEXT: the test ends with 1, this channel says so, the others are sent
	local out status
	out=$(holdfast alerts test 2>&1)
	status=$?
	is "$1" "$status $(printf '%s\n' "$out" | grep -c -E '(written|sent)$') $(printf '%s\n' "$out" | grep -c -- "^$2 *FAILED: .*$3")" "1 4 1"
}

fails_with "a webhook that answers 503 is named, the other four are sent" webhook "it answered 503"
ok "again: all five" holdfast alerts test
for channel in journal command desktop hooks; do ok "$channel has it" within 10 arrived $channel; done
is "both posts are signed" "$(cut -d' ' -f1,2 "$sink/hooks" | tr '\n' ' ')" "503 signed 204 signed "
is "the timeline has both tests" "$(rows alert_test)" 2
ok "each says that nothing happened" bash -c "for f in journal command desktop; do grep -q 'nothing happened' '$sink/'\$f || exit 1; done"
is "the secret is in none of them" "$(grep -rl "$alert_secret" "$sink" | wc -l)" 0
is "nor in the timeline, its log or what hostd was told" "$(grep -rl "$alert_secret" "$dir/data" "$dir/run" 2>/dev/null | wc -l)" 0

sed -i 's#"cat >>[^"]*"#"exit 3"#' "$dir/config/holdfast/alerts.json"
fails_with "a command that fails is named" command "ended with 3"
sed -i 's#http://127.0.0.1[^"]*#http://hooks.example.org/x#' "$dir/config/holdfast/alerts.json"
fails "a webhook without TLS to elsewhere is refused, with its place" 'alerts.json: "webhook": "url" must begin with https://' holdfast alerts test
rm "$dir/config/holdfast/alerts.json"
out=$(holdfast alerts test)
is "without a file the two of this machine are on" "$(printf '%s\n' "$out" | tr -s ' ' | tr '\n' ',')" \
	"timeline written,journal sent,desktop sent,webhook not configured,command not configured,"
tap_end
