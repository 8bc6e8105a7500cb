# SPDX-License-Identifier: GPL-2.0-or-later
"""From two equal builds to a record, and from a record to the folder of modules."""
import os
import struct

from . import archive, cache, checks, record, sandbox, symbols


def make_record(row, snapshot):
    """(record, None) or (None, why not)."""
    where = record.folder(row, snapshot[1])
    builds = []
    for name in sandbox.CONDITIONS:
        done = cache.read_json(os.path.join(where, name, "build.json"))
        if not done or not os.path.exists(os.path.join(where, name, "sentry.ko")):
            return None, f"no build under condition {name}"
        if cache.sha256_file(os.path.join(where, name, "sentry.ko")) != done["sha256"]:
            return None, f"the build under condition {name} was changed in the cache"
        builds.append(done)
    if len({(done["sha256"], done["raw_sha256"]) for done in builds}) != 1:
        return None, "its builds differ"
    found = checks.static(row, record.module_path(where))
    probes = probe_symbols(row, snapshot[0])
    if probes:
        enough = len(probes["absent"]) * 4 <= probes["wanted"]
        found["probes"] = "ok" if enough else f"{len(probes['absent'])} of {probes['wanted']} absent"
    wrong = checks.bad(found)
    if wrong:
        return None, "; ".join(f"{name}: {text}" for name, text in wrong.items())
    return {**record.assemble(row, snapshot, builds, found), "probes": probes}, None


def probe_symbols(row, folder):
    """Which of the source's hooks this kernel has not, by its BTF; None when that cannot be said."""
    try:
        found = symbols.absent(row, folder)
    except (archive.Missing, archive.Untrusted, OSError, ValueError, struct.error):
        return None
    return found and {"wanted": len(found[0]), "absent": found[1]}


def publish(out, row, made, where):
    """Put module and record into out/RELEASE; the module first, since the record names its hash."""
    folder = os.path.join(out, row["release"])
    os.makedirs(folder, exist_ok=True)
    with open(record.module_path(where), "rb") as handle:
        data = handle.read()
    old = os.path.join(folder, "sentry.ko")
    if not os.path.exists(old) or cache.sha256_file(old) != made["module"]["sha256"]:
        cache.write_atomic(old, data)
    if cache.read_json(os.path.join(folder, "record.json")) != made:
        cache.write_json(os.path.join(folder, "record.json"), made)
