#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Independent verifier of the catalog's signatures: RFC 8032 in plain integers, nothing of Holdfast's.

minisig.py FILE PUB           FILE.minisig by the key in PUB; prints the trusted comment
minisig.py --dsse FILE PUB    a DSSE envelope; prints the statement
"""
import base64
import hashlib
import json
import sys

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def recover(y, sign):
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P)
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - x2) % P:
        raise ValueError("not a point")
    return P - x if x & 1 != sign else x


def point(raw):
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    return recover(y, sign), y


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    return ((x1 * y2 + x2 * y1) * pow(1 + t, P - 2, P) % P,
            (y1 * y2 + x1 * x2) * pow(1 - t, P - 2, P) % P)


def times(n, a):
    out = (0, 1)
    while n:
        out, a, n = (add(out, a) if n & 1 else out), add(a, a), n >> 1
    return out


BASE = (recover(4 * pow(5, P - 2, P) % P, 0), 4 * pow(5, P - 2, P) % P)


def verify(public, signature, message):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % ORDER
    return s < ORDER and times(s, BASE) == add(point(r), times(k, point(public)))


def public_key(name):
    raw = base64.b64decode(open(name, encoding="ascii").read().splitlines()[1])
    assert raw[:2] == b"Ed"
    return raw[2:10], raw[10:]


def check_file(name, pub):
    lines = open(name + ".minisig", encoding="ascii").read().splitlines()
    raw, key_id, public = base64.b64decode(lines[1]), *public_key(pub)
    comment = lines[2].removeprefix("trusted comment: ")
    digest = hashlib.blake2b(open(name, "rb").read()).digest()
    if raw[:2] != b"ED" or raw[2:10] != key_id or not verify(public, raw[10:], digest) \
            or not verify(public, base64.b64decode(lines[3]), raw[10:] + comment.encode()):
        raise ValueError("signature does not hold")
    return comment


def check_dsse(name, pub):
    envelope = json.load(open(name, encoding="ascii"))
    body, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(body), body)
    if not verify(public_key(pub)[1], base64.b64decode(envelope["signatures"][0]["sig"]), encoded):
        raise ValueError("signature does not hold")
    return body.decode()


if __name__ == "__main__":
    try:
        print(check_dsse(*sys.argv[2:]) if sys.argv[1] == "--dsse" else check_file(*sys.argv[1:]))
    except (ValueError, AssertionError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
