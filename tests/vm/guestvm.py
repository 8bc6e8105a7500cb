# SPDX-License-Identifier: GPL-2.0-or-later
"""A workspace VM for tests of the guest's part: sandboxd as init, its vsock on unix sockets, TAP output.

    with Guest(spec(level="strict"), kernel="6.12") as vm:
        vm.wait_ready()
        result = vm.run(["id", "-u"])

No hostd takes part: QEMU, tests/tool/vsock_hub and this file are the host.
"""
import json
import os
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("HOLDFAST_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "holdfast")
IMAGE = os.environ.get("HOLDFAST_IMAGE") or os.path.join(CACHE, "image", "current")

REQUEST, REPLY, STDIN, STDOUT, STDERR, RESIZE, SIGNAL, EXIT, EOF, ERROR = range(1, 11)


def kernel_dir(series):
    """The image's kernel of a series ("6.12", "6.1")."""
    base = os.path.join(IMAGE, "kernels")
    names = [n for n in sorted(os.listdir(base)) if n == series or n.startswith(series + ".")]
    if not names:
        raise SystemExit("the image has no kernel " + series)
    return os.path.join(base, names[-1])


def spec(level="observe", **more):
    s = {"schema": 1, "workspace": "test", "hostname": "test", "level": level,
         "sentry": {"mode": "off"},
         "session_user": {"name": "agent", "uid": 1000, "gid": 1000, "home": "/home/agent"},
         "boot_unix_ns": time.time_ns()}
    s.update(more)
    return s


def cpio_entry(out, name, mode, data=b"", rdev=(0, 0), ino=[1]):
    encoded = name.encode() + b"\0"
    ino[0] += 1
    fields = [ino[0], mode, 0, 0, 1, 0, len(data), 0, 0, rdev[0], rdev[1], len(encoded), 0]
    out.append(b"070701" + b"".join(b"%08x" % f for f in fields) + encoded)
    out.append(b"\0" * (-(110 + len(encoded)) % 4))
    out.append(data)
    out.append(b"\0" * (-len(data) % 4))


def initramfs(path, init, kernel, guest_spec, extra=None, skip_modules=(), sentry=None, key=b"\x11" * 32):
    out = []
    for d in ("dev", "proc", "sys", "run", "newroot", "holdfast", "holdfast/early"):
        cpio_entry(out, d, 0o40755)
    cpio_entry(out, "dev/console", 0o20600, rdev=(5, 1))
    with open(init, "rb") as f:
        cpio_entry(out, "init", 0o100755, f.read())
    with open(os.path.join(kernel, "early.list"), encoding="ascii") as f:
        names = [n for n in f.read().split() if n not in skip_modules]
    cpio_entry(out, "holdfast/early.list", 0o100644, ("\n".join(names) + "\n").encode())
    for n in names:
        with open(os.path.join(kernel, "early", n + ".ko"), "rb") as f:
            cpio_entry(out, "holdfast/early/%s.ko" % n, 0o100644, f.read())
    text = guest_spec if isinstance(guest_spec, bytes) else json.dumps(guest_spec).encode()
    cpio_entry(out, "holdfast/guest-spec.json", 0o100644, text)
    cpio_entry(out, "holdfast/boot.key", 0o100600, key)
    if sentry:
        with open(sentry, "rb") as f:
            cpio_entry(out, "holdfast/sentry.ko", 0o100644, f.read())
    for name, data in (extra or {}).items():
        cpio_entry(out, name, 0o100644, data)
    cpio_entry(out, "TRAILER!!!", 0)
    with open(path, "wb") as f:
        f.write(b"".join(out))


class Result:
    def __init__(self):
        self.reply = None
        self.out = b""
        self.err = b""
        self.code = None      # exit code, or 128 + signal
        self.signal = None
        self.error = None
        self.seconds = 0.0

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    def __repr__(self):
        return "Result(code=%r, signal=%r, reply=%r, error=%r, out=%r, err=%r)" % (
            self.code, self.signal, self.reply, self.error, self.out[-400:], self.err[-400:])


class Conn:
    """One framed connection."""

    def __init__(self, sock):
        self.sock = sock
        self.buf = b""

    def send(self, kind, payload=b""):
        self.sock.sendall(struct.pack(">BI", kind, len(payload)) + payload)

    def request(self, o):
        self.send(REQUEST, json.dumps(o).encode())

    def frame(self, timeout=60):
        """(kind, payload), or None at the end."""
        self.sock.settimeout(timeout)
        while True:
            if len(self.buf) >= 5:
                kind, n = struct.unpack(">BI", self.buf[:5])
                if len(self.buf) >= 5 + n:
                    payload = self.buf[5:5 + n]
                    self.buf = self.buf[5 + n:]
                    return kind, payload
            try:
                more = self.sock.recv(1 << 18)
            except ConnectionResetError:
                return None    # closed with something of ours unread; what it said came before
            if not more:
                return None
            self.buf += more

    def finish(self, result=None, timeout=60):
        r = result or Result()
        end = time.time() + timeout
        while True:
            f = self.frame(max(0.1, end - time.time()))
            if f is None:
                return r
            kind, payload = f
            if kind == REPLY:
                r.reply = json.loads(payload)
                if not r.reply.get("ok"):
                    r.code = r.reply.get("code")
            elif kind == STDOUT:
                r.out += payload
            elif kind == STDERR:
                r.err += payload
            elif kind == EXIT:
                if payload[0] == 0:
                    r.code = payload[1]
                else:
                    r.signal = payload[1]
                    r.code = 128 + payload[1]
            elif kind == ERROR:
                r.error = payload.decode()

    def close(self):
        self.sock.close()


class Guest:
    def __init__(self, guest_spec, kernel="6.12", memory=768, sandboxd=None, skip_modules=(), extra=None,
                 sentry=None, no_root=False, append="", cpus=1, init_wait=240, disks=None):
        self.dir = tempfile.mkdtemp(prefix="hf-guest-")
        self.disks = disks or self.dir
        self.kernel = kernel_dir(kernel)
        self.status = None
        self.statuses = 0
        self.messages = []
        self.status_changed = threading.Condition()
        self.control = None
        self.init_wait = init_wait
        self.handlers = {}
        self.procs = []
        self.log = open(os.path.join(self.dir, "console"), "wb+")
        os.mkdir(self.path("ports"))
        initramfs(self.path("initrd"), sandboxd or os.path.join(ROOT, "build/bin/sandboxd"), self.kernel, guest_spec,
                  extra, skip_modules, sentry)
        self._listen(5840, self._control)
        self.root = os.path.join(self.disks, "root.qcow2")
        self.home = os.path.join(self.disks, "home.raw")
        if not os.path.exists(self.root):
            self._make_disks()
        drives = [] if no_root else ["-drive", "if=none,id=r,file=%s,cache=unsafe" % self.root,
                                     "-device", "virtio-blk-pci,drive=r,serial=hf-root"]
        args = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-machine", "q35,memory-backend=mem", "-accel", "tcg", "-cpu", "max,-cx16", "-smp", str(cpus),
                "-m", str(memory), "-object", "memory-backend-memfd,id=mem,size=%dM,share=on" % memory,
                "-kernel", os.path.join(self.kernel, "vmlinux"), "-initrd", self.path("initrd"),
                "-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on mitigations=off " + append,
                "-serial", "file:" + self.path("console"),
                *drives,
                "-drive", "if=none,id=h,format=raw,file=%s,cache=unsafe" % self.home,
                "-device", "virtio-blk-pci,drive=h,serial=hf-home",
                "-drive", "if=none,id=m,format=raw,readonly=on,file=%s" % os.path.join(self.kernel, "modules.sqfs"),
                "-device", "virtio-blk-pci,drive=m,serial=hf-modules",
                "-chardev", "socket,id=vs,path=" + self.path("device"),
                "-device", "vhost-user-vsock-pci,chardev=vs"]
        self.args = args
        self.restarts = 0
        self._start()

    def _start(self):
        self.hub = subprocess.Popen([os.path.join(ROOT, "build/tool/vsock_hub"), self.path("device"),
                                     self.path("host"), self.path("ports")])
        self.procs.append(self.hub)
        self._wait_path("device")
        self._wait_path("host")
        self.started = time.time()
        self.qemu = subprocess.Popen(self.args, stdin=subprocess.DEVNULL)
        self.procs.append(self.qemu)

    def _start_again(self):
        """QEMU 7.2 now and then emulates a kernel to death in its first second. Said, and tried again."""
        if self.status or self.restarts == 2 or "Kernel panic" not in self.console():
            raise RuntimeError("QEMU has ended")
        self.restarts += 1
        print("# the guest's kernel died while booting under emulation; started again", flush=True)
        self.hub.wait(20)
        for name in ("device", "host"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        self._start()

    def _make_disks(self):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b",
                        os.path.join(os.path.realpath(IMAGE), "base.qcow2"), self.root], check=True)
        with open(self.home, "wb") as f:
            f.truncate(2 << 30)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1", self.home],
                       check=True, env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))

    def path(self, name):
        return os.path.join(self.dir, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in reversed(self.procs):
            if p.poll() is None:
                p.kill()
            p.wait()
        if exc[0] is not None or os.environ.get("KEEP"):
            sys.stderr.write("# console of %s:\n%s\n" % (self.dir, "\n".join("# " + l for l in self.console()[-4000:].splitlines())))
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)
        return False

    def console(self):
        with open(self.path("console"), "rb") as f:
            return f.read().decode("utf-8", "replace")

    def _wait_path(self, name):
        for _ in range(200):
            if os.path.exists(self.path(name)):
                return
            time.sleep(0.02)
        raise RuntimeError(name + " did not appear")

    def _listen(self, port, handler):
        s = socket.socket(socket.AF_UNIX)
        s.bind(self.path("ports/%d" % port))
        s.listen(64)

        def accept():
            while True:
                c, _ = s.accept()
                threading.Thread(target=handler, args=(c,), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()

    listen = _listen

    def _control(self, sock):
        self.control = sock
        buf = b""
        while True:
            try:
                more = sock.recv(65536)
            except OSError:
                return
            if not more:
                return
            buf += more
            while len(buf) >= 4:
                n = struct.unpack(">I", buf[:4])[0]
                if len(buf) < 4 + n:
                    break
                message = json.loads(buf[4:4 + n])
                buf = buf[4 + n:]
                with self.status_changed:
                    if message["type"] == "status":
                        self.status = message
                        self.statuses += 1
                    else:
                        self.messages.append(message)
                    self.status_changed.notify_all()

    def ask(self, message, timeout=20):
        """Sends on the control stream and waits for the answer with the same id."""
        text = json.dumps(message).encode()
        self.control.sendall(struct.pack(">I", len(text)) + text)
        with self.status_changed:
            end = time.time() + timeout
            while time.time() < end:
                for m in self.messages:
                    if m.get("id") == message.get("id"):
                        self.messages.remove(m)
                        return m
                self.status_changed.wait(0.5)
        return None

    def wait_status(self, condition, timeout):
        with self.status_changed:
            end = time.time() + timeout
            while time.time() < end:
                if self.status and condition(self.status):
                    return self.status
                if self.qemu.poll() is not None:
                    self._start_again()
                self.status_changed.wait(0.5)
        raise RuntimeError("no such status in %d s; last: %s" % (timeout, json.dumps(self.status)))

    def wait_ready(self, timeout=None):
        s = self.wait_status(lambda s: s["ready"] or s["failed"], timeout or self.init_wait)
        if not s["ready"]:
            raise RuntimeError("failed: %s" % s["failed"])
        self.ready_seconds = time.time() - self.started
        return s

    def power_off(self, timeout=90):
        """An orderly end; True when QEMU ended by itself."""
        reply = self.request({"op": "poweroff"})
        try:
            self.qemu.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return bool(reply.reply and reply.reply.get("ok"))

    def connect(self, port=5800):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path("host"))
        s.sendall(b"CONNECT %d\n" % port)
        return s

    def conn(self):
        return Conn(self.connect())

    def request(self, o, timeout=60, data=None):
        c = self.conn()
        start = time.time()
        try:
            c.request(o)
            for at in range(0, len(data or b""), 65536):
                c.send(STDIN, data[at:at + 65536])
            if data is not None:
                c.send(EOF)
        except (BrokenPipeError, ConnectionResetError):
            pass    # its program has ended, or it was refused: what it said shows which
        r = c.finish(timeout=timeout)
        r.seconds = time.time() - start
        c.close()
        return r

    def run(self, argv, timeout=60, data=None, **more):
        if isinstance(argv, str):
            argv = ["sh", "-c", argv]
        return self.request(dict({"op": "exec", "argv": argv}, **more), timeout,
                            b"" if data is None else data)

    def put(self, path, content, mode=0o755, user=None):
        """Writes a file as root at observe and files, as the session's user at strict."""
        r = self.run(["sh", "-c", "cat > %s && chmod %o %s" % (path, mode, path)], data=content,
                     **({"user": user} if user else {}))
        if r.code != 0:
            raise RuntimeError("put %s: %r" % (path, r))


class Tap:
    def __init__(self):
        self.n = 0
        self.failed = 0

    def ok(self, good, name, detail=""):
        self.n += 1
        if not good:
            self.failed += 1
        print("%s %d - %s" % ("ok" if good else "not ok", self.n, name), flush=True)
        if not good and detail != "":
            print("# " + str(detail).replace("\n", "\n# ")[:3000], flush=True)
        return good

    def equal(self, have, want, name):
        return self.ok(have == want, name, "have %r, want %r" % (have, want))

    def skip(self, name, reason):
        self.n += 1
        print("ok %d - %s # SKIP %s" % (self.n, name, reason), flush=True)

    def done(self):
        print("1..%d" % self.n, flush=True)
        return 1 if self.failed else 0

