//! Isolation of work from background load, and effects of classes and quotas on wake-ups.

use bytecost_analysis::Analysis;
use bytecost_spec::survey::Route;
use bytecost_spec::{Cell, Class, Counter, Measure, Metric};
use itertools::Itertools as _;

use crate::world::{self, At, True, World, answered, latencies, says};

const STUDY: &str = world::study!(
    "isolation",
    r#"
[[tier]]
title = "classes"
[tier.axes]
mover = ["work-integer", "wake-up"]
class = ["other", "idle", "fifo"]
background = ["idle", "spin@all"]
size = ["4KiB"]

[[tier]]
title = "groups"
[tier.axes]
mover = ["work-integer", "wake-up"]
cgroup = ["none", "max=20%"]
background = ["idle", "spin@all"]
size = ["4KiB"]

[[compare]]
axis = "background"
baseline = "idle"
metrics = ["messages_per_s"]

[[compare]]
axis = "class"
baseline = "other"
metrics = ["messages_per_s", "latency_us_p99"]

[[compare]]
axis = "cgroup"
baseline = "none"
metrics = ["messages_per_s", "latency_us_p99"]
"#
);

fn analysed() -> Analysis {
    let rows = ["work-integer", "wake-up"].map(|name| (name, Route::Work));
    let mut world = World::of_rows(STUDY, &rows);
    let all = std::mem::take(&mut world.cells).into_iter();
    world.cells = all.unique().collect();
    // Only FIFO keeps its work under the background load.
    let truth = |cell: &Cell| True {
        gbit_per_s: match (cell.neighbour.is_idle(), cell.class) {
            (true, _) | (_, Class::Fifo) => 6.0,
            (_, Class::Idle) => 0.1,
            _ => 3.0,
        },
        ..True::costs(1.0)
    };
    world = world.run(7, 12, 0.01, truth);
    world.each(|sample| sample.receiver = None);
    world.by_cell(|cell, sample| {
        let us = match cell.class {
            Class::Fifo => 20.0,
            _ if cell.cgroup.quota_percent.is_some() => 50_000.0,
            _ if cell.neighbour.is_idle() => 80.0,
            _ => 4000.0,
        };
        if cell.mover == "wake-up" {
            sample.latency_ns_histogram = Some(latencies([us; 1000]));
        }
    });
    let has_quota = |c: &Cell| c.cgroup.quota_percent.is_some();
    let throttled = [(Counter::CgroupThrottledNs, 40_000_000)];
    world.put(has_quota, At::Machine, throttled);
    world.analyse()
}

#[test]
fn wake_ups_that_are_sooner_and_later_are_reported_with_what_a_quota_held_back() {
    let analysis = analysed();
    let words = [
        "Class fifo compared with class other in p99 latency, with `wake-up`",
        "better with background load idle and with background load spin@all",
    ];
    let found = answered(&analysis, "isolation-wakes", &words);
    let later = "Cgroup max=20% compared with cgroup none in p99 latency";
    assert!(found.answer.as_ref().unwrap().contains(later), "{found:#?}");
    assert_eq!(found.evidence.len(), 2);
    let held = "held it back for 40 % of the time";
    assert!(found.evidence[0].ends_with(held), "{:?}", found.evidence);
    let kept = answered(&analysis, "isolation-protects", &["with cgroup max=20%"]);
    says(&kept.evidence[0], ["a quota are limits as well"]);
}

#[test]
fn throttling_is_reported_of_a_quota_alone() {
    let analysis = analysed();
    for cell in &analysis.cells {
        let metric = Metric::both(Measure::ThrottledShare);
        let share = cell
            .estimates
            .get(&metric)
            .map(|e| (e.value * 100.0).round());
        let quota = cell.cell.cgroup.quota_percent;
        assert_eq!(share, quota.map(|_| 40.0), "{}", cell.id);
        assert_eq!(cell.absent.get(&metric), None);
    }
}
