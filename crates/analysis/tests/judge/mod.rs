//! A run with known truths, and claims compared with it.

use std::sync::OnceLock;

use bytecost_analysis::{Grounds, Ruling, audit};
use bytecost_report::audit::{AuditText, text};
use bytecost_spec::claim::{self, Claim};
use bytecost_spec::evidence::{Copied, CopiedBytes, CopyMeans, CopyPlace, TrialEvidence};
use bytecost_spec::{Cell, Reading};

use crate::world::{True, World, says, study};

pub const STUDY: &str = study!(
    "blog",
    r#"
[axes]
pattern = ["request-response"]
mover = ["send-fields", "sendmsg", "send-zerocopy"]
size = ["2KiB", "8KiB", "32KiB", "128KiB"]
threads = [1, 2, 8]
nodelay = ["on", "off"]

[[compare]]
axis = "mover"
baseline = "send-fields"
metrics = ["throughput_gbit_per_s", "latency_us_p50"]
"#
);

/// sendmsg is 1.5 times send-fields everywhere; zero-copy wins from 32 KiB on, is copied after
/// all, and is never better than sendmsg; two flows do as one, and eight do worse.
pub fn truth(cell: &Cell) -> True {
    let mover = match (cell.mover.as_str(), cell.size_bytes) {
        ("sendmsg", _) => 1.5,
        ("send-zerocopy", 0..=8192) => 0.5,
        ("send-zerocopy", _) => 1.3,
        _ => 1.0,
    };
    let threads = if cell.threads == 8 { 0.5 } else { 1.0 };
    let stalls = cell.mover == "send-fields" && !cell.sends_at_once();
    True {
        gbit_per_s: mover * threads * if stalls { 0.01 } else { 1.0 },
        latency_us: if stalls { 40_800.0 } else { 20.0 / threads },
        copied: (cell.mover == "send-zerocopy").then_some(1.0),
        ..True::costs(1.0)
    }
}

pub fn world(study: &str) -> World {
    let mut world = World::new(study).run(5, 12, 0.005, truth);
    world.manifest.host.cpus_allowed = vec![0, 1, 2, 3];
    world
}

pub fn of_one_size() -> String {
    STUDY.replace("\"2KiB\", \"8KiB\", \"32KiB\", \"128KiB\"", "\"2KiB\"")
}

/// A world of one size, for tests that change it.
pub fn small() -> World {
    world(&of_one_size())
}

/// One world for all that only look at it.
pub fn common() -> &'static World {
    static COMMON: OnceLock<World> = OnceLock::new();
    COMMON.get_or_init(|| world(STUDY))
}

pub fn claims(tests: &str) -> Vec<Claim> {
    let head = "[[claim]]\nid = \"c\"\nsource = \"blog\"\nclaim = \"x\"\nsettled_by = \"y\"\n";
    claim::parse(&format!("{head}{tests}")).unwrap_or_else(|e| panic!("{e}\n{tests}"))
}

pub fn judged(world: &World, tests: &str) -> AuditText {
    let grounds = Grounds {
        claims: claims(tests),
        ..Grounds::default()
    };
    text(&audit(world.input(), &grounds)[0])
}

#[track_caller]
pub fn check(tests: &str, ruling: Ruling, words: &[&str]) {
    check_in(common(), tests, ruling, words);
}

#[track_caller]
pub fn check_in(world: &World, tests: &str, ruling: Ruling, words: &[&str]) {
    is_ruled(&judged(world, tests), ruling, words);
}

#[track_caller]
pub fn is_ruled(found: &AuditText, ruling: Ruling, words: &[&str]) {
    assert_eq!(found.ruling, ruling, "{found:#?}");
    says(format!("{}\n{}", found.because, found.words), words);
}

/// Checks claims. Each line is `what | expected | ruling | part of the words`; the first two make the
/// claim.
#[track_caller]
pub fn check_rows(table: &str, of: impl Fn(&str, &str) -> String) {
    check_rows_in(common(), table, of);
}

#[track_caller]
pub fn check_rows_in(world: &World, table: &str, of: impl Fn(&str, &str) -> String) {
    for line in table.lines() {
        let row: Vec<&str> = line.split('|').map(str::trim).collect();
        let found = judged(world, &of(row[0], row[1]));
        assert_eq!(format!("{:?}", found.ruling), row[2], "{row:?}\n{found:#?}");
        let figures = found.figures.iter().filter_map(|f| f.measured.as_ref());
        let all = [&found.because, &found.words].into_iter().chain(figures);
        let texts: Vec<&str> = all.map(String::as_str).collect();
        says(texts.join("\n"), [row[3]]);
    }
}

pub const NODELAY: &str = "where = { nodelay = [\"on\"] }\n";

pub fn ratio(value: &str, against: &str, place: &str, expect: &str) -> String {
    format!(
        "kind = \"ratio\"\nmetric = \"throughput_gbit_per_s\"\naxis = \"mover\"\nvalue = \"{value}\"\nagainst = \"{against}\"\n{place}expect = \"{expect}\"\n"
    )
}

pub fn test(body: &str) -> String {
    format!("[[claim.test]]\n{body}")
}

pub fn reason(body: &str, otherwise: &str) -> String {
    format!("[[claim.reason]]\n{body}\notherwise = \"{otherwise}\"\n")
}

/// Of the cells for which there are bytes: what was counted of 1,000 bytes at each place.
pub fn count_copies(world: &mut World, of: impl Fn(&Cell) -> Option<[(CopyPlace, u64); 4]>) {
    let leg = |(leg, bytes)| Copied {
        leg,
        means: Some(CopyMeans::Tracepoints),
        bytes: Reading::Measured(bytes),
    };
    let evidence = |(place, cell): (usize, &Cell)| {
        Some(TrialEvidence {
            sent_bytes: 1000,
            copies: Some(CopiedBytes {
                payload_bytes: 1000,
                legs: of(cell)?.map(leg).to_vec(),
                gaps: Vec::new(),
            }),
            ..world.evidence_of(place)
        })
    };
    let cells = world.cells.iter().enumerate();
    let evidence: Vec<TrialEvidence> = cells.filter_map(evidence).collect();
    world.evidence = evidence;
}
