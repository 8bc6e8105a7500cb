#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of hostd/vm: transports against one another, starts, checkpoints, suspend, memory."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/vm"))
import vmrole  # noqa: E402
from vmrole import *  # noqa: E402,F403

ZERO = bytes(1 << 18)
rows = []


def row(what, text):
    rows.append((what, text))
    print("%-44s %s" % (what, text), flush=True)


def serve(conn):
    """echo N, sink N, source N: the far end of every transport, the same code for all."""
    pending = b""
    while True:
        while b"\n" not in pending:
            b = conn.recv(65536)
            if not b:
                return
            pending += b
        line, pending = pending.split(b"\n", 1)
        verb, n = line.split()
        n = int(n)
        if verb == b"source":
            while n:
                n -= conn.send(ZERO[:min(n, len(ZERO))])
            continue
        while n:
            b, pending = (pending or conn.recv(1 << 18)), b""
            if not b:
                return
            n -= len(b)
            if verb == b"echo":
                conn.sendall(b)
        if verb == b"sink":
            conn.sendall(b"k")


def listen(family, address):
    s = socket.socket(family)
    s.bind(address)
    s.listen(8)

    def run():
        while True:
            conn, _ = s.accept()
            if family == socket.AF_INET:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return s


def transports(tmp, init):
    path = os.path.join(tmp, "far")
    listen(socket.AF_UNIX, path)
    tcp = listen(socket.AF_INET, ("127.0.0.1", 0))
    r = boot(os.path.join(tmp, "t"), init, bridges=[{"port": 8443, "unix": path}])
    text = read_all(r.exec_until_up("bench 8443")).decode()
    rss = int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % r.proc.pid).read()).group(1))
    r.ask(KILL, {"reason": "done"})
    r.close()

    vmrole.LEAN += ["virtio_console", "failover", "net_failover", "virtio_net"]
    m = start_message(os.path.join(tmp, "t"), init)
    d = vmrole.kernel()
    missing = [n for n in ("virtio_console", "virtio_net") if not os.path.exists(os.path.join(d, "early", n + ".ko"))]
    initrd = cpio(tmp, init, d, m["early_list"], missing)
    out = subprocess.run([
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel",
        "tcg,thread=multi", "-cpu", "max,-cx16", "-smp", "1", "-m", "512M", "-no-reboot", "-kernel", m["kernel"],
        "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 mitigations=off hfbench=%d"
        % tcp.getsockname()[1], "-serial", "stdio", "-device", "virtio-serial-pci", "-chardev",
        "socket,id=s0,path=" + path, "-device", "virtserialport,chardev=s0,name=bench", "-netdev", "user,id=n0",
        "-device", "virtio-net-pci,netdev=n0,romfile="], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=240)
    text += out.stdout.decode("utf-8", "replace")
    for name, label in (("vsock", "vsock, our device"), ("serial", "virtio-serial"), ("net", "virtio-net, slirp")):
        for key, what in (("rtt64_us", "round trip 64 B, p50 / p99 us"), ("rtt4096_us", "round trip 4 KiB, p50 / p99 us"),
                          ("mib_s", "MiB/s to / from the host")):
            got = re.search(r"BENCH %s %s (\S+) (\S+)" % (name, key), text)
            row("%s: %s" % (label, what), "%s / %s" % got.groups() if got else "not measured")
    row("memory of `hostd vm` after it (RSS)", "%.1f MiB" % (rss / 1024))


def cpio(tmp, init, d, early_list, missing):
    """The same initramfs for a QEMU of its own, made with cpio."""
    root = os.path.join(tmp, "cpio")
    for sub in ("dev", "proc", "sys", "run", "holdfast/early"):
        os.makedirs(os.path.join(root, sub))
    shutil.copy(init, os.path.join(root, "init"))
    names = open(early_list).read().split()
    image = os.path.join(d, "modules.sqfs")
    for n in missing:
        # Not among the early modules of the image: out of its module tree.
        subprocess.run(["unsquashfs", "-q", "-n", "-d", os.path.join(tmp, "mods"), "-f", image, "-e",
                        *["*/%s.ko" % n]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = {}
    for base, _, files in os.walk(os.path.join(tmp, "mods")):
        found.update({f: os.path.join(base, f) for f in files})
    for n in names + missing:
        ko = os.path.join(d, "early", n + ".ko")
        ko = ko if os.path.exists(ko) else found.get(n + ".ko")
        if ko:
            shutil.copy(ko, os.path.join(root, "holdfast/early", n + ".ko"))
            with open(os.path.join(root, "holdfast/early.list"), "a") as f:
                f.write(n + "\n")
    out = os.path.join(tmp, "bench.cpio")
    subprocess.check_call("find . | cpio -o -H newc --quiet >" + out, shell=True, cwd=root)
    return out


def timed(fn):
    t = time.monotonic()
    result = fn()
    return time.monotonic() - t, result


def lives(tmp, init):
    base = os.path.join(tmp, "base.qcow2")
    subprocess.check_call(["qemu-img", "create", "-q", "-f", "qcow2", base, "16G"])
    for memory, fill in ((512, 0), (512, 128), (1024, 384)):
        d = os.path.join(tmp, "m%d-%d" % (memory, fill))
        more = {"base": base, "memory_mib": memory, "home_bytes": 64 << 30}
        first, r = timed(lambda: boot(d, init, **more))
        ready, s = timed(lambda: r.exec_until_up("put blob"))
        blob = os.urandom(1 << 20)
        for _ in range(fill):
            s.sendall(blob)
        s.shutdown(socket.SHUT_WR)
        read_all(s)
        label = "%d MiB RAM, %d MiB filled" % (memory, fill)
        if not fill:
            row("START to STARTED, disks made anew", "%.2f s" % first)
            row("STARTED to the guest's init answering", "%.2f s" % ready)
            live, answer = timed(lambda: r.ask(CHECKPOINT, {"name": "live"}))
            row("checkpoint of a running VM (both disks)", "%.0f ms" % (live * 1e3) if answer["ok"] else answer["cause"])
        took, answer = timed(lambda: (r.ask(SUSPEND, timeout=120), r.wait(STATE, 30, lambda m: m["state"] == "off"))[0])
        size = os.stat(os.path.join(d, "ws/vm.state")).st_blocks * 512 >> 20
        row("suspend, " + label, "%.2f s, %d MiB" % (took, size) if answer["ok"] else answer["cause"])
        r.close()
        took, r = timed(lambda: boot(d, init, resume=True, **more))
        usable, _ = timed(lambda: read_all(r.exec_until_up("get proc/uptime")))
        row("resume, " + label, "%.2f s, streams %.2f s later" % (took, usable))
        r.ask(KILL, {"reason": "done"})
        r.wait(STATE, 20, lambda m: m["state"] == "off")
        r.close()
        if fill:
            continue
        again, r = timed(lambda: boot(d, init, **more))
        row("START to STARTED, disks there", "%.2f s" % again)
        r.ask(KILL, {"reason": "done"})
        r.wait(STATE, 20, lambda m: m["state"] == "off")
        r.close()
        for used in (0, 256, 1024):
            disk = os.path.join(d, "ws/disk.qcow2")
            if used:
                subprocess.check_call(["qemu-io", "-c", "write -q 0 %dM" % used, disk])
            r = Role()
            ask = lambda op, n: timed(lambda: r.ask(DISK, {"op": op, "dir": os.path.join(d, "ws"), "name": n}))  # noqa: E731,B023
            made, rolled, dropped = ask("checkpoint", "c%d" % used), ask("rollback", "c%d" % used), ask("drop", "c%d" % used)
            row("checkpoint / rollback / drop, %d MiB written" % used,
                "%.0f / %.0f / %.0f ms" % tuple(1e3 * x[0] for x in (made, rolled, dropped)))
            r.close()


def main():
    tmp = tempfile.mkdtemp(prefix="hf-bench-")
    init = test_init()
    parts = {"transports": transports, "lives": lives}
    for name in sys.argv[1:] or parts:
        parts[name](tmp, init)
    shutil.rmtree(tmp, ignore_errors=True)
    os.makedirs(os.path.join(ROOT, "build/bench"), exist_ok=True)
    with open(os.path.join(ROOT, "build/bench/vm.txt"), "w") as f:
        f.writelines("%-44s %s\n" % r for r in rows)
    bad = [w for w, t in rows if "not measured" in t]
    print("%sok 1 - figures of hostd/vm%s" % ("not " if bad else "", ": missing " + ", ".join(bad) if bad else ""))
    print("1..1")


main()
