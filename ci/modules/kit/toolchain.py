# SPDX-License-Identifier: GPL-2.0
"""Toolchain roots: one Debian tree per suite with just a compiler, pinned by the digest of its tar.

With SOURCE_DATE_EPOCH set mmdebstrap makes the same tar bit for bit, so the digest stands for the
compiler in the catalog. No pahole: module BTF is a race, and a root without it cannot make any.
"""
import email.utils
import os
import re
import subprocess
import tempfile

from . import archive, cache

PACKAGES = {
    "bookworm": ["gcc-12", "make", "libelf1", "faketime"],
    "trixie": ["gcc-14", "make", "libelf1t64", "faketime"],
    "forky": ["gcc-16", "make", "libelf1t64", "faketime"],
    "sid": ["gcc-16", "make", "libelf1t64", "faketime"],
}
# Folders that the sandbox mounts something on; they must be there since the root is read-only.
MOUNT_POINTS = ["in", "out", "build", "var/tmp", "usr/src", "usr/lib"]


def pin_path(suite):
    return cache.path("roots", f"{suite}.json")


def pin(suite, refresh=False):
    """{'root_sha256', 'gcc', 'binutils', 'make'} of the suite's root; made if it is not there."""
    with cache.locked(f"root-{suite}"):
        known = cache.read_json(pin_path(suite))
        if known and not refresh and known.get("packages") == PACKAGES[suite] \
                and tar_is_whole(known["root_sha256"]):
            return known
        digest, epoch = make_tar(suite)
        known = {"suite": suite, "root_sha256": digest, "source_date_epoch": epoch,
                 "packages": PACKAGES[suite], **versions(digest)}
        cache.write_json(pin_path(suite), known)
        return known


def tar_path(digest):
    return cache.path("roots", digest + ".tar")


def tar_is_whole(digest):
    """The tree, once unpacked, is enough; else the tar is hashed before it is unpacked."""
    if cache.is_whole(cache.path("roots", digest)):
        return True
    name = tar_path(digest)
    return os.path.exists(name) and cache.sha256_file(name) == digest


def sources(suite):
    main, security = archive.bases()["main"], archive.bases()["security"]
    lines = [f"deb [signed-by={archive.KEYRING}] {main} {suite} main"]
    if suite not in archive.CANARIES:
        lines += [f"deb [signed-by={archive.KEYRING}] {main} {suite}-updates main",
                  f"deb [signed-by={archive.KEYRING}] {security} {suite}-security main"]
    return "\n".join(lines) + "\n"


def make_tar(suite):
    text, _ = archive.verified_release(suite)
    epoch = int(email.utils.parsedate_to_datetime(archive.field(text, "Date")).timestamp())
    with tempfile.TemporaryDirectory(prefix="root-", dir=os.path.dirname(pin_path(suite))) as tmp:
        os.chmod(tmp, 0o755)
        with open(f"{tmp}/sources", "w", encoding="utf-8") as handle:
            handle.write(sources(suite))
        name = f"{tmp}/root.tar"
        command = ["mmdebstrap", "--quiet", "--variant=apt", "--format=tar",
                   "--include=" + ",".join(PACKAGES[suite])]
        command += [f"--aptopt={line}" for line in apt_options(suite)]
        done = subprocess.run([*command, suite, name, f"{tmp}/sources"], check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})
        if done.returncode != 0:
            raise SystemExit(f"root of {suite}: mmdebstrap failed:\n{done.stderr[-2000:]}")
        digest = cache.sha256_file(name)
        os.rename(name, tar_path(digest))
    return digest, epoch


def apt_options(suite):
    out = subprocess.run(["apt-config", "dump", "Acquire::http::Proxy"], capture_output=True,
                         text=True, check=False).stdout.strip().splitlines()
    stale = ['Acquire::Check-Valid-Until "false"'] if suite in archive.CANARIES else []
    return [line.rstrip(";") for line in out] + stale


def tree(digest):
    """Unpacked root; files of its own uid, no device nodes, mount points made."""
    def fill(folder):
        name = tar_path(digest)
        if cache.sha256_file(name) != digest:
            raise SystemExit(f"{name}: not the file that its name says; remove it")
        subprocess.run(["tar", "-x", "--no-same-owner", "--exclude=./dev/*", "-C", folder,
                        "-f", name], check=True)
        for point in MOUNT_POINTS:
            os.makedirs(os.path.join(folder, point), exist_ok=True)
    return cache.tree(f"roots/{digest}", fill)


def versions(digest):
    """Versions of the tools of a root, as its own dpkg database states them."""
    found = {}
    with open(os.path.join(tree(digest), "var/lib/dpkg/status"), encoding="utf-8") as handle:
        for stanza in handle.read().split("\n\n"):
            name, version = archive.field(stanza, "Package"), archive.field(stanza, "Version")
            if not name:
                continue
            if re.fullmatch(r"gcc-\d+", name):
                found["gcc"] = f"{name} {version}"
            elif name in ("binutils", "make"):
                found[name] = version
    return found
