# SPDX-License-Identifier: GPL-2.0-or-later
"""POL-11: a workspace at observe behaves like the same VM without sandboxd: same commands, same exit codes."""
import json
import os
import re
import sys
import time

from guestvm import ROOT, Guest, Tap, spec

tap = Tap()

# As the workspace's user. Each must give the same exit code in both; where it is not 0, that is the point.
COMMANDS = [
    "true", "exit 7", "kill -9 $$", "id -nG | grep -qw agent", "test -w $HOME", "touch /root/x", "cat /etc/shadow", "mkdir /x",
    "sudo -n true", "sudo -n id -u", "sudo -n -u nobody id", "sudo -n cat /etc/shadow", "sudo -n sh -c 'exit 9'", "sudo -k; sudo -n -l",
    "su -c true < /dev/null",
    "dpkg -s bash", "dpkg -i /nowhere.deb", "sudo -n dpkg --audit", "sudo -n apt-get --version", "apt-get -s remove -y less",
    "apt-get remove -y less", "sudo -n apt-get -s install -y no-such-package", "sudo -n dpkg -P nano",
    "docker ps", "sudo -n docker ps", "systemctl is-active docker", "sudo -n systemctl start docker",
    "ping -c1 -W2 127.0.0.1", "ping -c1 -W2 192.0.2.1", "ping -c1 -W2 no.such.example", "sudo -n ping -c1 -W2 127.0.0.1",
    "getent hosts localhost", "getent hosts $(hostname)", "getent hosts no.such.example", "getent passwd agent", "getent group sudo",
    "systemctl is-active dbus.socket", "systemctl is-active no-such.service", "systemctl --failed", "systemctl start systemd-tmpfiles-clean",
    "sudo -n systemctl start systemd-tmpfiles-clean", "sudo -n systemd-run -q --wait true", "sudo -n systemd-run -q --wait false",
    "systemd-run -q --wait true", "sudo -n busctl status org.freedesktop.systemd1", "sudo -n journalctl -n 1", "journalctl --disk-usage",
    "printf '[Service]\\nExecStart=/bin/sleep 99\\n' | sudo -n tee /etc/systemd/system/own.service && sudo -n systemctl daemon-reload && "
    "sudo -n systemctl start own && systemctl is-active own && sudo -n systemctl stop own && sudo -n rm /etc/systemd/system/own.service",
    "systemctl is-active own", "sudo -n loginctl list-sessions", "timedatectl set-time 2030-01-01",
    "unshare -Ur true", "unshare -Urn ip link", "unshare -Urm sh -c 'mount -t tmpfs x /mnt'", "unshare -m true", "sudo -n unshare -m true",
    "mount -t tmpfs x /mnt", "sudo -n mount -t tmpfs x /mnt && sudo -n umount /mnt", "sudo -n umount /mnt",
    "dd if=/dev/zero of=/tmp/img bs=1M count=8 && sudo -n mkfs.ext4 -q /tmp/img && sudo -n mount -o loop /tmp/img /mnt && sudo -n umount /mnt",
    "sudo -n modprobe dummy", "sudo -n modprobe no-such-module", "modprobe dummy", "sudo -n dmesg", "dmesg", "sudo -n sysctl -w vm.swappiness=61",
    "sysctl -w vm.swappiness=62", "sudo -n ip link add v0 type veth peer name v1", "ip link add v2 type veth peer name v3",
    "sudo -n ip netns add n && sudo -n ip netns exec n ip link", "head -c 1 /dev/vda", "sudo -n head -c 1 /dev/vda", "mknod /tmp/n c 1 3",
    "sudo -n mknod /tmp/n c 1 3", "sudo -n chroot / true", "ulimit -c 0; ulimit -c 1", "nice -n -5 true", "sudo -n nice -n -5 true",
    "kill -0 1", "sudo -n kill -0 1", "strace -o /dev/null true", "strace -o /dev/null -p 1", "gdb -q -batch -ex run /bin/true",
    "gcc -x c -o /tmp/a - <<< 'int main(){return 3;}' && /tmp/a", "python3 -c 'import os; os.memfd_create(\"x\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'", "python3 -c 'import socket; socket.socket(16, 3, 9)'",
    "python3 -c 'import socket as s; a=s.socket(); a.bind((\"127.0.0.1\",8080)); a.listen()'",
    "python3 -c 'import socket as s; a=s.socket(); a.bind((\"127.0.0.1\",80))'",
    "python3 -c 'import socket as s; u=s.socket(s.AF_UNIX); u.bind(\"/tmp/u\"); u.bind(\"/tmp/u\")'",
    "node -e 'process.exit(5)'", "node -e 'require(\"net\").createServer().listen(\"/tmp/node.sock\",()=>process.exit(0))'",
    "git init -q /tmp/r && git -C /tmp/r status", "git -C /tmp/none status", "tmux new -d 'sleep 1' && tmux ls", "crontab -l", "at now", "nproc",
    "test -t 0", "ls /proc/1/root/", "sudo -n ls /proc/1/root/", "cat /proc/1/environ", "sudo -n cat /proc/1/environ", "echo x > /proc/self/oom_score_adj",
    "echo 500 > /proc/self/oom_score_adj", "sudo -n sh -c 'echo core > /proc/sys/kernel/core_pattern'", "sudo -n swapon --show", "sudo -n hostname",
]

SCRIPT = r"""
echo "plain: ready"
while IFS= read -r line; do
	n=$((n + 1))
	printf '%s' "$line" | base64 -d >/run/plain.cmd
	chmod 0644 /run/plain.cmd
	cd /home/agent
	env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games HOME=/home/agent USER=agent LOGNAME=agent SHELL=/bin/bash LANG=C.UTF-8 \
		TERM=dumb timeout 120 setpriv --reuid=1000 --regid=1000 --init-groups bash -c "$(cat /run/plain.cmd)" </dev/null >/dev/null 2>&1
	echo "plain: $n $?"
done <<'END'
@COMMANDS@
END
echo "plain: over"
"""


class PlainGuest(Guest):
    """The same VM with an init that does nothing but mount and hand over."""

    def __init__(self, script):
        super().__init__(spec(), sandboxd=os.path.join(ROOT, "build/probe/plaininit"), extra={"holdfast/plain.sh": script.encode()})

    def wait_line(self, pattern, timeout=240):
        end = time.time() + timeout
        while time.time() < end:
            found = re.search(pattern, self.console(), re.M)
            if found:
                return found
            if self.qemu.poll() is not None:
                self._start_again()
            time.sleep(0.05)
        raise RuntimeError("no line %r on the console" % pattern)


def plain_codes():
    import base64
    lines = "\n".join(base64.b64encode(c.encode()).decode() for c in COMMANDS)
    with PlainGuest(SCRIPT.replace("@COMMANDS@", lines)) as vm:
        vm.wait_line(r"^plain: ready")
        print("# without sandboxd ready after %.1f s" % (time.time() - vm.started))
        vm.wait_line(r"^plain: over", 900)
        return {int(n): int(code) for n, code in re.findall(r"^plain: (\d+) (\d+)\r?$", vm.console(), re.M)}


def observe_codes():
    codes = {}
    with Guest(spec()) as vm:
        vm.wait_ready()
        print("# at observe ready after %.1f s" % vm.ready_seconds)
        for i, command in enumerate(COMMANDS, 1):
            r = vm.run(["timeout", "120", "bash", "-c", command], timeout=150)
            codes[i] = r.code
    return codes


def main():
    plain, observe = plain_codes(), observe_codes()
    for i, command in enumerate(COMMANDS, 1):
        tap.equal(observe.get(i), plain.get(i, "nothing"), "POL-11 exit %s: %s" % (plain.get(i), command[:90].replace("#", "")))
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
