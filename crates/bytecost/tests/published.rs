//! The cells of the published studies, each once and briefly: as published and as a careful
//! program does it, all of them give a sample.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::survey::survey;
use bytecost_lab::trial::Settings;
use bytecost_lab::{Lab, TrialOutcome};
use bytecost_meter::MachineMeter;
use bytecost_plan::Plan;
use bytecost_spec::{Axis, Cell, Host, Pattern, Sample, Study, Survey, Transport, TrialKey};

const STUDIES: [(&str, &str); 2] = [
    ("pa02-a", include_str!("../../../studies/pa02-a.toml")),
    ("pa02-b", include_str!("../../../studies/pa02-b.toml")),
];
/// The largest message that stalls in eight sends without TCP_NODELAY: its fields are smaller than
/// a segment of the loopback.
const MOST_STALLED_BYTES: u64 = 32 << 10;
/// How long the kernel delays an acknowledgement at least (TCP_DELACK_MIN).
const LEAST_DELAY_NS: u64 = 40_000_000;
/// Cells of each publication.
const CELLS: usize = 48;

/// A host that refuses nothing but what the survey does.
fn host() -> Host {
    Host {
        congestion_available: vec!["cubic".to_owned()],
        ..Host::default()
    }
}

/// The study's publication: its first part, in either design. Where there is no veth, as without
/// root, over loopback.
fn plan(text: &str, as_published: bool, survey: &Survey) -> Plan {
    let mut study = Study::parse(text).unwrap();
    if as_published {
        study.choose_as_published().unwrap();
    }
    study.tiers.truncate(1);
    let first = study.cells()[0].1.clone();
    if survey.mover_refused("send", first.transport).is_some() {
        let loopback = Transport::Loopback.name().to_owned();
        study.set_axis(Axis::Transport, &[loopback]).unwrap();
    }
    let mut survey = survey.clone();
    // The host above has it, whatever this one has; trials then use the system's own.
    survey.congestion_controls = vec!["cubic".to_owned()];
    Plan::new(&study, &host(), &survey, 7).unwrap()
}

/// Windows in ms. On a busy machine nothing may move in a short one, and then a longer one is
/// opened.
const WINDOWS_MS: [u64; 4] = [10, 100, 1000, 10_000];

fn lab(window_ms: u64) -> Lab {
    let settings = Settings {
        program: Program::at(env!("CARGO_BIN_EXE_bytecost").as_ref()).unwrap(),
        warmup: Duration::from_millis(1),
        window: Duration::from_millis(window_ms),
        check: ContentCheck::Quick,
        port: None,
        foreign_cpus: f64::INFINITY,
        repeats_most: 0,
        repeats_for: Duration::ZERO,
        earlier: Duration::ZERO,
    };
    Lab::new(settings, MachineMeter::open(Path::new("/")))
}

/// A sample of the cell in which something moved.
fn measured(cell: &Cell) -> Sample {
    let mut cell = cell.clone();
    "default".clone_into(&mut cell.congestion);
    let trial = TrialKey {
        block: 0,
        cell: 0,
        attempt: 0,
    };
    for window_ms in WINDOWS_MS {
        match lab(window_ms).trial(trial, &cell, &AtomicBool::new(false)) {
            TrialOutcome::Ended(_, true) => {}
            TrialOutcome::Ended(record, false) => match record.timed().expect("nobody watches") {
                Ok(sample) => return sample,
                Err(failure) => panic!("{}: {}", failure.cell, failure.reason),
            },
            TrialOutcome::Interrupted => panic!("nobody interrupts"),
        }
    }
    panic!("{}: nothing moved in {WINDOWS_MS:?} ms", cell.id());
}

/// Measures every cell once.
fn check((name, text): (&str, &str), as_published: bool) {
    let plan = plan(
        text,
        as_published,
        &survey(&Host::default(), Transport::WITHIN),
    );
    assert_eq!(plan.refusals, [], "{name}");
    // The loop's own cost comes first.
    let cells = &plan.cells[1..];
    assert_eq!(cells.len(), CELLS, "{name}");
    for cell in cells {
        let sample = measured(cell);
        let (id, asks) = (cell.id(), cell.pattern == Pattern::Ask);
        for side in [&sample.sender, sample.receiver.as_ref().unwrap()] {
            // Theirs is the throughput of the first flow, so each is told by itself.
            assert_eq!(side.flows.len(), cell.threads as usize, "{id}");
            assert!(side.flows.iter().any(|f| f.bytes > 0 && f.elapsed_ns > 0));
        }
        if as_published
            && cell.mover == "send-fields"
            && cell.size_bytes <= MOST_STALLED_BYTES
            && asks
        {
            for flow in &sample.sender.flows {
                let stalls = flow.elapsed_ns / LEAST_DELAY_NS;
                assert!(flow.messages <= stalls + 3, "{id}: {flow:?}");
            }
        }
        let truth = sample.truth.unwrap();
        assert!(truth.received_bytes > 0 && truth.compared_bytes > 0, "{id}");
        assert_eq!(sample.latency_ns_histogram.is_some(), asks, "{id}");
    }
}

#[test]
fn each_cell_of_pa02_a_as_published_gives_a_sample() {
    check(STUDIES[0], true);
}

#[test]
fn each_cell_of_pa02_a_done_properly_gives_a_sample() {
    check(STUDIES[0], false);
}

#[test]
fn each_cell_of_pa02_b_as_published_gives_a_sample() {
    check(STUDIES[1], true);
}

#[test]
fn each_cell_of_pa02_b_done_properly_gives_a_sample() {
    check(STUDIES[1], false);
}

#[test]
fn the_budget_of_each_study_pays_for_every_cell() {
    let survey = survey(&Host::default(), Transport::WITHIN);
    for (name, text) in STUDIES {
        let study = Study::parse(text).unwrap();
        for tier in [&study.tiers[0], &study.as_published[0]] {
            assert_eq!(tier.size(), CELLS, "{name}: {}", tier.title);
        }
        let mut everywhere = survey.clone();
        for row in everywhere
            .movers
            .iter_mut()
            .chain(&mut everywhere.receivers)
        {
            row.refused = None;
        }
        everywhere.congestion_controls = vec!["cubic".to_owned()];
        let plan = Plan::new(&study, &host(), &everywhere, 7).unwrap();
        assert_eq!(plan.left_out, [], "{name}");
        assert_eq!(plan.notes, [""; 0], "{name}");
    }
}
