//! Published claims compared with a run whose truth is known: effects, reasons, stalls.

mod judge;
mod world;

use bytecost_analysis::{Analysis, Caveat, CaveatEffect, Ruling};
use bytecost_spec::{Cell, Refusal, claim};
use judge::{NODELAY, STUDY, check, common, judged, ratio, reason, small, test, truth};
use world::{True, World};

#[test]
fn a_ratio_holds_or_not() {
    let of = |value: &str, expect: &str| test(&ratio(value, "send-fields", NODELAY, expect));
    check(
        &of("sendmsg", "above 1"),
        Ruling::Confirmed,
        &["in 12 of 12 cells"],
    );
    check(
        &of("sendmsg", "within 1.3..1.8"),
        Ruling::Confirmed,
        &["from 1.3 to 1.8"],
    );
    check(&of("sendmsg", "within 4.8..6"), Ruling::Refuted, &["1.5"]);
    check(&of("sendmsg", "below 1"), Ruling::Refuted, &["12 of 12"]);
    check(
        &of("send-zerocopy", "above 1"),
        Ruling::Refuted,
        &["6 of 12", "KiB (8 × "],
    );
    let some = of("send-zerocopy", "above 1") + "cells = \"some\"\n";
    check(&some, Ruling::Confirmed, &["6 of 12", "The kernel copied"]);
    // Against a value that no comparison of the study has as its baseline.
    let turned = test(&ratio("send-fields", "sendmsg", NODELAY, "below 1"));
    check(&turned, Ruling::Confirmed, &[]);
    let beside = test(&ratio("send-zerocopy", "sendmsg", NODELAY, "below 1"));
    check(&beside, Ruling::Confirmed, &["12 of 12"]);
}

#[test]
fn what_was_not_measured_cannot_be_settled() {
    let veth = "where = { transport = [\"veth\"] }\n";
    let absent = test(&ratio("sendmsg", "send-fields", veth, "above 1"));
    check(
        &absent,
        Ruling::Undecided,
        &["transport veth", "sendmsg and send-fields"],
    );
    let cycles = absent
        .replace("throughput_gbit_per_s", "cycles_per_byte")
        .replace(veth, NODELAY);
    check(&cycles, Ruling::Undecided, &["no hardware counters"]);
    check(
        "[[claim.test]]\nkind = \"copies-per-byte\"\nexpect = \"below 1.5\"\n",
        Ruling::Undecided,
        &["were not counted"],
    );
    check(
        "[[claim.test]]\nkind = \"not-in-this-run\"\nstudy = \"servers\"\nwhy = \"clients\"\n",
        Ruling::Undecided,
        &["servers", "does not have"],
    );
    let mut world = small();
    let id = world.id("sendmsg", 2048).replace("loopback", "veth");
    world.refusals.push(Refusal {
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
    assert_eq!(found.ruling, Ruling::Undecided, "{}", found.because);
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
    check(&faster, Ruling::Confirmed, &["6 of 6"]);
    let flag = reason(
        "kind = \"copied-share\"\nwhere = { mover = [\"send-zerocopy\"] }\nexpect = \"below 0.01\"",
        "it was copied",
    );
    check(
        &(faster.clone() + &flag),
        Ruling::ConfirmedForAnotherReason,
        &["It was copied.", "100 %"],
    );
    let calls = reason(
        &ratio("send-zerocopy", "sendmsg", NODELAY, "above 1"),
        "one call against eight",
    );
    let both = faster.clone() + &flag + &calls;
    check(
        &both,
        Ruling::ConfirmedForAnotherReason,
        &["It was copied.", "One call against eight."],
    );
    let good = reason(&ratio("send-zerocopy", "sendmsg", NODELAY, "below 1"), "x");
    check(&(faster.clone() + &good), Ruling::Confirmed, &[]);
    let open = reason("kind = \"copies-per-byte\"\nexpect = \"below 1.5\"", "x");
    check(
        &(faster + &open),
        Ruling::Undecided,
        &["The effect is confirmed", "were not counted"],
    );
    let slower = test(&ratio("sendmsg", "send-fields", NODELAY, "below 1"));
    check(&(slower + &flag), Ruling::Refuted, &[]);
}

#[test]
fn forty_milliseconds_are_no_copying() {
    let place = "mover = [\"send-fields\"], size = [\"2KiB\"]";
    let level = test(&format!(
        "kind = \"level\"\nmetric = \"latency_us_p50\"\nwhere = {{ {place}, nodelay = [\"off\"] }}\nexpect = \"within 38000..45000\"\n"
    ));
    check(&level, Ruling::Confirmed, &["from 38,000 to 45,000 µs"]);
    let nodelay = reason(
        &format!(
            "kind = \"ratio\"\nmetric = \"latency_us_p50\"\naxis = \"nodelay\"\nvalue = \"on\"\nagainst = \"off\"\nwhere = {{ {place} }}\nexpect = \"alike\""
        ),
        "it is a timer",
    );
    check(
        &(level.clone() + &nodelay),
        Ruling::ConfirmedForAnotherReason,
        &["It is a timer."],
    );
    check(
        &level.replace("38000..45000", "10..20"),
        Ruling::Refuted,
        &[],
    );
}

/// The analysis with the caveat that the send-fields cells without TCP_NODELAY stall.
fn stalled(world: &World, analysis: &Analysis) -> Analysis {
    let mut analysis = analysis.clone();
    let cells = world
        .cells
        .iter()
        .filter(|c| c.mover == "send-fields" && !c.sends_at_once());
    analysis.caveats.push(Caveat {
        kind: claim::NAGLE_STALL.to_owned(),
        effect: CaveatEffect::Annotates,
        text: String::new(),
        evidence: String::new(),
        remedy: String::new(),
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
        Ruling::ConfirmedForAnotherReason,
        "delayed acknowledgement",
    );
    // The same cells without the stall were measured too, and count alone.
    let both = test(&ratio("sendmsg", "send-fields", "", "within 1.3..1.8"));
    check(
        &both,
        Ruling::Confirmed,
        "12 cells in which one side stalls are left aside",
    );
    let hidden = test(&ratio("sendmsg", "send-fields", off, "below 1"));
    check(&hidden, Ruling::Undecided, "hides the rest");
}
