# SPDX-License-Identifier: GPL-2.0-or-later
"""Level files (POL-10, POL-12 b, POL-16, LL-03, LL-04, LL-09, LL-10, SUP-03)."""
import re

import guest_attacks
from guestvm import Guest, Tap, json, spec

tap = Tap()
FS = {"read_only": ["/usr", "/etc", "/proc", "/lib", "/bin", "/sbin", "/lib64", "/sys"], "read_write": ["/tmp", "/home/agent"]}


def in_force(vm):
    s = vm.status
    tap.ok(s["level"]["in_force"] == "files" and s["landlock"]["enforced"] and s["landlock"]["probed"] and
           not s["landlock"]["degraded"] and s["landlock"]["abi"] == 6, "POL-12 the status says files, enforced by a probe", s["landlock"])
    tap.ok(not s["seccomp"]["requested"] and not s["strict_applied"], "POL-10 and nothing of strict")
    r = vm.run(["cat", "/proc/self/status"])
    tap.ok("NoNewPrivs:\t0" in r.text and "Seccomp:\t0" in r.text, "POL-10 neither no_new_privs nor a filter", r)
    listed = {a["path"] for a in s["landlock"]["additions"]}
    tap.ok({"/dev/null", "/dev/tty", "/dev/pts", "/run/holdfast"} <= listed and all(a["reason"] for a in s["landlock"]["additions"]),
           "LL-09 additions are listed with their reasons", listed)
    baseline = {a["path"] for a in s["landlock"]["additions"] if "network rules" in a["reason"]}
    tap.ok("/var/log" in baseline and not baseline & set(FS["read_only"] + FS["read_write"]),
           "POL-16 the baseline of network rules is added, listed, and no path of the user's twice", baseline)
    r = vm.run("cp /run/holdfast/resolv.conf /run/holdfast/new 2>/dev/null || cp /etc/resolv.conf /run/holdfast/new; echo 'nameserver 192.0.2.99' >> /run/holdfast/new; "
               "mv /run/holdfast/new /run/holdfast/resolv.conf", user="root")
    tap.ok(r.code == 0 and "192.0.2.99" in vm.run("cat /run/holdfast/resolv.conf").text, "LL-09 the resolver's file, replaced by rename, can still be read", r)
    tap.ok(vm.run(["ls", "/var/log"]).code == 0 and vm.run("echo x > /dev/null").code == 0, "POL-16 and in force")


def holds(vm):
    for who, prefix in (("the user", ""), ("root by sudo", "sudo -n ")):
        tap.ok(vm.run(prefix + "touch /home/agent/x").code == 0, "LL-04 baseline: %s writes where it may" % who)
        r = vm.run(prefix + "ls /root")
        tap.ok(r.code == 2 and b"denied" in r.err, "LL-04 %s may not list /root" % who, r)
        r = vm.run(prefix + "cat /var/lib/dpkg/status")
        tap.ok(r.code == 1 and b"denied" in r.err, "LL-03 %s may not read /var" % who, r)
        r = vm.run(prefix + "sh -c 'echo x >> /etc/motd'")
        tap.ok(r.code != 0, "LL-03 %s may not write below /etc" % who, r)
    r = vm.run(["cat", "/var/lib/dpkg/status"], user="root")
    tap.ok(r.code == 0, "LL-04 baseline: root outside the confinement reads it")


# Ways from a session (with sudo) to a root that is not confined. Each has its baseline at observe.
ROUTES = [
    ("systemd-run", "sudo -n systemd-run -q --wait touch /root/escaped"),
    ("systemctl by the private socket", "sudo -n systemctl start nosuch.service 2>&1 | grep -q 'not found'"),
    ("the system bus", "sudo -n busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.DBus.Peer Ping"),
    ("nsenter into PID 1", "sudo -n nsenter -t 1 -m touch /root/escaped"),
    ("chroot through /proc/1/root", "sudo -n chroot /proc/1/root touch /root/escaped"),
    ("ptrace of PID 1", "sudo -n python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(0x4206, 1, 0, 0) != 0)'"),
    ("umount of a mask", "sudo -n umount /run/dbus"),
    ("a mount over it", "sudo -n mount -t tmpfs x /run/dbus"),
    ("remount of a disk", "sudo -n mkdir /tmp/m && sudo -n mount /dev/vda /tmp/m && sudo -n touch /tmp/m/root/escaped"),
    ("unshare and mount", "sudo -n unshare -m sh -c 'umount /run/dbus'"),
    ("a setuid copy outside", "sudo -n cp /bin/sh /var/tmp/sh"),
    ("a cron table", "sudo -n sh -c 'mkdir -p /var/spool/cron/crontabs && echo x > /var/spool/cron/crontabs/root'"),
    ("a unit in /run", "sudo -n sh -c 'echo > /run/systemd/system/x.service'"),
    ("the core pattern", "sudo -n sh -c 'echo \"|/tmp/x\" > /proc/sys/kernel/core_pattern'"),
    ("the modprobe path", "sudo -n sh -c 'echo /tmp/x > /proc/sys/kernel/modprobe'"),
    ("the raw disk", "sudo -n dd if=/dev/vda of=/dev/null count=1"),
    ("the cgroup of another", "sudo -n sh -c 'echo $$ > /sys/fs/cgroup/cgroup.procs'"),
    ("docker's socket", "sudo -n python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/docker.sock\")'"),
    ("containerd's socket", "sudo -n python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/containerd/containerd.sock\")'"),
    ("a job for at", "sudo -n sh -c 'mkdir -p /var/spool/at && echo x > /var/spool/at/a0001'"),
    ("an ssh key for root", "sudo -n sh -c 'mkdir -p /root/.ssh && echo x >> /root/.ssh/authorized_keys'"),
    ("a profile for root", "sudo -n sh -c 'echo x >> /root/.bashrc'"), ("a unit on the disk", "sudo -n sh -c 'echo > /etc/systemd/system/x.service'"),
    ("a udev rule", "sudo -n sh -c 'mkdir -p /run/udev/rules.d && echo > /run/udev/rules.d/x.rules'"),
    ("a preloaded library", "sudo -n sh -c 'echo > /etc/ld.so.preload'"), ("binfmt_misc", "sudo -n sh -c 'mount -t binfmt_misc x /mnt'"),
    ("a release agent", "sudo -n sh -c 'mkdir -p /tmp/cg && mount -t cgroup -o none,name=x x /tmp/cg'"),
    ("the supervisor's files", "sudo -n ls /proc/$(cat /sys/fs/cgroup/holdfast/daemon/cgroup.procs | head -1)/root/"),
]


# Sockets as the daemons would have them, held open by a root outside.
DAEMONS = """import os, socket, time
for path in ("/run/docker.sock", "/run/containerd/containerd.sock", "/tmp/outside.sock"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(); os.chmod(path, 0o666)
    globals()[path] = s
time.sleep(3600)
"""


def daemons(vm):
    vm.put("/tmp/daemons.py", DAEMONS.encode(), mode=0o644, user="root")
    vm.run("setsid python3 /tmp/daemons.py > /dev/null 2>&1 & while ! [ -S /tmp/outside.sock ]; do sleep 0.2; done", user="root")


def routes(vm):
    daemons(vm)
    for name, command in ROUTES:
        r = vm.run(command, timeout=60)
        tap.ok(r.code not in (0, None), "SUP-03 refused: " + name, r)
    tap.ok(vm.run("ls /root/escaped", user="root").code != 0, "SUP-03 nothing came out")
    masked = {m["path"] for m in vm.status["masks"]}
    tap.ok({"/run/systemd", "/run/dbus", "/run/udev", "/run/holdfast/sandboxd.sock"} <= masked, "masks are in the status", masked)


CLONE_OUT = """
import ctypes, os, struct
fd = os.open("/sys/fs/cgroup", os.O_RDONLY | os.O_DIRECTORY)
args = ctypes.create_string_buffer(struct.pack("11Q", 0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, fd))
if ctypes.CDLL(None).syscall(435, args, 88) == 0:
    print(open("/proc/self/cgroup").read(), end="", flush=True)
    os._exit(0)
os.wait()
"""


def not_covered(vm):
    """LL-10: what Landlock does not judge, so that nobody thinks it does."""
    tap.ok(vm.run("stat /root").code == 0, "LL-10 stat is not judged")
    tap.ok(vm.run("cd /var && pwd").code == 0, "LL-10 chdir is not judged")
    tap.ok(vm.run("sudo -n kill -0 1").code == 0, "LL-10 signals are not, below strict")
    r = vm.run("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/tmp/outside.sock\")'")
    tap.ok(r.code == 0, "LL-10 connect to a socket is not: one that we do not know by name leads out", r)
    r = vm.run("sudo -n python3 -c '%s'" % CLONE_OUT)
    tap.ok(r.text.strip() == "0::/", "SUP-04 a child that root clones into another cgroup is out of the sandbox (the Sentry reports it)", r)
    r = vm.run("sudo -n python3 -c '%s'" % CLONE_OUT.replace('open("/proc/self/cgroup").read()', '"%s" % os.listdir("/root")'))
    tap.ok(r.text.strip() == "" and b"Permission denied" in r.err, "SUP-04 and Landlock holds there too", r)


def main():
    with Guest(spec("files", filesystem=FS, network_rules=True)) as vm:
        vm.wait_ready()
        in_force(vm)
        holds(vm)
        routes(vm)
        not_covered(vm)
        guest_attacks.at_files(tap, vm)
        r = vm.run("tty; ls -l /proc/self/fd/0", pty=True)
        tap.ok(re.match(rb"/dev/pts/\d+\r\n", r.out), "a terminal has its name in the private namespace", r)
    with Guest(spec()) as vm:
        vm.wait_ready()
        daemons(vm)
        works = 0
        for name, command in ROUTES:
            r = vm.run(command, timeout=120)
            works += r.code == 0
            tap.ok(r.code == 0 or name in ("umount of a mask", "unshare and mount"), "baseline at observe: %s" % name, r)
        print("# %d of %d routes work at observe" % (works, len(ROUTES)))
        guest_attacks.baseline(tap, vm)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
