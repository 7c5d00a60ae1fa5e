//! The map of functions against profiles recorded by `crates/evidence/examples/record_profile.rs`.
//! 6.1 and 6.12 are Debian's, for clouds, emulated; 6.18 is one of a virtual machine.

use std::collections::BTreeMap;

use bytecost_evidence::attribution::{Attribution, MAP};
use bytecost_spec::evidence::{KINDS, Kind};

/// The share of looks that may remain without a kind.
const MOST_UNATTRIBUTED: f64 = 0.05;

const PROFILES: &[(&str, &str)] = &[
    ("6.1", include_str!("profiles/linux-6.1.txt")),
    ("6.12", include_str!("profiles/linux-6.12.txt")),
    ("6.18", include_str!("profiles/linux-6.18.txt")),
];

/// Where time went in the built-in studies on 6.18: `STUDY COUNT FUNCTION`, `-` for user code.
const STUDIES: &str = include_str!("profiles/studies-6.18.txt");

/// Looks at CPUs with something to do, by kind, and by function where it has none.
#[derive(Default)]
struct Sorted {
    kinds: BTreeMap<Kind, u64>,
    unknown: BTreeMap<&'static str, u64>,
}

impl Sorted {
    fn add(&mut self, count: &str, chain: impl IntoIterator<Item = &'static str>) -> bool {
        let count: u64 = count.parse().unwrap();
        let Attribution::Work { kind, function, .. } = MAP.attribute(chain) else {
            return false;
        };
        *self.kinds.entry(kind).or_default() += count;
        if kind == Kind::Unattributed {
            *self.unknown.entry(function).or_default() += count;
        }
        true
    }

    fn check(&self, what: &str, least: u64) {
        let all: u64 = self.kinds.values().sum();
        let share = self.unknown.values().sum::<u64>() as f64 / all as f64;
        let message = format!(
            "{what}: {share:.4} of {all} looks have no kind: {:?}",
            self.unknown
        );
        println!("{message}");
        assert!(all > least && share < MOST_UNATTRIBUTED, "{message}");
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|l| !l.starts_with('#'))
}

fn sorted(profile: &'static str) -> Sorted {
    let mut sorted = Sorted::default();
    for line in lines(profile) {
        let (count, chain) = line.split_once(' ').unwrap();
        sorted.add(count, chain.split(';'));
    }
    sorted
}

#[test]
fn the_map_knows_what_each_kernel_spends_its_time_in() {
    for (kernel, text) in PROFILES {
        sorted(text).check(&format!("Linux {kernel}"), 10_000);
    }
}

/// A kind that no look of a profile falls into would be one whose functions have been renamed.
#[test]
fn every_kind_of_work_is_met_on_each_kernel() {
    for (kernel, text) in PROFILES {
        let met = sorted(text).kinds;
        let missed: Vec<&str> = KINDS
            .iter()
            .filter(|row| !matches!(row.kind, Kind::User | Kind::Unattributed))
            .filter(|row| !met.contains_key(&row.kind))
            .map(|row| row.name)
            .collect();
        assert!(missed.is_empty(), "Linux {kernel}: no look at {missed:?}");
    }
}

#[test]
fn in_no_built_in_study_much_of_the_time_has_no_kind() {
    let mut studies: BTreeMap<&str, Sorted> = BTreeMap::new();
    for line in lines(STUDIES) {
        let words: Vec<&str> = line.split(' ').collect();
        let [study, count, function] = words[..] else {
            panic!("{line}");
        };
        let chain = Some(function).filter(|f| *f != "-");
        let is_work = studies.entry(study).or_default().add(count, chain);
        assert!(is_work, "{line}: an idle CPU is nobody's time");
    }
    assert!(studies.len() > 10, "{:?}", studies.keys());
    for (study, sorted) in studies {
        sorted.check(study, 500);
    }
}
