//! The studies that set publications up again: their budgets pay for all of it.

use bytecost_host::{Probes, Roots};
use bytecost_lab::file_survey;
use bytecost_lab::files::Files;
use bytecost_lab::survey::survey;
use bytecost_plan::Plan;
use bytecost_spec::survey::CpuClock;
use bytecost_spec::{Host, Study, Survey, Transport};

const PA02_A: &str = include_str!("../../../studies/pa02-a.toml");
const PA02_B: &str = include_str!("../../../studies/pa02-b.toml");
const OS_FEATURES: &str = include_str!("../../../studies/os-features.toml");
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

/// This machine, which refuses no congestion control.
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
    Host {
        congestion_available: vec!["cubic".to_owned()],
        ..bytecost_host::read(&Roots::real(), &probes)
    }
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
    let host = here();
    for text in [PA02_A, PA02_B, OS_FEATURES] {
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
                assert_eq!(plan.refusals, [], "{}", study.name);
            }
        }
    }
}
