//! Classes and control groups: had, refused, or without a meaning.

use bytecost_spec::axis::CellFacts;
use bytecost_spec::survey::{IsolationSupport, Route};
use bytecost_spec::{Axis, Cell, Cgroup, Class, Host, Survey};

use super::{host, survey};
use crate::candidates::Norm;
use crate::refusal::refused;

/// A survey in which these were tried, each with why it is refused.
fn tried(rows: &[(&str, &str, Option<&str>)]) -> Survey {
    let mut survey = survey();
    let mut work = survey.mover_facts[0].clone();
    work.name = "work-integer".to_owned();
    work.route = Route::Work;
    survey.mover_facts.push(work);
    survey.isolation = (rows.iter())
        .map(|(class, cgroup, refused)| IsolationSupport {
            class: class.parse().unwrap(),
            cgroup: cgroup.parse().unwrap(),
            refused: refused.map(str::to_owned),
        })
        .collect();
    survey
}

fn cell(changes: &[(Axis, &str)]) -> Cell {
    let mut cell = Cell {
        mover: "work-integer".to_owned(),
        ..Cell::default()
    };
    for (axis, value) in changes {
        cell.set(*axis, value).unwrap();
    }
    cell
}

#[test]
fn what_was_refused_or_cannot_go_together_is_refused_with_its_remedy() {
    let survey = tried(&[
        ("fifo", "none", Some("class fifo: it needs root")),
        ("idle", "none", None),
        ("deadline", "none", None),
        ("deadline", "cpuset", None),
        ("other", "cpuset", None),
        ("other", "cpuset=9", None),
        ("other", "max=50%", None),
    ]);
    let host = Host {
        cpus_allowed: vec![0, 1],
        ..host()
    };
    let (class, group) = (|text| (Axis::Class, text), |text| (Axis::Cgroup, text));
    let pinned = (Axis::Placement, "0:1");
    let check = |changes: &[(Axis, &str)], needle: Option<&str>| {
        let why = refused(&cell(changes), &host, &survey);
        match needle {
            None => assert_eq!(why, None, "{changes:?}"),
            Some(needle) => assert!(why.clone().unwrap().contains(needle), "{why:?}"),
        }
    };
    check(&[], None);
    check(&[class("idle"), pinned], None);
    check(&[class("fifo")], Some("it needs root"));
    check(&[class("rr")], Some("it was not tried"));
    check(&[class("deadline")], None);
    check(&[class("deadline"), pinned], Some("--placement free"));
    check(
        &[class("deadline"), group("cpuset")],
        Some("another --cgroup"),
    );
    check(&[group("cpuset")], None);
    check(&[group("cpuset"), pinned], Some("--placement free"));
    check(&[group("cpuset=9")], Some("CPU 9 is not among"));
    check(&[group("max=50%"), pinned], None);
}

#[test]
fn a_server_keeps_the_usual_ones() {
    let mut served = cell(&[(Axis::Server, "epoll"), (Axis::Class, "idle")]);
    served.cgroup = "weight=5".parse::<Cgroup>().unwrap();
    let normal = CellFacts::of(&served, &survey()).normal();
    assert_eq!(normal.class, Class::default());
    assert!(normal.cgroup.is_none());
}

#[test]
fn both_mean_something_to_every_mover() {
    let survey = tried(&[]);
    let study = super::study(&[]);
    let norm = Norm::new(&study, &host(), &survey, None);
    for mover in ["null", "work-integer", "send"] {
        let mut cell = cell(&[(Axis::Class, "batch:nice=3"), (Axis::Cgroup, "weight=9")]);
        cell.mover = mover.to_owned();
        let same = norm.cell(&cell);
        assert_eq!(same.class, Class::Batch(3), "{mover}");
        assert_eq!(same.cgroup.weight, Some(9), "{mover}");
    }
}
