# SPDX-License-Identifier: GPL-2.0
"""Kernel releases: found in the indices, resolved to exact packages, kept in releases.json."""
import re

from . import archive, cache

FLAVOUR = re.compile(r"(cloud-|rt-)?amd64$")
TABLE = ("modules", "releases.json")


def table_path():
    return cache.path(*TABLE)


def split(release):
    """('6.12', 'cloud') of '6.12.95+deb12-cloud-amd64'."""
    flavour = FLAVOUR.search(release)
    if not flavour:
        raise SystemExit(f"{release}: not an amd64 release of Debian")
    return ".".join(release.split(".")[:2]), (flavour.group(1) or "amd64-")[:-1]


def family(suite):
    return suite.split("-")[0]


def series(release, suite):
    """Row of the load-test table: 6.1, 6.12 deb12, 6.12 deb13, 7.x."""
    number, _ = split(release)
    if number.startswith("7."):
        return "7.x"
    return f"{number} {'deb12' if family(suite) == 'bookworm' else 'deb13'}" \
        if number == "6.12" else number


def dependencies(stanza):
    found = {}
    for part in (stanza["Depends"] or "").split(","):
        match = re.match(r"\s*(\S+?)(?::any)?\s*(?:\((\S+)\s+([^)]+)\))?\s*(?:\||$)", part)
        if match:
            found[match.group(1)] = (match.group(2), match.group(3))
    return found


def choose(stanzas, relation, version):
    """Newest stanza that satisfies `relation version`; None if there is none."""
    good = []
    for stanza in stanzas:
        order = archive.compare_versions(stanza["Version"], version) if relation else 0
        if not relation or (relation == "=" and order == 0) or (relation == ">=" and order >= 0):
            good.append(stanza)
    return max(good, key=lambda s: archive.version_key(s["Version"]), default=None)


def as_deb(stanza):
    return {"package": stanza["Package"], "version": stanza["Version"],
            "sha256": stanza["SHA256"], "size": int(stanza["Size"]),
            "url": f"{stanza['base']}/{stanza['Filename']}"}


def pools(indices):
    """{family: {package: [stanza + base + suite]}} over all suites read."""
    found = {}
    for index in indices:
        pool = found.setdefault(family(index["suite"]), {})
        for name, stanzas in index["packages"].items():
            for stanza in stanzas:
                pool.setdefault(name, []).append(
                    {**stanza, "base": index["base"], "suite": index["suite"]})
    return found


def resolve(stanza, pool):
    """One row of the table, or a reason (str) why the release cannot be built."""
    release = stanza["Package"].removeprefix("linux-headers-")
    gcc, debs = None, [as_deb(stanza)]
    for name, (relation, version) in dependencies(stanza).items():
        compiler = re.match(r"(?:linux-compiler-)?gcc-(\d+)(?:-x86|-for-host)?$", name)
        if compiler:
            gcc = int(compiler.group(1))
        elif name.startswith(("linux-headers-", "linux-kbuild-")):
            chosen = choose(pool.get(name, []), relation, version)
            if not chosen:
                return f"{name} ({relation} {version}) is not in the archive"
            debs.append(as_deb(chosen))
    if not gcc:
        return "its dependencies name no compiler"
    # From 7.x on the kernel and its modules are packages of their own and linux-image is empty.
    image, modules = (next((choose(pool[name], None, None) for name in names if name in pool), None)
                      for names in ((f"linux-binary-{release}", f"linux-image-{release}"),
                                    (f"linux-modules-{release}", f"linux-image-{release}")))
    return {"release": release, "flavour": split(release)[1], "suite": stanza["suite"],
            "series": series(release, stanza["suite"]), "gcc": gcc, "debs": debs,
            "image": as_deb(image) if image else None,
            "modules": as_deb(modules) if modules else None}


def discover(indices):
    """(rows, problems, duplicates): every release of the indices, each once, sorted by version."""
    chosen, duplicates = {}, []
    found = pools(indices)
    for pool in found.values():
        for name, stanzas in pool.items():
            match = archive.RELEASE.match(name)
            if not match or not re.match(r"\d+\.\d+\.\d+", match.group(1)):
                continue
            for stanza in stanzas:
                old = chosen.get(name)
                if old:
                    duplicates.append(f"{match.group(1)}: {old['suite']} {old['Version']}, "
                                      f"{stanza['suite']} {stanza['Version']}")
                if not old or archive.compare_versions(stanza["Version"], old["Version"]) > 0:
                    chosen[name] = stanza
    rows, problems = [], []
    for name, stanza in chosen.items():
        row = resolve(stanza, found[family(stanza["suite"])])
        if isinstance(row, str):
            problems.append(f"{name.removeprefix('linux-headers-')}: {row}")
        else:
            rows.append(row)
    rows.sort(key=lambda row: (archive.version_key(row["release"].rsplit("-", 1)[0]
                                                   .replace("-cloud", "").replace("-rt", "")),
                               row["flavour"]))
    return rows, problems, duplicates


def load(wanted=None):
    """Rows of the table, or of the releases wanted (a list), all of which must be known."""
    table = cache.read_json(table_path())
    if not table:
        raise SystemExit("no table of releases yet: run ci/modules/discover")
    rows = table["releases"]
    if not wanted:
        return [row for row in rows if not row.get("canary")]
    known = {row["release"]: row for row in rows}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise SystemExit(f"not among the {len(rows)} releases found: {' '.join(missing)}")
    return [known[name] for name in wanted]
