# SPDX-License-Identifier: GPL-2.0-or-later
"""Plays hostd for one `hostd vm`: the role's messages over SOCK_SEQPACKET, for the VM tests."""
import array
import json
import os
import select
import socket
import struct
import subprocess
import tempfile
import time

START, DISK, ATTACH, PAUSE, CONT, CUT, POWEROFF, KILL, STATUS, EXEC_OPEN = range(1, 11)
FLOW_VERDICT, NAME_VERDICT, DEST_VERDICT, SENTRY_ACK, GUEST_SEND, REJUDGE, CHALLENGE = range(11, 18)
DUMP, SUSPEND, CHECKPOINT, REPLUG = range(18, 22)
STARTED, START_FAILED, STATE, SENTRY_FRAME, TAMPER, FLOW_ASK, NAME_ASK, DEST_ASK = range(101, 109)
FLOW_EVENT, GUEST_STATUS, DONE, ATTACHED, ALARM = range(109, 114)
NAMES = {v: k for k, v in list(globals().items()) if isinstance(v, int)}


def cache():
    base = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    return os.environ.get("HOLDFAST_CACHE", os.path.join(base, "holdfast"))


class Closed(Exception):
    pass


class Role:
    """One `hostd vm` and hostd's end of its socket."""

    def __init__(self, program=None, program_args=("vm",), attach=None):
        self.next_id = 1
        self.seen = []  # every message that came, in order
        if attach:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.sock.connect(attach)
            self.proc = None
            return
        here = os.path.dirname(os.path.abspath(__file__))
        program = program or os.environ.get("HOSTD", os.path.join(here, "../../build/bin/hostd"))
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def fd3():
            os.dup2(theirs.fileno(), 3)

        # A low number may be 3 itself: move ours up first.
        if theirs.fileno() == 3 or self.sock.fileno() == 3:
            a, b = os.dup(self.sock.fileno()), os.dup(theirs.fileno())
            self.sock, theirs = socket.socket(fileno=a), socket.socket(fileno=b)
        self.proc = subprocess.Popen([program, *program_args], preexec_fn=fd3, pass_fds=(3,), close_fds=True)
        theirs.close()

    def send(self, kind, obj=None, blob=b"", fds=()):
        text = json.dumps(obj or {}).encode()
        packet = struct.pack(">HHII", kind, 0, len(text), len(blob)) + text + blob
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([packet], anc)

    def recv(self, timeout=30.0):
        if not select.select([self.sock], [], [], timeout)[0]:
            return None
        packet = self.sock.recv(256 * 1024)
        if not packet:
            raise Closed()
        kind, _, jlen, blen = struct.unpack(">HHII", packet[:12])
        msg = (kind, json.loads(packet[12:12 + jlen]), packet[12 + jlen:12 + jlen + blen])
        self.seen.append(msg)
        return msg

    def wait(self, kind, timeout=30.0, match=lambda m: True):
        """The next message of a kind that matches; others are kept in seen and answered by `others`."""
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            msg = self.recv(left) if left > 0 else None
            if msg is None:
                raise AssertionError("no %s within %.0f s; got %s" % (
                    NAMES[kind], timeout, [(NAMES[k], j) for k, j, _ in self.seen[-8:]]))
            if msg[0] == kind and match(msg[1]):
                return msg[1]
            self.others(msg)

    def others(self, msg):
        pass

    def ask(self, kind, obj=None, fds=(), timeout=30.0):
        obj = dict(obj or {}, id=self.next_id)
        self.next_id += 1
        self.send(kind, obj, fds=fds)
        return self.wait(DONE, timeout, lambda m: m["id"] == obj["id"])

    def exec(self, line="", port=5800, timeout=30.0):
        """A stream to the guest's port, after the guest accepted it and got `line`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        done = self.ask(EXEC_OPEN, {"port": port}, fds=[theirs.fileno()], timeout=timeout)
        theirs.close()
        if not done["ok"]:
            raise ConnectionRefusedError(done["cause"])
        ours.settimeout(60)
        if line:
            ours.sendall(line.encode() + b"\n")
        return ours

    def exec_until_up(self, line="", timeout=120.0):
        end = time.monotonic() + timeout
        while True:
            try:
                return self.exec(line)
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def close(self):
        self.sock.close()
        if self.proc:
            try:
                return self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                return self.proc.wait()
        return None


def read_all(sock):
    out = []
    while True:
        b = sock.recv(1 << 18)
        if not b:
            return b"".join(out)
        out.append(b)


def pattern(at, n):
    return bytes(((i * 131 + (i >> 8)) & 255) for i in range(at, at + n))


def kernel():
    """The image's kernel, or what HOLDFAST_TEST_KERNEL points at: {vmlinux, early, early.list}."""
    d = os.environ.get("HOLDFAST_TEST_KERNEL")
    if not d:
        current = os.path.join(cache(), "image", "current")
        with open(os.path.join(current, "image.json")) as f:
            d = os.path.join(current, "kernels", json.load(f)["default_kernel"])
    return d


# The test guest needs only these; a list of its own keeps its boot short.
LEAN = ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk",
        "vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_init():
    """Builds the guest of the tests: a static init."""
    out = os.path.join(ROOT, "build/testguest/testinit")
    source = os.path.join(ROOT, "tests/vm/guest/testinit.c")
    if not os.path.exists(out) or os.path.getmtime(out) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        tmp = "%s.%d" % (out, os.getpid())
        subprocess.check_call(["gcc", "-static", "-O2", "-Wall", "-D_GNU_SOURCE", "-o", tmp, source])
        os.rename(tmp, out)
    return out


def start_message(tmp, init, **more):
    d = kernel()
    ws, run = os.path.join(tmp, "ws"), os.path.join(tmp, "run")
    os.makedirs(ws, mode=0o700, exist_ok=True)
    lean = os.path.join(tmp, "early.list")
    with open(lean, "w") as f:
        have = os.path.join(d, "early")
        f.writelines(n + "\n" for n in LEAN if os.path.exists(os.path.join(have, n + ".ko")))
    m = {
        "schema": 1, "workspace": "test", "dir": ws, "run_dir": run,
        "boot_id": "11111111-2222-4333-8444-555555555555", "accel": "tcg", "cpus": 1, "memory_mib": 512,
        "kernel": os.path.join(d, "vmlinux"), "modules_image": "", "base": "", "home_bytes": 1 << 30,
        "sandboxd": init, "early_dir": os.path.join(d, "early"), "early_list": lean,
        "sentry_module": "", "guest_spec": {"schema": 1}, "cmdline": "", "mac": "", "net": None,
        "network": "open", "sentry": {"mode": "off", "state": None}, "bridges": [], "resume": False,
    }
    m.update(more)
    return m


def boot(tmp, init, **more):
    r = Role()
    r.send(START, start_message(tmp, init, **more), blob=os.urandom(32))
    r.wait(STARTED, 60)
    return r


class Tap:
    def __init__(self):
        self.n = 0
        self.bad = 0

    def ok(self, good, name):
        self.n += 1
        self.bad += not good
        print("%sok %d - %s" % ("" if good else "not ", self.n, name), flush=True)

    def done(self):
        print("1..%d" % self.n)
        raise SystemExit(1 if self.bad else 0)
