#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 9600
# The real module and the host's own session, whose connections break after every single byte of the first hello, a
# welcome, a challenge and an ack, and after every eighth byte of later hellos and frames; 1 000 reconnects; 100 deaths of
# hostd; load: no false alarm, and every frame once (TRN-*, ID-*).
# QEMU's clock stands on the guest's instructions (-icount), so that waiting takes no time.
set -u
cd "$(dirname "$0")/../.."
exec python3 - "${1:-6.12}" <<'PYTHON'
import re
import sys
sys.path.insert(0, "tests/vm/sentry-rig")
import rig

tap = rig.Tap()
with open("tests/vm/sentry-rig/scenarios/breaks") as source:
    console, _ = rig.run(sys.argv[1], source.read(), 9000, keep="build/breaks",
                         extra_files={"bin/session": rig.build_session()}, more=["-icount", "shift=0,sleep=off"])
tap.result("init: done" in console, "the guest ran to its end", console[-3000:])
late = re.findall(r"init: the host is not done.*", console)
tap.result(not late, "every sweep came to its end", "\n".join(late))
alarms = re.findall(r"session: tamper .*", console)
for name, rest in re.findall(r"^check ([^\t]*)\t(.*)$", console, re.M):
    tap.result(rest[0] == "1", name, rest[1:].strip() + "\n" + "\n".join(alarms[:10]))
for line in re.findall(r"^session: \d+ connections.*$", console, re.M):
    print("# " + line)
broken = [int(n) for n in re.findall(r"(\d+) broken on purpose", console)]
tap.result(bool(broken) and broken[-1] >= 5500, "as many connections were broken as there are places (%s)" % broken)
tap.end()
sys.exit(1 if tap.failed else 0)
PYTHON
