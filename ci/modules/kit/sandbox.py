# SPDX-License-Identifier: GPL-2.0
"""One build of the module in a sandbox that holds nothing but the compiler, the headers and the source.

The tree of the suite is /, read-only; the header packages are mounted where their own Makefiles
expect them, on an empty /usr/src, so that headers of the host or of another release cannot be
seen. No network, no environment, no home: a build has no way to a signing key or to the archive.
"""
import os
import re
import shutil
import subprocess
import tempfile

from . import archive, cache, toolchain

TIMEOUT_S = 900
KIT = os.path.dirname(os.path.abspath(__file__))
# A and B differ in everything that has ever leaked into a build (docs/catalog-report.md).
CONDITIONS = {
    "A": {"place": "/build/holdfast", "host": "builder-a", "uid": 0, "umask": "022",
          "locale": "C", "zone": "UTC", "order": "", "jobs": 1, "faketime": ""},
    "B": {"place": "/var/tmp/another-place/of-work", "host": "zweiter", "uid": 4242,
          "umask": "077", "locale": "C.UTF-8", "zone": "<+1245>-12:45", "order": "-r", "jobs": 2,
          "faketime": "+7y"},
}
EPOCH = 1767225600
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Failed(Exception):
    """The compiler or the sandbox said no; the text is its output."""


def header_mounts(row):
    """[(host path, path in the sandbox)] of the unpacked header packages of one release."""
    found = []
    for deb in row["debs"]:
        tree = archive.unpacked(deb)
        for place in ("usr/src", "usr/lib"):
            folder = os.path.join(tree, place)
            if not os.path.isdir(folder):
                continue
            for name in sorted(os.listdir(folder)):
                if name.startswith("linux-") and not os.path.islink(os.path.join(folder, name)):
                    found.append((os.path.join(folder, name), f"/{place}/{name}"))
    return found


def command(row, root, source, source_sha256, out, condition, plain=True):
    kbuild = [(a, b) for a, b in header_mounts(row) if b.startswith("/usr/lib/")]
    args = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session",
            "--hostname", condition["host"], "--uid", str(condition["uid"]),
            "--gid", str(condition["uid"]), "--cap-drop", "ALL",
            "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev",
            "--tmpfs", "/tmp", "--tmpfs", "/build", "--tmpfs", "/var/tmp", "--tmpfs", "/usr/src",
            "--tmpfs", "/in"]
    for host, inside in header_mounts(row):
        if inside.startswith("/usr/src/"):
            args += ["--ro-bind", host, inside]
    for host, inside in kbuild:
        args += ["--ro-bind", host, inside]
    args += ["--ro-bind", source, "/in/source", "--ro-bind", f"{KIT}/inner.sh", "/in/inner.sh",
             "--bind", out, "/out", "--chdir", "/", "--clearenv"]
    environment = {
        "PATH": "/usr/bin:/bin", "LC_ALL": condition["locale"], "TZ": condition["zone"],
        "HF_RELEASE": row["release"], "HF_PLACE": condition["place"],
        "HF_UMASK": condition["umask"], "HF_ORDER": condition["order"],
        "HF_JOBS": str(condition["jobs"]), "HF_MAP": "1" if plain else "",
        "HF_DEBUG": "" if plain else "1",
        "HF_EPOCH": str(EPOCH), "HF_SOURCE": source_sha256}
    if condition["faketime"]:
        environment |= {"LD_PRELOAD": FAKETIME, "FAKETIME": condition["faketime"],
                        "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    for key, value in environment.items():
        args += ["--setenv", key, value]
    return [*args, "/bin/sh", "/in/inner.sh"]


def mount_points(root, row):
    """Folders under /usr/lib that the kbuild package is mounted on."""
    for _, inside in header_mounts(row):
        if inside.startswith("/usr/lib/"):
            os.makedirs(root + inside, exist_ok=True)


def build(row, source, source_sha256, condition, keep, plain=True, root_sha256=None):
    """Build once. Puts sentry.ko, raw.ko, log and condition into the folder `keep`, made whole.

    Not plain: with debug data and without the prefix map, for the negative control.
    """
    root = toolchain.tree(root_sha256 or toolchain.pin(row["toolchain"])["root_sha256"])
    mount_points(root, row)
    parent = os.path.dirname(keep)
    os.makedirs(parent, exist_ok=True)
    for left in os.listdir(parent):
        if left.startswith(".tmp-build-") or left.endswith(".new"):
            cache.remove_tree(os.path.join(parent, left))
    with tempfile.TemporaryDirectory(prefix=".tmp-build-", dir=parent) as out:
        os.chmod(out, 0o755)
        try:
            done = subprocess.run(
                command(row, root, source, source_sha256, out, condition, plain),
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
                env={"PATH": os.environ["PATH"]}, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"no end after {TIMEOUT_S} s") from error
        if done.returncode != 0:
            raise Failed(done.stderr.strip()[-4000:] or f"bwrap ended with {done.returncode}")
        for name in ("sentry.ko", "raw.ko", "condition"):
            os.chmod(os.path.join(out, name), 0o644)
        if os.path.isdir(keep):
            cache.remove_tree(keep)
        shutil.copytree(out, keep + ".new", dirs_exist_ok=True)
        os.rename(keep + ".new", keep)


def read_condition(folder):
    with open(os.path.join(folder, "condition"), encoding="utf-8") as handle:
        return dict(line.rstrip("\n").split("=", 1) for line in handle)


def cpu_seconds(folder):
    """User and system time of a build, as the shell's `times` said inside."""
    with open(os.path.join(folder, "times"), encoding="utf-8") as handle:
        found = re.findall(r"(\d+)m([\d.]+)s", handle.read())
    return round(sum(int(minutes) * 60 + float(seconds) for minutes, seconds in found), 1)
