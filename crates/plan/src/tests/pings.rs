//! Two threads that take turns, and memory in pages as asked: what a plan makes of them.

use bytecost_host::pairs;
use bytecost_spec::host::{Cpu, CpuCache};
use bytecost_spec::survey::{MoverFacts, Route};
use bytecost_spec::{Axis, Cell, Host, Study, Survey};

use super::{STUDY, survey};
use crate::Plan;

fn with_pings() -> Survey {
    let mut survey = survey();
    let like = survey.mover_facts[0].clone();
    let row = |name: &str, route| MoverFacts {
        name: name.to_owned(),
        route,
        ..like.clone()
    };
    survey.mover_facts.extend([
        row("null", Route::Nowhere),
        row("ping-cache-line", Route::PingPongSpinning),
        row("ping-futex", Route::PingPong),
        row("work-chase", Route::Work),
    ]);
    survey
}

/// So many CPUs behind one cache, on which everything may run.
fn host(cpus: u32) -> Host {
    Host {
        cpus: (0..cpus)
            .map(|cpu| Cpu {
                cpu,
                siblings: vec![cpu],
                ..Cpu::default()
            })
            .collect(),
        cpus_allowed: (0..cpus).collect(),
        caches: vec![CpuCache {
            level: 3,
            kind: "Unified".into(),
            size_bytes: 32 << 20,
            shared_by: (0..cpus).collect(),
        }],
        ..Host::default()
    }
}

fn study(axes: &[(Axis, &[&str])]) -> Study {
    let mut study = Study::parse(STUDY).unwrap();
    study.compare[0].axis = Axis::Placement;
    study.compare[0].baseline = "pairs".to_owned();
    for axis in [Axis::Transport, Axis::Mover, Axis::Size, Axis::Threads] {
        study
            .set_axis(axis, &[Cell::default().value(axis)])
            .unwrap();
    }
    for (axis, values) in axes {
        study.set_axis(*axis, values).unwrap();
    }
    study
}

#[test]
fn pairs_are_cells_of_two_cpus_each_and_the_choice_is_told() {
    let movers: &[&str] = &["ping-cache-line", "ping-futex"];
    for (cpus, count, is_told) in [(2, 3, false), (8, 36, false), (64, 36, true)] {
        let host = host(cpus);
        let mut study = study(&[(Axis::Mover, movers), (Axis::Placement, &["pairs"])]);
        assert!(study.asks_for_pairs());
        let chosen = pairs::chosen(&host).unwrap();
        study.take_pairs(&chosen.placements(), &chosen.nearest());
        assert!(!study.asks_for_pairs());
        assert_eq!(study.compare[0].baseline, "0:1");
        study.budget_ms = 600_000;
        let plan = Plan::new(&study, &host, &with_pings(), 1).unwrap();
        let diagonal = chosen.cpus.len();
        let of = |mover: &str| plan.cells.iter().filter(|c| c.mover == mover).count();
        assert_eq!(
            (of("ping-futex"), of("ping-cache-line")),
            (count, count - diagonal)
        );
        assert_eq!(plan.refusals.len(), diagonal, "spinning on one CPU");
        assert!(plan.refusals.iter().all(|r| r.why.contains("they spin")));
        let told = plan
            .notes
            .iter()
            .any(|n| n.starts_with("pairs: CPUs 0, 1, 2"));
        assert_eq!(told, is_told, "{:?}", plan.notes);
        assert!(
            plan.cells[1..].iter().all(|c| c.size_bytes == 8),
            "a number, whatever the size"
        );
    }
}

/// Why the one cell is refused; none where it is planned.
fn refused(axes: &[(Axis, &[&str])], cpus: u32, survey: &Survey) -> Option<String> {
    let plan = Plan::new(&study(axes), &host(cpus), survey, 1).unwrap();
    plan.refusals.into_iter().next().map(|r| r.why)
}

#[test]
fn who_spins_needs_two_cpus() {
    let survey = with_pings();
    for (mover, placement, cpus, expected) in [
        ("ping-cache-line", "0:1", 4, false),
        ("ping-cache-line", "1:1", 4, true),
        ("ping-cache-line", "same-cpu", 4, true),
        ("ping-cache-line", "same-cache", 4, false),
        ("ping-cache-line", "2", 4, true),
        ("ping-cache-line", "2,3", 4, false),
        ("ping-cache-line", "free", 4, false),
        ("ping-cache-line", "free", 1, true),
        // The second pair of threads is on CPUs 1 and 1.
        ("ping-cache-line", "0,1:2,1", 4, true),
        ("ping-futex", "1:1", 4, false),
        ("ping-futex", "free", 1, false),
        ("ping-futex", "0:9", 4, true),
        ("ping-futex", "pairs", 4, true),
    ] {
        let threads = if placement == "0,1:2,1" { "2" } else { "1" };
        let axes: &[(Axis, &[&str])] = &[
            (Axis::Mover, &[mover]),
            (Axis::Placement, &[placement]),
            (Axis::Threads, &[threads]),
        ];
        let why = refused(axes, cpus, &survey);
        assert_eq!(why.is_some(), expected, "{mover} {placement}: {why:?}");
    }
}

#[test]
fn huge_pages_are_refused_with_the_reason_that_was_found() {
    let mut survey = with_pings();
    let work = |pages| [(Axis::Mover, &["work-chase"][..]), (Axis::HugePages, pages)];
    let on: &[&str] = &["on"];
    assert_eq!(refused(&work(on), 2, &survey), None);
    survey.huge_pages_refused = Some("they are switched off".to_owned());
    let why = refused(&work(on), 2, &survey).unwrap();
    assert_eq!(why, "huge pages: they are switched off");
    assert_eq!(refused(&work(&["off"]), 2, &survey), None);
    // What does not work on memory is the same measurement in any pages.
    for mover in ["send", "ping-futex"] {
        let axes: &[(Axis, &[&str])] =
            &[(Axis::Mover, &[mover]), (Axis::HugePages, &["auto", "on"])];
        let plan = Plan::new(&study(axes), &host(2), &survey, 1).unwrap();
        assert!(plan.refusals.is_empty());
        assert_eq!(plan.cells.iter().filter(|c| c.mover == mover).count(), 1);
    }
}
