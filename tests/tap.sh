# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by script tests: TAP results.
#   ok NAME CMD...       passes when CMD succeeds; its output is shown on failure
#   fails NAME TEXT CMD  passes when CMD exits with 1 and one line on stderr (progress aside) that contains TEXT
#   is NAME GOT WANT     passes when the two are the same text
#   skip NAME REASON
#   tap_end              the plan; its status is 0 when all passed

tap_n=0 tap_failed=0
tap_result() {
	tap_n=$((tap_n + 1))
	if [ "$1" = 0 ]; then echo "ok $tap_n - $2"; else echo "not ok $tap_n - $2"; tap_failed=1; fi
}
ok() {
	local name=$1 out status=0
	shift
	out=$("$@" 2>&1) || status=$?
	tap_result $status "$name"
	[ $status = 0 ] || printf '# status %s: %s\n' "$status" "${out//$'\n'/$'\n# '}"
}
is() {
	if [ "$2" = "$3" ]; then tap_result 0 "$1"; else tap_result 1 "$1"; printf '# got:  %s\n# want: %s\n' "${2//$'\n'/$'\n# '}" "$3"; fi
}
fails() {
	local name=$1 text=$2 out status=0
	shift 2
	out=$("$@" 2>&1 >/dev/null) || status=$?
	out=$(printf '%s\n' "$out" | grep -v '^ *[0-9]*\.[0-9] s  ')
	if [ $status = 1 ] && [ "$(printf '%s\n' "$out" | wc -l)" = 1 ] && [[ $out == *"$text"* ]]; then
		tap_result 0 "$name"
	else
		tap_result 1 "$name"
		printf '# status %s, wanted 1 and one line with "%s": %s\n' "$status" "$text" "${out//$'\n'/$'\n# '}"
	fi
}
skip() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $1 # SKIP $2"; }
tap_end() { echo "1..$tap_n"; return $tap_failed; }
# within SECONDS CMD...: tries again until it succeeds.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.2
	done
}
