# SPDX-License-Identifier: GPL-2.0-or-later
"""Static checks of a built module against its kernel: what would refuse to load, or leak, or lie."""
import os
import re

from . import archive, elf, sandbox

LEAKS = [rb"/build/", rb"/var/tmp/", rb"/usr/src/", rb"/root/", rb"/home/", rb"/in/source"]


def kernel_file(row, name):
    for host, inside in sandbox.header_mounts(row):
        if inside == f"/usr/src/linux-headers-{row['release']}":
            return os.path.join(host, name)
    raise ValueError(f"{row['release']}: its header package has no {name}")


def static(row, name):
    """{check: 'ok' or what is wrong} for the module file `name`."""
    module = elf.Elf(name)
    info = module.modinfo()
    found = {}
    vermagic = info.get("vermagic", [""])[0]
    found["vermagic"] = "ok" if vermagic.split(" ")[0] == row["release"] \
        else f"names {vermagic.split(' ')[0] or 'nothing'}"
    symbols = elf.symvers(kernel_file(row, "Module.symvers"))
    missing = sorted(module.undefined() - set(symbols))
    found["symbols"] = "ok" if not missing else "missing " + " ".join(missing[:5])
    with open(kernel_file(row, ".config"), encoding="utf-8") as handle:
        modversions = re.search(r"^CONFIG_MODVERSIONS=y$", handle.read(), re.M)
    versions = module.versions()
    wrong = [symbol for symbol, crc in versions.items() if symbols.get(symbol) != crc]
    if not modversions:
        found["versions"] = "ok" if not versions else "has versions, the kernel has none"
    elif wrong or not versions:
        found["versions"] = "CRC differs: " + " ".join(wrong[:5]) if wrong else "none"
    else:
        found["versions"] = "ok"
    leaks = [text.decode() for text in LEAKS if text in module.data]
    found["paths"] = "ok" if not leaks else "contains " + " ".join(leaks)
    found["no_btf"] = "ok" if ".BTF" not in module.sections else "has a .BTF section"
    found["no_debug"] = "ok" if ".debug_info" not in module.sections else "has debug sections"
    found["not_testable"] = "ok" if "testable" not in info else "built with test-only switches"
    found["unsigned"] = "ok" if not module.data.endswith(b"~Module signature appended~\n") \
        else "carries a kernel signature"
    return found


def bad(found):
    return {name: text for name, text in found.items() if text != "ok"}
