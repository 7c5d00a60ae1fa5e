//! Claims of others held against runs whose truth is known.

mod world;

use std::sync::OnceLock;

use bytecost_analysis::{Analysis, Audited, Doubt, Grounds, Ruling, audit};
use bytecost_spec::claim::{self, Claim};
use bytecost_spec::{
    Axis, Cell, Counter, Measure, Metric, Published, PublishedCell, Reading, Table,
};
use world::{True, World};

const STUDY: &str = r#"
name = "blog"
title = "t"
question = "q"
prediction = "p"
smallest-effect = "5%"
precision = "5%"
budget = "60s"
warmup = "50ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
pattern = ["ask"]
mover = ["send-fields", "sendmsg", "send-zerocopy"]
size = ["2KiB", "8KiB", "32KiB", "128KiB"]
threads = [1, 2, 8]
nodelay = ["on", "off"]

[[compare]]
axis = "mover"
baseline = "send-fields"
metrics = ["throughput_gbit_per_s", "latency_us_p50"]
"#;

/// sendmsg is 1.5 times send-fields everywhere; zero-copy wins from 32 KiB on, is copied after
/// all, and is never better than sendmsg; two flows do as one, and eight do worse.
fn truth(cell: &Cell) -> True {
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

fn world() -> World {
    let mut world = World::new(STUDY).run(5, 12, 0.005, truth);
    world.manifest.host.cpus_allowed = vec![0, 1];
    world
}

/// A world of one size, for tests that change it.
fn small() -> World {
    let study = STUDY.replace("\"2KiB\", \"8KiB\", \"32KiB\", \"128KiB\"", "\"2KiB\"");
    let mut world = World::new(&study).run(5, 12, 0.005, truth);
    world.manifest.host.cpus_allowed = vec![0, 1];
    world
}

/// One world for all that only look at it.
fn common() -> &'static (World, Analysis) {
    static COMMON: OnceLock<(World, Analysis)> = OnceLock::new();
    COMMON.get_or_init(|| {
        let world = world();
        let analysis = world.analyse();
        (world, analysis)
    })
}

fn claims(tests: &str) -> Vec<Claim> {
    let head = "[[claim]]\nid = \"c\"\nsource = \"blog\"\nclaim = \"x\"\nsettled_by = \"y\"\n";
    claim::parse(&format!("{head}{tests}")).unwrap_or_else(|e| panic!("{e}\n{tests}"))
}

fn judged(world: &World, analysis: &Analysis, tests: &str) -> Audited {
    let grounds = Grounds {
        claims: &claims(tests),
        ..Grounds::default()
    };
    audit(world.input(), analysis, &grounds).remove(0)
}

fn check(tests: &str, ruling: Ruling, says: &[&str]) {
    let (world, analysis) = common();
    let found = judged(world, analysis, tests);
    assert_eq!(found.ruling, ruling, "{tests}\n{}", found.because);
    for word in says {
        assert!(found.because.contains(word), "{word}: {}", found.because);
    }
}

const NODELAY: &str = "where = { nodelay = [\"on\"] }\n";

fn ratio(value: &str, against: &str, place: &str, expect: &str) -> String {
    format!(
        "kind = \"ratio\"\nmetric = \"throughput_gbit_per_s\"\naxis = \"mover\"\nvalue = \"{value}\"\nagainst = \"{against}\"\n{place}expect = \"{expect}\"\n"
    )
}

fn test(body: &str) -> String {
    format!("[[claim.test]]\n{body}")
}

fn reason(body: &str, otherwise: &str) -> String {
    format!("[[claim.reason]]\n{body}\notherwise = \"{otherwise}\"\n")
}

#[test]
fn a_ratio_holds_or_not() {
    let of = |value: &str, expect: &str| test(&ratio(value, "send-fields", NODELAY, expect));
    check(
        &of("sendmsg", "above 1"),
        Ruling::Holds,
        &["in 12 of 12 cells"],
    );
    check(
        &of("sendmsg", "within 1.3..1.8"),
        Ruling::Holds,
        &["from 1.3 to 1.8"],
    );
    check(
        &of("sendmsg", "within 4.8..6"),
        Ruling::DoesNotHold,
        &["1.5"],
    );
    check(
        &of("sendmsg", "below 1"),
        Ruling::DoesNotHold,
        &["12 of 12"],
    );
    check(
        &of("send-zerocopy", "above 1"),
        Ruling::DoesNotHold,
        &["6 of 12", "KiB (8 × "],
    );
    let some = of("send-zerocopy", "above 1") + "cells = \"some\"\n";
    check(&some, Ruling::Holds, &["6 of 12", "The kernel copied"]);
    // Against a value that no comparison of the study has as its baseline.
    let turned = test(&ratio("send-fields", "sendmsg", NODELAY, "below 1"));
    check(&turned, Ruling::Holds, &[]);
    let beside = test(&ratio("send-zerocopy", "sendmsg", NODELAY, "below 1"));
    check(&beside, Ruling::Holds, &["12 of 12"]);
}

#[test]
fn what_was_not_measured_cannot_be_settled() {
    let veth = "where = { transport = [\"veth\"] }\n";
    let absent = test(&ratio("sendmsg", "send-fields", veth, "above 1"));
    check(
        &absent,
        Ruling::CannotBeSettled,
        &["transport veth", "sendmsg and send-fields"],
    );
    let cycles = absent
        .replace("throughput_gbit_per_s", "cycles_per_byte")
        .replace(veth, NODELAY);
    check(&cycles, Ruling::CannotBeSettled, &["no hardware counters"]);
    check(
        "[[claim.test]]\nkind = \"copies-per-byte\"\n",
        Ruling::CannotBeSettled,
        &["were not counted"],
    );
    check(
        "[[claim.test]]\nkind = \"not-in-this-run\"\nstudy = \"servers\"\nwhy = \"clients\"\n",
        Ruling::CannotBeSettled,
        &["servers", "does not have"],
    );
    let mut world = small();
    let id = world.id("sendmsg", 2048).replace("loopback", "veth");
    world.refusals.push(bytecost_spec::Refusal {
        what: id,
        why: "needs root".to_owned(),
    });
    let found = judged(&world, &world.analyse(), &absent);
    assert!(found.because.contains("needs root"), "{}", found.because);
    assert!(found.is_silent());
}

#[test]
fn what_is_not_decided_says_what_it_would_take() {
    let world = World::new(STUDY).run(5, 8, 0.5, |cell| True {
        gbit_per_s: if cell.mover == "sendmsg" { 1.1 } else { 1.0 },
        ..truth(cell)
    });
    let test = test(&ratio("sendmsg", "send-fields", NODELAY, "within 1..1.3"));
    let found = judged(&world, &world.analyse(), &test);
    assert_eq!(found.ruling, Ruling::CannotBeSettled, "{}", found.because);
    assert!(found.because.contains("more blocks"), "{}", found.because);
    assert!(!found.is_silent());
}

#[test]
fn the_reason_is_judged_after_the_effect() {
    let faster = test(&ratio(
        "send-zerocopy",
        "send-fields",
        "where = { nodelay = [\"on\"], size = [\"32KiB\", \"128KiB\"] }\n",
        "above 1",
    ));
    check(&faster, Ruling::Holds, &["6 of 6"]);
    let flag = reason(
        "kind = \"copied-share\"\nwhere = { mover = [\"send-zerocopy\"] }\nexpect = \"below 0.01\"",
        "it was copied",
    );
    check(
        &(faster.clone() + &flag),
        Ruling::HoldsForAnotherReason,
        &["It was copied.", "100 %"],
    );
    let calls = reason(
        &ratio("send-zerocopy", "sendmsg", NODELAY, "above 1"),
        "one call against eight",
    );
    let both = faster.clone() + &flag + &calls;
    check(
        &both,
        Ruling::HoldsForAnotherReason,
        &["It was copied.", "One call against eight."],
    );
    let good = reason(&ratio("send-zerocopy", "sendmsg", NODELAY, "below 1"), "x");
    check(&(faster.clone() + &good), Ruling::Holds, &[]);
    let open = reason("kind = \"copies-per-byte\"", "x");
    check(
        &(faster + &open),
        Ruling::CannotBeSettled,
        &["The effect is there", "were not counted"],
    );
    let slower = test(&ratio("sendmsg", "send-fields", NODELAY, "below 1"));
    check(&(slower + &flag), Ruling::DoesNotHold, &[]);
}

#[test]
fn forty_milliseconds_are_no_copying() {
    let place = "mover = [\"send-fields\"], size = [\"2KiB\"]";
    let level = test(&format!(
        "kind = \"level\"\nmetric = \"latency_us_p50\"\nwhere = {{ {place}, nodelay = [\"off\"] }}\nexpect = \"within 38000..45000\"\n"
    ));
    check(&level, Ruling::Holds, &["from 38,000 to 45,000 µs"]);
    let nodelay = reason(
        &format!(
            "kind = \"ratio\"\nmetric = \"latency_us_p50\"\naxis = \"nodelay\"\nvalue = \"on\"\nagainst = \"off\"\nwhere = {{ {place} }}\nexpect = \"alike\""
        ),
        "it is a timer",
    );
    check(
        &(level.clone() + &nodelay),
        Ruling::HoldsForAnotherReason,
        &["It is a timer."],
    );
    check(
        &level.replace("38000..45000", "10..20"),
        Ruling::DoesNotHold,
        &[],
    );
}

/// The analysis with the doubt that the send-fields cells without TCP_NODELAY stall.
fn stalled(world: &World, analysis: &Analysis) -> Analysis {
    let mut analysis = analysis.clone();
    let cells = world
        .cells
        .iter()
        .filter(|c| c.mover == "send-fields" && !c.sends_at_once());
    analysis.doubts.push(Doubt {
        kind: claim::NAGLE_STALL.to_owned(),
        text: String::new(),
        evidence: String::new(),
        cure: String::new(),
        cells: cells.map(Cell::id).collect(),
    });
    analysis
}

#[test]
fn a_stall_on_one_side_is_told_apart_from_the_effect() {
    let (world, analysis) = common();
    let analysis = stalled(world, analysis);
    let check = |tests: &str, ruling: Ruling, says: &str| {
        let found = judged(world, &analysis, tests);
        assert_eq!(found.ruling, ruling, "{tests}\n{}", found.because);
        assert!(found.because.contains(says), "{}", found.because);
    };
    let off = "where = { nodelay = [\"off\"] }\n";
    let only = test(&ratio("sendmsg", "send-fields", off, "above 1"));
    check(
        &only,
        Ruling::HoldsForAnotherReason,
        "delayed acknowledgement",
    );
    // The same cells without the stall were measured too, and count alone.
    let both = test(&ratio("sendmsg", "send-fields", "", "within 1.3..1.8"));
    check(
        &both,
        Ruling::Holds,
        "12 cells in which one side stalls are left aside",
    );
    let hidden = test(&ratio("sendmsg", "send-fields", off, "below 1"));
    check(&hidden, Ruling::CannotBeSettled, "hides the rest");
}

#[test]
fn a_doubt_is_found_or_not() {
    let of = |doubt: &str, mover: &str, expect: &str| {
        test(&format!(
            "kind = \"stall\"\ndoubt = \"{doubt}\"\nwhere = {{ mover = [\"{mover}\"] }}\nexpect = \"{expect}\"\n"
        ))
    };
    check(
        &of("zero-copy-copied", "send-zerocopy", "present"),
        Ruling::Holds,
        &["24 of 24"],
    );
    check(
        &of("zero-copy-copied", "send-zerocopy", "absent"),
        Ruling::DoesNotHold,
        &[],
    );
    check(
        &of("zero-copy-copied", "sendmsg", "present"),
        Ruling::DoesNotHold,
        &[],
    );
    check(
        &of("bad-luck", "sendmsg", "absent"),
        Ruling::CannotBeSettled,
        &["does not look for `bad-luck`"],
    );
}

#[test]
fn crossovers_are_near_the_claimed_place_or_not() {
    let of = |mover: &str, from: &str| {
        test(&format!(
            "kind = \"crossover\"\nmetric = \"throughput_gbit_per_s\"\naxis = \"mover\"\nvalue = \"{mover}\"\nagainst = \"send-fields\"\n{NODELAY}expect = \"from {from}\"\n"
        ))
    };
    check(
        &of("send-zerocopy", "32KiB"),
        Ruling::Holds,
        &["3 of 3 places"],
    );
    check(
        &of("send-zerocopy", "2KiB"),
        Ruling::DoesNotHold,
        &["better from between 2"],
    );
    check(
        &of("sendmsg", "8KiB"),
        Ruling::DoesNotHold,
        &["from the least, 2 KiB"],
    );
    check(&of("splice", "8KiB"), Ruling::CannotBeSettled, &["splice"]);
}

#[test]
fn threads_are_told_apart_by_the_cpus_that_there_are() {
    let of = |threads: &str, metric: &str, expect: &str| {
        test(&format!(
            "kind = \"scaling\"\nmetric = \"{metric}\"\nwhere = {{ mover = [\"sendmsg\"], nodelay = [\"on\"], size = [\"2KiB\"] }}\nthreads = \"{threads}\"\nexpect = \"{expect}\"\n"
        ))
    };
    let gbit = "throughput_gbit_per_s";
    check(
        &of("1..8", gbit, "below 1"),
        Ruling::Holds,
        &["from 1 to 8 threads"],
    );
    check(
        &of("within-cpus", gbit, "below 1"),
        Ruling::DoesNotHold,
        &["every thread has a CPU"],
    );
    check(
        &of("beyond-cpus", gbit, "below 1"),
        Ruling::Holds,
        &["with 8 threads against 2"],
    );
    check(
        &of("3..8", gbit, "below 1"),
        Ruling::CannotBeSettled,
        &["with 3 and with 8"],
    );
    check(
        &of("1..8", "llc_load_misses_per_kib", "above 1"),
        Ruling::CannotBeSettled,
        &["was not read"],
    );
    let mut one = small();
    one.manifest.host.cpus_allowed = vec![0];
    let found = judged(&one, &one.analyse(), &of("within-cpus", gbit, "below 1"));
    assert_eq!(found.ruling, Ruling::CannotBeSettled);
    assert!(found.because.contains("1 CPU"), "{}", found.because);
}

#[test]
fn counters_are_compared_where_there_are_any() {
    let gains = test(
        "kind = \"counter\"\nmetrics = [\"l1d_load_misses_per_kib\", \"llc_load_misses_per_kib\"]\naxis = \"mover\"\nvalue = \"sendmsg\"\nagainst = \"send-fields\"\nwhere = { nodelay = [\"on\"], size = [\"2KiB\"], threads = [1] }\n",
    );
    check(
        &gains,
        Ruling::CannotBeSettled,
        &["L1d load misses per KiB"],
    );
    let with = |l1: u64, llc: u64| {
        let mut world = small();
        let few = |cell: &Cell| if cell.mover == "sendmsg" { 2 } else { 1 };
        let divisors: Vec<u64> = world.cells.iter().map(few).collect();
        world.change(
            |_| true,
            |sample| {
                let by = divisors[sample.trial.cell as usize];
                let sides = [Some(&mut sample.sender), sample.receiver.as_mut()];
                for side in sides.into_iter().flatten() {
                    for (counter, n) in [
                        (
                            Counter::L1dLoadMisses,
                            1_000_000 / by.pow(u32::try_from(l1).unwrap()),
                        ),
                        (
                            Counter::LlcLoadMisses,
                            1_000_000 / by.pow(u32::try_from(llc).unwrap()),
                        ),
                        (Counter::PerfEnabledNs, 10),
                        (Counter::PerfRunningNs, 10),
                    ] {
                        side.readings.insert(counter, Reading::Measured(n));
                    }
                }
            },
        );
        judged(&world, &world.analyse(), &gains).ruling
    };
    assert_eq!(with(2, 1), Ruling::Holds);
    assert_eq!(with(1, 3), Ruling::DoesNotHold);
    assert_eq!(with(1, 1), Ruling::CannotBeSettled);
}

#[test]
fn published_files_are_held_against_themselves() {
    let own =
        "impl,size,threads,gbit\na,1,1,2.0\na,1,2,3.0\na,2,1,5.0\nb,1,1,1.0\nb,1,2,1.0\nb,2,1,0\n";
    let tables = [
        Table::parse("own", own).unwrap(),
        Table::parse("headline", "impl,size,gbit\na,1,2.5\na,2,9.0\n").unwrap(),
        Table::parse("bad", "x\nNaN\n").unwrap(),
    ];
    let (world, analysis) = common();
    let check = |test: &str, ruling: Ruling, says: &str| {
        let claims = claims(&format!("[[claim.test]]\nkind = \"arithmetic\"\n{test}\n"));
        let grounds = Grounds {
            claims: &claims,
            tables: &tables,
            ..Grounds::default()
        };
        let found = audit(world.input(), analysis, &grounds).remove(0);
        assert_eq!(found.ruling, ruling, "{test}\n{}", found.because);
        assert!(found.because.contains(says), "{}", found.because);
    };
    let among = "table = \"headline\"\ncolumn = \"gbit\"\nother = { table = \"own\" }\nby = [\"impl\", \"size\"]\nexpect = \"among\"";
    check(
        among,
        Ruling::DoesNotHold,
        "impl a, size 2 9.00; its own data 5.00 to 5.00",
    );
    let small = "rows = { size = 1 }\n";
    check(&format!("{small}{among}"), Ruling::Holds, "");
    let quotient = "table = \"own\"\ncolumn = \"gbit\"\nrows = { impl = \"a\", size = 1 }\nother = { rows = { impl = \"b\", size = 1 } }\n";
    check(
        &format!("{quotient}expect = \"is 2.5\""),
        Ruling::Holds,
        "2.50 (2.50 / 1.00)",
    );
    check(
        &format!("{quotient}by = [\"threads\"]\nexpect = \"is 2.5\""),
        Ruling::DoesNotHold,
        "2 of 2 rows",
    );
    check(
        &format!("{quotient}by = [\"threads\"]\nexpect = \"is 2.5\"\ntolerance = 0.25"),
        Ruling::Holds,
        "",
    );
    let zero = quotient.replace("size = 1", "size = 2");
    check(
        &format!("{zero}expect = \"above 1\""),
        Ruling::CannotBeSettled,
        "no number",
    );
    check(
        "table = \"no\"\ncolumn = \"x\"\nexpect = \"is 0\"",
        Ruling::CannotBeSettled,
        "no.csv",
    );
    check(
        "table = \"own\"\ncolumn = \"x\"\nexpect = \"is 0\"",
        Ruling::CannotBeSettled,
        "its columns are impl, size",
    );
    check(
        "table = \"bad\"\ncolumn = \"x\"\nexpect = \"is 0\"",
        Ruling::CannotBeSettled,
        "bad.csv, line 2",
    );
    check(
        "table = \"own\"\ncolumn = \"gbit\"\nrows = { impl = \"c\" }\nexpect = \"is 0\"",
        Ruling::CannotBeSettled,
        "has no such row",
    );
}

#[test]
fn published_figures_stand_beside_measured_ones() {
    let metric = Metric::both(Measure::ThroughputGbitPerS);
    let row = |mover: &str, gbit: f64| {
        let mut cell = Cell::default();
        for (axis, value) in [
            (Axis::Pattern, "ask"),
            (Axis::Mover, mover),
            (Axis::Size, "2KiB"),
        ] {
            cell.set(axis, value).unwrap();
        }
        PublishedCell {
            id: cell.id(),
            cell,
            values: [(metric, gbit)].into(),
        }
    };
    let published = [Published {
        source: "blog".to_owned(),
        cells: vec![row("sendmsg", 4.0), row("send-fields", 0.5)],
    }];
    let (world, analysis) = common();
    let claims = claims(&test(&ratio(
        "sendmsg",
        "send-fields",
        "where = { nodelay = [\"on\"], threads = [1] }\n",
        "above 1",
    )));
    let grounds = Grounds {
        claims: &claims,
        published: &published,
        ..Grounds::default()
    };
    let found = audit(world.input(), analysis, &grounds).remove(0);
    let shown: Vec<Option<&str>> = found
        .figures
        .iter()
        .map(|f| f.published.as_deref())
        .collect();
    assert_eq!(
        shown,
        [Some("8.00× (4.00 against 0.500)"), None, None, None]
    );
    assert!(found.figures.iter().all(|f| {
        f.measured
            .as_ref()
            .is_some_and(|m| ["1.4", "1.5"].iter().any(|n| m.starts_with(n)))
    }));
    assert_eq!(found.findings.len(), 4);
    let beside = bytecost_analysis::beside(&published[0], &world.cells);
    let ids: Vec<&str> = beside.cells.iter().map(|c| c.id.as_str()).collect();
    let wanted = world
        .cells
        .iter()
        .filter(|c| c.size_bytes == 2048 && c.threads == 1 && c.mover != "send-zerocopy");
    assert_eq!(ids, wanted.map(Cell::id).collect::<Vec<_>>());
}

#[test]
fn a_run_without_trials_shows_what_was_published() {
    let mut world = World::new(STUDY);
    world.cells.truncate(2);
    let metric = Metric::both(Measure::ThroughputGbitPerS);
    let row = |cell: &Cell| PublishedCell {
        id: cell.id(),
        cell: cell.clone(),
        values: [(metric, 7.0)].into(),
    };
    let published = Published {
        source: "blog".to_owned(),
        cells: world.cells.iter().map(row).collect(),
    };
    let analysis = bytecost_analysis::analyse(bytecost_analysis::Input {
        published: Some(&published),
        ..world.input()
    });
    let estimate = analysis.cells[0].estimates[&metric];
    assert_eq!(
        (estimate.value, estimate.low, estimate.trials),
        (7.0, None, 0)
    );
    let found = judged(
        &world,
        &analysis,
        &test(&ratio("sendmsg", "send-fields", "", "above 1")),
    );
    assert_eq!(found.ruling, Ruling::CannotBeSettled);
}
