# SPDX-License-Identifier: GPL-2.0-or-later
"""Shell ready with and without sandboxd and the Sentry, an exec's round trip beside ssh, a C build at strict.

    guest_bench.py SSHD_ROOT [ready|exec|build...]

Wall time and the CPU time of QEMU are both shown: other work stretches the first and hardly the second.
"""
import hashlib
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vm"))
from guest_plain import PlainGuest
from guestvm import ROOT, Guest, kernel_dir, spec

ROUNDS = 2
RUNS = 100
FS = {"read_only": ["/usr", "/etc", "/proc", "/lib", "/bin", "/sbin", "/lib64", "/run"], "read_write": ["/tmp", "/home/agent"]}
BUILD = ("mkdir -p /tmp/b && cd /tmp/b && for i in $(seq 20); do printf '#include <stdio.h>\\n#include <stdlib.h>\\nint f%d(int x)"
         "{printf(\"%%d\",x);return abs(x);}\\n' $i > b$i.c; done; s=$(date +%s%N); for i in $(seq 20); do gcc -O1 -c b$i.c -o b$i.o || exit 1; done; "
         "gcc -shared -o b.so b*.o || exit 1; echo $((($(date +%s%N)-s)/1000000))")


def cpu_seconds(vm):
    """What QEMU has used so far: with one emulated CPU, the guest's work."""
    with open("/proc/%d/stat" % vm.qemu.pid, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ms(seconds):
    return "%.1f ms" % (seconds * 1000)


def median_p99(times):
    times = sorted(times)
    return "median %s, p99 %s" % (ms(statistics.median(times)), ms(times[int(len(times) * 0.99) - 1]))


def ready_plain():
    with PlainGuest("echo plain: ready\n") as vm:
        vm.wait_line(r"^plain: ready")
        return time.time() - vm.started, cpu_seconds(vm)


def ready_with(guest_spec, sentry=None):
    with Guest(guest_spec, sentry=sentry) as vm:
        vm.wait_ready()
        return vm.ready_seconds, cpu_seconds(vm)


def ready():
    module = os.path.join(ROOT, "build/modules", os.path.basename(kernel_dir("6.12")), "sentry.ko")
    with open(module, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    ways = {
        "neither": ready_plain,
        "observe, no Sentry": lambda: ready_with(spec()),
        "observe, Sentry required": lambda: ready_with(spec(sentry={"mode": "required", "sha256": digest}), module),
        "strict, no Sentry": lambda: ready_with(spec("strict", filesystem=FS, process={})),
    }
    seconds = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, measure in ways.items():
            seconds[way].append(measure())
    base = [statistics.median(column) for column in zip(*seconds["neither"])]
    for way, all_of in seconds.items():
        wall, cpu = (statistics.median(column) for column in zip(*all_of))
        print("# ready: %-25s wall %5.2f s, CPU %5.2f s, ratios %.2f and %.2f, of %s" % (
            way, wall, cpu, wall / base[0], cpu / base[1], ["%.1f/%.1f" % pair for pair in all_of]), flush=True)


SSHD = """set -e
tar -x -f - -C / --keep-directory-symlink --no-same-owner
getent passwd sshd >/dev/null || echo sshd:x:74:74::/run/sshd:/usr/sbin/nologin >> /etc/passwd
mkdir -p /run/sshd /run/keys
ssh-keygen -q -t ed25519 -N '' -f /run/keys/host
chmod 0644 /run/keys/agent
printf 'HostKey /run/keys/host\\nAuthorizedKeysFile /run/keys/agent\\nStrictModes no\\nUsePAM no\\nMaxSessions 100\\n' > /run/keys/config
printf '[Socket]\\nListenStream=vsock::2222\\nAccept=yes\\n' > /run/systemd/system/bench.socket
printf '[Service]\\nExecStart=-/usr/sbin/sshd -i -f /run/keys/config\\nStandardInput=socket\\n' > /run/systemd/system/bench@.service
systemctl daemon-reload
systemctl start bench.socket
"""
DIAL = """import os, select, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b"CONNECT 2222\\n")
while True:
    for f in select.select([0, s], [], [])[0]:
        data = os.read(0, 65536) if f == 0 else s.recv(65536)
        if not data: sys.exit()
        s.sendall(data) if f == 0 else os.write(1, data)
"""


def archive(root, extra):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(root, arcname=".")
        for name, data in extra.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def timed(command):
    start = time.time()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.time() - start


def ssh_times(vm, root, d):
    with open(d + "/dial", "w", encoding="ascii") as f:
        f.write(DIAL)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", d + "/key"], check=True)
    with open(d + "/key.pub", "rb") as f:
        key = f.read()
    r = vm.run(["bash", "-c", SSHD], data=archive(root, {"run/keys/agent": key}), user="root", timeout=180)
    if r.code:
        raise RuntimeError("sshd: %r" % r)
    common = ["-F", "none", "-i", d + "/key", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=" + d + "/known",
              "-o", "ProxyCommand=python3 %s/dial %s" % (d, vm.path("host")), "-o", "ControlPath=" + d + "/mux"]
    subprocess.run(["ssh", *common, "-o", "ControlMaster=yes", "-fN", "agent@guest"], check=True, timeout=120)
    try:
        through = [timed(["ssh", *common, "agent@guest", "true"]) for _ in range(RUNS)]
        client = [timed(["ssh", *common, "-O", "check", "agent@guest"]) for _ in range(30)]
        fresh = [timed(["ssh", *common, "-o", "ControlPath=none", "agent@guest", "true"]) for _ in range(10)]
    finally:
        subprocess.run(["ssh", *common, "-O", "exit", "agent@guest"], check=False, capture_output=True)
    return through, client, fresh


def round_trips(root):
    with Guest(spec()) as vm, tempfile.TemporaryDirectory() as d:
        vm.wait_ready()
        for _ in range(10):
            vm.run(["true"])
        ours = [vm.run(["true"]).seconds for _ in range(RUNS)]
        print("# exec of true: %s" % median_p99(ours), flush=True)
        if not os.path.isdir(root):
            return
        through, client, fresh = ssh_times(vm, root, d)
        ours += [vm.run(["true"]).seconds for _ in range(RUNS)]
        own = statistics.median(client)
        print("# exec of true, before and after ssh together: %s" % median_p99(ours))
        print("# ssh, a session on a connection that stands: %s, of which the client itself %s" % (median_p99(through), ms(own)))
        print("# ssh, a connection of its own: median %s" % ms(statistics.median(fresh)))
        print("# ratio of the medians, ssh's own client left out: %.2f" % ((statistics.median(through) - own) / statistics.median(ours)))


def build():
    times = {"observe": [], "strict": []}
    with Guest(spec()) as a, Guest(spec("strict", filesystem=FS, process={})) as b:
        a.wait_ready()
        b.wait_ready()
        for vm in (a, b):
            vm.run(["bash", "-c", BUILD], timeout=600)
        for _ in range(ROUNDS + 2):
            for name, vm in (("observe", a), ("strict", b)):
                before = cpu_seconds(vm)
                r = vm.run(["bash", "-c", BUILD], timeout=600)
                times[name].append((int(r.text) / 1000, cpu_seconds(vm) - before))
    medians = {}
    for name, all_of in times.items():
        medians[name] = [statistics.median(column) for column in zip(*all_of)]
        print("# a C build at %s: wall %.2f s, CPU %.2f s, of %s" % (name, *medians[name], ["%.1f/%.1f" % pair for pair in all_of]))
    print("# ratio: wall %.3f, CPU %.3f" % tuple(x / y for x, y in zip(medians["strict"], medians["observe"])))


def main():
    what = sys.argv[2:] or ["ready", "exec", "build"]
    if "ready" in what:
        ready()
    if "exec" in what:
        round_trips(sys.argv[1])
    if "build" in what:
        build()
    print("ok 1 - measured")
    print("1..1")


if __name__ == "__main__":
    main()
