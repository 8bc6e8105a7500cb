# SPDX-License-Identifier: GPL-2.0-or-later
"""The unsigned record of one release: what was built, from what, twice, and what was found.

A record is named by its inputs (source, recipe, headers, toolchain), so one that is there is the
answer and nothing is built again. The signer reads records and nothing else.
"""
import os
import time

from . import archive, cache, elf, releases, sandbox, source, toolchain

RECIPE_FILES = ("inner.sh", "sandbox.py", "toolchain.py", "elf.py", "record.py")


def recipe_sha256():
    """Hash over the files that decide what a build does."""
    lines = "".join(f"{cache.sha256_file(os.path.join(sandbox.KIT, name))}  {name}\n"
                    for name in RECIPE_FILES)
    return cache.sha256_text(lines)


def prepare(row):
    row["toolchain"] = releases.family(row["suite"])
    return row


def headers(row):
    return sorted(({key: deb[key] for key in ("package", "version", "sha256")}
                   for deb in row["debs"]), key=lambda deb: deb["package"])


def inputs(row, tree_sha256):
    return {"release": row["release"], "source": tree_sha256, "recipe": recipe_sha256(),
            "root": toolchain.pin(prepare(row)["toolchain"])["root_sha256"],
            "headers": headers(row)}


def folder(row, tree_sha256):
    """Where the builds and the record of these inputs are kept."""
    key = cache.sha256_text(cache.canonical(inputs(row, tree_sha256)))
    return cache.path("builds", key[:2], key)


def module_path(where):
    return os.path.join(where, "A", "sentry.ko")


def finished(where):
    """The part of the record of a build that is there and whole, else None."""
    done = cache.read_json(os.path.join(where, "build.json"))
    for part, key in (("sentry.ko", "sha256"), ("raw.ko", "raw_sha256")):
        name = os.path.join(where, part)
        if not done or not os.path.exists(name) or cache.sha256_file(name) != done[key]:
            return None
    return done


def one_build(row, snapshot, name, condition):
    """Build under one condition unless it is there; returns its part of the record."""
    key = folder(row, snapshot[1])
    where = os.path.join(key, name)
    with cache.locked(f"build-{os.path.basename(key)}"):
        done = finished(where)
        if done:
            return done
        started = time.monotonic()
        sandbox.build(row, snapshot[0], snapshot[1], condition, where)
        done = {"builder": "local", "conditions": sandbox.read_condition(where), "name": name,
                "sha256": cache.sha256_file(os.path.join(where, "sentry.ko")),
                "raw_sha256": cache.sha256_file(os.path.join(where, "raw.ko")),
                "seconds": round(time.monotonic() - started, 1),
                "cpu_seconds": sandbox.cpu_seconds(where)}
        cache.write_json(os.path.join(where, "build.json"), done)
        return done


def assemble(row, snapshot, builds, checks):
    """The record of a release, for the signer."""
    where = folder(row, snapshot[1])
    root = toolchain.pin(row["toolchain"])
    module = elf.Elf(module_path(where))
    info = module.modinfo()
    return {
        "schema": 1, "release": row["release"], "flavour": row["flavour"], "suite": row["suite"],
        "series": row["series"],
        "module": {"size": os.path.getsize(module_path(where)),
                   "sha256": cache.sha256_file(module_path(where)),
                   "srcversion": info.get("srcversion", [""])[0],
                   "vermagic": info["vermagic"][0].strip(),
                   "build_id": module.build_id(),
                   "undef_syms_sha256": module.undefined_sha256()},
        "headers": headers(row), "inrelease_sha256": row["inrelease_sha256"],
        "toolchain": {key: root[key] for key in ("root_sha256", "gcc", "binutils")},
        "builds": builds, "checks": checks,
        "source": {"commit": snapshot[2], "tree_sha256": snapshot[1]},
        "recipe_sha256": recipe_sha256()}
