//! Ping-pongs between pairs of CPUs, and work on huge pages.

use bytecost_host::pairs;
use bytecost_spec::host::{Cpu, CpuCache};
use bytecost_spec::{Axis, Host, Survey};

use super::{of_all_kinds, one, plan_on, refused, refuses};

/// A host with so many CPUs that share a cache, all of which may be used.
fn host(cpus: u32) -> Host {
    let cpu = |cpu| Cpu {
        cpu,
        siblings: vec![cpu],
        ..Cpu::default()
    };
    Host {
        cpus: (0..cpus).map(cpu).collect(),
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

#[test]
fn a_pair_of_cpus_is_a_cell_and_the_choice_of_pairs_has_a_note() {
    for (cpus, count, has_note) in [(2, 3, false), (8, 36, false), (64, 36, true)] {
        let host = host(cpus);
        let mut study = one("mover ping-cache-line ping-futex; placement pairs");
        study.compare[0].axis = Axis::Placement;
        study.compare[0].baseline = "pairs".into();
        assert!(study.asks_for_pairs());
        let chosen = pairs::choose(&host).unwrap();
        study.take_pairs(&chosen.placements(), &chosen.nearest());
        assert!(!study.asks_for_pairs());
        assert_eq!(study.compare[0].baseline, "0:1");
        study.budget_ms = 600_000;
        let plan = plan_on(&study, &host, &of_all_kinds());
        let diagonal = chosen.cpus.len();
        let cells_of = |mover: &str| plan.cells.iter().filter(|c| c.mover == mover).count();
        assert_eq!(cells_of("ping-futex"), count);
        assert_eq!(cells_of("ping-cache-line"), count - diagonal);
        assert_eq!(plan.refused.len(), diagonal, "spinning on one CPU");
        assert!(plan.refused.iter().all(|r| r.why.contains("they spin")));
        let mut notes = plan.notes.iter();
        let is_noted = notes.any(|n| n.starts_with("pairs: CPUs 0, 1, 2"));
        assert_eq!(is_noted, has_note, "{:?}", plan.notes);
        let mut pinged = plan.cells[1..].iter();
        let is_number = pinged.all(|c| c.size_bytes == 8);
        assert!(is_number, "a number, whatever the size");
    }
}

#[test]
fn threads_that_spin_need_two_cpus() {
    let survey = of_all_kinds();
    // With two threads the second pair of them is on CPUs 1 and 1.
    for (cpus, table) in [
        (
            4,
            "mover ping-cache-line; placement 0:1 |
            mover ping-cache-line; placement 1:1 | they spin
            mover ping-cache-line; placement same-cpu | they spin
            mover ping-cache-line; placement same-cache |
            mover ping-cache-line; placement 2 | they spin
            mover ping-cache-line; placement 2,3 |
            mover ping-cache-line; placement free |
            mover ping-cache-line; placement 0,1:2,1; threads 2 | they spin
            mover ping-futex; placement 1:1 |
            mover ping-futex; placement 0:9 | no CPU 9
            mover ping-futex; placement pairs | stands for several",
        ),
        (
            1,
            "mover ping-cache-line; placement free | they spin
            mover ping-futex; placement free |",
        ),
    ] {
        refuses(table, |axes| refused(axes, &host(cpus), &survey));
    }
}

#[test]
fn huge_pages_are_refused_with_the_reason_of_the_survey() {
    let mut survey = of_all_kinds();
    let work = |pages, surveyed: &Survey| {
        let axes = format!("mover work-chase; huge-pages {pages}");
        refused(&axes, &host(2), surveyed)
    };
    assert_eq!(work("on", &survey), None);
    survey.huge_pages_refused = Some("they are switched off".to_owned());
    let why = work("on", &survey).unwrap();
    assert_eq!(why, "huge pages: they are switched off");
    assert_eq!(work("off", &survey), None);
}
