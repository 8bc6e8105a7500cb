#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel with the Sentry and a scenario, checks every frame and what the scenario's programs expected; TAP.

rig.py SERIES SCENARIO [--prefix SETTINGS] [--cpus N] [--keep DIR]

SERIES is one that ci/kernel/fetch knows, or debug-SERIES for ci/kernel/debug's.

The guest is an initramfs of static programs (init.c, host.c, drive.c here); the Sentry connects to the test host
over vsock loopback, and the test host hands each frame out through a port as it came. Here every MAC is
checked with Python's own SHA-256, the sequence is checked, and then the expectations: programs in the guest print
    expect NAME TAB {members}   a frame with at least these members came
    absent NAME TAB {members}   none did
    check NAME TAB 0|1 TEXT     a test the guest could decide itself
"""
import argparse
import functools
import glob
import hashlib
import hmac
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
KEY = bytes(range(32))
MODULES = ["net/vmw_vsock/vsock", "net/vmw_vsock/vmw_vsock_virtio_transport_common", "net/vmw_vsock/vsock_loopback"]
VIRTIO = ["drivers/virtio/" + name for name in ("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci")]
OPTIONAL = ["drivers/block/loop", "fs/fuse/fuse", "arch/x86/kernel/msr", *VIRTIO, "drivers/char/virtio_console"]  # built in on some kernels


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


class Ratchet:
    """K(n) or H(n), in the order of n; keeps those it has made, so that a repeated frame can be checked too."""

    def __init__(self, first, label):
        self.keys, self.label = [sha(first, KEY)], label

    def key(self, n):
        while len(self.keys) <= n:
            self.keys.append(sha(self.label, self.keys[-1]))
        return self.keys[n]


def command(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, cwd=ROOT, **more).stdout.decode().strip()


BUILDING = threading.Lock()
PROGRAMS = (("init", ()), ("host", ("-lsodium",)), ("drive", ("-lpthread",)))


def build_program(name, libs, more_sources=()):
    """A static program of the guest from the files here that begin with its name; returns its path."""
    sources = sorted(glob.glob(os.path.join(HERE, name + "*.c"))) + list(more_sources)
    out = os.path.join(ROOT, "build", "rig", name)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    newest = max(os.path.getmtime(s) for s in sources + glob.glob(os.path.join(HERE, "*.h")))
    if not os.path.exists(out) or os.path.getmtime(out) < newest:
        part = "%s.%d" % (out, os.getpid())
        command("gcc", "-static", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result",
                "-Wno-format-truncation", "-Wno-stringop-overread", "-I.", "-Iinclude", "-o", part, *sources, *libs)
        os.rename(part, out)
    return out


def build_session():
    """The program that plays the host with the host's own session."""
    with BUILDING:
        return build_program("session", ("-ljansson", "-lsodium"),
                             sorted(glob.glob(os.path.join(ROOT, "hostd/sentry/session*.c"))) +
                             [os.path.join(ROOT, f) for f in ("hostd/sentry/frame.c", "lib/json.c", "lib/hex.c", "lib/hash.c", "lib/err.c")])


def build_programs(work):
    for name, libs in PROGRAMS:
        shutil.copy(build_program(name, libs), os.path.join(work, "bin", name))
    build_tiny32(os.path.join(work, "bin", "tiny32"))
    shutil.move(os.path.join(work, "bin", "init"), os.path.join(work, "init"))


def build_tiny32(out):
    """A 32-bit program without a C library."""
    command("as", "--32", "-o", out + ".o", os.path.join(HERE, "tiny32.S"))
    command("ld", "-m", "elf_i386", "-o", out, out + ".o")
    os.remove(out + ".o")


def build_module(series, name):
    """A kernel module of the tests from the folder of that name here, for that series' kernel; returns its path."""
    out = os.path.join(ROOT, "build", "rig", name + "-" + series)
    with BUILDING:
        shutil.copytree(os.path.join(HERE, name), out, dirs_exist_ok=True)
        command("make", "-s", "-C", os.path.join(kernel_of(series), "usr/src/linux-headers-" + release_of(series)), "M=" + out, "modules")
    return os.path.join(out, name + ".ko")


def module_bytes(kernel, release, name):
    base = os.path.join(kernel, "lib/modules", release, "kernel", name + ".ko")
    if os.path.exists(base):
        return open(base, "rb").read()
    return lzma.open(base + ".xz").read()


def present(kernel, release, name):
    return any(os.path.exists(os.path.join(kernel, "lib/modules", release, "kernel", name + end)) for end in (".ko", ".ko.xz"))


def without_signature(module):
    """Drop what CONFIG_MODULE_SIG appended: signature, its 12-byte description, the marker."""
    marker = b"~Module signature appended~\n"
    if not module.endswith(marker):
        return module
    (size,) = struct.unpack(">I", module[-len(marker) - 4:-len(marker)])
    return module[:-len(marker) - 12 - size]


def build_guest(kernel, release, sentry, scenario, work, extra_files=None):
    for name in ("bin", "modules"):
        os.makedirs(os.path.join(work, name))
    with BUILDING:
        build_programs(work)
    for i, name in enumerate(MODULES):
        with open(os.path.join(work, "modules", "%02d.ko" % i), "wb") as out:
            out.write(module_bytes(kernel, release, name))
    extra = module_bytes(kernel, release, "drivers/net/dummy")
    with open(os.path.join(work, "modules", "extra.ko"), "wb") as out:
        out.write(extra)
    for i, name in enumerate(OPTIONAL):
        if present(kernel, release, name):
            with open(os.path.join(work, "modules", "%02d.ko" % (len(MODULES) + i)), "wb") as out:
                out.write(module_bytes(kernel, release, name))
    command("mkfs.ext4", "-q", "-O", "verity", "-b", "4096", os.path.join(work, "verity.img"), "8M")
    with open(os.path.join(work, "modules", "unsigned.ko"), "wb") as out:
        out.write(without_signature(extra))
    if sentry:
        shutil.copy(sentry, os.path.join(work, "modules", "sentry.ko"))
    for name, path in (extra_files or {}).items():
        os.makedirs(os.path.dirname(os.path.join(work, name)), exist_ok=True)
        shutil.copy(path, os.path.join(work, name))
    with open(os.path.join(work, "scenario"), "w") as out:
        out.write("key %s\n%s\n" % (KEY.hex(), scenario))
    names = subprocess.run(["find", ".", "-print0"], cwd=work, stdout=subprocess.PIPE, check=True).stdout
    image = work + ".cpio"
    with open(image, "wb") as out:
        subprocess.run(["cpio", "--null", "-o", "-H", "newc", "--quiet", "-R", "0:0"], input=names, cwd=work,
                       stdout=out, check=True)
    return image


class Machine:
    """What the guest runs on. Under TCG text patching needs one thread for all CPUs."""

    def __init__(self, cpus=1, memory=512, append="quiet"):
        self.cpus, self.memory, self.append = cpus, memory, append

    def words(self):
        return ["-machine", "q35", "-accel", "tcg" if self.cpus == 1 else "tcg,thread=single", "-cpu", "max,-cx16",
                "-smp", str(self.cpus), "-m", str(self.memory)]


def port(out):
    return ["-device", "virtio-serial-pci", "-chardev", "file,id=frames,path=" + out, "-device", "virtserialport,chardev=frames"]


def frames_of(out):
    """What came through the port, or through the serial port of a kernel that has no virtio."""
    for path in (out, out + ".serial"):
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as frames:
                return frames.read()
    return b""


def boot(kernel, release, image, console, frames, seconds, more, machine=Machine()):
    words = ["timeout", "-k", "5", str(seconds), "qemu-system-x86_64", *machine.words(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-serial", "file:" + console, "-serial", "file:" + frames + ".serial", *port(frames),
             "-kernel", os.path.join(kernel, "boot", "vmlinuz-" + release), "-initrd", image,
             "-append", "console=ttyS0 %s panic=-1 oops=panic mitigations=off random.trust_cpu=on" % machine.append] + more
    qemu = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    show_progress(qemu, console)
    return qemu.wait()


def show_progress(qemu, console):
    """Print the console's lines of progress until QEMU has ended."""
    begin, part, said = time.monotonic(), "", 0
    while qemu.poll() is None:
        time.sleep(0.2)
        if not os.path.exists(console):
            continue
        with open(console, errors="replace") as text:
            text.seek(said)
            part += text.read()
            said = text.tell()
        *lines, part = part.split("\n")
        for line in lines:
            if line.startswith("progress "):
                print("# %.0f s: %s" % (time.monotonic() - begin, line.strip()[len("progress "):]), flush=True)


def no_duplicate_names(pairs):
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise ValueError("duplicate member in %r" % names)
    return dict(pairs)


class Stream:
    """The frames of a run: parsed, with what is wrong with them."""

    def __init__(self, raw):
        self.frames, self.hellos, self.wrong, self.repeats = [], [], [], 0
        self.bodies, self.hello_bodies = {}, {}
        frame_keys, hello_keys = Ratchet(b"holdfast-frame-0", b"holdfast-frame"), Ratchet(b"holdfast-hello-0", b"holdfast-hello")
        at = 0
        while at + 4 <= len(raw):
            (size,) = struct.unpack_from(">I", raw, at)
            body = raw[at + 4:at + 4 + size]
            at += 4 + size
            if size > 24576 or len(body) != size:
                self.wrong.append("frame of %d bytes at %d, %d there" % (size, at, len(body)))
                break
            try:
                frame = json.loads(body.decode("utf-8"), object_pairs_hook=no_duplicate_names)
            except ValueError as error:
                self.wrong.append("frame at %d: %s: %r" % (at, error, body[:200]))
                continue
            if frame["type"] == "hello":
                key = hello_keys.key(frame["conn"])
                if self.hello_bodies.setdefault(frame["conn"], body) != body:
                    self.wrong.append("hello %d was said again differently" % frame["conn"])
                self.hellos.append(frame)
            else:
                key = frame_keys.key(frame["seq"])
            said, _, mac = body.rpartition(b',"mac":"')
            if mac != hmac.new(key, said, "sha256").hexdigest().encode() + b'"}':
                self.wrong.append("MAC of %s %s" % (frame["type"], frame.get("seq", frame.get("conn"))))
            if frame["type"] != "hello":
                self.add(frame, body)

    def add(self, frame, body):
        seq = frame["seq"]
        if seq in self.bodies:
            self.repeats += 1
            if self.bodies[seq] != body:
                self.wrong.append("seq %d was said again differently" % seq)
            return
        if self.frames and seq != self.frames[-1]["seq"] + 1 or not self.frames and seq != 1:
            self.wrong.append("seq %d after %d" % (seq, self.frames[-1]["seq"] if self.frames else 0))
        self.bodies[seq] = body
        self.frames.append(frame)

    def beats(self):
        return [f for f in self.frames if f["type"] == "heartbeat"]


def fits(wanted, got):
    if isinstance(wanted, dict):
        for name in wanted:
            if name == "$re":
                if not isinstance(got, str) or not re.search(wanted[name], got):
                    return False
            elif name == "$ge":
                if not isinstance(got, int) or got < wanted[name]:
                    return False
            elif name == "$sha256":
                if not isinstance(got, str) or sha(got.encode()).hex() != wanted[name]:
                    return False
            elif name in ("$program", "$not_program"):
                digest = sha(open(os.path.join(ROOT, "build/rig", wanted[name]), "rb").read()).hex()
                if not isinstance(got, str) or (got == digest) != (name == "$program"):
                    return False
            elif name == "$length":
                if not isinstance(got, list) or len(got) != wanted[name]:
                    return False
            elif name == "$range":
                if not isinstance(got, int) or not wanted[name][0] <= got <= wanted[name][1]:
                    return False
            elif name == "$absent":
                if any(n in got for n in wanted[name]):
                    return False
            elif not isinstance(got, dict) or name not in got or not fits(wanted[name], got[name]):
                return False
        return True
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) >= len(wanted) and all(fits(w, g) for w, g in zip(wanted, got))
    return wanted == got and type(wanted) is type(got)


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def result(self, good, name, why=""):
        self.count += 1
        self.failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", self.count, name), flush=True)
        if not good and why:
            for line in why.splitlines():
                print("# " + line)

    def end(self):
        print("1..%d" % self.count)


def nearest(stream, wanted):
    same = [f for f in stream.frames if f["type"] == wanted.get("type")]
    pid = [f for f in same if f.get("pid") == wanted.get("pid")]
    text = [json.dumps(f)[:900] for f in (pid or same)[-3:]]
    return "wanted %s\nof %d such frames the last:\n%s" % (json.dumps(wanted), len(same), "\n".join(text))


def accounting(stream, tap, settled):
    """CAP-12, TRN-04: nothing is lost silently. Frames after the last heartbeat are not in its counts.

    settled: the run waited until every window of folding had closed, so that nothing is left in one."""
    beats = stream.beats()
    if not beats:
        return tap.result(False, "a heartbeat came")
    last = beats[-1]
    before = [f for f in stream.frames if f["seq"] < last["seq"] and f["type"] != "heartbeat"]
    wrong = []
    for kind, offered in last["offered"].items():
        sent = [f for f in before if f["type"] == kind]
        events = sum(f.get("count", 1) for f in sent)
        said = (last["sent"].get(kind, 0), last["folded"].get(kind, 0))
        if said != (len(sent), events - len(sent)):
            wrong.append("%s: sent and folded %r, received %r" % (kind, said, (len(sent), events - len(sent))))
        dropped, limited = last["dropped_kinds"].get(kind, 0), last["rate_limited"].get(kind, 0)
        rest = offered - events - dropped - limited
        if settled:
            print("# %s: %d offered = %d sent + %d folded + %d dropped + %d rate limited%s" %
                  (kind, offered, len(sent), events - len(sent), dropped, limited, " + %d nowhere" % rest if rest else ""))
        if rest and settled or not 0 <= rest <= 64 or rest and kind not in ("net_flow", "sandbox_denied", "seccomp_denied", "kernel_access"):
            wrong.append("%s: %d offered, %d of them nowhere" % (kind, offered, rest))
    tap.result(not wrong, "CAP-12 offered = sent + folded + dropped + rate limited + open windows, for every kind", "\n".join(wrong))


def judge(tap, console, stream, settings):
    tap.result("init: done" in console, "the guest ran to its end", console[-3000:])
    tap.result(not stream.wrong and stream.frames, "TRN-05 TRN-06 each of %d frames has its MAC and its place (%d said again byte for byte)" %
               (len(stream.frames), stream.repeats), "\n".join(stream.wrong[:10]) or "no frames")
    for line in console.splitlines():
        match = re.match(r"(expect|absent|check) ([^\t]*)\t(.*)$", line.strip())
        if not match:
            continue
        what, name, rest = match.groups()
        if what == "check":
            tap.result(rest[0] == "1", name, rest[1:].strip())
            continue
        wanted = json.loads(rest)
        wanted_count = wanted.pop("$times", None)
        found = [f for f in stream.frames + stream.hellos if fits(wanted, f)]
        if what == "absent":
            tap.result(not found, name, "came: " + json.dumps(found[:2]))
        elif wanted_count is not None:
            tap.result(len(found) == wanted_count, name, "%d times, wanted %d\n%s" % (len(found), wanted_count, nearest(stream, wanted)))
        else:
            tap.result(bool(found), name, nearest(stream, wanted))
    accounting(stream, tap, re.search(r"^# settled$", settings, re.M))
    for kind, number in re.findall(r"(\w+)=(\d+)", "".join(re.findall(r"^# offered: (.*)$", settings, re.M))):
        offered = stream.beats()[-1]["offered"].get(kind, 0) if stream.beats() else 0
        tap.result(offered == int(number), "TRN-04 %s events were offered, %d counted" % (number + " " + kind, offered))
    match = re.search(r"^# repeats: (\d+)$", settings, re.M)
    if match:
        tap.result(stream.repeats >= int(match.group(1)), "TRN frames that were not acknowledged are said again after a break (%d)" % stream.repeats)
        again = len(stream.hellos) - len(stream.hello_bodies)
        tap.result(again >= 2, "TRN a hello without a welcome is said again byte for byte (%d)" % again)


@functools.lru_cache(None)
def kernel_of(series):
    if series.startswith("debug-"):
        return command("ci/kernel/debug", series[len("debug-"):])
    return command("ci/kernel/fetch", series)


def release_of(series):
    return os.listdir(os.path.join(kernel_of(series), "lib/modules"))[0]


def run(series, scenario, seconds=240, keep=None, more=(), sentry=None, machine=Machine(), extra_files=None):
    """Boot and return (console text, Stream). extra_files: path in the guest to a file to put there."""
    kernel = kernel_of(series)
    release = release_of(series)
    sentry = sentry or os.path.join(ROOT, command("ci/kernel/sentry", series))
    with tempfile.TemporaryDirectory(prefix="sentry-rig.") as top:
        image = build_guest(kernel, release, sentry, scenario, os.path.join(top, "root"), extra_files)
        console, frames = os.path.join(top, "console"), os.path.join(top, "frames")
        status = boot(kernel, release, image, console, frames, seconds, list(more), machine)
        text = open(console, errors="replace").read() if os.path.exists(console) else ""
        raw = frames_of(frames)
        if keep:
            os.makedirs(keep, exist_ok=True)
            shutil.copy(console, keep)
            with open(os.path.join(keep, "frames"), "wb") as out:
                out.write(raw)
    if status:
        text += "\nrig: qemu ended with %d\n" % status
    return text.replace("\r", ""), Stream(raw)


def kept(folder):
    """The result of a run that was kept."""
    with open(os.path.join(folder, "console"), errors="replace") as console, open(os.path.join(folder, "frames"), "rb") as frames:
        return console.read().replace("\r", ""), Stream(frames.read())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("series")
    parser.add_argument("scenario")
    parser.add_argument("--prefix", default="", help="settings put before the scenario")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--keep")
    options = parser.parse_args()
    scenario = options.prefix.replace(";", "\n") + "\n" + open(options.scenario).read()
    console, stream = run(options.series, scenario, options.seconds, options.keep, machine=Machine(options.cpus))
    tap = Tap()
    judge(tap, console, stream, scenario)
    tap.end()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
