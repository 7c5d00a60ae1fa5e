//! How often bytes are copied and what else a message takes: what counts come to.

use crate::world;

use bytecost_analysis::Analysis;
use bytecost_spec::evidence::{
    Copied, CopiedBytes, CopyMeans, CopyPlace, CountedEvent, EventCount, EvidenceAsked, Means,
    TrialEvidence,
};
use bytecost_spec::{Measure, Metric, Reading, Side, TrialKey};
use world::{STUDY, True, World, question};

const PAYLOAD_BYTES: u64 = 1 << 30;
const MESSAGES: u64 = 1000;

fn asked(means: Means) -> EvidenceAsked {
    EvidenceAsked {
        means,
        refused: None,
        unasked: false,
    }
}

fn leg(leg: CopyPlace, per_byte: f64) -> Copied {
    Copied {
        leg,
        means: Some(CopyMeans::Tracepoints),
        bytes: Reading::Measured((per_byte * PAYLOAD_BYTES as f64) as u64),
    }
}

/// Copies into the kernel, on delivery and to the reader; and calls for each message.
fn evidence(world: &World, cell: usize, copies: [f64; 3], calls: u64) -> TrialEvidence {
    let legs = [
        CopyPlace::IntoKernel,
        CopyPlace::Delivery,
        CopyPlace::ToReader,
    ];
    let count = |event, side, count| EventCount { event, side, count };
    TrialEvidence {
        trial: TrialKey {
            block: 0,
            cell: cell as u32,
            attempt: 1,
        },
        cell: world.cells[cell].id(),
        started_ms: 0,
        sent_bytes: PAYLOAD_BYTES / 2,
        sent_messages: MESSAGES,
        trial_ms: 200,
        elapsed_ns: 50_000_000,
        time: None,
        copies: Some(CopiedBytes {
            payload_bytes: PAYLOAD_BYTES,
            legs: legs
                .into_iter()
                .zip(copies)
                .map(|(l, c)| leg(l, c))
                .collect(),
            gaps: vec!["no function of the kernel can be hooked: not permitted".to_owned()],
        }),
        footprint: None,
        accounts: None,
        counts: vec![
            count(
                CountedEvent::SystemCalls,
                Side::Sender,
                Reading::Measured(calls * MESSAGES),
            ),
            count(
                CountedEvent::SystemCalls,
                Side::Receiver,
                Reading::Measured(MESSAGES),
            ),
            count(
                CountedEvent::PageFaults,
                Side::Sender,
                Reading::absent("self-test failed"),
            ),
        ],
    }
}

fn cell(world: &World, mover: &str, size: &str) -> usize {
    let size = bytecost_spec::units::parse_bytes(size).unwrap();
    let own = |c: &bytecost_spec::Cell| c.mover == mover && c.size_bytes == size;
    world.cells.iter().position(own).unwrap()
}

/// A run in which sendfile costs a third of send and saves its copy into the kernel; zero-copy
/// saves none, `flagged` as copied and copied on delivery so often.
fn counted(flagged: f64, on_delivery: f64) -> World {
    let mut world = World::new(STUDY).run(5, 12, 0.02, |cell| match cell.mover.as_str() {
        "sendfile" => True::costs(0.1),
        "send-zerocopy" => True {
            copied: Some(flagged),
            ..True::costs(0.2)
        },
        _ => True::costs(0.3),
    });
    world.manifest.evidence = vec![asked(Means::Copies), asked(Means::Counts)];
    let mut found = Vec::new();
    for size in ["256", "4KiB", "64KiB", "1MiB"] {
        for (mover, copies, calls) in [
            ("send", [1.0, 0.0, 1.0], 1),
            ("writev", [1.0, 0.0, 1.0], 1),
            ("send-zerocopy", [0.0, on_delivery, 1.0], 1),
            ("sendfile", [0.0, 0.0, 1.0], 4),
        ] {
            // One was beyond the time that there was.
            if (mover, size) == ("writev", "256") {
                continue;
            }
            let at = cell(&world, mover, size);
            found.push(evidence(&world, at, copies, calls));
        }
    }
    world.evidence = found;
    world
}

fn answer(analysis: &Analysis, key: &str) -> String {
    let told = question(analysis, key).unwrap_or_else(|| panic!("{key} is not asked"));
    told.answer.clone().unwrap_or_else(|| panic!("{told:?}"))
}

fn missing(analysis: &Analysis, key: &str) -> String {
    let told = question(analysis, key).unwrap_or_else(|| panic!("{key} is not asked"));
    told.missing.clone().unwrap_or_else(|| panic!("{told:?}"))
}

#[test]
fn copies_become_a_metric_of_each_side() {
    let world = counted(1.0, 1.0);
    let analysis = world.analyse();
    let check = |mover: &str, expected: [f64; 3]| {
        let id = world.cells[cell(&world, mover, "1MiB")].id();
        let found = analysis.cells.iter().find(|c| c.id == id).unwrap();
        let sides = [Side::Both, Side::Sender, Side::Receiver];
        for (side, expected) in sides.into_iter().zip(expected) {
            let measure = Measure::CopiesPerByte;
            let estimate = found.estimates[&Metric { measure, side }];
            assert!((estimate.value - expected).abs() < 1e-9, "{mover} {side:?}");
            assert_eq!((estimate.low, estimate.trials), (None, 1));
        }
    };
    check("send", [2.0, 1.0, 1.0]);
    check("send-zerocopy", [2.0, 0.0, 2.0]);
    check("sendfile", [1.0, 0.0, 1.0]);
    let uncounted = world.cells[cell(&world, "writev", "256")].id();
    let uncounted = analysis.cells.iter().find(|c| c.id == uncounted).unwrap();
    let copies = Metric::both(Measure::CopiesPerByte);
    assert!(!uncounted.estimates.contains_key(&copies));
    assert_eq!(analysis.counts.len(), 15);
    let cost = analysis.counting_cost.unwrap();
    assert_eq!(cost.cells, 15);
    assert!((cost.took_s - 3.0).abs() < 1e-9 && cost.rate.is_some());
}

#[test]
fn a_difference_is_told_by_copies() {
    let analysis = counted(1.0, 1.0).analyse();
    let told = answer(&analysis, "why-one-way-wins");
    for part in [
        "`sendfile` has 0.",
        "1.00 copies of each byte instead of 2.00",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // It is the cheaper one, and has more calls.
    assert!(
        !told.contains("calls") && !told.contains("page faults"),
        "{told}"
    );
    let told = answer(&analysis, "copies-per-byte");
    for part in [
        "`send` and `writev` 2.00 times (1.00 into the kernel and 1.00 to the reader)",
        "`send-zerocopy` 2.00 times (1.00 on delivery and 1.00 to the reader)",
        "`sendfile` 1.00 times (1.00 to the reader)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let evidence = question(&analysis, "copies-per-byte")
        .unwrap()
        .evidence
        .join("\n");
    for part in ["tracepoints", "not permitted", "3.0 s", "15 trials of 16"] {
        assert!(evidence.contains(part), "{part}: {evidence}");
    }
}

#[test]
fn zero_copy_that_was_copied_gets_no_verdict_about_zero_copy() {
    let key = "zero-copy-against-copying";
    let told = missing(&counted(1.0, 1.0).analyse(), key);
    for part in [
        "withheld",
        "100 % of the bytes, as was counted",
        "send-wire",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Where nothing copies it, there is one.
    let real = counted(0.0, 0.0).analyse();
    assert!(!missing_or_answer(&real, key).contains("withheld"));
    // Flags alone withhold it as well.
    let mut flagged = counted(1.0, 1.0);
    flagged.evidence.clear();
    let told = missing(&flagged.analyse(), key);
    assert!(told.contains("100 % of the buffers"), "{told}");
}

fn missing_or_answer(analysis: &Analysis, key: &str) -> String {
    let told = question(analysis, key).unwrap();
    told.answer.clone().or(told.missing.clone()).unwrap()
}

#[test]
fn flags_that_counts_contradict_are_told_and_not_believed() {
    let caveats = |flagged, on_delivery| -> Vec<String> {
        let analysis = counted(flagged, on_delivery).analyse();
        analysis.caveats.iter().map(|d| d.kind.clone()).collect()
    };
    let has = |all: &[String], kind: &str| all.iter().any(|k| k == kind);
    let wrong = caveats(0.97, 0.0);
    assert!(has(&wrong, "flags-contradicted"), "{wrong:?}");
    let right = caveats(1.0, 1.0);
    assert!(!has(&right, "flags-contradicted") && has(&right, "zero-copy-copied"));
    let none = caveats(0.0, 0.0);
    assert!(!has(&none, "flags-contradicted") && !has(&none, "zero-copy-copied"));
    // Not counted, the flag stands.
    let mut world = counted(0.97, 0.0);
    world.evidence.clear();
    let flagged = world.analyse();
    assert!(flagged.caveats.iter().any(|d| d.kind == "zero-copy-copied"));
    let told = flagged.copies.iter().flat_map(|c| &c.legs);
    assert!(told.clone().count() > 0);
    assert!(
        told.clone()
            .all(|l| l.means == Some(CopyMeans::CompletionFlags))
    );
}

#[test]
fn what_was_not_counted_is_told_or_not_asked() {
    let mut world = counted(1.0, 1.0);
    world.evidence.clear();
    let told = missing(&world.analyse(), "copies-per-byte");
    assert!(told.contains("--resume"), "{told}");
    let told = answer(&world.analyse(), "why-one-way-wins");
    assert!(told.contains("counts of timed trials"), "{told}");
    for asked in &mut world.manifest.evidence {
        asked.refused = Some("it needs root".to_owned());
    }
    assert_eq!(
        missing(&world.analyse(), "copies-per-byte"),
        "it needs root"
    );
    for asked in &mut world.manifest.evidence {
        asked.unasked = true;
    }
    let unasked = world.analyse();
    assert!(question(&unasked, "copies-per-byte").is_none());
}

#[test]
fn evidence_of_foreign_cells_and_of_nothing_is_left_out() {
    let mut world = counted(1.0, 1.0);
    world.evidence.truncate(3);
    world.evidence[0].trial.cell = 4000;
    world.evidence[1].cell = "another".to_owned();
    world.evidence[2].sent_messages = 0;
    world.evidence[2].copies.as_mut().unwrap().payload_bytes = 0;
    let analysis = world.analyse();
    assert!(analysis.counts.is_empty());
    assert!(analysis.copies.iter().all(|c| c.is_flagged_only()));
}

#[test]
fn a_place_that_was_not_counted_is_absent_with_its_reason() {
    let mut world = counted(1.0, 1.0);
    let copies = world.evidence[0].copies.as_mut().unwrap();
    copies.legs[0] = Copied {
        leg: CopyPlace::IntoKernel,
        means: None,
        bytes: Reading::absent("no packets"),
    };
    let analysis = world.analyse();
    let id = &world.evidence[0].cell;
    let found = analysis.cells.iter().find(|c| c.id == *id).unwrap();
    let copies = Metric::both(Measure::CopiesPerByte);
    assert_eq!(found.absent[&copies], "no packets");
    let receiver = Metric {
        side: Side::Receiver,
        ..copies
    };
    assert_eq!(found.estimates[&receiver].value, 1.0);
}
