# SPDX-License-Identifier: GPL-2.0-or-later
"""From two equal builds to a record, and from a record to the folder of modules."""
import os

from . import cache, checks, record, sandbox


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
    wrong = checks.bad(found)
    if wrong:
        return None, "; ".join(f"{name}: {text}" for name, text in wrong.items())
    return record.assemble(row, snapshot, builds, found), None


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
