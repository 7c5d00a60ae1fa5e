//! Copies of each byte and events of each message, by counts.

use bytecost_spec::evidence::{CopyMeans, CopyPlace, CountedEvent, EventCount, Means};
use bytecost_spec::{Reading, Side};

use crate::judge::count_copies;
use crate::world::{STUDY, True, World, answered, fires, missing, question, silent};

/// A run in which sendfile costs a third of send and saves its copy into the kernel; zero-copy
/// saves none, `flagged` as copied and copied on delivery so often. Each message takes a call.
fn counted(flagged: f64, on_delivery: f64) -> World {
    let mut world = World::new(STUDY).run(5, 12, 0.02, |cell| match cell.mover.as_str() {
        "sendfile" => True::costs(0.1),
        "send-zerocopy" => True::costs(0.2).copied(Some(flagged)),
        _ => True::costs(0.3),
    });
    world.ask(&[Means::Copies, Means::Counts]);
    count_copies(&mut world, |cell| {
        let (into_kernel, delivered) = match cell.mover.as_str() {
            "null" => return None,
            "send" | "writev" => (1000, 0.0),
            "send-zerocopy" => (0, 1000.0 * on_delivery),
            _ => (0, 0.0),
        };
        Some([
            (CopyPlace::FromFile, 0),
            (CopyPlace::IntoKernel, into_kernel),
            (CopyPlace::Delivery, delivered as u64),
            (CopyPlace::ToReader, 1000),
        ])
    });
    for evidence in &mut world.evidence {
        let count = |event, side, count| EventCount { event, side, count };
        let calls = Reading::Measured(evidence.sent_messages);
        let faults = Reading::absent("self-test failed");
        evidence.counts = vec![
            count(CountedEvent::SystemCalls, Side::Sender, calls.clone()),
            count(CountedEvent::SystemCalls, Side::Receiver, calls),
            count(CountedEvent::PageFaults, Side::Sender, faults),
        ];
    }
    world
}

#[test]
fn flags_that_counts_contradict_are_reported_and_not_believed() {
    let mut world = counted(0.97, 0.0);
    fires(&world, "flags-contradicted", 4, "");
    silent(&counted(1.0, 1.0), "flags-contradicted");
    fires(&counted(1.0, 1.0), "zero-copy-copied", 4, "");
    silent(&counted(0.0, 0.0), "flags-contradicted");
    silent(&counted(0.0, 0.0), "zero-copy-copied");
    // Not counted, the flag stands.
    world.evidence.clear();
    fires(&world, "zero-copy-copied", 4, "");
    let flagged = world.analyse();
    let mut legs = flagged.copies.iter().flat_map(|c| &c.legs).peekable();
    assert!(legs.peek().is_some());
    assert!(legs.all(|l| l.means == Some(CopyMeans::CompletionFlags)));
}

#[test]
fn what_was_not_counted_is_reported_or_not_asked() {
    let mut world = counted(1.0, 1.0);
    world.ask(&[Means::Copies, Means::Counts, Means::Time]);
    world.evidence.clear();
    let evidence = &["counts of timed trials"];
    answered(&world.analyse(), "why-one-way-wins", evidence);
    missing(&world.analyse(), "copies-per-byte", &["--resume"]);
    for asked in &mut world.manifest.evidence {
        asked.refused = Some("it needs root".to_owned());
    }
    let refused = world.analyse();
    missing(&refused, "copies-per-byte", &["it needs root"]);
    let why = question(&refused, "why-one-way-wins").unwrap();
    assert_eq!(why.evidence, ["no CPU samples: it needs root"]);
    for asked in &mut world.manifest.evidence {
        asked.unasked = true;
    }
    assert!(question(&world.analyse(), "copies-per-byte").is_none());
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
