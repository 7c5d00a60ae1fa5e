//! The studies that set publications up again: their budgets pay for all of it, and each cell of
//! pa02-a and pa02-b, as published and as a careful program does it, gives a sample.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_host::{Probes, Roots};
use bytecost_lab::file_survey;
use bytecost_lab::files::Files;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::survey::survey;
use bytecost_lab::trial::Settings;
use bytecost_lab::{Lab, TrialOutcome};
use bytecost_meter::MachineMeter;
use bytecost_plan::Plan;
use bytecost_spec::survey::CpuClock;
use bytecost_spec::{Axis, Cell, Host, Pattern, Sample, Study, Survey, Transport, TrialKey};

const PA02_A: &str = include_str!("../../../studies/pa02-a.toml");
const PA02_B: &str = include_str!("../../../studies/pa02-b.toml");
const OS_FEATURES: &str = include_str!("../../../studies/os-features.toml");
/// The largest message that stalls in eight sends without TCP_NODELAY: its fields are smaller than
/// a segment of the loopback.
const MOST_STALLED_BYTES: u64 = 32 << 10;
/// How long the kernel delays an acknowledgement at least (TCP_DELACK_MIN).
const LEAST_DELAY_NS: u64 = 40_000_000;
/// Cells of either publication.
const CELLS: usize = 48;
/// Movers of the features of `os-features`.
const FEATURES: [&str; 5] = [
    "pread",
    "posix-aio",
    "work-integer",
    "sendfile-null",
    "read-null",
];

/// A host that refuses nothing but what the survey does.
fn host() -> Host {
    Host {
        congestion_available: vec!["cubic".to_owned()],
        ..Host::default()
    }
}

/// This machine.
fn here() -> Host {
    let probes = Probes {
        hardware_counters: Ok(()),
        io_uring: Ok(()),
        clock_resolution_ns: 1,
        timer_overshoot_ns: 0,
        cpu_clock: CpuClock::default(),
        obstacles: Vec::new(),
        unseen: Vec::new(),
    };
    bytecost_host::read(&Roots::real(), &probes)
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

/// Measures every cell of a study once.
fn check(text: &str, as_published: bool) {
    let plan = plan(
        text,
        as_published,
        &survey(&Host::default(), Transport::WITHIN),
    );
    assert_eq!(plan.refusals, []);
    // The loop's own cost comes first.
    let cells = &plan.cells[1..];
    assert_eq!(cells.len(), CELLS);
    for cell in cells {
        let sample = measured(cell);
        let (id, asks) = (cell.id(), cell.pattern == Pattern::Ask);
        for side in [&sample.sender, sample.receiver.as_ref().unwrap()] {
            // Theirs is the throughput of the first flow, so each is told by itself.
            assert_eq!(side.flows.len(), cell.threads as usize, "{id}");
            assert!(side.flows.iter().any(|f| f.bytes > 0 && f.elapsed_ns > 0));
        }
        let is_small = cell.mover == "send-fields" && cell.size_bytes <= MOST_STALLED_BYTES;
        if as_published && is_small && asks {
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
    check(PA02_A, true);
}

#[test]
fn each_cell_of_pa02_a_done_properly_gives_a_sample() {
    check(PA02_A, false);
}

#[test]
fn each_cell_of_pa02_b_as_published_gives_a_sample() {
    check(PA02_B, true);
}

#[test]
fn each_cell_of_pa02_b_done_properly_gives_a_sample() {
    check(PA02_B, false);
}

/// What works where everything does.
fn everywhere() -> Survey {
    let mut survey = survey(&Host::default(), Transport::WITHIN);
    for row in survey.movers.iter_mut().chain(&mut survey.receivers) {
        row.refused = None;
    }
    survey.congestion_controls = vec!["cubic".to_owned()];
    let mut files = Files::new(std::env::temp_dir(), None);
    let mut found = file_survey::survey(&mut files).unwrap();
    for row in &mut found.movers {
        row.refused = None;
    }
    survey.files = Some(found);
    survey
}

#[test]
fn the_budget_of_each_study_pays_for_every_cell() {
    let survey = everywhere();
    for (text, host) in [(PA02_A, host()), (PA02_B, host()), (OS_FEATURES, here())] {
        for as_published in [false, true] {
            let mut study = Study::parse(text).unwrap();
            if as_published {
                study.choose_as_published().unwrap();
            }
            let plan = Plan::new(&study, &host, &survey, 7).unwrap();
            assert_eq!(plan.left_out, [], "{}", study.name);
            if text == OS_FEATURES {
                assert!(study.budget_ms < 180_000);
                assert_eq!(plan.blocks_least, if as_published { 3 } else { 8 });
                let is_there = |mover: &&str| plan.cells.iter().any(|c| c.mover == *mover);
                assert!(FEATURES.iter().all(is_there), "{:?}", plan.cells);
            } else {
                assert_eq!(study.tiers[0].size(), CELLS, "{}", study.name);
            }
        }
    }
}
