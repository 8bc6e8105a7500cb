# SPDX-License-Identifier: GPL-2.0-or-later
"""The module's source as the build sees it: a cached copy named by the hash of its files."""
import os
import re
import shutil
import subprocess

from . import cache

TREE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
KEEP = (".c", ".h", ".S", ".mk", "Kbuild")


INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([\w./-]+\.h)[">]', re.MULTILINE)


def headers(top, names):
    """Relative names of the files below include/ that these files include, at any depth."""
    found, left = set(), list(names)
    while left:
        with open(os.path.join(top, left.pop()), encoding="utf-8", errors="replace") as file:
            included = INCLUDE.findall(file.read())
        for name in (os.path.normpath(os.path.join("include", header)) for header in included):
            full = os.path.join(top, name)
            if name.startswith("include/") and name not in found and os.path.isfile(full) and not os.path.islink(full):
                found.add(name)
                left.append(name)
    return found


def files(top):
    """Relative names of the files that belong to the module, sorted. Other contracts in include/ do not."""
    found = ["Kbuild"] if os.path.exists(os.path.join(top, "Kbuild")) else []
    for where, _, names in os.walk(os.path.join(top, "sentry")):
        for name in names:
            full = os.path.join(where, name)
            if name.endswith(KEEP) and not name.endswith(".mod.c") and not os.path.islink(full):
                found.append(os.path.relpath(full, top))
    return sorted(set(found) | headers(top, found))


def digest(top, names):
    lines = "".join(f"{cache.sha256_file(os.path.join(top, name))}  {name}\n" for name in names)
    return cache.sha256_text(lines)


def snapshot(top=None):
    """(folder, tree_sha256, commit): a copy in the cache that no later edit can change."""
    top = os.path.abspath(top or os.environ.get("HOLDFAST_SOURCE") or TREE)
    names = files(top)
    if "Kbuild" not in names:
        raise SystemExit(f"{top}: no Kbuild, so no module to build")
    tree_sha256 = digest(top, names)

    def fill(folder):
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copyfile(os.path.join(top, name), os.path.join(folder, name))
        if digest(folder, names) != tree_sha256:
            raise SystemExit("the source changed while it was copied; run again")

    folder = cache.tree(f"sources/{tree_sha256}", fill)
    if digest(folder, files(folder)) != tree_sha256:
        cache.remove_tree(folder)
        folder = cache.tree(f"sources/{tree_sha256}", fill)
    return folder, tree_sha256, commit_of(top)


def commit_of(top):
    """The commit that the tree is at, marked when the module's files differ from it."""
    if "HOLDFAST_SOURCE_COMMIT" in os.environ:
        return os.environ["HOLDFAST_SOURCE_COMMIT"]

    def git(*args):
        return subprocess.run(["git", "-C", top, *args], capture_output=True, text=True, check=False)
    head = git("rev-parse", "HEAD")
    if head.returncode != 0:
        return "unknown"
    changed = git("status", "--porcelain", "--", "Kbuild", "sentry", "include").stdout.strip()
    return head.stdout.strip() + ("+changes" if changed else "")
