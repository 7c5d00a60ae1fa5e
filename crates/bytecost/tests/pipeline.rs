//! The whole way from a study to the page, with the `null` mover and a scripted meter: the same
//! bytes every time.

use std::time::Duration;

use bytecost_analysis::{Analysis, Input, Verdict, analyse};
use bytecost_engine::{MOVERS, Mover, RECEIVERS, Setup};
use bytecost_lab::flow::{Finish, stream};
use bytecost_lab::phase::CountingGate;
use bytecost_meter::{FakeMeter, Meter};
use bytecost_plan::Plan;
use bytecost_spec::manifest::FORMAT;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{
    Axis, Cell, Counter, Host, Manifest, Reading, Record, Refusal, Sample, SideReadings, Study,
    Support, Survey, Transport, TrialKey,
};
use bytecost_store::Root;

const BLOCKS: u32 = 10;
const STUDY: &str = r#"
name = "pipeline"
title = "Made up"
question = "Does the house hold?"
prediction = "It does."
smallest-effect = "5%"
precision = "1%"
budget = "60s"
warmup = "1ms"
window = "1ms"
blocks-least = 10
blocks-most = 10

[axes]
mover = ["send", "sendfile", "writev"]
size = ["4KiB", "64KiB"]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb"]

[[figure]]
title = "CPU time per byte"
x = "size"
y = "cpu_s_per_gb"
series = "mover"
"#;

fn manifest() -> Manifest {
    let mut study = Study::parse(STUDY).unwrap();
    study.twins = true;
    study
        .set_axis(Axis::Receiver, &["recv".to_owned()])
        .unwrap();
    let all = |names: Vec<&str>| -> Vec<Support> {
        names
            .into_iter()
            .map(|n| Support {
                name: n.to_owned(),
                transport: Transport::Loopback,
                refused: None,
            })
            .collect()
    };
    Manifest {
        format: FORMAT,
        id: "pipeline".to_owned(),
        bytecost_version: "0.0.0".to_owned(),
        build_id: None,
        legs: Vec::new(),
        bisection: None,
        looks: Vec::new(),
        peer: None,
        own_cards: Vec::new(),
        expectation: None,
        started: "2026-01-01T00:00:00Z".to_owned(),
        seed: 11,
        command: vec!["bytecost".to_owned()],
        study,
        host: Host {
            congestion_available: vec!["cubic".to_owned()],
            nofile_limit: 1024,
            memory_bytes: 8 << 30,
            cpus_allowed: vec![0, 1],
            ..Host::default()
        },
        evidence: Vec::new(),
        survey: Survey {
            java: None,
            serving: None,
            mover_facts: MOVERS.iter().map(|m| m.facts.owned()).collect(),
            receiver_facts: RECEIVERS.iter().map(|r| r.facts.owned()).collect(),
            movers: all(MOVERS.iter().map(|m| m.name).collect()),
            receivers: all(RECEIVERS.iter().map(|r| r.name).collect()),
            congestion_controls: vec!["cubic".to_owned()],
            counters_refused: vec![Refusal {
                what: "cycles".to_owned(),
                why: "a made-up machine has none".to_owned(),
            }],
            ..Survey::default()
        },
    }
}

/// What a message costs by the script: `sendfile` half of `send`, `writev` the same.
fn cost_ns(cell: &Cell, block: u32) -> u64 {
    let base = match cell.mover.as_str() {
        "null" => 4,
        "sendfile" => 500,
        _ => 1000,
    };
    // A drift that all cells of a block share.
    base * (100 + u64::from(block)) / 100
}

/// A trial: the real loop with the `null` mover, under a meter that follows the script.
fn trial(cell: &Cell, number: u32, block: u32) -> Sample {
    let null = Mover::named("null").unwrap();
    let setup = Setup {
        slots: 4,
        ..Setup::new(cell.size_bytes as usize, Duration::from_secs(1))
    };
    let mut mover = null.open(setup).unwrap();
    let messages = 999;
    let ns = cost_ns(cell, block) * messages;
    let step = [(Counter::ElapsedNs, ns), (Counter::CpuNs, ns)];
    let mut meter =
        FakeMeter::new(&[&[], &step]).lacking(Counter::Cycles, "a made-up machine has none");
    let finish = Finish {
        closed: || (),
        messages_least: 0,
    };
    let window = stream(
        &mut *mover,
        &CountingGate::new(10, 1000),
        &mut meter,
        finish,
    )
    .unwrap();
    let moved = window.to.tally.messages - window.from.tally.messages;
    assert_eq!(moved, messages);
    let bytes = moved * cell.size_bytes;
    let mut readings = meter.difference(&window.from.snapshot, &window.to.snapshot);
    readings.insert(Counter::Bytes, Reading::Measured(bytes));
    readings.insert(Counter::Messages, Reading::Measured(moved));
    let side = SideReadings {
        readings,
        flows: vec![FlowReading {
            bytes,
            messages: moved,
            elapsed_ns: ns,
        }],
        ..SideReadings::default()
    };
    Sample {
        trial: TrialKey {
            block,
            cell: number,
            attempt: 0,
        },
        cell: cell.id(),
        started_ms: u64::from(block) * 100,
        trial_ms: 3,
        receiver: (cell.mover != "null").then(|| side.clone()),
        sender: side,
        machine: Default::default(),
        peer_machine: Default::default(),
        truth: None,
        latency_ns_histogram: None,
        neighbour: Vec::new(),
        packet_sockets: Vec::new(),
        obstacles: Vec::new(),
        repeated_because: None,
    }
}

/// Study to page: measured, stored, read back, judged, written.
fn all_the_way() -> (Analysis, String) {
    let place = tempfile::tempdir().unwrap();
    let manifest = manifest();
    let plan = Plan::from_manifest(&manifest).unwrap();
    let mut run = Root::at(place.path()).create(&manifest).unwrap();
    for block in 0..BLOCKS {
        for cell in plan.block(block) {
            let sample = trial(&plan.cells[cell], cell as u32, block);
            run.append(&Record::Sample(sample)).unwrap();
        }
    }
    drop(run);
    let run = Root::at(place.path()).open("pipeline").unwrap();
    let samples: Vec<Sample> = run
        .records()
        .unwrap()
        .records
        .into_iter()
        .filter_map(|r| match r {
            Record::Sample(s) => Some(s),
            Record::Selection(_) | Record::Block(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    let analysis = analyse(Input {
        refusals: &plan.refusals,
        left_out: &plan.left_out,
        notes: &plan.notes,
        ..Input::of(run.manifest(), &plan.cells, &samples)
    });
    let page = bytecost_report::html(&analysis);
    (analysis, page)
}

#[test]
fn from_a_study_to_the_same_page_every_time() {
    let (analysis, page) = all_the_way();
    assert_eq!(page, all_the_way().1);
    assert_eq!(analysis.run.blocks, BLOCKS);
    let floor = analysis.loop_floor_ns_per_message.unwrap();
    assert!((4.0..4.5).contains(&floor.value), "{floor:?}");
    for finding in &analysis.findings {
        let (verdict, ratio) = match finding.value.as_str() {
            "sendfile" => (Verdict::Better, 0.5),
            _ => (Verdict::NoDifferenceThatMatters, 1.0),
        };
        assert_eq!(finding.verdict, verdict, "{}", finding.sentence);
        assert!((finding.ratio - ratio).abs() < 0.01, "{}", finding.sentence);
    }
    assert_eq!(analysis.findings.len(), 4);
    let alike = |t: &bytecost_analysis::Twin| (t.ratio - 1.0).abs() < 0.01;
    assert!(analysis.twins.len() == 2 && analysis.twins.iter().all(alike));
    for said in [
        "Does the house hold?",
        "It does.",
        "a made-up machine has none",
        "<svg",
    ] {
        assert!(page.contains(said), "{said}");
    }
}
