# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel module says about itself: sections, symbols, versions, modinfo, build id."""
import hashlib
import struct


class Elf:
    """A 64-bit little-endian ELF file in memory."""

    def __init__(self, name):
        with open(name, "rb") as handle:
            self.data = handle.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{name}: not a 64-bit ELF file")
        start, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        heads = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + index * size)
                 for index in range(count)]
        table = self.data[heads[names][4]:heads[names][4] + heads[names][5]]
        self.sections = {}
        self.order = []
        for head in heads:
            title = table[head[0]:table.index(b"\0", head[0])].decode()
            body = b"" if head[1] == 8 else self.data[head[4]:head[4] + head[5]]
            self.sections.setdefault(title, body)
            self.order.append((title, body, head))

    def modinfo(self):
        """{key: [values]} of .modinfo."""
        found = {}
        for item in self.sections.get(".modinfo", b"").split(b"\0"):
            key, equals, value = item.decode(errors="replace").partition("=")
            if equals:
                found.setdefault(key, []).append(value)
        return found

    def undefined(self):
        """Names of the symbols that the kernel must supply."""
        names = set()
        for _, body, head in self.order:
            if head[1] != 2:
                continue
            strings = self.order[head[6]][1]
            for at in range(24, len(body), 24):
                name, _, _, section = struct.unpack_from("<IBBH", body, at)
                if section == 0 and name:
                    names.add(strings[name:strings.index(b"\0", name)].decode())
        return names

    def versions(self):
        """{symbol: crc} of __versions."""
        body, found = self.sections.get("__versions", b""), {}
        for at in range(0, len(body) - 63, 64):
            crc, = struct.unpack_from("<Q", body, at)
            found[body[at + 8:at + 64].split(b"\0")[0].decode()] = crc
        return found

    def build_id(self):
        note = self.sections.get(".note.gnu.build-id", b"")
        return note[16:].hex()

    def undefined_sha256(self):
        text = "".join(f"{name}\n" for name in sorted(self.undefined()))
        return hashlib.sha256(text.encode()).hexdigest()


def symvers(name):
    """{symbol: crc} of a Module.symvers."""
    found = {}
    with open(name, encoding="utf-8") as handle:
        for line in handle:
            crc, symbol = line.split("\t")[:2]
            found[symbol] = int(crc, 16)
    return found
