# SPDX-License-Identifier: GPL-2.0-or-later
"""Level strict (POL-10, 12, 13, SUP-05, 10, LL-*, SEC-*, DRP-*, UN-37, UN-38)."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from guestvm import EXIT, REPLY, STDIN, Guest, Tap, json, spec
from guest_observe import figures, read_until

tap = Tap()
FS = {"read_only": ["/usr", "/etc", "/proc", "/lib", "/bin", "/sbin", "/lib64"], "read_write": ["/tmp", "/home/agent"]}


def in_force(vm):
    s = vm.status
    tap.ok(s["strict_applied"] and s["level"] == {"requested": "strict", "in_force": "strict"}, "POL-12 strict is in force by a probe", s)
    tap.ok(s["seccomp"] == {"requested": True, "filters": 3, "enforced": True, "probed": True, "no_new_privs": True},
           "SEC-01 three filters, probed", s["seccomp"])
    tap.ok(s["landlock"]["enforced"] and s["landlock"]["scoped"] and not s["landlock"]["degraded"], "LL-11 Landlock with its scopes", s["landlock"])
    tap.ok({"revoke_managers", "revoke_sudo", "revoke_groups", "revoke_console"} == {r["name"] for r in s["revocations"] if r["ok"]}, "revocations are in the status")
    r = vm.run(["cat", "/proc/self/status"])
    for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp_filters:\t3", "CapBnd:\t0000000000000000", "CapPrm:\t0000000000000000",
                 "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000"):
        tap.ok(line in r.text, "SEC-01, SEC-13 in the kernel's own words: " + line.replace("\t", " "))
    tap.equal(vm.run("ulimit -c").text, "0\n", "SEC-13 no core dumps")


def identity(vm):
    tap.equal(vm.run(["id"]).text, "uid=990(sandbox) gid=990(sandbox) groups=990(sandbox)\n", "DRP-01 the policy's user, without any other group")
    tap.ok(vm.run("sudo -n true").code != 0, "DRP-01 no sudo")
    r = vm.request({"op": "exec", "argv": ["id"], "user": "root"})
    tap.ok(r.reply and not r.reply["ok"] and "strict" in r.reply["error"], "DRP-01 not even for the host's exec", r)
    tap.equal(vm.run("getent group sudo docker adm | grep -c agent").text, "0\n", "DRP-01 the workspace's user is in no privileged group")
    tap.ok(vm.run("pgrep -x agetty").code == 1, "no console login")
    tap.equal(vm.status["identity"]["idmap"], "mapped", "DRP-02 the home is an idmapped mount")
    r = vm.run("stat -c %U /home/agent /home/agent/.profile; echo hi > /home/agent/made && stat -c '%u %g' /home/agent/made")
    tap.equal(r.text, "sandbox\nsandbox\n990 990\n", "DRP-02 the session owns what it sees and makes there")
    r = vm.run("cp /bin/true /home/agent/su && chmod 4755 /home/agent/su; grep ' /home/agent ' /proc/self/mountinfo")
    tap.ok("nosuid" in r.text and "nodev" in r.text, "DRP-02 no setuid through the map", r)
    r = vm.run("cd /home/agent && git init -q r && cd r && git status")
    tap.ok(r.code == 0 and b"dubious" not in r.err, "UN-38 git finds its own ownership in order", r)
    tap.ok(vm.run("ping -c1 -W5 127.0.0.1").code == 0, "DRP-04 ping works")


def filesystem(vm):
    for path, want in (("/usr/bin", True), ("/tmp", True), ("/", False), ("/var", False), ("/root", False), ("/home", False), ("/dev", False),
                       ("/run", False), ("/boot", False)):
        r = vm.run(["ls", path])
        tap.ok((r.code == 0) == want, "LL-03 list %s: %s" % (path, "yes" if want else "EACCES"), r)
    r = vm.run("cat /proc/1/environ /proc/1/maps")
    tap.ok(r.code == 1, "the supervisor's and init's memory is out of reach")


def calls(vm):
    r = vm.run(["python3", "-c", "import threading,subprocess\nfor i in range(500):\n t=threading.Thread(target=int); t.start(); t.join()\n"
                                 "print(sum(subprocess.run(['true']).returncode for _ in range(40)))"], timeout=240)
    tap.equal((r.code, r.text), (0, "0\n"), "SEC-07 threads and spawns fall back from clone3")
    for name, command in (("python", "python3 -c 'import socket; print(socket.if_nameindex()[0][1])'"), ("node", "node -e 'console.log(1)'"),
                          ("git", "git --version"), ("gcc", "cd /tmp && echo 'int main(){return 0;}' > a.c && gcc a.c -o a && ./a"),
                          ("getaddrinfo", "getent hosts localhost"), ("ip", "python3 -c 'import os; os.sched_setaffinity(0, {0})'")):
        r = vm.run(command, timeout=120)
        tap.ok(r.code == 0, "SEC-06, SEC-07 goes on working: " + name, r)
    for name, command in (("strace", "strace true"), ("gdb", "gdb -q -batch -ex run /bin/true 2>&1 | grep -q 'exited normally'"),
                          ("unshare -Ur", "unshare -Ur true"), ("unshare -n", "unshare -n true"), ("mount", "mount -t tmpfs x /tmp"),
                          ("kill -9 -1", "kill -9 -1")):
        r = vm.run(command)
        tap.ok(r.code not in (0, None), "SEC-02..08 refused: " + name, r)


ROUTES = [
    ("systemd-run", "systemd-run -q --wait true"), ("systemctl", "systemctl list-units"), ("busctl", "busctl list"), ("loginctl", "loginctl list-sessions"),
    ("su", "echo | su -c true"), ("at", "echo true | at now"), ("crontab", "crontab -l"), ("docker", "docker ps"),
    ("nsenter", "nsenter -t 1 -m true"), ("/proc/1/root", "ls /proc/1/root/"), ("the local socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/holdfast/sandboxd.sock\")'"),
    ("vsock", "python3 -c 'import socket; socket.socket(socket.AF_VSOCK)'"), ("packet", "python3 -c 'import socket; socket.socket(17,3)'"),
    ("cgroup.procs", "echo 0 > /sys/fs/cgroup/cgroup.procs"), ("core_pattern", "echo x > /proc/sys/kernel/core_pattern"),
    ("the disk", "head -c1 /dev/vda"), ("kmsg", "head -c1 /dev/kmsg"), ("ssh to itself", "ssh -o BatchMode=yes -o StrictHostKeyChecking=no localhost true"),
    ("a signal to the supervisor", "kill -0 $(pgrep -x sandboxd | head -1)"), ("ld.so as a loader of a denied file", "/lib64/ld-linux-x86-64.so.2 /root/x"),
    ("the bus's socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/dbus/system_bus_socket\")'"),
    ("systemd's own socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/systemd/private\")'"),
    ("a unit on the disk", "sh -c 'echo > /etc/systemd/system/x.service'"), ("a cron table", "sh -c 'echo > /var/spool/cron/crontabs/root'"),
    ("sudo's password", "sudo -S true < /dev/null"),
    ("pkexec", "pkexec true"), ("a core dump", "sh -c 'ulimit -c unlimited'"),
    ("a memfd", "python3 -c 'import os; os.memfd_create(\"x\")'"), ("newgrp", "newgrp sudo < /dev/null"),
]


def routes(vm):
    for name, command in ROUTES:
        r = vm.run(command, timeout=60)
        tap.ok(r.code not in (0, None), "no way out: " + name, r)


# SEC-08, by what is no filter row: every side door to the supervisor that we know of. Each prints "name ok" or "name ERRNO".
SIDE_DOORS = r"""
import ctypes, errno, fcntl, os, signal, struct, sys, termios
sup = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    if libc.syscall(*a) < 0:
        raise OSError(ctypes.get_errno(), "")
def opened(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags))
def sigevent(notify, tid):
    return ctypes.create_string_buffer(struct.pack("QiiI", 0, signal.SIGKILL, notify, tid), 64)
def timer():
    call(222, 1, sigevent(4, sup), ctypes.byref(ctypes.c_int()))
def owned():
    r, w = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETOWN, sup)
def owner_ex():
    r, w = os.pipe()
    fcntl.fcntl(r, 15, struct.pack("ii", 1, sup))
def lease():
    fd = os.open("/tmp/lease", os.O_RDONLY | os.O_CREAT)
    fcntl.fcntl(fd, fcntl.F_SETOWN, sup)
def queue():
    q = libc.mq_open(b"/x", os.O_CREAT | os.O_RDONLY, 0o600, None)
    if q < 0: raise OSError(ctypes.get_errno(), "")
    call(244, q, sigevent(4, sup))
def tty(request, arg):
    return lambda: fcntl.ioctl(0, request, arg)
def foreground():
    os.tcsetpgrp(0, os.getpgid(sup) if sup else 0)
doors = {
    "/proc/SUP/mem": lambda: opened("/proc/%d/mem" % sup, os.O_RDWR), "/proc/SUP/environ": lambda: open("/proc/%d/environ" % sup).read(),
    "/proc/SUP/maps": lambda: open("/proc/%d/maps" % sup).read(), "/proc/SUP/fd": lambda: os.listdir("/proc/%d/fd" % sup),
    "/proc/SUP/root": lambda: os.listdir("/proc/%d/root" % sup), "/proc/SUP/cwd": lambda: os.listdir("/proc/%d/cwd" % sup),
    "/proc/SUP/exe": lambda: os.readlink("/proc/%d/exe" % sup), "/proc/SUP/ns": lambda: opened("/proc/%d/ns/mnt" % sup),
    "/proc/SUP/oom_score_adj": lambda: opened("/proc/%d/oom_score_adj" % sup, os.O_WRONLY),
    "/proc/SUP/coredump_filter": lambda: opened("/proc/%d/coredump_filter" % sup, os.O_WRONLY),
    "/proc/SUP/clear_refs": lambda: opened("/proc/%d/clear_refs" % sup, os.O_WRONLY),
    "cgroup.kill": lambda: opened("/sys/fs/cgroup/holdfast/daemon/cgroup.kill", os.O_WRONLY),
    "cgroup.freeze": lambda: opened("/sys/fs/cgroup/holdfast/daemon/cgroup.freeze", os.O_WRONLY),
    "cgroup.procs of the supervisor": lambda: opened("/sys/fs/cgroup/holdfast/daemon/cgroup.procs", os.O_WRONLY),
    "memory.max of the supervisor": lambda: opened("/sys/fs/cgroup/holdfast/daemon/memory.max", os.O_WRONLY),
    "memory.max of itself": lambda: opened("/sys/fs/cgroup/holdfast/sandbox/memory.max", os.O_WRONLY),
    "F_SETOWN": owned, "F_SETOWN_EX": owner_ex, "a lease's owner": lease, "a timer aimed at it": timer, "mq_notify aimed at it": queue,
    "TIOCSTI": tty(termios.TIOCSTI, b"x"), "tcsetpgrp": foreground, "setpgid into its group": lambda: os.setpgid(0, os.getpgid(sup)),
    "setpgid of it": lambda: os.setpgid(sup, 0), "getsid is no door": lambda: os.getsid(sup), "kill 0": lambda: os.kill(sup, 0),
    "SIGSTOP": lambda: os.kill(sup, signal.SIGSTOP), "killpg": lambda: os.killpg(os.getpgid(sup), signal.SIGTERM),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, sup, 19), "affinity": lambda: os.sched_setaffinity(sup, {0}),
    "prlimit": lambda: call(302, sup, 7, struct.pack("QQ", 0, 0), None),
}
for name, door in doors.items():
    try:
        door()
        print(name, "= ok")
    except OSError as e:
        print(name, "=", errno.errorcode.get(e.errno, e.errno))
"""
OPEN_DOORS = {"getsid is no door"}


def supervisor(vm):
    pid = vm.run("pgrep -x sandboxd | head -1").text.strip()
    vm.put("/tmp/doors.py", SIDE_DOORS.encode(), mode=0o644)
    r = vm.run(["python3", "/tmp/doors.py", pid], pty=True, timeout=60)
    answers = dict(line.split(" = ") for line in r.text.replace("\r", "").splitlines() if " = " in line)
    tap.ok(pid.isdigit() and len(answers) >= 32, "SEC-08 %d side doors tried" % len(answers), r)
    for name, answer in sorted(answers.items()):
        tap.ok((answer == "ok") == (name in OPEN_DOORS), "SEC-08 %s: %s" % (name, answer))
    tap.equal(vm.run("pgrep -x sandboxd | head -1").text.strip(), pid, "SEC-08 the supervisor is the same and answers")


APART = r"""
import os, socket, sys, time
a = socket.socket(socket.AF_UNIX); a.bind("\0apart"); a.listen()
if os.fork() == 0:
    socket.socket(socket.AF_UNIX).connect("\0apart"); os.kill(os.getppid(), 0); print("inside", os.getppid(), flush=True); os._exit(0)
time.sleep(120)
"""


def apart(vm):
    """LL-11: sessions do not reach each other by abstract sockets or signals."""
    vm.put("/tmp/apart.py", APART.encode(), mode=0o644)
    c = vm.conn()
    c.request({"op": "exec", "argv": ["python3", "/tmp/apart.py"]})
    got = read_until(c, rb"inside \d+\n")
    pid = re.search(rb"inside (\d+)", got)
    tap.ok(pid, "LL-11 baseline: within a session both work", got)
    r = vm.run("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0apart\")'")
    tap.ok(b"PermissionError" in r.err, "LL-11 an abstract socket of another session is out of reach", r)
    r = vm.run("kill -9 %s" % (pid.group(1).decode() if pid else "1"))
    tap.ok(r.code == 1 and b"not permitted" in r.err, "LL-11 and so are its processes", r)
    c.close()


def job_control(vm):
    c = vm.conn()
    c.request({"op": "exec", "argv": ["bash", "--norc", "-i"], "pty": True, "term": "dumb"})
    read_until(c, rb"\$ ")
    c.send(STDIN, b"PS1='@@ '; tty\n")
    got = read_until(c, rb"/dev/pts/\d+\r\n@@ ")
    tap.ok(re.search(rb"/dev/pts/\d+\r\n", got), "a terminal at strict has its name", got)
    c.send(STDIN, b"sleep 99 & kill %1; wait %1; echo done=$?\n")
    got = read_until(c, rb"done=\d+\r")
    tap.ok(b"done=143" in got, "SEC-10 kill %1", got)
    c.send(STDIN, b"sleep 99\n")
    time.sleep(1)
    c.send(STDIN, b"\x1a")
    read_until(c, rb"Stopped")
    c.send(STDIN, b"bg; jobs; kill %%; fg; echo end=$?\n")
    got = read_until(c, rb"end=\d+\r")
    tap.ok(b"end=143" in got or b"end=1" in got, "SEC-10 Ctrl-Z, bg, jobs, fg", got)
    c.send(STDIN, b"exit 0\n")
    tap.equal(c.finish().code, 0, "SEC-10 the shell exits in order")


def on_disk(disks):
    """DRP-02 from the host's side, with no driver of ours between."""
    out = subprocess.run(["debugfs", "-R", "stat /agent/made", os.path.join(disks, "home.raw")], capture_output=True, text=True,
                         env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"), check=False).stdout
    tap.ok(re.search(r"User:\s+1000\s+Group:\s+1000", out), "DRP-02 on disk it belongs to the workspace's user", out)


def restored(disks):
    with Guest(spec(), disks=disks) as vm:
        vm.wait_ready()
        tap.ok(vm.run("sudo -n true").code == 0, "SUP-10 the next boot at observe has its sudo again")
        r = vm.run("grep -rl 'Revoked for this boot' /etc 2>/dev/null; find /etc -newer /var/lib/dpkg/status -type f | grep -E 'sudoers|group|shadow'",
                   user="root")
        tap.equal(r.text, "", "SUP-10 nothing of it was written to the disk")
        tap.equal(vm.run(["cat", "/home/agent/made"]).text, "hi\n", "DRP-02 the workspace's user reads what the session made")


def main():
    disks = tempfile.mkdtemp(prefix="hf-disks-")
    try:
        with Guest(spec("strict", filesystem=FS, process={"run_as_user": "sandbox"}), disks=disks) as vm:
            vm.wait_ready()
            only = os.environ.get("PARTS", "").split()
            for part in (in_force, identity, filesystem, calls, routes, supervisor, apart, job_control):
                if only and part.__name__ not in only:
                    continue
                try:
                    part(vm)
                except Exception as e:
                    tap.ok(False, "%s: %r" % (part.__name__, e))
            if only:
                return tap.done()
            figures(vm, "strict")
            tap.ok(vm.power_off(), "poweroff works at strict")
        on_disk(disks)
        restored(disks)
    finally:
        shutil.rmtree(disks, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
