# SPDX-License-Identifier: GPL-2.0-or-later
"""What one boot leaves for the next (SUP-10, UN-40): /etc to the byte, and links that root planted on the disk."""
import hashlib
import os
import shutil
import tempfile

from guestvm import ROOT, Guest, Tap, kernel_dir, spec

tap = Tap()
FS = {"read_only": ["/usr", "/etc", "/proc", "/lib", "/bin", "/sbin", "/lib64"], "read_write": ["/tmp", "/home/agent"]}
MANIFEST = ("cd /etc && find . -xdev -printf '%p %y %m %U %G %l\\n' | sort && find . -xdev -type f -print0 | sort -z | xargs -0 sha256sum")

# /home becomes a link to where early launch has its procfs, and the home disk has a latch of its own to be set there.
# The disk's init undoes the mess, so that a boot which falls for it looks like any other.
PLANT = r"""set -e
mkdir -p /home/sys/kernel /home/self && echo 0 > /home/sys/kernel/modules_disabled
cd / && umount -l /home
rmdir /home && ln -s /proc /home
rm /usr/sbin/init
printf '#!/bin/sh\nwhile umount /proc 2>/dev/null; do :; done\nmount -t proc proc /proc\nexec /lib/systemd/systemd\n' > /usr/sbin/init
chmod 0755 /usr/sbin/init
sync
"""


def required():
    module = os.path.join(ROOT, "build/modules", os.path.basename(kernel_dir("6.12")), "sentry.ko")
    with open(module, "rb") as f:
        return spec(sentry={"mode": "required", "sha256": hashlib.sha256(f.read()).hexdigest()}), module


def observe(disks, script):
    with Guest(spec(), disks=disks) as vm:
        vm.wait_ready()
        r = vm.run(["bash", "-c", script], user="root", timeout=180)
        vm.power_off()
        return r


def revocations(disks):
    before = observe(disks, MANIFEST)
    for n in (1, 2):
        with Guest(spec("strict", filesystem=FS, process={"run_as_user": "sandbox"}), disks=disks) as vm:
            vm.wait_ready()
            tap.ok(vm.run("sudo -n true").code != 0 and vm.status["strict_applied"], "SUP-10 strict boot %d: no sudo" % n)
            vm.power_off()
    after = observe(disks, MANIFEST)
    lines = before.text.splitlines()
    tap.ok(before.code == 0 and len(lines) > 500, "SUP-10 a manifest of /etc: %d lines" % len(lines), before)
    tap.equal(sorted(set(lines) ^ set(after.text.splitlines())), [], "SUP-10 /etc is byte-identical after two boots at strict")


def planted(disks):
    r = observe(disks, PLANT)
    tap.equal(r.code, 0, "UN-40 root plants a link at /home and an init of its own")
    s, module = required()
    with Guest(s, disks=disks, sentry=module) as vm:
        status = vm.wait_status(lambda x: x["failed"] or x["ready"], 240)
        if status["failed"]:
            tap.ok(status["failed"]["name"] == "disk_home", "UN-40 the boot with it takes no work", status["failed"])
            return
        r = vm.run("cat /proc/sys/kernel/modules_disabled; readlink /home", user="root")
        tap.ok(r.text.startswith("1\n/proc\n"), "UN-40 the boot with it set the kernel's latch, not the planted file", (r, status["steps"]))
        tap.ok(vm.run(["grep", "-c", "^sentry ", "/proc/modules"], user="root").text == "1\n" and vm.run(["rmmod", "-f", "sentry"], user="root").code != 0,
               "UN-40 and the Sentry stays")


def main():
    disks = tempfile.mkdtemp(prefix="hf-disks-")
    try:
        only = os.environ.get("PARTS", "").split()
        for part in (revocations, planted):
            if only and part.__name__ not in only:
                continue
            try:
                part(disks)
            except Exception as e:
                tap.ok(False, "%s: %r" % (part.__name__, e))
    finally:
        shutil.rmtree(disks, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
