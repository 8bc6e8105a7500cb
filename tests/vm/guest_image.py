# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest image: signature, digests and module order on the host; packages, users and units inside."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixture"))
import servers  # noqa: E402
from guestvm import IMAGE, Guest, Tap, spec  # noqa: E402

CONFIG = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "holdfast")
TOOLS = ("git curl python3 node npm npx ssh tmux gcc g++ make ip ps kmod sudo less strace gdb mkfs.ext4 ping "
         "tar xz unzip nano apt-get dpkg-deb file patch pkg-config modprobe").split()

tap = Tap()


def digest(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    return h.hexdigest()


def verifies(json_bytes, signature, public):
    with tempfile.TemporaryDirectory() as work:
        def put(name, data):
            with open(os.path.join(work, name), "wb") as f:
                f.write(data)
            return os.path.join(work, name)
        key = put("key", bytes.fromhex("302a300506032b6570032100") + public)
        run = subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey", key,
                              "-sigfile", put("sig", signature), "-in", put("text", b"holdfast image 1\n" + json_bytes)],
                             capture_output=True, check=False)
        return run.returncode == 0


def entries(about):
    yield about["base"]
    yield about["packages"]
    for kernel in about["kernels"]:
        yield from (kernel["vmlinux"], kernel["modules_image"], kernel["early_list"], *kernel["early"])


def modinfo(path, field):
    return subprocess.run(["/sbin/modinfo", "-F", field, path], capture_output=True, text=True, check=True).stdout


def check_order(folder):
    """Each module comes after all that it depends on; none carries a signature."""
    with open(os.path.join(folder, "early.list"), encoding="ascii") as f:
        names = f.read().split()
    seen = set()
    for name in names:
        path = os.path.join(folder, "early", name + ".ko")
        for needed in modinfo(path, "depends").replace("-", "_").strip().split(","):
            if needed and needed not in seen:
                return "%s comes before %s" % (name, needed)
        with open(path, "rb") as f:
            if f.read().endswith(b"~Module signature appended~\n"):
                return name + " is signed"
        seen.add(name)
    missing = {"virtio_blk", "virtio_net", "vmw_vsock_virtio_transport", "squashfs", "overlay", "nf_tables",
               "bridge", "veth"} - seen
    return "missing: %s" % missing if missing else ""


def check_files():
    with open(os.path.join(IMAGE, "image.json"), "rb") as f:
        text = f.read()
    with open(os.path.join(IMAGE, "image.json.sig"), encoding="ascii") as f:
        signature = bytes.fromhex(f.read().strip())
    with open(os.path.join(CONFIG, "keys/image.key.pub"), encoding="ascii") as f:
        public = bytes.fromhex(f.read().strip())
    about = json.loads(text)
    tap.ok(verifies(text, signature, public), "image.json is signed by this machine's key")
    tap.ok(not verifies(text.replace(b"bookworm", b"bookwurm", 1), signature, public),
           "and a changed one is not")
    tap.equal(os.path.basename(os.path.realpath(IMAGE)), hashlib.sha256(text).hexdigest(),
              "the folder is named by the digest of image.json")
    wrong = [e["file"] for e in entries(about)
             if os.path.getsize(os.path.join(IMAGE, e["file"])) != e["size"]
             or digest(os.path.join(IMAGE, e["file"])) != e["sha256"]]
    tap.equal(wrong, [], "every file has the size and digest that image.json says")
    series = [k["release"].rsplit(".", 1)[0] for k in about["kernels"]]
    tap.ok(any(s.startswith("6.12") for s in series) and any(s.startswith("6.1.") or s == "6.1" for s in series)
           and about["default_kernel"].startswith("6.12."), "kernels 6.12 (default) and 6.1", series)
    for kernel in about["kernels"]:
        folder = os.path.join(IMAGE, "kernels", kernel["release"])
        tap.equal(check_order(folder), "", "%s: early modules in order, unsigned" % kernel["release"])
    with open(os.path.join(IMAGE, "packages"), encoding="ascii") as f:
        names = [line.split()[0] for line in f]
    tap.equal([n for n in names if n.startswith("linux-image")], [], "no kernel package")
    again = subprocess.run([os.path.join(os.path.dirname(__file__), "../../ci/image/build")], capture_output=True,
                           text=True, check=False, timeout=60)
    tap.equal(again.stdout.strip(), os.path.realpath(IMAGE), "an unchanged recipe builds nothing again")


def put_archive(vm):
    """The fixture's apt archive as files in the guest: upgrades need no network then."""
    for path, page in servers.Archive.pages.items():
        target = "/srv/archive" + path.removeprefix("/debian")
        vm.run(["mkdir", "-p", os.path.dirname(target)], user="root")
        vm.put(target, page[0], 0o644, user="root")


def check_apt(vm):
    put_archive(vm)
    vm.run("mv /etc/apt/sources.list /root/; echo 'deb [trusted=yes] file:/srv/archive fixture main' "
           "> /etc/apt/sources.list", user="root")
    r = vm.run("apt-get -q update && apt-get -q -y install fixture-note=1.0", user="root", timeout=300)
    tap.ok(r.code == 0, "apt installs a package", r)
    r = vm.run("apt-get -q -y full-upgrade && cat /usr/share/fixture-note/note", user="root", timeout=300)
    tap.ok(r.code == 0 and r.text.endswith("fixture-note 2.0\n"), "apt full-upgrade succeeds", r)
    r = vm.run("apt-get -q -y install linux-image-amd64", user="root", timeout=120)
    tap.ok(r.code != 0 and "no installation candidate" in r.text + r.err.decode(), "a kernel package is pinned away", r)
    r = vm.run("dpkg-query -W 'linux-image*' 2>/dev/null | grep -c . ; ls /boot", user="root")
    tap.equal(r.text.split(), ["0"], "no kernel came with the upgrade, /boot is empty")
    r = vm.run("grep -rh Explanation /etc/apt/preferences.d/holdfast-kernel | wc -l; cat /usr/share/doc/holdfast-guest/README",
               user="root")
    tap.ok(r.code == 0 and "belong to the host" in r.text, "and a note says why")


def check_module_build(vm):
    vm.run("mkdir -p /tmp/m", user="agent")
    vm.put("/tmp/m/m.c", b'#include <linux/module.h>\nMODULE_LICENSE("GPL");\n', 0o644, user="agent")
    vm.put("/tmp/m/Kbuild", b"obj-m := m.o\n", 0o644, user="agent")
    r = vm.run("make -s -C /lib/modules/$(uname -r)/build M=/tmp/m modules 2>&1 && "
               "/sbin/modinfo -F vermagic /tmp/m/m.ko", user="agent", timeout=400)
    tap.ok(r.code == 0 and r.text.strip().splitlines()[-1].startswith(os.path.basename(vm.kernel)),
           "a module builds against the headers in the modules image", r)


def check_guest(vm):
    r = vm.run("systemctl --wait is-system-running; systemctl --failed --no-legend", user="root", timeout=180)
    tap.equal(r.text, "running\n", "no unit fails")
    r = vm.run("id agent; id sandbox; sudo -n id -u; echo $HOME; stat -c '%U %a' /home/agent", user="agent")
    tap.equal(r.text, "uid=1000(agent) gid=1000(agent) groups=1000(agent)\n"
                      "uid=990(sandbox) gid=990(sandbox) groups=990(sandbox)\n0\n/home/agent\nagent 755\n",
              "agent (1000, sudo) and sandbox (990)")
    r = vm.run("for t in %s; do command -v $t >/dev/null || echo $t; done" % " ".join(TOOLS), user="root")
    tap.equal(r.text, "", "the tools are there")
    r = vm.run("npm -v && node -e 'console.log(6*7)' && python3 -c 'print(6*7)'", user="agent", timeout=180)
    tap.ok(r.code == 0 and r.text.endswith("42\n42\n"), "node, npm and python run", r)
    r = vm.run("touch /lib/modules/x; findmnt -n -o FSTYPE,OPTIONS /usr/lib/modules | cut -c1-11; "
               "modprobe dummy && lsmod | grep -c '^dummy '", user="root")
    tap.ok("Read-only" in r.err.decode() and r.text.splitlines()[0].startswith("squashfs") and
           r.text.splitlines()[-1] == "1", "modules are the host's, read-only, and load on demand", r)
    r = vm.run("ps -e -o comm= | grep -cE 'getty|logind'; systemctl list-timers --no-legend | grep -c apt",
               user="root")
    tap.equal(r.text.split(), ["0", "0"], "no getty, no apt timer")
    r = vm.run("stat -c %s /etc/machine-id; cat /etc/machine-id | tr -d '0-9a-f\\n' | wc -c", user="root")
    tap.equal(r.text.split(), ["33", "0"], "a machine id of its own")
    r = vm.run("ip link add hf0 type veth peer name hf1 && ip addr add 192.0.2.1/30 dev hf0 && ip link set hf0 up && "
               "ping -c1 -W2 192.0.2.1 >/dev/null; su agent -c 'ping -c1 -W2 192.0.2.1' | grep -c ' 0% packet loss'",
               user="root")
    tap.equal(r.text, "1\n", "an ordinary user can ping")


def main():
    check_files()
    with Guest(spec(), kernel="6.12", memory=1024) as vm:
        vm.wait_ready()
        print("# 6.12: ready %.1f s after QEMU started" % vm.ready_seconds)
        check_guest(vm)
        check_apt(vm)
        check_module_build(vm)
    with Guest(spec(), kernel="6.1") as vm:
        vm.wait_ready()
        print("# 6.1: ready %.1f s after QEMU started" % vm.ready_seconds)
        r = vm.run("uname -r; systemctl --wait is-system-running; modprobe dummy && echo loaded; "
                   "ls /lib/modules/$(uname -r)/build/Makefile", user="root", timeout=180)
        tap.ok(r.code == 0 and r.text.startswith("6.1.") and "running\nloaded\n" in r.text,
               "6.1 starts the same image", r)
    return tap.done()


sys.exit(main())
