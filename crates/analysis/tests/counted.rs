//! How often bytes are copied and what else a message takes: what counts come to.

use bytecost_spec::evidence::{
    Copied, CopiedBytes, CopyMeans, CopyPlace, CountedEvent, EventCount, Means, TrialEvidence,
};
use bytecost_spec::{Measure, Metric, Reading, Side};

use crate::world::{Found, STUDY, True, World, answered, missing, question, says};

const PAYLOAD_BYTES: u64 = 1 << 30;
const MESSAGES: u64 = 1000;

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
    let legs = legs.into_iter().zip(copies).map(|(l, c)| leg(l, c));
    let count = |event, side, count| EventCount { event, side, count };
    let (sender, receiver) = (Side::Sender, Side::Receiver);
    let (called, once) = (calls * MESSAGES, Reading::Measured(MESSAGES));
    let faults = Reading::absent("self-test failed");
    TrialEvidence {
        sent_bytes: PAYLOAD_BYTES / 2,
        sent_messages: MESSAGES,
        trial_ms: 200,
        elapsed_ns: 50_000_000,
        copies: Some(CopiedBytes {
            payload_bytes: PAYLOAD_BYTES,
            legs: legs.collect(),
            gaps: vec!["no function of the kernel can be hooked: not permitted".to_owned()],
        }),
        counts: vec![
            count(CountedEvent::SystemCalls, sender, Reading::Measured(called)),
            count(CountedEvent::SystemCalls, receiver, once),
            count(CountedEvent::PageFaults, sender, faults),
        ],
        ..world.evidence_of(cell)
    }
}

/// A run in which sendfile costs a third of send and saves its copy into the kernel; zero-copy
/// saves none, `flagged` as copied and copied on delivery so often.
fn counted(flagged: f64, on_delivery: f64) -> World {
    let mut world = World::new(STUDY).run(5, 12, 0.02, |cell| match cell.mover.as_str() {
        "sendfile" => True::costs(0.1),
        "send-zerocopy" => True::costs(0.2).copied(Some(flagged)),
        _ => True::costs(0.3),
    });
    world.ask(&[Means::Copies, Means::Counts]);
    let mut found = Vec::new();
    for size in [256, 4096, 65_536, 1 << 20] {
        for (mover, copies, calls) in [
            ("send", [1.0, 0.0, 1.0], 1),
            ("writev", [1.0, 0.0, 1.0], 1),
            ("send-zerocopy", [0.0, on_delivery, 1.0], 1),
            ("sendfile", [0.0, 0.0, 1.0], 4),
        ] {
            // One was beyond the time that there was.
            if (mover, size) == ("writev", 256) {
                continue;
            }
            let at = world.place(mover, size);
            found.push(evidence(&world, at, copies, calls));
        }
    }
    world.evidence = found;
    world
}

#[test]
fn copies_become_a_metric_of_each_side() {
    let world = counted(1.0, 1.0);
    let analysis = world.analyse();
    let check = |mover: &str, expected: [f64; 3]| {
        let id = world.id(mover, 1 << 20);
        let found = analysis.of_id(&id);
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
    let uncounted = analysis.of_id(&world.id("writev", 256));
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
    let words = [
        "`sendfile` has 0.",
        "1.00 copies of each byte instead of 2.00",
    ];
    let told = answered(&analysis, "why-one-way-wins", &words);
    let told = told.answer.as_deref().unwrap();
    // It is the cheaper one, and has more calls.
    let others = ["calls", "page faults"];
    assert!(!others.iter().any(|other| told.contains(other)), "{told}");
    let words = [
        "`send` and `writev` 2.00 times (1.00 into the kernel and 1.00 to the reader)",
        "`send-zerocopy` 2.00 times (1.00 on delivery and 1.00 to the reader)",
        "`sendfile` 1.00 times (1.00 to the reader)",
    ];
    let told = answered(&analysis, "copies-per-byte", &words);
    let evidence = told.evidence.join("\n");
    says(
        &evidence,
        ["tracepoints", "not permitted", "3.0 s", "15 trials of 16"],
    );
}

#[test]
fn zero_copy_that_was_copied_gets_no_verdict_about_zero_copy() {
    let key = "zero-copy-against-copying";
    let counted_as_such = "100 % of the bytes, as was counted";
    let words = ["withheld", counted_as_such, "send-wire"];
    missing(&counted(1.0, 1.0).analyse(), key, &words);
    // Where nothing copies it, there is one.
    let real = counted(0.0, 0.0).analyse();
    let told = question(&real, key).unwrap();
    let told = told.answer.as_ref().or(told.missing.as_ref());
    assert!(!told.unwrap().contains("withheld"));
    // Flags alone withhold it as well.
    let mut flagged = counted(1.0, 1.0);
    flagged.evidence.clear();
    missing(&flagged.analyse(), key, &["100 % of the buffers"]);
}

#[test]
fn flags_that_counts_contradict_are_told_and_not_believed() {
    let has = |flagged, on_delivery, kind: &str| {
        let analysis = counted(flagged, on_delivery).analyse();
        !analysis.of_kind(kind).is_empty()
    };
    assert!(has(0.97, 0.0, "flags-contradicted"));
    assert!(!has(1.0, 1.0, "flags-contradicted") && has(1.0, 1.0, "zero-copy-copied"));
    assert!(!has(0.0, 0.0, "flags-contradicted") && !has(0.0, 0.0, "zero-copy-copied"));
    // Not counted, the flag stands.
    let mut world = counted(0.97, 0.0);
    world.evidence.clear();
    let flagged = world.analyse();
    assert_eq!(flagged.of_kind("zero-copy-copied").len(), 1);
    let mut legs = flagged.copies.iter().flat_map(|c| &c.legs).peekable();
    assert!(legs.peek().is_some());
    assert!(legs.all(|l| l.means == Some(CopyMeans::CompletionFlags)));
}

#[test]
fn what_was_not_counted_is_told_or_not_asked() {
    let mut world = counted(1.0, 1.0);
    world.evidence.clear();
    missing(&world.analyse(), "copies-per-byte", &["--resume"]);
    let told = &["counts of timed trials"];
    answered(&world.analyse(), "why-one-way-wins", told);
    for asked in &mut world.manifest.evidence {
        asked.refused = Some("it needs root".to_owned());
    }
    missing(&world.analyse(), "copies-per-byte", &["it needs root"]);
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
    let found = analysis.of_id(&world.evidence[0].cell);
    let copies = Metric::both(Measure::CopiesPerByte);
    assert_eq!(found.absent[&copies], "no packets");
    let receiver = Metric {
        side: Side::Receiver,
        ..copies
    };
    assert_eq!(found.estimates[&receiver].value, 1.0);
}

#[test]
fn counts_of_one_trial_that_are_absent_leave_those_of_another() {
    let mut world = counted(1.0, 1.0);
    let mut late = world.evidence[0].clone();
    late.trial.block = 1;
    for count in &mut late.counts {
        count.count = Reading::absent("read late");
    }
    world.evidence.insert(0, late);
    let analysis = world.analyse();
    let id = &world.evidence[0].cell;
    let found = analysis.counts.iter().find(|c| c.cell == *id).unwrap();
    let of_sender = |event| {
        let mut own = found.events.iter().filter(|e| e.side == Side::Sender);
        own.find(|e| e.event == event).unwrap()
    };
    let calls = of_sender(CountedEvent::SystemCalls);
    assert_eq!((calls.per_message, &calls.absent), (Some(1.0), &None));
    let faults = of_sender(CountedEvent::PageFaults);
    assert_eq!(faults.per_message, None);
    assert!(faults.absent.is_some());
}
