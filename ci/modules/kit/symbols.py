# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that a kernel has, read from its BTF, so that a probe's symbol can be looked up unbooted.

Debian's System.map is a stub. From 6.12 on the header package carries the BTF of the kernel; for
6.1 it is in the kernel image itself. BTF leaves out a few functions that the compiler changed, so
a symbol that is not found is reported and is no failure: the module's probes are optional by name.
"""
import gzip
import lzma
import os
import re
import struct
import subprocess

from . import cache, checks, kernels

KIND_FUNC = 12
# Bytes after the 12 of a type, by kind: fixed, or per element (vlen).
EXTRA = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0),
         15: (0, 12), 17: (4, 0), 19: (0, 12)}
PROBE = re.compile(r'"([a-z_][a-z0-9_]{5,})"')


def btf_functions(data):
    """Names of all FUNC types of a .BTF section."""
    magic, _, _, header, type_at, type_size, text_at, text_size = struct.unpack_from("<HBBIIIII", data, 0)
    if magic != 0xEB9F:
        raise ValueError("not a BTF section")
    types = data[header + type_at:header + type_at + type_size]
    text = data[header + text_at:header + text_at + text_size]
    found, at = set(), 0
    while at < len(types):
        name, info, _ = struct.unpack_from("<III", types, at)
        kind, count = info >> 24 & 31, info & 0xFFFF
        if kind == KIND_FUNC:
            found.add(text[name:text.index(b"\0", name)].decode())
        fixed, each = EXTRA.get(kind, (0, 0))
        at += 12 + fixed + each * count
    return found


def section(data, wanted):
    """Bytes of one section of an ELF file in memory."""
    start, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, start + index * size) for index in range(count)]
    table = data[heads[names][4]:heads[names][4] + heads[names][5]]
    for head in heads:
        if table[head[0]:table.index(b"\0", head[0])] == wanted:
            return data[head[4]:head[4] + head[5]]
    return None


def unpack_kernel(image):
    """The ELF file inside a bzImage (Documentation/arch/x86/boot.rst: payload_offset, length)."""
    setup = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    payload = image[(setup + 1) * 512 + offset:][:length]
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return gzip.decompress(payload[:-4])
    tool = "zstd" if payload.startswith(b"\x28\xb5\x2f\xfd") else "lz4"
    done = subprocess.run([tool, "-dcq"], input=payload[:-4], capture_output=True, check=False)
    if not done.stdout:
        raise ValueError(f"kernel image is not of a kind that {tool} unpacks")
    return done.stdout


def functions(row):
    """Names of the kernel's functions; kept in the cache by the hash of their package."""
    name = cache.path("symbols", row["debs"][0]["sha256"] + ".json")
    known = cache.read_json(name)
    if known is None:
        vmlinux = checks.kernel_file(row, "vmlinux")
        if os.path.exists(vmlinux):
            with open(vmlinux, "rb") as handle:
                data = handle.read()
        elif row["image"]:
            with open(kernels.image(row), "rb") as handle:
                data = unpack_kernel(handle.read())
        else:
            return None
        body = section(data, b".BTF")
        known = sorted(btf_functions(body)) if body else []
        cache.write_json(name, known)
    return set(known) or None


def probes(folder):
    """Symbols that the source names as probes: first arguments of its SENTRY_... tables."""
    found = set()
    for where, _, names in os.walk(os.path.join(folder, "sentry")):
        for name in names:
            if name.startswith("hook_") and name.endswith(".c"):
                with open(os.path.join(where, name), encoding="utf-8") as handle:
                    for line in handle:
                        if re.match(r"\s+[A-Z_]+\(\"", line):
                            found.update(PROBE.findall(line)[:1])
    return found


def absent(row, folder):
    """(probe symbols of the source, those that this kernel does not show in its BTF) or None."""
    wanted = probes(folder)
    have = functions(row)
    if have is None or not wanted:
        return None
    # A tracepoint is there by the function that calls its probes.
    return sorted(wanted), sorted(name for name in wanted
                                  if name not in have and f"__traceiter_{name}" not in have)
