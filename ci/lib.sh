# SPDX-License-Identifier: GPL-2.0-or-later
# Shared by the scripts under ci/: the cache, and an apt configuration derived from the machine's.

HOLDFAST_CACHE=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}
export HOLDFAST_CACHE

die() { echo "${0##*/}: $*" >&2; exit 1; }
say() { echo "${0##*/}: $*" >&2; }

# Every file that is kept is written under a name of its own first, so that a reader sees it whole
# or not at all.
cache_dir() {
	mkdir -p "$HOLDFAST_CACHE/$1" || die "cannot make $HOLDFAST_CACHE/$1"
	chmod 0700 "$HOLDFAST_CACHE"
	echo "$HOLDFAST_CACHE/$1"
}

# The machine's own mirror of an archive, by the label in its Release file.
apt_mirror() {
	apt-get indextargets --format '$(REPO_URI)|$(LABEL)' 'Created-By: Packages' 2>/dev/null |
		awk -F'|' -v label="$1" '$2 == label { print $1; exit }'
}

# apt_derived SUITE ... : an apt of our own under the cache, with the machine's mirrors, proxy and
# keys and only these suites. Nothing under /etc/apt is written. Afterwards `apt_own COMMAND ...`
# is apt-get on it and `apt_own_cache` apt-cache.
apt_derived() {
	local main security suite keyring=/usr/share/keyrings/debian-archive-keyring.gpg uri
	main=$(apt_mirror Debian)
	security=$(apt_mirror Debian-Security)
	[ -n "$main" ] || die "apt knows no Debian mirror; run 'apt-get update' first"
	[ -n "$security" ] || security=${main%debian/}debian-security/
	[ -r "$keyring" ] || die "no $keyring; install debian-archive-keyring"
	APT_OWN=$(cache_dir apt)
	mkdir -p "$APT_OWN/lists/partial" "$APT_OWN/archives/partial" "$APT_OWN/parts"
	: >"$APT_OWN/status"
	for suite; do
		case $suite in
		*-security) uri=$security ;;
		*) uri=$main ;;
		esac
		echo "deb [signed-by=$keyring] $uri $suite main"
	done >"$APT_OWN/sources.$$"
	mv "$APT_OWN/sources.$$" "$APT_OWN/sources.list"
	# The lists stay usable for a day; a suite that was not there before is fetched at once.
	if ! cmp -s "$APT_OWN/sources.list" "$APT_OWN/sources.updated" ||
	   [ -n "$(find "$APT_OWN/sources.updated" -mmin +1440 2>/dev/null)" ] ||
	   [ -n "${HOLDFAST_APT_UPDATE:-}" ]; then
		apt_own update -qq || die "apt-get update failed for: $*"
		cp "$APT_OWN/sources.list" "$APT_OWN/sources.updated"
	fi
}

apt_own_options() {
	printf '%s\n' \
		-o "Dir::Etc::sourcelist=$APT_OWN/sources.list" -o "Dir::Etc::sourceparts=$APT_OWN/parts" \
		-o "Dir::Etc::preferences=/dev/null" -o "Dir::Etc::preferencesparts=$APT_OWN/parts" \
		-o "Dir::State::lists=$APT_OWN/lists" -o "Dir::State::status=$APT_OWN/status" \
		-o "Dir::Cache::archives=$APT_OWN/archives" \
		-o "Dir::Cache::pkgcache=$APT_OWN/pkgcache.bin" -o "Dir::Cache::srcpkgcache=$APT_OWN/srcpkgcache.bin" \
		-o "APT::Update::Post-Invoke-Success::=" -o "APT::Architecture=amd64" \
		-o "APT::Architectures=amd64" -o "Debug::NoLocking=1" -o "APT::Sandbox::User=" \
		-o "APT::Get::AllowUnauthenticated=false" -o "Acquire::Retries=3" -o "Acquire::Languages=none"
}

apt_own() {
	local -a options
	mapfile -t options < <(apt_own_options)
	apt-get "${options[@]}" "$@"
}

apt_own_cache() {
	local -a options
	mapfile -t options < <(apt_own_options)
	apt-cache "${options[@]}" "$@"
}
