//! The map of functions, held against profiles of several kernels. They were recorded there by
//! `crates/evidence/examples/record_profile.rs`: `COUNT INNERMOST;CALLER;…`, one line a chain.
//! 6.1 and 6.12 are Debian's, for clouds, emulated; 6.18 is one of a virtual machine.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_evidence::attribution::{Attribution, MAP};
use bytecost_spec::evidence::{KINDS, Kind};

/// The share of looks that may remain without a kind.
const MOST_UNATTRIBUTED: f64 = 0.05;

const PROFILES: &[(&str, &str)] = &[
    ("6.1", include_str!("profiles/linux-6.1.txt")),
    ("6.12", include_str!("profiles/linux-6.12.txt")),
    ("6.18", include_str!("profiles/linux-6.18.txt")),
];

/// Where the sides' time went in each built-in study on Linux 6.18, from the evidence in their logs:
/// `STUDY COUNT FUNCTION`, with `-` for user code. A function is the one that decided the kind then.
const STUDIES: &str = include_str!("profiles/studies-6.18.txt");

/// Looks at CPUs with something to do, by kind, and by function where it has none.
fn sorted(text: &'static str) -> (BTreeMap<Kind, u64>, BTreeMap<&'static str, u64>) {
    let (mut kinds, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (count, chain) = line.split_once(' ').unwrap();
        let count: u64 = count.parse().unwrap();
        let Attribution::Work { kind, function, .. } = MAP.attribute(chain.split(';')) else {
            continue;
        };
        *kinds.entry(kind).or_default() += count;
        if kind == Kind::Unattributed {
            *unknown.entry(function).or_default() += count;
        }
    }
    (kinds, unknown)
}

#[test]
fn the_map_knows_what_each_kernel_spends_its_time_in() {
    for (kernel, text) in PROFILES {
        let (kinds, unknown) = sorted(text);
        let all: u64 = kinds.values().sum();
        assert!(all > 10_000, "Linux {kernel}: only {all} looks");
        let share = unknown.values().sum::<u64>() as f64 / all as f64;
        println!("Linux {kernel}: {share:.4} of {all} looks have no kind: {unknown:?}");
        assert!(
            share < MOST_UNATTRIBUTED,
            "Linux {kernel}: {share:.3} of the looks have no kind: {unknown:?}"
        );
    }
}

/// A kind that no look of a profile falls into would be one whose functions have been renamed.
#[test]
fn every_kind_of_work_is_met_on_each_kernel() {
    for (kernel, text) in PROFILES {
        let met: BTreeSet<Kind> = sorted(text).0.into_keys().collect();
        let missed: Vec<&str> = KINDS
            .iter()
            .filter(|row| !matches!(row.kind, Kind::User | Kind::Unattributed))
            .filter(|row| !met.contains(&row.kind))
            .map(|row| row.name)
            .collect();
        assert!(missed.is_empty(), "Linux {kernel}: no look at {missed:?}");
    }
}

#[test]
fn in_no_built_in_study_much_of_the_time_has_no_kind() {
    let mut studies: BTreeMap<&str, (u64, BTreeMap<&str, u64>)> = BTreeMap::new();
    for line in STUDIES.lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [study, count, function] = words[..] else {
            panic!("{line}");
        };
        let count: u64 = count.parse().unwrap();
        let chain = Some(function).filter(|f| *f != "-");
        let Attribution::Work { kind, function, .. } = MAP.attribute(chain) else {
            panic!("{line}: an idle CPU is nobody's time");
        };
        let (all, unknown) = studies.entry(study).or_default();
        *all += count;
        if kind == Kind::Unattributed {
            *unknown.entry(function).or_default() += count;
        }
    }
    assert!(studies.len() > 10, "{:?}", studies.keys());
    for (study, (all, unknown)) in studies {
        let share = unknown.values().sum::<u64>() as f64 / all as f64;
        println!("{study}: {share:.4} of {all} looks have no kind: {unknown:?}");
        assert!(
            all > 500 && share < MOST_UNATTRIBUTED,
            "{study}: {share:.3} of {all}: {unknown:?}"
        );
    }
}
