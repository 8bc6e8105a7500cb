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


def tree(name, fill):
    """Return the cached tree `name`; fill(folder) makes it if it is not there yet."""
    final = path(name)
    if os.path.isdir(final):
        return final
    with locked(name):
        if os.path.isdir(final):
            return final
        parent = os.path.dirname(final)
        prefix = ".tmp-" + os.path.basename(final)[:16] + "-"
        for left in os.listdir(parent):
            if left.startswith(prefix):
                remove_tree(os.path.join(parent, left))
        tmp = tempfile.mkdtemp(prefix=prefix, dir=parent)
        try:
            os.chmod(tmp, 0o755)
            fill(tmp)
            fd = os.open(tmp, os.O_RDONLY)
            os.sync()
            os.close(fd)
            os.rename(tmp, final)
        except BaseException:
            remove_tree(tmp)
            raise
    return final
