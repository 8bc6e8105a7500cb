# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that peers.py puts into the guest: the monitors with their libraries and settings, and a C compiler."""
import glob
import os
import re
import sys

import rig

BUILT = ["lib/" + name for name in ("buf.c", "err.c", "hex.c", "json.c")]  # what the build row compiles
FILE_CALLS = ("open,openat,openat2,creat,mknod,mknodat,mkdir,mkdirat,rmdir,unlink,unlinkat,symlink,symlinkat,link,linkat,"
              "rename,renameat,renameat2,truncate")
# One rule for each thing that the Sentry captures: CAP-03 to CAP-08 in docs/requirements/sentry.md.
RULES = """-D
-b 8192
-f 1
-a always,exit -F arch=b64 -S execve,execveat
-a always,exit -F arch=b32 -S execve,execveat
-a always,exit -F arch=b64 -S connect%s
-a always,exit -F arch=b64 -S setuid,setgid,setreuid,setregid,setresuid,setresgid,setfsuid,setfsgid,capset
-a always,exit -F arch=b64 -S ptrace,init_module,finit_module,delete_module,bpf,kexec_load,kexec_file_load
-a always,exit -F arch=b64 -S mount,move_mount,unshare,setns
-a always,exit -F arch=b64 -S """ + FILE_CALLS + """ -F exit=-EACCES
-a always,exit -F arch=b64 -S """ + FILE_CALLS + """ -F exit=-EPERM
"""
SENDS = ",sendto,sendmsg,sendmmsg"  # how a flow begins without connect
AUDITD = """local_events = yes
write_logs = yes
log_file = /run/audit.log
log_format = RAW
flush = INCREMENTAL_ASYNC
freq = 50
max_log_file = 512
max_log_file_action = IGNORE
num_logs = 2
priority_boost = 4
name_format = NONE
space_left = 2
space_left_action = IGNORE
admin_space_left = 1
admin_space_left_action = IGNORE
disk_full_action = IGNORE
disk_error_action = IGNORE
distribute_network = no
q_depth = 2000
overflow_action = SYSLOG
plugin_dir = /etc/audit/plugins.d
"""


class Root:
    """Files for the guest, by path there."""

    def __init__(self, peers, out):
        self.files, self.peers, self.out = {}, os.path.abspath(peers), out
        os.makedirs(out, exist_ok=True)
        folders = [d for d in glob.glob(self.peers + "/**/x86_64-linux-gnu", recursive=True) if os.path.isdir(d)]
        self.loader = os.path.join(self.peers, "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
        self.libraries = ":".join(folders)
        self.files["lib64/ld-linux-x86-64.so.2"] = self.loader

    def program(self, path, at):
        """A program with its libraries: the peers' own where they have them, else this machine's."""
        self.files[at.lstrip("/")] = path
        text = rig.command(self.loader, "--library-path", self.libraries, "--list", path)
        if "not found" in text:
            sys.exit("a library is missing:\n" + text)
        for name, found in re.findall(r"^\s*(\S+) => (/\S+) \(0x", text, re.M):
            self.files["lib/x86_64-linux-gnu/" + os.path.basename(name)] = os.path.realpath(found)

    def text(self, at, text):
        path = os.path.join(self.out, at.replace("/", "_"))
        with open(path, "w") as out:
            out.write(text)
        self.files[at] = path

    def compiler(self):
        """gcc -c of BUILT: the driver, cc1, as, and each header."""
        cc1 = rig.command("/usr/bin/gcc", "-print-prog-name=cc1")
        self.program(os.path.realpath("/usr/bin/gcc"), "/usr/bin/gcc")
        self.program(cc1, cc1)
        self.program(os.path.realpath("/usr/bin/as"), "/usr/bin/as")
        for source in BUILT:
            rule = rig.command("/usr/bin/gcc", "-M", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-I.", "-Iinclude", source)
            for name in rule.replace("\\\n", " ").split(":", 1)[1].split():
                self.files[os.path.normpath(os.path.join("/src", name)).lstrip("/")] = os.path.join(rig.ROOT, name)
        self.text("src/sources", "\n".join(BUILT) + "\n")


def guest_files(peers):
    """Path in the guest to the file to put there; peers: the folder of the unpacked packages."""
    root = Root(peers, os.path.join(rig.ROOT, "build/rig/peers-text"))
    root.compiler()
    for name in ("sbin/auditd", "sbin/auditctl", "sbin/ausearch", "usr/bin/sysdig"):
        root.program(os.path.join(root.peers, name), name)
    root.text("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")
    root.text("etc/group", "root:x:0:\nadm:x:4:\n")
    root.text("etc/audit/auditd.conf", AUDITD)
    root.text("etc/audit/plugins.d/README", "")
    root.text("etc/audit/rules", RULES % SENDS)
    root.text("etc/audit/rules-connect", RULES % "")
    root.files["modules/scap.ko"] = os.path.join(rig.ROOT, "build/rig/scap/scap.ko")
    return root.files
