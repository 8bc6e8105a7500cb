# SPDX-License-Identifier: GPL-2.0
"""The Debian archive: its address from apt, its signed indices, packages by SHA-256.

Chain of trust: gpgv over InRelease -> SHA-256 of Packages.xz -> SHA-256 of each .deb. A download
is only ever trusted for its hash, so the transport and any mirror in between are not.
"""
import email.utils
import functools
import hashlib
import lzma
import os
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from . import cache

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
INDEX_AGE_S = 3600
SUITES = ["bookworm", "bookworm-security", "bookworm-backports",
          "trixie", "trixie-security", "trixie-backports"]
CANARIES = ["forky", "sid"]
RELEASE = re.compile(r"linux-headers-(\d+\.\d+[^ ]*?-?(?:(?:cloud|rt)-)?amd64)$")
FETCH_TIMEOUT_S = 60


class Missing(Exception):
    """The archive lists a file that it does not serve."""


class Untrusted(Exception):
    """A signature or hash of the archive does not hold."""


@functools.lru_cache(maxsize=None)
def bases():
    """{'main': URI, 'security': URI}, as this machine's apt is configured."""
    text = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(RELEASE)|$(REPO_URI)",
         "Created-By: Packages"], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        origin, label, release, uri = line.split("|")
        if label and origin and origin != "Debian":
            continue
        kind = "security" if label == "Debian-Security" or release.endswith("-security") else "main"
        if label == "Debian" or label == "Debian-Security" or not label:
            found.setdefault(kind, uri.rstrip("/"))
    if "main" not in found:
        raise SystemExit("apt has no Debian archive configured; see apt-get indextargets")
    if "security" not in found:
        found["security"] = found["main"] + "-security"
    return found


def base_of(suite):
    return bases()["security" if suite.endswith("-security") else "main"]


@functools.lru_cache(maxsize=None)
def opener():
    """URL opener that uses the proxy of apt, where it has one."""
    out = subprocess.run(["apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy"],
                         capture_output=True, text=True, check=False).stdout.strip()
    handlers = []
    if out and out != "DIRECT":
        handlers.append(urllib.request.ProxyHandler({"http": out, "https": out}))
    return urllib.request.build_opener(*handlers)


def get(url, tries=3):
    for attempt in range(tries):
        try:
            with opener().open(url, timeout=FETCH_TIMEOUT_S) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code in (400, 403, 404, 410):
                raise Missing(f"{url}: {error.code}") from error
            if attempt == tries - 1:
                raise
        except OSError:
            if attempt == tries - 1:
                raise
        time.sleep(1 + attempt)
    raise AssertionError("not reached")


def verified_release(suite):
    """Text of the suite's InRelease, after its signature was verified."""
    data = get(f"{base_of(suite)}/dists/{suite}/InRelease")
    with tempfile.NamedTemporaryFile(suffix=".InRelease") as handle:
        handle.write(data)
        handle.flush()
        done = subprocess.run(["gpgv", "--quiet", "--keyring", KEYRING, "--output", "-",
                               handle.name], capture_output=True, check=False)
    if done.returncode != 0:
        raise Untrusted(f"{suite}: InRelease is not signed by a key of {KEYRING}")
    return done.stdout.decode(), hashlib.sha256(data).hexdigest()


def field(text, name):
    match = re.search(rf"^{name}: (.*)$", text, re.M)
    return match.group(1).strip() if match else None


def suite_index(suite, refresh=False):
    """{'packages': {name: [stanza]}, 'inrelease_sha256', 'date', 'stale'} of one suite."""
    stamp = cache.path("indices", f"{suite}.json")
    known = cache.read_json(stamp)
    fresh = known and known.get("base") == base_of(suite) \
        and time.time() - known["fetched"] < INDEX_AGE_S
    if not (fresh and not refresh):
        try:
            known = fetch_index(suite, known)
            cache.write_json(stamp, known)
        except OSError as error:
            if not known:
                raise
            print(f"{suite}: archive not reachable ({error}); using the index of "
                  f"{email.utils.formatdate(known['fetched'])}", flush=True)
    name = cache.path("indices", known["packages_sha256"] + ".xz")
    if not os.path.exists(name) or cache.sha256_file(name) != known["packages_sha256"]:
        known = fetch_index(suite, None)
        cache.write_json(stamp, known)
        name = cache.path("indices", known["packages_sha256"] + ".xz")
    with lzma.open(name, "rt", encoding="utf-8") as handle:
        known["packages"] = kernel_stanzas(handle.read())
    return known


def fetch_index(suite, known):
    text, inrelease_sha256 = verified_release(suite)
    match = re.search(r"^ ([0-9a-f]{64})\s+(\d+) main/binary-amd64/Packages\.xz$", text, re.M)
    if not match:
        raise Untrusted(f"{suite}: InRelease names no Packages.xz")
    wanted = match.group(1)
    name = cache.path("indices", wanted + ".xz")
    if not (known and known["packages_sha256"] == wanted and os.path.exists(name)):
        data = get(f"{base_of(suite)}/dists/{suite}/main/binary-amd64/Packages.xz")
        if hashlib.sha256(data).hexdigest() != wanted:
            raise Untrusted(f"{suite}: Packages.xz does not have the hash that InRelease states")
        cache.write_atomic(name, data)
    until = field(text, "Valid-Until")
    date = email.utils.parsedate_to_datetime(field(text, "Date"))
    stale = bool(until) and email.utils.parsedate_to_datetime(until).timestamp() < time.time()
    return {"suite": suite, "base": base_of(suite), "inrelease_sha256": inrelease_sha256,
            "packages_sha256": wanted, "date": int(date.timestamp()),
            "valid_until": until, "stale": stale, "fetched": int(time.time())}


def kernel_stanzas(text):
    found = {}
    for stanza in text.split("\n\n"):
        if not stanza.startswith(("Package: linux-headers-", "Package: linux-kbuild-",
                                  "Package: linux-image-", "Package: linux-modules-",
                                  "Package: linux-binary-")):
            continue
        one = {key: field(stanza, key) for key in
               ("Package", "Version", "Depends", "Filename", "Size", "SHA256", "Architecture")}
        found.setdefault(one["Package"], []).append(one)
    return found


def compare_versions(left, right):
    """As dpkg --compare-versions: negative, zero or positive."""
    def split(version):
        epoch, _, rest = version.rpartition(":") if ":" in version else ("0", "", version)
        upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
        return int(epoch), upstream, revision

    def weight(char):
        if char == "~":
            return -1
        return ord(char) if char.isalpha() else ord(char) + 256

    def part(a, b):
        while a or b:
            text_a, text_b = re.match(r"\D*", a).group(), re.match(r"\D*", b).group()
            a, b = a[len(text_a):], b[len(text_b):]
            for index in range(max(len(text_a), len(text_b))):
                one = weight(text_a[index]) if index < len(text_a) else 0
                two = weight(text_b[index]) if index < len(text_b) else 0
                if one != two:
                    return one - two
            num_a, num_b = re.match(r"\d*", a).group(), re.match(r"\d*", b).group()
            a, b = a[len(num_a):], b[len(num_b):]
            if int(num_a or 0) != int(num_b or 0):
                return int(num_a or 0) - int(num_b or 0)
        return 0

    one, two = split(left), split(right)
    return (one[0] - two[0]) or part(one[1], two[1]) or part(one[2], two[2])


version_key = functools.cmp_to_key(compare_versions)


def deb_path(sha256):
    return cache.path("debs", sha256[:2], sha256 + ".deb")


def fetch_deb(deb):
    """Path of the package in the cache, fetched if it is not there whole; {sha256,url,size}."""
    name = deb_path(deb["sha256"])
    if os.path.exists(name):
        if os.path.getsize(name) == deb["size"] and cache.sha256_file(name) == deb["sha256"]:
            return name
        os.unlink(name)
    data = get(deb["url"])
    if len(data) != deb["size"] or hashlib.sha256(data).hexdigest() != deb["sha256"]:
        raise Untrusted(f"{deb['package']} {deb['version']}: what the archive sent does not have "
                        "the hash that its index states")
    cache.write_atomic(name, data)
    return name


def unpacked(deb):
    """Tree of an unpacked header package, without the folders of other architectures."""
    def fill(folder):
        with open(fetch_deb(deb), "rb") as handle:
            check = hashlib.sha256(handle.read()).hexdigest()
        if check != deb["sha256"]:
            raise Untrusted(f"{deb['package']}: changed in the cache")
        tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb_path(deb["sha256"])],
                               stdout=subprocess.PIPE)
        others = ["arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze",
                  "mips", "nios2", "openrisc", "parisc", "powerpc", "riscv", "s390", "sh",
                  "sparc", "alpha", "xtensa", "ia64"]
        skip = [f"--exclude=*/arch/{name}/*" for name in others]
        done = subprocess.run(["tar", "-x", "--no-same-owner", "-C", folder, *skip],
                              stdin=tar.stdout, check=False)
        tar.stdout.close()
        if tar.wait() != 0 or done.returncode != 0:
            raise Untrusted(f"{deb['package']}: cannot be unpacked")
    return cache.tree(f"unpacked/{deb['sha256']}", fill)
