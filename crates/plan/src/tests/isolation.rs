//! Classes and control groups: had, refused, or without a meaning.

use bytecost_spec::axis::CellFacts;
use bytecost_spec::survey::{IsolationSupport, Route};
use bytecost_spec::{Axis, Cell, Cgroup, Class, Host, Survey};

use super::{host, is_refused, rows, survey};
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
    let table = "|
        class idle; placement 0:1 |
        class fifo | it needs root
        class rr | it was not tried
        class deadline |
        class deadline; placement 0:1 | --placement free
        class deadline; cgroup cpuset | another --cgroup
        cgroup cpuset |
        cgroup cpuset; placement 0:1 | --placement free
        cgroup cpuset=9 | CPU 9 is not among
        cgroup max=50%; placement 0:1 |";
    for (axes, reason) in rows(table) {
        is_refused(&axes, refused(&cell(&axes), &host, &survey), reason);
    }
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
