#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 1200
# A symbol that a kernel does not have loses one kind and is named in the hello; only when no hook is left does the load
# fail (CAP-15). The module is built with names that no kernel has.
set -u
cd "$(dirname "$0")/../.."
exec python3 - "${1:-6.12}" <<'PYTHON'
import os
import shutil
import subprocess
import sys
sys.path.insert(0, "tests/vm/sentry-rig")
import rig

SERIES = sys.argv[1]
SCENARIO = "run /bin/drive exec\nrun /bin/drive mount\nrun /bin/drive ptrace\nsleep 2000"


def build(name, file, old, new):
    """The module with `new` for each `old` in one of its files; returns its path and how many there were."""
    folder = os.path.join(rig.ROOT, "build", "rig", "absent", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for part in ("sentry", "include"):
        shutil.copytree(os.path.join(rig.ROOT, part), os.path.join(folder, part))
    shutil.copy(os.path.join(rig.ROOT, "Kbuild"), folder)
    path = os.path.join(folder, "sentry", file)
    with open(path) as source:
        text = source.read()
    with open(path, "w") as out:
        out.write(text.replace(old, new))
    headers = os.path.join(rig.kernel_of(SERIES), "usr/src/linux-headers-" + rig.release_of(SERIES))
    subprocess.run(["make", "-s", "-C", headers, "M=" + folder, "modules"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return os.path.join(folder, "sentry.ko"), text.count(old)


def of(stream, **members):
    return [f for f in stream.frames if rig.fits(members, f)]


tap = rig.Tap()
module, renamed = build("one", "hook_ns.c", '("security_move_mount"', '("no_security_move_mount"')
console, stream = rig.run(SERIES, SCENARIO, sentry=module)
probes = stream.hellos[0]["probes"] if stream.hellos else []
state = {p["symbol"]: p["state"] for p in probes}
lost = [name for name, what in state.items() if what == "absent" and name.startswith("no_")]
tap.result(renamed == 1 and lost == ["no_security_move_mount"], "CAP-15 the hello names the hook that is absent: %s" % lost, console[-1500:])
tap.result(len(state) > 40, "CAP-15 and all the others, %d" % len(state))
tap.result(not of(stream, type="mount", op="move_mount"), "CAP-15 what that hook sees is lost")
for kind, members in (("mount by the old call", {"type": "mount", "op": "mount"}), ("exec", {"type": "exec"}), ("exit", {"type": "exit"}),
                      ("ptrace", {"type": "ptrace"})):
    tap.result(bool(of(stream, **members)), "CAP-15 the others are not: %s (%d)" % (kind, len(of(stream, **members))), console[-1500:])

# Every entry of the tables is made by a macro that names its symbol twice, or once for a tracepoint.
module, renamed = build("all", "probe.h", "(sym)", '("no_" sym)')
console, stream = rig.run(SERIES, "run /bin/drive noop\nsleep 1000", sentry=module)
tap.result(renamed == 7 and "init: /modules/sentry.ko: No such file or directory" in console and not stream.hellos,
           "CAP-15 without any of its hooks the load fails", console[-1500:])
tap.end()
sys.exit(1 if tap.failed else 0)
PYTHON
