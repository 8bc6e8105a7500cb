# SPDX-License-Identifier: GPL-2.0-or-later
"""The few files of a kernel that a load test needs: its image and a few modules.

Kernel packages are up to 110 MB and only looked into, so the package itself is not kept.
"""
import glob
import hashlib
import os
import subprocess
import tempfile

from . import archive, cache

# Modules that the Sentry's test rig loads.
MODULES = ["*/net/vmw_vsock/*", "*/drivers/net/dummy.ko*"]

def extract(deb, folder, patterns):
    """Unpack the files of a package that match, after its hash was checked."""
    data = archive.get(deb["url"])
    if len(data) != deb["size"] or hashlib.sha256(data).hexdigest() != deb["sha256"]:
        raise archive.Untrusted(f"{deb['package']}: hash differs from the index")
    with tempfile.NamedTemporaryFile(suffix=".deb") as handle:
        handle.write(data)
        handle.flush()
        tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", handle.name], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "--no-same-owner", "-C", folder, "--wildcards", *patterns],
                       stdin=tar.stdout, stderr=subprocess.DEVNULL, check=False)
        tar.stdout.close()
        tar.wait()


def tree(row):
    """A folder with boot/vmlinuz-R and lib/modules/R/kernel, laid out as in 6.x packages."""
    release = row["release"]

    def fill(folder):
        extract(row["image"], folder, ["*/vmlinuz*", *MODULES])
        if row["modules"]["sha256"] != row["image"]["sha256"]:
            extract(row["modules"], folder, MODULES)
        if os.path.isdir(os.path.join(folder, "usr/lib/modules")):
            os.makedirs(os.path.join(folder, "lib"), exist_ok=True)
            os.rename(os.path.join(folder, "usr/lib/modules"), os.path.join(folder, "lib/modules"))
        images = glob.glob(f"{folder}/boot/vmlinuz*") + glob.glob(f"{folder}/lib/modules/*/vmlinuz*")
        if not images:
            raise archive.Untrusted(f"{row['image']['package']}: has no kernel image")
        os.makedirs(os.path.join(folder, "boot"), exist_ok=True)
        os.rename(images[0], os.path.join(folder, "boot", f"vmlinuz-{release}"))

    kind = cache.sha256_text(" ".join(MODULES))[:8]
    return cache.tree(f"kernel-images/{row['image']['sha256']}-{kind}", fill)


def image(row):
    return os.path.join(tree(row), "boot", f"vmlinuz-{row['release']}")
