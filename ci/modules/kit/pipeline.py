# SPDX-License-Identifier: GPL-2.0-or-later
"""One release from its name to a checked module in the folder of modules."""
import contextlib
import os
import subprocess
import sys

from . import archive, cache, publish, record, releases, sandbox, source

HERE = os.path.dirname(sandbox.KIT)
STEPS = ("headers", "toolchain", "build A", "build B", "check")


class Refused(Exception):
    """The release cannot be given a module; the text says why."""


def discover(*args):
    """Run the command of that name; the table it leaves is what the rest reads."""
    done = subprocess.run([os.path.join(HERE, "discover"), "--quiet", *args],
                          stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        print(line, file=sys.stderr)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def row_of(release):
    """The release's row of the table, which is made anew when it does not have it."""
    def look():
        table = cache.read_json(releases.table_path()) or {"releases": []}
        return next((row for row in table["releases"] if row["release"] == release), None)
    row = look()
    if not row:
        discover("--refresh")
        row = look()
    if not row:
        raise Refused(f"{release}: the archive has no headers for this release")
    return record.prepare(row)


class Pending:
    """out/pending/RELEASE: tells a waiting hostd that a module is coming, and how far it is."""

    def __init__(self, out, release):
        self.name = os.path.join(out, "pending", release)
        self.done = 0

    def step(self, text):
        cache.write_atomic(self.name, f"{self.done} {len(STEPS)} {text}\n")
        self.done += 1

    def end(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name)


def make(release, out, snapshot=None):
    """Build one release twice, compare, check, publish; returns its record. Raises Refused."""
    row = row_of(release)
    snapshot = snapshot or source.snapshot()
    pending = Pending(out, release)
    try:
        pending.step("fetching headers")
        for deb in row["debs"]:
            archive.unpacked(deb)
        pending.step("toolchain root")
        record.inputs(row, snapshot[1])
        for name, condition in sandbox.CONDITIONS.items():
            pending.step(f"build {name}")
            record.one_build(row, snapshot, name, condition)
        pending.step("checking")
        made, why = publish.make_record(row, snapshot)
        if not made:
            raise Refused(f"{release}: {why}")
        publish.publish(out, row, made, record.folder(row, snapshot[1]))
        return made
    except (sandbox.Failed, archive.Missing, archive.Untrusted, OSError) as error:
        raise Refused(f"{release}: {error}") from error
    finally:
        pending.end()
