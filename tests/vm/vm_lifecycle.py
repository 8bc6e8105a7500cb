#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A VM's life: failures of a start, the lock, deaths of hostd, of its role and of QEMU, disks."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from vmrole import *  # noqa: E402,F403


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid, seconds):
    end = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def failure(message, **env):
    old = dict(os.environ)
    os.environ.update(env)
    r = Role()
    os.environ.clear()
    os.environ.update(old)
    r.send(START, message, blob=os.urandom(32))
    f = r.wait(START_FAILED, 60)
    r.close()
    return f


def failures(t, tmp, init):
    good = start_message(os.path.join(tmp, "f"), init)
    os.makedirs(good["dir"], exist_ok=True)

    f = failure(dict(good, kernel="/nowhere/vmlinux"))
    t.ok(f["step"] == "look for the kernel" and "No such file" in f["cause"] and f["next"] == "make image",
         "no kernel: step, cause, next command (%s)" % f["cause"])
    f = failure(dict(good, base="/nowhere/base.qcow2"))
    t.ok(f["step"] == "prepare the disks" and "/nowhere/base.qcow2" in f["cause"] and f["next"] == "make image",
         "no base image (%s)" % f["cause"])
    f = failure(dict(good, colour="blue"))
    t.ok("colour" in f["cause"], "an unknown key is named (%s)" % f["cause"])
    f = failure(dict(good, memory_mib=12))
    t.ok("memory_mib" in f["cause"], "too little memory (%s)" % f["cause"])
    f = failure(dict(good, sandboxd="/nowhere/sandboxd"))
    t.ok(f["step"] == "build the initramfs", "no sandboxd (%s)" % f["cause"])
    leftovers = os.listdir(good["run_dir"])
    t.ok("initramfs" not in leftovers, "no half initramfs is left")
    empty = os.path.join(tmp, "empty")
    os.makedirs(empty)
    f = failure(good, PATH=empty)
    t.ok(f["step"] == "start QEMU" and "not installed" in f["cause"] and "apt-get install" in f["next"],
         "no QEMU (%s -> %s)" % (f["cause"], f["next"]))
    old = os.path.join(empty, "qemu-system-x86_64")
    with open(old, "w") as script:
        script.write("#!/bin/sh\necho \"qemu: -netdev stream: Invalid parameter 'stream'\" >&2\nexit 1\n")
    os.chmod(old, 0o755)
    # Below /usr, so that QEMU's own confinement lets it be executed.
    old_dir = "/usr/local/lib/holdfast-test-%d" % os.getpid()
    if os.getuid() == 0:
        os.makedirs(old_dir)
        try:
            shutil.copy(old, old_dir)
            f = failure(good, PATH=old_dir)
            t.ok(f["step"] == "start QEMU" and "too old" in f["cause"] and "7.2" in f["next"],
                 "QEMU too old (%s)" % f["cause"])
        finally:
            shutil.rmtree(old_dir)
    if os.path.exists("/dev/kvm"):
        r = Role()
        r.send(START, dict(good, accel="kvm"), blob=os.urandom(32))
        while True:
            kind, m, _ = r.recv(60)
            if kind in (STARTED, START_FAILED):
                break
        t.ok(kind == STARTED and m["accel"] == "kvm" or
             kind == START_FAILED and m["step"] == "use KVM" and "--accel tcg" in m["next"],
             "KVM is used if it runs a guest, else refused (%s)" % m.get("cause", "runs"))
        r.close()
    else:
        f = failure(dict(good, accel="auto"))
        t.ok("no /dev/kvm" in f["cause"] and "--accel tcg" in f["next"], "no KVM (%s)" % f["cause"])


def lock_and_deaths(t, tmp, init):
    d = os.path.join(tmp, "a")
    r = boot(d, init)
    started = next(j for k, j, _ in r.seen if k == STARTED)
    qemu = started["qemu_pid"]
    t.ok(not os.path.exists(os.path.join(d, "run/initramfs")), "the initramfs with the key is gone once QEMU runs")
    f = failure(start_message(d, init))
    t.ok(f["step"] == "lock the workspace" and "runs already" in f["cause"], "a second start is refused (%s)"
         % f["cause"])
    second = Role()
    answer = second.ask(DISK, {"op": "reset", "dir": os.path.join(d, "ws")})
    t.ok(not answer["ok"] and "runs already" in answer["cause"], "no disk verb while it runs")
    second.close()
    with open("/proc/%d/status" % qemu) as f:
        status = f.read()
    t.ok("NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, "QEMU runs filtered and without new privileges")
    with open("/proc/%d/status" % r.proc.pid) as f:
        status = f.read()
    t.ok("NoNewPrivs:\t1" in status and "Seccomp:\t2" in status, "the role has confined itself")
    fds = sorted(os.readlink("/proc/%d/fd/%s" % (qemu, n)) for n in os.listdir("/proc/%d/fd" % qemu))
    t.ok(not any("store" in x or ".sock" in x for x in fds), "QEMU holds nothing of ours but its sockets and lock")

    os.kill(r.proc.pid, signal.SIGKILL)
    t.ok(gone(qemu, 5), "kill -9 of the role ends QEMU")
    r.proc.wait()
    r.sock.close()
    r = boot(d, init)
    t.ok(True, "and the workspace starts again at once")
    qemu = next(j for k, j, _ in r.seen if k == STARTED)["qemu_pid"]
    os.kill(qemu, signal.SIGKILL)
    off = r.wait(STATE, 10, lambda m: m["state"] == "off")
    t.ok(off["reason"].startswith("qemu died"), "kill -9 of QEMU is reported (%s)" % off["reason"])
    t.ok(r.close() == 0, "and the role leaves")


def panic_and_poweroff(t, tmp, init):
    d = os.path.join(tmp, "b")
    r = boot(d, init)
    s = r.exec_until_up("sysrq c")
    off = r.wait(STATE, 60, lambda m: m["state"] == "off")
    t.ok(off["reason"] == "panic", "a panic is named (%s)" % off["reason"])
    s.close()
    r.close()
    size = os.path.getsize(os.path.join(d, "ws/console.log"))
    t.ok(0 < size <= 1 << 20, "the console is in the log, which is bounded")
    r = boot(d, init)
    r.exec_until_up("poweroff")
    off = r.wait(STATE, 60, lambda m: m["state"] == "off")
    t.ok(off["reason"] == "poweroff", "a power-off is named")
    r.close()
    r = boot(d, init)
    r.exec_until_up("echo")
    t.ok(r.ask(POWEROFF, {"timeout_ms": 3000})["ok"], "the host asks for power-off")
    off = r.wait(STATE, 20, lambda m: m["state"] == "off")
    t.ok("did not power off in time" in off["reason"], "a guest that does not obey is ended (%s)" % off["reason"])
    r.close()


def hostd_dies(t, tmp, init):
    d = os.path.join(tmp, "c")
    m = start_message(d, init)
    r = boot(d, init)
    qemu = next(j for k, j, _ in r.seen if k == STARTED)["qemu_pid"]
    s = r.exec_until_up("echo")
    sock = os.path.join(m["run_dir"], "vm.sock")
    proc = r.proc
    intruder = Role(attach=sock)
    try:
        intruder.send(ATTACH, {"boot_id": m["boot_id"], "durable_seq": 0})
        intruder.recv(5)
        t.ok(False, "nobody attaches while hostd is there")
    except (Closed, OSError):
        t.ok(True, "nobody attaches while hostd is there")
    r.sock.close()
    time.sleep(3)
    t.ok(alive(qemu) and proc.poll() is None, "the VM outlives its hostd")
    wrong = Role(attach=sock)
    wrong.send(ATTACH, {"boot_id": "0" * 36, "durable_seq": 0})
    try:
        wrong.recv(5)
        t.ok(False, "another boot id is refused")
    except (Closed, OSError):
        t.ok(True, "another boot id is refused")
    r2 = Role(attach=sock)
    r2.send(ATTACH, {"boot_id": m["boot_id"], "durable_seq": 0})
    a = r2.wait(ATTACHED, 10)
    t.ok(a["state"] == "running" and a["qemu_pid"] == qemu, "a new hostd attaches")
    s.sendall(b"x")
    t.ok(s.recv(10) == b"x", "streams that the old hostd opened go on")
    r2.sock.close()
    t0 = time.monotonic()
    time.sleep(64)
    t.ok(alive(qemu) and proc.poll() is None, "60 s without hostd: QEMU is there")
    r3 = Role(attach=sock)
    r3.send(ATTACH, {"boot_id": m["boot_id"], "durable_seq": 0})
    a = r3.wait(ATTACHED, 10)
    t.ok(a["state"] == "paused" and a["reason"] == "no hostd", "and paused, reason \"no hostd\" (after %.0f s)"
         % (time.monotonic() - t0))
    t.ok(r3.ask(CONT)["ok"], "the new hostd lets it go on")
    s.sendall(b"y")
    t.ok(s.recv(10) == b"y", "and it does")
    r3.ask(KILL, {"reason": "done"})
    off = r3.wait(STATE, 20, lambda j: j["state"] == "off")
    t.ok(off["reason"] == "killed: done", "kill is named with its reason")
    r3.sock.close()
    proc.wait(10)


def disks(t, tmp, init):
    d = os.path.join(tmp, "d")
    base = os.path.join(tmp, "base.qcow2")
    subprocess.check_call(["qemu-img", "create", "-q", "-f", "qcow2", base, "256M"])
    ws = os.path.join(d, "ws")
    r = boot(d, init, base=base, home_bytes=64 << 30)
    t0 = time.monotonic()
    r.exec_until_up("echo")
    home = os.path.join(ws, "home.qcow2")
    t.ok(os.stat(home).st_blocks * 512 < 64 << 20, "a home of 64 GiB takes %d MiB" %
         (os.stat(home).st_blocks * 512 >> 20))
    before = os.stat(home).st_blocks
    t.ok(read_all(r.exec("fill vdb 64")) == b"ok\n" and os.stat(home).st_blocks - before >= 64 << 11,
         "64 MiB written in the guest are 64 MiB on the host")
    t.ok(read_all(r.exec("trim vdb 64")) == b"ok\n" and os.stat(home).st_blocks - before < 8 << 11,
         "and are given back when the guest discards them")
    t.ok(r.ask(CHECKPOINT, {"name": "live"})["ok"], "a checkpoint of a running VM")
    r.ask(KILL, {"reason": "test"})
    r.wait(STATE, 20, lambda m: m["state"] == "off")
    r.close()

    r = Role()
    ask = lambda op, name="": r.ask(DISK, {"op": op, "dir": ws, "name": name})  # noqa: E731
    t.ok([c["name"] for c in ask("list")["checkpoints"]] == ["live"], "it is listed")
    t.ok(ask("checkpoint", "off-1")["ok"], "a checkpoint while off")
    t.ok(not ask("checkpoint", "off-1")["ok"], "a name is used once")
    t.ok(not ask("checkpoint", "../x")["ok"], "a name is a name")
    subprocess.check_call(["qemu-io", "-c", "write -P 0x55 0 64k", os.path.join(ws, "disk.qcow2")],
                          stdout=subprocess.DEVNULL)
    open(os.path.join(ws, "vm.state"), "w").close()
    t.ok(ask("rollback", "off-1")["ok"], "rollback")
    bad = subprocess.run(["qemu-io", "-c", "read -P 0 0 64k", os.path.join(ws, "disk.qcow2")],
                         stdout=subprocess.PIPE).stdout
    t.ok(b"verification failed" not in bad, "the disk is what it was")
    t.ok(not os.path.exists(os.path.join(ws, "vm.state")), "and no RAM snapshot outlives it")
    t.ok(not ask("rollback", "nope")["ok"], "no rollback to what is not there")
    t.ok(ask("drop", "live")["ok"] and [c["name"] for c in ask("list")["checkpoints"]] == ["off-1"], "drop")
    inode = os.stat(home).st_ino
    t.ok(ask("reset")["ok"] and not os.path.exists(os.path.join(ws, "disk.qcow2")) and
         os.stat(home).st_ino == inode, "reset removes the disk and keeps home")
    r.close()


def suspend(t, tmp, init):
    d = os.path.join(tmp, "e")
    base = os.path.join(tmp, "base-e.qcow2")
    subprocess.check_call(["qemu-img", "create", "-q", "-f", "qcow2", base, "256M"])
    more = {"base": base}
    ws = os.path.join(d, "ws")
    r = boot(d, init, **more)
    s = r.exec_until_up("put kept")
    data = os.urandom(3 << 20)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    t.ok(read_all(s) == b"ok\n", "3 MiB into the guest's memory")
    up = float(read_all(r.exec("get proc/uptime")).split()[0])
    hang = r.exec("echo")
    t0 = time.monotonic()
    answer = r.ask(SUSPEND, timeout=30)
    off = r.wait(STATE, 20, lambda m: m["state"] == "off")
    t.ok(answer["ok"] and off["reason"] == "suspended", "suspend (%.2f s) %s" % (time.monotonic() - t0, answer))
    t.ok(read_all(hang) == b"", "open streams end")
    r.close()
    modes = [os.stat(os.path.join(ws, f)).st_mode & 0o777 for f in ("vm.state", "vm.state.json")]
    t.ok(modes == [0o600, 0o600], "the saved memory is the owner's (%d MiB)" %
         (os.stat(os.path.join(ws, "vm.state")).st_blocks * 512 >> 20))
    f = failure(start_message(d, init, resume=True, memory_mib=640, **more))
    t.ok("must be the same" in f["cause"], "other settings: refused (%s)" % f["cause"])
    t.ok(os.path.exists(os.path.join(ws, "vm.state")), "and the saved memory is still there")
    t0 = time.monotonic()
    r = boot(d, init, resume=True, boot_id="99999999-2222-4333-8444-555555555555", **more)
    started = next(j for k, j, _ in r.seen if k == STARTED)
    took = time.monotonic() - t0
    t.ok(started["resumed"] and started["boot_id"].startswith("11111111"), "resume (%.2f s): the same boot" % took)
    left = [f for f in os.listdir(ws) if f.startswith("vm.state")]
    t.ok(left == [], "the saved memory is gone before the VM runs on from it")
    t.ok(read_all(r.exec_until_up("get kept", 30)) == data, "the guest's memory is what it was")
    after = float(read_all(r.exec("get proc/uptime")).split()[0])
    t.ok(up < after < up + 60, "its uptime went on (%.1f s, then %.1f s)" % (up, after))
    r.ask(PAUSE, {"reason": "x"})
    no = r.ask(SUSPEND)
    t.ok(not no["ok"] and "stand still" in no["cause"], "a paused VM is not suspended")
    r.ask(CONT)
    r.ask(CUT, {"what": "vsock", "cut": True})
    no = r.ask(SUSPEND)
    t.ok(not no["ok"] and "quarantine" in no["cause"], "a VM in quarantine is not suspended")
    r.ask(CUT, {"what": "vsock", "cut": False})
    answer = r.ask(SUSPEND, timeout=30)
    r.wait(STATE, 20, lambda m: m["state"] == "off")
    r.close()
    t.ok(answer["ok"], "suspended a second time")
    r = boot(d, init, **more)
    t.ok(not os.path.exists(os.path.join(ws, "vm.state")), "a cold start drops the saved memory")
    r.exec_until_up("echo")
    r.ask(KILL, {"reason": "test"})
    r.wait(STATE, 20, lambda m: m["state"] == "off")
    r.close()
    f = failure(start_message(d, init, resume=True, **more))
    t.ok("not suspended" in f["cause"], "nothing to resume (%s)" % f["cause"])


def main():
    t = Tap()
    tmp = tempfile.mkdtemp(prefix="hf-life-")
    init = test_init()
    parts = {f.__name__: f for f in (failures, lock_and_deaths, panic_and_poweroff, hostd_dies, disks, suspend)}
    for name in sys.argv[1:] or parts:
        parts[name](t, tmp, init)
    shutil.rmtree(tmp)
    t.done()


main()
