#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The real module and `hostd vm`, through everything that a host may do to a VM: no false alarm, no frame lost.

Then what guest root does to the channel, each with its one alarm: another connection to the port, the device's driver taken
off, a power-off without a word."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/vm"))
import vmrole  # noqa: E402
from vmrole import ATTACH, ATTACHED, CONT, KILL, PAUSE, REPLUG, SENTRY_ACK, SENTRY_FRAME, START, STARTED, STATE, SUSPEND, TAMPER  # noqa: E402
from vmrole import Closed, Role, read_all, start_message  # noqa: E402

PAUSES = 200


class Watched(Role):
    """Acknowledges each frame as durable and keeps what was called tampering. The ledger outlives a role."""

    def __init__(self, ledger, **more):
        super().__init__(**more)
        self.ledger = ledger

    def recv(self, timeout=30.0):
        msg = super().recv(timeout)
        if msg and msg[0] == SENTRY_FRAME:
            self.ledger.frame(msg[1])
            self.send(SENTRY_ACK, {"seq": self.ledger.last})
        elif msg and msg[0] == TAMPER and msg[1]["reason"] == "silence_warning":
            self.ledger.warnings += 1
        elif msg and msg[0] == TAMPER:
            self.ledger.tampers.append("%s: %s" % (msg[1]["reason"], msg[1]["text"]))
        return msg

    def listen(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.recv(max(0.01, end - time.monotonic()))


class Ledger:
    def __init__(self):
        self.last, self.beats, self.hellos, self.out_of_order, self.tampers = 0, 0, 0, [], []
        self.warnings = 0  # 5 s without a frame: a row, no alarm

    def alarms(self):
        """What was called tampering since the last time."""
        new, self.tampers = self.tampers, []
        return new

    def frame(self, m):
        if m["kind"] == "hello":
            self.hellos += 1
            return
        if m["seq"] <= self.last:
            return  # said again after a re-attach
        if m["seq"] != self.last + 1:
            self.out_of_order.append("%d after %d" % (m["seq"], self.last))
        self.last = m["seq"]
        self.beats += m["kind"] == "heartbeat"


def sentry_module():
    with open(os.path.join(vmrole.cache(), "image/current/image.json")) as f:
        release = json.load(f)["default_kernel"]
    return os.path.join(ROOT, subprocess.run(["ci/kernel/sentry", release], check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout.decode().strip())


def begin(ledger, d, init, module, **more):
    r = Watched(ledger)
    r.send(START, start_message(d, init, sentry_module=module, sentry={"mode": "best_effort", "state": None}, **more), blob=os.urandom(32))
    r.wait(STARTED, 120)
    return r


def beats_come(r, count, seconds=120):
    end, goal = time.monotonic() + seconds, r.ledger.beats + count
    while r.ledger.beats < goal and time.monotonic() < end:
        r.recv(1)
    return r.ledger.beats >= goal


def calm(t, r, good, name):
    """good, no alarm since the last time, and every frame in its place."""
    alarms, wrong = r.ledger.alarms(), r.ledger.out_of_order
    t.ok(good and not alarms and not wrong, "%s%s" % (name, ": %s %s" % (alarms, wrong) if alarms or wrong else ""))


def pauses(t, r):
    rng = random.Random(7)
    for i in range(PAUSES):
        if not r.ask(PAUSE, {"reason": "test"})["ok"]:
            return t.ok(False, "pause %d" % i)
        r.listen(rng.random() * 0.2)
        if not r.ask(CONT)["ok"]:
            return t.ok(False, "cont %d" % i)
        r.listen(rng.random() * 0.3)
    calm(t, r, beats_come(r, 3), "%d pauses: heartbeats go on, no alarm" % PAUSES)
    r.ask(PAUSE, {"reason": "test"})
    r.listen(20)
    r.ask(CONT)
    calm(t, r, beats_come(r, 3), "a pause longer than silence may be: no alarm")


def load(t, r):
    streams = [r.exec_until_up("spin 70"), r.exec("zeros 400000000")]
    for s in streams:
        s.settimeout(0.0)
    before, began = r.ledger.beats, time.monotonic()
    while time.monotonic() - began < 75:
        try:
            streams[1].recv(1 << 18)
        except BlockingIOError:
            pass
        r.recv(0.05)
    calm(t, r, True, "75 s of four hogs and a stream on one CPU: %d heartbeats, no alarm" % (r.ledger.beats - before))
    for s in streams:
        s.close()


def replugs(t, r):
    for _ in range(5):
        r.ask(REPLUG)
        r.listen(3)
    calm(t, r, beats_come(r, 3), "five new vsock devices: it connects again, no alarm")


def hostd_dies(t, r, d):
    proc, sock = r.proc, os.path.join(d, "run/vm.sock")
    for _ in range(3):
        r.sock.close()
        time.sleep(2)
        r = Watched(r.ledger, attach=sock)
        r.send(ATTACH, {"boot_id": start_message(d, "")["boot_id"], "durable_seq": r.ledger.last})
        r.wait(ATTACHED, 10)
        r.listen(2)
    r.proc = proc
    calm(t, r, beats_come(r, 3), "three deaths of hostd: each frame comes, no alarm")
    return r


def suspends(t, r, d, init, module, more):
    for i in range(3):
        answer = r.ask(SUSPEND, timeout=60)
        if not answer["ok"]:
            t.ok(False, "suspend %d: %s" % (i, answer))
            return r
        r.wait(STATE, 20, lambda m: m["state"] == "off")
        r.close()
        r = begin(r.ledger, d, init, module, resume=True, **more)
        beats_come(r, 2)
    calm(t, r, beats_come(r, 3), "three suspends to disk and resumes: the sequence goes on, no alarm")
    return r


def ends(t, r):
    read_all(r.exec_until_up("phase 1"))
    read_all(r.exec("phase 2"))
    r.listen(4)
    r.exec_until_up("poweroff")
    r.wait(STATE, 60, lambda m: m["state"] == "off")
    try:
        r.listen(1)
    except Closed:
        pass
    calm(t, r, True, "a shutdown that was announced is no alarm")


def alarm(r, seconds):
    """The reasons that came until the first one and 3 s more."""
    end = time.monotonic() + seconds
    while not r.ledger.tampers and time.monotonic() < end:
        r.recv(1)
    r.listen(3)
    return [x.split(":")[0] for x in r.ledger.alarms()]


def hostile(t, tmp, init, module):
    r = begin(Ledger(), os.path.join(tmp, "control"), init, module)
    t.ok(beats_come(r, 3, 400), "the Sentry of another VM beats")
    r.exec_until_up("dial 5841 source 4096")
    seen = alarm(r, 30)
    t.ok(seen == ["garbage"], "another program of the guest on the Sentry's port is one alarm: %s" % seen)
    t.ok(beats_come(r, 3) and not r.ledger.out_of_order, "and the Sentry's own connection goes on")
    r.exec_until_up("unbind")
    seen = alarm(r, 120)
    t.ok(seen == ["silence"] and r.ledger.warnings >= 1, "the vsock device without its driver is one alarm, after a warning: %s" % seen)
    r.ask(KILL, {"reason": "test"})
    r.close()


def unclean(t, tmp, init, module):
    """The same watcher does see an alarm."""
    r = begin(Ledger(), os.path.join(tmp, "unclean"), init, module)
    beats_come(r, 2, 400)
    r.exec_until_up("poweroff")
    r.wait(STATE, 60, lambda m: m["state"] == "off")
    try:
        r.listen(1)
    except Closed:
        pass
    t.ok([x.split(":")[0] for x in r.ledger.tampers] == ["unclean_end"], "control: a power-off that was not announced is one: %s" % r.ledger.tampers)
    r.close()


def main():
    t, init, module = vmrole.Tap(), vmrole.test_init(), sentry_module()
    tmp = tempfile.mkdtemp(prefix="hf-sentry-")
    base = os.path.join(tmp, "base.qcow2")
    subprocess.check_call(["qemu-img", "create", "-q", "-f", "qcow2", base, "256M"])
    d, ledger = os.path.join(tmp, "a"), Ledger()
    r = begin(ledger, d, init, module, base=base)
    t.ok(beats_come(r, 3, 400) and ledger.hellos == 1, "the module says hello and beats to the role")
    pauses(t, r)
    load(t, r)
    replugs(t, r)
    r = hostd_dies(t, r, d)
    r = suspends(t, r, d, init, module, {"base": base})
    ends(t, r)
    print("# %d frames, %d heartbeats, %d hellos, %d warnings of 5 s without a frame" %
          (ledger.last, ledger.beats, ledger.hellos, ledger.warnings))
    t.ok(not ledger.out_of_order, "every frame came once and in its order %s" % ledger.out_of_order[:5])
    r.close()
    unclean(t, tmp, init, module)
    hostile(t, tmp, init, module)
    shutil.rmtree(tmp)
    t.done()


main()
