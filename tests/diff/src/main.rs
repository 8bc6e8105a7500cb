// SPDX-License-Identifier: GPL-2.0-or-later
//! The same confinement by the crates `landlock` and `seccompiler`, written from the specification and not from
//! our own table: `peer best|hard files|strict|calls RO... -- RW... -- COMMAND ARG...`
use landlock::{
    path_beneath_rules, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope, ABI,
};
use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::convert::TryInto;
use std::os::unix::process::CommandExt;
use std::process::Command;

const NEWUSER: u64 = 0x1000_0000;
const NAMESPACES: [u64; 6] = [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x2000_0000, 0x4000_0000];

fn masked(arg: u8, mask: u64, value: u64) -> SeccompCondition {
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value).unwrap()
}

fn equal(arg: u8, value: u64) -> SeccompCondition {
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).unwrap()
}

fn rule(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).unwrap()
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) -> BpfProgram {
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), std::env::consts::ARCH.try_into().unwrap())
        .unwrap()
        .try_into()
        .unwrap()
}

/// Section 5 of the specification.
fn denied() -> BTreeMap<i64, Vec<SeccompRule>> {
    let mut r: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let whole = [
        319, 101, 321, 310, 311, 438, 424, 425, 426, 427, 165, 166, 155, 430, 431, 432, 433, 429, 428, 442, 467, 308, 323, 298,
        304, 248, 249, 250, 447, 460, 134, 312, 440, 448,
    ];
    for nr in whole {
        r.insert(nr, vec![]);
    }
    r.insert(322, vec![rule(vec![masked(4, 0x1000, 0x1000)])]);
    for nr in [272, 56] {
        let list = r.entry(nr).or_default();
        list.push(rule(vec![masked(0, NEWUSER, NEWUSER)]));
        for flag in NAMESPACES {
            list.push(rule(vec![masked(0, flag, flag)]));
        }
    }
    r.get_mut(&272).unwrap().push(rule(vec![masked(0, 0x80, 0x80)]));
    r.insert(317, vec![rule(vec![equal(0, 1)])]);
    r.insert(157, vec![rule(vec![equal(0, 22)])]);
    for nr in [41, 53] {
        let list = r.entry(nr).or_default();
        for family in 3..64u64 {
            if family != 10 && family != 16 {
                list.push(rule(vec![equal(0, family)]));
            }
        }
        list.push(rule(vec![
            equal(0, 16),
            SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0).unwrap(),
        ]));
    }
    r.insert(62, vec![rule(vec![equal(0, 0xffff_ffff)])]);
    r.insert(72, vec![rule(vec![equal(1, 15)])]);
    r.insert(
        16,
        [0x8901, 0x8902, 0x5412, 0x541c].iter().map(|c| rule(vec![equal(1, *c)])).collect(),
    );
    r
}

fn unknown() -> BTreeMap<i64, Vec<SeccompRule>> {
    let mut r: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    r.insert(435, vec![]);
    r.insert(434, vec![]);
    for nr in (337..424).chain(472..512) {
        r.insert(nr, vec![]);
    }
    r
}

fn files(hard: bool, strict: bool, ro: &[String], rw: &[String]) {
    let abi = ABI::V6;
    let level = if hard { CompatLevel::HardRequirement } else { CompatLevel::BestEffort };
    let mut ruleset = Ruleset::default().set_compatibility(level).handle_access(AccessFs::from_all(abi)).unwrap();
    if strict {
        ruleset = ruleset.scope(Scope::from_all(abi)).unwrap();
    }
    if hard {
        for path in ro.iter().chain(rw) {
            if !std::path::Path::new(path).exists() {
                println!("refused");
                std::process::exit(126);
            }
        }
    }
    let created = ruleset
        .create()
        .unwrap()
        .add_rules(path_beneath_rules(ro, AccessFs::from_read(abi)))
        .unwrap()
        .add_rules(path_beneath_rules(rw, AccessFs::from_all(abi)))
        .unwrap()
        .no_new_privs(true);
    created.restrict_self().unwrap();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let hard = args[0] == "hard";
    let mode = args[1].as_str();
    let mut lists: Vec<Vec<String>> = args[2..].split(|a| a == "--").map(|l| l.to_vec()).collect();
    let command = lists.pop().unwrap();
    let rw = lists.pop().unwrap();
    let ro = lists.pop().unwrap();

    if mode != "calls" {
        files(hard, mode == "strict", &ro, &rw);
    } else {
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    }
    if mode != "files" {
        apply_filter(&filter(unknown(), libc::ENOSYS as u32)).unwrap();
        apply_filter(&filter(denied(), libc::EPERM as u32)).unwrap();
    }
    let failed = Command::new(&command[0]).args(&command[1..]).exec();
    eprintln!("{}: {}", command[0], failed);
    std::process::exit(126);
}
