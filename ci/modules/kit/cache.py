# SPDX-License-Identifier: GPL-2.0
"""The cache: content-addressed files and trees that are complete or not there at all.

Every entry is written under a temporary name, synced, and renamed. A reader never sees half of
one, and a file is hashed again each time it is taken out, so damage is found and fetched anew.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile

CHUNK = 1 << 20


def root():
    base = os.environ.get("HOLDFAST_CACHE")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME")
                            or os.path.expanduser("~/.cache"), "holdfast")
    return os.path.abspath(base)


def path(*parts):
    """Path below the cache; its folder is made."""
    full = os.path.join(root(), *parts)
    os.makedirs(os.path.dirname(full), mode=0o755, exist_ok=True)
    return full


def folder(*parts):
    """Folder below the cache, made if it is not there."""
    full = os.path.join(root(), *parts)
    os.makedirs(full, mode=0o755, exist_ok=True)
    return full


def sha256_file(name):
    digest = hashlib.sha256()
    with open(name, "rb") as handle:
        while block := handle.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def sha256_text(text):
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def write_atomic(name, data, mode=0o644):
    """Put data (str or bytes) at name, whole, whatever happens in between."""
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    fd, tmp = tempfile.mkstemp(prefix=".tmp-", dir=os.path.dirname(os.path.abspath(name)))
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data.encode() if isinstance(data, str) else data)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(tmp, mode)
        os.rename(tmp, name)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(tmp)
        raise


def write_json(name, value):
    write_atomic(name, json.dumps(value, sort_keys=True, indent=1) + "\n")


def read_json(name, default=None):
    try:
        with open(name, encoding="utf-8") as handle:
            return json.load(handle)
    except (FileNotFoundError, ValueError):
        return default


@contextlib.contextmanager
def locked(name):
    """Hold an exclusive lock for one cache entry; it goes with the process."""
    with open(path("locks", name.replace("/", "_")), "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_tree(name):
    """Remove a tree whose folders may have come without write permission."""
    for folder, _, _ in os.walk(name):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(name, ignore_errors=True)


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        return handle.read().strip()


def listing(folder):
    """Hash over the names and sizes of all files below a folder."""
    lines = []
    for where, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(where, name)
            lines.append(f"{os.lstat(full).st_size} {os.path.relpath(full, folder)}")
    return sha256_text("\n".join(sorted(lines)))


def is_whole(final):
    """A tree is there whole if its marker says so: written after it, and checked once a boot.

    Nothing syncs thousands of files when a tree is made, so a crash of the machine may leave some
    of them empty under a good name. After each boot names and sizes are therefore compared once.
    """
    marker = read_json(final + ".tree")
    if not marker or not os.path.isdir(final):
        return False
    if marker["boot"] == boot_id():
        return True
    if marker["listing"] != listing(final):
        return False
    write_json(final + ".tree", {**marker, "boot": boot_id()})
    return True


def tree(name, fill):
    """Return the cached tree `name`; fill(folder) makes it if it is not there whole."""
    final = path(name)
    if is_whole(final):
        return final
    with locked(name):
        if is_whole(final):
            return final
        parent = os.path.dirname(final)
        prefix = ".tmp-" + os.path.basename(final)[:16] + "-"
        for left in os.listdir(parent):
            if left.startswith(prefix):
                remove_tree(os.path.join(parent, left))
        remove_tree(final)
        tmp = tempfile.mkdtemp(prefix=prefix, dir=parent)
        try:
            os.chmod(tmp, 0o755)
            fill(tmp)
            marker = {"boot": boot_id(), "listing": listing(tmp)}
            os.rename(tmp, final)
            write_json(final + ".tree", marker)
        except BaseException:
            remove_tree(tmp)
            raise
    return final
