# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots that must not take work (SUP-05, 06, 08, LL-07, LL-08, POL-13, POL-15; early launch)."""
import sys

from guestvm import Guest, Tap, json, spec

tap = Tap()
RO = {"read_only": ["/usr"], "read_write": ["/tmp"]}
SHA = "0" * 64

# name, spec, what to expect: step, words of the error, options of the VM
CASES = [
    ("an unknown key in the spec", spec(surprise=1), "spec", "surprise", {}),
    ("a spec that is no JSON", b"{", "spec", "", {}),
    ("POL-13 a process section below strict", spec("files", filesystem=RO, process={}), "spec", "needs strict", {}),
    ("the Sentry is required and its hash is another", spec(sentry={"mode": "required", "sha256": SHA}), "sentry_hash", "SHA-256 is",
     {"sentry": "/bin/true"}),
    ("the Sentry is required and absent", spec(sentry={"mode": "required", "sha256": SHA}), "sentry_hash", "", {}),
    ("no disk with the serial hf-root", spec(), "disk_root", "No such device", {"no_root": True}),
    ("POL-15 read_only below read_write", spec("files", filesystem={"read_only": ["/tmp/secrets"], "read_write": ["/tmp"]}),
     "landlock_ruleset", "/tmp/secrets lies in read_write /tmp", {}),
    ("LL-08 none of the configured paths exists", spec("files", filesystem={"read_only": ["/nowhere", "/app"]}), "landlock_ruleset",
     "none of the configured paths", {}),
    ("LL-07 hard_requirement and a missing path", spec("files", filesystem={"read_only": ["/usr", "/nowhere"]},
                                                       landlock={"compatibility": "hard_requirement"}), "landlock_ruleset", "/nowhere", {}),
    ("LL-07 hard_requirement on 6.1, which has ABI 2", spec("files", filesystem=RO, landlock={"compatibility": "hard_requirement"}),
     "landlock_ruleset", "truncate", {"kernel": "6.1"}),
    ("LL-07 hard_requirement and a kernel without Landlock", spec("files", filesystem=RO, landlock={"compatibility": "hard_requirement"}),
     "landlock_ruleset", "no Landlock", {"append": "lsm=lockdown,capability,apparmor,bpf"}),
    ("run_as_user is not in the workspace", spec("strict", process={"run_as_user": "stranger"}), "identity", "stranger", {}),
]


def refused(name, s, step, words, options):
    with Guest(s, **options) as vm:
        status = vm.wait_status(lambda x: x["failed"] or x["ready"], 240)
        failed = status["failed"] or {}
        tap.ok(failed.get("name") == step and words in failed.get("error", ""), name + ": step and reason in the status", status)
        tap.ok("holdfast: failed: " + step in vm.console(), name + ": and on the console", vm.console()[-500:])
        r = vm.run(["id"])
        tap.ok(r.code == 75 and r.reply["step"] == step and not r.out, name + ": exec is answered with 75", r)
        if options.get("no_root"):
            tap.ok(vm.power_off(), name + ": poweroff works all the same")


def degraded():
    """best_effort goes on, and says what is lost."""
    with Guest(spec("files", filesystem=RO, sentry={"mode": "best_effort", "sha256": SHA}), append="lsm=lockdown,capability,apparmor,bpf") as vm:
        s = vm.wait_ready()
        steps = {x["name"]: x for x in s["steps"]}
        tap.ok(not steps["sentry_hash"]["ok"] and not s["sentry"]["loaded"], "best_effort without the Sentry: ready, the step is named", s["steps"])
        tap.ok(s["landlock"]["requested"] and not s["landlock"]["enforced"] and s["landlock"]["degraded"] and
               "no Landlock" in s["landlock"]["lost"] and not steps["landlock_ruleset"]["ok"],
               "LL-07 best_effort without Landlock: never says enforced", s["landlock"])
    with Guest(spec("strict", filesystem={"read_only": ["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc"], "read_write": ["/tmp"]}, process={}), kernel="6.1") as vm:
        s = vm.wait_ready()
        tap.ok(s["landlock"]["abi"] == 2 and s["landlock"]["enforced"] and s["landlock"]["degraded"] and "truncate" in s["landlock"]["lost"] and
               "scope" in s["landlock"]["lost"], "LL-07 6.1: ABI 2 is enforced, and what it loses is said", s["landlock"])
        tap.ok(s["strict_applied"] and vm.run(["ls", "/var"]).code == 2, "strict works on 6.1")


def main():
    only = sys.argv[1:]
    for case in CASES:
        if only and not any(o in case[0] for o in only):
            continue
        try:
            refused(*case)
        except Exception as e:
            tap.ok(False, "%s: %r" % (case[0], e))
    if not only:
        degraded()
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
