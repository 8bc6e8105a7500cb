#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The vsock device with a real guest: streams both ways, half close, pause, replug, rebind, cut."""
import os
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from vmrole import *  # noqa: E402,F403

MIB = 1 << 20


class Host:
    """A unix socket that a bridge leads to; each connection runs `fn` in a thread."""

    def __init__(self, path, fn):
        self.path, self.results = path, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self.run, args=(fn,), daemon=True).start()

    def run(self, fn):
        while True:
            conn, _ = self.listener.accept()
            threading.Thread(target=lambda: self.results.append(fn(conn)), daemon=True).start()


def echo(conn):
    while True:
        b = conn.recv(65536)
        if not b:
            conn.shutdown(socket.SHUT_WR)
            return
        conn.sendall(b)


def command(r, line):
    return read_all(r.exec(line)).decode()


def main():
    t = Tap()
    tmp = tempfile.mkdtemp(prefix="hf-vm-")
    echoer = Host(os.path.join(tmp, "echo"), echo)
    reader = Host(os.path.join(tmp, "read"), read_all)
    feeder = Host(os.path.join(tmp, "feed"), lambda c: (c.sendall(pattern(0, 3 * MIB)), c.close()))
    r = boot(tmp, test_init(), bridges=[{"port": 8443, "unix": echoer.path}, {"port": 8444, "unix": reader.path},
                                        {"port": 8445, "unix": feeder.path}])

    s = r.exec_until_up("echo")
    s.sendall(b"hello")
    t.ok(s.recv(100) == b"hello", "the host connects and the guest echoes")
    s.shutdown(socket.SHUT_WR)
    t.ok(read_all(s) == b"", "half close: the guest sees the end, and ends its side")

    t.ok(read_all(r.exec("source %d" % (3 * MIB))) == pattern(0, 3 * MIB), "3 MiB from the guest, every byte")
    s = r.exec("sink")
    s.sendall(pattern(0, 3 * MIB))
    s.shutdown(socket.SHUT_WR)
    t.ok(read_all(s) == b"%d 0\n" % (3 * MIB), "3 MiB to the guest, every byte, answered after our end")

    t.ok(command(r, "dial 8444 source %d" % MIB).startswith("ok"), "the guest connects to a host port")
    time.sleep(0.5)
    t.ok(reader.results == [pattern(0, MIB)], "1 MiB on a stream that the guest opened")
    t.ok(command(r, "dial 8445 drain").startswith("ok"), "the host's bytes on a stream that the guest opened")
    t.ok(command(r, "dial 9999 echo") == "error ECONNRESET\n", "a port without a listener is reset")
    try:
        r.exec("", port=5010)
        refused = False
    except ConnectionRefusedError as e:
        refused = "nobody listens" in str(e)
    t.ok(refused, "a guest port without a listener is refused with its reason")

    many = [r.exec("echo") for _ in range(40)]
    for i, s in enumerate(many):
        s.sendall(b"%d" % i)
    t.ok(all(s.recv(100) == b"%d" % i for i, s in enumerate(many)), "40 streams at once, none mixed up")
    for s in many:
        s.close()
    limit = []
    try:
        for _ in range(70):
            limit.append(r.exec("hang"))
    except ConnectionRefusedError as e:
        t.ok(len(limit) <= 64 and "too many" in str(e), "at most 64 exec streams")
    else:
        t.ok(False, "at most 64 exec streams")
    for s in limit:
        s.close()
    time.sleep(1)
    t.ok(r.ask(STATUS)["status"]["vsock"]["execs"] == 0, "closed streams are gone")

    # A reader that does not read holds its own stream back and no other.
    slow = r.exec("source %d" % (20 * MIB))
    time.sleep(1)
    s = r.exec("echo")
    s.sendall(b"still here")
    t.ok(s.recv(100) == b"still here", "a client that does not read holds up nobody else")
    got = read_all(slow)
    t.ok(len(got) == 20 * MIB and got[-100:] == pattern(20 * MIB - 100, 100), "and loses nothing")

    s = r.exec("echo")
    t.ok(r.ask(PAUSE, {"reason": "test"})["ok"], "pause")
    t.ok(r.seen and any(k == STATE and j == {"state": "paused", "reason": "test"} for k, j, _ in r.seen),
         "the pause is reported with its reason")
    s.sendall(b"while paused")
    s.settimeout(2)
    try:
        s.recv(100)
        t.ok(False, "a paused guest does not answer")
    except socket.timeout:
        t.ok(True, "a paused guest does not answer")
    time.sleep(8)
    t.ok(r.ask(CONT)["ok"], "continue after 10 s")
    s.settimeout(20)
    t.ok(s.recv(100) == b"while paused", "streams survive the pause")

    t.ok(r.ask(REPLUG)["ok"], "the device is unplugged and plugged again")
    t.ok(read_all(s) == b"", "its streams are ended")
    s = r.exec_until_up("echo", 20)
    s.sendall(b"again")
    t.ok(s.recv(100) == b"again", "a listener from before the replug accepts again")
    t.ok(command(r, "rtt 8443 20 64").count(" ") == 1, "the guest connects again after the replug")

    hang = r.exec("rebind")
    read_all(hang)
    s = r.exec_until_up("echo", 20)
    s.sendall(b"rebound")
    t.ok(s.recv(100) == b"rebound", "the guest's driver may be taken off and put back")

    t.ok(r.ask(CUT, {"what": "vsock", "cut": True})["ok"], "quarantine cuts vsock")
    t.ok(read_all(s) == b"", "open streams end")
    try:
        r.exec("echo", timeout=10)
        t.ok(False, "no new stream while cut")
    except ConnectionRefusedError:
        t.ok(True, "no new stream while cut")
    r.ask(CUT, {"what": "vsock", "cut": False})
    s = r.exec_until_up("echo", 20)
    s.sendall(b"open")
    t.ok(s.recv(100) == b"open", "and again after the cut")

    read_all(r.exec("reboot"))
    off = r.wait(STATE, 30, lambda m: m["state"] == "off")
    t.ok(off["reason"] == "reboot", "a reboot of the guest ends the run, named as such")
    t.ok(r.close() == 0, "the role exits with 0")
    t.done()


main()
