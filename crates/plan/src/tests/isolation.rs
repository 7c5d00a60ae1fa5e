//! Classes and control groups: had, refused, or without a meaning.

use bytecost_spec::axis::CellFacts;
use bytecost_spec::survey::{IsolationSupport, Route};
use bytecost_spec::{Class, Survey};

use super::{cell, host, mover, refuses, survey};
use crate::candidates::Norm;
use crate::refusal::refused;

/// A survey in which these were tried, each with why it is refused.
fn tried(rows: &[(&str, &str, Option<&str>)]) -> Survey {
    let mut survey = survey();
    survey.mover_facts.push(mover("work-integer", Route::Work));
    survey.isolation = (rows.iter())
        .map(|(class, cgroup, refused)| IsolationSupport {
            class: class.parse().unwrap(),
            cgroup: cgroup.parse().unwrap(),
            refused: refused.map(str::to_owned),
        })
        .collect();
    survey
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
    refuses(table, |axes| {
        let cell = cell(&format!("mover work-integer; {axes}"));
        refused(&cell, &host(), &survey)
    });
}

#[test]
fn a_server_keeps_the_usual_ones() {
    let served = cell("server epoll; class idle; cgroup weight=5");
    let normal = CellFacts::of(&served, &survey()).normal();
    assert_eq!(normal.class, Class::default());
    assert!(normal.cgroup.is_none());
}

#[test]
fn both_mean_something_to_every_mover() {
    let (study, host, survey) = (super::study(&[]), host(), tried(&[]));
    let norm = Norm::new(&study, &host, &survey, None);
    for mover in ["null", "work-integer", "send"] {
        let cell = cell(&format!(
            "mover {mover}; class batch:nice=3; cgroup weight=9"
        ));
        let same = norm.cell(&cell);
        assert_eq!(same.class, Class::Batch(3), "{mover}");
        assert_eq!(same.cgroup.weight, Some(9), "{mover}");
    }
}
